// What the host's processor can do, and field arithmetic in x86-64 assembly. Host only.
//
// Multiplication needs BMI2 and ADX (Broadwell, Zen and later). Same algorithm as Field::multiply_portable. MULX leaves the flags alone, ADCX and ADOX carry through
// different flags, so the low and the high halves of one row of products run as two independent chains
// (Intel, "New Instructions Supporting Large Integer Arithmetic", 2012). The accumulator is one word longer
// than the modulus and its words rotate instead of moving: after each reduction the lowest is zero and
// becomes the next highest.
#pragma once

#include "params.cuh"

#if defined(__GNUC__) && !defined(__clang__)  // host/ifma*.hpp choose their instructions as only GCC can be told
#define CUZK_IFMA 1
#endif

namespace cuzk::x86 {

enum Level : int { portable = 0, adx = 1, ifma = 2 };  // the numbers are part of the C interface

inline int detect() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("adx")) return portable;
#ifndef CUZK_IFMA
  return adx;
#endif
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512ifma");
  return wide ? ifma : adx;
}

// The level in use. Tests lower it to reach the code of lesser processors.
__attribute__((visibility("hidden"))) inline int level = detect();

// The modulus with -1/p mod 2^64 behind it, so that one register addresses both.
template <int N>
struct Reducer {
  u64 p[N];
  u64 inverse;
};

// clang-format off
#define CUZK_STEP(OFFSET, BASE, LOW, HIGH)                                                        \
  "mulxq " OFFSET "(" BASE "), %[lo], %[hi]\n\t" "adcxq %[lo], " LOW "\n\t" "adoxq %[hi], " HIGH "\n\t"
#define CUZK_FIRST(OFFSET, ADD, LOW, HIGH)                                                        \
  "mulxq " OFFSET "(%[a]), %[lo], " HIGH "\n\t" ADD " %[lo], " LOW "\n\t"
#define CUZK_CLEAR "xorl %k[lo], %k[lo]\n\t"  /* zero, and both carry flags clear */
#define CUZK_SUBTRACT(OFFSET, SUB, FROM) SUB " " OFFSET "(%[p]), " FROM "\n\t"
#define CUZK_KEEP(OFFSET, T, D) "cmovncq " D ", " T "\n\t" "movq " T ", " OFFSET "(%[r])\n\t"

#define CUZK_ROW4(BASE, T0, T1, T2, T3, T4)                                                       \
  CUZK_STEP("0", BASE, T0, T1) CUZK_STEP("8", BASE, T1, T2)                                       \
  CUZK_STEP("16", BASE, T2, T3) CUZK_STEP("24", BASE, T3, T4)
#define CUZK_REDUCE4(T0, T1, T2, T3, T4)                                                          \
  "movq " T0 ", %%rdx\n\t" "imulq 32(%[p]), %%rdx\n\t" CUZK_CLEAR                                 \
  CUZK_ROW4("%[p]", T0, T1, T2, T3, T4) "adcxq " T0 ", " T4 "\n\t"
#define CUZK_ROUND4(OFFSET, T0, T1, T2, T3, T4)                                                   \
  "movq " OFFSET "(%[b]), %%rdx\n\t" CUZK_CLEAR CUZK_ROW4("%[a]", T0, T1, T2, T3, T4)             \
  "movl $0, %k[lo]\n\t" "adcxq %[lo], " T4 "\n\t" CUZK_REDUCE4(T0, T1, T2, T3, T4)

#define CUZK_ROW6(BASE, T0, T1, T2, T3, T4, T5, T6)                                               \
  CUZK_STEP("0", BASE, T0, T1) CUZK_STEP("8", BASE, T1, T2) CUZK_STEP("16", BASE, T2, T3)         \
  CUZK_STEP("24", BASE, T3, T4) CUZK_STEP("32", BASE, T4, T5) CUZK_STEP("40", BASE, T5, T6)
#define CUZK_REDUCE6(T0, T1, T2, T3, T4, T5, T6)                                                  \
  "movq " T0 ", %%rdx\n\t" "imulq 48(%[p]), %%rdx\n\t" CUZK_CLEAR                                 \
  CUZK_ROW6("%[p]", T0, T1, T2, T3, T4, T5, T6) "adcxq " T0 ", " T6 "\n\t"
#define CUZK_ROUND6(OFFSET, T0, T1, T2, T3, T4, T5, T6)                                           \
  "movq " OFFSET "(%[b]), %%rdx\n\t" CUZK_CLEAR CUZK_ROW6("%[a]", T0, T1, T2, T3, T4, T5, T6)     \
  "movl $0, %k[lo]\n\t" "adcxq %[lo], " T6 "\n\t" CUZK_REDUCE6(T0, T1, T2, T3, T4, T5, T6)

