// Points on a GPU: XYZZ sums as in curve.cuh, written so that a warp stays together.
//
// Infinity is all zeros here, which makes h = 0 in both additions whenever an operand is infinite, equal or
// opposite: one test on the hot path covers every special case. F is Word32 (G1) or Pair (G2); conditions go
// through F::any, because the lanes of a Pair exchange words and must all take part.
#pragma once

#include "pair.cuh"

namespace cuzk {

template <class F>
inline constexpr int affine_words = 2 * F::words;
template <class F>
inline constexpr int sum_words = 4 * F::words;

template <class F>
CUZK_DEVICE Affine<F> load_affine(const u32* at) {
  return {F::load(at), F::load(at + F::words)};
}
template <class F>
CUZK_DEVICE Xyzz<F> load_sum(const u32* at) {
  return {F::load(at), F::load(at + F::words), F::load(at + 2 * F::words), F::load(at + 3 * F::words)};
}
template <class F>
CUZK_DEVICE void store_sum(const Xyzz<F>& s, u32* at) {
  s.x.store(at);
  s.y.store(at + F::words);
  s.zz.store(at + 2 * F::words);
  s.zzz.store(at + 3 * F::words);
}
template <class F>
CUZK_DEVICE Xyzz<F> select(bool which, const Xyzz<F>& yes, const Xyzz<F>& no) {
  return {F::select(which, yes.x, no.x), F::select(which, yes.y, no.y), F::select(which, yes.zz, no.zz),
          F::select(which, yes.zzz, no.zzz)};
}
template <class F>
CUZK_DEVICE Xyzz<F> infinite_sum() {
  return {F::zero(), F::zero(), F::zero(), F::zero()};
}

// Between the types of hot and of cold code, which differ in nothing but the name.
template <class To, class From>
CUZK_DEVICE const To& as(const From& value) {
  static_assert(sizeof(To) == sizeof(From));
  return reinterpret_cast<const To&>(value);
}

// 2 (x, y) for the sum with ZZ = ZZZ = 1; zz and zzz of the operand are multiplied by the caller.
template <class F>
CUZK_DEVICE Xyzz<F> doubled_point(const F& x, const F& y) {
  const F u = y.doubled(), v = u.squared(), w = u * v, s = x * v, xx = x.squared();
  const F m = xx.doubled() + xx;
  const F x3 = m.squared() - s.doubled();
  return {x3, F::sum_of_products(m, s - x3, -w, y), v, w};
}
template <class F>
CUZK_DEVICE Xyzz<F> doubled_sum(const Xyzz<F>& s) {
  Xyzz<F> r = doubled_point(s.x, s.y);
  r.zz = r.zz * s.zz;
  r.zzz = r.zzz * s.zzz;
  return r;  // of zeros it is zeros
}

// s + p in every case, p not infinity; s where not active.
template <class F>
CUZK_COLD Xyzz<F> careful_sum(Xyzz<F> s, Affine<F> p, bool active) {
  const F h = p.x * s.zz - s.x, r = p.y * s.zzz - s.y;
  const F hh = h.squared(), hhh = h * hh, q = s.x * hh;
  const F x3 = r.squared() - hhh - q.doubled();
  const Xyzz<F> sum{x3, F::sum_of_products(r, q - x3, -s.y, hhh), s.zz * hh, s.zzz * hhh};
  const Xyzz<F> first{p.x, p.y, F::one(), F::one()}, twice = doubled_point(p.x, p.y);
  const bool special = h.is_zero(), same = r.is_zero(), nothing = s.zz.is_zero();
  const Xyzz<F> other = select(nothing, first, select(same, twice, infinite_sum<F>()));
  return select(active, select(special, other, sum), s);
}

// s += p where active; p is not infinity. A lane with a special case sends its warp the careful way. Two ways,
// each the quicker one where it is used (H200): in G1 the old sum is kept beside the new one; a pair of lanes has
// no registers for that, so it takes the careful way before anything is overwritten, idle lanes included.
template <class F>
CUZK_DEVICE void add_point(Xyzz<F>& s, const Affine<F>& p, bool active) {
  using C = typename F::Cold;
  const F h = p.x * s.zz - s.x, r = p.y * s.zzz - s.y;
  if constexpr (F::lanes == 2) {
    if (F::any(h.is_zero() || !active)) {
      s = as<Xyzz<F>>(careful_sum<C>(as<Xyzz<C>>(s), as<Affine<C>>(p), active));
      return;
    }
    const F hh = h.squared(), hhh = h * hh, q = s.x * hh;
    s.zz = s.zz * hh;
    s.zzz = s.zzz * hhh;
    s.x = r.squared() - hhh - q.doubled();
    s.y = F::sum_of_products(r, q - s.x, -s.y, hhh);
  } else {
    const bool special = h.is_zero();
    const F hh = h.squared(), hhh = h * hh, q = s.x * hh;
    const F x3 = r.squared() - hhh - q.doubled();
    Xyzz<F> sum{x3, F::sum_of_products(r, q - x3, -s.y, hhh), s.zz * hh, s.zzz * hhh};
    if (special && active) sum = as<Xyzz<F>>(careful_sum<C>(as<Xyzz<C>>(s), as<Affine<C>>(p), true));
    s = select(active, sum, s);
  }
}

// s += o where active; either may be infinity.
template <class F>
CUZK_DEVICE void add_sum(Xyzz<F>& s, const Xyzz<F>& o, bool active) {
  const F u = s.x * o.zz, t = s.y * o.zzz;
  const F h = o.x * s.zz - u, r = o.y * s.zzz - t;
  const bool special = h.is_zero();
  const F hh = h.squared(), hhh = h * hh, q = u * hh;
  const F x3 = r.squared() - hhh - q.doubled();
  Xyzz<F> sum{x3, F::sum_of_products(r, q - x3, -t, hhh), s.zz * o.zz * hh, s.zzz * o.zzz * hhh};
  if (F::any(special && active)) {
    const bool nothing = s.zz.is_zero(), nothing_more = o.zz.is_zero(), same = r.is_zero();
    if (F::any(special && active && !nothing && !nothing_more && same)) {
      sum = select(special, select(same, doubled_sum(s), infinite_sum<F>()), sum);
    } else {
      sum = select(special, infinite_sum<F>(), sum);
    }
    sum = select(nothing_more, s, sum);
    sum = select(nothing, o, sum);
  }
  s = select(active, sum, s);
}

}  // namespace cuzk
