"""The few points of an MSM that the host adds up, and constants for kernels over points."""

import ctypes
from functools import lru_cache
from typing import TYPE_CHECKING

from cuzk_kernels.backend import native
from cuzk_kernels.backend.native_library import Borrowed, library

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend
    from cuzk_kernels.curves import Curve, Point

FIXED_BITS, FIXED_WINDOWS = 8, 32  # of the table for `fixed_base` in cuda/points.cu


def combine(curve: "Curve", group: int, points: memoryview, powers: list[int]) -> "Point":
    """sum of 2^powers[i] * points[i]; points are XYZZ in Montgomery words, zeros for infinity."""
    if native.available() is None:
        number = native.CURVE_NUMBERS[curve.name]
        count = len(powers)
        source = Borrowed(points, len(points))
        shifts = (ctypes.c_uint32 * count)(*powers)
        out = ctypes.create_string_buffer(curve.point_bytes(group))
        library().combine(number, group, source.address, shifts, count, ctypes.addressof(out))
        return decode_point(curve, group, out.raw)
    ops, size = curve.group(group), curve.n8q
    field = ops.field
    inverse = pow(1 << (8 * size), -1, curve.q)
    by_power: dict[int, list[int]] = {}
    for index, power in enumerate(powers):
        by_power.setdefault(power, []).append(index)
    total = None
    for power in range(max(by_power, default=-1), -1, -1):
        total = ops.xyzz_double(total) if total is not None else None
        for index in by_power.get(power, ()):
            at = index * 4 * group * size
            raw = [
                int.from_bytes(points[i : i + size], "little") * inverse % curve.q
                for i in range(at, at + 4 * group * size, size)
            ]
            if any(raw[2 * group :]):
                parts = [field.from_ints(raw[k : k + group]) for k in range(0, 4 * group, group)]
                total = ops.xyzz_add(total, tuple(parts))
    return ops.to_affine(total)


def decode_point(curve: "Curve", group: int, raw: bytes) -> "Point":
    """A point from plain little-endian coordinates, zeros for infinity."""
    size = curve.n8q
    values = [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]
    if not any(values):
        return None
    return (values[0], values[1]) if group == 1 else ((values[0], values[1]), (values[2], values[3]))


@lru_cache(maxsize=8)
def check_constants(curve: "Curve", group: int) -> bytes:
    """b and the endomorphism's factors for x and y, in Montgomery form: see cuda/groups.cuh."""
    q = curve.q
    ops = curve.group(group)
    field = ops.field
    if group == 1:
        factor = pow(2, (q - 1) // 3, q)  # a cube root of unity: 2 is no cube
        values = [ops.b, factor, 1]
    else:
        xi = (9, 1) if curve.name == "bn254" else (1, 1)
        sixth = _power(field, xi, (q - 1) // 6)
        if curve.name != "bn254":
            sixth = field.inv(sixth)
        square = field.sqr(sixth)
        values = [ops.b, square, field.mul(square, sixth)]
    words = [part for value in values for part in field.to_ints(value)]
    return b"".join((w * (1 << (8 * curve.n8q)) % q).to_bytes(curve.n8q, "little") for w in words)


def _power(field: "object", base: "tuple[int, int]", exponent: int) -> "tuple[int, int]":
    result = (1, 0)
    for bit in bin(exponent)[2:]:
        result = field.sqr(result)  # type: ignore[attr-defined]
        if bit == "1":
            result = field.mul(result, base)  # type: ignore[attr-defined]
    return result


def fixed_table(host: "Backend", curve: "Curve", group: int, base: "Point") -> bytes:
    """base * j * 256^w for every byte j and window w, as file points."""
    scalars = b"".join(
        (j << (FIXED_BITS * w)).__mod__(curve.r).to_bytes(32, "little")
        for w in range(FIXED_WINDOWS)
        for j in range(1 << FIXED_BITS)
    )
    count = FIXED_WINDOWS << FIXED_BITS
    values = host.scalars(curve, memoryview(bytearray(scalars)), count)
    return host.fixed_base(curve, group, base, values, count)
