// Sums of points, eight at a time with AVX-512 IFMA (see ifma.hpp for the representation and its bounds).
//
// The points of a .zkey are x R, y R with R = 2^(64 words), not x R52. No multiplication converts them: the
// map (x, y) -> (u^2 x, u^3 y) leads to another curve y^2 = x^3 + b', and the addition formulas do not use
// b. Shifting x R and y R left by a few bits while they are cut into limbs makes them u^2 x R52 and
// u^3 y R52 for u a power of two; u is undone when a sum is handed back.
#pragma once

#include <cstring>

#include "ifma.hpp"

#ifdef CUZK_IFMA

namespace cuzk::ifma {

// u = 2^t: x is shifted by 52 N - 64 words + 2 t and y by 52 N - 64 words + 3 t bits. X and Y of a sum are
// kept below x_bound p and y_bound p; a loaded point's y is below y_loaded p.
template <class P>
struct Scaling;
template <>
struct Scaling<Bn254Q> {
  static constexpr int t = -1, x_shift = 2, y_shift = 1, x_bound = 7, y_loaded = 2, y_bound = 4;
};
template <>
struct Scaling<Bls381Q> {
  static constexpr int t = -10, x_shift = 12, y_shift = 2, x_bound = 4097, y_loaded = 4, y_bound = 4;
};

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512ifma,bmi2")

// Coordinates of G1. Template numbers are bounds in multiples of p: K on what is subtracted or, for products
// in the extension, on the second factor.
template <class P>
struct Prime8 {
  using Base = P;
  static constexpr int degree = 1, words = F8<P>::words, limbs = F8<P>::N;
  F8<P> c;

  template <int K>
  static CUZK_INLINE Prime8 mul(const Prime8& a, const Prime8& b) {
    Prime8 r;
    multiply(&r.c, a.c, b.c);
    return r;
  }
  // a b - c d, for c < KC p; d is small.
  template <int KB, int KC>
  static CUZK_INLINE Prime8 mul_sub(const Prime8& a, const Prime8& b, const Prime8& c, const Prime8& d) {
    const F8<P> minus = F8<P>::template negate<KC>(c.c);
    Prime8 r;
    dot2(&r.c, a.c, b.c, minus, d.c);
    return r;
  }
  template <int K>
  static CUZK_INLINE Prime8 sub(const Prime8& a, const Prime8& b) {
    return {F8<P>::template subtract<K>(a.c, b.c)};
  }
  template <int K>
  static CUZK_INLINE Prime8 sub(const Prime8& a, const Prime8& b, const Prime8& c) {
    return {F8<P>::template subtract<K>(a.c, b.c, c.c)};
  }
  template <int K>
  static CUZK_INLINE Prime8 negate(const Prime8& a) {
    return {F8<P>::template negate<K>(a.c)};
  }
  friend CUZK_INLINE Prime8 operator+(const Prime8& a, const Prime8& b) { return {a.c + b.c}; }
  static CUZK_INLINE Prime8 select(__mmask8 second, const Prime8& a, const Prime8& b) {
    return {F8<P>::select(second, a.c, b.c)};
  }
  static CUZK_INLINE Prime8 one() { return {F8<P>::one()}; }
  CUZK_INLINE __mmask8 zero_lanes() const { return c.zero_lanes(); }
  CUZK_INLINE __mmask8 all_zero_lanes() const { return c.all_zero_lanes(); }
  CUZK_INLINE F8<P>& part(int) { return c; }
  CUZK_INLINE const F8<P>& part(int) const { return c; }
};

// Coordinates of G2: c0 + c1 u, u^2 = -1. Both parts of a product are sums of products under one reduction.
template <class P>
struct Quadratic8 {
  using Base = P;
  static constexpr int degree = 2, words = 2 * F8<P>::words, limbs = 2 * F8<P>::N;
  F8<P> c0, c1;

