// A straightforward multi-scalar multiplication, as a yardstick for the library's: textbook methods, plain C++.
//
// 64-bit limbs with unsigned __int128, coarsely integrated operand scanning (CIOS) Montgomery products, XYZZ
// buckets with mixed additions, signed digits, two threads that share the windows. It has no part in common
// with the library.
//
// double straight_msm(curve, points, scalars, n, out): seconds; curve 0 BN254, 1 BLS12-381; G1 points as in a
// .zkey, none of them infinity, scalars plain; out gets the affine sum, plain words, zeros for infinity.
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace {

using u64 = uint64_t;
using u128 = unsigned __int128;

template <int N>
struct Modulus {
  u64 p[N], inverse;
};

constexpr Modulus<4> bn254 = {
    {0x3c208c16d87cfd47, 0x97816a916871ca8d, 0xb85045b68181585d, 0x30644e72e131a029}, 0x87d20782e4866389};
constexpr Modulus<6> bls381 = {{0xb9feffffffffaaab, 0x1eabfffeb153ffff, 0x6730d2a0f6b0f624, 0x64774b84f38512bf,
                                0x4b1ba7b6434bacd7, 0x1a0111ea397fe69a},
                               0x89f3fffcfffcfffd};

template <int N, const Modulus<N>& M>
struct Fp {
  u64 v[N];

  void subtract_p() {
    Fp r;
    u64 borrow = 0;
    for (int i = 0; i < N; ++i) {
      const u128 d = (u128)v[i] - M.p[i] - borrow;
      r.v[i] = (u64)d;
      borrow = (u64)(d >> 64) & 1;
    }
    if (borrow == 0) *this = r;
  }
  friend Fp operator+(const Fp& a, const Fp& b) {
    Fp r;
    u64 carry = 0;
    for (int i = 0; i < N; ++i) {
      const u128 s = (u128)a.v[i] + b.v[i] + carry;
      r.v[i] = (u64)s;
      carry = (u64)(s >> 64);
    }
    r.subtract_p();
    return r;
  }
  friend Fp operator-(const Fp& a, const Fp& b) {
    Fp r;
    u64 borrow = 0, carry = 0;
    for (int i = 0; i < N; ++i) {
      const u128 d = (u128)a.v[i] - b.v[i] - borrow;
      r.v[i] = (u64)d;
      borrow = (u64)(d >> 64) & 1;
    }
    if (borrow != 0)
      for (int i = 0; i < N; ++i) {
        const u128 s = (u128)r.v[i] + M.p[i] + carry;
        r.v[i] = (u64)s;
        carry = (u64)(s >> 64);
      }
    return r;
  }
  friend Fp operator*(const Fp& a, const Fp& b) {
    u64 t[N + 2] = {};
    for (int i = 0; i < N; ++i) {
      u64 carry = 0;
      for (int j = 0; j < N; ++j) {
        const u128 s = (u128)a.v[j] * b.v[i] + t[j] + carry;
        t[j] = (u64)s;
        carry = (u64)(s >> 64);
      }
      u128 s = (u128)t[N] + carry;
      t[N] = (u64)s;
      t[N + 1] = (u64)(s >> 64);
      const u64 m = t[0] * M.inverse;
      s = (u128)m * M.p[0] + t[0];
      carry = (u64)(s >> 64);
      for (int j = 1; j < N; ++j) {
        s = (u128)m * M.p[j] + t[j] + carry;
        t[j - 1] = (u64)s;
        carry = (u64)(s >> 64);
      }
      s = (u128)t[N] + carry;
      t[N - 1] = (u64)s;
      t[N] = t[N + 1] + (u64)(s >> 64);
    }
    Fp r;
    memcpy(r.v, t, sizeof r.v);
    r.subtract_p();
    return r;
  }
  bool zero() const {
    u64 bits = 0;
    for (const u64 limb : v) bits |= limb;
    return bits == 0;
  }
};

template <class F>
struct Point {
  F x, y;
};

template <class F>
struct Sum {
  F x, y, zz, zzz;
  bool empty = true;

  void set_doubled(const F& px, const F& py) {
    const F u = py + py, v = u * u, w = u * v, s = px * v, xx = px * px, m = xx + xx + xx;
    const F x3 = m * m - s - s;
    y = m * (s - x3) - w * py;
    x = x3;
    zz = empty ? v : v * zz;
    zzz = empty ? w : w * zzz;
    empty = false;
  }
  void add(const Point<F>& p, const F& one) {
    if (empty) {
      *this = {p.x, p.y, one, one, false};
      return;
    }
    const F h = p.x * zz - x, r = p.y * zzz - y;
    if (h.zero()) {
      empty = true;
      if (r.zero()) set_doubled(p.x, p.y);
      return;
    }
    const F hh = h * h, hhh = h * hh, q = x * hh, x3 = r * r - hhh - q - q;
    y = r * (q - x3) - y * hhh;
    x = x3;
    zz = zz * hh;
    zzz = zzz * hhh;
  }
  void add(const Sum& o) {
    if (o.empty) return;
    if (empty) {
      *this = o;
      return;
    }
    const F u = x * o.zz, s = y * o.zzz, h = o.x * zz - u, r = o.y * zzz - s;
    if (h.zero()) {
      if (r.zero()) {
        set_doubled(F(x), F(y));
      } else {
        empty = true;
      }
      return;
    }
    const F hh = h * h, hhh = h * hh, q = u * hh, x3 = r * r - hhh - q - q;
    y = r * (q - x3) - s * hhh;
    x = x3;
    zz = zz * o.zz * hh;
    zzz = zzz * o.zzz * hhh;
  }
  void double_it() {
    if (!empty) set_doubled(F(x), F(y));
  }
};

template <int N, const Modulus<N>& M>
void run(const unsigned char* data, const unsigned char* scalars, size_t n, unsigned char* out) {
  using F = Fp<N, M>;
  F one{}, unit{};
  unit.v[0] = one.v[0] = 1;
  for (int i = 0; i < 64 * N; ++i) one = one + one;
  int c = 4;
  while ((size_t(1) << (c + 4)) <= n && c < 16) ++c;  // log2 n - 3
  const int windows = 256 / c + 1;
  std::vector<Point<F>> points(n);
  memcpy(points.data(), data, n * sizeof(Point<F>));
  std::vector<int32_t> digits(n * windows);
  for (size_t i = 0; i < n; ++i) {
    u64 s[6] = {};
    memcpy(s, scalars + 32 * i, 32);
    int32_t carry = 0;
    for (int w = 0; w < windows; ++w) {
      const int at = w * c, word = at / 64, bit = at % 64;
      u64 raw = s[word] >> bit;
      if (bit != 0) raw |= s[word + 1] << (64 - bit);
      int32_t d = int32_t(raw & ((1u << c) - 1)) + carry;
      carry = d > (1 << (c - 1));
      digits[w * n + i] = carry != 0 ? d - (1 << c) : d;
    }
  }
  std::vector<Sum<F>> sums(windows);
  const auto work = [&](int first) {
    std::vector<Sum<F>> buckets;
    for (int w = first; w < windows; w += 2) {
      buckets.assign(size_t(1) << (c - 1), Sum<F>());
      for (size_t i = 0; i < n; ++i) {
        const int32_t d = digits[w * n + i];
        if (d > 0) buckets[d - 1].add(points[i], one);
        if (d < 0) buckets[-d - 1].add({points[i].x, F{} - points[i].y}, one);
      }
      Sum<F> running, total;
      for (size_t b = buckets.size(); b-- > 0;) {
        running.add(buckets[b]);
        total.add(running);
      }
      sums[w] = total;
    }
  };
  std::thread other(work, 1);
  work(0);
  other.join();
  Sum<F> total;
  for (int w = windows - 1; w >= 0; --w) {
    for (int i = 0; i < c; ++i) total.double_it();
    total.add(sums[w]);
  }
  memset(out, 0, sizeof(Point<F>));
  if (total.empty) return;
  F inverse = one;  // 1/zzz by Fermat
  for (int i = 64 * N - 1; i >= 0; --i) {
    inverse = inverse * inverse;
    const u64 limb = M.p[i / 64] - (i < 64 ? 2 : 0);
    if (limb >> (i % 64) & 1) inverse = inverse * total.zzz;
  }
  const F z = total.zz * inverse;
  const Point<F> affine = {total.x * (z * z) * unit, total.y * inverse * unit};
  memcpy(out, &affine, sizeof affine);
}

}  // namespace

extern "C" double straight_msm(int curve, const unsigned char* points, const unsigned char* scalars, uint64_t n,
                               unsigned char* out) {
  const auto start = std::chrono::steady_clock::now();
  if (curve == 0) {
    run<4, bn254>(points, scalars, n, out);
  } else {
    run<6, bls381>(points, scalars, n, out);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
