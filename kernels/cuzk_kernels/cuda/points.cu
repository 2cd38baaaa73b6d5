// Kernels over the points of one group: bucket sums and their reduction, checks, multiples of one point.
//
// A "unit" is what holds one point: a thread in G1, a pair of lanes in G2 (pair.cuh). Loops whose length differs
// between units run while F::any of the warp has work, so that the lanes of every pair stay together.
#include <type_traits>

#include "sums.cuh"
#include "unit.cuh"

namespace cuzk {
namespace {

#if CUZK_GROUP == 1
template <bool inlined>
using Coordinate = Word32<UnitCurve::Fq::Params, inlined>;
#else
template <bool inlined>
using Coordinate = Pair<Word32<UnitCurve::Fq::Params, inlined>>;
#endif
using Hot = Coordinate<CUZK_GROUP == 1>;  // in G2 calls are quicker: expanded, an addition outgrows the caches
using Cold = Coordinate<false>;
constexpr u32 accumulate_blocks = CUZK_GROUP == 1 ? 2 : 3;  // a multiprocessor: ACCUMULATE_BLOCKS in gpu_msm.py
constexpr u32 reduce_blocks = 2;  // REDUCE_BLOCKS in gpu_msm.py
constexpr u32 units_per_warp = warp_lanes / Hot::lanes;

CUZK_DEVICE u32 unit_in_block() { return threadIdx.x / Hot::lanes; }
CUZK_DEVICE u32 units_in_block() { return blockDim.x / Hot::lanes; }
CUZK_DEVICE u32 unit_index() { return thread_index() / Hot::lanes; }
CUZK_DEVICE u32 unit_total() { return thread_total() / Hot::lanes; }

// The sum over a block, in its first unit; units from `terms` on hold infinity. shared has room for half as many sums
// as the block has units.
template <class F>
CUZK_DEVICE void sum_block(Xyzz<F>& s, u32* shared, u32 terms) {
  const u32 me = unit_in_block();
  u32 half = units_in_block() / 2;
  while (half >= terms && half > 0) half /= 2;
  for (; half > 0; half /= 2) {
    if (me >= half && me < 2 * half) store_sum(s, shared + (me - half) * sum_words<F>);
    __syncthreads();
    const bool active = me < half;
    if (warp_any(active)) {
      const Xyzz<F> o = load_sum<F>(shared + (active ? me : 0) * sum_words<F>);
      add_sum(s, o, active);
    }
    __syncthreads();
  }
}

}  // namespace

// Asks for a point ahead of its load, without a register to wait in.
CUZK_DEVICE void prefetch(const u32* at) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L1 [%0];" ::"l"(at));
  asm volatile("prefetch.global.L1 [%0];" ::"l"(at + affine_words<Hot> - 1));
#endif
}

