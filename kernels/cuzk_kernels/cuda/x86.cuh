// What the host's processor can do, and field arithmetic in x86-64 assembly. Host only.
//
// Multiplication needs BMI2 and ADX (Broadwell, Zen and later). Same algorithm as Field::multiply_portable. MULX leaves the flags alone, ADCX and ADOX carry through
// different flags, so the low and the high halves of one row of products run as two independent chains
// (Intel, "New Instructions Supporting Large Integer Arithmetic", 2012). The accumulator is one word longer
// than the modulus and its words rotate instead of moving: after each reduction the lowest is zero and
// becomes the next highest.
#pragma once

#include "params.cuh"

namespace cuzk::x86 {

enum Level : int { portable = 0, adx = 1, ifma = 2 };  // the numbers are part of the C interface

inline int detect() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("bmi2") || !__builtin_cpu_supports("adx")) return portable;
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

// Sums and differences, on any x86-64: compilers of today make poor carry chains of 128-bit arithmetic.
// t -= b; returns all ones for a borrow, else zero.
template <int N>
inline u64 subtract(u64* t, const u64* b) {
  u64 mask;
  if constexpr (N == 4) {
    asm("subq %5, %0\n\tsbbq %6, %1\n\tsbbq %7, %2\n\tsbbq %8, %3\n\tsbbq %4, %4"
        : "+&r"(t[0]), "+&r"(t[1]), "+&r"(t[2]), "+&r"(t[3]), "=&r"(mask)
        : "m"(b[0]), "m"(b[1]), "m"(b[2]), "m"(b[3])
        : "cc");
  } else {
    asm("subq %7, %0\n\tsbbq %8, %1\n\tsbbq %9, %2\n\tsbbq %10, %3\n\tsbbq %11, %4\n\tsbbq %12, %5\n\t"
        "sbbq %6, %6"
        : "+&r"(t[0]), "+&r"(t[1]), "+&r"(t[2]), "+&r"(t[3]), "+&r"(t[4]), "+&r"(t[5]), "=&r"(mask)
        : "m"(b[0]), "m"(b[1]), "m"(b[2]), "m"(b[3]), "m"(b[4]), "m"(b[5])
        : "cc");
  }
  return mask;
}
// t += b, for a sum that fits.
template <int N>
inline void add(u64* t, const u64* b) {
  if constexpr (N == 4) {
    asm("addq %4, %0\n\tadcq %5, %1\n\tadcq %6, %2\n\tadcq %7, %3"
        : "+&r"(t[0]), "+&r"(t[1]), "+&r"(t[2]), "+&r"(t[3])
        : "rm"(b[0]), "rm"(b[1]), "rm"(b[2]), "rm"(b[3])
        : "cc");
  } else {
    asm("addq %6, %0\n\tadcq %7, %1\n\tadcq %8, %2\n\tadcq %9, %3\n\tadcq %10, %4\n\tadcq %11, %5"
        : "+&r"(t[0]), "+&r"(t[1]), "+&r"(t[2]), "+&r"(t[3]), "+&r"(t[4]), "+&r"(t[5])
        : "rm"(b[0]), "rm"(b[1]), "rm"(b[2]), "rm"(b[3]), "rm"(b[4]), "rm"(b[5])
        : "cc");
  }
}

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
