// Transforms of any length on the pool.
//
// A vector of n = n1 * n2 values is a matrix of n1 rows and n2 columns (Bailey, "FFTs in external or
// hierarchical memory", 1990): transforms of n1 down the columns, a multiplication by powers of the n-th
// root, transforms of n2 along the rows. Eight columns, or eight rows, are worked on side by side in a
// scratch that stays in the cache. Lanes says how: ScalarLanes here, IfmaLanes in ifma_ntt.hpp.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "buffer.hpp"
#include "groups.cuh"
#include "ntt.cuh"
#include "pool.hpp"

namespace cuzk {

template <class Fr>
std::vector<Fr> powers(const Fr& base, size_t count, Fr first = Fr::one()) {
  std::vector<Fr> out(count);
  for (Fr& entry : out) {
    entry = first;
    first = first * base;
  }
  return out;
}

// powers(base, 2^log), entry i moved to the place with the reversed bits.
template <class Fr>
std::vector<Fr> reversed_powers(const Fr& base, int log) {
  const std::vector<Fr> natural = powers(base, size_t(1) << log);
  std::vector<Fr> out(natural.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = natural[reverse_bits(i, log)];
  return out;
}

template <class Fr>
Fr squared_times(Fr x, int times) {
  for (int i = 0; i < times; ++i) x = x.squared();
  return x;
}

// Eight field elements side by side, one after the other.
template <class Fr>
struct ScalarLanes {
  struct Value {
    Fr e[8];
  };
  using Factor = Fr;

  static void turn(Value* a, Value* b, const Factor* factor) {
    for (int i = 0; i < 8; ++i) ElementOps<Fr>::turn(a->e + i, b->e + i, factor);
  }
  static void turn(Value* a, Value* b, int stage) {
    for (int i = 0; i < 8; ++i) ElementOps<Fr>::turn(a->e + i, b->e + i, stage);
  }
  static Factor factor(const Fr& x) { return x; }
  // Eight elements as second operands of products.
  static void factors(const Fr* x, Value* out) {
    for (int i = 0; i < 8; ++i) out->e[i] = x[i];
  }
  static void multiply(const Value* a, const Value* b, Value* out) {
    for (int i = 0; i < 8; ++i) out->e[i] = a->e[i] * b->e[i];
  }
  static void multiply(const Value* a, const Factor* b, Value* out) {
    for (int i = 0; i < 8; ++i) out->e[i] = a->e[i] * *b;
  }
  // Elements `stride` apart.
  static void load(const Fr* at, size_t stride, Value* out) {
    for (int i = 0; i < 8; ++i) out->e[i] = at[i * stride];
  }
  static void store(const Value* a, Fr* at, size_t stride) {
    for (int i = 0; i < 8; ++i) at[i * stride] = a->e[i];
  }
  static void store_product(const Value* a, const Value* b, Fr* at, size_t stride) {
    for (int i = 0; i < 8; ++i) at[i * stride] = a->e[i] * b->e[i];
  }
};

// What the transforms of one length share. The tables have about sqrt(n) entries.
template <class C>
struct Domain {
  using Fr = typename C::Fr;

  explicit Domain(int log_length) : log(log_length), log_rows(log / 2), log_columns(log - log / 2) {
    const Fr w = root_of_unity<C>(log), inverse_w = w.inverted();
    rows_forward = reversed_powers(w, log_rows);
    columns_inverse = powers(inverse_w, size_t(1) << log_columns);
    if (log_columns > 0) {  // roots of order `columns`, the longer of the two short transforms
      short_forward = powers(squared_times(w, log_rows), size_t(1) << (log_columns - 1));
      short_inverse = reversed_powers(squared_times(inverse_w, log_rows), log_columns - 1);
    }
    scale = Fr::from_u64(u64(1) << log).inverted();
    // Fr has no root of order 2n at the longest length; snarkjs shifts by the square of its non-residue there.
    const Fr shift = log < C::two_adicity ? root_of_unity<C>(log + 1) : Fr::from_u64(25);
    shift_low = reversed_powers(shift, log_rows);
    shift_high = reversed_powers(squared_times(shift, log_rows), log_columns);
  }

  static const Domain& get(int log) {
    static std::mutex guard;
    static std::map<int, Domain> all;
    const std::lock_guard<std::mutex> lock(guard);
    return all.try_emplace(log, log).first->second;
  }

  int log, log_rows, log_columns;
  std::vector<Fr> rows_forward;     // w^k for the index k whose bits, reversed, count the rows
  std::vector<Fr> columns_inverse;  // w^-j
  std::vector<Fr> short_forward, short_inverse;
  std::vector<Fr> shift_low, shift_high;  // shift^k and shift^(rows k), bit-reversed like the coefficients
  Fr scale;                               // 1/n
};

// Lengths for which the matrix would have rows or columns of fewer than eight.
template <class C>
struct SmallTransform {
  using Fr = typename C::Fr;
  const Domain<C>& d;

  explicit SmallTransform(int log) : d(Domain<C>::get(log)) {}
  size_t length() const { return size_t(1) << d.log; }
  void inverse(Fr* v) const {
    const Fr w = root_of_unity<C>(d.log).inverted();
    to_reversed<ElementOps<Fr>>(v, d.log, reversed_powers(w, std::max(d.log - 1, 0)).data());
    for (size_t i = 0; i < length(); ++i) v[i] = v[i] * d.scale;
  }
  void forward(Fr* v) const {
    to_natural<ElementOps<Fr>>(v, d.log, powers(root_of_unity<C>(d.log), length()).data(), 1);
  }
  void shift(Fr* v) const {
    const std::vector<Fr> factor = reversed_powers(root_of_unity<C>(d.log + 1), d.log);
    for (size_t i = 0; i < length(); ++i) v[i] = v[i] * factor[i];
  }
};

template <class C, class Lanes>
class Transform {
  using Fr = typename C::Fr;
  using Value = typename Lanes::Value;
  using Factor = typename Lanes::Factor;

 public:
  static constexpr int least_log = 6;

  explicit Transform(int log)
      : d_(Domain<C>::get(log)), rows_(size_t(1) << d_.log_rows), columns_(size_t(1) << d_.log_columns) {}

  // Values in natural order to coefficients in bit-reversed order, 1/n included.
  void inverse(Fr* v) {
    const std::vector<Factor> factors = to_factors(d_.short_inverse);
    Pool::get().run(columns_ / 8, [&](size_t block) {
      Buffer<Value> scratch(rows_), power(rows_);
      Fr* at = v + 8 * block;
      for (size_t i = 0; i < rows_; ++i) Lanes::load(at + i * columns_, 1, &scratch[i]);
      to_reversed<Lanes>(scratch.get(), d_.log_rows, factors.data());
      lane_powers(power.get(), d_.log_rows, d_.columns_inverse.data() + 8 * block, d_.scale);
      for (size_t i = 0; i < rows_; ++i)
        Lanes::store_product(&scratch[i], &power[reverse_bits(i, d_.log_rows)], at + i * columns_, 1);
    });
    Pool::get().run(rows_ / 8, [&](size_t block) {
      Buffer<Value> scratch(columns_);
      Fr* at = v + 8 * block * columns_;
      for (size_t j = 0; j < columns_; ++j) Lanes::load(at + j, columns_, &scratch[j]);
      to_reversed<Lanes>(scratch.get(), d_.log_columns, factors.data());
      for (size_t j = 0; j < columns_; ++j) Lanes::store(&scratch[j], at + j, columns_);
    });
  }

  // Coefficients in bit-reversed order to values in natural order.
  void forward(Fr* v) {
    const std::vector<Factor> factors = to_factors(d_.short_forward);
    Pool::get().run(rows_ / 8, [&](size_t block) {
      Buffer<Value> scratch(columns_), power(columns_);
      Fr* at = v + 8 * block * columns_;
      for (size_t j = 0; j < columns_; ++j) Lanes::load(at + j, columns_, &scratch[j]);
      to_natural<Lanes>(scratch.get(), d_.log_columns, factors.data(), 1);
      lane_powers(power.get(), d_.log_columns, d_.rows_forward.data() + 8 * block, Fr::one());
      for (size_t j = 0; j < columns_; ++j) Lanes::store_product(&scratch[j], &power[j], at + j, columns_);
    });
    Pool::get().run(columns_ / 8, [&](size_t block) {
      Buffer<Value> scratch(rows_);
      Fr* at = v + 8 * block;
      for (size_t i = 0; i < rows_; ++i) Lanes::load(at + i * columns_, 1, &scratch[i]);
      to_natural<Lanes>(scratch.get(), d_.log_rows, factors.data(), columns_ / rows_);
      for (size_t i = 0; i < rows_; ++i) Lanes::store(&scratch[i], at + i * columns_, 1);
    });
  }

  // Coefficient i, in bit-reversed order, times shift^i.
  void shift(Fr* v) {
    Buffer<Value> high(columns_ / 8);
    for (size_t j = 0; j < columns_ / 8; ++j) Lanes::factors(&d_.shift_high[8 * j], &high[j]);
    const std::vector<Factor> low = to_factors(d_.shift_low);
    Pool::get().run(rows_, [&](size_t i) {
      Fr* at = v + i * columns_;
      Buffer<Value> one(1);
      for (size_t j = 0; j < columns_ / 8; ++j) {
        Lanes::load(at + 8 * j, 1, &one[0]);
        Lanes::multiply(&one[0], &low[i], &one[0]);
        Lanes::store_product(&one[0], &high[j], at + 8 * j, 1);
      }
    });
  }

 private:
  static std::vector<Factor> to_factors(const std::vector<Fr>& values) {
    std::vector<Factor> out;
    out.reserve(values.size());
    for (const Fr& x : values) out.push_back(Lanes::factor(x));
    return out;
  }

  // out[k] = scale * base^k, k < 2^log, for each of eight bases: products of a low and a high power, so that
  // no long chain of dependent multiplications arises.
  static void lane_powers(Value* out, int log, const Fr* base, const Fr& scale) {
    const size_t low = size_t(1) << (log / 2), high = (size_t(1) << log) / low;
    Fr step[8], at[8];
    for (int i = 0; i < 8; ++i) {
      step[i] = Fr::one();
      at[i] = scale;
    }
    Buffer<Value> lows(low + 1);
    for (size_t k = 0; k < low; ++k) {
      Lanes::factors(step, &lows[k]);
      for (int i = 0; i < 8; ++i) step[i] = step[i] * base[i];
    }
    for (size_t k = 0; k < high; ++k) {
      Lanes::factors(at, &lows[low]);
      for (size_t j = 0; j < low; ++j) Lanes::multiply(&lows[low], &lows[j], &out[k * low + j]);
      for (int i = 0; i < 8; ++i) at[i] = at[i] * step[i];
    }
  }

  const Domain<C>& d_;
  const size_t rows_, columns_;
};

}  // namespace cuzk