// sums[target] = the sum of each segment's points, and what sums[target] was for targets below `resumed`. Warps
// take the next segments, longest first, off a counter.
CUZK_KERNEL CUZK_BOUNDS(128, accumulate_blocks) accumulate(const u32* points, const u32* entries,
                                                                const Segment* segments, u32* counters, u32 resumed,
                                                                u32* sums) {
  const u32 total = counters[segment_count];
  const u32 unit = threadIdx.x % warp_lanes / Hot::lanes;
  for (;;) {
    u32 base = 0;
    if (threadIdx.x % warp_lanes == 0) base = atomicAdd(counters + next_segment, units_per_warp);
    base = warp_broadcast(base);
    if (base >= total) return;
    const bool mine = base + unit < total;
    const Segment segment = segments[mine ? base + unit : total - 1];
    u32 length = mine ? segment.length : 1;
    const u32* list = entries + segment.begin;
    u32 entry = list[0];
    Affine<Hot> p = load_affine<Hot>(points + size_t(entry >> 1) * affine_words<Hot>);
    Xyzz<Hot> s{p.x, p.y.negated_if(entry & 1), Hot::one(), Hot::one()};
    if (resumed != 0) {
      const bool old = mine && segment.target < resumed;
      const Xyzz<Hot> before = load_sum<Hot>(sums + size_t(old ? segment.target : 0) * sum_words<Hot>);
      const bool nothing = before.zz.is_zero();
      if (old && !nothing) {  // then the first point is one to add
        list -= 1;
        length += 1;
      }
      s = select(old && !nothing, before, s);
    }
    entry = list[length > 1 ? 1 : 0];
    p = load_affine<Hot>(points + size_t(entry >> 1) * affine_words<Hot>);
    for (u32 i = 1; Hot::any(i < length); ++i) {
      const u32 following = list[i + 1 < length ? i + 1 : length - 1];
      const u32* following_point = points + size_t(following >> 1) * affine_words<Hot>;
      p.y = p.y.negated_if(entry & 1);
      if constexpr (Hot::lanes == 1) {
        const Affine<Hot> next = load_affine<Hot>(following_point);
        add_point(s, p, i < length);
        p = next;
      } else {
        prefetch(following_point);
        add_point(s, p, i < length);
        p = load_affine<Hot>(following_point);
      }
      entry = following;
    }
    if (mine) store_sum(s, sums + size_t(segment.target) * sum_words<Hot>);
  }
}
CUZK_EXPORT(accumulate)

// Adds the few further partial sums of a bucket to its first.
CUZK_KERNEL CUZK_BOUNDS(128, 2) merge_small(const Segment* buckets, const u32* counters, u32* sums) {
  const u32 total = counters[small_count];
  for (u32 k = unit_index(); Cold::any(k < total); k += unit_total()) {
    const bool mine = k < total;
    const Segment bucket = buckets[mine ? k : 0];
    u32* target = sums + size_t(bucket.target) * sum_words<Cold>;
    Xyzz<Cold> s = load_sum<Cold>(target);
    for (u32 i = 0; Cold::any(mine && i < bucket.length); ++i) {
      const bool active = mine && i < bucket.length;
      add_sum(s, load_sum<Cold>(sums + size_t(bucket.begin + (active ? i : 0)) * sum_words<Cold>), active);
    }
    if (mine) store_sum(s, target);
  }
}
CUZK_EXPORT(merge_small)

// A block's part of partial sums: [begin, begin + length), every stride-th, plus what is at target already.
CUZK_DEVICE void merge_run(u32* sums, u32 begin, u32 length, u32 stride, u32 target, bool with_target) {
  CUZK_SHARED(u32, shared);
  u32 i = unit_in_block();
  Xyzz<Cold> s = load_sum<Cold>(sums + size_t(begin + (i < length ? i : 0) * stride) * sum_words<Cold>);
  s = select(i < length, s, infinite_sum<Cold>());
  for (i += units_in_block(); Cold::any(i < length); i += units_in_block()) {
    const bool active = i < length;
    add_sum(s, load_sum<Cold>(sums + size_t(begin + (active ? i : 0) * stride) * sum_words<Cold>), active);
  }
  sum_block(s, shared, length);
  if (warp_any(unit_in_block() == 0)) {
    u32* at = sums + size_t(target) * sum_words<Cold>;
    if (with_target) add_sum(s, load_sum<Cold>(at), true);
    if (unit_in_block() == 0) store_sum(s, at);
  }
}

// The sum of each chunk: to its bucket where there is only one, else to the chunk's first place, for merge_big.
CUZK_KERNEL CUZK_BOUNDS(128, 2) merge_chunks(const Segment* chunks, const u32* counters, u32* sums) {
  for (u32 k = blockIdx.x; k < counters[chunk_count]; k += gridDim.x) {
    __syncthreads();
    const bool whole = chunks[k].pieces == 1;
    merge_run(sums, chunks[k].begin, chunks[k].length, 1, whole ? chunks[k].target : chunks[k].begin, whole);
  }
}
CUZK_EXPORT(merge_chunks)

