// Field arithmetic on eight elements at once, for processors with AVX-512 IFMA (Ice Lake, Zen 4 and later).
//
// An element is N limbs of 52 bits, limb j of eight elements in one register; Montgomery's R is 2^(52 N)
// here, R52 for short. Values are not fully reduced: each is below a small multiple of p that the callers
// keep account of, which R52 / p allows (84 for BN254, 35 for the scalar field of BLS12-381, 2^35 for its
// base field). A product of a < A p and b < B p is below (A B p / R52 + 1) p. Limbs are below 2^52 wherever a
// value is multiplied or stored; the top limb takes what is left.
//
// Everything in this file is compiled for IFMA whatever the compiler's flags; call it only at x86::level ifma.
#pragma once

#include "field.cuh"

#ifdef CUZK_IFMA
#include <immintrin.h>

#define CUZK_INLINE inline __attribute__((always_inline))
#define CUZK_NOINLINE __attribute__((noinline))

namespace cuzk::ifma {

inline constexpr int limb_bits = 52;
inline constexpr u64 limb_mask = (u64(1) << limb_bits) - 1;

// A modulus in limbs of 52 bits.
template <class P>
struct Prime {
  static constexpr int words = P::N;
  static constexpr int N = P::N == 4 ? 5 : 8;
  static constexpr int bits = limb_bits * N;

  // k p, k below 2^16.
  static constexpr Limbs<N> multiple(u64 k) { return split(P::modulus(), k); }
  static constexpr u64 inverse = negative_inverse(P::modulus().v[0]) & limb_mask;
  // 2^e mod p.
  static constexpr Limbs<N> power_of_two(int e) { return split(power_of_two_mod(P::modulus(), e), 1); }

  static constexpr Limbs<N> split(const Limbs<words>& x, u64 k) {
    Limbs<N> out{};
    u128 carry = 0;
    int at = 0;
    for (int j = 0; j < N; ++j, at += limb_bits) {
      u64 limb = 0;
      const int word = at / 64, bit = at % 64;
      if (word < words) limb = x.v[word] >> bit;
      if (bit > 64 - limb_bits && word + 1 < words) limb |= x.v[word + 1] << (64 - bit);
      carry += u128(limb & limb_mask) * k;
      out.v[j] = j + 1 < N ? u64(carry) & limb_mask : u64(carry);
      carry >>= limb_bits;
    }
    return out;
  }
};

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512ifma,bmi2")

using Word8 = __m512i;

CUZK_INLINE Word8 broadcast(u64 x) { return _mm512_set1_epi64((long long)x); }

// Eight elements of the prime field P.
template <class P>
struct F8 {
  using M = Prime<P>;
  static constexpr int N = M::N;
  static constexpr int words = M::words;
  Word8 v[N];

  static CUZK_INLINE F8 all(const Limbs<N>& x) {
    F8 r;
    for (int j = 0; j < N; ++j) r.v[j] = broadcast(x.v[j]);
    return r;
  }
  static CUZK_INLINE F8 one() { return all(M::power_of_two(M::bits)); }

  // Brings limbs into range; they may be negative, the value must not be.
  CUZK_INLINE void carry() {
    const Word8 mask = broadcast(limb_mask);
#pragma GCC unroll 8
    for (int j = 0; j + 1 < N; ++j) {
      v[j + 1] = _mm512_add_epi64(v[j + 1], _mm512_srai_epi64(v[j], limb_bits));
      v[j] = _mm512_and_si512(v[j], mask);
    }
  }

