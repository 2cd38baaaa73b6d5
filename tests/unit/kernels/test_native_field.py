"""The four prime fields of the native library against Python's integers, at every level of the processor."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from native_cases import NEEDS_LIBRARY, at_level, native_library, packed, unpacked

from cuzk_kernels.curves import BLS12_381, BN254

pytestmark = NEEDS_LIBRARY

PRIMES = (BN254.q, BN254.r, BLS12_381.q, BLS12_381.r)  # in the library's order
MUL, ADD, SUB, INVERT, WIDE_MUL = range(5)
EDGE_LIMBS = [0, 1, 2, 2**32 - 1, 2**32, 2**51, 2**52 - 1, 2**52, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]
LIMB = st.one_of(st.sampled_from(EDGE_LIMBS), st.integers(0, 2**64 - 1))


@pytest.fixture(params=["portable", "adx", "ifma"])
def level(request: pytest.FixtureRequest):
    at_level(request.param)
    yield request.param
    native_library.cpu_level()


def width(p: int) -> int:
    return 48 if p.bit_length() > 256 else 32


def elements(p: int) -> st.SearchStrategy[int]:
    """Values below p, with limbs of 64 and 52 bits at their ends more often than chance has them."""
    limbs = st.lists(LIMB, min_size=width(p) // 8, max_size=width(p) // 8)
    near = st.integers(0, 3).flatmap(lambda k: st.sampled_from([k, p - 1 - k, p // 2 + k, 2**k]))
    return st.one_of(near, limbs.map(lambda v: sum(x << (64 * i) for i, x in enumerate(v)) % p))


def operate(field: int, operation: int, a: list[int], b: list[int]) -> list[int]:
    size = width(PRIMES[field])
    x, y = (native_library.Borrowed(packed(v, size), size * len(v)) for v in (a, b))
    out = native_library.Memory(size * len(a))
    native_library.library().field_operation(field, operation, x.address, y.address, out.address, len(a))
    return unpacked(bytes(out.view()), size)


@pytest.mark.parametrize("field", range(4))
def test_field_operations_match_integers(level: str, field: int):
    p = PRIMES[field]
    r_inverse = pow(1 << (8 * width(p)), -1, p)

    @settings(max_examples=60, deadline=None)
    @given(a=st.lists(elements(p), min_size=8, max_size=8), b=st.lists(elements(p), min_size=8, max_size=8))
    @example(a=[p - 1] * 8, b=[p - 1] * 8)
    @example(a=[0, 1, p - 1, p // 2, p // 2 + 1, 2, 3, p - 2], b=[p - 1] * 8)
    def check(a: list[int], b: list[int]) -> None:
        pairs = list(zip(a, b, strict=True))
        assert operate(field, MUL, a, b) == [x * y * r_inverse % p for x, y in pairs]
        assert operate(field, ADD, a, b) == [(x + y) % p for x, y in pairs]
        assert operate(field, SUB, a, b) == [(x - y) % p for x, y in pairs]
        if level == "ifma":
            r52_inverse = pow(1 << (52 * (8 if width(p) == 48 else 5)), -1, p)
            assert operate(field, WIDE_MUL, a, b) == [x * y * r52_inverse % p for x, y in pairs]

    check()


@pytest.mark.parametrize("field", range(4))
def test_the_second_factor_need_not_be_reduced(level: str, field: int):
    """A coefficient of a .zkey may be any 256-bit number; the product must come out below p all the same."""
    p = PRIMES[field]
    top = (1 << (8 * width(p))) - 1
    r_inverse = pow(top + 1, -1, p)
    a, b = [p - 1, 1, p // 3, p - 1], [top, top, top - 5, p]
    assert operate(field, MUL, a, b) == [x * y * r_inverse % p for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("field", range(4))
def test_inverse_in_montgomery_form(level: str, field: int):
    p = PRIMES[field]
    r = (1 << (8 * width(p))) % p
    values = [1, 2, p - 1, p // 2, 0xDEADBEEF]
    got = operate(field, INVERT, [v * r % p for v in values], [0] * len(values))
    assert got == [pow(v, -1, p) * r % p for v in values]
    assert operate(field, INVERT, [0], [0]) == [0]