CUZK_KERNEL CUZK_BOUNDS(128, 2) merge_big(const Segment* buckets, const u32* counters, u32* sums) {
  for (u32 k = blockIdx.x; k < counters[big_count]; k += gridDim.x) {
    __syncthreads();
    const u32 chunks = (buckets[k].length + chunk_length - 1) / chunk_length;
    merge_run(sums, buckets[k].begin, chunks, chunk_length, buckets[k].target, true);
  }
}
CUZK_EXPORT(merge_big)

// One chunk of 2^(log_length + log_runs) buckets a block, cut into 2^log_runs runs. Rows of totals: the runs' sums
// weighted 1, 2, ... within each run; for each bit b below log_runs the sum of the runs whose number has it; the
// sum of all. Found by folding: the upper half of the sums, added to the lower one, stays where it is as the first
// terms of its bit's sum, which later steps fold as well. At most two additions a bucket.
CUZK_KERNEL CUZK_BOUNDS(128, reduce_blocks) reduce_runs(const u32* sums, u32 log_length, u32 log_runs, u32* totals) {
  CUZK_SHARED(u32, shared);
  const u32 runs = 1u << log_runs, length = 1u << log_length, rows = log_runs + 2;
  const u32* chunk = sums + (size_t(blockIdx.x) << (log_length + log_runs)) * sum_words<Cold>;
  for (u32 k = unit_in_block(); Cold::any(k < runs); k += units_in_block()) {
    const bool mine = k < runs;
    const u32* first = chunk + (size_t(mine ? k : 0) << log_length) * sum_words<Cold>;
    Xyzz<Cold> running = load_sum<Cold>(first + size_t(length - 1) * sum_words<Cold>), weighted = running;
    for (u32 i = length - 1; i-- > 0;) {
      add_sum(running, load_sum<Cold>(first + size_t(i) * sum_words<Cold>), true);
      add_sum(weighted, running, true);
    }
    if (mine) {
      store_sum(running, shared + k * sum_words<Cold>);
      store_sum(weighted, shared + (runs + k) * sum_words<Cold>);
    }
  }
  u32 vectors = 2;  // of 2 half sums each: all runs at 0, the weighted ones at `runs`, bits at their own value
  for (u32 half = runs / 2; half > 0; half /= 2, ++vectors) {
    __syncthreads();
    const u32 additions = vectors * half;
    for (u32 k = unit_in_block(); Cold::any(k < additions); k += units_in_block()) {
      const bool mine = k < additions;
      const u32 vector = mine ? k / half : 0;
      u32* low = shared + ((vector == 1 ? 0 : runs >> (vector == 0 ? 0 : vector - 1)) + k % half) * sum_words<Cold>;
      const u32* high = low + half * sum_words<Cold>;
      Xyzz<Cold> s = load_sum<Cold>(mine ? low : high);  // idle lanes read nothing that is written meanwhile
      add_sum(s, load_sum<Cold>(high), true);
      if (mine) store_sum(s, low);
    }
  }
  __syncthreads();
  u32* out = totals + size_t(blockIdx.x) * rows * sum_words<Cold>;
  for (u32 i = threadIdx.x; i < rows * sum_words<Cold>; i += blockDim.x) {
    const u32 row = i / sum_words<Cold>, at = row == 0 ? runs : row > log_runs ? 0 : 1u << (row - 1);
    out[i] = shared[at * sum_words<Cold> + i % sum_words<Cold>];
  }
}
CUZK_EXPORT(reduce_runs)

