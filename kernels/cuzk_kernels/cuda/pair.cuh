// Fp[u] / (u^2 + 1) on a GPU: two neighbouring lanes hold c0 and c1 of the same element.
//
// One thread cannot keep a point of G2 and an accumulator in its 255 registers; two can. A product is, in the
// even lane, a0 b0 - a1 b1 and in the odd one a0 b1 + a1 b0: two products and one reduction each, the partner's
// words coming by shuffle. All lanes of a warp must take part in every operation: callers keep warps together
// (`any`) and discard what idle lanes computed.
#pragma once

#include "ptx.cuh"

namespace cuzk {

#if defined(__CUDACC__)

template <class B>
struct Pair {
  using Base = B;
  using Cold = Pair<typename B::Cold>;
  static constexpr int words = 2 * B::N;
  static constexpr int lanes = 2;
  B c;  // c0 in even lanes, c1 in odd ones

  CUZK_DEVICE static bool odd() { return (threadIdx.x & 1) != 0; }
  CUZK_DEVICE static B other(const B& x) {
    B r;
#pragma unroll
    for (int i = 0; i < B::N; ++i) r.v[i] = __shfl_xor_sync(0xffffffff, x.v[i], 1);
    return r;
  }
  // Whether a statement holds in both lanes of the pair.
  CUZK_DEVICE static bool both(bool value) {
    const u32 votes = __ballot_sync(0xffffffff, value);
    return ((votes >> (threadIdx.x & 30)) & 3) == 3;
  }
  CUZK_DEVICE static bool any(bool value) { return warp_any(value); }

  CUZK_DEVICE static Pair zero() { return {B::zero()}; }
  CUZK_DEVICE static Pair one() { return {B::select(odd(), B::zero(), B::one())}; }
  CUZK_DEVICE static Pair load(const u32* at) { return {B::load(at + (odd() ? B::N : 0))}; }
  CUZK_DEVICE void store(u32* at) const { c.store(at + (odd() ? B::N : 0)); }
  CUZK_DEVICE bool is_zero() const { return both(c.is_zero()); }
  CUZK_DEVICE bool reduced() const { return both(c.reduced()); }
  CUZK_DEVICE bool operator==(const Pair& o) const { return both(c == o.c); }
  CUZK_DEVICE friend Pair operator+(const Pair& a, const Pair& b) { return {a.c + b.c}; }
  CUZK_DEVICE friend Pair operator-(const Pair& a, const Pair& b) { return {a.c - b.c}; }
  CUZK_DEVICE Pair operator-() const { return {-c}; }
  CUZK_DEVICE Pair negated_if(bool negate) const { return {c.negated_if(negate)}; }
  CUZK_DEVICE static Pair select(bool which, const Pair& yes, const Pair& no) {
    return {B::select(which, yes.c, no.c)};
  }
  CUZK_DEVICE Pair doubled() const { return {c.doubled()}; }
  CUZK_DEVICE Pair conjugate() const { return {c.negated_if(odd())}; }

  CUZK_DEVICE friend Pair operator*(const Pair& a, const Pair& b) {
    if constexpr (B::expanded) {
      return {product(a.c, b.c)};
    } else {
      return {product_call(a.c, b.c)};
    }
  }
  CUZK_DEVICE Pair squared() const {
    if constexpr (B::expanded) {
      return {square(c)};
    } else {
      return {square_call(c)};
    }
  }
  CUZK_DEVICE static Pair sum_of_products(const Pair& a, const Pair& b, const Pair& c, const Pair& d) {
    if constexpr (B::expanded) {
      return {products(a.c, b.c, c.c, d.c)};
    } else {
      return {products_call(a.c, b.c, c.c, d.c)};
    }
  }
  CUZK_DEVICE Pair inverted() const {
    const B o = other(c), norm = B::sum_of_products(c, c, o, o).inverted();
    return {(c * norm).negated_if(odd())};
  }

 private:
  // What a and other(a) are multiplied by: b0 and -b1 in even lanes, b0 and b1 in odd ones.
  CUZK_DEVICE static void factors(const B& b, B& first, B& second) {
    const B other_b = other(b);
    first = B::select(odd(), other_b, b);
    second = B::select(odd(), b, other_b.raw_negative());
  }
  CUZK_DEVICE static B product(const B& a, const B& b) {
    const B other_a = other(a);
    B first, second;
    factors(b, first, second);
    const u32 *x[2] = {a.v, other_a.v}, *y[2] = {first.v, second.v};
    return B::template products<2>(x, y);
  }
  CUZK_DEVICE static B products(const B& a, const B& b, const B& c, const B& d) {
    const B other_a = other(a), other_c = other(c);
    B first, second, third, fourth;
    factors(b, first, second);
    factors(d, third, fourth);
    const u32 *x[4] = {a.v, other_a.v, c.v, other_c.v}, *y[4] = {first.v, second.v, third.v, fourth.v};
    return B::template products<4>(x, y);
  }
  // (a0 - a1)(a0 + a1) and a0 2a1.
  CUZK_DEVICE static B square(const B& a) {
    const B o = other(a);
    return B::product(B::select(odd(), o, a - o), B::raw_sum(a, B::select(odd(), a, o)));
  }
  CUZK_COLD static B product_call(B a, B b) { return product(a, b); }
  CUZK_COLD static B products_call(B a, B b, B c, B d) { return products(a, b, c, d); }
  CUZK_COLD static B square_call(B a) { return square(a); }
};

#else

// Where kernels are emulated one thread holds both components.
template <class B>
struct Pair {
  using Base = B;
  using Cold = Pair;
  static constexpr int words = 2 * B::N;
  static constexpr int lanes = 1;
  B c0, c1;

  static bool any(bool value) { return value; }
  static Pair zero() { return {B::zero(), B::zero()}; }
  static Pair one() { return {B::one(), B::zero()}; }
  static Pair load(const u32* at) { return {B::load(at), B::load(at + B::N)}; }
  void store(u32* at) const {
    c0.store(at);
    c1.store(at + B::N);
  }
  bool is_zero() const { return c0.is_zero() && c1.is_zero(); }
  bool reduced() const { return c0.reduced() && c1.reduced(); }
  bool operator==(const Pair& o) const { return c0 == o.c0 && c1 == o.c1; }
  friend Pair operator+(const Pair& a, const Pair& b) { return {a.c0 + b.c0, a.c1 + b.c1}; }
  friend Pair operator-(const Pair& a, const Pair& b) { return {a.c0 - b.c0, a.c1 - b.c1}; }
  Pair operator-() const { return {-c0, -c1}; }
  Pair negated_if(bool negate) const { return negate ? -*this : *this; }
  static Pair select(bool which, const Pair& yes, const Pair& no) { return which ? yes : no; }
  Pair doubled() const { return {c0.doubled(), c1.doubled()}; }
  Pair conjugate() const { return {c0, -c1}; }
  friend Pair operator*(const Pair& a, const Pair& b) {
    return {B::sum_of_products(a.c0, b.c0, a.c1, -b.c1), B::sum_of_products(a.c0, b.c1, a.c1, b.c0)};
  }
  Pair squared() const { return *this * *this; }
  static Pair sum_of_products(const Pair& a, const Pair& b, const Pair& c, const Pair& d) { return a * b + c * d; }
  Pair inverted() const {
    const B norm = B::sum_of_products(c0, c0, c1, c1).inverted();
    return {c0 * norm, -(c1 * norm)};
  }
};

#endif

}  // namespace cuzk
