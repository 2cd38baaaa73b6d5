// The two curves: their fields, coefficients and subgroup tests.
#pragma once

#include "curve.cuh"

namespace cuzk {

struct Bn254 {
  using Fq = Field<Bn254Q>;
  using Fr = Field<Bn254R>;
  static constexpr int scalar_bits = 254;
  static constexpr int two_adicity = 28;
};

struct Bls381 {
  using Fq = Field<Bls381Q>;
  using Fr = Field<Bls381R>;
  static constexpr int scalar_bits = 255;
  static constexpr int two_adicity = 32;
};

// One of the groups G1 and G2 of a curve C: the coordinate field F, the constant b, and membership of the
// subgroup of order r for a point of the curve that is not infinity.
//
// psi below is the Frobenius map of the curve over Fp pulled back to the twist; it satisfies
// psi^2 - t psi + q = 0 with t the trace. If psi(P) = [t-1] P, then ((t-1)^2 - t (t-1) + q) P =
// (q + 1 - t) P = 0, where q + 1 - t = #E(Fp).
template <class C>
struct G1;
template <class C>
struct G2;

template <>
struct G1<Bn254> {
  using Curve = Bn254;
  using F = Bn254::Fq;
  static F b() { return F::from_u64(3); }
  static bool in_subgroup(const Affine<F>&) { return true; }  // #E(Fp) = r
};

// BN254: #E(Fp) = r, so psi(P) = [t-1] P alone gives [r] P = 0. t - 1 = 6 x^2, x = 4965661367192848881.
// The twist divides b by xi = 9 + u, so psi(x, y) = (xi^((q-1)/3) conj(x), xi^((q-1)/2) conj(y)).
template <>
struct G2<Bn254> {
  using Curve = Bn254;
  using F = Quadratic<Bn254::Fq>;
  static F xi() { return {Bn254::Fq::from_u64(9), Bn254::Fq::one()}; }
  static F b() { return F{Bn254::Fq::from_u64(3), Bn254::Fq::zero()} * xi().inverted(); }
  static bool in_subgroup(const Affine<F>& p);
};

// BLS12-381, x = -0xd201000000010000. phi(x, y) = (beta x, y) with beta^3 = 1 satisfies phi^2 + phi + 1 = 0.
// If phi(P) = [-x^2] P, then (x^4 - x^2 + 1) P = 0, and x^4 - x^2 + 1 = r. (Scott, eprint 2021/1130.)
template <>
struct G1<Bls381> {
  using Curve = Bls381;
  using F = Bls381::Fq;
  static F b() { return F::from_u64(4); }
  static bool in_subgroup(const Affine<F>& p);
};

// BLS12-381: t - 1 = x. psi(P) = [x] P gives [h1 r] P = 0 with h1 the cofactor of G1; the cofactor of G2 is
// prime to h1, so [r] P = 0. The twist multiplies b by xi = 1 + u, so psi takes the inverse powers of xi.
template <>
struct G2<Bls381> {
  using Curve = Bls381;
  using F = Quadratic<Bls381::Fq>;
  static F xi() { return {Bls381::Fq::one(), Bls381::Fq::one()}; }
  static F b() { return F{Bls381::Fq::from_u64(4), Bls381::Fq::zero()} * xi(); }
  static bool in_subgroup(const Affine<F>& p);
};

namespace detail {

// (q - 1) / 6 of a modulus as words.
template <class P>
Limbs<P::N> sixth_of_order() {
  Limbs<P::N> e = P::modulus();
  u64 rest = 0;
  for (int i = P::N - 1; i >= 0; --i) {  // floor(q / 6) is (q - 1) / 6, since q = 1 mod 6
    const u128 t = ((u128)rest << 64) | e.v[i];
    e.v[i] = (u64)(t / 6);
    rest = (u64)(t % 6);
  }
  return e;
}

template <class G>
typename G::F xi_to_sixth() {
  using P = typename G::F::Base::Params;
  const auto e = sixth_of_order<P>();
  return G::xi().power(e.v, P::N);
}

template <class F>
bool equal(const Affine<F>& a, const Xyzz<F>& b) {
  return !b.is_infinity() && a.x * b.zz == b.x && a.y * b.zzz == b.y;
}

}  // namespace detail

inline bool G2<Bn254>::in_subgroup(const Affine<F>& p) {
  static const F sixth = detail::xi_to_sixth<G2<Bn254>>();
  static const F gx = sixth.squared(), gy = gx * sixth;
  static constexpr u64 trace_less_one[2] = {0xf83e9682e87cfd46ull, 0x6f4d8248eeb859fbull};
  return detail::equal({gx * p.x.conjugate(), gy * p.y.conjugate()}, multiply(p, trace_less_one, 2));
}

inline constexpr u64 bls_minus_x = 0xd201000000010000ull;

inline bool G1<Bls381>::in_subgroup(const Affine<F>& p) {
  // The cube root of unity that acts as -x^2: 2^((q-1)/3), 2 being no cube modulo q.
  static const F beta = [] {
    const auto e = detail::sixth_of_order<Bls381Q>();
    const F sixth = F::from_u64(2).power(e.v, Bls381Q::N);
    return sixth.squared();
  }();
  Xyzz<F> xp = multiply(p, &bls_minus_x, 1), xxp = Xyzz<F>::infinity();
  for (int i = 63; i >= 0; --i) {
    xxp = xxp.doubled();
    if ((bls_minus_x >> i) & 1) xxp.add(xp);
  }
  return detail::equal({beta * p.x, p.y}, -xxp);
}

inline bool G2<Bls381>::in_subgroup(const Affine<F>& p) {
  static const F sixth = detail::xi_to_sixth<G2<Bls381>>().inverted();
  static const F gx = sixth.squared(), gy = gx * sixth;
  return detail::equal({gx * p.x.conjugate(), gy * p.y.conjugate()}, -multiply(p, &bls_minus_x, 1));
}

}  // namespace cuzk
