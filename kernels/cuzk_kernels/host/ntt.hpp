// Transforms of any length on the pool.
//
// A vector of n = n1 * n2 values is a matrix of n1 rows and n2 columns (Bailey, "FFTs in external or
// hierarchical memory", 1990): transforms of n1 down the columns, a multiplication by powers of the n-th
// root, transforms of n2 along the rows. Eight columns, or eight rows, are worked on side by side in a
// scratch that stays in the cache. Lanes says how: see ScalarLanes here and ifma.hpp.
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

// Eight field elements side by side, one after the other.
template <class Fr>
struct ScalarLanes {
  using Factor = Fr;
  struct Row {
    Fr e[8];
    friend Row operator+(const Row& a, const Row& b) { return each([&](int i) { return a.e[i] + b.e[i]; }); }
    friend Row operator-(const Row& a, const Row& b) { return each([&](int i) { return a.e[i] - b.e[i]; }); }
    friend Row operator*(const Row& a, const Row& b) { return each([&](int i) { return a.e[i] * b.e[i]; }); }
    friend Row operator*(const Row& a, const Fr& b) { return each([&](int i) { return a.e[i] * b; }); }
    template <class Each>
    static Row each(Each&& value) {
      Row r;
      for (int i = 0; i < 8; ++i) r.e[i] = value(i);
      return r;
    }
  };
  static Factor factor(const Fr& x) { return x; }
  // As an operand of Row * Row, from eight elements.
  static Row factors(const Fr* x) {
    return Row::each([&](int i) { return x[i]; });
  }
  static Row load(const Fr* at, size_t stride) {
    return Row::each([&](int i) { return at[i * stride]; });
  }
  static void store(const Row& row, Fr* at, size_t stride) {
    for (int i = 0; i < 8; ++i) at[i * stride] = row.e[i];
  }
};

// What the transforms of one length share. The tables have about sqrt(n) entries.
template <class C>
struct Domain {
  using Fr = typename C::Fr;

  explicit Domain(int log) : log(log), log_rows(log / 2), log_columns(log - log / 2) {
    const size_t rows = size_t(1) << log_rows, columns = size_t(1) << log_columns;
    const Fr w = root_of_unity<C>(log);
    forward = powers(w, columns);
    inverse = powers(w.inverted(), columns);
    Fr order = w;  // of the longer of the two short transforms
    for (int i = 0; i < log_rows; ++i) order = order.squared();
    forward_short = powers(order, columns / 2 + 1);
    inverse_short = powers(order.inverted(), columns / 2 + 1);
    scale = Fr::from_u64(u64(1) << log).inverted();
    if (log < C::two_adicity) {
      const Fr shift = root_of_unity<C>(log + 1);
      shift_low = powers(shift, rows);
      Fr step = shift;
      for (int i = 0; i < log_rows; ++i) step = step.squared();
      shift_high = powers(step, columns);
    } else {  // Fr has no root of order 2n; snarkjs shifts by the square of its non-residue instead
      shift_low = powers(Fr::from_u64(25), rows);
      shift_high = powers(shift_low.back() * Fr::from_u64(25), columns);
    }
  }

  static const Domain& get(int log) {
    static std::mutex guard;
    static std::map<int, Domain> all;
    const std::lock_guard<std::mutex> lock(guard);
    return all.try_emplace(log, log).first->second;
  }

  int log, log_rows, log_columns;
  std::vector<Fr> forward, inverse;              // w^j for j < columns
  std::vector<Fr> forward_short, inverse_short;  // powers of the root of order `columns`
  std::vector<Fr> shift_low, shift_high;         // shift^k and shift^(rows k)
  Fr scale;                                      // 1/n
};

// Lengths for which the matrix would have rows or columns of fewer than eight.
template <class C>
struct SmallTransform {
  using Fr = typename C::Fr;
  const Domain<C>& d;

  explicit SmallTransform(int log) : d(Domain<C>::get(log)) {}
  size_t length() const { return size_t(1) << d.log; }
  void inverse(Fr* v) const {
    decimate_in_frequency(v, d.log, powers(root_of_unity<C>(d.log).inverted(), length() / 2 + 1).data(), 1);
    for (size_t i = 0; i < length(); ++i) v[i] = v[i] * d.scale;
  }
  void forward(Fr* v) const {
    decimate_in_time(v, d.log, powers(root_of_unity<C>(d.log), length() / 2 + 1).data(), 1);
  }
  void shift(Fr* v) const {
    const std::vector<Fr> factor = powers(root_of_unity<C>(d.log + 1), length());
    for (size_t i = 0; i < length(); ++i) v[i] = v[i] * factor[reverse_bits(i, d.log)];
  }
};

