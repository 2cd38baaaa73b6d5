// The steps of an MSM, and the check of points, eight at a time with AVX-512 IFMA.
#pragma once

#include "ifma_points.hpp"
#include "msm.hpp"

#ifdef CUZK_IFMA

namespace cuzk::ifma {

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl,avx512ifma,bmi2")

template <class G>
struct Engine {
  using F = typename G::F;
  using P = typename G::Curve::Fq::Params;
  using K8 = std::conditional_t<std::is_same_v<F, typename G::Curve::Fq>, Prime8<P>, Quadratic8<P>>;
  using Sums = Sums8<K8>;
  using S = Scaling<P>;
  using Bucket = typename Sums::Bucket;
  static constexpr int lanes = 8;
  static constexpr int point_words = 2 * K8::words;

  static CUZK_INLINE void load_points(const void* const* rows, __mmask8 negative, K8* x, K8* y) {
    Word8 w[point_words];
    gather<point_words>(rows, w);
    constexpr int words = F8<P>::words;
    for (int i = 0; i < K8::degree; ++i) {
      x->part(i) = F8<P>::from_words(w + words * i, S::x_shift);
      y->part(i) = F8<P>::from_words(w + words * (K8::degree + i), S::y_shift);
    }
    *y = K8::select(negative, *y, K8::template negate<S::y_loaded>(*y));
  }

  // b of the scaled curve, u^6 b, in R52's form.
  static CUZK_NOINLINE void scaled_b(K8* out) {
    using Fq = typename G::Curve::Fq;
    using M = Prime<P>;
    constexpr int halvings = 64 * M::words - M::bits - 6 * S::t;
    F b = G::b();
    const Fq factor = Fq::from_u64(2).inverted().power(u64(halvings));
    Fq parts[K8::degree];
    memcpy(parts, &b, sizeof b);
    for (int i = 0; i < K8::degree; ++i) {
      const Fq part = parts[i] * factor;
      Limbs<M::words> words;
      memcpy(words.v, part.v, sizeof words.v);
      out->part(i) = F8<P>::all(M::split(words, 1));
    }
  }

  // Whether eight points are reduced and on the curve, or infinity; b from scaled_b.
  static CUZK_NOINLINE bool all_on_curve(const unsigned char* points, const K8& b) {
    constexpr int words = F8<P>::words;
    const F8<P> one = F8<P>::one();
    const void* rows[8];
    for (int i = 0; i < 8; ++i) rows[i] = points + size_t(i) * 8 * point_words;
    Word8 w[point_words];
    gather<point_words>(rows, w);
    __mmask8 sound = 0xff;
    for (int k = 0; k < 2 * K8::degree; ++k) sound &= F8<P>::from_words(w + words * k, 0).below_p_lanes();
    if (sound != 0xff) return false;
    K8 x, y;
    load_points(rows, 0, &x, &y);
    const K8 yy = K8::template mul<S::y_loaded>(y, y);
    const K8 xx = K8::template mul<S::x_bound>(x, x);
    K8 difference = K8::template sub<3>(K8::template mul<3>(x, xx) + b, yy);
    for (int i = 0; i < K8::degree; ++i) multiply(&difference.part(i), difference.part(i), one);
    Word8 any = w[0];
    for (int k = 1; k < point_words; ++k) any = _mm512_or_si512(any, w[k]);
    return (difference.zero_lanes() | _mm512_cmpeq_epi64_mask(any, broadcast(0))) == 0xff;
  }

