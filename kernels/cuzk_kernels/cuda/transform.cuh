// Number-theoretic transforms on a GPU, in passes of up to 2^10 values in shared memory.
//
// A vector of N = 2^log values is a matrix of 2^k rows and m columns: transforms of 2^k down the columns,
// multiplication of row i, column j by w_N^(j rev(i)), and the same for each row, which is a vector of m values
// (decimation in frequency: natural to bit-reversed order; Gentleman and Sande 1966, passes as in Bailey 1990).
// The way back runs the steps backwards (decimation in time). Within a pass the same recursion goes on with
// transforms of 8 (the first one 2 or 4) in registers. 1/n and the coset's powers are folded into the factors
// between passes. A block works on several columns, neighbours in memory wherever m allows.
#pragma once

#include "sort.cuh"

namespace cuzk {
namespace {

constexpr u32 log_roots = 10;  // roots[x] = w^x, x < 2^log_roots, w of order 2^log_roots

struct Pass {
  u32 log, log_size, log_stride, log_columns;  // of the vector; of the pass: 2^k, m, columns of a block
  u32 first_column;

  // Where value i of a column of this block lies.
  CUZK_DEVICE u32 address(u32 i, u32 column) const {
    const u32 q = first_column + column, outer = q >> log_stride, j = q & ((1u << log_stride) - 1);
    return (((outer << log_size) + i) << log_stride) + j;
  }
  // With columns side by side in memory threads take neighbouring columns, else neighbouring values.
  CUZK_DEVICE bool columns_first() const { return log_stride >= log_columns; }
  CUZK_DEVICE u32 place(u32 i, u32 column) const {
    const u32 e = columns_first() ? (i << log_columns) + column : (column << log_size) + i;
    return e + (e >> 3);  // a gap every eighth: strided accesses fall into different banks
  }
  CUZK_DEVICE u32 plane() const {
    const u32 total = 1u << (log_size + log_columns);
    return total + (total >> 3);
  }
};

// Words of a value lie `plane` apart in shared memory.
CUZK_DEVICE Fr load_shared(const u32* shared, u32 plane, u32 at) {
  Fr r;
#pragma unroll
  for (int k = 0; k < Fr::N; ++k) r.v[k] = shared[k * plane + at];
  return r;
}
CUZK_DEVICE void store_shared(const Fr& value, u32* shared, u32 plane, u32 at) {
#pragma unroll
  for (int k = 0; k < Fr::N; ++k) shared[k * plane + at] = value.v[k];
}

CUZK_DEVICE Fr root(const u32* roots, u32 exponent, u32 log_order) {
  return Fr::load(roots + (exponent << (log_roots - log_order)) * Fr::N);
}

CUZK_DEVICE constexpr u32 reversed(u32 x, u32 bits) {
  u32 r = 0;
  for (u32 i = 0; i < bits; ++i) r |= ((x >> i) & 1) << (bits - 1 - i);
  return r;
}

// Transforms of 2, 4 or 8 values: natural to bit-reversed order, and back.
template <u32 log_radix>
CUZK_DEVICE void butterflies_down(Fr* x, const u32* roots) {
#pragma unroll
  for (u32 stage = 0; stage < log_radix; ++stage) {
    const u32 half = 1u << (log_radix - 1 - stage);
#pragma unroll
    for (u32 q = 0; q < (1u << log_radix); ++q) {
      if ((q & half) != 0) continue;
      const Fr a = x[q], b = x[q + half];
      const u32 k = q & (half - 1);
      x[q] = a + b;
      x[q + half] = a - b;
      if (k != 0) x[q + half] = x[q + half] * root(roots, k, log_radix - stage);
    }
  }
}
template <u32 log_radix>
CUZK_DEVICE void butterflies_up(Fr* x, const u32* roots) {
#pragma unroll
  for (u32 stage = log_radix; stage-- > 0;) {
    const u32 half = 1u << (log_radix - 1 - stage);
#pragma unroll
    for (u32 q = 0; q < (1u << log_radix); ++q) {
      if ((q & half) != 0) continue;
      const u32 k = q & (half - 1);
      Fr b = x[q + half];
      if (k != 0) b = b * root(roots, k, log_radix - stage);
      const Fr a = x[q];
      x[q] = a + b;
      x[q + half] = a - b;
    }
  }
}

// One step of a pass: transforms of 2^log_radix within blocks of 2^log_block values of each column. The first
// step reads the vector itself, the last writes it.
template <u32 log_radix, bool down>
CUZK_DEVICE void step(const Pass& pass, u32 log_block, bool from_vector, bool to_vector, u32* data, const u32* factors,
                      u32 factor_mask, const u32* roots, u32* shared) {
  constexpr u32 radix = 1u << log_radix;
  const u32 log_spread = log_block - log_radix, plane = pass.plane();
  const u32 log_each = pass.log_size - log_radix;  // transforms of one column
  for (u32 b = threadIdx.x; b < 1u << (log_each + pass.log_columns); b += blockDim.x) {
    const bool columns_first = pass.columns_first();
    const u32 column = columns_first ? b & ((1u << pass.log_columns) - 1) : b >> log_each;
    const u32 t = columns_first ? b >> pass.log_columns : b & ((1u << log_each) - 1);
    const u32 j = t & ((1u << log_spread) - 1), first = (t >> log_spread << log_block) + j;
    Fr x[radix];
#pragma unroll
    for (u32 q = 0; q < radix; ++q) {
      const u32 i = first + (q << log_spread);
      if (from_vector) {
        const u32 at = pass.address(i, column);
        x[q] = Fr::load(data + size_t(at) * Fr::N);
        if (!down && factors != nullptr) x[q] = x[q] * Fr::load(factors + size_t(at & factor_mask) * Fr::N);
      } else {
        x[q] = load_shared(shared, plane, pass.place(i, column));
      }
    }
    if (down) butterflies_down<log_radix>(x, roots);
    if (log_spread > 0) {
#pragma unroll
      for (u32 q = 1; q < radix; ++q) x[q] = x[q] * root(roots, j * reversed(q, log_radix), log_block);
    }
    if (!down) butterflies_up<log_radix>(x, roots);
#pragma unroll
    for (u32 q = 0; q < radix; ++q) {
      const u32 i = first + (q << log_spread);
      if (to_vector) {
        const u32 at = pass.address(i, column);
        if (down && factors != nullptr) x[q] = x[q] * Fr::load(factors + size_t(at & factor_mask) * Fr::N);
        x[q].store(data + size_t(at) * Fr::N);
      } else {
        store_shared(x[q], shared, plane, pass.place(i, column));
      }
    }
  }
  __syncthreads();
}

template <bool down>
CUZK_DEVICE void run_pass(u32* data, const u32* factors, u32 factor_mask, const u32* roots, u32 log, u32 log_size,
                          u32 log_stride, u32 log_columns) {
  CUZK_SHARED(u32, shared);
  const Pass pass{log, log_size, log_stride, log_columns, blockIdx.x << log_columns};
  const u32 odd = log_size % 3, steps = log_size / 3 + (odd != 0 ? 1 : 0);
  for (u32 s = 0; s < steps; ++s) {
    const u32 level = down ? s : steps - 1 - s;  // 0: the whole column
    const bool short_step = odd != 0 && level == 0;
    const u32 log_block = odd == 0 ? log_size - 3 * level : level == 0 ? log_size : log_size - odd - 3 * (level - 1);
    const bool from = s == 0, to = s == steps - 1;
    if (!short_step) {
      step<3, down>(pass, log_block, from, to, data, factors, factor_mask, roots, shared);
    } else if (odd == 2) {
      step<2, down>(pass, log_block, from, to, data, factors, factor_mask, roots, shared);
    } else {
      step<1, down>(pass, log_block, from, to, data, factors, factor_mask, roots, shared);
    }
  }
}

}  // namespace

// A pass of the way down multiplies by factors[address & factor_mask] at its end, one of the way up at its start.
CUZK_KERNEL CUZK_BOUNDS(256, 2) transform_down(u32* data, const u32* factors, u32 factor_mask, const u32* roots, u32 log,
                                               u32 log_size, u32 log_stride, u32 log_columns) {
  run_pass<true>(data, factors, factor_mask, roots, log, log_size, log_stride, log_columns);
}
CUZK_EXPORT(transform_down)

CUZK_KERNEL CUZK_BOUNDS(256, 2) transform_up(u32* data, const u32* factors, u32 factor_mask, const u32* roots, u32 log,
                                             u32 log_size, u32 log_stride, u32 log_columns) {
  run_pass<false>(data, factors, factor_mask, roots, log, log_size, log_stride, log_columns);
}
CUZK_EXPORT(transform_up)

// out[x] = scale * w^e(x), from w^(2^b) for every bit b. e(x) is the product of x's low log_low bits and the
// others reversed; with log_low = 0 that is bit reversal, with log_low = 32 x itself.
CUZK_KERNEL powers(u32* out, u32 log, const u32* squares, const u32* scale, u32 log_low) {
  for (u32 x = thread_index(); x < 1u << log; x += thread_total()) {
    u32 e = x;
    if (log_low < 32) {
      const u32 high = log - log_low;
      u32 row = 0;
      for (u32 i = 0; i < high; ++i) row |= ((x >> (log_low + i)) & 1) << (high - 1 - i);
      e = log_low == 0 ? row : row * (x & ((1u << log_low) - 1));
    }
    Fr value = Fr::load(scale);
    for (u32 bit = 0; e != 0; ++bit, e >>= 1)
      if ((e & 1) != 0) value = value * Fr::load(squares + bit * Fr::N);
    value.store(out + size_t(x) * Fr::N);
  }
}
CUZK_EXPORT(powers)

// Exchanges value i and the one whose index has i's bits reversed.
CUZK_KERNEL reorder(u32* data, u32 log) {
  for (u32 i = thread_index(); i < 1u << log; i += thread_total()) {
    u32 j = 0;
    for (u32 bit = 0; bit < log; ++bit) j |= ((i >> bit) & 1) << (log - 1 - bit);
    if (i >= j) continue;
    const Fr a = Fr::load(data + size_t(i) * Fr::N), b = Fr::load(data + size_t(j) * Fr::N);
    b.store(data + size_t(i) * Fr::N);
    a.store(data + size_t(j) * Fr::N);
  }
}
CUZK_EXPORT(reorder)

}  // namespace cuzk
