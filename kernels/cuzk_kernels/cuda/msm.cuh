// The steps of a multi-scalar multiplication that one thread runs, on the host or on a GPU.
//
// Pippenger's method with signed digits. The scalar s is replaced by r - s (and the point by its negative)
// above r/2, so that the digits of a scalar of b bits fit in ceil(b / c) windows of c bits without a carry
// out of the top one. Digit d of a window goes to bucket |d| - 1 of 2^(c-1).
//
// The entries of one window are sorted by bucket; an entry is (point index << 1) | sign. Work is cut by
// points, not by buckets: a piece may begin or end inside a bucket, so that one bucket that holds nearly
// every point (a witness of ones) is shared out like any other.
#pragma once

#include <cstring>

#include "curve.cuh"

namespace cuzk {

inline constexpr int max_window_bits = 15;  // so that a digit's code has 16 bits
inline constexpr uint16_t no_digit = 0xffff;

CUZK_HD constexpr int window_count(int scalar_bits, int c) { return (scalar_bits + c - 1) / c; }

// The digit codes ((|d| - 1) << 1) | sign of one scalar, least significant window first; no_digit for d = 0.
// Any 256-bit scalar will do: it is reduced modulo r first. Codes lie `stride` apart.
template <class R>
CUZK_HD void recode(const u64* scalar, int c, int windows, uint16_t* codes, size_t stride) {
  const Limbs<4> r = R::modulus();
  u64 s[5] = {scalar[0], scalar[1], scalar[2], scalar[3], 0};
  u32 sign = 0;
  if (s[3] >= r.v[3] / 2) {
    for (;;) {
      u64 t[4], borrow = 0;
      for (int i = 0; i < 4; ++i) {
        const u128 d = (u128)s[i] - r.v[i] - borrow;
        t[i] = (u64)d;
        borrow = (u64)(d >> 64) & 1;
      }
      if (borrow) {  // t = s - r < 0: take -t when it is below s
        u64 m[4], carry = 1;
        for (int i = 0; i < 4; ++i) {
          m[i] = ~t[i] + carry;
          carry = carry && m[i] == 0;
        }
        bool below = false;
        for (int i = 0; i < 4; ++i) below = m[i] != s[i] ? m[i] < s[i] : below;
        if (below) {
          for (int i = 0; i < 4; ++i) s[i] = m[i];
          sign = 1;
        }
        break;
      }
      for (int i = 0; i < 4; ++i) s[i] = t[i];
    }
  }
  const u32 base = 1u << c, half = base >> 1;
  u32 carry = 0;
  for (int w = 0; w < windows; ++w) {
    const int at = w * c, word = at >> 6, bit = at & 63;
    u64 raw = word < 4 ? s[word] >> bit : 0;
    if (bit + c > 64 && word < 4) raw |= s[word + 1] << (64 - bit);
    u32 d = (u32)(raw & (base - 1)) + carry, flip = sign;
    carry = 0;
    if (d >= half && w + 1 < windows) {
      d = base - d;
      flip ^= 1;
      carry = 1;
    }
    codes[w * stride] = d == 0 ? no_digit : (uint16_t)(((d - 1) << 1) | flip);
  }
}

template <class F>
CUZK_HD Affine<F> load_point(const unsigned char* points, size_t i) {
  Affine<F> p;
  memcpy(&p, points + i * sizeof p, sizeof p);  // a file section begins at any byte
  return p;
}

// The bucket that entry `at` lies in: the last whose first entry is not behind it.
CUZK_HD inline u32 bucket_at(const u32* offsets, u32 buckets, u32 at) {
  u32 low = 0, high = buckets;  // offsets[low] <= at < offsets[high]
  while (high - low > 1) {
    const u32 middle = (low + high) / 2;
    if (offsets[middle] <= at) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

inline constexpr u32 no_bucket = 0xffffffff;

// The sum of the entries a piece holds of the bucket it begins inside of.
template <class B>
struct Head {
  B sum;
  u32 bucket;  // no_bucket where the piece begins at a bucket's first entry
};

// Sums entries [begin, end) of a window bucket by bucket. Buckets that begin in the piece are written,
// those without entries are not touched; the rest of an earlier one goes to `head`.
template <class F>
CUZK_HD void accumulate_piece(const unsigned char* points, const u32* entries, const u32* offsets, u32 buckets,
                              u32 begin, u32 end, Xyzz<F>* sums, Head<Xyzz<F>>* head) {
  head->bucket = no_bucket;
  u32 at = begin;
  for (u32 b = bucket_at(offsets, buckets, begin); at < end; ++b) {
    const u32 last = offsets[b + 1] < end ? offsets[b + 1] : end;
    if (at == last) continue;
    const bool inside = offsets[b] < at;
    Xyzz<F> sum = Xyzz<F>::infinity();
    for (; at < last; ++at) {
#if !defined(__CUDA_ARCH__)
      if (at + 8 < end) __builtin_prefetch(points + (size_t)(entries[at + 8] >> 1) * sizeof(Affine<F>));
#endif
      const Affine<F> p = load_point<F>(points, entries[at] >> 1);
      sum.add((entries[at] & 1) != 0 ? -p : p);
    }
    if (inside) {
      head->sum = sum;
      head->bucket = b;
    } else {
      sums[b] = sum;
    }
  }
}

// For buckets [begin, end): total = sum of B_k, weighted = sum of (k - begin + 1) B_k.
template <class F>
CUZK_HD void reduce_segment(const Xyzz<F>* sums, const u32* offsets, u32 begin, u32 end, Xyzz<F>* total,
                            Xyzz<F>* weighted) {
  Xyzz<F> running = Xyzz<F>::infinity(), acc = Xyzz<F>::infinity();
  for (u32 k = end; k-- > begin;) {
    if (offsets[k] != offsets[k + 1]) running.add(sums[k]);
    acc.add(running);
  }
  *total = running;
  *weighted = acc;
}

// The window's sum from its segments of 2^log_length buckets each: sum of weighted_j + j 2^log_length total_j.
template <class F>
CUZK_HD Xyzz<F> join_segments(const Xyzz<F>* total, const Xyzz<F>* weighted, int segments, int log_length) {
  Xyzz<F> running = Xyzz<F>::infinity(), acc = Xyzz<F>::infinity();
  for (int j = segments - 1; j > 0; --j) {
    running.add(total[j]);
    acc.add(running);
  }
  for (int i = 0; i < log_length; ++i) acc = acc.doubled();
  for (int j = 0; j < segments; ++j) acc.add(weighted[j]);
  return acc;
}

// sum of 2^(c w) * windows[w].
template <class F>
CUZK_HD Xyzz<F> horner(const Xyzz<F>* windows, int count, int c) {
  Xyzz<F> acc = Xyzz<F>::infinity();
  for (int w = count - 1; w >= 0; --w) {
    for (int i = 0; i < c; ++i) acc = acc.doubled();
    acc.add(windows[w]);
  }
  return acc;
}

}  // namespace cuzk
