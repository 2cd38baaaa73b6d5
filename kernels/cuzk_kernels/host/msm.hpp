// One multi-scalar multiplication on the pool, phase by phase.
#pragma once

#include <vector>

#include "buffer.hpp"
#include "groups.cuh"
#include "msm.cuh"
#include "pool.hpp"

namespace cuzk {

// What the C interface holds: the phases are called once each, in this order.
class MsmBase {
 public:
  virtual ~MsmBase() = default;
  virtual void digits() = 0;
  virtual void accumulate() = 0;
  virtual void reduce() = 0;
  // The affine result as plain little-endian words, all zeros for infinity.
  virtual void horner(u64* out) = 0;
};

// A piece of one window's sorted entries.
struct Piece {
  u32 window, begin, end;
};

// How one processor sums points: piece by piece here, eight pieces at once in ifma.hpp.
template <class G>
struct ScalarEngine {
  using F = typename G::F;
  using Bucket = Xyzz<F>;
  static constexpr int lanes = 1;

  // Pieces [0, lanes) of one window.
  static void accumulate(const unsigned char* points, const u32* entries, const u32* offsets, u32 buckets,
                         const Piece* pieces, Bucket* sums, Head<Bucket>* heads) {
    accumulate_piece<F>(points, entries, offsets, buckets, pieces->begin, pieces->end, sums, heads);
  }
  static void add(Bucket* sum, const Bucket& other) { sum->add(other); }
  // Segments of `length` buckets each, `lanes` of them, from bucket `begin` on.
  static void reduce(const Bucket* sums, const u32* offsets, u32 begin, u32 length, Xyzz<F>* total,
                     Xyzz<F>* weighted) {
    reduce_segment(sums, offsets, begin, begin + length, total, weighted);
  }
};

// The digit width with the least work for n points, counted in mixed additions: one for each digit that is
// not zero, two full additions (1.4 mixed ones each) a bucket, and 0.15 to sort a digit, zero or not
// (measured on Zen 4). A sample of the scalars tells how many digits are zero: the witness of a circuit of
// bits has few others. Without scalars all are taken to be of full width.
template <class R>
int best_window_bits(int scalar_bits, size_t n, const unsigned char* scalars) {
  constexpr size_t sample = 4096;
  double with_bits[257] = {};
  const size_t taken = scalars == nullptr ? 0 : std::min(n, sample);
  for (size_t i = 0; i < taken; ++i) {
    Field<R> s;
    memcpy(&s, scalars + 32 * (n * i / taken), 32);
    const Field<R> negative = -s;
    const auto bits = [](const Field<R>& x) {
      for (int k = 3; k >= 0; --k)
        if (x.v[k] != 0) return 64 * (k + 1) - __builtin_clzll(x.v[k]);
      return 0;
    };
    with_bits[std::min(bits(s), bits(negative))] += double(n) / double(taken);
  }
  if (taken == 0) with_bits[scalar_bits - 1] = double(n);
  int best = 4;
  double least = 1e300;
  for (int c = 4; c <= max_window_bits; ++c) {
    const int windows = window_count(scalar_bits, c);
    double work = windows * (0.15 * double(n) + 2.8 * double(1u << (c - 1)));
    for (int bits = 1; bits <= 256; ++bits) work += with_bits[bits] * std::min(windows, (bits + c - 1) / c);
    if (work < least) {
      least = work;
      best = c;
    }
  }
  return best;
}

template <class G, class Engine>
class Msm final : public MsmBase {
  using F = typename G::F;
  using R = typename G::Curve::Fr::Params;
  using Bucket = typename Engine::Bucket;
  static constexpr int lanes = Engine::lanes;

 public:
  Msm(const unsigned char* points, const unsigned char* scalars, size_t n, int c)
      : points_(points), scalars_(scalars), n_(n), c_(c), windows_(window_count(G::Curve::scalar_bits, c)),
        buckets_(1u << (c - 1)), pool_(Pool::get()) {}