  friend CUZK_INLINE F8 operator+(const F8& a, const F8& b) {
    F8 r;
    for (int j = 0; j < N; ++j) r.v[j] = _mm512_add_epi64(a.v[j], b.v[j]);
    r.carry();
    return r;
  }
  // a - b + K p, for b <= K p.
  template <int K>
  static CUZK_INLINE F8 subtract(const F8& a, const F8& b) {
    constexpr Limbs<N> kp = M::multiple(K);
    F8 r;
    for (int j = 0; j < N; ++j) r.v[j] = _mm512_add_epi64(_mm512_sub_epi64(a.v[j], b.v[j]), broadcast(kp.v[j]));
    r.carry();
    return r;
  }
  // a - b - 2 c + K p, for b + 2 c <= K p.
  template <int K>
  static CUZK_INLINE F8 subtract(const F8& a, const F8& b, const F8& c) {
    constexpr Limbs<N> kp = M::multiple(K);
    F8 r;
    for (int j = 0; j < N; ++j) {
      const Word8 bc = _mm512_add_epi64(b.v[j], _mm512_add_epi64(c.v[j], c.v[j]));
      r.v[j] = _mm512_add_epi64(_mm512_sub_epi64(a.v[j], bc), broadcast(kp.v[j]));
    }
    r.carry();
    return r;
  }
  // K p - a.
  template <int K>
  static CUZK_INLINE F8 negate(const F8& a) {
    constexpr Limbs<N> kp = M::multiple(K);
    F8 r;
    for (int j = 0; j < N; ++j) r.v[j] = _mm512_sub_epi64(broadcast(kp.v[j]), a.v[j]);
    r.carry();
    return r;
  }
  static CUZK_INLINE F8 select(__mmask8 second, const F8& a, const F8& b) {
    F8 r;
    for (int j = 0; j < N; ++j) r.v[j] = _mm512_mask_blend_epi64(second, a.v[j], b.v[j]);
    return r;
  }
  // The lanes that hold 0, p or 2 p: zero modulo p, for values below 3 p.
  CUZK_INLINE __mmask8 zero_lanes() const {
    __mmask8 any = 0;
    constexpr Limbs<N> p = M::multiple(1), pp = M::multiple(2);
    any = _mm512_cmpeq_epi64_mask(v[0], broadcast(0)) | _mm512_cmpeq_epi64_mask(v[0], broadcast(p.v[0])) |
          _mm512_cmpeq_epi64_mask(v[0], broadcast(pp.v[0]));
    if (__builtin_expect(any == 0, 1)) return 0;
    __mmask8 zero = 0xff, once = 0xff, twice = 0xff;
    for (int j = 0; j < N; ++j) {
      zero &= _mm512_cmpeq_epi64_mask(v[j], broadcast(0));
      once &= _mm512_cmpeq_epi64_mask(v[j], broadcast(p.v[j]));
      twice &= _mm512_cmpeq_epi64_mask(v[j], broadcast(pp.v[j]));
    }
    return zero | once | twice;
  }
  CUZK_INLINE __mmask8 below_p_lanes() const {
    constexpr Limbs<N> p = M::multiple(1);
    F8 less;
    for (int j = 0; j < N; ++j) less.v[j] = _mm512_sub_epi64(v[j], broadcast(p.v[j]));
    less.carry();
    return _mm512_movepi64_mask(less.v[N - 1]);
  }
  CUZK_INLINE __mmask8 all_zero_lanes() const {
    Word8 bits = v[0];
    for (int j = 1; j < N; ++j) bits = _mm512_or_si512(bits, v[j]);
    return _mm512_cmpeq_epi64_mask(bits, broadcast(0));
  }

  // From words of 64 bits, shifted left by `shift`.
  static CUZK_INLINE F8 from_words(const Word8* w, int shift) {
    const Word8 mask = broadcast(limb_mask);
    F8 r;
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) {
      const int at = limb_bits * j - shift;
      if (at < 0) {
        r.v[j] = _mm512_and_si512(_mm512_slli_epi64(w[0], unsigned(-at)), mask);
        continue;
      }
      const int word = at / 64, bit = at % 64;
      if (word >= words) {
        r.v[j] = broadcast(0);
        continue;
      }
      Word8 x = _mm512_srli_epi64(w[word], unsigned(bit));
      if (bit > 64 - limb_bits && word + 1 < words)
        x = _mm512_or_si512(x, _mm512_slli_epi64(w[word + 1], unsigned(64 - bit)));
      r.v[j] = _mm512_and_si512(x, mask);
    }
    return r;
  }
  // To words of 64 bits; the value must fit in them.
  CUZK_INLINE void to_words(Word8* w) const {
#pragma GCC unroll 6
    for (int i = 0; i < words; ++i) {
      const int first = 64 * i / limb_bits, bit = 64 * i % limb_bits;
      Word8 x = _mm512_srli_epi64(v[first], unsigned(bit));
      if (first + 1 < N) x = _mm512_or_si512(x, _mm512_slli_epi64(v[first + 1], unsigned(limb_bits - bit)));
      if (2 * limb_bits - bit < 64 && first + 2 < N)
        x = _mm512_or_si512(x, _mm512_slli_epi64(v[first + 2], unsigned(2 * limb_bits - bit)));
      w[i] = x;
    }
  }
};

// *r = sum of a_k b_k / R52, with one reduction for all T products.
template <int T, class P>
CUZK_INLINE void dot_inline(F8<P>* r, const F8<P>* const* a, const F8<P>* const* b) {
  constexpr int N = F8<P>::N;
  constexpr Limbs<N> p = Prime<P>::multiple(1);
  const Word8 inverse = broadcast(Prime<P>::inverse), zero = broadcast(0);
  Word8 t[N];
  for (int j = 0; j < N; ++j) t[j] = zero;
#pragma GCC unroll 8
  for (int i = 0; i < N; ++i) {
#pragma GCC unroll 4
    for (int k = 0; k < T; ++k) {
      const Word8 digit = b[k]->v[i];
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) t[j] = _mm512_madd52lo_epu64(t[j], a[k]->v[j], digit);
    }
    const Word8 m = _mm512_madd52lo_epu64(zero, t[0], inverse);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) t[j] = _mm512_madd52lo_epu64(t[j], m, broadcast(p.v[j]));
    const Word8 carry = _mm512_srli_epi64(t[0], limb_bits);