  template <int K>
  static CUZK_INLINE Quadratic8 mul(const Quadratic8& a, const Quadratic8& b) {
    const F8<P> minus = F8<P>::template negate<K>(b.c1);
    Quadratic8 r;
    dot2(&r.c0, a.c0, b.c0, a.c1, minus);
    dot2(&r.c1, a.c0, b.c1, a.c1, b.c0);
    return r;
  }
  template <int KB, int KC>
  static CUZK_INLINE Quadratic8 mul_sub(const Quadratic8& a, const Quadratic8& b, const Quadratic8& c,
                                        const Quadratic8& d) {
    const F8<P> minus_b1 = F8<P>::template negate<KB>(b.c1);
    const F8<P> minus_c0 = F8<P>::template negate<KC>(c.c0), minus_c1 = F8<P>::template negate<KC>(c.c1);
    Quadratic8 r;
    dot4(&r.c0, a.c0, b.c0, a.c1, minus_b1, minus_c0, d.c0, c.c1, d.c1);
    dot4(&r.c1, a.c0, b.c1, a.c1, b.c0, minus_c0, d.c1, minus_c1, d.c0);
    return r;
  }
  template <int K>
  static CUZK_INLINE Quadratic8 sub(const Quadratic8& a, const Quadratic8& b) {
    return {F8<P>::template subtract<K>(a.c0, b.c0), F8<P>::template subtract<K>(a.c1, b.c1)};
  }
  template <int K>
  static CUZK_INLINE Quadratic8 sub(const Quadratic8& a, const Quadratic8& b, const Quadratic8& c) {
    return {F8<P>::template subtract<K>(a.c0, b.c0, c.c0), F8<P>::template subtract<K>(a.c1, b.c1, c.c1)};
  }
  template <int K>
  static CUZK_INLINE Quadratic8 negate(const Quadratic8& a) {
    return {F8<P>::template negate<K>(a.c0), F8<P>::template negate<K>(a.c1)};
  }
  friend CUZK_INLINE Quadratic8 operator+(const Quadratic8& a, const Quadratic8& b) {
    return {a.c0 + b.c0, a.c1 + b.c1};
  }
  static CUZK_INLINE Quadratic8 select(__mmask8 second, const Quadratic8& a, const Quadratic8& b) {
    return {F8<P>::select(second, a.c0, b.c0), F8<P>::select(second, a.c1, b.c1)};
  }
  static CUZK_INLINE Quadratic8 one() { return {F8<P>::one(), F8<P>::all(Limbs<F8<P>::N>{})}; }
  CUZK_INLINE __mmask8 zero_lanes() const {
    const __mmask8 zero = c0.zero_lanes();
    return __builtin_expect(zero == 0, 1) ? 0 : zero & c1.zero_lanes();
  }
  CUZK_INLINE __mmask8 all_zero_lanes() const { return c0.all_zero_lanes() & c1.all_zero_lanes(); }
  CUZK_INLINE F8<P>& part(int i) { return i == 0 ? c0 : c1; }
  CUZK_INLINE const F8<P>& part(int i) const { return i == 0 ? c0 : c1; }
};

// Eight XYZZ sums. A lane of `infinite` says that its coordinates mean nothing.
//
// Bounds for BN254, the tighter field, in G2, the tighter group (in multiples of p): a loaded point has
// x < 4, y <= 2; a sum X < 6.7, Y < 2.3, ZZ and ZZZ < 1.6. In add(point): h < 8.2, hh < 2.7, hhh < 1.6, q < 1.5,
// r < 5.2, r^2 < 1.7, so x3 = r^2 - hhh - 2 q + 5 < 6.7, q - x3 + 7 < 8.5, and y3 < 2.3.
template <class K8>
struct Sums8 {
  using P = typename K8::Base;
  using S = Scaling<P>;
  static constexpr int coordinate_limbs = K8::limbs;
  K8 x, y, zz, zzz;
  __mmask8 infinite;

  // A sum in memory, infinity having ZZ = 0.
  struct Bucket {
    u64 limb[4 * coordinate_limbs];
  };

  // The lanes of `where` become twice the affine point.
  CUZK_NOINLINE void set_doubled(__mmask8 where, const K8& px, const K8& py) {
    const K8 u = py + py, v = K8::template mul<9>(u, u), w = K8::template mul<3>(u, v);
    finish_doubling(where, px, py, v, w, v, w);
  }
  // The lanes of `where` are doubled.
  CUZK_NOINLINE void double_lanes(__mmask8 where) {
    const K8 u = y + y, v = K8::template mul<9>(u, u), w = K8::template mul<3>(u, v);
    finish_doubling(where, x, y, v, w, K8::template mul<3>(zz, v), K8::template mul<3>(zzz, w));
  }
  CUZK_INLINE void finish_doubling(__mmask8 where, const K8& px, const K8& py, const K8& v, const K8& w,
                                   const K8& new_zz, const K8& new_zzz) {
    const K8 s = K8::template mul<3>(px, v), xx = K8::template mul<S::x_bound>(px, px), m = xx + xx + xx;
    const K8 mm = K8::template mul<8>(m, m);
    const K8 x3 = K8::template sub<2>(K8::template sub<2>(mm, s), s);
    const K8 y3 = K8::template mul_sub<S::x_bound + 2, S::y_bound>(m, K8::template sub<S::x_bound>(s, x3), py, w);
    x = K8::select(where, x, x3);
    y = K8::select(where, y, y3);
    zz = K8::select(where, zz, new_zz);
    zzz = K8::select(where, zzz, new_zzz);
  }

