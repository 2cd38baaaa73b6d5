"""Points of y^2 = x^3 + b with Python integers, one at a time; not constant-time, as no prover here is.

Bulk work belongs to the back ends; what is here serves the few points of a proof's last step, the
verifier, and the pure-Python back end. Points are affine: (x, y) with integers for G1 and pairs of
integers (c0, c1) for G2, or None for the point at infinity.

Extended Jacobian ("XYZZ") formulas: the Explicit-Formulas Database, shortw/xyzz, add-2008-s,
madd-2008-s, dbl-2008-s-1.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Element = Any  # of Fp: an integer; of Fp2: a pair of integers
Point = Any  # (x, y), or None for infinity
Xyzz = Any  # (X, Y, ZZ, ZZZ) with x = X / ZZ, y = Y / ZZZ, ZZ**3 = ZZZ**2, or None for infinity


class Fp:
    """The prime field of q elements, as integers in [0, q)."""

    degree = 1

    def __init__(self, q: int) -> None:
        self.q = q
        self.zero: Element = 0 * q
        self.one: Element = 1 + 0 * q

    def add(self, a: Element, b: Element) -> Element:
        return (a + b) % self.q

    def sub(self, a: Element, b: Element) -> Element:
        return (a - b) % self.q

    def mul(self, a: Element, b: Element) -> Element:
        return a * b % self.q

    def sqr(self, a: Element) -> Element:
        return a * a % self.q

    def neg(self, a: Element) -> Element:
        return -a % self.q

    def inv(self, a: Element) -> Element:
        return pow(a, -1, self.q)

    def from_ints(self, values: Sequence[int]) -> Element:
        return values[0]

    def to_ints(self, a: Element) -> tuple[int, ...]:
        return (a,)


class Fp2:
    """Fp[u] / (u^2 + 1), the quadratic extension both curves use; c0 + c1*u is the pair (c0, c1)."""

    degree = 2

    def __init__(self, q: int) -> None:
        self.q = q
        self.zero: Element = (0 * q, 0 * q)
        self.one: Element = (1 + 0 * q, 0 * q)

    def add(self, a: Element, b: Element) -> Element:
        return (a[0] + b[0]) % self.q, (a[1] + b[1]) % self.q

    def sub(self, a: Element, b: Element) -> Element:
        return (a[0] - b[0]) % self.q, (a[1] - b[1]) % self.q

    def mul(self, a: Element, b: Element) -> Element:
        a0, a1 = a
        b0, b1 = b
        low, high = a0 * b0, a1 * b1
        return (low - high) % self.q, ((a0 + a1) * (b0 + b1) - low - high) % self.q

    def sqr(self, a: Element) -> Element:
        a0, a1 = a
        return (a0 + a1) * (a0 - a1) % self.q, 2 * a0 * a1 % self.q

    def neg(self, a: Element) -> Element:
        return -a[0] % self.q, -a[1] % self.q

    def inv(self, a: Element) -> Element:
        scale = pow(a[0] * a[0] + a[1] * a[1], -1, self.q)
        return a[0] * scale % self.q, -a[1] * scale % self.q

    def from_ints(self, values: Sequence[int]) -> Element:
        return values[0], values[1]

    def to_ints(self, a: Element) -> tuple[int, ...]:
        return a[0], a[1]


Field = Fp | Fp2


class Group:
    """The curve y^2 = x^3 + b over one field, and its subgroup of prime order r."""

    def __init__(self, field: Field, b: Element, generator: Point, order: int, cofactor_one: bool) -> None:
        self.field = field
        self.b = b
        self.generator = generator
        self.order = order
        self.cofactor_one = cofactor_one

    def reduced(self, point: Point) -> bool:
        """Whether every coordinate lies in [0, q)."""
        if point is None:
            return True
        coordinates = (*self.field.to_ints(point[0]), *self.field.to_ints(point[1]))
        return all(0 <= value < self.field.q for value in coordinates)

    def on_curve(self, point: Point) -> bool:
        if point is None:
            return True
        x, y = point
        f = self.field
        return bool(f.sqr(y) == f.add(f.mul(f.sqr(x), x), self.b))

    def in_subgroup(self, point: Point) -> bool:
        """Whether r times a point of the curve is infinity: the definition, with no shortcut."""
        if point is None or self.cofactor_one:
            return True
        return self._multiple(point, self.order) is None

    def neg(self, point: Point) -> Point:
        return None if point is None else (point[0], self.field.neg(point[1]))

    def add(self, p: Point, q: Point) -> Point:
        return self.sum(p, q)

    def sum(self, *points: Point) -> Point:
        total: Xyzz = None
        for point in points:
            total = self.xyzz_madd(total, point)
        return self.to_affine(total)

    def double(self, p: Point) -> Point:
        return self.to_affine(self.xyzz_double(self.from_affine(p)))

    def mul(self, point: Point, scalar: int) -> Point:
        """scalar * point; the scalar is taken modulo the group order, so point must be in the subgroup."""
        return self.to_affine(self._multiple(point, scalar % self.order))

    def _multiple(self, point: Point, scalar: int) -> Xyzz:
        acc: Xyzz = None
        for bit in bin(scalar)[2:]:
            acc = self.xyzz_double(acc)
            if bit == "1":
                acc = self.xyzz_madd(acc, point)
        return acc

    def from_affine(self, point: Point) -> Xyzz:
        return None if point is None else (point[0], point[1], self.field.one, self.field.one)

    def xyzz_double(self, p: Xyzz) -> Xyzz:
        if p is None or p[1] == self.field.zero:
            return None
        mul, sqr, sub = self.field.mul, self.field.sqr, self.field.sub
        x, y, zz, zzz = p
        u = self.field.add(y, y)
        v = sqr(u)
        w = mul(u, v)
        s = mul(x, v)
        xx = sqr(x)
        m = self.field.add(self.field.add(xx, xx), xx)
        x3 = sub(sub(sqr(m), s), s)
        return x3, sub(mul(m, sub(s, x3)), mul(w, y)), mul(v, zz), mul(w, zzz)

    def xyzz_madd(self, p: Xyzz, q: Point) -> Xyzz:
        """p + q with q affine; equal and opposite points included."""
        if q is None:
            return p
        if p is None:
            return q[0], q[1], self.field.one, self.field.one
        mul, sqr, sub = self.field.mul, self.field.sqr, self.field.sub
        x1, y1, zz1, zzz1 = p
        h = sub(mul(q[0], zz1), x1)
        r = sub(mul(q[1], zzz1), y1)
        if h == self.field.zero:
            return self.xyzz_double(p) if r == self.field.zero else None
        hh = sqr(h)
        hhh = mul(h, hh)
        v = mul(x1, hh)
        x3 = sub(sub(sub(sqr(r), hhh), v), v)
        return x3, sub(mul(r, sub(v, x3)), mul(y1, hhh)), mul(zz1, hh), mul(zzz1, hhh)

    def xyzz_add(self, p: Xyzz, q: Xyzz) -> Xyzz:
        if p is None:
            return q
        if q is None:
            return p
        mul, sqr, sub = self.field.mul, self.field.sqr, self.field.sub
        x1, y1, zz1, zzz1 = p
        x2, y2, zz2, zzz2 = q
        u1 = mul(x1, zz2)
        s1 = mul(y1, zzz2)
        h = sub(mul(x2, zz1), u1)
        r = sub(mul(y2, zzz1), s1)
        if h == self.field.zero:
            return self.xyzz_double(p) if r == self.field.zero else None
        hh = sqr(h)
        hhh = mul(h, hh)
        v = mul(u1, hh)
        x3 = sub(sub(sub(sqr(r), hhh), v), v)
        y3 = sub(mul(r, sub(v, x3)), mul(s1, hhh))
        return x3, y3, mul(mul(zz1, zz2), hh), mul(mul(zzz1, zzz2), hhh)

    def to_affine(self, p: Xyzz) -> Point:
        return self.batch_affine([p])[0]

    def batch_affine(self, points: Sequence[Xyzz]) -> list[Point]:
        """Affine forms of many points for one inversion (Montgomery's trick on the ZZZ)."""
        f = self.field
        inverses = iter(batch_inverse([p[3] for p in points if p is not None], f.mul, f.inv, f.one))
        out: list[Point] = []
        for p in points:
            if p is None:
                out.append(None)
                continue
            inv_zzz = next(inverses)
            inv_z = f.mul(p[2], inv_zzz)  # ZZ / ZZZ = 1 / Z
            out.append((f.mul(p[0], f.sqr(inv_z)), f.mul(p[1], inv_zzz)))
        return out


def batch_inverse(
    values: Iterable[Element],
    mul: Callable[[Element, Element], Element],
    inv: Callable[[Element], Element],
    one: Element,
) -> list[Element]:
    """Inverses of many non-zero field elements for the price of one and three products each."""
    values = list(values)
    before = []  # product of the values ahead of each
    product = one
    for value in values:
        before.append(product)
        product = mul(product, value)
    inverse = inv(product)
    for i in range(len(values) - 1, -1, -1):
        before[i], inverse = mul(inverse, before[i]), mul(inverse, values[i])
    return before
