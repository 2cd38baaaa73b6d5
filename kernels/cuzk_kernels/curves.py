"""BN254 and BLS12-381: constants, and arithmetic on single points with Python integers.

Bulk work belongs to the back ends; what is here serves the few points of a proof's last step, the
verifier, and the pure-Python back end. Points are affine: (x, y) with integers for G1 and pairs of
integers (c0, c1) for G2, or None for the point at infinity.

Sources. BN254: EIP-196 and EIP-197. BLS12-381: the zcash protocol specification, section 5.4.9.2, and
draft-irtf-cfrg-pairing-friendly-curves section 4.2.1. Extended Jacobian ("XYZZ") formulas: the
Explicit-Formulas Database, shortw/xyzz, add-2008-s, madd-2008-s, dbl-2008-s-1.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Element = Any  # of Fp: an integer; of Fp2: a pair of integers
Point = Any  # (x, y), or None for infinity
Xyzz = Any  # (X, Y, ZZ, ZZZ) with x = X / ZZ, y = Y / ZZZ, ZZ**3 = ZZZ**2, or None for infinity

NON_RESIDUE = 5  # the least quadratic non-residue of both scalar fields; snarkjs derives its roots from it


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


class Curve:
    """One pairing-friendly curve with the sizes of its encodings in .zkey and .wtns files.

    name: as cuzk writes it; snarkjs_name: as "curve" in JSON; label: as people write it.
    q, r: base and scalar primes; n8q, n8r: bytes of an element of each in a file.
    """

    n8r = 32

    def __init__(
        self, name: str, snarkjs_name: str, label: str, *, q: int, r: int, n8q: int,
        b1: int, b2: tuple[int, int], g1: Point, g2: Point, g1_cofactor_one: bool,
    ) -> None:  # fmt: skip
        self.name, self.snarkjs_name, self.label = name, snarkjs_name, label
        self.q, self.r, self.n8q = q, r, n8q
        self._parameters = b1, b2, g1, g2, g1_cofactor_one
        self.g1, self.g2 = self.groups(int)
        self.two_adicity = ((r - 1) & (1 - r)).bit_length() - 1
        self._montgomery = (1 << (8 * n8q)) % q
        self._montgomery_inverse = pow(self._montgomery, -1, q)

    def __repr__(self) -> str:
        return f"<Curve {self.name}>"

    def groups(self, number: Callable[[int], Any]) -> tuple[Group, Group]:
        """G1 and G2 over another integer type, such as gmpy2.mpz."""
        b1, b2, g1, g2, g1_cofactor_one = self._parameters
        q = number(self.q)
        return (
            Group(Fp(q), b1, g1, self.r, g1_cofactor_one),
            Group(Fp2(q), b2, g2, self.r, False),
        )

    def group(self, number: int) -> Group:
        """G1 for 1, G2 for 2."""
        return self.g1 if number == 1 else self.g2

    def root_of_unity(self, n: int) -> int:
        """The primitive n-th root snarkjs uses, n a power of two: a power of 5^t, t the odd part of r - 1.

        bellperson, arkworks and sppark take 7^t on BLS12-381; a key made for one gives, silently, invalid
        proofs with the other.
        """
        log = n.bit_length() - 1
        if n < 1 or n != 1 << log or log > self.two_adicity:
            raise ValueError(f"no root of unity of order {n} in the scalar field of {self.label}")
        odd = (self.r - 1) >> self.two_adicity
        return pow(NON_RESIDUE, odd << (self.two_adicity - log), self.r)

    def point_bytes(self, group: int) -> int:
        """Bytes of one point in a file: 2 coordinates of 1 (G1) or 2 (G2) base field elements."""
        return 2 * group * self.n8q

    def raw_coordinates(self, group: int, data: memoryview, index: int) -> list[int]:
        """The stored (Montgomery) integers of point `index` of a packed array, unchecked."""
        size = self.n8q
        at = index * self.point_bytes(group)
        return [int.from_bytes(data[o : o + size], "little") for o in range(at, at + 2 * group * size, size)]

    def decode(self, group: int, data: memoryview, index: int = 0) -> Point:
        """Point `index` of a packed array of file points; all zeros is infinity."""
        raw = self.raw_coordinates(group, data, index)
        if not any(raw):
            return None
        values = [value * self._montgomery_inverse % self.q for value in raw]
        field = self.group(group).field
        return field.from_ints(values[:group]), field.from_ints(values[group:])

    def encode(self, group: int, point: Point) -> bytes:
        """A point as a .zkey stores it: affine, little-endian, Montgomery form with R = 2^(8 * n8q)."""
        if point is None:
            return bytes(self.point_bytes(group))
        field = self.group(group).field
        values = (*field.to_ints(point[0]), *field.to_ints(point[1]))
        return b"".join(
            int(value * self._montgomery % self.q).to_bytes(self.n8q, "little") for value in values
        )


BN254 = Curve(
    "bn254", "bn128", "BN254",
    q=21888242871839275222246405745257275088696311157297823662689037894645226208583,
    r=21888242871839275222246405745257275088548364400416034343698204186575808495617,
    n8q=32,
    b1=3,
    b2=(  # 3 / (9 + u)
        19485874751759354771024239261021720505790618469301721065564631296452457478373,
        266929791119991161246907387137283842545076965332900288569378510910307636690,
    ),
    g1=(1, 2),
    g2=(
        (
            10857046999023057135944570762232829481370756359578518086990519993285655852781,
            11559732032986387107991004021392285783925812861821192530917403151452391805634,
        ),
        (
            8495653923123431417604973247489272438418190587263600148770280649306958101930,
            4082367875863433681332203403145435568316851327593401208105741076214120093531,
        ),
    ),
    g1_cofactor_one=True,
)  # fmt: skip

BLS12_381 = Curve(
    "bls12381", "bls12381", "BLS12-381",
    q=0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB,
    r=0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001,
    n8q=48,
    b1=4,
    b2=(4, 4),
    g1=(
        0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB,
        0x08B3F481E3AAA0F1A09E30ED741D8AE4FCF5E095D5D00AF600DB18CB2C04B3EDD03CC744A2888AE40CAA232946C5E7E1,
    ),
    g2=(
        (
            0x024AA2B2F08F0A91260805272DC51051C6E47AD4FA403B02B4510B647AE3D1770BAC0326A805BBEFD48056C8C121BDB8,
            0x13E02B6052719F607DACD3A088274F65596BD0D09920B61AB5DA61BBDC7F5049334CF11213945D57E5AC7D055D042B7E,
        ),
        (
            0x0CE5D527727D6E118CC9CDC6DA2E351AADFD9BAA8CBDD3A76D429A695160D12C923AC9CC3BACA289E193548608B82801,
            0x0606C4A02EA734CC32ACD2B02BC28B99CB3E287E85A763AF267492AB572E99AB3F370D275CEC1DA1AAA9075FF05F79BE,
        ),
    ),
    g1_cofactor_one=False,
)  # fmt: skip

CURVES = (BN254, BLS12_381)
SUPPORTED = ", ".join(curve.label for curve in CURVES)


def by_scalar_prime(r: int) -> Curve | None:
    return next((curve for curve in CURVES if curve.r == r), None)


def by_base_prime(q: int) -> Curve | None:
    return next((curve for curve in CURVES if curve.q == q), None)


def by_snarkjs_name(name: str) -> Curve | None:
    """The curve a JSON file names; snarkjs itself also reads BN254 and BLS12-381 in other spellings."""
    plain = name.lower().replace("-", "").replace("_", "")
    return {"bn128": BN254, "bn254": BN254, "altbn128": BN254, "bls12381": BLS12_381}.get(plain)
