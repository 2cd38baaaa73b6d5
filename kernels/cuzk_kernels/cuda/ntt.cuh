// Number-theoretic transforms over a small array, and what a transform of any length is put together from.
//
// Inverse transforms run by decimation in frequency (Gentleman and Sande) from natural to bit-reversed
// order, forward ones by decimation in time (Cooley and Tukey) from bit-reversed to natural order, so that
// a quotient needs no reordering pass.
//
// T is what is transformed: a field element, or several transforms side by side. Factor is a twiddle factor;
// T needs +, - and * Factor.
#pragma once

#include "field.cuh"

namespace cuzk {

// values[0, 2^log) in place; factors[k * stride] = w^k for k < 2^log / 2, w of order 2^log.
template <class T, class Factor>
CUZK_HD void decimate_in_frequency(T* values, int log, const Factor* factors, size_t stride) {
  const size_t n = (size_t)1 << log;
  for (size_t half = n / 2; half != 0; half /= 2, stride *= 2) {
    for (size_t block = 0; block < n; block += 2 * half) {
      T *low = values + block, *high = low + half;
      for (size_t k = 0; k < half; ++k) {
        const T sum = low[k] + high[k], difference = low[k] - high[k];
        low[k] = sum;
        high[k] = k == 0 ? difference : difference * factors[k * stride];
      }
    }
  }
}

template <class T, class Factor>
CUZK_HD void decimate_in_time(T* values, int log, const Factor* factors, size_t stride) {
  const size_t n = (size_t)1 << log;
  stride *= n / 2;
  for (size_t half = 1; half < n; half *= 2, stride /= 2) {
    for (size_t block = 0; block < n; block += 2 * half) {
      T *low = values + block, *high = low + half;
      for (size_t k = 0; k < half; ++k) {
        const T term = k == 0 ? high[k] : high[k] * factors[k * stride];
        const T sum = low[k] + term;
        high[k] = low[k] - term;
        low[k] = sum;
      }
    }
  }
}

CUZK_HD inline size_t reverse_bits(size_t x, int log) {
  size_t r = 0;
  for (int i = 0; i < log; ++i) r |= ((x >> i) & 1) << (log - 1 - i);
  return r;
}

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
