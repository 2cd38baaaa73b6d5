"""Whole proofs and their intermediates on both curves and both back ends."""

import importlib.machinery
import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import py_arkworks_bls12381  # noqa: F401 (the reference prover needs it)
import pytest
from kernel_cases import (
    OWN_CASES,
    SHARED,
    PlainKey,
    case,
    case_folders,
    mapped,
    read_sections,
    write_sections,
)

from cuzk_kernels import formats, groth16, prove, verify
from cuzk_kernels.backend import choose
from cuzk_kernels.curves import BLS12_381, BN254
from cuzk_kernels.errors import InputError, InvalidProof
from cuzk_kernels.formats import public, wtns, zkey

SMALL_DOMAIN = 64  # what pure Python proves in a blink
SNARKJS = SHARED / "bin" / "verify-with-snarkjs"
SNARKJS_CASES = {"multiplier-bn254", "multiplier-bls12381", "nopublic5-bn254", "linear3-bn254"}


def snarkjs_accepts(vkey: Path, public_path: Path, proof_path: Path) -> bool:
    """snarkjs's verdict; skips where node or snarkjs cannot be had."""
    if not SNARKJS.exists():
        pytest.skip("the shared tools are not here")
    done = subprocess.run(
        [str(SNARKJS), vkey, public_path, proof_path], capture_output=True, text=True, check=False
    )
    if done.returncode == 3:
        pytest.skip(f"snarkjs is not to be had: {done.stderr}")
    return done.returncode == 0


@pytest.mark.parametrize("folder", case_folders(), ids=lambda folder: folder.name)
def test_every_case_proves_and_verifies(backend: Any, folder: Path, tmp_path: Path):
    key = zkey.open(folder / "circuit.zkey")
    if backend.name == "python" and key.domain > SMALL_DOMAIN:
        pytest.skip("too large for pure Python in a quick run")
    system = folder / "circuit.r1cs"
    result = prove(key, folder / "witness.wtns", backend=backend, r1cs=system if system.exists() else None)
    _, values = result
    assert values == public.open(folder / "public.json")
    formats.write_result(tmp_path / "proof.json", tmp_path / "public.json", result)
    vkey = folder / "verification_key.json"
    assert verify(vkey, tmp_path / "public.json", tmp_path / "proof.json")
    assert verify(vkey, folder / "public.json", folder / "proof.json")
    if folder.name in SNARKJS_CASES and backend.name == "native":
        assert snarkjs_accepts(vkey, tmp_path / "public.json", tmp_path / "proof.json")


@pytest.mark.slow
@pytest.mark.parametrize("folder", case_folders(), ids=lambda folder: folder.name)
def test_snarkjs_accepts_every_case(backend: Any, folder: Path, tmp_path: Path):
    result = prove(folder / "circuit.zkey", folder / "witness.wtns", backend=backend, check_key=True)
    formats.write_result(tmp_path / "proof.json", tmp_path / "public.json", result)
    assert snarkjs_accepts(
        folder / "verification_key.json", tmp_path / "public.json", tmp_path / "proof.json"
    )


def stage_values(backend: Any, folder: Path) -> tuple[list[int], list[int], list[int]]:
    """a, b and h as the prover computes them."""
    key, witness = zkey.open(folder / "circuit.zkey"), wtns.open(folder / "witness.wtns")
    a, b = groth16._evaluate(backend, key, witness)
    ab = ints(a), ints(b)
    h = groth16._quotient(backend, a, b, backend.product(a, b))
    return *ab, ints(h)


def ints(handle: Any) -> list[int]:
    data = handle.tobytes()
    return [int.from_bytes(data[at : at + 32], "little") for at in range(0, len(data), 32)]


@pytest.mark.parametrize("name", ["multiplier-bn254", "chain5-bls12381", "nopublic5-bn254", "linear3-bn254"])
def test_h_is_on_the_odd_points_of_the_doubled_domain(backend: Any, name: str):
    """a, b and h against barycentric interpolation of plain integers. A root from 7 fails here."""
    plain = PlainKey(case(name))
    assert stage_values(backend, case(name)) == (*plain.rows(), plain.h())


def reference_prover() -> Any:
    """The shared, separate prover as a module."""
    path = SHARED / "bin" / "reference-prover"
    if not path.exists():
        pytest.skip("the shared tools are not here")
    loader = importlib.machinery.SourceFileLoader("reference_prover", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name", ["multiplier-bls12381", "chain5-bls12381", "linear3-bn254", "chain340-bn254", "chain340-bls12381"]
)
def test_h_is_the_reference_provers(backend: Any, name: str):
    reference = reference_prover()
    folder = case(name)
    expected = reference.hvec(reference.load(folder / "circuit.zkey", folder / "witness.wtns"), 5)
    assert stage_values(backend, folder)[2] == expected


