"""What the tests of the native library share: its levels, and plain-integer arithmetic of their own."""

from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import pytest

from cuzk_kernels.backend import native, native_library
from cuzk_kernels.backend.protocol import MsmSteps
from cuzk_kernels.curves import Curve

NEEDS_LIBRARY = pytest.mark.skipif(native.available() is not None, reason="the native library is not built")
STEPS = MsmSteps(*(nullcontext() for _ in range(4)))


def at_level(level: str) -> Any:
    """A back end held to one level of the processor; skips where the processor has less."""
    if native_library.cpu_level(level) != level:
        native_library.cpu_level()
        pytest.skip(f"this processor has no {level}")
    return native.NativeBackend()


def packed(values: Iterable[int], size: int = 32) -> bytes:
    return b"".join(value.to_bytes(size, "little") for value in values)


def unpacked(data: bytes, size: int = 32) -> list[int]:
    return [int.from_bytes(data[at : at + size], "little") for at in range(0, len(data), size)]


def scalars_of(backend: Any, curve: Curve, values: list[int]) -> Any:
    return backend.scalars(curve, memoryview(bytearray(packed(values))), len(values))


class Plain:
    """Affine additions of y^2 = x^3 + b over Fp (degree 1) or Fp[u]/(u^2 + 1), by the textbook."""

    def __init__(self, q: int, degree: int) -> None:
        self.q, self.degree = q, degree

    def mul(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        if self.degree == 1:
            return (a[0] * b[0] % self.q,)
        return ((a[0] * b[0] - a[1] * b[1]) % self.q, (a[0] * b[1] + a[1] * b[0]) % self.q)

    def inverse(self, a: tuple[int, ...]) -> tuple[int, ...]:
        norm = pow(sum(x * x for x in a), -1, self.q)
        return (a[0] * norm % self.q, *(-x * norm % self.q for x in a[1:]))

    def sub(self, a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
        return tuple((x - y) % self.q for x, y in zip(a, b, strict=True))

    def scale(self, k: int, a: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(k * x % self.q for x in a)

    def add(self, p: Any, q: Any) -> Any:
        if p is None or q is None:
            return q if p is None else p
        (x1, y1), (x2, y2) = p, q
        if x1 == x2:
            if self.sub((0,) * self.degree, y1) == y2:
                return None
            slope = self.mul(self.scale(3, self.mul(x1, x1)), self.inverse(self.scale(2, y1)))
        else:
            slope = self.mul(self.sub(y2, y1), self.inverse(self.sub(x2, x1)))
        x3 = self.sub(self.sub(self.mul(slope, slope), x1), x2)
        return x3, self.sub(self.mul(slope, self.sub(x1, x3)), y1)

    def sum_of_multiples(self, points: list[Any], scalars: list[int]) -> Any:
        """Bit by bit over all points together: double once a bit, add the points that have it."""
        acc = None
        for bit in range(max(scalars, default=0).bit_length() - 1, -1, -1):
            acc = self.add(acc, acc)
            for point, scalar in zip(points, scalars, strict=True):
                if scalar >> bit & 1:
                    acc = self.add(acc, point)
        return acc


def plain_points(curve: Curve, group: int, data: bytes) -> list[Any]:
    """The points of a packed array as tuples of coordinates out of Montgomery form."""
    size = curve.n8q
    inverse = pow(1 << (8 * size), -1, curve.q)
    values = [value * inverse % curve.q for value in unpacked(data, size)]
    rows = [tuple(values[at : at + 2 * group]) for at in range(0, len(values), 2 * group)]
    return [None if not any(row) else (row[:group], row[group:]) for row in rows]