template <class C, class Lanes>
class Transform {
  using Fr = typename C::Fr;
  using Row = typename Lanes::Row;
  using Factor = typename Lanes::Factor;

 public:
  explicit Transform(int log) : d_(Domain<C>::get(log)), rows_(size_t(1) << d_.log_rows), columns_(size_t(1) << d_.log_columns) {}

  static constexpr int least_log = 6;

  void inverse(Fr* v) {
    const std::vector<Factor> factors = to_factors(d_.inverse_short);
    Pool::get().run(columns_ / 8, [&](size_t block) {
      Buffer<Row> scratch(rows_), powers(rows_);
      for (size_t i = 0; i < rows_; ++i) scratch[i] = Lanes::load(v + i * columns_ + 8 * block, 1);
      decimate_in_frequency(scratch.get(), d_.log_rows, factors.data(), columns_ / rows_);
      column_powers(powers.get(), d_.inverse.data() + 8 * block, d_.scale);
      for (size_t i = 0; i < rows_; ++i)
        Lanes::store(scratch[i] * powers[reverse_bits(i, d_.log_rows)], v + i * columns_ + 8 * block, 1);
    });
    Pool::get().run(rows_ / 8, [&](size_t block) {
      Buffer<Row> scratch(columns_);
      Fr* at = v + 8 * block * columns_;
      for (size_t i = 0; i < columns_; ++i) scratch[i] = Lanes::load(at + i, columns_);
      decimate_in_frequency(scratch.get(), d_.log_columns, factors.data(), 1);
      for (size_t i = 0; i < columns_; ++i) Lanes::store(scratch[i], at + i, columns_);
    });
  }

  void forward(Fr* v) {
    const std::vector<Factor> factors = to_factors(d_.forward_short);
    Pool::get().run(rows_ / 8, [&](size_t block) {
      Buffer<Row> scratch(columns_);
      Fr* at = v + 8 * block * columns_;
      for (size_t i = 0; i < columns_; ++i) scratch[i] = Lanes::load(at + i, columns_);
      decimate_in_time(scratch.get(), d_.log_columns, factors.data(), 1);
      for (size_t i = 0; i < columns_; ++i) Lanes::store(scratch[i], at + i, columns_);
    });
    Pool::get().run(columns_ / 8, [&](size_t block) {
      Buffer<Row> scratch(rows_), powers(rows_);
      column_powers(powers.get(), d_.forward.data() + 8 * block, Fr::one());
      for (size_t i = 0; i < rows_; ++i)
        scratch[i] = Lanes::load(v + i * columns_ + 8 * block, 1) * powers[reverse_bits(i, d_.log_rows)];
      decimate_in_time(scratch.get(), d_.log_rows, factors.data(), columns_ / rows_);
      for (size_t i = 0; i < rows_; ++i) Lanes::store(scratch[i], v + i * columns_ + 8 * block, 1);
    });
  }

  // Coefficients in bit-reversed order: row i holds those of index k1 + rows * k2, k1 the reverse of i.
  void shift(Fr* v) {
    std::vector<Fr> high(columns_);
    for (size_t j = 0; j < columns_; ++j) high[j] = d_.shift_high[reverse_bits(j, d_.log_columns)];
    std::vector<Row> high_rows(columns_ / 8);
    for (size_t j = 0; j < columns_ / 8; ++j) high_rows[j] = Lanes::factors(&high[8 * j]);
    Pool::get().run(rows_, [&](size_t i) {
      const Factor low = Lanes::factor(d_.shift_low[reverse_bits(i, d_.log_rows)]);
      for (size_t j = 0; j < columns_ / 8; ++j) {
        Fr* at = v + i * columns_ + 8 * j;
        Lanes::store(Lanes::load(at, 1) * low * high_rows[j], at, 1);
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

  // out[k] = scale * base^k for each of eight bases: products of a low and a high power, so that no long
  // chain of dependent multiplications arises.
  void column_powers(Row* out, const Fr* base, const Fr& scale) const {
    const size_t low = size_t(1) << (d_.log_rows / 2), high = rows_ / low;
    Fr step[8], at[8];
    for (int i = 0; i < 8; ++i) {
      step[i] = Fr::one();
      at[i] = scale;
    }
    std::vector<Row> lows(low);
    for (size_t k = 0; k < low; ++k) {
      lows[k] = Lanes::factors(step);
      for (int i = 0; i < 8; ++i) step[i] = step[i] * base[i];
    }
    for (size_t k = 0; k < high; ++k) {
      const Row row = Lanes::factors(at);
      for (size_t j = 0; j < low; ++j) out[k * low + j] = row * lows[j];
      for (int i = 0; i < 8; ++i) at[i] = at[i] * step[i];
    }
  }

  const Domain<C>& d_;
  const size_t rows_, columns_;
};

}  // namespace cuzk
