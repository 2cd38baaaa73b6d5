"""The verifier: every pairing library says the same, and nothing unsound reaches one."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernel_cases import BROKEN, OWN_CASES
from test_backend import off_subgroup_point

from cuzk_kernels import pairing, verifier, verify
from cuzk_kernels.curves import BLS12_381, BN254, Curve
from cuzk_kernels.errors import InputError
from cuzk_kernels.formats import proof, public, vkey

CASES = {"bn254": OWN_CASES / "multiplier-bn254", "bls12381": OWN_CASES / "multiplier-bls12381"}


def opened(curve: Curve) -> tuple[Any, Any, Any]:
    folder = CASES[curve.name]
    return (
        vkey.open(folder / "verification_key.json"), public.open(folder / "public.json"),
        proof.open(folder / "proof.json"),
    )  # fmt: skip


def test_both_libraries_of_a_curve_agree(curve: Curve):
    key, values, sound = opened(curve)
    wrong = proof.Proof(curve, sound.a, sound.b, sound.a)
    infinite = proof.Proof(curve, None, sound.b, sound.c)
    for library in (pairing.choose(curve), pairing.PyEcc(curve)):
        assert verifier.holds(key, values, sound, library)
        assert not verifier.holds(key, values, wrong, library)
        assert not verifier.holds(key, values, infinite, library)
        assert not verifier.holds(key, [values[0] + 1, values[1]], sound, library)
        assert not verifier.holds(key, [0, 0], sound, library)


def test_combine_is_a_sum_of_multiples(curve: Curve):
    g = curve.g1
    points, scalars = [g.generator, g.mul(g.generator, 5), None], [1, curve.r - 2, 9]
    for library in (pairing.choose(curve), pairing.PyEcc(curve)):
        assert library.combine(points, scalars) == g.mul(g.generator, 1 - 10)
        assert library.combine([g.generator, g.neg(g.generator)], [3, 3]) is None
        assert library.combine([None], [1]) is None


def test_pairing_is_bilinear_in_every_library(curve: Curve):
    g1, g2 = curve.g1, curve.g2
    p, q = g1.generator, g2.generator
    for library in (pairing.choose(curve), pairing.PyEcc(curve)):
        assert library.product_is_one([(g1.mul(p, 6), q), (g1.neg(g1.mul(p, 2)), g2.mul(q, 3)), (None, q)])
        assert not library.product_is_one([(p, q)])
        assert library.product_is_one([(None, q), (p, None)])


@pytest.mark.parametrize(
    ("curve_of", "group", "name"), [(BN254, 2, "b"), (BLS12_381, 1, "a"), (BLS12_381, 2, "b")]
)
def test_points_outside_the_subgroup_are_named(curve_of: Curve, group: int, name: str):
    key, values, sound = opened(curve_of)
    setattr(sound, name, off_subgroup_point(curve_of, group))
    with pytest.raises(InputError, match=f"pi_{name} is not in the subgroup"):
        verify(key, values, sound)
    assert not pairing.PyEcc(curve_of).in_subgroup(group, off_subgroup_point(curve_of, group))
    key, values, sound = opened(curve_of)
    setattr(key, "delta2" if group == 2 else "alpha1", off_subgroup_point(curve_of, group))
    with pytest.raises(InputError, match="is not in the subgroup"):
        verify(key, values, sound)


@pytest.mark.parametrize("name", ["a", "b", "c"])
def test_coordinates_must_be_reduced(curve: Curve, name: str):
    """snarkjs accepts p and p + q as the same coordinate; one proof should have one form."""
    key, values, sound = opened(curve)
    x, y = getattr(sound, name)
    aliased = (x + curve.q, y) if isinstance(x, int) else ((x[0] + curve.q, x[1]), y)
    setattr(sound, name, aliased)
    with pytest.raises(InputError, match=f"pi_{name} has a coordinate that is not below the base prime"):
        verify(key, values, sound)


def test_an_ic_point_off_the_curve_is_named(curve: Curve):
    key, values, sound = opened(curve)
    key.ic[1] = (1, 1)
    with pytest.raises(InputError, match="IC point 1 is not on the curve"):
        verify(key, values, sound)
    key, values, sound = opened(curve)
    key.gamma2 = None
    with pytest.raises(InputError, match="vk_gamma_2 is the point at infinity"):
        verify(key, values, sound)


def test_public_values_must_be_in_the_field(curve: Curve):
    key, values, sound = opened(curve)
    for bad in (curve.r, -1, values[0] + curve.r):
        with pytest.raises(InputError, match="public value 0 is not below the scalar prime"):
            verify(key, [bad, values[1]], sound)
    with pytest.raises(InputError, match="takes 2 public values, 1 given"):
        verify(key, values[:1], sound)


def test_a_proof_without_a_curve_is_taken_as_the_keys(tmp_path: Path):
    """rapidsnark names no curve."""
    folder = CASES["bls12381"]
    data = json.loads((folder / "proof.json").read_text())
    del data["curve"]
    (tmp_path / "proof.json").write_text(json.dumps(data))
    assert verify(folder / "verification_key.json", folder / "public.json", tmp_path / "proof.json")


def test_the_invalid_line_names_the_three_reasons():
    """What a command prints for False must cover the manifest's entries."""
    for fact in ("the proof is invalid", "made with another key", "for these public values", "pairing"):
        assert fact in verifier.INVALID


def test_without_compiled_libraries_py_ecc_steps_in(monkeypatch: pytest.MonkeyPatch, curve: Curve):
    for module in ("zksnake", "zksnake.ecc", "py_arkworks_bls12381"):
        monkeypatch.setitem(sys.modules, module, None)
    chosen = verifier.choose(curve)
    assert (chosen.name, chosen.slow) == ("py_ecc", True)
    key, values, sound = opened(curve)
    assert verify(key, values, sound)
    other = vkey.open(BROKEN / "other-setup.verification_key.json")
    if curve is BN254:
        assert not verify(other, values, sound)


def test_importing_the_package_loads_nothing_heavy():
    """`import cuzk_kernels` must stay cheap; proving must not load numpy."""
    code = (
        "import sys, cuzk_kernels; loaded = set(sys.modules);"
        "assert not loaded & {'json', 'ctypes', 'cuzk_tracer', 'cuzk_kernels.groth16'}, loaded;"
        "from cuzk_kernels import prove, verify;"
        "heavy = {'numpy', 'zksnake', 'py_ecc', 'py_arkworks_bls12381', 'gmpy2', 'dataclasses'};"
        "assert not set(sys.modules) & heavy, set(sys.modules) & heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
