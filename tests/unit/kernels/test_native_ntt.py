"""Transforms of the native library against plain integers, at every level of the processor."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_cases import NEEDS_LIBRARY, at_level, native, native_library, packed, unpacked

from cuzk_kernels.curves import CURVES, Curve

pytestmark = NEEDS_LIBRARY


@pytest.fixture(params=["portable", "adx", "ifma"])
def backend(request: pytest.FixtureRequest):
    yield at_level(request.param)
    native_library.cpu_level()


def vector(curve: Curve, values: list[int]) -> Any:
    return native.NativeVec.of(curve, packed(values))


def ints(vec: Any) -> list[int]:
    return unpacked(vec.tobytes())


def horner(values: list[int], x: int, p: int) -> int:
    acc = 0
    for value in reversed(values):
        acc = (acc * x + value) % p
    return acc


@pytest.mark.parametrize("log", range(13))
def test_forward_evaluates_and_inverse_returns(backend: Any, curve: Curve, log: int):
    n, r = 1 << log, curve.r
    rng = random.Random(log)
    values = [0, r - 1, 1, *(rng.randrange(r) for _ in range(n))][:n]
    w = curve.root_of_unity(n)
    v = vector(curve, values)
    backend.ntt(v)
    got = ints(v)
    for k in range(n) if n <= 32 else (0, 1, n // 2 - 1, n // 2, n - 1, rng.randrange(n)):
        assert got[k] == horner(values, pow(w, k, r), r)
    backend.intt(v)
    assert ints(v) == values


@pytest.mark.parametrize("log", [3, 6, 7, 10])
def test_coset_leads_to_the_odd_points_of_the_doubled_domain(backend: Any, curve: Curve, log: int):
    n, r = 1 << log, curve.r
    values = [pow(3, i, r) for i in range(n)]
    w, shift = curve.root_of_unity(n), curve.root_of_unity(2 * n)
    v = vector(curve, values)
    backend.coset(v)
    assert ints(v) == [x * pow(shift, i, r) % r for i, x in enumerate(values)]
    backend.ntt(v)
    got = ints(v)
    for k in (0, 1, n // 2, n - 1):
        assert got[k] == horner(values, shift * pow(w, k, r) % r, r)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.sampled_from([0, 1, -1, -2]), st.integers(0, 2**255)), min_size=64, max_size=64))
def test_extreme_values_keep_within_bounds(values: list[int]):
    """Lazy reduction is tight in the scalar field of BLS12-381, of 255 bits."""
    backend = native.NativeBackend()
    for curve in CURVES:
        plain = [value % curve.r for value in values]
        w = curve.root_of_unity(64)
        v = vector(curve, plain)
        backend.ntt(v)
        assert ints(v) == [horner(plain, pow(w, k, curve.r), curve.r) for k in range(64)]
        backend.intt(v)
        assert ints(v) == plain


def test_all_values_at_the_top_keep_within_bounds(backend: Any, curve: Curve):
    """The sum of n times r - 1: the longest growth there is between two reductions."""
    n = 1 << 14
    v = vector(curve, [curve.r - 1] * n)
    backend.ntt(v)
    assert ints(v) == [(-n) % curve.r] + [0] * (n - 1)
    backend.intt(v)
    assert ints(v) == [curve.r - 1] * n


def test_quotient_at_a_length_where_a_wrong_order_shows(backend: Any, curve: Curve):
    """intt, coset, ntt as the prover chains them, against interpolation of the same three polynomials."""
    n, r = 64, curve.r
    w, shift = curve.root_of_unity(n), curve.root_of_unity(2 * n)
    coefficients = [[pow(base, i + 1, r) for i in range(n)] for base in (2, 3, 5)]
    vectors = [vector(curve, [horner(c, pow(w, k, r), r) for k in range(n)]) for c in coefficients]
    for v in vectors:
        backend.intt(v)
        backend.coset(v)
        backend.ntt(v)
    got = unpacked(backend.pointwise(*vectors).tobytes())
    for k in range(n):
        a, b, c = (horner(p, shift * pow(w, k, r) % r, r) for p in coefficients)
        assert got[k] == (a * b - c) % r


def test_lengths_are_checked(curve: Curve):
    with pytest.raises(ValueError, match="not a power of two"):
        native.NativeVec(0, 3)
    backend = native.NativeBackend()
    with pytest.raises(ValueError, match="different lengths"):
        backend.product(vector(curve, [1, 2]), vector(curve, [1]))
