// Points of y^2 = x^3 + b: affine bases as a .zkey stores them, and extended Jacobian ("XYZZ") sums.
//
// XYZZ: x = X/ZZ, y = Y/ZZZ with ZZ^3 = ZZZ^2; infinity has ZZ = 0. Formulas: Explicit-Formulas Database,
// shortw/xyzz, add-2008-s, madd-2008-s, dbl-2008-s-1 and mdbl-2008-s-1, with a = 0. The additions treat
// equal, opposite and infinite operands, which those formulas do not.
#pragma once

#include "field.cuh"

namespace cuzk {

// F is the coordinate field. In memory exactly a point of a .zkey: Montgomery words, infinity all zeros
// (zeros satisfy no curve equation with b != 0).
template <class F>
struct Affine {
  F x, y;
  CUZK_HD static Affine infinity() { return {F::zero(), F::zero()}; }
  CUZK_HD bool is_infinity() const { return x.is_zero() && y.is_zero(); }
  CUZK_HD Affine operator-() const { return {x, -y}; }
  CUZK_HD bool operator==(const Affine& o) const { return x == o.x && y == o.y; }
};

template <class F>
struct Xyzz {
  F x, y, zz, zzz;

  CUZK_HD static Xyzz infinity() { return {F::zero(), F::zero(), F::zero(), F::zero()}; }
  CUZK_HD static Xyzz from_affine(const Affine<F>& p) {
    return p.is_infinity() ? infinity() : Xyzz{p.x, p.y, F::one(), F::one()};
  }
  CUZK_HD bool is_infinity() const { return zz.is_zero(); }
  CUZK_HD Xyzz operator-() const { return {x, -y, zz, zzz}; }

  // 2 * p for an affine p that is not infinity. No point of either curve has y = 0: their orders are odd.
  CUZK_HD static Xyzz doubled(const Affine<F>& p) {
    const F u = p.y.doubled(), v = u.squared(), w = u * v, s = p.x * v, xx = p.x.squared();
    const F m = xx.doubled() + xx;
    const F x3 = m.squared() - s.doubled();
    return {x3, m * (s - x3) - w * p.y, v, w};
  }
  CUZK_HD Xyzz doubled() const {
    if (is_infinity()) return *this;
    const F u = y.doubled(), v = u.squared(), w = u * v, s = x * v, xx = x.squared();
    const F m = xx.doubled() + xx;
    const F x3 = m.squared() - s.doubled();
    return {x3, m * (s - x3) - w * y, v * zz, w * zzz};
  }

  CUZK_HD void add(const Affine<F>& p) {
    if (p.is_infinity()) return;
    if (is_infinity()) {
      *this = {p.x, p.y, F::one(), F::one()};
      return;
    }
    const F h = p.x * zz - x, r = p.y * zzz - y;
    if (h.is_zero()) {
      *this = r.is_zero() ? doubled(p) : infinity();
      return;
    }
    const F hh = h.squared(), hhh = h * hh, q = x * hh;
    const F x3 = r.squared() - hhh - q.doubled();
    *this = {x3, r * (q - x3) - y * hhh, zz * hh, zzz * hhh};
  }

  CUZK_HD void add(const Xyzz& p) {
    if (p.is_infinity()) return;
    if (is_infinity()) {
      *this = p;
      return;
    }
    const F u = x * p.zz, s = y * p.zzz;
    const F h = p.x * zz - u, r = p.y * zzz - s;
    if (h.is_zero()) {
      *this = r.is_zero() ? doubled() : infinity();
      return;
    }
    const F hh = h.squared(), hhh = h * hh, q = u * hh;
    const F x3 = r.squared() - hhh - q.doubled();
    *this = {x3, r * (q - x3) - s * hhh, zz * p.zz * hh, zzz * p.zzz * hhh};
  }

  CUZK_HD Affine<F> to_affine() const {
    if (is_infinity()) return Affine<F>::infinity();
    return to_affine(zzz.inverted());
  }
  // With 1/ZZZ at hand: 1/Z = ZZ/ZZZ, so 1/ZZ is its square.
  CUZK_HD Affine<F> to_affine(const F& inverse_zzz) const {
    return {x * (zz * inverse_zzz).squared(), y * inverse_zzz};
  }
};

// scalar * p, the scalar a plain integer of `limbs` words; complete for any point of the curve.
template <class F>
CUZK_HD Xyzz<F> multiply(const Affine<F>& p, const u64* scalar, int limbs) {
  Xyzz<F> r = Xyzz<F>::infinity();
  for (int i = 64 * limbs - 1; i >= 0; --i) {
    r = r.doubled();
    if ((scalar[i / 64] >> (i % 64)) & 1) r.add(p);
  }
  return r;
}

}  // namespace cuzk
