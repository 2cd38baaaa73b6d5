"""Single-point arithmetic and constants against py_ecc, py_arkworks_bls12381 and the definitions."""

import py_arkworks_bls12381 as arkworks
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_ecc import bls12_381 as ecc_bls
from py_ecc import bn128 as ecc_bn

from cuzk_kernels import curves, points
from cuzk_kernels.curves import BLS12_381, BN254, Curve

LIBRARIES = {"bn254": ecc_bn, "bls12381": ecc_bls}


def from_ecc(point):
    """py_ecc's affine point as plain integers."""
    if point is None:
        return None
    x, y = point
    if hasattr(x, "coeffs"):
        return tuple(int(v) for v in x.coeffs), tuple(int(v) for v in y.coeffs)
    return int(x), int(y)


def to_ecc(library, group, point):
    if point is None:
        return None
    field = library.FQ if group == 1 else library.FQ2
    return field(point[0]), field(point[1])


def test_constants_are_the_libraries(curve: Curve):
    library = LIBRARIES[curve.name]
    assert curve.q == library.field_modulus
    assert curve.r == library.curve_order
    assert curve.g1.generator == from_ecc(library.G1)
    assert curve.g2.generator == from_ecc(library.G2)
    assert curve.g1.b == int(library.b)
    assert curve.g2.b == tuple(int(v) for v in library.b2.coeffs)


@pytest.mark.parametrize("group", [1, 2])
@settings(max_examples=6, deadline=None)
@given(i=st.integers(0, 2**256), j=st.integers(0, 60))
def test_add_double_mul_neg_match_py_ecc(group: int, i: int, j: int):
    for curve in curves.CURVES:
        library = LIBRARIES[curve.name]
        ours = curve.group(group)
        base = library.G1 if group == 1 else library.G2
        p, q = library.multiply(base, i % curve.r), library.multiply(base, j)
        assert ours.mul(ours.generator, i) == from_ecc(p)
        assert ours.add(from_ecc(p), from_ecc(q)) == from_ecc(library.add(p, q))
        assert ours.double(from_ecc(q)) == from_ecc(library.double(q) if q else None)
        assert ours.neg(from_ecc(q)) == from_ecc(library.neg(q) if q else None)


@pytest.mark.parametrize("group", [1, 2])
def test_equal_opposite_and_infinite_points(curve: Curve, group: int):
    ops = curve.group(group)
    g = ops.generator
    assert ops.add(g, g) == ops.double(g) == ops.mul(g, 2)
    assert ops.add(g, ops.neg(g)) is None
    assert ops.add(None, g) == ops.add(g, None) == g
    assert ops.double(None) is None and ops.neg(None) is None
    assert ops.mul(g, 0) is None and ops.mul(None, 5) is None
    assert ops.mul(g, curve.r - 1) == ops.neg(g)
    assert ops.sum(g, g, ops.neg(ops.double(g))) is None


@pytest.mark.parametrize("group", [1, 2])
def test_xyzz_add_meets_every_special_case(curve: Curve, group: int):
    ops = curve.group(group)
    two, three = (ops.xyzz_double(ops.from_affine(ops.generator)), ops.from_affine(ops.mul(ops.generator, 3)))
    assert ops.to_affine(ops.xyzz_add(two, three)) == ops.mul(ops.generator, 5)
    assert ops.to_affine(ops.xyzz_add(two, two)) == ops.mul(ops.generator, 4)
    minus_two = ops.from_affine(ops.mul(ops.generator, -2))
    assert ops.xyzz_add(two, minus_two) is None
    assert ops.xyzz_add(None, two) == two and ops.xyzz_add(two, None) == two


