// From a key's coefficients and a witness to the vectors the transforms start from, and back to scalars.
#pragma once

#include <cstring>
#include <memory>

#include "groups.cuh"
#include "pool.hpp"

namespace cuzk {

// What is wrong with a coefficient record; the numbers are part of the C interface.
enum CoefProblem : u64 { bad_matrix = 0, bad_row = 1, bad_wire = 2 };

// Bytes of one record of a .zkey's section 4: u32 matrix, u32 row, u32 wire, 32 bytes of value.
inline constexpr size_t coef_bytes = 44;

// a[row] and b[row] become the sums of value * witness[wire] over the records of matrix 0 and 1.
//
// A stored value is v R^2, so that its Montgomery product with a plain witness value is v * w in Montgomery
// form. Records come in any order: neighbours of the same row are summed first, then added under one of
// some hundreds of locks. Returns the index of the lowest bad record, or n; nothing outside the buffers is
// read or written for it. error = {problem, the number in the record}.
template <class Fr>
size_t evaluate(const unsigned char* coefs, size_t n, const unsigned char* witness, u32 wires, u32 domain, Fr* a,
                Fr* b, u64 error[2]) {
  constexpr size_t lock_count = 512;
  const std::unique_ptr<std::atomic_flag[]> locks(new std::atomic_flag[lock_count]());
  std::atomic<size_t> first_bad{n};
  Pool& pool = Pool::get();
  pool.ranges(domain, 4096, [&](size_t begin, size_t end) {
    memset(static_cast<void*>(a + begin), 0, (end - begin) * sizeof(Fr));
    memset(static_cast<void*>(b + begin), 0, (end - begin) * sizeof(Fr));
  });
  pool.ranges(n, 512, [&](size_t begin, size_t end) {
    u32 matrix = 0, row = 0;
    Fr sum = Fr::zero();
    const auto flush = [&] {
      if (sum.is_zero()) return;
      std::atomic_flag& lock = locks[(row * 2 + matrix) % lock_count];
      while (lock.test_and_set(std::memory_order_acquire)) {
      }
      Fr& target = (matrix == 0 ? a : b)[row];
      target = target + sum;
      lock.clear(std::memory_order_release);
      sum = Fr::zero();
    };
    for (size_t i = begin; i < end; ++i) {
      const unsigned char* record = coefs + coef_bytes * i;
      u32 head[3];
      memcpy(head, record, sizeof head);
      if (head[0] > 1 || head[1] >= domain || head[2] >= wires) {
        size_t lowest = first_bad.load();
        while (i < lowest && !first_bad.compare_exchange_weak(lowest, i)) {
        }
        return;
      }
      if (head[0] != matrix || head[1] != row) {
        flush();
        matrix = head[0];
        row = head[1];
      }
      Fr value, wire;
      memcpy(&wire, witness + 32 * size_t(head[2]), 32);
      if (wire.is_zero()) continue;
      memcpy(&value, record + 12, 32);
      sum = sum + wire * value;  // the first factor must be reduced: a witness is, a value need not be
    }
    flush();
  });
  const size_t bad = first_bad.load();
  if (bad != n) {
    u32 head[3];
    memcpy(head, coefs + coef_bytes * bad, sizeof head);
    const u64 problem = head[0] > 1 ? bad_matrix : head[1] >= domain ? bad_row : bad_wire;
    error[0] = problem;
    error[1] = head[problem];
  }
  return bad;
}

// out = a o b, and the scalars a o b - c out of Montgomery form.
template <class Fr>
void multiply_rows(const Fr* a, const Fr* b, Fr* out, size_t n) {
  Pool::get().ranges(n, 1024, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) out[i] = a[i] * b[i];
  });
}

template <class Fr>
void combine_rows(const Fr* a, const Fr* b, const Fr* c, Fr* out, size_t n) {
  Pool::get().ranges(n, 1024, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) out[i] = (a[i] * b[i] - c[i]).from_montgomery();
  });
}

}  // namespace cuzk
