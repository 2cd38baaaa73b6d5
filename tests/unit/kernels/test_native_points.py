"""Checks of points by the native library, at every level of the processor."""

import random
from typing import Any

import pytest
from native_cases import NEEDS_LIBRARY, at_level, native_library, scalars_of

from cuzk_kernels.backend.protocol import NOT_REDUCED, OFF_CURVE, WRONG_SUBGROUP
from cuzk_kernels.curves import BLS12_381, BN254, CURVES, Curve

pytestmark = NEEDS_LIBRARY
N = 700


@pytest.fixture(params=["portable", "adx", "ifma"])
def backend(request: pytest.FixtureRequest):
    yield at_level(request.param)
    native_library.cpu_level()


@pytest.fixture(params=[(c, g) for c in CURVES for g in (1, 2)], ids=lambda p: f"{p[0].name}-G{p[1]}")
def place(request: pytest.FixtureRequest) -> tuple[Curve, int]:
    return request.param


def sound_points(backend: Any, curve: Curve, group: int) -> bytearray:
    """Random multiples of the generator, every fifth infinity."""
    rng = random.Random(group)
    factors = [0 if i % 5 == 0 else rng.randrange(curve.r) for i in range(N)]
    ops = curve.group(group)
    return bytearray(backend.fixed_base(curve, group, ops.generator, scalars_of(backend, curve, factors), N))


@pytest.mark.parametrize("at", [1, 8, 333, N - 1])
def test_one_bad_coordinate_among_many_points_is_found(backend: Any, place: tuple[Curve, int], at: int):
    curve, group = place
    points = sound_points(backend, curve, group)
    size, width = curve.point_bytes(group), curve.n8q
    assert backend.point_check(curve, group, memoryview(points), N, False) is None
    for coordinate in range(2 * group):
        place_of = at * size + coordinate * width
        for raw, problem in (
            (int.from_bytes(points[place_of : place_of + width], "little") ^ 1, OFF_CURVE),
            (int.from_bytes(points[place_of : place_of + width], "little") + curve.q, NOT_REDUCED),
            (curve.q, NOT_REDUCED),
            ((1 << (8 * width)) - 1, NOT_REDUCED),
        ):
            bad = bytearray(points)
            bad[place_of : place_of + width] = raw.to_bytes(width, "little")
            assert backend.point_check(curve, group, memoryview(bad), N, False) == (at, problem)


def test_the_lowest_of_several_bad_points_is_named(backend: Any, place: tuple[Curve, int]):
    curve, group = place
    points = sound_points(backend, curve, group)
    size = curve.point_bytes(group)
    for at in (77, 78, 401, 699):
        points[at * size] ^= 1
    assert backend.point_check(curve, group, memoryview(points), N, False) == (77, OFF_CURVE)
    assert backend.point_check(curve, group, memoryview(points), 77, False) is None


def square_root(curve: Curve, group: int, a: Any) -> Any:
    """In Fp by a power, as q = 3 mod 4; in Fp2 by the complex method. The caller checks the result."""
    q = curve.q
    if group == 1:
        return pow(a, (q + 1) // 4, q)
    norm = pow(a[0] * a[0] + a[1] * a[1], (q + 1) // 4, q)
    for sign in (1, -1):
        c0 = pow((a[0] + sign * norm) * pow(2, -1, q), (q + 1) // 4, q)
        if c0 and c0 * c0 % q == (a[0] + sign * norm) * pow(2, -1, q) % q:
            return c0, a[1] * pow(2 * c0, -1, q) % q
    return 0, 0


@pytest.mark.parametrize(("curve_of", "group"), [(BN254, 2), (BLS12_381, 1), (BLS12_381, 2)])
def test_membership_by_endomorphism_is_membership_by_definition(backend: Any, curve_of: Curve, group: int):
    """Points of the curve from consecutive x, nearly all outside, and multiples of the generator."""
    ops = curve_of.group(group)
    f = ops.field
    seen = 0
    for x in range(1, 60):
        point_x = x if group == 1 else (x, 1)
        y = square_root(curve_of, group, f.add(f.mul(f.sqr(point_x), point_x), ops.b))
        point = (point_x, y)
        if not ops.on_curve(point):
            continue
        seen += 1
        inside = ops.in_subgroup(point)
        found = backend.point_check(curve_of, group, memoryview(curve_of.encode(group, point)), 1, True)
        assert found == (None if inside else (0, WRONG_SUBGROUP))
        if seen == 4:
            break
    assert seen == 4
    points = sound_points(backend, curve_of, group)[: 40 * curve_of.point_bytes(group)]
    assert backend.point_check(curve_of, group, memoryview(points), 40, True) is None


def test_small_order_points_are_outside(backend: Any):
    """(0, 2) has order 3 on BLS12-381's G1: an endomorphism test must not be fooled by a fixed point."""
    curve = BLS12_381
    point = memoryview(curve.encode(1, (0, 2)))
    assert backend.point_check(curve, 1, point, 1, False) is None
    assert backend.point_check(curve, 1, point, 1, True) == (0, WRONG_SUBGROUP)


def test_cofactors_allow_the_shortcut():
    """The proof in groups.cuh needs the cofactors of BLS12-381's groups to have no common factor."""
    from math import gcd

    x = -0xD201000000010000
    assert BLS12_381.r == x**4 - x**2 + 1
    g1 = (x - 1) ** 2 // 3
    g2 = (x**8 - 4 * x**7 + 5 * x**6 - 4 * x**4 + 6 * x**3 - 4 * x**2 - 4 * x + 13) // 9
    assert g1 * BLS12_381.r == BLS12_381.q + 1 - (x + 1)
    assert gcd(g1, g2) == 1
    u = 4965661367192848881
    assert BN254.q + 1 - BN254.r == 6 * u * u + 1
