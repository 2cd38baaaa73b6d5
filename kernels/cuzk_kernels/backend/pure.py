"""The back end for machines without a compiler: Python integers, or gmpy2's where it is installed.

Two orders of magnitude behind the native one: right for circuits of a few thousand constraints at most.
Multi-scalar multiplication is Pippenger's bucket method (Bernstein, Doumen, Lange, Oosterwijk, "Faster batch
forgery identification", 2012, section 4) with signed digits, which halve the buckets, and XYZZ accumulators.
"""

from collections.abc import Sequence
from typing import Any

from cuzk_kernels.backend import protocol
from cuzk_kernels.backend.protocol import CoefError, MsmSteps
from cuzk_kernels.curves import Curve
from cuzk_kernels.points import Element, Field, Group, Point, Xyzz

try:
    from gmpy2 import mpz as number
except ImportError:
    number = int

VALUE_BYTES = 32
COEF_BYTES = 12 + VALUE_BYTES
_R_INVERSE_SHIFT = 512  # coefficients are stored times R^2, R = 2^256


class PureVec:
    """Values of a vector over Fr as plain integers below r."""

    def __init__(self, curve: Curve, values: list[int]) -> None:
        self.curve = curve
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def tobytes(self) -> bytes:
        return b"".join([int(value).to_bytes(VALUE_BYTES, "little") for value in self.values])


class PureBackend:
    """See `protocol.Backend`; one thread, `Vec` and `Scalars` are both PureVec."""

    name = "python"
    threads = 1

    def __init__(self) -> None:
        self._groups: dict[tuple[str, int], Group] = {}

    def _group(self, curve: Curve, group: int) -> Group:
        key = curve.name, group
        if key not in self._groups:
            self._groups[curve.name, 1], self._groups[curve.name, 2] = curve.groups(number)
        return self._groups[key]

    def point_check(
        self, curve: Curve, group: int, points: memoryview, count: int, subgroup: bool
    ) -> tuple[int, str] | None:
        ops = self._group(curve, group)
        for index in range(count):
            if any(value >= curve.q for value in curve.raw_coordinates(group, points, index)):
                return index, protocol.NOT_REDUCED
            point = curve.decode(group, points, index)
            if not ops.on_curve(point):
                return index, protocol.OFF_CURVE
            if subgroup and not ops.in_subgroup(point):
                return index, protocol.WRONG_SUBGROUP
        return None

    def witness_check(self, curve: Curve, witness: memoryview, count: int) -> int | None:
        return next((i for i, value in enumerate(_values(witness, count)) if value >= curve.r), None)

    def eval_ab(
        self, curve: Curve, coefs: memoryview, n_coefs: int, witness: memoryview, n_vars: int, domain: int
    ) -> tuple[PureVec, PureVec]:
        r = number(curve.r)
        unscale = pow(1 << _R_INVERSE_SHIFT, -1, curve.r)
        wires = _values(witness, n_vars)
        rows = [number(0)] * domain, [number(0)] * domain
        for index in range(n_coefs):
            record = coefs[index * COEF_BYTES : (index + 1) * COEF_BYTES]
            matrix, row, wire = (int.from_bytes(record[at : at + 4], "little") for at in (0, 4, 8))
            if matrix > 1:
                raise CoefError(index, "matrix", matrix)
            if row >= domain:
                raise CoefError(index, "row", row)
            if wire >= n_vars:
                raise CoefError(index, "wire", wire)
            rows[matrix][row] += int.from_bytes(record[12:], "little") * wires[wire]
        a, b = ([total % r * unscale % r for total in totals] for totals in rows)
        return PureVec(curve, a), PureVec(curve, b)

    def product(self, a: PureVec, b: PureVec) -> PureVec:
        r = number(a.curve.r)
        return PureVec(a.curve, [x * y % r for x, y in zip(a.values, b.values, strict=True)])

    def intt(self, v: PureVec) -> None:
        r, n = v.curve.r, len(v)
        _transform(v.values, pow(v.curve.root_of_unity(n), -1, r), r)
        _scale_by_powers(v.values, pow(n, -1, r), 1, r)

    def coset(self, v: PureVec) -> None:
        _scale_by_powers(v.values, 1, v.curve.root_of_unity(2 * len(v)), v.curve.r)

    def ntt(self, v: PureVec) -> None:
        _transform(v.values, v.curve.root_of_unity(len(v)), v.curve.r)

    def pointwise(self, a: PureVec, b: PureVec, c: PureVec) -> PureVec:
        r = number(a.curve.r)
        return PureVec(
            a.curve, [(x * y - z) % r for x, y, z in zip(a.values, b.values, c.values, strict=True)]
        )

    def scalars(self, curve: Curve, data: memoryview, count: int) -> PureVec:
        return PureVec(curve, _values(data, count))

    def window_bits(
        self,
        curve: Curve,
        group: int,  # noqa: ARG002 (the same for G2)
        count: int,
        scalars: PureVec | None = None,  # noqa: ARG002 (and for any scalars)
        offset: int = 0,  # noqa: ARG002
    ) -> int:
        """The width with the fewest additions: one a point and window, and two a bucket."""
        return min(range(2, 17), key=lambda c: _windows(curve, c) * (count + (1 << c)))

    def msm(
        self,
        curve: Curve,
        group: int,
        points: memoryview,
        scalars: PureVec,
        offset: int,
        count: int,
        steps: MsmSteps,
    ) -> Point:
        ops = self._group(curve, group)
        bits = self.window_bits(curve, group, count)
        windows = _windows(curve, bits)
        with steps.digits:
            terms = []
            for index in range(count):
                scalar = scalars.values[offset + index]
                point = curve.decode(group, points, index) if scalar else None
                if point is not None:
                    point = _as_numbers(ops, point)
                    terms.append((point, ops.neg(point), signed_digits(scalar, curve.r, bits, windows)))
        with steps.accumulate:
            buckets = [_accumulate(ops, terms, window, bits) for window in range(windows)]
        with steps.reduce:
            sums = [_weighted_sum(ops, row) for row in buckets]
        with steps.horner:
            total: Xyzz = None
            for window_sum in reversed(sums):
                for _ in range(bits):
                    total = ops.xyzz_double(total)
                total = ops.xyzz_add(total, window_sum)
            return _as_ints(ops.field, ops.to_affine(total))

    def fixed_base(self, curve: Curve, group: int, base: Point, scalars: PureVec, count: int) -> bytes:
        ops = self._group(curve, group)
        bits = self.window_bits(curve, group, count)
        table = _multiples(ops, base, bits, _windows(curve, bits))
        sums = []
        for scalar in scalars.values[:count]:
            total: Xyzz = None
            for row, digit in zip(table, signed_digits(scalar, curve.r, bits, len(table)), strict=True):
                if digit:
                    total = ops.xyzz_madd(total, row[digit] if digit > 0 else ops.neg(row[-digit]))
            sums.append(total)
        return b"".join([curve.encode(group, point) for point in ops.batch_affine(sums)])

    def name_workers(self, span: object) -> None:
        """There are no workers."""

    def take_faults(self) -> tuple[int, int]:
        return 0, 0


