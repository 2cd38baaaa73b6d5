// The C interface of the native back end; backend/native.py is its only caller and says what each call means.
//
// curve: 0 BN254, 1 BLS12-381. group: 1 or 2. Vectors are domain-length arrays of Montgomery elements of the
// scalar field; scalars are plain 32-byte little-endian integers below r; points are as in a .zkey. Sizes
// are counts of elements. Callers check shapes; what is checked here is what comes out of files.
#include "pool.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <string>

#include "ifma_msm.hpp"
#include "ifma_ntt.hpp"
#include "msm.hpp"
#include "ntt.hpp"
#include "points.hpp"
#include "quotient.hpp"

#define CUZK_API extern "C" __attribute__((visibility("default")))

namespace cuzk {
namespace {

// f(tag of the curve or group), so that a number chosen at run time becomes a type.
template <class Type>
struct Tag {
  using type = Type;
};

template <class Call>
auto with_curve(int curve, Call&& call) {
  return curve == 0 ? call(Tag<Bn254>{}) : call(Tag<Bls381>{});
}

template <class Call>
auto with_group(int curve, int group, Call&& call) {
  if (curve == 0) return group == 1 ? call(Tag<G1<Bn254>>{}) : call(Tag<G2<Bn254>>{});
  return group == 1 ? call(Tag<G1<Bls381>>{}) : call(Tag<G2<Bls381>>{});
}

// call(transform) with the best implementation for a length of 2^log.
template <class C, class Call>
void with_transform(int log, Call&& call) {
  using Scalar = Transform<C, ScalarLanes<typename C::Fr>>;
  if (log < Scalar::least_log) return call(SmallTransform<C>(log));
#ifdef CUZK_IFMA
  if (x86::level >= x86::ifma) return call(Transform<C, ifma::Lanes<typename C::Fr>>(log));
#endif
  call(Scalar(log));
}

}  // namespace
}  // namespace cuzk

using namespace cuzk;

CUZK_API int cuzk_threads() { return Pool::get().threads(); }

// Uses no more than `limit` of x86::Level from now on; returns the level in use. For tests and benchmarks.
CUZK_API int cuzk_cpu_level(int limit) {
#ifdef CUZK_X86
  return x86::level = std::min(x86::detect(), limit);
#else
  return 0 * limit;
#endif
}

CUZK_API void cuzk_take_faults(uint64_t* minor_major) {
  Pool::get().take_faults(minor_major, minor_major + 1);
}

// A name for worker_spans, made once for a text by the caller and kept for good.
CUZK_API void* cuzk_worker_name(const char* text) {
  auto* kept = new std::string(text);
  return new cuzk_trace_name CUZK_TRACE_NAME(kept->c_str(), nullptr, nullptr, CUZK_TRACE_FAULTS);
}

// From now on workers that serve the calling thread write spans of that name; nullptr: none.
CUZK_API void cuzk_worker_spans(void* name) { Pool::worker_span() = static_cast<cuzk_trace_name*>(name); }

CUZK_API int64_t cuzk_point_check(int curve, int group, const unsigned char* points, int64_t count, int subgroup,
                                  int* problem) {
  return with_group(curve, group, [&](auto tag) {
    return int64_t(check_points<typename decltype(tag)::type>(points, size_t(count), subgroup != 0, problem));
  });
}

CUZK_API int64_t cuzk_witness_check(int curve, const unsigned char* witness, int64_t count) {
  return with_curve(curve, [&](auto tag) {
    std::atomic<int64_t> first_bad{count};
    Pool::get().ranges(size_t(count), 4096, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        typename decltype(tag)::type::Fr value;
        memcpy(&value, witness + 32 * i, 32);
        if (value.reduced()) continue;
        int64_t lowest = first_bad.load();
        while (int64_t(i) < lowest && !first_bad.compare_exchange_weak(lowest, int64_t(i))) {
        }
        return;
      }
    });
    return first_bad.load();
  });
}

CUZK_API int64_t cuzk_eval_ab(int curve, const unsigned char* coefs, int64_t n_coefs, const unsigned char* witness,
                              uint32_t n_vars, uint32_t domain, void* a, void* b, uint64_t* error) {
  return with_curve(curve, [&](auto tag) {
    using Fr = typename decltype(tag)::type::Fr;
    return int64_t(evaluate(coefs, size_t(n_coefs), witness, n_vars, domain, static_cast<Fr*>(a), static_cast<Fr*>(b), error));
  });
}

