// What a unit is compiled for: -DCUZK_CURVE=Bn254 or Bls381, and for points -DCUZK_GROUP=1 or 2.
// CUZK_FINGERPRINT names the sources, flags and compiler; the back end reads it back from the loaded module.
#pragma once

#include "groups.cuh"
#include "shim.cuh"

#ifdef CUZK_FINGERPRINT
#if defined(__CUDACC__)
extern "C" __device__ char cuzk_fingerprint[] = CUZK_FINGERPRINT;
#else
extern "C" __attribute__((visibility("default"))) char cuzk_fingerprint[];
char cuzk_fingerprint[] = CUZK_FINGERPRINT;
#endif
#endif

namespace cuzk {

using UnitCurve = CUZK_CURVE;

// Shared by the kernels that sort digits and those that sum points; fields of one array of u32.
enum Counter : u32 {
  segment_count,  // segments in order
  next_segment,   // the first that no warp has taken yet
  partial_count,  // sums of second and further segments
  small_count,    // buckets of a few segments
  big_count,      // buckets of several chunks
  chunk_count,    // runs of partial sums of big buckets
  counter_total = 8,
};

// A run of entries of one bucket, summed by one thread into sums[target]; or, for merges, `length` partial
// sums from `begin` on that belong to sums[target]. pieces: into how many chunks a bucket's were cut.
struct Segment {
  u32 begin, length, target, pieces;
};

inline constexpr u32 small_merge = 16;    // partial sums one thread adds up
inline constexpr u32 chunk_length = 256;  // partial sums one block adds up at a time

CUZK_DEVICE u32 thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }
CUZK_DEVICE u32 thread_total() { return gridDim.x * blockDim.x; }

// Windows are of `bits` bits, those from number `wide` on of one bit less; a window of b bits has 2^(b-1) buckets.
CUZK_DEVICE u32 first_bucket(u32 window, u32 bits, u32 wide) {
  const u32 full = window < wide ? window : wide;
  return (full << (bits - 1)) + ((window - full) << (bits - 2));
}

CUZK_DEVICE u32 warp_broadcast(u32 value) {
#if defined(__CUDA_ARCH__)
  return __shfl_sync(0xffffffff, value, 0);
#else
  return value;
#endif
}

}  // namespace cuzk