def _values(data: memoryview, count: int) -> list[int]:
    step = VALUE_BYTES
    return [int.from_bytes(data[at : at + step], "little") for at in range(0, count * step, step)]


def _as_numbers(ops: Group, point: Point) -> Point:
    field = ops.field
    convert = number
    return tuple(field.from_ints([convert(v) for v in field.to_ints(value)]) for value in point)


def _as_ints(field: Field, point: Point) -> Point:
    """Plain integers again, so that no other number type leaves the back end."""
    if point is None:
        return None
    return tuple(field.from_ints([int(v) for v in field.to_ints(value)]) for value in point)


def _windows(curve: Curve, bits: int) -> int:
    """Signed digits a scalar of at most r/2 needs, the last carry included."""
    return curve.r.bit_length() // bits + 1


def signed_digits(scalar: int, r: int, bits: int, windows: int) -> list[int]:
    """Digits in [-2^(bits-1), 2^(bits-1)], least significant first, whose sum is the scalar modulo r.

    Scalars above r/2 are recoded as -(r - scalar): without it the top digit of a 255-bit scalar can
    overflow its window.
    """
    scalar = int(scalar)
    sign = 1
    if scalar > r >> 1:
        scalar, sign = r - scalar, -1
    half, mask = 1 << (bits - 1), (1 << bits) - 1
    digits = [0] * windows
    for window in range(windows):
        if not scalar:
            break
        digit = scalar & mask
        scalar >>= bits
        if digit > half:
            digit -= mask + 1
            scalar += 1
        digits[window] = sign * digit
    return digits


def _accumulate(
    ops: Group, terms: Sequence[tuple[Point, Point, list[int]]], window: int, bits: int
) -> list[Xyzz]:
    """The sum of the points of every digit of one window; bucket 0 stays empty."""
    madd = ops.xyzz_madd
    buckets: list[Xyzz] = [None] * ((1 << (bits - 1)) + 1)
    for point, negated, digits in terms:
        digit = digits[window]
        if digit > 0:
            buckets[digit] = madd(buckets[digit], point)
        elif digit < 0:
            buckets[-digit] = madd(buckets[-digit], negated)
    return buckets


def _weighted_sum(ops: Group, buckets: list[Xyzz]) -> Xyzz:
    """sum of d * buckets[d], by running sums from the top."""
    running: Xyzz = None
    total: Xyzz = None
    for bucket in reversed(buckets[1:]):
        running = ops.xyzz_add(running, bucket)
        total = ops.xyzz_add(total, running)
    return total


def _multiples(ops: Group, base: Point, bits: int, windows: int) -> list[list[Point]]:
    """Row w holds d * 2^(bits * w) * base, affine, for every digit d from 0 to 2^(bits-1)."""
    table = []
    start = _as_numbers(ops, base)
    for _ in range(windows):
        row: list[Xyzz] = [None]
        for _ in range(1 << (bits - 1)):
            row.append(ops.xyzz_madd(row[-1], start))
        affine = ops.batch_affine(row)
        table.append(affine)
        start = ops.double(affine[-1])
    return table


def _scale_by_powers(values: list[Any], first: int, ratio: int, r: int) -> None:
    """Multiply values[i] by first * ratio^i."""
    modulus: Element = number(r)
    factor = number(first)
    for i, value in enumerate(values):
        values[i] = value * factor % modulus
        factor = factor * ratio % modulus


def _transform(values: list[Any], root: int, r: int) -> None:
    """values[k] := sum of values[i] * root^(i*k), in place (Cooley and Tukey, decimation in time)."""
    n = len(values)
    log = n.bit_length() - 1
    modulus: Element = number(r)
    values[:] = [values[int(f"{i:0{log}b}"[::-1], 2)] for i in range(n)] if log else values
    half = 1
    while half < n:
        step_root = pow(root, n // (2 * half), r)
        twiddles = [number(1)]
        for _ in range(half - 1):
            twiddles.append(twiddles[-1] * step_root % modulus)
        for start in range(0, n, 2 * half):
            for i, twiddle in enumerate(twiddles, start):
                low, high = values[i], values[i + half] * twiddle % modulus
                values[i] = (low + high) % modulus
                values[i + half] = (low - high) % modulus
        half *= 2