CUZK_API void cuzk_product(int curve, const void* a, const void* b, void* c, int64_t n) {
  with_curve(curve, [&](auto tag) {
    using Fr = typename decltype(tag)::type::Fr;
    multiply_rows(static_cast<const Fr*>(a), static_cast<const Fr*>(b), static_cast<Fr*>(c), size_t(n));
  });
}

CUZK_API void cuzk_pointwise(int curve, const void* a, const void* b, const void* c, void* scalars, int64_t n) {
  with_curve(curve, [&](auto tag) {
    using Fr = typename decltype(tag)::type::Fr;
    combine_rows(static_cast<const Fr*>(a), static_cast<const Fr*>(b), static_cast<const Fr*>(c),
                 static_cast<Fr*>(scalars), size_t(n));
  });
}

CUZK_API void cuzk_intt(int curve, void* v, int log) {
  with_curve(curve, [&](auto tag) {
    using C = typename decltype(tag)::type;
    with_transform<C>(log, [&](auto&& t) { t.inverse(static_cast<typename C::Fr*>(v)); });
  });
}

CUZK_API void cuzk_coset(int curve, void* v, int log) {
  with_curve(curve, [&](auto tag) {
    using C = typename decltype(tag)::type;
    with_transform<C>(log, [&](auto&& t) { t.shift(static_cast<typename C::Fr*>(v)); });
  });
}

CUZK_API void cuzk_ntt(int curve, void* v, int log) {
  with_curve(curve, [&](auto tag) {
    using C = typename decltype(tag)::type;
    with_transform<C>(log, [&](auto&& t) { t.forward(static_cast<typename C::Fr*>(v)); });
  });
}

// Natural to bit-reversed order or back.
CUZK_API void cuzk_reorder(void* v, int log) {
  using Fr = Bn254::Fr;
  Fr* values = static_cast<Fr*>(v);
  Pool::get().ranges(size_t(1) << log, 4096, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const size_t j = reverse_bits(i, log);
      if (i < j) std::swap(values[i], values[j]);
    }
  });
}

// Plain integers of 32 bytes to Montgomery form (direction 1) and back (0).
CUZK_API void cuzk_montgomery(int curve, const unsigned char* in, unsigned char* out, int64_t n, int direction) {
  with_curve(curve, [&](auto tag) {
    using Fr = typename decltype(tag)::type::Fr;
    Pool::get().ranges(size_t(n), 1024, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) {
        Fr value;
        memcpy(&value, in + 32 * i, 32);
        value = direction != 0 ? value.to_montgomery() : value.from_montgomery();
        memcpy(out + 32 * i, &value, 32);
      }
    });
  });
}

// One operation on n raw elements of a prime field (0 Bn254Q, 1 Bn254R, 2 Bls381Q, 3 Bls381R), for tests:
// 0 a * b / R, 1 a + b, 2 a - b, 3 1/a in Montgomery form, 4 a * b / R52 with IFMA (n a multiple of 8).
CUZK_API void cuzk_field_operation(int field, int operation, const void* a, const void* b, void* out, int64_t n) {
  const auto run = [&](auto tag) {
    using F = typename decltype(tag)::type;
    const F *x = static_cast<const F*>(a), *y = static_cast<const F*>(b);
    F* z = static_cast<F*>(out);
#ifdef CUZK_IFMA
    if (operation == 4) {
      using Lanes = ifma::Lanes<F>;
      typename Lanes::Value u, v;
      for (int64_t i = 0; i < n; i += 8) {
        Lanes::load(x + i, 1, &u);
        Lanes::load(y + i, 1, &v);
        Lanes::store_product(&u, &v, z + i, 1);
      }
      return;
    }
#endif
    for (int64_t i = 0; i < n; ++i) {
      z[i] = operation == 0 ? x[i] * y[i] : operation == 1 ? x[i] + y[i] : operation == 2 ? x[i] - y[i] : x[i].inverted();
    }
  };
  if (field == 0) return run(Tag<Bn254::Fq>{});
  if (field == 1) return run(Tag<Bn254::Fr>{});
  if (field == 2) return run(Tag<Bls381::Fq>{});
  run(Tag<Bls381::Fr>{});
}