#pragma GCC unroll 8
    for (int j = 0; j < N; ++j) t[j] = _mm512_madd52hi_epu64(j + 1 < N ? t[j + 1] : zero, m, broadcast(p.v[j]));
#pragma GCC unroll 4
    for (int k = 0; k < T; ++k) {
      const Word8 digit = b[k]->v[i];
#pragma GCC unroll 8
      for (int j = 0; j < N; ++j) t[j] = _mm512_madd52hi_epu64(t[j], a[k]->v[j], digit);
    }
    t[0] = _mm512_add_epi64(t[0], carry);
  }
  for (int j = 0; j < N; ++j) r->v[j] = t[j];
  r->carry();
}

template <class P>
CUZK_NOINLINE void multiply(F8<P>* r, const F8<P>& a, const F8<P>& b) {
  const F8<P>*as[1] = {&a}, *bs[1] = {&b};
  dot_inline<1>(r, as, bs);
}
template <class P>
CUZK_NOINLINE void dot2(F8<P>* r, const F8<P>& a, const F8<P>& b, const F8<P>& c, const F8<P>& d) {
  const F8<P>*as[2] = {&a, &c}, *bs[2] = {&b, &d};
  dot_inline<2>(r, as, bs);
}
template <class P>
CUZK_NOINLINE void dot4(F8<P>* r, const F8<P>& a, const F8<P>& b, const F8<P>& c, const F8<P>& d, const F8<P>& e,
                        const F8<P>& f, const F8<P>& g, const F8<P>& h) {
  const F8<P>*as[4] = {&a, &c, &e, &g}, *bs[4] = {&b, &d, &f, &h};
  dot_inline<4>(r, as, bs);
}

// One word of each of eight rows to one row of eight words, and back: the transpose of an 8 x 8 matrix.
CUZK_INLINE void transpose(Word8* r) {
  Word8 pair[8], quad[8];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    pair[k] = _mm512_unpacklo_epi64(r[2 * k], r[2 * k + 1]);      // even columns
    pair[4 + k] = _mm512_unpackhi_epi64(r[2 * k], r[2 * k + 1]);  // odd columns
  }
#pragma GCC unroll 2
  for (int odd = 0; odd < 2; ++odd) {
    const Word8* p = pair + 4 * odd;
    Word8* q = quad + 4 * odd;
    q[0] = _mm512_shuffle_i64x2(p[0], p[1], 0x88);
    q[1] = _mm512_shuffle_i64x2(p[0], p[1], 0xdd);
    q[2] = _mm512_shuffle_i64x2(p[2], p[3], 0x88);
    q[3] = _mm512_shuffle_i64x2(p[2], p[3], 0xdd);
    r[odd] = _mm512_shuffle_i64x2(q[0], q[2], 0x88);
    r[4 + odd] = _mm512_shuffle_i64x2(q[0], q[2], 0xdd);
    r[2 + odd] = _mm512_shuffle_i64x2(q[1], q[3], 0x88);
    r[6 + odd] = _mm512_shuffle_i64x2(q[1], q[3], 0xdd);
  }
}

// out[i] = word i of the eight rows `rows` point to, W words each.
template <int W>
CUZK_INLINE void gather(const void* const* rows, Word8* out) {
#pragma GCC unroll 8
  for (int at = 0; at < W; at += 8) {
    const __mmask8 present = W - at >= 8 ? 0xff : (__mmask8)((1 << (W - at)) - 1);
    Word8 block[8];
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k)
      block[k] = _mm512_maskz_loadu_epi64(present, static_cast<const u64*>(rows[k]) + at);
    transpose(block);
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k)
      if (at + k < W) out[at + k] = block[k];
  }
}

template <int W>
CUZK_INLINE void scatter(const Word8* in, void* const* rows) {
#pragma GCC unroll 8
  for (int at = 0; at < W; at += 8) {
    const __mmask8 present = W - at >= 8 ? 0xff : (__mmask8)((1 << (W - at)) - 1);
    Word8 block[8];
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) block[k] = at + k < W ? in[at + k] : broadcast(0);
    transpose(block);
#pragma GCC unroll 8
    for (int k = 0; k < 8; ++k) _mm512_mask_storeu_epi64(static_cast<u64*>(rows[k]) + at, present, block[k]);
  }
}

#pragma GCC pop_options

}  // namespace cuzk::ifma
#endif
