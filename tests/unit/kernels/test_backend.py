"""Every back end against plain integers: transforms, sparse products, and sums of points.

The same cases run on the pure and, where it is built, on the native back end.
"""

import random
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import PlainKey, case, le, mapped

from cuzk_kernels.backend import choose, protocol, pure
from cuzk_kernels.backend.protocol import CoefError, MsmSteps
from cuzk_kernels.curves import BLS12_381, BN254, CURVES, Curve
from cuzk_kernels.errors import InputError

R2 = 1 << 512


class Step:
    """A stand-in for a span that notes when it was entered."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def __enter__(self):
        self.log.append(self.name)

    def __exit__(self, *_: object):
        return None


STEPS = MsmSteps(*(nullcontext() for _ in range(4)))


def vector(backend: Any, curve: Curve, values: list[int]) -> Any:
    """A Vec of given values, through the one door the protocol has: coefficients times a witness of (1)."""
    records = b"".join(
        le(0, 4) + le(row, 4) + le(0, 4) + le(value * R2 % curve.r) for row, value in enumerate(values)
    )
    a, _ = backend.eval_ab(curve, mapped(records), len(values), mapped(le(1)), 1, len(values))
    return a


def ints(handle: Any) -> list[int]:
    data = handle.tobytes()
    return [int.from_bytes(data[at : at + 32], "little") for at in range(0, len(data), 32)]


def values_for(curve: Curve, n: int) -> list[int]:
    rng = random.Random(n)
    return [0, 1, curve.r - 1, *(rng.randrange(curve.r) for _ in range(n))][:n]


@pytest.mark.parametrize("n", [1, 2, 8, 64])
def test_transforms_match_the_defining_sums(backend: Any, curve: Curve, n: int):
    values = values_for(curve, n)
    r, w = curve.r, curve.root_of_unity(n)
    v = vector(backend, curve, values)
    assert len(v) == n and ints(v) == values
    backend.ntt(v)
    assert ints(v) == [sum(x * pow(w, i * k, r) for i, x in enumerate(values)) % r for k in range(n)]
    backend.intt(v)
    assert ints(v) == values


def test_coset_multiplies_by_powers_of_the_double_root(backend: Any, curve: Curve):
    values = values_for(curve, 16)
    shift = curve.root_of_unity(32)
    v = vector(backend, curve, values)
    backend.coset(v)
    assert ints(v) == [x * pow(shift, i, curve.r) % curve.r for i, x in enumerate(values)]


def test_product_and_pointwise(backend: Any, curve: Curve):
    r = curve.r
    xs, ys, zs = (values_for(curve, 8 + k)[-8:] for k in range(3))
    a, b, c = (vector(backend, curve, v) for v in (xs, ys, zs))
    assert ints(backend.product(a, b)) == [x * y % r for x, y in zip(xs, ys, strict=True)]
    scalars = backend.pointwise(a, b, c)
    assert ints(scalars) == [(x * y - z) % r for x, y, z in zip(xs, ys, zs, strict=True)]


@pytest.mark.parametrize("name", ["multiplier-bn254", "chain5-bls12381", "nopublic5-bn254", "linear3-bn254"])
def test_coefficients_are_stored_times_r_squared(backend: Any, name: str):
    """a and b of real keys, recomputed from the files with plain integers; a factor R too many shows here."""
    plain = PlainKey(case(name))
    curve = BN254 if name.endswith("bn254") else BLS12_381
    a, b = backend.eval_ab(
        curve,
        mapped(plain.coef_section)[4:],
        len(plain.coefs),
        mapped(plain.witness_section),
        plain.n_vars,
        plain.domain,
    )
    assert (ints(a), ints(b)) == plain.rows()


def test_coefficients_in_any_order_with_repeats(backend: Any, curve: Curve):
    records = [(1, 3, 1, 5), (0, 0, 2, 7), (0, 3, 0, 1), (0, 0, 2, 2), (1, 0, 0, curve.r - 1)]
    data = b"".join(le(m, 4) + le(row, 4) + le(wire, 4) + le(v * R2 % curve.r) for m, row, wire, v in records)
    witness = b"".join(map(le, (1, 10, curve.r - 1)))
    a, b = backend.eval_ab(curve, mapped(data), len(records), mapped(witness), 3, 4)
    assert ints(a) == [curve.r - 9, 0, 0, 1]
    assert ints(b) == [curve.r - 1, 0, 0, 50]


@pytest.mark.parametrize(
    ("record", "what"),
    [((2, 0, 0), "matrix"), ((0, 4, 0), "row"), ((1, 0, 3), "wire"), ((1, 2**32 - 1, 0), "row")],
)
def test_a_bad_coefficient_is_named_before_it_is_used(backend: Any, curve: Curve, record: tuple, what: str):
    good = le(0, 4) * 3 + le(R2 % curve.r)
    bad = b"".join(le(v, 4) for v in record) + le(1)
    with pytest.raises(CoefError) as caught:
        backend.eval_ab(curve, mapped(good + bad + good), 3, mapped(le(1) * 3), 3, 4)
    expected = record[{"matrix": 0, "row": 1, "wire": 2}[what]]
    assert (caught.value.index, caught.value.what, caught.value.value) == (1, what, expected)


def test_witness_check_finds_the_first_value_not_below_r(backend: Any, curve: Curve):
    sound = [1, 0, curve.r - 1, 5]
    assert backend.witness_check(curve, mapped(b"".join(map(le, sound))), 4) is None
    for bad in (curve.r, 2**256 - 1):
        data = b"".join(map(le, [*sound, bad, bad]))
        assert backend.witness_check(curve, mapped(data), 6) == 4


@pytest.mark.parametrize("group", [1, 2])
def test_point_check_names_the_first_bad_point(backend: Any, curve: Curve, group: int):
    ops = curve.group(group)
    sound = curve.encode(group, ops.generator)
    off = bytearray(sound)
    off[0] ^= 1
    too_large = b"\xff" * curve.n8q + sound[curve.n8q :]
    points = sound + curve.encode(group, None) + sound
    assert backend.point_check(curve, group, mapped(points), 3, True) is None
    assert backend.point_check(curve, group, mapped(points + off + too_large), 5, False) == (
        3,
        protocol.OFF_CURVE,
    )
    assert backend.point_check(curve, group, mapped(points + too_large + off), 5, False) == (
        3,
        protocol.NOT_REDUCED,
    )


def off_subgroup_point(curve: Curve, group: int) -> Any:
    """A point of the curve that is not of order r: the first small x with a square on the right-hand side."""
    if group == 1:
        for x in range(100):
            y = pow(x**3 + curve.g1.b, (curve.q + 1) // 4, curve.q)
            if curve.g1.on_curve((x, y)) and not curve.g1.in_subgroup((x, y)):
                return x, y
    f, q = curve.g2.field, curve.q
    half = pow(2, -1, q)
    for x0 in range(100):
        a0, a1 = f.add(f.mul(f.sqr((x0, 0)), (x0, 0)), curve.g2.b)
        norm = pow(a0 * a0 + a1 * a1, (q + 1) // 4, q)  # complex method: the square root of the norm
        for sign in (1, -1):
            y0 = pow((a0 + sign * norm) * half, (q + 1) // 4, q)
            y = y0, a1 * half * pow(y0, -1, q) % q if y0 else 0
            if curve.g2.on_curve(((x0, 0), y)) and not curve.g2.in_subgroup(((x0, 0), y)):
                return (x0, 0), y
    raise AssertionError("no such point")


@pytest.mark.parametrize(("curve_of", "group"), [(BN254, 2), (BLS12_381, 1), (BLS12_381, 2)])
def test_point_check_knows_the_subgroup(backend: Any, curve_of: Curve, group: int):
    points = curve_of.encode(group, curve_of.group(group).generator)
    points += curve_of.encode(group, off_subgroup_point(curve_of, group))
    assert backend.point_check(curve_of, group, mapped(points), 2, False) is None
    assert backend.point_check(curve_of, group, mapped(points), 2, True) == (1, protocol.WRONG_SUBGROUP)


def sum_of(backend: Any, curve: Curve, group: int, multiples: list[int], scalars: list[int]) -> Any:
    """The back end's MSM over multiples of the generator; 0 stands for infinity."""
    ops = curve.group(group)
    packed = mapped(b"".join(curve.encode(group, ops.mul(ops.generator, m)) for m in multiples))
    handle = backend.scalars(curve, mapped(b"".join(map(le, scalars))), len(scalars))
    return backend.msm(curve, group, packed, handle, 0, len(multiples), STEPS)