template <int N>
void multiply(u64* r, const u64* a, const u64* b, const Reducer<N>& reducer);

// r = a * b / 2^256 mod p; a below p, b any four words.
template <>
inline __attribute__((noinline)) void multiply<4>(u64* r, const u64* a, const u64* b, const Reducer<4>& reducer) {
  u64 t0, t1, t2, t3, t4, lo, hi;
  asm volatile(
      "movq 0(%[b]), %%rdx\n\t"
      "mulxq 0(%[a]), %[t0], %[t1]\n\t"
      CUZK_FIRST("8", "addq", "%[t1]", "%[t2]") CUZK_FIRST("16", "adcq", "%[t2]", "%[t3]")
      CUZK_FIRST("24", "adcq", "%[t3]", "%[t4]") "adcq $0, %[t4]\n\t"
      CUZK_REDUCE4("%[t0]", "%[t1]", "%[t2]", "%[t3]", "%[t4]")
      CUZK_ROUND4("8", "%[t1]", "%[t2]", "%[t3]", "%[t4]", "%[t0]")
      CUZK_ROUND4("16", "%[t2]", "%[t3]", "%[t4]", "%[t0]", "%[t1]")
      CUZK_ROUND4("24", "%[t3]", "%[t4]", "%[t0]", "%[t1]", "%[t2]")
      "movq %[t4], %[lo]\n\t" "movq %[t0], %[hi]\n\t" "movq %[t1], %%rdx\n\t" "movq %[t2], %[t3]\n\t"
      CUZK_SUBTRACT("0", "subq", "%[lo]") CUZK_SUBTRACT("8", "sbbq", "%[hi]")
      CUZK_SUBTRACT("16", "sbbq", "%%rdx") CUZK_SUBTRACT("24", "sbbq", "%[t3]")
      CUZK_KEEP("0", "%[t4]", "%[lo]") CUZK_KEEP("8", "%[t0]", "%[hi]")
      CUZK_KEEP("16", "%[t1]", "%%rdx") CUZK_KEEP("24", "%[t2]", "%[t3]")
      : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4),
        [lo] "=&r"(lo), [hi] "=&r"(hi)
      : [a] "r"(a), [b] "r"(b), [p] "r"(reducer.p), [r] "r"(r)
      : "rdx", "cc", "memory");
}

// r = a * b / 2^384 mod p; a below p, b any six words. The pointers a and b are free again at the end and
// hold two words of the difference.
template <>
inline __attribute__((noinline)) void multiply<6>(u64* r, const u64* a, const u64* b, const Reducer<6>& reducer) {
  u64 t0, t1, t2, t3, t4, t5, t6, lo, hi;
  asm volatile(
      "movq 0(%[b]), %%rdx\n\t"
      "mulxq 0(%[a]), %[t0], %[t1]\n\t"
      CUZK_FIRST("8", "addq", "%[t1]", "%[t2]") CUZK_FIRST("16", "adcq", "%[t2]", "%[t3]")
      CUZK_FIRST("24", "adcq", "%[t3]", "%[t4]") CUZK_FIRST("32", "adcq", "%[t4]", "%[t5]")
      CUZK_FIRST("40", "adcq", "%[t5]", "%[t6]") "adcq $0, %[t6]\n\t"
      CUZK_REDUCE6("%[t0]", "%[t1]", "%[t2]", "%[t3]", "%[t4]", "%[t5]", "%[t6]")
      CUZK_ROUND6("8", "%[t1]", "%[t2]", "%[t3]", "%[t4]", "%[t5]", "%[t6]", "%[t0]")
      CUZK_ROUND6("16", "%[t2]", "%[t3]", "%[t4]", "%[t5]", "%[t6]", "%[t0]", "%[t1]")
      CUZK_ROUND6("24", "%[t3]", "%[t4]", "%[t5]", "%[t6]", "%[t0]", "%[t1]", "%[t2]")
      CUZK_ROUND6("32", "%[t4]", "%[t5]", "%[t6]", "%[t0]", "%[t1]", "%[t2]", "%[t3]")
      CUZK_ROUND6("40", "%[t5]", "%[t6]", "%[t0]", "%[t1]", "%[t2]", "%[t3]", "%[t4]")
      "movq %[t6], %[lo]\n\t" "movq %[t0], %[hi]\n\t" "movq %[t1], %%rdx\n\t" "movq %[t2], %[t5]\n\t"
      "movq %[t3], %[a]\n\t" "movq %[t4], %[b]\n\t"
      CUZK_SUBTRACT("0", "subq", "%[lo]") CUZK_SUBTRACT("8", "sbbq", "%[hi]")
      CUZK_SUBTRACT("16", "sbbq", "%%rdx") CUZK_SUBTRACT("24", "sbbq", "%[t5]")
      CUZK_SUBTRACT("32", "sbbq", "%[a]") CUZK_SUBTRACT("40", "sbbq", "%[b]")
      CUZK_KEEP("0", "%[t6]", "%[lo]") CUZK_KEEP("8", "%[t0]", "%[hi]") CUZK_KEEP("16", "%[t1]", "%%rdx")
      CUZK_KEEP("24", "%[t2]", "%[t5]") CUZK_KEEP("32", "%[t3]", "%[a]") CUZK_KEEP("40", "%[t4]", "%[b]")
      : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5),
        [t6] "=&r"(t6), [lo] "=&r"(lo), [hi] "=&r"(hi), [a] "+&r"(a), [b] "+&r"(b)
      : [p] "r"(reducer.p), [r] "r"(r)
      : "rdx", "cc", "memory");
}
// clang-format on