// Block (row, w): a row of the chunks of window w added up, rows as above but for the last; then, for each bit of a
// chunk's number, the sum of all over the chunks that have it. sum over runs j of j T_j = sum over b of 2^b (sum
// over j with bit b of T_j), so that what is left are a few dozen points with a power of two each, for the host.
// Nothing where a window has no such bit.
CUZK_KERNEL CUZK_BOUNDS(128, reduce_blocks) reduce_bits(const u32* totals, u32 bits, u32 wide, u32 log_chunk,
                                                        u32 log_runs, u32* out) {
  CUZK_SHARED(u32, shared);
  const u32 row = blockIdx.x, window = blockIdx.y, rows = log_runs + 2;
  const u32 log_chunks = bits - (window < wide ? 1 : 2) - log_chunk;
  const u32* first = totals + size_t(first_bucket(window, bits, wide) >> log_chunk) * rows * sum_words<Cold>;
  const bool by_bit = row > log_runs;
  const u32 bit = by_bit ? row - log_runs - 1 : 0, from = by_bit ? log_runs + 1 : row;
  const u32 terms = !by_bit ? 1u << log_chunks : bit < log_chunks ? 1u << (log_chunks - 1) : 0;
  const auto term = [&](u32 i) {
    u32 at = i < terms ? i : 0;
    if (by_bit && terms != 0) at = (at >> bit << (bit + 1)) | (1u << bit) | (at & ((1u << bit) - 1));
    return load_sum<Cold>(first + (size_t(at) * rows + from) * sum_words<Cold>);
  };
  u32 i = unit_in_block();
  Xyzz<Cold> s = select(i < terms, term(i), infinite_sum<Cold>());
  for (i += units_in_block(); Cold::any(i < terms); i += units_in_block()) add_sum(s, term(i), i < terms);
  sum_block(s, shared, terms);
  if (unit_in_block() == 0) store_sum(s, out + (size_t(window) * gridDim.x + row) * sum_words<Cold>);
}
CUZK_EXPORT(reduce_bits)

// out[i] = scalars[i] * base, affine, from a table of base * j * 256^w; see multiply_fixed_base in host/points.hpp.
CUZK_KERNEL CUZK_BOUNDS(128, 2) fixed_base(const u32* table, const u32* scalars, u32 n, u32* out) {
  constexpr u32 run = 8;
  const u32 runs = (n + run - 1) / run;
  for (u32 k = unit_index(); Cold::any(k < runs); k += unit_total()) {
    Xyzz<Cold> sums[run];
    Cold before[run];
    Cold product = Cold::one();
    for (u32 i = 0; i < run; ++i) {
      const u32 at = k * run + i;
      const bool mine = k < runs && at < n;
      Xyzz<Cold> s = infinite_sum<Cold>();
      for (u32 w = 0; w < 32; ++w) {
        const u32 digit = mine ? (scalars[size_t(at) * 8 + w / 4] >> (8 * (w % 4))) & 255 : 0;
        add_point(s, load_affine<Cold>(table + size_t(w * 256 + digit) * affine_words<Cold>), digit != 0);
      }
      before[i] = product;
      product = product * Cold::select(s.zz.is_zero(), Cold::one(), s.zzz);
      sums[i] = s;
    }
    Cold inverse = product.inverted();
    for (u32 i = run; i-- > 0;) {
      const u32 at = k * run + i;
      const Xyzz<Cold> s = sums[i];
      const Cold inverse_zzz = inverse * before[i];
      inverse = inverse * Cold::select(s.zz.is_zero(), Cold::one(), s.zzz);
      const Cold x = s.x * (s.zz * inverse_zzz).squared(), y = s.y * inverse_zzz;  // zeros for infinity
      if (k < runs && at < n) {
        x.store(out + size_t(at) * affine_words<Cold>);
        y.store(out + size_t(at) * affine_words<Cold> + Cold::words);
      }
    }
  }
}
CUZK_EXPORT(fixed_base)

