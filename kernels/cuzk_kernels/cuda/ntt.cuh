// Number-theoretic transforms over a small array, and what a transform of any length is put together from.
//
// One direction goes from natural to bit-reversed order, the other back, so that a quotient needs no
// reordering pass. Both use the butterfly of Cooley and Tukey, (a, b) -> (a + f b, a - f b): multiplying
// before adding keeps the growth of values that are not fully reduced linear in the number of stages.
//
// Ops says what is transformed (Ops::Value: a field element, or several side by side) and how:
//   turn(a, b, factor)   (a, b) -> (a + factor b, a - factor b)
//   turn(a, b, stage)    the same for factor 1 in stage 0, 1, ...
#pragma once

#include "field.cuh"

namespace cuzk {

CUZK_HD inline size_t reverse_bits(size_t x, int log) {
  size_t r = 0;
  for (int i = 0; i < log; ++i) r |= ((x >> i) & 1) << (log - 1 - i);
  return r;
}

// values[0, 2^log) in place, natural to bit-reversed order. factors[i] = w^reverse(i), where w has order
// 2^L, L >= log, and reverse is over L - 1 bits: the first entries serve every shorter transform as well.
template <class Ops>
CUZK_HD void to_reversed(typename Ops::Value* values, int log, const typename Ops::Factor* factors) {
  for (int stage = 0; stage < log; ++stage) {
    const size_t half = ((size_t)1 << log) >> (stage + 1);
    for (size_t k = 0; k < half; ++k) Ops::turn(values + k, values + k + half, stage);
    for (size_t block = 1; block < (size_t)1 << stage; ++block) {
      typename Ops::Value* low = values + 2 * half * block;
      for (size_t k = 0; k < half; ++k) Ops::turn(low + k, low + k + half, factors + block);
    }
  }
}

// Bit-reversed to natural order; factors[k * stride] = w^k for k < 2^log / 2, w of order 2^log.
template <class Ops>
CUZK_HD void to_natural(typename Ops::Value* values, int log, const typename Ops::Factor* factors, size_t stride) {
  const size_t n = (size_t)1 << log;
  for (int stage = 0; stage < log; ++stage) {
    const size_t half = (size_t)1 << stage, step = stride * (n / 2 / half);
    for (size_t block = 0; block < n; block += 2 * half) {
      typename Ops::Value *low = values + block, *high = low + half;
      Ops::turn(low, high, stage);
      for (size_t k = 1; k < half; ++k) Ops::turn(low + k, high + k, factors + k * step);
    }
  }
}

// One element of a field, fully reduced.
template <class Fr>
struct ElementOps {
  using Value = Fr;
  using Factor = Fr;
  CUZK_HD static void turn(Fr* a, Fr* b, const Fr* factor) {
    const Fr term = *b * *factor;
    *b = *a - term;
    *a = *a + term;
  }
  CUZK_HD static void turn(Fr* a, Fr* b, int) {
    const Fr term = *b;
    *b = *a - term;
    *a = *a + term;
  }
};

// The primitive 2^log-th root of unity snarkjs uses: 5^t to the power 2^(two_adicity - log), t the odd part
// of r - 1; 5 is the least quadratic non-residue of both scalar fields. (bellperson and arkworks start from 7
// on BLS12-381: another root, and a key made for one gives invalid proofs with the other.)
template <class C>
CUZK_HD typename C::Fr root_of_unity(int log) {
  using F = typename C::Fr;
  Limbs<4> t = F::Params::modulus();
  t.v[0] -= 1;
  for (int k = 0; k < C::two_adicity; ++k)
    for (int i = 0; i < 4; ++i) t.v[i] = (t.v[i] >> 1) | (i < 3 ? t.v[i + 1] << 63 : 0);
  F w = F::from_u64(5).power(t.v, 4);
  for (int k = log; k < C::two_adicity; ++k) w = w.squared();
  return w;
}

}  // namespace cuzk
