// Kernels over the scalar field of one curve, and the sorting of digits into buckets.
#include "ptx.cuh"
#include "sort.cuh"
#include "transform.cuh"
#include "unit.cuh"

namespace cuzk {

// result = index of the first value not below r.
CUZK_KERNEL check_scalars(const u32* values, u32 n, unsigned long long* result) {
  for (u32 i = thread_index(); i < n; i += thread_total())
    if (!Fr::load(values + size_t(i) * Fr::N).reduced()) atomicMin(result, (unsigned long long)(i));
}
CUZK_EXPORT(check_scalars)

// Plain integers to Montgomery form (direction 1) and back (0); in may be out.
CUZK_KERNEL montgomery(const u32* in, u32* out, u32 n, u32 direction) {
  for (u32 i = thread_index(); i < n; i += thread_total()) {
    const Fr value = Fr::load(in + size_t(i) * Fr::N);
    (direction != 0 ? value.to_montgomery() : value.from_montgomery()).store(out + size_t(i) * Fr::N);
  }
}
CUZK_EXPORT(montgomery)

CUZK_KERNEL product(const u32* a, const u32* b, u32* out, u32 n) {
  for (u32 i = thread_index(); i < n; i += thread_total()) {
    const size_t at = size_t(i) * Fr::N;
    (Fr::load(a + at) * Fr::load(b + at)).store(out + at);
  }
}
CUZK_EXPORT(product)

// a b - c out of Montgomery form; out may be one of the operands.
CUZK_KERNEL pointwise(const u32* a, const u32* b, const u32* c, u32* out, u32 n) {
  for (u32 i = thread_index(); i < n; i += thread_total()) {
    const size_t at = size_t(i) * Fr::N;
    (Fr::load(a + at) * Fr::load(b + at) - Fr::load(c + at)).from_montgomery().store(out + at);
  }
}
CUZK_EXPORT(pointwise)

namespace {
constexpr u32 record_words = 11;  // u32 matrix, row, wire, then 32 bytes of value
}

// Counts a key's coefficients by row, those of B behind those of A. result = index of the first record that names
// something the key does not have; such records are not counted.
CUZK_KERNEL count_coefficients(const u32* records, u32 n, u32 wires, u32 domain, u32* counts,
                               unsigned long long* result) {
  for (u32 i = thread_index(); i < n; i += thread_total()) {
    const u32* record = records + size_t(i) * record_words;
    const u32 matrix = record[0], row = record[1], wire = record[2];
    if (matrix > 1 || row >= domain || wire >= wires) {
      atomicMin(result, (unsigned long long)(i));
    } else {
      atomicAdd(counts + matrix * domain + row, 1u);
    }
  }
}
CUZK_EXPORT(count_coefficients)

// Brings them into the order of rows. filled starts as zeros.
CUZK_KERNEL place_coefficients(const u32* records, u32 n, u32 domain, const u32* offsets, u32* filled, u32* wires,
                               u32* values) {
  for (u32 i = thread_index(); i < n; i += thread_total()) {
    const u32* record = records + size_t(i) * record_words;
    const u32 row = record[0] * domain + record[1];
    const size_t at = offsets[row] + atomicAdd(filled + row, 1u);
    wires[at] = record[2];
    for (u32 k = 0; k < Fr::N; ++k) values[at * Fr::N + k] = record[3 + k];
  }
}
CUZK_EXPORT(place_coefficients)

// out[row] = sum of value * witness over the row; A and then B. A stored value is v R^2: see host/quotient.hpp.
CUZK_KERNEL evaluate(const u32* offsets, const u32* wires, const u32* values, const u32* witness, u32 domain, u32* a,
                     u32* b) {
  for (u32 row = thread_index(); row < 2 * domain; row += thread_total()) {
    Fr sum = Fr::zero();
    for (u32 at = offsets[row]; at < offsets[row + 1]; ++at) {
      const Fr wire = Fr::load(witness + size_t(wires[at]) * Fr::N);
      sum = sum + wire * Fr::load(values + size_t(at) * Fr::N);  // a value need not be reduced
    }
    sum.store(row < domain ? a + size_t(row) * Fr::N : b + size_t(row - domain) * Fr::N);
  }
}
CUZK_EXPORT(evaluate)

}  // namespace cuzk