namespace {

// scalar * p for 64-bit words of a small scalar, most significant word last.
CUZK_COLD Xyzz<Cold> multiply_sum(Xyzz<Cold> p, u64 low, u64 high) {
  Xyzz<Cold> r = infinite_sum<Cold>();
  for (int i = high != 0 ? 127 : 63; i >= 0; --i) {
    r = doubled_sum(r);
    const u64 word = i < 64 ? low : high;
    if ((word >> (i % 64)) & 1) add_sum(r, p, true);
  }
  return r;
}

// The endomorphisms and scalars of groups.cuh, which explains them.
CUZK_DEVICE bool in_subgroup(const Affine<Cold>& p, const u32* constants) {
  const Cold gx = Cold::load(constants + Cold::words), gy = Cold::load(constants + 2 * Cold::words);
  const Xyzz<Cold> one{p.x, p.y, Cold::one(), Cold::one()};
  Cold x = p.x, y = p.y;
  bool negative = false;
#if CUZK_GROUP == 2
  x = x.conjugate();
  y = y.conjugate();
#endif
  Xyzz<Cold> multiple;
  if constexpr (std::is_same_v<UnitCurve, Bn254>) {
    multiple = multiply_sum(one, 0xf83e9682e87cfd46ull, 0x6f4d8248eeb859fbull);
  } else {
    multiple = multiply_sum(one, bls_minus_x, 0);
#if CUZK_GROUP == 1
    multiple = multiply_sum(multiple, bls_minus_x, 0);
#endif
    negative = true;
  }
  x = gx * x;
  y = gy * y;
  const Cold my = multiple.y.negated_if(negative);
  const bool finite = !multiple.zz.is_zero(), same_x = x * multiple.zz == multiple.x;
  const bool same_y = y * multiple.zzz == my;
  return finite && same_x && same_y;
}

}  // namespace

// result = the least of index << 2 | problem (PointProblem in host/points.hpp). constants: b, then the factors of
// the endomorphism for x and y.
CUZK_KERNEL CUZK_BOUNDS(128, 2) check_points(const u32* points, u32 n, u32 subgroup, const u32* constants,
                                             unsigned long long* result) {
  for (u32 k = unit_index(); Cold::any(k < n); k += unit_total()) {
    const bool mine = k < n;
    const Affine<Cold> p = load_affine<Cold>(points + size_t(mine ? k : 0) * affine_words<Cold>);
    const bool no_x = p.x.is_zero(), no_y = p.y.is_zero(), good_x = p.x.reduced(), good_y = p.y.reduced();
    u32 problem = good_x && good_y ? 0 : 1;
    const Cold x = Cold::select(problem == 0, p.x, Cold::zero()), y = Cold::select(problem == 0, p.y, Cold::zero());
    const bool on_curve = y.squared() == x.squared() * x + Cold::load(constants);
    if (problem == 0 && !on_curve) problem = 2;
    if (subgroup != 0) {
      const bool inside = in_subgroup(p, constants);
      if (problem == 0 && !inside) problem = 3;
    }
    if (mine && !(no_x && no_y) && problem != 0) atomicMin(result, (unsigned long long)(k) << 2 | problem);
  }
}
CUZK_EXPORT(check_points)

// out[i] = a[i] op b[i] for n raw elements, for tests: 0 product, 1 sum, 2 difference, 3 square, 4 a b + b a.
CUZK_KERNEL field_operation(u32 operation, const u32* a, const u32* b, u32* out, u32 n) {
  for (u32 k = unit_index(); Hot::any(k < n); k += unit_total()) {
    const size_t at = size_t(k < n ? k : 0) * Hot::words;
    const Hot x = Hot::load(a + at), y = Hot::load(b + at);
    Hot z;
    if (operation == 0) {
      z = x * y;
    } else if (operation == 1) {
      z = x + y;
    } else if (operation == 2) {
      z = x - y;
    } else if (operation == 3) {
      z = x.squared();
    } else {
      z = Hot::sum_of_products(x, y, y, x);
    }
    if (k < n) z.store(out + at);
  }
}
CUZK_EXPORT(field_operation)

}  // namespace cuzk
