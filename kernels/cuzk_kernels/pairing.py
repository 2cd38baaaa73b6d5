"""Pairing libraries behind one small interface; each is imported when first used.

zksnake for BN254 and py_arkworks_bls12381 for BLS12-381 check a proof in milliseconds; py_ecc, where those
have no wheel, takes about a second.
Points go in as affine Python integers, already checked to be reduced and on the curve.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from cuzk_kernels.backend import native
from cuzk_kernels.curves import BN254, Curve, Point


class Pairing(Protocol):
    """name: the library, for people. slow: whether a check takes about a second."""

    name: str
    slow: bool

    def in_subgroup(self, group: int, point: Point) -> bool:
        """Whether a point of the curve has order r (or is infinity)."""

    def combine(self, points: Sequence[Point], scalars: Sequence[int]) -> Point:
        """sum of scalars[i] * points[i] over G1."""

    def product_is_one(self, pairs: Sequence[tuple[Point, Point]]) -> bool:
        """Whether the product of e(p, q) over the pairs (G1, G2) is one; infinity pairs to one."""


def choose(curve: Curve) -> Pairing:
    """The quickest library for the curve that can be imported here."""
    quick = ZksnakeBn254 if curve is BN254 else ArkworksBls12381
    try:
        return quick()
    except ImportError:
        return PyEcc(curve)


class ZksnakeBn254:
    """zksnake's BN254 (arkworks underneath). It panics on a bad point, so none may reach it."""

    name = "zksnake"
    slow = False

    def __init__(self) -> None:
        from zksnake.ecc import EllipticCurve  # noqa: PLC0415 (an optional, compiled dependency)

        self._curve: Any = EllipticCurve("BN254")

    def in_subgroup(self, group: int, point: Point) -> bool:
        """zksnake has no such test: the host library's takes microseconds, the definition in Python 9 ms."""
        if group == 1 or point is None or native.available() is not None:
            return BN254.group(group).in_subgroup(point)
        data = memoryview(bytearray(BN254.encode(group, point)))
        return native.NativeBackend().point_check(BN254, group, data, 1, subgroup=True) is None

    def combine(self, points: Sequence[Point], scalars: Sequence[int]) -> Point:
        pairs = [(p, s) for p, s in zip(points, scalars, strict=True) if p is not None]
        if not pairs:
            return None
        total = self._curve.multiexp([self._g1(p) for p, _ in pairs], [s for _, s in pairs])
        return None if total.is_zero() else (int(total.x), int(total.y))

    def product_is_one(self, pairs: Sequence[tuple[Point, Point]]) -> bool:
        finite = [(p, q) for p, q in pairs if p is not None and q is not None]
        product = self._curve.multi_pairing(
            [self._g1(p) for p, _ in finite], [self._g2(q) for _, q in finite]
        )
        infinity = self._curve.G1() * 0
        return bool(product == self._curve.pairing(infinity, self._curve.G2()))

    def _g1(self, point: Point) -> Any:
        return self._curve(*point)

    def _g2(self, point: Point) -> Any:
        return self._curve(list(point[0]), list(point[1]))


class ArkworksBls12381:
    """py_arkworks_bls12381."""

    name = "py_arkworks_bls12381"
    slow = False

    def __init__(self) -> None:
        import py_arkworks_bls12381 as library  # noqa: PLC0415 (an optional, compiled dependency)

        self._library: Any = library

    def in_subgroup(self, group: int, point: Point) -> bool:
        return point is None or bool(self._point(group, point).is_in_subgroup())

    def combine(self, points: Sequence[Point], scalars: Sequence[int]) -> Point:
        library = self._library
        total = library.G1Point.multiexp_unchecked(
            [self._point(1, point) for point in points],
            [library.Scalar.from_le_bytes(scalar.to_bytes(32, "little")) for scalar in scalars],
        )
        if total == library.G1Point.identity():
            return None
        xy = bytes(total.to_xy_bytes_be())
        return int.from_bytes(xy[:48], "big"), int.from_bytes(xy[48:], "big")

    def product_is_one(self, pairs: Sequence[tuple[Point, Point]]) -> bool:
        finite = [(p, q) for p, q in pairs if p is not None and q is not None]
        g1, g2 = [self._point(1, p) for p, _ in finite], [self._point(2, q) for _, q in finite]
        return bool(self._library.GT.pairing_check(g1, g2))

    def _point(self, group: int, point: Point) -> Any:
        kind = self._library.G1Point if group == 1 else self._library.G2Point
        if point is None:
            return kind.identity()
        coordinates = point if group == 1 else (*point[0], *point[1])
        return kind.from_xy_bytes_unchecked_be(b"".join(value.to_bytes(48, "big") for value in coordinates))


class PyEcc:
    """py_ecc's optimized pairings, in pure Python: for platforms without the compiled libraries."""

    name = "py_ecc"
    slow = True

    def __init__(self, curve: Curve) -> None:
        library: Any
        if curve is BN254:
            from py_ecc import optimized_bn128 as library  # noqa: PLC0415 (slow to import)
        else:
            from py_ecc import optimized_bls12_381 as library  # noqa: PLC0415 (slow to import)
        self._library = library
        self._curve = curve

    def in_subgroup(self, group: int, point: Point) -> bool:
        return self._curve.group(group).in_subgroup(point)

    def combine(self, points: Sequence[Point], scalars: Sequence[int]) -> Point:
        total = None
        for point, scalar in zip(points, scalars, strict=True):
            total = self._curve.g1.add(total, self._curve.g1.mul(point, scalar))
        return total

    def product_is_one(self, pairs: Sequence[tuple[Point, Point]]) -> bool:
        library = self._library
        product = library.FQ12.one()
        for p, q in pairs:
            if p is None or q is None:
                continue
            g1 = (library.FQ(p[0]), library.FQ(p[1]), library.FQ.one())
            g2 = (library.FQ2(q[0]), library.FQ2(q[1]), library.FQ2.one())
            product *= library.pairing(g2, g1, final_exponentiate=False)
        return bool(library.final_exponentiate(product) == library.FQ12.one())
