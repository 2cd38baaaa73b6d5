// What lets the kernels be compiled by g++ as well: a grid of one-thread blocks run one after the other.
//
// Kernels never rely on the number of threads in a block, so that one thread a block does the same work. The
// emulation knows nothing of races, barriers or warps; it checks indices, arithmetic and the host code around
// the launches where there is no GPU. A kernel is declared with CUZK_KERNEL and named in CUZK_EXPORT.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)

#define CUZK_KERNEL extern "C" __global__ void
#define CUZK_DEVICE __device__ __forceinline__
#define CUZK_COLD __device__ __noinline__
#define CUZK_EXPORT(NAME)
#define CUZK_BOUNDS(THREADS, BLOCKS) __launch_bounds__(THREADS, BLOCKS)
#define CUZK_SHARED(TYPE, NAME) TYPE* const NAME = reinterpret_cast<TYPE*>(cuzk_shared)

extern __shared__ uint4 cuzk_shared[];

namespace cuzk {
inline constexpr int warp_lanes = 32;
CUZK_DEVICE bool warp_any(bool value) { return __any_sync(0xffffffff, value); }
}  // namespace cuzk

#else

#include <utility>

#define CUZK_KERNEL static void
#define CUZK_DEVICE inline
#define CUZK_COLD inline
#define CUZK_BOUNDS(THREADS, BLOCKS)
#define CUZK_SHARED(TYPE, NAME) TYPE* const NAME = reinterpret_cast<TYPE*>(cuzk::emulation::shared)
#define CUZK_CONSTANT static const

namespace cuzk {
inline constexpr int warp_lanes = 1;
inline bool warp_any(bool value) { return value; }
}  // namespace cuzk

namespace cuzk::emulation {
struct Index {
  unsigned x, y, z;
};
inline thread_local Index block, grid;
alignas(16) inline thread_local unsigned char shared[256 << 10];

template <class... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<A*>(arguments[I])...);
}
template <class... A>
void launch(void (*kernel)(A...), unsigned x, unsigned y, void** arguments) {
  grid = {x, y, 1};
  for (block.y = 0; block.y < y; ++block.y)
    for (block.x = 0; block.x < x; ++block.x) call(kernel, arguments, std::index_sequence_for<A...>());
}
}  // namespace cuzk::emulation

#define CUZK_EXPORT(NAME)                                                                       \
  extern "C" __attribute__((visibility("default"))) void emulate_##NAME(unsigned x, unsigned y, void** arguments) { \
    cuzk::emulation::launch(NAME, x, y, arguments);                                             \
  }

static constexpr cuzk::emulation::Index blockDim{1, 1, 1}, threadIdx{0, 0, 0};
#define blockIdx cuzk::emulation::block
#define gridDim cuzk::emulation::grid
inline void __syncthreads() {}
inline void __syncwarp() {}
template <class T>
T atomicAdd(T* at, T value) {
  const T old = *at;
  *at += value;
  return old;
}
template <class T>
T atomicMin(T* at, T value) {
  const T old = *at;
  if (value < old) *at = value;
  return old;
}
#endif

#if defined(__CUDACC__)
#define CUZK_CONSTANT __constant__
#endif