@pytest.mark.parametrize("name", ["multiplier-bn254", "chain5-bls12381", "nopublic5-bn254"])
def test_a_fixed_blinding_gives_the_reference_provers_proof(backend: Any, name: str):
    """Point for point: A, B and C with r = 1234567, s = 7654321, summed by another library."""
    reference = reference_prover()
    folder = case(name)
    loaded = reference.load(folder / "circuit.zkey", folder / "witness.wtns")
    group = reference.Ark() if loaded["n8q"] == 48 else reference.Zs()
    a, b, c = reference.prove(loaded, 5, group, 1234567, 7654321)
    proof, _ = prove(
        folder / "circuit.zkey",
        folder / "witness.wtns",
        backend=backend,
        test_only_blinding=(1234567, 7654321),
    )
    assert (proof.a, proof.b, proof.c) == (group.xy1(a), group.xy2(b), group.xy1(c))


def test_blinding_is_drawn_anew_for_each_proof(backend: Any):
    folder = OWN_CASES / "multiplier-bn254"
    first, second = (
        prove(folder / "circuit.zkey", folder / "witness.wtns", backend=backend).proof for _ in range(2)
    )
    assert first.a != second.a and first.b != second.b and first.c != second.c


def test_a_root_of_unity_from_7_makes_proofs_that_do_not_verify(monkeypatch: pytest.MonkeyPatch):
    """The trap itself: nothing fails until the finished proof is checked."""
    folder = OWN_CASES / "multiplier-bls12381"
    odd = (BLS12_381.r - 1) >> 32
    monkeypatch.setattr(
        BLS12_381,
        "root_of_unity",
        lambda n: pow(7, odd << (32 - n.bit_length() + 1), BLS12_381.r),
        raising=True,
    )
    with pytest.raises(InvalidProof, match="does not verify"):
        prove(folder / "circuit.zkey", folder / "witness.wtns", backend=choose("python")[0])


def test_sections_in_any_order_prove_alike(backend: Any, tmp_path: Path):
    folder = OWN_CASES / "chain5-bls12381"
    magic, version, sections = read_sections(folder / "circuit.zkey")
    path = write_sections(tmp_path / "key.zkey", magic, version, sections[::-1])
    assert prove(path, folder / "witness.wtns", backend=backend).public == public.open(folder / "public.json")


def test_opened_objects_are_taken_as_well_as_paths(backend: Any):
    folder = OWN_CASES / "multiplier-bn254"
    key, witness = zkey.open(folder / "circuit.zkey"), wtns.open(folder / "witness.wtns")
    for _ in range(2):  # a key is checked once and used again
        assert prove(key, witness, backend=backend).public == [1158, 5]


def test_the_result_says_what_the_user_should_know(backend: Any):
    fresh = OWN_CASES / "multiplier-bn254-fresh"
    result = prove(fresh / "circuit.zkey", fresh / "witness.wtns", backend=backend)
    assert "delta equals gamma" in result.notes[0]
    assert result.verifier == "zksnake"
    bls = OWN_CASES / "multiplier-bls12381"
    assert (
        prove(bls / "circuit.zkey", bls / "witness.wtns", backend=backend).verifier == "py_arkworks_bls12381"
    )


@pytest.mark.parametrize(("section", "name"), [(5, "A"), (6, "B1"), (7, "B2"), (8, "C"), (9, "H")])
def test_points_outside_the_subgroup_are_named(backend: Any, tmp_path: Path, section: int, name: str):
    """Sound for a quick load; found with check_key, and without it once the proof fails to verify."""
    from test_backend import off_subgroup_point

    folder = OWN_CASES / "multiplier-bls12381"
    group = 2 if section == 7 else 1
    magic, version, sections = read_sections(folder / "circuit.zkey")
    data = dict(sections)
    used = next(i for i in range(1, 8) if any(data[section][i * 96 * group : (i + 1) * 96 * group]))
    bad = BLS12_381.encode(group, off_subgroup_point(BLS12_381, group))
    at = used * 96 * group
    data[section] = data[section][:at] + bad + data[section][at + 96 * group :]
    path = write_sections(tmp_path / "key.zkey", magic, version, list(data.items()))
    for check_key in (True, False):
        with pytest.raises(InputError, match=f"{name} point {used} is not in the subgroup"):
            prove(path, folder / "witness.wtns", backend=backend, check_key=check_key)


