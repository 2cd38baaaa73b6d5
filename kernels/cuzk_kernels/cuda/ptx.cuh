// Prime fields on a GPU: the numbers of Field (field.cuh), bit for bit, in 32-bit words.
//
// Multiplication is Montgomery's with operand scanning, and the products of even and of odd words are kept
// apart: within either sum neighbouring products do not overlap, so that each is one multiply-add of 64 bits
// with carry (IMAD.WIDE.X), the carries running through the row as one chain. With T = even + odd 2^32, one
// step adds a b_i and m p, which makes even[0] zero, and divides by 2^32: odd becomes the new even sum and
// even, two words down, the new odd one. Several products can share a reduction: sums of up to four stay below
// 2p, because 4p < R for the base fields here (two for the scalar fields, where 2p < R).
//
// Moduli lie in constant memory: as literals they cost a sixth of the multiplier's speed on sm_90, because the
// compiler turns the product with -1/r = 0xffffffff into a negation and no longer pairs the halves.
#pragma once

#include "curve.cuh"
#include "shim.cuh"

namespace cuzk {
namespace ptx {

#if defined(__CUDA_ARCH__)
#define CUZK_ASM3(NAME, OP)                                                      \
  CUZK_DEVICE u32 NAME(u32 a, u32 b) {                                           \
    u32 r;                                                                       \
    asm volatile(OP " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));                  \
    return r;                                                                    \
  }
#define CUZK_ASM4(NAME, OP)                                                      \
  CUZK_DEVICE u32 NAME(u32 a, u32 b, u32 c) {                                    \
    u32 r;                                                                       \
    asm volatile(OP " %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));      \
    return r;                                                                    \
  }
CUZK_ASM3(add_cc, "add.cc.u32")
CUZK_ASM3(addc_cc, "addc.cc.u32")
CUZK_ASM3(addc, "addc.u32")
CUZK_ASM3(sub_cc, "sub.cc.u32")
CUZK_ASM3(subc_cc, "subc.cc.u32")
CUZK_ASM3(subc, "subc.u32")
CUZK_ASM4(mad_lo_cc, "mad.lo.cc.u32")
CUZK_ASM4(madc_lo_cc, "madc.lo.cc.u32")
CUZK_ASM4(madc_hi_cc, "madc.hi.cc.u32")
CUZK_ASM4(madc_hi, "madc.hi.u32")
#undef CUZK_ASM3
#undef CUZK_ASM4
#else
// The same with a carry flag of our own: the chains are tested where there is no GPU.
inline thread_local u32 carry_flag;
inline u32 with_carry(u64 t) {
  carry_flag = (u32)(t >> 32) & 1;
  return (u32)t;
}
CUZK_HD inline u32 add_cc(u32 a, u32 b) { return with_carry((u64)a + b); }
CUZK_HD inline u32 addc_cc(u32 a, u32 b) { return with_carry((u64)a + b + carry_flag); }
CUZK_HD inline u32 addc(u32 a, u32 b) { return a + b + carry_flag; }
CUZK_HD inline u32 sub_cc(u32 a, u32 b) { return with_carry((u64)a - b); }
CUZK_HD inline u32 subc_cc(u32 a, u32 b) { return with_carry((u64)a - b - carry_flag); }
CUZK_HD inline u32 subc(u32 a, u32 b) { return a - b - carry_flag; }
CUZK_HD inline u32 mad_lo_cc(u32 a, u32 b, u32 c) { return with_carry((u64)(a * b) + c); }
CUZK_HD inline u32 madc_lo_cc(u32 a, u32 b, u32 c) { return with_carry((u64)(a * b) + c + carry_flag); }
CUZK_HD inline u32 high(u32 a, u32 b) { return (u32)(((u64)a * b) >> 32); }
CUZK_HD inline u32 madc_hi_cc(u32 a, u32 b, u32 c) { return with_carry((u64)high(a, b) + c + carry_flag); }
CUZK_HD inline u32 madc_hi(u32 a, u32 b, u32 c) { return high(a, b) + c + carry_flag; }
#endif

// acc[0, count) += sum over even j of a[j] b 2^(32 j); the carry out stays in the flag.
template <int count>
CUZK_DEVICE void multiply_row(u32* acc, const u32* a, u32 b) {
  acc[0] = mad_lo_cc(a[0], b, acc[0]);
  acc[1] = madc_hi_cc(a[0], b, acc[1]);
#pragma unroll
  for (int j = 2; j < count; j += 2) {
    acc[j] = madc_lo_cc(a[j], b, acc[j]);
    acc[j + 1] = madc_hi_cc(a[j], b, acc[j + 1]);
  }
}

// acc = (acc >> 64) + sum over even j of a[j] b 2^(32 j) + the carry flag; does not overflow where it is used.
template <int count>
CUZK_DEVICE void multiply_row_shifted(u32* acc, const u32* a, u32 b) {
#pragma unroll
  for (int j = 0; j < count - 2; j += 2) {
    acc[j] = madc_lo_cc(a[j], b, acc[j + 2]);
    acc[j + 1] = madc_hi_cc(a[j], b, acc[j + 3]);
  }
  acc[count - 2] = madc_lo_cc(a[count - 2], b, 0);
  acc[count - 1] = madc_hi(a[count - 2], b, 0);
}

// A modulus p of N words, -1/p mod 2^32, and R and R^2 mod p, R = 2^(32 N).
template <int words>
struct Modulus {
  u32 p[words], one[words], square_of_r[words], inverse;
};

template <class P>
constexpr Modulus<2 * P::N> make_modulus() {
  Modulus<2 * P::N> m{};
  for (int i = 0; i < 2 * P::N; ++i) {
    m.p[i] = (u32)(P::modulus().v[i / 2] >> (32 * (i % 2)));
    m.one[i] = (u32)(P::one().v[i / 2] >> (32 * (i % 2)));
    m.square_of_r[i] = (u32)(P::square_of_r().v[i / 2] >> (32 * (i % 2)));
  }
  m.inverse = (u32)P::inverse();
  return m;
}

template <class P>
struct ModulusOf;
#define CUZK_MODULUS(P)                                                              \
  CUZK_CONSTANT Modulus<2 * P::N> modulus_##P = make_modulus<P>();                   \
  template <>                                                                        \
  struct ModulusOf<P> {                                                              \
    CUZK_DEVICE static const Modulus<2 * P::N>& get() { return modulus_##P; }        \
  };
CUZK_MODULUS(Bn254Q)
CUZK_MODULUS(Bn254R)
CUZK_MODULUS(Bls381Q)
CUZK_MODULUS(Bls381R)
#undef CUZK_MODULUS

}  // namespace ptx

// An element on the GPU. inlined says whether products are expanded in place, for the few hot loops, or calls:
// a point addition is ten to fourteen products of 500 instructions.
template <class P, bool inlined>
struct alignas(16) Word32 {
  static constexpr int N = 2 * P::N;
  static constexpr int words = N;  // in memory
  static constexpr bool expanded = inlined;
  static constexpr int lanes = 1;  // threads that hold one element together
  using Params = P;
  using Cold = Word32<P, false>;
  using Modulus = ptx::ModulusOf<P>;
  u32 v[N];

  CUZK_DEVICE static Word32 zero() {
    Word32 r;
#pragma unroll
    for (int i = 0; i < N; ++i) r.v[i] = 0;
    return r;
  }
  CUZK_DEVICE static Word32 from_words(const u32* words) {
    Word32 r;
#pragma unroll
    for (int i = 0; i < N; ++i) r.v[i] = words[i];
    return r;
  }
  CUZK_DEVICE static Word32 one() { return from_words(Modulus::get().one); }

  // Elements lie 16 bytes aligned in device memory.
  CUZK_DEVICE static Word32 load(const u32* at) {
#if defined(__CUDA_ARCH__)
    Word32 r;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const uint4 q = *reinterpret_cast<const uint4*>(at + i);
      r.v[i] = q.x, r.v[i + 1] = q.y, r.v[i + 2] = q.z, r.v[i + 3] = q.w;
    }
    return r;
#else
    return from_words(at);
#endif
  }
  CUZK_DEVICE void store(u32* at) const {
#if defined(__CUDA_ARCH__)
#pragma unroll
    for (int i = 0; i < N; i += 4) *reinterpret_cast<uint4*>(at + i) = make_uint4(v[i], v[i + 1], v[i + 2], v[i + 3]);
#else
    for (int i = 0; i < N; ++i) at[i] = v[i];
#endif
  }

  CUZK_DEVICE bool is_zero() const {
    u32 bits = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) bits |= v[i];
    return bits == 0;
  }
  CUZK_DEVICE bool operator==(const Word32& o) const {
    u32 bits = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) bits |= v[i] ^ o.v[i];
    return bits == 0;
  }
  // Whether the raw integer is below p.
  CUZK_DEVICE bool reduced() const {
    const u32* p = Modulus::get().p;
    ptx::sub_cc(v[0], p[0]);
#pragma unroll
    for (int i = 1; i < N; ++i) ptx::subc_cc(v[i], p[i]);
    return ptx::subc(0, 0) != 0;
  }

  CUZK_DEVICE friend Word32 operator+(const Word32& a, const Word32& b) { return raw_sum(a, b).reduced_once(); }
  CUZK_DEVICE friend Word32 operator-(const Word32& a, const Word32& b) {
    const u32* p = Modulus::get().p;
    Word32 r;
    r.v[0] = ptx::sub_cc(a.v[0], b.v[0]);
#pragma unroll
    for (int i = 1; i < N; ++i) r.v[i] = ptx::subc_cc(a.v[i], b.v[i]);
    const u32 mask = ptx::subc(0, 0);
    r.v[0] = ptx::add_cc(r.v[0], p[0] & mask);
#pragma unroll
    for (int i = 1; i < N - 1; ++i) r.v[i] = ptx::addc_cc(r.v[i], p[i] & mask);
    r.v[N - 1] = ptx::addc(r.v[N - 1], p[N - 1] & mask);
    return r;
  }
  CUZK_DEVICE Word32 operator-() const { return zero() - *this; }
  // a + b as an integer below 2p, and p - this, p for zero: good as second factors.
  CUZK_DEVICE static Word32 raw_sum(const Word32& a, const Word32& b) {
    Word32 r;
    r.v[0] = ptx::add_cc(a.v[0], b.v[0]);
#pragma unroll
    for (int i = 1; i < N - 1; ++i) r.v[i] = ptx::addc_cc(a.v[i], b.v[i]);
    r.v[N - 1] = ptx::addc(a.v[N - 1], b.v[N - 1]);
    return r;
  }
  CUZK_DEVICE Word32 raw_negative() const {
    const u32* p = Modulus::get().p;
    Word32 r;
    r.v[0] = ptx::sub_cc(p[0], v[0]);
#pragma unroll
    for (int i = 1; i < N - 1; ++i) r.v[i] = ptx::subc_cc(p[i], v[i]);
    r.v[N - 1] = ptx::subc(p[N - 1], v[N - 1]);
    return r;
  }
  CUZK_DEVICE Word32 negated_if(bool negate) const {
    const Word32 m = -*this;
    return select(negate, m, *this);
  }
  CUZK_DEVICE static Word32 select(bool which, const Word32& yes, const Word32& no) {
    Word32 r;
#pragma unroll
    for (int i = 0; i < N; ++i) r.v[i] = which ? yes.v[i] : no.v[i];
    return r;
  }
  CUZK_DEVICE Word32 doubled() const { return *this + *this; }

  // a b / R. The second factor may be any integer below R, the first must be reduced.
  CUZK_DEVICE friend Word32 operator*(const Word32& a, const Word32& b) {
    if constexpr (inlined) {
      return product(a, b);
    } else {
      return product_call(a, b);
    }
  }
  CUZK_DEVICE Word32 squared() const {
    if constexpr (inlined) {
      return square();
    } else {
      return product_call(*this, *this);
    }
  }
  // (a b + c d) / R.
  CUZK_DEVICE static Word32 sum_of_products(const Word32& a, const Word32& b, const Word32& c, const Word32& d) {
    if constexpr (inlined) {
      const u32 *x[2] = {a.v, c.v}, *y[2] = {b.v, d.v};
      return products<2>(x, y);
    } else {
      return sum_of_products_call(a, b, c, d);
    }
  }

  CUZK_DEVICE Word32 to_montgomery() const { return *this * from_words(Modulus::get().square_of_r); }
  CUZK_DEVICE Word32 from_montgomery() const {
    Word32 unit = zero();
    unit.v[0] = 1;
    return *this * unit;
  }
  // this^(p - 2), the inverse; zero for zero.
  CUZK_DEVICE Word32 inverted() const {
    Limbs<P::N> e = P::modulus();
    e.v[0] -= 2;  // no borrow: the lowest limb of every modulus here is above 2
    Word32 r = one();
    for (int i = 32 * N - 1; i >= 0; --i) {
      r = r.squared();
      if ((e.v[i / 64] >> (i % 64)) & 1) r = r * *this;
    }
    return r;
  }

  CUZK_DEVICE static bool any(bool value) { return value; }  // see Pair

  CUZK_DEVICE Word32 reduced_once() const {
    const u32* p = Modulus::get().p;
    Word32 r;
    r.v[0] = ptx::sub_cc(v[0], p[0]);
#pragma unroll
    for (int i = 1; i < N; ++i) r.v[i] = ptx::subc_cc(v[i], p[i]);
    const bool below = ptx::subc(0, 0) != 0;
#pragma unroll
    for (int i = 0; i < N; ++i) r.v[i] = below ? v[i] : r.v[i];
    return r;
  }

  CUZK_DEVICE static Word32 product(const Word32& a, const Word32& b) {
    const u32 *x[1] = {a.v}, *y[1] = {b.v};
    return products<1>(x, y);
  }

  // (sum of x[k] y[k]) / R.
  template <int terms>
  CUZK_DEVICE static Word32 products(const u32* const (&x)[terms], const u32* const (&y)[terms]) {
    const ptx::Modulus<N>& m = Modulus::get();
    u32 sums[2][N];
#pragma unroll
    for (int i = 0; i < N; ++i) sums[0][i] = sums[1][i] = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      u32 *even = sums[i % 2], *odd = sums[1 - i % 2];
#pragma unroll
      for (int k = 0; k < terms; ++k) {
        if (i > 0 && k == 0) {
          even[0] = ptx::add_cc(even[0], odd[1]);
          ptx::multiply_row_shifted<N>(odd, x[k] + 1, y[k][i]);
        } else {
          ptx::multiply_row<N>(odd, x[k] + 1, y[k][i]);
        }
        ptx::multiply_row<N>(even, x[k], y[k][i]);
        odd[N - 1] = ptx::addc(odd[N - 1], 0);
      }
      const u32 factor = even[0] * m.inverse;
      ptx::multiply_row<N>(odd, m.p + 1, factor);
      ptx::multiply_row<N>(even, m.p, factor);
      odd[N - 1] = ptx::addc(odd[N - 1], 0);
    }
    return merged(sums[0], sums[1]).reduced_once();
  }

  // The square: products of different words once, doubled, then the squares of words.
  CUZK_DEVICE Word32 square() const {
    u32 even[2 * N], odd[2 * N];
#pragma unroll
    for (int i = 0; i < 2 * N; ++i) even[i] = odd[i] = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      add_products(odd + 2 * i, i, i + 1);
      add_products(even + 2 * i + 2, i, i + 2);
    }
    u32 wide[2 * N];
    wide[0] = 0;
    wide[1] = odd[0];
    wide[2] = ptx::add_cc(even[2], odd[1]);
#pragma unroll
    for (int i = 3; i < 2 * N - 1; ++i) wide[i] = ptx::addc_cc(even[i], odd[i - 1]);
    wide[2 * N - 1] = ptx::addc(even[2 * N - 1], odd[2 * N - 2]);
#pragma unroll
    for (int i = 2 * N - 1; i > 0; --i) wide[i] = (wide[i] << 1) | (wide[i - 1] >> 31);
    wide[0] = ptx::mad_lo_cc(v[0], v[0], wide[0]);
    wide[1] = ptx::madc_hi_cc(v[0], v[0], wide[1]);
#pragma unroll
    for (int i = 1; i < N; ++i) {
      wide[2 * i] = ptx::madc_lo_cc(v[i], v[i], wide[2 * i]);
      wide[2 * i + 1] = ptx::madc_hi_cc(v[i], v[i], wide[2 * i + 1]);
    }
    return reduced_wide(wide);
  }