  // As accumulate_piece in msm.cuh, for eight pieces of one window side by side.
  static CUZK_NOINLINE void accumulate(const unsigned char* points, const u32* entries, const u32* offsets,
                                       u32 buckets, const Piece* pieces, Bucket* sums, Head<Bucket>* heads) {
    alignas(64) static const u64 nothing[point_words] = {};
    alignas(64) u64 limbs[8 * 4 * Sums::coordinate_limbs];
    u32 at[8], end[8], bucket[8], last[8];
    u32 steps = 0;
    for (int i = 0; i < 8; ++i) {
      at[i] = pieces[i].begin;
      end[i] = pieces[i].end;
      heads[i].bucket = no_bucket;
      if (at[i] == end[i]) continue;
      bucket[i] = bucket_at(offsets, buckets, at[i]);
      if (offsets[bucket[i]] < at[i]) heads[i].bucket = bucket[i];
      while (offsets[bucket[i] + 1] == at[i]) ++bucket[i];
      last[i] = std::min(offsets[bucket[i] + 1], end[i]);
      steps = std::max(steps, end[i] - at[i]);
    }
    constexpr u32 ahead = 3;
    constexpr size_t point_bytes = 8 * point_words;
    Sums sum = Sums::infinity();
    for (u32 step = 0; step < steps; ++step) {
      const void* rows[8];
      unsigned live = 0, negative = 0;
      for (int i = 0; i < 8; ++i) {
        if (at[i] == end[i]) {
          rows[i] = nothing;
          continue;
        }
        const u32 entry = entries[at[i]];
        rows[i] = points + (entry >> 1) * point_bytes;
        live |= 1u << i;
        negative |= (entry & 1) << i;
        if (at[i] + ahead < end[i]) {
          const unsigned char* next = points + (entries[at[i] + ahead] >> 1) * point_bytes;
          for (size_t line = 0; line < point_bytes; line += 64) _mm_prefetch(next + line, _MM_HINT_T0);
        }
      }
      K8 x, y;
      load_points(rows, (__mmask8)negative, &x, &y);
      sum.add((__mmask8)live, x, y);
      unsigned done = 0;
      for (int i = 0; i < 8; ++i)
        if ((live >> i & 1) != 0 && ++at[i] == last[i]) done |= 1u << i;
      if (done == 0) continue;
      sum.spread(limbs);
      for (int i = 0; i < 8; ++i) {
        if ((done >> i & 1) == 0) continue;
        const bool head = heads[i].bucket == bucket[i];
        Sums::store_lane(limbs, i, (sum.infinite >> i & 1) != 0, head ? &heads[i].sum : sums + bucket[i]);
        if (at[i] == end[i]) continue;
        do ++bucket[i];
        while (offsets[bucket[i] + 1] == at[i]);
        last[i] = std::min(offsets[bucket[i] + 1], end[i]);
      }
      sum.infinite |= (__mmask8)done;
    }
  }

  static CUZK_NOINLINE void add(Bucket* to, const Bucket& other) {
    const Bucket *a[8], *b[8];
    for (int i = 0; i < 8; ++i) {
      a[i] = to;
      b[i] = &other;
    }
    Sums sum = Sums::load(a);
    sum.add(Sums::load(b));
    alignas(64) u64 limbs[8 * 4 * Sums::coordinate_limbs];
    sum.spread(limbs);
    Sums::store_lane(limbs, 0, (sum.infinite & 1) != 0, to);
  }

  // As reduce_segment in msm.cuh: lane i has buckets [begin + i length, begin + (i + 1) length).
  static CUZK_NOINLINE void reduce(const Bucket* sums, const u32* offsets, u32 begin, u32 length,
                                   Xyzz<F>* total, Xyzz<F>* weighted) {
    static const Bucket nothing = {};
    Sums running = Sums::infinity(), acc = Sums::infinity();
    for (u32 k = length; k-- > 0;) {
      const Bucket* from[8];
      for (int i = 0; i < 8; ++i) {
        const u32 b = begin + u32(i) * length + k;
        from[i] = offsets[b] == offsets[b + 1] ? &nothing : sums + b;
      }
      running.add(Sums::load(from));
      acc.add(running);
    }
    to_scalar(running, total);
    to_scalar(acc, weighted);
  }

  // Back from R52 to R and from the scaled curve: ZZ takes u^2, ZZZ takes u^3.
  static CUZK_NOINLINE void to_scalar(Sums& sum, Xyzz<F>* out) {
    using M = Prime<P>;
    constexpr int r = 64 * M::words;
    const F8<P> factor[4] = {F8<P>::all(M::power_of_two(r)), F8<P>::all(M::power_of_two(r)),
                             F8<P>::all(M::power_of_two(r + 2 * S::t)), F8<P>::all(M::power_of_two(r + 3 * S::t))};
    alignas(64) u64 words[8][4 * K8::degree * M::words];
    Word8 w[4 * K8::degree * M::words];
    for (int k = 0; k < 4 * K8::degree; ++k) {
      F8<P> value;
      multiply(&value, sum.part(k), factor[k / K8::degree]);
      value.to_words(w + k * M::words);
    }
    void* rows[8];
    for (int i = 0; i < 8; ++i) rows[i] = words[i];
    scatter<4 * K8::degree * M::words>(w, rows);
    for (int i = 0; i < 8; ++i) {
      if ((sum.infinite >> i & 1) != 0) {
        out[i] = Xyzz<F>::infinity();
        continue;
      }
      typename G::Curve::Fq parts[4 * K8::degree];
      memcpy(parts, words[i], sizeof parts);
      for (auto& part : parts) part = part.reduced_once();
      memcpy(&out[i], parts, sizeof parts);
    }
  }
};

#pragma GCC pop_options

}  // namespace cuzk::ifma
#endif
