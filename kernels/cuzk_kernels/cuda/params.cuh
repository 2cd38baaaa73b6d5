// The four prime fields, as compile-time parameters for Field (field.cuh).
//
// Limbs are 64 bits, least significant first. Sources: BN254 EIP-196; BLS12-381 zcash protocol
// specification 5.4.9.2. R, R^2 and -1/p are derived from the modulus, so that only the prime is a literal.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define CUZK_HD __host__ __device__
#define CUZK_UNROLL _Pragma("unroll")
#define CUZK_CALL __noinline__  // a call on the GPU for now: inlined, point additions take minutes to compile
#else
#define CUZK_HD
#define CUZK_UNROLL _Pragma("GCC unroll 8")
#define CUZK_CALL __attribute__((noinline))  // the common case is the call in x86.cuh
#endif

namespace cuzk {

using u32 = uint32_t;
using u64 = uint64_t;
using u128 = unsigned __int128;

template <int N>
struct Limbs {
  u64 v[N];
};

// -1/p modulo 2^64 by Newton iteration: each step doubles the number of correct low bits, from 3.
CUZK_HD constexpr u64 negative_inverse(u64 p) {
  u64 x = p;
  for (int i = 0; i < 5; ++i) x *= 2 - p * x;
  return ~x + 1;
}

// 2^bits mod p by repeated doubling; needs a spare top bit in p.
template <int N>
CUZK_HD constexpr Limbs<N> power_of_two_mod(const Limbs<N>& p, int bits) {
  Limbs<N> x{};
  x.v[0] = 1;
  for (int k = 0; k < bits; ++k) {
    Limbs<N> d{}, s{};
    u64 carry = 0, borrow = 0;
    for (int i = 0; i < N; ++i) {
      d.v[i] = (x.v[i] << 1) | carry;
      carry = x.v[i] >> 63;
    }
    for (int i = 0; i < N; ++i) {
      const u128 t = (u128)d.v[i] - p.v[i] - borrow;
      s.v[i] = (u64)t;
      borrow = (u64)(t >> 64) & 1;
    }
    x = borrow ? d : s;
  }
  return x;
}

// A table that host and device code can index: nvcc folds it where the index is known, and takes it from
// constant memory elsewhere.
#define CUZK_PRIME(NAME, COUNT, ...)                                                       \
  struct NAME {                                                                            \
    static constexpr int N = COUNT;                                                        \
    CUZK_HD static constexpr Limbs<N> modulus() { return Limbs<N>{{__VA_ARGS__}}; }        \
    CUZK_HD static constexpr Limbs<N> one() {                                              \
      constexpr Limbs<N> value = power_of_two_mod(Limbs<N>{{__VA_ARGS__}}, 64 * N);        \
      return value;                                                                        \
    }                                                                                      \
    CUZK_HD static constexpr Limbs<N> square_of_r() {                                      \
      constexpr Limbs<N> value = power_of_two_mod(Limbs<N>{{__VA_ARGS__}}, 128 * N);       \
      return value;                                                                        \
    }                                                                                      \
    CUZK_HD static constexpr u64 inverse() {                                               \
      constexpr u64 value = negative_inverse(Limbs<N>{{__VA_ARGS__}}.v[0]);                \
      return value;                                                                        \
    }                                                                                      \
  };

CUZK_PRIME(Bn254Q, 4, 0x3c208c16d87cfd47ull, 0x97816a916871ca8dull, 0xb85045b68181585dull,
           0x30644e72e131a029ull)
CUZK_PRIME(Bn254R, 4, 0x43e1f593f0000001ull, 0x2833e84879b97091ull, 0xb85045b68181585dull,
           0x30644e72e131a029ull)
CUZK_PRIME(Bls381Q, 6, 0xb9feffffffffaaabull, 0x1eabfffeb153ffffull, 0x6730d2a0f6b0f624ull,
           0x64774b84f38512bfull, 0x4b1ba7b6434bacd7ull, 0x1a0111ea397fe69aull)
CUZK_PRIME(Bls381R, 4, 0xffffffff00000001ull, 0x53bda402fffe5bfeull, 0x3339d80809a1d805ull,
           0x73eda753299d7d48ull)
#undef CUZK_PRIME

}  // namespace cuzk