  void digits() override {
    codes_.reset(n_ * windows_);
    entries_.reset(n_ * windows_);
    offsets_.reset(size_t(windows_) * (buckets_ + 1));
    pool_.ranges(n_, 1024, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        u64 s[4];
        memcpy(s, scalars_ + 32 * i, 32);
        if ((s[0] | s[1] | s[2] | s[3]) == 0 || load_point<F>(points_, i).is_infinity()) {
          for (int w = 0; w < windows_; ++w) codes_[w * n_ + i] = no_digit;
        } else {
          recode<R>(s, c_, windows_, codes_.get() + i, n_);
        }
      }
    });
    pool_.run(windows_, [&](size_t w) { sort(w); });
    codes_.reset(0);
  }

  void accumulate() override {
    cut();
    sums_.reset(size_t(windows_) * buckets_);
    heads_.reset(pieces_.size());
    pool_.run(pieces_.size() / lanes, [&](size_t i) {
      const u32 w = pieces_[i * lanes].window;
      Engine::accumulate(points_, entries_.get() + w * n_, offsets_of(w), buckets_, &pieces_[i * lanes],
                         sums_.get() + size_t(w) * buckets_, heads_.get() + i * lanes);
    });
    pool_.run(windows_, [&](size_t w) {
      for (size_t i = first_piece_[w]; i < first_piece_[w + 1]; ++i)
        if (heads_[i].bucket != no_bucket)
          Engine::add(sums_.get() + w * buckets_ + heads_[i].bucket, heads_[i].sum);
    });
  }

  void reduce() override {
    // Enough segments for all lanes of all threads, twice over, but none shorter than eight buckets.
    int parts = 1;
    while (windows_ * parts < 2 * pool_.threads() && buckets_ / (lanes * parts) >= 16) parts *= 2;
    const int segments = lanes * parts;
    const u32 length = buckets_ / segments;
    Buffer<Xyzz<F>> total(size_t(windows_) * segments), weighted(size_t(windows_) * segments);
    pool_.run(size_t(windows_) * parts, [&](size_t i) {
      const size_t w = i / parts, part = i % parts;
      Engine::reduce(sums_.get() + w * buckets_, offsets_of(w), u32(part * lanes * length), length,
                     total.get() + i * lanes, weighted.get() + i * lanes);
    });
    int log_length = 0;
    while ((1u << log_length) < length) ++log_length;
    window_sums_.reset(windows_);
    pool_.run(windows_, [&](size_t w) {
      window_sums_[w] = join_segments(total.get() + w * segments, weighted.get() + w * segments, segments, log_length);
    });
  }

  void horner(u64* out) override {
    const Affine<F> sum = cuzk::horner(window_sums_.get(), windows_, c_).to_affine();
    const Affine<F> plain{sum.x.from_montgomery(), sum.y.from_montgomery()};
    memcpy(out, &plain, sizeof plain);
  }

 private:
  const u32* offsets_of(size_t w) const { return offsets_.get() + w * (buckets_ + 1); }

  // Counting sort of one window's digits into entries.
  void sort(size_t w) {
    const uint16_t* codes = codes_.get() + w * n_;
    u32* entries = entries_.get() + w * n_;
    u32* offsets = offsets_.get() + w * (buckets_ + 1);
    std::fill(offsets, offsets + buckets_ + 1, 0);
    for (size_t i = 0; i < n_; ++i)
      if (codes[i] != no_digit) ++offsets[codes[i] >> 1];
    u32 sum = 0;
    for (u32 b = 0; b <= buckets_; ++b) {  // to the end of each bucket; filling from the back leaves the starts
      sum += offsets[b];
      offsets[b] = sum;
    }
    for (size_t i = n_; i-- > 0;)
      if (codes[i] != no_digit) entries[--offsets[codes[i] >> 1]] = u32(i) << 1 | (codes[i] & 1);
  }

  // Cuts every window's entries into pieces, a multiple of `lanes` for each window: short enough to
  // balance, long enough that the sums of cut buckets cost little.
  void cut() {
    size_t entries = 0;
    for (int w = 0; w < windows_; ++w) entries += offsets_of(w)[buckets_];
    const size_t length = std::clamp<size_t>(entries / (size_t(pool_.threads()) * lanes * 16), 64, 2048);
    first_piece_.assign(1, 0);
    pieces_.clear();
    for (int w = 0; w < windows_; ++w) {
      const size_t m = offsets_of(w)[buckets_];
      const size_t count = (m + length * lanes - 1) / (length * lanes) * lanes;
      for (size_t i = 0; i < count; ++i)
        pieces_.push_back({u32(w), u32(m * i / count), u32(m * (i + 1) / count)});
      first_piece_.push_back(pieces_.size());
    }
  }

  const unsigned char* points_;
  const unsigned char* scalars_;
  const size_t n_;
  const int c_, windows_;
  const u32 buckets_;
  Pool& pool_;
  Buffer<uint16_t> codes_;
  Buffer<u32> entries_, offsets_;
  std::vector<Piece> pieces_;
  std::vector<size_t> first_piece_;
  Buffer<Bucket> sums_;
  Buffer<Head<Bucket>> heads_;
  Buffer<Xyzz<F>> window_sums_;
};

}  // namespace cuzk