def test_r1cs_of_another_field_or_shape_is_refused(backend: Any):
    bn, bls = OWN_CASES / "multiplier-bn254", OWN_CASES / "multiplier-bls12381"
    with pytest.raises(InputError, match=r"differ: BLS12-381 against BN254"):
        prove(bn / "circuit.zkey", bn / "witness.wtns", backend=backend, r1cs=bls / "circuit.r1cs")


def test_eval_reads_unaligned_records(backend: Any):
    """Section 4 begins where the file's order puts it, at any address."""
    plain = PlainKey(OWN_CASES / "multiplier-bn254")
    for shift in range(4):
        coefs = mapped(bytes(shift) + plain.coef_section)[4 + shift :]
        a, b = backend.eval_ab(BN254, coefs, 9, mapped(plain.witness_section), 8, 8)
        assert (ints(a), ints(b)) == plain.rows()


class _Recorder:
    """Stands for a span object: notes its name each time it is entered."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log = name, log

    def __call__(self, *_: object) -> "_Recorder":
        return self

    def __enter__(self) -> None:
        self.log.append(self.name)

    def __exit__(self, *_: object) -> None:
        self.log.append(f"/{self.name}")


def test_every_stage_is_a_span_in_the_order_of_the_formulas(backend: Any, monkeypatch: pytest.MonkeyPatch):
    """The names the viewer's lanes are made of, as the modules define them."""
    log: list[str] = []
    spans = {
        "PROVE": "prove", "KEY_LOAD": "key.load", "CHECK_POINTS": "check.points", "CHECK_R1CS": "check.r1cs",
        "SYNTHESIS": "synthesis", "WITNESS_LOAD": "synthesis.witness.load", "ABC_EVAL": "synthesis.abc.eval",
        "QUOTIENT": "quotient", "COSET": "quotient.coset", "POINTWISE": "quotient.pointwise",
        "FINALIZE_C": "finalize.c", "FINALIZE": "finalize", "VERIFY": "verify",
    }  # fmt: skip
    for attribute, name in spans.items():
        assert getattr(groth16, attribute).name == name
        monkeypatch.setattr(groth16, attribute, _Recorder(name, log))
    for attribute, stem in (("INTT", "quotient.intt"), ("NTT", "quotient.ntt")):
        assert [span.name for span in getattr(groth16, attribute)] == [f"{stem}.{v}" for v in "abc"]
        monkeypatch.setattr(groth16, attribute, [_Recorder(f"{stem}.{v}", log) for v in "abc"])
    for query in ("h", "l", "a", "b_g1", "b_g2"):
        group = getattr(groth16, f"MSM_{query.upper()}")
        assert [step.name for step in group.steps] == [
            f"msm.{query}.{step}" for step in ("digits", "accumulate", "reduce", "horner")
        ]
        monkeypatch.setattr(group, "whole", _Recorder(group.whole.name, log))
    folder = OWN_CASES / "multiplier-bn254"
    prove(folder / "circuit.zkey", folder / "witness.wtns", backend=backend, r1cs=folder / "circuit.r1cs")
    entered = [name for name in log if not name.startswith("/")]
    assert entered == [
        "prove", "key.load", "check.points", "synthesis", "synthesis.witness.load", "check.r1cs",
        "synthesis.abc.eval", "quotient", "quotient.intt.a", "quotient.intt.b", "quotient.intt.c",
        "quotient.coset",
        "quotient.ntt.a", "quotient.ntt.b", "quotient.ntt.c", "quotient.pointwise",
        "msm.h", "msm.l", "msm.a", "msm.b_g1", "msm.b_g2", "finalize.c", "finalize",
        "verify",
    ]  # fmt: skip
    assert sorted(name[1:] for name in log if name.startswith("/")) == sorted(entered)


def test_worker_faults_are_credited_to_the_stage(backend: Any, monkeypatch: pytest.MonkeyPatch):
    """Whatever the back end hands over reaches the tracer, once."""
    credited: list[tuple[int, int]] = []
    handed = iter([(7, 1)])
    monkeypatch.setattr(groth16.cuzk_tracer, "add_faults", lambda *faults: credited.append(faults))
    monkeypatch.setattr(backend, "take_faults", lambda: next(handed, (0, 0)))
    folder = OWN_CASES / "multiplier-bn254"
    prove(folder / "circuit.zkey", folder / "witness.wtns", backend=backend)
    assert credited.count((7, 1)) == 1 and len(credited) > 10