CUZK_API int cuzk_msm_window_bits(int curve, const unsigned char* scalars, int64_t n) {
  return with_curve(curve, [&](auto tag) {
    using C = typename decltype(tag)::type;
    return best_window_bits<typename C::Fr::Params>(C::scalar_bits, size_t(n), scalars);
  });
}

// The handle of one MSM; the four phases follow, each once and in order, then the end.
CUZK_API void* cuzk_msm_begin(int curve, int group, const unsigned char* points, const unsigned char* scalars,
                              int64_t n, int window_bits) {
  return with_group(curve, group, [&](auto tag) -> MsmBase* {
    using G = typename decltype(tag)::type;
#ifdef CUZK_IFMA
    if (x86::level >= x86::ifma) return new Msm<G, ifma::Engine<G>>(points, scalars, size_t(n), window_bits);
#endif
    return new Msm<G, ScalarEngine<G>>(points, scalars, size_t(n), window_bits);
  });
}
CUZK_API void cuzk_msm_digits(void* msm) { static_cast<MsmBase*>(msm)->digits(); }
CUZK_API void cuzk_msm_accumulate(void* msm) { static_cast<MsmBase*>(msm)->accumulate(); }
CUZK_API void cuzk_msm_reduce(void* msm) { static_cast<MsmBase*>(msm)->reduce(); }
CUZK_API void cuzk_msm_horner(void* msm, uint64_t* out) { static_cast<MsmBase*>(msm)->horner(out); }
CUZK_API void cuzk_msm_end(void* msm) { delete static_cast<MsmBase*>(msm); }

// out = the sum of 2^powers[i] times the i-th sum (XYZZ, Montgomery words, zeros for infinity): what a GPU leaves
// of an MSM. The affine result as plain words, zeros for infinity.
CUZK_API void cuzk_combine(int curve, int group, const unsigned char* sums, const uint32_t* powers, int64_t n,
                           unsigned char* out) {
  with_group(curve, group, [&](auto tag) {
    using F = typename decltype(tag)::type::F;
    uint32_t top = 0;
    for (int64_t i = 0; i < n; ++i) top = std::max(top, powers[i]);
    std::vector<Xyzz<F>> by_power(top + 1, Xyzz<F>::infinity());
    for (int64_t i = 0; i < n; ++i) {  // on this thread: waking others takes longer
      Xyzz<F> sum;
      memcpy(&sum, sums + size_t(i) * sizeof sum, sizeof sum);
      by_power[powers[i]].add(sum);
    }
    const Affine<F> sum = horner(by_power.data(), int(top + 1), 1).to_affine();
    const Affine<F> plain{sum.x.from_montgomery(), sum.y.from_montgomery()};
    memcpy(out, &plain, sizeof plain);
  });
}

CUZK_API void cuzk_fixed_base(int curve, int group, const unsigned char* base, const unsigned char* scalars,
                              int64_t n, unsigned char* out) {
  with_group(curve, group, [&](auto tag) {
    multiply_fixed_base<typename decltype(tag)::type>(base, scalars, size_t(n), out);
  });
}

// Writes one byte to every page of [bytes, bytes + n), the pages shared out over `threads` threads.
CUZK_API void cuzk_touch(unsigned char* bytes, int64_t n, int threads) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), pages = (size_t(n) + page - 1) / page;
  const size_t parts = size_t(threads);
  Pool::get().run(parts, [&](size_t i) {
    for (size_t k = pages * i / parts; k < pages * (i + 1) / parts; ++k)
      const_cast<volatile unsigned char*>(bytes)[k * page] = 1;
  }, parts);
}

// mlock, or munlock, of [bytes, bytes + n) by `threads` threads; the first errno met, or 0.
CUZK_API int cuzk_lock(unsigned char* bytes, int64_t n, int threads, int lock) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), pages = (size_t(n) + page - 1) / page;
  const size_t parts = size_t(threads);
  std::atomic<int> failure{0};
  Pool::get().run(parts, [&](size_t i) {
    const size_t begin = pages * i / parts * page, end = std::min(pages * (i + 1) / parts * page, size_t(n));
    if (begin >= end) return;
    int none = 0;
    if ((lock != 0 ? mlock(bytes + begin, end - begin) : munlock(bytes + begin, end - begin)) != 0)
      failure.compare_exchange_strong(none, errno);
  }, parts);
  return failure.load();
}