def expect(curve: Curve, group: int, multiples: list[int], scalars: list[int]) -> Any:
    """(sum m_i s_i) G: the discrete logarithms are known, so no sum of points is needed."""
    ops = curve.group(group)
    return ops.mul(ops.generator, sum(m * s for m, s in zip(multiples, scalars, strict=True)))


def edge_scalars(curve: Curve) -> list[int]:
    r = curve.r
    return [0, 1, 2, r - 1, r - 2, r >> 1, (r >> 1) + 1, (r >> 1) - 1, *(1 << k for k in range(0, 254, 23))]


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("n", [0, 1, 2, 31])
def test_msm_of_odd_sizes(backend: Any, curve: Curve, group: int, n: int):
    rng = random.Random(n)
    multiples, scalars = ([rng.randrange(curve.r) for _ in range(n)] for _ in range(2))
    assert sum_of(backend, curve, group, multiples, scalars) == expect(curve, group, multiples, scalars)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(
    "multiples",
    [
        pytest.param(lambda n: [1] * n, id="equal points"),
        pytest.param(lambda n: [1, -1] * (n // 2) + [1] * (n % 2), id="a point and its negative"),
        pytest.param(lambda n: [i % 4 for i in range(n)], id="small multiples and infinity"),
        pytest.param(lambda n: [0] * n, id="only infinity"),
    ],
)
def test_msm_of_points_that_meet_in_a_bucket(backend: Any, curve: Curve, group: int, multiples: Any):
    edges = edge_scalars(curve)
    for scalars in (edges, [5] * len(edges), [curve.r - 1] * len(edges)):
        points = multiples(len(scalars))
        assert sum_of(backend, curve, group, points, scalars) == expect(curve, group, points, scalars)


def test_msm_offset_skips_the_public_scalars(backend: Any, curve: Curve):
    ops = curve.g1
    packed = mapped(b"".join(curve.encode(1, ops.mul(ops.generator, m)) for m in (3, 5)))
    handle = backend.scalars(curve, mapped(b"".join(map(le, (100, 200, 7, 11)))), 4)
    assert backend.msm(curve, 1, packed, handle, 2, 2, STEPS) == ops.mul(ops.generator, 3 * 7 + 5 * 11)


def test_msm_enters_its_steps_in_order(backend: Any, curve: Curve):
    log: list[str] = []
    steps = MsmSteps(*(Step(log, name) for name in MsmSteps._fields))
    packed = mapped(curve.encode(1, curve.g1.generator) * 40)
    handle = backend.scalars(curve, mapped(le(curve.r - 3) * 40), 40)
    backend.msm(curve, 1, packed, handle, 0, 40, steps)
    assert log == ["digits", "accumulate", "reduce", "horner"]


@pytest.mark.parametrize("group", [1, 2])
def test_fixed_base_multiplies_one_point(backend: Any, curve: Curve, group: int):
    scalars = edge_scalars(curve)
    ops = curve.group(group)
    base = ops.mul(ops.generator, 77)
    handle = backend.scalars(curve, mapped(b"".join(map(le, scalars))), len(scalars))
    packed = backend.fixed_base(curve, group, base, handle, len(scalars))
    assert bytes(packed) == b"".join(curve.encode(group, ops.mul(ops.generator, 77 * s)) for s in scalars)


@settings(max_examples=40, deadline=None)
@given(scalar=st.integers(0, 2**255), bits=st.integers(2, 16))
def test_signed_digits_sum_to_the_scalar_within_their_window(scalar: int, bits: int):
    """Without the r - s trick the top digit of a 255-bit scalar overflows 17-bit windows, and others."""
    for curve in CURVES:
        s = scalar % curve.r
        windows = curve.r.bit_length() // bits + 1
        digits = pure.signed_digits(s, curve.r, bits, windows)
        assert len(digits) == windows
        assert all(-(1 << (bits - 1)) <= d <= 1 << (bits - 1) for d in digits)
        assert sum(d << (bits * i) for i, d in enumerate(digits)) % curve.r == s


def test_choose_refuses_unknown_names():
    with pytest.raises(InputError, match="choose one of auto, cuda, native, python"):
        choose("gpu")


def test_auto_says_why_it_is_slow(monkeypatch: pytest.MonkeyPatch):
    native = pytest.importorskip("cuzk_kernels.backend.native")
    monkeypatch.setattr(native, "available", lambda: "no compiler was there")
    chosen, why = choose("auto")
    assert chosen.name == "python"
    assert why is not None and "no compiler was there" in why
