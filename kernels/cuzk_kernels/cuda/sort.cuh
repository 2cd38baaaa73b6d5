// Kernels that turn scalars into signed digits, and digits into buckets and segments of about equal length.
#pragma once

#include "ptx.cuh"
#include "unit.cuh"

namespace cuzk {

using Fr = Word32<UnitCurve::Fr::Params, true>;

// A digit: its place in its bucket in the high word, (|d| - 1) << 1 | sign in the low one.
using Digit = u64;
inline constexpr u32 absent_digit = 0xffffffff;

// Exclusive prefix sums over the threads of a block; total in every thread. shared: one word a thread.
CUZK_DEVICE u32 scan_block(u32 value, u32* shared, u32* total) {
  u32 sum = value;
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (u32 step = 1; step < blockDim.x; step *= 2) {
    const u32 other = threadIdx.x >= step ? shared[threadIdx.x - step] : 0;
    __syncthreads();
    sum += other;
    shared[threadIdx.x] = sum;
    __syncthreads();
  }
  *total = shared[blockDim.x - 1];
  __syncthreads();
  return sum - value;
}

// The place of this thread's digit among all of its bucket: one atomic addition for equal digits of a warp.
CUZK_DEVICE u32 place_in_bucket(u32* counts, u32 bucket, bool present) {
#if defined(__CUDA_ARCH__)
  const u32 peers = __match_any_sync(0xffffffff, present ? bucket : absent_digit);
  const u32 lane = threadIdx.x % warp_lanes, leader = __ffs(peers) - 1;
  u32 base = 0;
  if (present && lane == leader) base = atomicAdd(counts + bucket, (u32)__popc(peers));
  return __shfl_sync(0xffffffff, base, leader) + __popc(peers & ((1u << lane) - 1));
#else
  return present ? atomicAdd(counts + bucket, 1u) : 0;
#endif
}

// Signed digits as recode() in msm.cuh makes them, of scalars[map[i]] (or scalars[i] without a map), window by
// window, for i from `first` to `last`: pieces of the scalars may come one after the other. The digits of a window
// lie n apart.
CUZK_KERNEL CUZK_BOUNDS(256, 4) digits(const u32* scalars, const u32* map, u32 n, u32 first, u32 last, u32 bits,
                                       u32 wide, u32 windows, Digit* out, u32* counts) {
  const u32* r = ptx::ModulusOf<UnitCurve::Fr::Params>::get().p;
  const u32 rounded = (last - first + warp_lanes - 1) / warp_lanes * warp_lanes;  // warps stay together
  for (u32 k = thread_index(); k < rounded; k += thread_total()) {
    const u32 i = first + k;
    const bool mine = i < last;
    Fr s = Fr::zero();
    if (mine) s = Fr::load(scalars + size_t(map != nullptr ? map[i] : i) * Fr::N);
    while (!s.reduced()) {
      s.v[0] = ptx::sub_cc(s.v[0], r[0]);
#pragma unroll
      for (int k = 1; k < Fr::N; ++k) s.v[k] = ptx::subc_cc(s.v[k], r[k]);
    }
    const Fr negative = -s;  // 0 for 0: reduced below
    ptx::sub_cc(negative.v[0], s.v[0]);
#pragma unroll
    for (int k = 1; k < Fr::N; ++k) ptx::subc_cc(negative.v[k], s.v[k]);
    const bool negate = ptx::subc(0, 0) != 0 && !s.is_zero();
    if (negate) s = negative;
    u32 carry = 0;
    for (u32 w = 0; w < windows; ++w) {
      const u32 width = w < wide ? bits : bits - 1, base = 1u << width, half = base >> 1;
      u32 d = (s.v[0] & (base - 1)) + carry, flip = negate;
      carry = 0;
      if (d >= half && w + 1 < windows) {
        d = base - d;
        flip ^= 1;
        carry = 1;
      }
#pragma unroll
      for (int k = 0; k < Fr::N - 1; ++k) s.v[k] = (s.v[k] >> width) | (s.v[k + 1] << (32 - width));
      s.v[Fr::N - 1] >>= width;
      const u32 place = place_in_bucket(counts + first_bucket(w, bits, wide), d - 1, d != 0);
      if (mine) out[size_t(w) * n + i] = (u64)place << 32 | (d == 0 ? absent_digit : (d - 1) << 1 | flip);
    }
  }
}
CUZK_EXPORT(digits)

// Prefix sums of any number of counters in two launches: sums of tiles, then all prefix sums.
CUZK_DEVICE u32 tile_part(const u32* values, u32 n, u32 begin, u32 count) {
  u32 sum = 0;
  for (u32 k = begin; k < begin + count && k < n; ++k) sum += values[k];
  return sum;
}
CUZK_KERNEL scan_tiles(const u32* values, u32 n, u32 tile, u32* sums) {
  CUZK_SHARED(u32, shared);
  const u32 count = tile / blockDim.x;
  u32 total;
  scan_block(tile_part(values, n, blockIdx.x * tile + threadIdx.x * count, count), shared, &total);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}
CUZK_EXPORT(scan_tiles)

// out[k] = values[0] + ... + values[k - 1] for k <= n.
CUZK_KERNEL scan_apply(const u32* values, u32 n, u32 tile, const u32* sums, u32* out) {
  CUZK_SHARED(u32, shared);
  const u32 count = tile / blockDim.x, begin = blockIdx.x * tile + threadIdx.x * count;
  u32 before = 0, total;
  for (u32 k = threadIdx.x; k < blockIdx.x; k += blockDim.x) before += sums[k];
  scan_block(before, shared, &before);
  u32 running = before + scan_block(tile_part(values, n, begin, count), shared, &total);
  for (u32 k = begin; k < begin + count && k < n; ++k) {
    out[k] = running;
    running += values[k];
    if (k == n - 1) out[n] = running;
  }
}
CUZK_EXPORT(scan_apply)

// entries sorted by bucket: point index << 1 | sign; the n points are those from `first` on. Row y of the grid is
// window y.
CUZK_KERNEL CUZK_BOUNDS(256, 4) scatter(const Digit* in, u32 n, u32 first, u32 bits, u32 wide, const u32* offsets,
                                        u32* entries) {
  const u32 w = blockIdx.y;
  in += size_t(w) * n;
  offsets += first_bucket(w, bits, wide);
  for (u32 i = thread_index(); i < n; i += thread_total()) {
    const Digit digit = in[i];
    const u32 code = (u32)digit;
    if (code != absent_digit) entries[offsets[code >> 1] + (u32)(digit >> 32)] = (first + i) << 1 | (code & 1);
  }
}
CUZK_EXPORT(scatter)

// Buckets are cut into segments of at most `limit` entries; lengths[l] counts the segments of length l.
CUZK_KERNEL count_lengths(const u32* counts, u32 buckets, u32 limit, u32* lengths) {
  CUZK_SHARED(u32, histogram);
  for (u32 l = threadIdx.x; l <= limit; l += blockDim.x) histogram[l] = 0;
  __syncthreads();
  for (u32 k = thread_index(); k < buckets; k += thread_total()) {
    const u32 full = counts[k] / limit, rest = counts[k] % limit;
    if (full != 0) atomicAdd(histogram + limit, full);
    if (rest != 0) atomicAdd(histogram + rest, 1u);
  }
  __syncthreads();
  for (u32 l = threadIdx.x; l <= limit; l += blockDim.x)
    if (histogram[l] != 0) atomicAdd(lengths + l, histogram[l]);
}
CUZK_EXPORT(count_lengths)

// lengths[l] becomes the place of the first segment of length l, longest first. One block.
CUZK_KERNEL order_lengths(u32* lengths, u32 limit, u32* counters) {
  CUZK_SHARED(u32, shared);
  const u32 count = (limit + blockDim.x) / blockDim.x, begin = threadIdx.x * count;
  u32 sum = 0, total;
  for (u32 k = begin; k < begin + count && k <= limit; ++k) sum += lengths[limit - k];
  u32 running = scan_block(sum, shared, &total);
  for (u32 k = begin; k < begin + count && k <= limit; ++k) {
    const u32 value = lengths[limit - k];
    lengths[limit - k] = running;
    running += value;
  }
  if (threadIdx.x == 0) counters[segment_count] = total;
}
CUZK_EXPORT(order_lengths)

// Writes the segments in that order. The first of a bucket goes to its own sum, further ones to partial sums
// behind all buckets, and what is to be merged afterwards is listed.
CUZK_KERNEL place_segments(const u32* counts, const u32* offsets, u32 buckets, u32 limit, u32* lengths, u32* counters,
                           Segment* segments, Segment* small, Segment* big, Segment* chunks) {
  CUZK_SHARED(u32, histogram);
  u32* const base = histogram + limit + 1;
  constexpr u32 rounds = 8;  // buckets a thread: enough for one addition to `lengths` to serve several
  const u32 tile = blockDim.x * rounds;
  for (u32 start = blockIdx.x * tile; start < buckets; start += gridDim.x * tile) {
    for (u32 l = threadIdx.x; l <= limit; l += blockDim.x) histogram[l] = 0;
    __syncthreads();
    for (u32 k = start + threadIdx.x; k < start + tile && k < buckets; k += blockDim.x) {
      const u32 full = counts[k] / limit, rest = counts[k] % limit;
      if (full != 0) atomicAdd(histogram + limit, full);
      if (rest != 0) atomicAdd(histogram + rest, 1u);
    }
    __syncthreads();
    for (u32 l = threadIdx.x; l <= limit; l += blockDim.x) {
      base[l] = histogram[l] != 0 ? atomicAdd(lengths + l, histogram[l]) : 0;
      histogram[l] = 0;
    }
    __syncthreads();
    for (u32 k = start + threadIdx.x; k < start + tile && k < buckets; k += blockDim.x) {
      const u32 count = counts[k], full = count / limit, rest = count % limit, extra = (count + limit - 1) / limit;
      if (count == 0) continue;
      u32 partial = 0;
      if (extra > 1) {
        partial = buckets + atomicAdd(counters + partial_count, extra - 1);
        const Segment merge{partial, extra - 1, k, 0};
        if (extra - 1 <= small_merge) {
          small[atomicAdd(counters + small_count, 1u)] = merge;
        } else {
          const u32 pieces = (extra - 1 + chunk_length - 1) / chunk_length;
          if (pieces > 1) big[atomicAdd(counters + big_count, 1u)] = merge;
          const u32 first = atomicAdd(counters + chunk_count, pieces);
          for (u32 c = 0; c < pieces; ++c) {
            const u32 left = extra - 1 - c * chunk_length;
            chunks[first + c] = {partial + c * chunk_length, left < chunk_length ? left : chunk_length, k, pieces};
          }
        }
      }
      u32 at = offsets[k], target = k;
      if (full != 0) {
        const u32 first = base[limit] + atomicAdd(histogram + limit, full);
        for (u32 c = 0; c < full; ++c) {
          segments[first + c] = {at, limit, target, 0};
          at += limit;
          target = partial + c;
        }
      }
      if (rest != 0) segments[base[rest] + atomicAdd(histogram + rest, 1u)] = {at, rest, target, 0};
    }
    __syncthreads();
  }
}
CUZK_EXPORT(place_segments)

// flags[i] = whether point i (of `words` words, a multiple of 4) is not infinity.
CUZK_KERNEL mark_points(const u32* points, u32 n, u32 words, u32* flags) {
  for (u32 i = thread_index(); i < n; i += thread_total()) {
    u32 bits = 0;
    for (u32 k = 0; k < words; ++k) bits |= points[size_t(i) * words + k];
    flags[i] = bits != 0;
  }
}
CUZK_EXPORT(mark_points)

// The points that are not infinity, and where each was.
CUZK_KERNEL compact_points(const u32* points, u32 n, u32 words, const u32* offsets, u32* out, u32* map) {
  for (u32 i = thread_index(); i < n; i += thread_total()) {
    const u32 to = offsets[i];
    if (offsets[i + 1] == to) continue;
    for (u32 k = 0; k < words; ++k) out[size_t(to) * words + k] = points[size_t(i) * words + k];
    map[to] = i;
  }
}
CUZK_EXPORT(compact_points)

}  // namespace cuzk
