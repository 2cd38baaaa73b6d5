// Transforms of eight columns or rows at once with AVX-512 IFMA.
//
// A transform is linear, so that the values stay in the form they come in, x 2^256, and only the factors
// carry R52: nothing is converted but the cut into limbs.
#pragma once

#include "ifma.hpp"
#include "ntt.hpp"

#ifdef CUZK_IFMA

namespace cuzk::ifma {

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512ifma,bmi2")

// Lanes of Transform. Bounds in multiples of p, R52 / p being 35 or more: loaded values are below 2, a term
// factor * b below 2; two stages with factor 1 at most double, to 8, every other stage adds 2, so that 14
// stages (transforms of 2^28 have no longer part) stay below 32, and what is stored is below 1 or 2 again.
template <class Fr>
struct Lanes {
  using P = typename Fr::Params;
  using M = Prime<P>;
  using V = F8<P>;
  static constexpr int N = V::N;
  static constexpr int free_stages = 2;

  // F8 as plain memory, for code compiled without AVX-512.
  struct alignas(64) Value {
    u64 limb[N][8];
  };
  struct Factor {
    u64 limb[N];
  };

  static CUZK_NOINLINE void turn(Value* a, Value* b, const Factor* factor) {
    const V f = spread(*factor);
    finish(a, b, product(get(b), f));
  }
  static CUZK_NOINLINE void turn(Value* a, Value* b, int stage) {
    if (stage < free_stages) {
      const V x = get(a), y = get(b);
      put(a, x + y);
      put(b, stage == 0 ? V::template subtract<2>(x, y) : V::template subtract<4>(x, y));
    } else {
      finish(a, b, product(get(b), V::one()));
    }
  }
  static CUZK_NOINLINE Factor factor(const Fr& x) {
    // x 2^256 to x R52.
    Fr fr = x;
    for (int i = 0; i < M::bits - 64 * M::words; ++i) fr = fr.doubled();
    Limbs<M::words> words;
    for (int i = 0; i < M::words; ++i) words.v[i] = fr.v[i];
    const Limbs<N> limbs = M::split(words, 1);
    Factor out;
    for (int j = 0; j < N; ++j) out.limb[j] = limbs.v[j];
    return out;
  }
  static CUZK_NOINLINE void factors(const Fr* x, Value* out) {
    for (int i = 0; i < 8; ++i) {
      const Factor f = factor(x[i]);
      for (int j = 0; j < N; ++j) out->limb[j][i] = f.limb[j];
    }
  }
  static CUZK_NOINLINE void multiply(const Value* a, const Value* b, Value* out) { put(out, product(get(a), get(b))); }
  static CUZK_NOINLINE void multiply(const Value* a, const Factor* b, Value* out) {
    put(out, product(get(a), spread(*b)));
  }
  static CUZK_NOINLINE void load(const Fr* at, size_t stride, Value* out) {
    const void* rows[8];
    for (int i = 0; i < 8; ++i) rows[i] = at + i * stride;
    Word8 w[M::words];
    gather<M::words>(rows, w);
    put(out, V::from_words(w, 0));
  }
  static CUZK_NOINLINE void store(const Value* a, Fr* at, size_t stride) { keep(product(get(a), V::one()), at, stride); }
  static CUZK_NOINLINE void store_product(const Value* a, const Value* b, Fr* at, size_t stride) {
    keep(product(get(a), get(b)), at, stride);
  }

 private:
  static CUZK_INLINE V get(const Value* a) {
    V r;
    for (int j = 0; j < N; ++j) r.v[j] = _mm512_load_si512(a->limb[j]);
    return r;
  }
  static CUZK_INLINE void put(Value* a, const V& x) {
    for (int j = 0; j < N; ++j) _mm512_store_si512(a->limb[j], x.v[j]);
  }
  static CUZK_INLINE V spread(const Factor& f) {
    V r;
    for (int j = 0; j < N; ++j) r.v[j] = broadcast(f.limb[j]);
    return r;
  }
  static CUZK_INLINE V product(const V& a, const V& b) {
    const V *as[1] = {&a}, *bs[1] = {&b};
    V r;
    dot_inline<1>(&r, as, bs);
    return r;
  }
  static CUZK_INLINE void finish(Value* a, Value* b, const V& term) {
    const V x = get(a);
    put(a, x + term);
    put(b, V::template subtract<2>(x, term));
  }
  // Fully reduced, for a value below 2 p.
  static CUZK_INLINE void keep(const V& x, Fr* at, size_t stride) {
    constexpr Limbs<N> p = M::multiple(1);
    V less;
    for (int j = 0; j < N; ++j) less.v[j] = _mm512_sub_epi64(x.v[j], broadcast(p.v[j]));
    less.carry();
    const __mmask8 below = _mm512_movepi64_mask(less.v[N - 1]);
    const V value = V::select(below, less, x);
    Word8 w[M::words];
    value.to_words(w);
    void* rows[8];
    for (int i = 0; i < 8; ++i) rows[i] = at + i * stride;
    scatter<M::words>(w, rows);
  }
};

#pragma GCC pop_options

}  // namespace cuzk::ifma
#endif