def test_bls12_381_subgroup_check_agrees_with_arkworks():
    """Points of the curve outside the subgroup: x = 0, 1, ... where x^3 + 4 is a square."""
    seen = set()
    for x in range(12):
        y = pow(x**3 + 4, (BLS12_381.q + 1) // 4, BLS12_381.q)
        if (y * y - x**3 - 4) % BLS12_381.q:
            continue
        xy = x.to_bytes(48, "big") + y.to_bytes(48, "big")
        expected = arkworks.G1Point.from_xy_bytes_unchecked_be(xy).is_in_subgroup()
        assert BLS12_381.g1.on_curve((x, y))
        assert BLS12_381.g1.in_subgroup((x, y)) is expected
        seen.add(expected)
    assert False in seen
    assert BLS12_381.g1.in_subgroup(BLS12_381.g1.generator)


def test_bn254_g2_has_points_outside_the_subgroup():
    """x = 1: a square root of 1 + b2 found by py_ecc-independent arithmetic, order not r."""
    y = (
        18278151005453108793778860132295291098363647455926340152056652516292830556603,
        5912654199736721486680175016176231956195085055698687135131307249486702594212,
    )
    point = ((1, 0), y)
    assert BN254.g2.on_curve(point)
    assert not BN254.g2.in_subgroup(point)
    assert BN254.g2.in_subgroup(BN254.g2.generator)


def test_reduced_and_on_curve(curve: Curve):
    x, y = curve.g1.generator
    assert (
        curve.g1.reduced((x, y)) and not curve.g1.reduced((x + curve.q, y)) and not curve.g1.reduced((x, -y))
    )
    assert not curve.g1.on_curve((x, y + 1))
    (x0, x1), (y0, y1) = curve.g2.generator
    assert not curve.g2.reduced(((x0, x1 + curve.q), (y0, y1)))
    assert not curve.g2.on_curve(((x1, x0), (y1, y0)))


def test_root_of_unity_is_from_5_and_not_from_7():
    """snarkjs takes 5 on both curves; the 2^32-th root is the figure of its own field library."""
    assert BLS12_381.two_adicity == 32 and BN254.two_adicity == 28
    snarkjs_root = 937917089079007706106976984802249742464848817460758522850752807661925904159
    bellperson_root = 10238227357739495823651030575849232062558860180284477541189508159991286009131
    assert BLS12_381.root_of_unity(1 << 32) == snarkjs_root != bellperson_root
    odd = (BLS12_381.r - 1) >> 32
    assert bellperson_root == pow(7, odd, BLS12_381.r)
    assert BN254.root_of_unity(1 << 28) == pow(5, (BN254.r - 1) >> 28, BN254.r)


@pytest.mark.parametrize("log", [0, 1, 2, 10, 27])
def test_roots_are_primitive_and_nested(curve: Curve, log: int):
    root = curve.root_of_unity(1 << log)
    assert pow(root, 1 << log, curve.r) == 1
    assert log == 0 or pow(root, 1 << (log - 1), curve.r) == curve.r - 1
    assert pow(curve.root_of_unity(2 << log), 2, curve.r) == root


@pytest.mark.parametrize("n", [0, 3, 6, 1 << 33])
def test_no_root_of_an_impossible_order(curve: Curve, n: int):
    with pytest.raises(ValueError, match="no root of unity"):
        curve.root_of_unity(n)


@pytest.mark.parametrize("group", [1, 2])
def test_file_points_are_little_endian_montgomery(curve: Curve, group: int):
    """Encoded by hand: each coordinate times 2^(8 * n8q), little-endian, c0 before c1."""
    point = curve.group(group).mul(curve.group(group).generator, 12345)
    flat = point if group == 1 else (*point[0], *point[1])
    by_hand = b"".join((v * 2 ** (8 * curve.n8q) % curve.q).to_bytes(curve.n8q, "little") for v in flat)
    assert curve.encode(group, point) == by_hand
    packed = memoryview(bytes(len(by_hand)) + by_hand)
    assert curve.decode(group, packed, 0) is None
    assert curve.decode(group, packed, 1) == point
    assert curve.encode(group, None) == bytes(len(by_hand))


def test_batch_inverse_inverts_each():
    r = BN254.r
    values = [1, 2, r - 1, 12345678901234567890]
    inverses = points.batch_inverse(values, lambda a, b: a * b % r, lambda a: pow(a, -1, r), 1)
    assert [v * i % r for v, i in zip(values, inverses, strict=True)] == [1] * 4
    assert points.batch_inverse([], lambda a, b: a * b % r, lambda a: pow(a, -1, r), 1) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bn128", BN254),
        ("BN254", BN254),
        ("bls12381", BLS12_381),
        ("BLS12-381", BLS12_381),
        ("bls12377", None),
    ],
)
def test_curve_names(name: str, expected: Curve | None):
    assert curves.by_snarkjs_name(name) is expected