 private:
  CUZK_COLD static Word32 product_call(Word32 a, Word32 b) { return product(a, b); }
  CUZK_COLD static Word32 sum_of_products_call(Word32 a, Word32 b, Word32 c, Word32 d) {
    const u32 *x[2] = {a.v, c.v}, *y[2] = {b.v, d.v};
    return products<2>(x, y);
  }

  // even / 2^32 + odd where the last step made odd of `even`'s array: even[0] is zero.
  CUZK_DEVICE static Word32 merged(const u32* odd, const u32* even) {
    Word32 r;
    r.v[0] = ptx::add_cc(odd[0], even[1]);
#pragma unroll
    for (int i = 1; i < N - 1; ++i) r.v[i] = ptx::addc_cc(odd[i], even[i + 1]);
    r.v[N - 1] = ptx::addc(odd[N - 1], 0);
    return r;
  }

  // acc += sum over j = first, first + 2, ... of v[j] v[row] 2^(32 (j - first)); all indices are constants
  // once the caller's loop is unrolled.
  CUZK_DEVICE void add_products(u32* acc, int row, int first) const {
    if (first >= N) return;
    acc[0] = ptx::mad_lo_cc(v[first], v[row], acc[0]);
    acc[1] = ptx::madc_hi_cc(v[first], v[row], acc[1]);
    int at = 2;
#pragma unroll
    for (int j = first + 2; j < N; j += 2, at += 2) {
      acc[at] = ptx::madc_lo_cc(v[j], v[row], acc[at]);
      acc[at + 1] = ptx::madc_hi_cc(v[j], v[row], acc[at + 1]);
    }
    acc[at] = ptx::addc(acc[at], 0);
  }

  CUZK_DEVICE static Word32 reduced_wide(const u32* wide) {
    const ptx::Modulus<N>& m = Modulus::get();
    u32 sums[2][N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      sums[0][i] = wide[i];
      sums[1][i] = 0;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      u32 *even = sums[i % 2], *odd = sums[1 - i % 2];
      const u32 factor = (i == 0 ? even[0] : even[0] + odd[1]) * m.inverse;
      if (i == 0) {
        ptx::multiply_row<N>(odd, m.p + 1, factor);
      } else {
        even[0] = ptx::add_cc(even[0], odd[1]);
        ptx::multiply_row_shifted<N>(odd, m.p + 1, factor);
      }
      ptx::multiply_row<N>(even, m.p, factor);
      odd[N - 1] = ptx::addc(odd[N - 1], 0);
    }
    Word32 r = merged(sums[0], sums[1]);
    r.v[0] = ptx::add_cc(r.v[0], wide[N]);
#pragma unroll
    for (int i = 1; i < N - 1; ++i) r.v[i] = ptx::addc_cc(r.v[i], wide[N + i]);
    r.v[N - 1] = ptx::addc(r.v[N - 1], wide[2 * N - 1]);
    return r.reduced_once();
  }
};

}  // namespace cuzk
