// Checks of many points, and many multiples of one.
#pragma once

#include <vector>

#include "buffer.hpp"
#include "groups.cuh"
#include "ifma_msm.hpp"
#include "msm.cuh"
#include "pool.hpp"

namespace cuzk {

// What is wrong with a point; the numbers are part of the C interface.
enum PointProblem : int { sound = 0, not_reduced = 1, off_curve = 2, wrong_subgroup = 3 };

template <class G>
PointProblem check_point(const Affine<typename G::F>& p, const typename G::F& b, bool subgroup) {
  if (p.is_infinity()) return sound;
  if (!p.x.reduced() || !p.y.reduced()) return not_reduced;
  if (p.y.squared() != p.x.squared() * p.x + b) return off_curve;
  return subgroup && !G::in_subgroup(p) ? wrong_subgroup : sound;
}

// Index of the lowest bad point, or n; *problem says what is wrong with it.
template <class G>
size_t check_points(const unsigned char* points, size_t n, bool subgroup, int* problem) {
  using F = typename G::F;
  const F b = G::b();
  std::atomic<size_t> first_bad{n};
#ifdef CUZK_IFMA
  const bool wide = x86::level >= x86::ifma && !subgroup;
  typename ifma::Engine<G>::K8 wide_b;
  if (wide) ifma::Engine<G>::scaled_b(&wide_b);
#endif
  Pool::get().ranges(n, subgroup ? 8 : 512, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end && i < first_bad.load(std::memory_order_relaxed); ++i) {
#ifdef CUZK_IFMA
      while (wide && i + 8 <= end && ifma::Engine<G>::all_on_curve(points + i * sizeof(Affine<F>), wide_b)) i += 8;
      if (i == end) return;
#endif
      if (check_point<G>(load_point<F>(points, i), b, subgroup) == sound) continue;
      size_t lowest = first_bad.load();
      while (i < lowest && !first_bad.compare_exchange_weak(lowest, i)) {
      }
      return;
    }
  });
  const size_t bad = first_bad.load();
  *problem = bad == n ? sound : check_point<G>(load_point<F>(points, bad), b, subgroup);
  return bad;
}

// Affine forms with one inversion for all (Montgomery's trick on ZZZ).
template <class F>
void to_affine_batch(const Xyzz<F>* points, size_t n, Affine<F>* out) {
  std::vector<F> before(n);
  F product = F::one();
  for (size_t i = 0; i < n; ++i) {
    before[i] = product;
    if (!points[i].is_infinity()) product = product * points[i].zzz;
  }
  F inverse = product.inverted();
  for (size_t i = n; i-- > 0;) {
    if (points[i].is_infinity()) {
      out[i] = Affine<F>::infinity();
      continue;
    }
    out[i] = points[i].to_affine(inverse * before[i]);
    inverse = inverse * points[i].zzz;
  }
}

// out[i] = scalars[i] * base, from a table of base * j * 256^w for every byte j of a scalar: 32 additions a
// scalar (Brickell, Gordon, McCurley, Wilson 1992).
template <class G>
void multiply_fixed_base(const unsigned char* base_bytes, const unsigned char* scalars, size_t n, unsigned char* out) {
  using F = typename G::F;
  constexpr int bits = 8, windows = 32, size = 1 << bits;
  Pool& pool = Pool::get();
  Buffer<Affine<F>> table(size_t(windows) * size);
  std::vector<Xyzz<F>> first(windows);
  first[0] = Xyzz<F>::from_affine(load_point<F>(base_bytes, 0));
  for (int w = 1; w < windows; ++w) {
    first[w] = first[w - 1];
    for (int i = 0; i < bits; ++i) first[w] = first[w].doubled();
  }
  pool.run(windows, [&](size_t w) {
    std::vector<Xyzz<F>> multiples(size);
    multiples[0] = Xyzz<F>::infinity();
    for (int j = 1; j < size; ++j) {
      multiples[j] = multiples[j - 1];
      multiples[j].add(first[w]);
    }
    to_affine_batch(multiples.data(), size, table.get() + w * size);
  });
  pool.ranges(n, 64, [&](size_t begin, size_t end) {
    std::vector<Xyzz<F>> sums(end - begin, Xyzz<F>::infinity());
    std::vector<Affine<F>> points(end - begin);
    for (size_t i = begin; i < end; ++i)
      for (int w = 0; w < windows; ++w) sums[i - begin].add(table[w * size + scalars[32 * i + w]]);
    to_affine_batch(sums.data(), sums.size(), points.data());
    memcpy(out + begin * sizeof(Affine<F>), points.data(), points.size() * sizeof(Affine<F>));
  });
}

}  // namespace cuzk