// Sums and differences modulo p, on any x86-64: compilers of today make poor carry chains of 128-bit
// arithmetic, and a branch on the carry would be mispredicted every other time.
// clang-format off
#define CUZK_LOAD(OFFSET, T) "movq " OFFSET "(%[a]), " T "\n\t"
#define CUZK_TAKE(OP, OFFSET, FROM, T) OP " " OFFSET "(" FROM "), " T "\n\t"
#define CUZK_LESS(OP, OFFSET, T, D) "movq " T ", " D "\n\t" /* the flags stay */ OP " " OFFSET "(%[p]), " D "\n\t"
#define CUZK_PICK(T, D) "cmovncq " D ", " T "\n\t"
#define CUZK_MASKED(OFFSET, D) "movq " OFFSET "(%[p]), " D "\n\t" "andq %[m], " D "\n\t"

// r = a + b mod p; both below p.
template <int N>
inline void add(u64* r, const u64* a, const u64* b, const Reducer<N>& reducer) {
  u64 t0, t1, t2, t3, t4, t5, d0, d1, d2, d3;
  const auto& a_words = *reinterpret_cast<const u64(*)[N]>(a);
  const auto& b_words = *reinterpret_cast<const u64(*)[N]>(b);
  if constexpr (N == 4) {
    asm(CUZK_LOAD("0", "%[t0]") CUZK_LOAD("8", "%[t1]") CUZK_LOAD("16", "%[t2]") CUZK_LOAD("24", "%[t3]")
        CUZK_TAKE("addq", "0", "%[b]", "%[t0]") CUZK_TAKE("adcq", "8", "%[b]", "%[t1]")
        CUZK_TAKE("adcq", "16", "%[b]", "%[t2]") CUZK_TAKE("adcq", "24", "%[b]", "%[t3]")
        CUZK_LESS("subq", "0", "%[t0]", "%[d0]") CUZK_LESS("sbbq", "8", "%[t1]", "%[d1]")
        CUZK_LESS("sbbq", "16", "%[t2]", "%[d2]") CUZK_LESS("sbbq", "24", "%[t3]", "%[d3]")
        CUZK_PICK("%[t0]", "%[d0]") CUZK_PICK("%[t1]", "%[d1]") CUZK_PICK("%[t2]", "%[d2]") CUZK_PICK("%[t3]", "%[d3]")
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [d0] "=&r"(d0), [d1] "=&r"(d1),
          [d2] "=&r"(d2), [d3] "=&r"(d3)
        : [a] "r"(a), [b] "r"(b), [p] "r"(reducer.p), "m"(a_words), "m"(b_words) : "cc");
  } else {
    asm(CUZK_LOAD("0", "%[t0]") CUZK_LOAD("8", "%[t1]") CUZK_LOAD("16", "%[t2]") CUZK_LOAD("24", "%[t3]")
        CUZK_LOAD("32", "%[t4]") CUZK_LOAD("40", "%[t5]")
        CUZK_TAKE("addq", "0", "%[b]", "%[t0]") CUZK_TAKE("adcq", "8", "%[b]", "%[t1]")
        CUZK_TAKE("adcq", "16", "%[b]", "%[t2]") CUZK_TAKE("adcq", "24", "%[b]", "%[t3]")
        CUZK_TAKE("adcq", "32", "%[b]", "%[t4]") CUZK_TAKE("adcq", "40", "%[b]", "%[t5]")
        CUZK_LESS("subq", "0", "%[t0]", "%[d0]") CUZK_LESS("sbbq", "8", "%[t1]", "%[d1]")
        CUZK_LESS("sbbq", "16", "%[t2]", "%[d2]") CUZK_LESS("sbbq", "24", "%[t3]", "%[d3]")
        CUZK_LESS("sbbq", "32", "%[t4]", "%[a]") CUZK_LESS("sbbq", "40", "%[t5]", "%[b]")
        CUZK_PICK("%[t0]", "%[d0]") CUZK_PICK("%[t1]", "%[d1]") CUZK_PICK("%[t2]", "%[d2]") CUZK_PICK("%[t3]", "%[d3]")
        CUZK_PICK("%[t4]", "%[a]") CUZK_PICK("%[t5]", "%[b]")
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5),
          [d0] "=&r"(d0), [d1] "=&r"(d1), [d2] "=&r"(d2), [d3] "=&r"(d3), [a] "+&r"(a), [b] "+&r"(b)
        : [p] "r"(reducer.p), "m"(a_words), "m"(b_words) : "cc");
    r[4] = t4;
    r[5] = t5;
  }
  r[0] = t0;
  r[1] = t1;
  r[2] = t2;
  r[3] = t3;
}

