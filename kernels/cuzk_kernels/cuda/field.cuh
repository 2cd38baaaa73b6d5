// Prime fields in Montgomery form, R = 2^(64 N), and their quadratic extension by u^2 = -1.
//
// Every value is kept fully reduced, in [0, p), so that equality is equality of limbs.
// The primes all have a spare top bit, and their top limb is below 2^63 - 1, which lets the coarsely
// integrated operand scanning product (Koc, Acar, Kaliski 1996) run without an extra carry limb.
#pragma once

#include "params.cuh"
#if !defined(__CUDACC__) && defined(__x86_64__)
#define CUZK_X86 1
#include "x86.cuh"
#endif

namespace cuzk {

template <class P>
struct Field {
  static constexpr int N = P::N;
  using Params = P;
  u64 v[N];

  CUZK_HD static Field zero() {
    Field r;
    for (int i = 0; i < N; ++i) r.v[i] = 0;
    return r;
  }
  CUZK_HD static Field one() { return from_limbs(P::one()); }
  CUZK_HD static Field from_limbs(const Limbs<N>& l) {
    Field r;
    for (int i = 0; i < N; ++i) r.v[i] = l.v[i];
    return r;
  }
  // The field element of a small integer.
  CUZK_HD static Field from_u64(u64 x) {
    Field r = zero();
    r.v[0] = x;
    return r.to_montgomery();
  }

  CUZK_HD bool is_zero() const {
    u64 bits = 0;
    for (int i = 0; i < N; ++i) bits |= v[i];
    return bits == 0;
  }
  CUZK_HD bool operator==(const Field& o) const {
    u64 bits = 0;
    for (int i = 0; i < N; ++i) bits |= v[i] ^ o.v[i];
    return bits == 0;
  }
  CUZK_HD bool operator!=(const Field& o) const { return !(*this == o); }

  // Whether the raw integer is below p: what is read from a file need not be.
  CUZK_HD bool reduced() const {
    const Limbs<N> p = P::modulus();
    u64 borrow = 0;
    for (int i = 0; i < N; ++i) borrow = (u64)(((u128)v[i] - p.v[i] - borrow) >> 64) & 1;
    return borrow != 0;
  }

  CUZK_HD friend Field operator+(const Field& a, const Field& b) {
    Field r;
#ifdef CUZK_X86
    x86::add<N>(r.v, a.v, b.v, reducer());
    return r;
#else
    u64 carry = 0;
    for (int i = 0; i < N; ++i) {
      const u128 t = (u128)a.v[i] + b.v[i] + carry;
      r.v[i] = (u64)t;
      carry = (u64)(t >> 64);
    }
    return r.subtract_p_once();
#endif
  }
  CUZK_HD friend Field operator-(const Field& a, const Field& b) {
    Field r;
#ifdef CUZK_X86
    x86::subtract<N>(r.v, a.v, b.v, reducer());
#else
    const Limbs<N> p = P::modulus();
    u64 borrow = 0;
    for (int i = 0; i < N; ++i) {
      const u128 t = (u128)a.v[i] - b.v[i] - borrow;
      r.v[i] = (u64)t;
      borrow = (u64)(t >> 64) & 1;
    }
    const u64 mask = 0 - borrow;
    u64 carry = 0;
    for (int i = 0; i < N; ++i) {
      const u128 t = (u128)r.v[i] + (p.v[i] & mask) + carry;
      r.v[i] = (u64)t;
      carry = (u64)(t >> 64);
    }
#endif
    return r;
  }
  CUZK_HD Field operator-() const { return zero() - *this; }
  CUZK_HD Field doubled() const { return *this + *this; }

  // a * b / R. The second factor may be any integer below 2^(64 N); the first must be reduced.
  CUZK_HD friend Field operator*(const Field& a, const Field& b) {
#ifdef CUZK_X86
    if (x86::level >= x86::adx) {
      Field r;
      x86::multiply<N>(r.v, a.v, b.v, reducer());
      return r;
    }
#endif
    return multiply_portable(a, b);
  }
  CUZK_HD CUZK_CALL static Field multiply_portable(const Field& a, const Field& b) {
    const Limbs<N> p = P::modulus();
    u64 t[N];
    for (int i = 0; i < N; ++i) t[i] = 0;
    CUZK_UNROLL
    for (int i = 0; i < N; ++i) {
      u128 s = (u128)a.v[0] * b.v[i] + t[0];
      u64 carry = (u64)(s >> 64);
      const u64 m = (u64)s * P::inverse();
      u128 d = (u128)m * p.v[0] + (u64)s;
      u64 borrow = (u64)(d >> 64);
      CUZK_UNROLL
      for (int j = 1; j < N; ++j) {
        s = (u128)a.v[j] * b.v[i] + t[j] + carry;
        carry = (u64)(s >> 64);
        d = (u128)m * p.v[j] + (u64)s + borrow;
        borrow = (u64)(d >> 64);
        t[j - 1] = (u64)d;
      }
      t[N - 1] = carry + borrow;
    }
    Field r;
    for (int i = 0; i < N; ++i) r.v[i] = t[i];
    return r.subtract_p_once();
  }
  CUZK_HD Field squared() const { return *this * *this; }
  // The same value below p, for one below 2 p.
  CUZK_HD Field reduced_once() const { return subtract_p_once(); }

