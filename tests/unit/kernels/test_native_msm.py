"""Sums of many points by the native library, at every level of the processor, on inputs made to break them.

The points are multiples of a generator whose factors are known, so that the sum is one multiplication; two
tests compare with arithmetic that shares nothing with the library.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
from native_cases import (
    NEEDS_LIBRARY,
    STEPS,
    Plain,
    at_level,
    native,
    native_library,
    packed,
    plain_points,
    scalars_of,
)

from cuzk_kernels.curves import BLS12_381, BN254, CURVES, Curve

pytestmark = NEEDS_LIBRARY
LARGE = 2500  # points in two or more pieces for each of eight lanes


@pytest.fixture(params=["portable", "adx", "ifma"])
def backend(request: pytest.FixtureRequest):
    yield at_level(request.param)
    native_library.cpu_level()


@pytest.fixture(params=[(c, g) for c in CURVES for g in (1, 2)], ids=lambda p: f"{p[0].name}-G{p[1]}")
def place(request: pytest.FixtureRequest) -> tuple[Curve, int]:
    return request.param


def check(backend: Any, curve: Curve, group: int, multiples: list[int], scalars: list[int]) -> None:
    ops = curve.group(group)
    factors = [m % curve.r for m in multiples]
    points = backend.fixed_base(
        curve, group, ops.generator, scalars_of(backend, curve, factors), len(factors)
    )
    got = backend.msm(
        curve, group, memoryview(points), scalars_of(backend, curve, scalars), 0, len(scalars), STEPS
    )
    expected = ops.mul(ops.generator, sum(m * s for m, s in zip(factors, scalars, strict=True)))
    assert got == expected


def some(curve: Curve, n: int, seed: int = 1) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(curve.r) for _ in range(n)]


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 31, 257, LARGE])
def test_sizes_that_are_no_power_of_two(backend: Any, place: tuple[Curve, int], n: int):
    curve, group = place
    check(backend, curve, group, some(curve, n, 2), some(curve, n, 3))


def test_no_points_at_all_is_infinity(backend: Any, place: tuple[Curve, int]):
    curve, group = place
    empty = backend.scalars(curve, memoryview(bytearray()), 0)
    assert backend.msm(curve, group, memoryview(b""), empty, 0, 0, STEPS) is None


@pytest.mark.parametrize(
    "multiple",
    [
        pytest.param(lambda i: 1, id="all equal"),
        pytest.param(lambda i: -1 if i & 1 else 1, id="P and -P in turn"),
        pytest.param(lambda i: i % 5 - 2, id="small multiples and infinity"),
        pytest.param(lambda i: 0, id="all infinity"),
        pytest.param(lambda i: 2 ** (i % 40), id="doublings of one point"),
    ],
)
@pytest.mark.parametrize(
    "scalar",
    [
        pytest.param(lambda i, r: 1, id="ones"),
        pytest.param(lambda i, r: r - 1, id="r-1"),
        pytest.param(lambda i, r: r // 2 + i % 3 - 1, id="r/2"),
        pytest.param(lambda i, r: i % 2, id="zeros and ones"),
        pytest.param(lambda i, r: pow(7, i, r), id="full width"),
    ],
)
def test_points_that_meet_in_one_bucket(
    backend: Any, place: tuple[Curve, int], multiple: Callable[[int], int], scalar: Callable[[int, int], int]
):
    curve, group = place
    n = 300 if group == 2 else 1200
    check(backend, curve, group, [multiple(i) for i in range(n)], [scalar(i, curve.r) for i in range(n)])


def test_one_bucket_that_holds_nearly_everything(backend: Any, place: tuple[Curve, int]):
    """As in the witness of a hash of bits; the bucket is cut between pieces, lanes and threads."""
    curve, group = place
    rng = random.Random(4)
    scalars = [1 if rng.random() < 0.97 else rng.randrange(curve.r) for _ in range(LARGE)]
    check(backend, curve, group, some(curve, LARGE, 5), scalars)


@pytest.mark.parametrize("bits", range(4, 16))
def test_no_window_loses_the_top_digit(
    backend: Any, curve: Curve, bits: int, monkeypatch: pytest.MonkeyPatch
):
    """Scalars about r/2, the largest after negation, and 2^k - 1, whose digits all carry."""
    monkeypatch.setattr(backend, "window_bits", lambda *_: bits)
    r = curve.r
    scalars = [r // 2 + k for k in range(-2, 3)] + [r - 1, r - 2, 1, 2]
    scalars += [(1 << k) - 1 for k in range(bits, 254, bits)] + [1 << k for k in range(0, 254, bits)]
    check(backend, curve, 1, some(curve, len(scalars), 6), scalars)


def test_a_scalar_above_r_counts_modulo_r(backend: Any, curve: Curve):
    """Files are checked before; the sum is right nevertheless."""
    for scalar in (curve.r, curve.r + 5, 2**256 - 1):
        check(backend, curve, 1, [1, 9], [scalar, 3])


def test_bls12_381_agrees_with_arkworks(backend: Any):
    library = pytest.importorskip("py_arkworks_bls12381")
    curve, n = BLS12_381, 500
    scalars = some(curve, n, 7)
    values = [library.Scalar.from_le_bytes(packed([s])) for s in scalars]
    factors = scalars_of(backend, curve, some(curve, n, 8))
    for group, kind in ((1, library.G1Point), (2, library.G2Point)):
        points = backend.fixed_base(curve, group, curve.group(group).generator, factors, n)
        theirs = [
            kind.from_xy_bytes_be(b"".join(c.to_bytes(48, "big") for axis in point for c in axis))
            for point in plain_points(curve, group, points)
        ]
        expected = kind.multiexp_unchecked(theirs, values).to_xy_bytes_be()
        x, y = backend.msm(curve, group, memoryview(points), scalars_of(backend, curve, scalars), 0, n, STEPS)
        coordinates = (x, y) if group == 1 else (*x, *y)
        assert b"".join(c.to_bytes(48, "big") for c in coordinates) == bytes(expected)


@pytest.mark.parametrize("group", [1, 2])
def test_bn254_agrees_with_textbook_additions(backend: Any, group: int):
    curve, n = BN254, 24
    scalars = [0, 1, curve.r - 1, *some(curve, n - 3, 9)]
    factors = scalars_of(backend, curve, [0, 1, 1, curve.r - 1, *some(curve, n - 4, 10)])
    points = backend.fixed_base(curve, group, curve.group(group).generator, factors, n)
    expected = Plain(curve.q, group).sum_of_multiples(plain_points(curve, group, points), scalars)
    x, y = backend.msm(curve, group, memoryview(points), scalars_of(backend, curve, scalars), 0, n, STEPS)
    assert ((x,), (y,)) == expected if group == 1 else (x, y) == expected


def test_points_may_begin_at_any_byte(backend: Any, place: tuple[Curve, int]):
    """A section of a file does; and nothing behind the last point is read that is not there."""
    curve, group = place
    ops = curve.group(group)
    size = curve.point_bytes(group)
    memory = native_library.Memory(3 * size + 4096)
    view = memory.view()
    start = len(view) - len(view) % 4096 - 3 * size if len(view) % 4096 else len(view) - 3 * size
    for shift in (0, 1, 4):
        at = start - shift
        view[at : at + 3 * size] = b"".join(curve.encode(group, ops.mul(ops.generator, k)) for k in (1, 2, 3))
        got = backend.msm(
            curve, group, view[at : at + 3 * size], scalars_of(backend, curve, [5, 6, 7]), 0, 3, STEPS
        )
        assert got == ops.mul(ops.generator, 5 + 12 + 21)


def test_shapes_are_checked(curve: Curve):
    backend = native.NativeBackend()
    one = memoryview(bytearray(curve.encode(1, curve.g1.generator)))
    scalars = scalars_of(backend, curve, [1, 2])
    with pytest.raises(ValueError, match="bytes where"):
        backend.msm(curve, 1, one, scalars, 0, 2, STEPS)
    with pytest.raises(ValueError, match="scalars 1 to 3 of 2"):
        backend.msm(curve, 1, memoryview(bytearray(2 * len(one))), scalars, 1, 2, STEPS)