// r = a - b mod p; both below p.
template <int N>
inline void subtract(u64* r, const u64* a, const u64* b, const Reducer<N>& reducer) {
  u64 t0, t1, t2, t3, t4, t5, d0, d1, d2, m;
  const auto& a_words = *reinterpret_cast<const u64(*)[N]>(a);
  const auto& b_words = *reinterpret_cast<const u64(*)[N]>(b);
  if constexpr (N == 4) {
    asm(CUZK_LOAD("0", "%[t0]") CUZK_LOAD("8", "%[t1]") CUZK_LOAD("16", "%[t2]") CUZK_LOAD("24", "%[t3]")
        CUZK_TAKE("subq", "0", "%[b]", "%[t0]") CUZK_TAKE("sbbq", "8", "%[b]", "%[t1]")
        CUZK_TAKE("sbbq", "16", "%[b]", "%[t2]") CUZK_TAKE("sbbq", "24", "%[b]", "%[t3]") "sbbq %[m], %[m]\n\t"
        CUZK_MASKED("0", "%[d0]") CUZK_MASKED("8", "%[d1]") CUZK_MASKED("16", "%[d2]") "andq 24(%[p]), %[m]\n\t"
        "addq %[d0], %[t0]\n\t" "adcq %[d1], %[t1]\n\t" "adcq %[d2], %[t2]\n\t" "adcq %[m], %[t3]\n\t"
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [d0] "=&r"(d0), [d1] "=&r"(d1),
          [d2] "=&r"(d2), [m] "=&r"(m)
        : [a] "r"(a), [b] "r"(b), [p] "r"(reducer.p), "m"(a_words), "m"(b_words) : "cc");
  } else {
    asm(CUZK_LOAD("0", "%[t0]") CUZK_LOAD("8", "%[t1]") CUZK_LOAD("16", "%[t2]") CUZK_LOAD("24", "%[t3]")
        CUZK_LOAD("32", "%[t4]") CUZK_LOAD("40", "%[t5]")
        CUZK_TAKE("subq", "0", "%[b]", "%[t0]") CUZK_TAKE("sbbq", "8", "%[b]", "%[t1]")
        CUZK_TAKE("sbbq", "16", "%[b]", "%[t2]") CUZK_TAKE("sbbq", "24", "%[b]", "%[t3]")
        CUZK_TAKE("sbbq", "32", "%[b]", "%[t4]") CUZK_TAKE("sbbq", "40", "%[b]", "%[t5]") "sbbq %[m], %[m]\n\t"
        CUZK_MASKED("0", "%[d0]") CUZK_MASKED("8", "%[d1]") CUZK_MASKED("16", "%[d2]") CUZK_MASKED("24", "%[a]")
        CUZK_MASKED("32", "%[b]") "andq 40(%[p]), %[m]\n\t"
        "addq %[d0], %[t0]\n\t" "adcq %[d1], %[t1]\n\t" "adcq %[d2], %[t2]\n\t" "adcq %[a], %[t3]\n\t"
        "adcq %[b], %[t4]\n\t" "adcq %[m], %[t5]\n\t"
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5),
          [d0] "=&r"(d0), [d1] "=&r"(d1), [d2] "=&r"(d2), [m] "=&r"(m), [a] "+&r"(a), [b] "+&r"(b)
        : [p] "r"(reducer.p), "m"(a_words), "m"(b_words) : "cc");
    r[4] = t4;
    r[5] = t5;
  }
  r[0] = t0;
  r[1] = t1;
  r[2] = t2;
  r[3] = t3;
}
// clang-format on
#undef CUZK_LOAD
#undef CUZK_TAKE
#undef CUZK_LESS
#undef CUZK_PICK
#undef CUZK_MASKED

#undef CUZK_STEP
#undef CUZK_FIRST
#undef CUZK_CLEAR
#undef CUZK_SUBTRACT
#undef CUZK_KEEP
#undef CUZK_ROW4
#undef CUZK_REDUCE4
#undef CUZK_ROUND4
#undef CUZK_ROW6
#undef CUZK_REDUCE6
#undef CUZK_ROUND6

}  // namespace cuzk::x86