  // Adds the affine points to the lanes of `where`.
  CUZK_INLINE void add(__mmask8 where, const K8& px, const K8& py) {
    const K8 h = K8::template sub<S::x_bound>(K8::template mul<2>(px, zz), x);
    const K8 r = K8::template sub<S::y_bound>(K8::template mul<2>(py, zzz), y);
    const K8 hh = K8::template mul<S::x_bound + 2>(h, h);
    const __mmask8 fresh = where & infinite;
    const __mmask8 same_x = where & ~infinite & hh.zero_lanes();
    const K8 hhh = K8::template mul<3>(h, hh), q = K8::template mul<3>(x, hh);
    const K8 x3 = K8::template sub<5>(K8::template mul<S::y_bound + 2>(r, r), hhh, q);
    const K8 y3 =
        K8::template mul_sub<S::x_bound + 2, S::y_bound>(r, K8::template sub<S::x_bound>(q, x3), y, hhh);
    const K8 zz3 = K8::template mul<3>(zz, hh), zzz3 = K8::template mul<2>(zzz, hhh);
    const __mmask8 sum = where & ~infinite & ~same_x;
    x = K8::select(fresh, K8::select(sum, x, x3), px);
    y = K8::select(fresh, K8::select(sum, y, y3), py);
    const K8 one = K8::one();
    zz = K8::select(fresh, K8::select(sum, zz, zz3), one);
    zzz = K8::select(fresh, K8::select(sum, zzz, zzz3), one);
    infinite &= ~fresh;
    if (__builtin_expect(same_x != 0, 0)) {
      const __mmask8 equal = same_x & K8::template mul<S::y_bound + 2>(r, r).zero_lanes();
      infinite |= same_x & ~equal;
      if (equal != 0) set_doubled(equal, px, py);
    }
  }

  // Adds the sums of `other`, all lanes.
  CUZK_NOINLINE void add(const Sums8& other) {
    const K8 u = K8::template mul<2>(x, other.zz), s = K8::template mul<2>(y, other.zzz);
    const K8 h = K8::template sub<2>(K8::template mul<2>(other.x, zz), u);
    const K8 r = K8::template sub<2>(K8::template mul<2>(other.y, zzz), s);
    const K8 hh = K8::template mul<4>(h, h), hhh = K8::template mul<2>(h, hh), q = K8::template mul<2>(u, hh);
    const K8 rr = K8::template mul<4>(r, r);
    const K8 x3 = K8::template sub<5>(rr, hhh, q);
    const K8 y3 = K8::template mul_sub<S::x_bound + 2, 2>(r, K8::template sub<S::x_bound>(q, x3), s, hhh);
    const K8 zz3 = K8::template mul<2>(K8::template mul<2>(zz, other.zz), hh);
    const K8 zzz3 = K8::template mul<2>(K8::template mul<2>(zzz, other.zzz), hhh);
    const __mmask8 both = ~infinite & ~other.infinite, same_x = both & hh.zero_lanes();
    const __mmask8 sum = both & ~same_x, copy = infinite & ~other.infinite;
    x = K8::select(copy, K8::select(sum, x, x3), other.x);
    y = K8::select(copy, K8::select(sum, y, y3), other.y);
    zz = K8::select(copy, K8::select(sum, zz, zz3), other.zz);
    zzz = K8::select(copy, K8::select(sum, zzz, zzz3), other.zzz);
    infinite &= other.infinite;
    if (__builtin_expect(same_x != 0, 0)) {
      const __mmask8 equal = same_x & rr.zero_lanes();
      infinite |= same_x & ~equal;
      if (equal != 0) double_lanes(equal);
    }
  }

  static CUZK_INLINE Sums8 infinity() {
    Sums8 r;
    r.x = r.y = r.zz = r.zzz = K8::one();
    r.infinite = 0xff;
    return r;
  }

  CUZK_INLINE F8<P>& part(int k) {
    K8* const coordinates[4] = {&x, &y, &zz, &zzz};
    return coordinates[k / K8::degree]->part(k % K8::degree);
  }

  static CUZK_INLINE Sums8 load(const Bucket* const* from) {
    Word8 limbs[4 * coordinate_limbs];
    const void* rows[8];
    for (int i = 0; i < 8; ++i) rows[i] = from[i]->limb;
    gather<4 * coordinate_limbs>(rows, limbs);
    Sums8 r;
    constexpr int N = F8<P>::N;
    for (int k = 0; k < 4 * K8::degree; ++k)
      for (int j = 0; j < N; ++j) r.part(k).v[j] = limbs[k * N + j];
    r.infinite = r.zz.all_zero_lanes();
    return r;
  }
  // One lane after the other from `limbs`, which is [4 coordinate_limbs][8].
  CUZK_INLINE void spread(u64* limbs) {
    constexpr int N = F8<P>::N;
    for (int k = 0; k < 4 * K8::degree; ++k)
      for (int j = 0; j < N; ++j) _mm512_store_si512(limbs + 8 * (k * N + j), part(k).v[j]);
  }
  static CUZK_INLINE void store_lane(const u64* limbs, int lane, bool infinite, Bucket* to) {
    for (int k = 0; k < 4 * coordinate_limbs; ++k) to->limb[k] = limbs[8 * k + lane];
    if (infinite) memset(to->limb + 2 * coordinate_limbs, 0, coordinate_limbs * sizeof(u64));
  }
};

#pragma GCC pop_options

}  // namespace cuzk::ifma
#endif