  CUZK_HD Field to_montgomery() const { return from_limbs(P::square_of_r()) * *this; }
  CUZK_HD Field from_montgomery() const {
    Field unit = zero();
    unit.v[0] = 1;
    return *this * unit;
  }

  // this^e, e of `limbs` words.
  CUZK_HD Field power(const u64* e, int limbs) const {
    Field r = one();
    for (int i = 64 * limbs - 1; i >= 0; --i) {
      r = r.squared();
      if ((e[i / 64] >> (i % 64)) & 1) r = r * *this;
    }
    return r;
  }
  CUZK_HD Field power(u64 e) const { return power(&e, 1); }
  // 1/this by Fermat; zero for zero.
  CUZK_HD Field inverted() const {
    Limbs<N> e = P::modulus();
    e.v[0] -= 2;  // no borrow: the lowest limb of every modulus here is above 2
    return power(e.v, N);
  }

 private:
  CUZK_HD Field subtract_p_once() const {
    const Limbs<N> p = P::modulus();
    Field r;
    u64 borrow = 0;
    for (int i = 0; i < N; ++i) {
      const u128 t = (u128)v[i] - p.v[i] - borrow;
      r.v[i] = (u64)t;
      borrow = (u64)(t >> 64) & 1;
    }
    const u64 keep = 0 - borrow;
    for (int i = 0; i < N; ++i) r.v[i] = (v[i] & keep) | (r.v[i] & ~keep);
    return r;
  }
#ifdef CUZK_X86
  static constexpr x86::Reducer<N> make_reducer() {
    x86::Reducer<N> r{};
    for (int i = 0; i < N; ++i) r.p[i] = P::modulus().v[i];
    r.inverse = P::inverse();
    return r;
  }
  static const x86::Reducer<N>& reducer() {
    static constexpr x86::Reducer<N> value = make_reducer();
    return value;
  }
#endif
};

// Fp[u] / (u^2 + 1); both curves define G2 over it.
template <class B>
struct Quadratic {
  using Base = B;
  B c0, c1;

  CUZK_HD static Quadratic zero() { return {B::zero(), B::zero()}; }
  CUZK_HD static Quadratic one() { return {B::one(), B::zero()}; }
  CUZK_HD bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
  CUZK_HD bool reduced() const { return c0.reduced() && c1.reduced(); }
  CUZK_HD bool operator==(const Quadratic& o) const { return c0 == o.c0 && c1 == o.c1; }
  CUZK_HD bool operator!=(const Quadratic& o) const { return !(*this == o); }
  CUZK_HD friend Quadratic operator+(const Quadratic& a, const Quadratic& b) {
    return {a.c0 + b.c0, a.c1 + b.c1};
  }
  CUZK_HD friend Quadratic operator-(const Quadratic& a, const Quadratic& b) {
    return {a.c0 - b.c0, a.c1 - b.c1};
  }
  CUZK_HD Quadratic operator-() const { return {-c0, -c1}; }
  CUZK_HD Quadratic doubled() const { return {c0.doubled(), c1.doubled()}; }
  CUZK_HD friend Quadratic operator*(const Quadratic& a, const Quadratic& b) {
    const B low = a.c0 * b.c0, high = a.c1 * b.c1;
    return {low - high, (a.c0 + a.c1) * (b.c0 + b.c1) - low - high};
  }
  CUZK_HD Quadratic squared() const {
    return {(c0 + c1) * (c0 - c1), (c0 * c1).doubled()};
  }
  CUZK_HD Quadratic conjugate() const { return {c0, -c1}; }
  CUZK_HD Quadratic inverted() const {
    const B scale = (c0.squared() + c1.squared()).inverted();
    return {c0 * scale, -(c1 * scale)};
  }
  CUZK_HD Quadratic power(const u64* e, int limbs) const {
    Quadratic r = one();
    for (int i = 64 * limbs - 1; i >= 0; --i) {
      r = r.squared();
      if ((e[i / 64] >> (i % 64)) & 1) r = r * *this;
    }
    return r;
  }
  CUZK_HD Quadratic from_montgomery() const { return {c0.from_montgomery(), c1.from_montgomery()}; }
};

}  // namespace cuzk
