"""Every damaged or wrong file gets the one line and exit code it deserves, on every back end."""

import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_cases import BROKEN, BROKEN_ENTRIES, OWN_CASES

from cuzk_kernels import prove, verify
from cuzk_kernels.errors import CuzkError, InputError, InvalidProof, UnsatisfiedWitness

ACCEPTED, INVALID = "accepted", "invalid"  # what `verify` says without an error

# What each line must tell, as its manifest entry asks; exit code 2 unless a tuple says otherwise.
FACTS: dict[str, Any] = {
    "empty.zkey": ["the file is empty, not a zkey"],
    "truncated.zkey": [
        "ends inside section 7",
        "1024 bytes needed",
        "100 there",
        "incomplete download or copy",
    ],
    "wrong-magic.zkey": ["not a zkey file", "zkex"],
    "wrong-version.zkey": ["zkey version 2 is not supported, version 1 is"],
    "section-size-overflow.zkey": ["ends inside section 9", "18446744073709551608 bytes needed"],
    "section-count-huge.zkey": ["ends before the sections it announces", "4294967295", "10 there"],
    "section-duplicated.zkey": ["section 5", "appears more than once"],
    "section-short.zkey": [
        "section 5",
        "should hold nVars = 8 points of 64 bytes (512 bytes)",
        "it holds 448",
    ],
    "not-groth16-plonk.zkey": ["PLONK zkey (protocol id 2)", "Groth16 zkey (protocol id 1) is needed"],
    "not-groth16-fflonk.zkey": ["FFLONK zkey (protocol id 10)", "Groth16 zkey"],
    "gzipped.zkey": ["gzip file", "unpack it first"],
    "html-page.zkey": ["not a zkey file", "looks like an HTML page", "download it again"],
    "prime-unknown.zkey": ["unknown scalar field", "supported: BN254, BLS12-381"],
    "prime-mixed.zkey": ["two primes in the header belong to different curves"],
    "domain-not-power-of-two.zkey": ["domain size 7 is not a power of two"],
    "domain-zero.zkey": ["domain size 0 is not a power of two"],
    "domain-too-small.zkey": ["names row 4, outside the domain of size 4"],
    "nvars-huge.zkey": ["section 5", "should hold nVars = 4294967295 points", "that is 8"],
    "coef-wire-out-of-range.zkey": ["coefficient 0 names wire 1000000, there are 8"],
    "coef-row-out-of-range.zkey": ["coefficient 0 names row 2147483647", "domain of size 8"],
    "coef-count-lies.zkey": ["section 4 claims more coefficients than it holds"],
    "point-off-curve.zkey": ["A point 2 is not on the curve"],
    "coordinate-not-reduced.zkey": ["A point 2 has a coordinate that is not below the prime"],
    "coef-value-changed.zkey": (InvalidProof, ["does not satisfy this key, or the key is damaged"]),
    "empty.wtns": ["the file is empty, not a wtns file"],
    "wrong-magic.wtns": ["not a wtns file"],
    "truncated.wtns": ["ends inside section 2"],
    "too-short.wtns": ["the witness has 7 values", "is for 8", "different circuits or builds"],
    "count-lies.wtns": ["section 2", "should hold 8 values of 32 bytes", "it holds 224 bytes"],
    "wrong-curve.wtns": ["the witness is over BLS12-381, the zkey", "over BN254"],
    "other-circuit.wtns": ["the witness has 9 values", "is for 8"],
    "unsatisfied.wtns": (InvalidProof, ["does not satisfy this key", "first broken constraint"]),
    "not-reduced.wtns": ["wire 6 is not below the scalar prime"],
    "first-wire-not-one.wtns": ["wire 0 must be 1"],
    "json-instead.wtns": ["this is JSON text", "a binary .wtns"],
    "zkey-instead.wtns": ["this is a zkey", "a wtns file is needed", "arguments may be swapped"],
    "truncated.r1cs": ["ends inside section"],
    "wrong-magic.r1cs": ["not an r1cs file"],
    "wire-out-of-range.r1cs": ["constraint 0 names wire 5000, there are 8"],
    "other-prime.r1cs": ["not supported; supported: BN254, BLS12-381"],
    "other-circuit.r1cs": ["r1cs and zkey", "differ: 16 wires against 8"],
    "altered-coordinate.proof.json": ["pi_a is not on the curve"],
    "altered-point.proof.json": INVALID,
    "g2-swapped.proof.json": ["pi_b is not on the curve", "halves may be in Solidity order"],
    "infinity.proof.json": INVALID,
    "wrong-curve.proof.json": ["the proof is over BLS12-381, the key", "over BN254"],
    "missing-point.proof.json": ["pi_b is missing"],
    "negated.proof.json": ACCEPTED,
    "ic-one-short.verification_key.json": ["IC should hold nPublic + 1 = 3 points, it holds 2"],
    "ic-one-long.verification_key.json": ["IC should hold", "3 points, it holds 4"],
    "alpha-off-curve.verification_key.json": ["vk_alpha_1 is not on the curve"],
    "other-setup.verification_key.json": INVALID,
    "no-curve.verification_key.json": ACCEPTED,
    "one-changed.public.json": INVALID,
    "swapped.public.json": INVALID,
    "one-long.public.json": ["takes 2 public values, 3 given"],
    "not-reduced.public.json": ["public value 0 is not below the scalar prime"],
    "not-a-number.public.json": ["public value 0 is not a number"],
    "object.public.json": ["public.json should hold a list"],
}

PROVER_FILES = ("circuit.zkey", "witness.wtns", "circuit.r1cs")
FOR_PROVER = [entry for entry in BROKEN_ENTRIES if entry["instead_of"] in PROVER_FILES]
FOR_VERIFIER = [entry for entry in BROKEN_ENTRIES if entry["instead_of"] not in PROVER_FILES]
GENEROUS_SECONDS = 20
GENEROUS_BYTES = 64 << 20


def files(entry: dict[str, Any]) -> Any:
    """The case's own files with the broken one in its place."""
    base = OWN_CASES / entry["base"]
    return lambda name: BROKEN / entry["file"] if name == entry["instead_of"] else base / name


def check_line(error: CuzkError, file: str, facts: list[str]) -> None:
    text = str(error)
    assert "\n" not in text
    assert file in text
    for fact in facts:
        assert fact in text


def test_every_broken_file_has_its_facts():
    assert set(FACTS) == {entry["file"] for entry in BROKEN_ENTRIES}


@pytest.mark.parametrize("entry", FOR_PROVER, ids=lambda entry: entry["file"])
def test_prover_rejects(backend: Any, entry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    file = files(entry)
    r1cs = file("circuit.r1cs") if entry["instead_of"] == "circuit.r1cs" else None
    expected = FACTS[entry["file"]]
    kind, facts = expected if isinstance(expected, tuple) else (InputError, expected)
    started = time.monotonic()
    tracemalloc.start()
    try:
        with pytest.raises(kind) as caught:
            prove(file("circuit.zkey"), file("witness.wtns"), backend=backend, r1cs=r1cs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    check_line(caught.value, entry["file"], facts)
    assert caught.value.exit_code == (2 if kind is InputError else 1)
    assert peak < GENEROUS_BYTES
    assert time.monotonic() - started < GENEROUS_SECONDS
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("entry", FOR_VERIFIER, ids=lambda entry: entry["file"])
def test_verifier_answers(entry: dict[str, Any]):
    file = files(entry)
    expected = FACTS[entry["file"]]
    arguments = file("verification_key.json"), file("public.json"), file("proof.json")
    if expected in (ACCEPTED, INVALID):
        assert verify(*arguments) is (expected == ACCEPTED)
        return
    with pytest.raises(InputError) as caught:
        verify(*arguments)
    check_line(caught.value, entry["file"], expected)
    assert caught.value.exit_code == 2


def test_unsatisfied_witness_names_the_first_broken_constraint(backend: Any):
    """By hand: a, b, c = 3, 11, 7, so ab = 33 and abc = 231, stored as 232; row 1 says -ab * c = -abc."""
    base = OWN_CASES / "multiplier-bn254"
    with pytest.raises(UnsatisfiedWitness) as caught:
        prove(base / "circuit.zkey", BROKEN / "unsatisfied.wtns", backend=backend, r1cs=base / "circuit.r1cs")
    assert caught.value.exit_code == 1
    check_line(caught.value, "unsatisfied.wtns", ["constraint 1", "A.w * B.w = -33 * 7, but C.w = -232"])


def test_a_damaged_key_is_told_from_a_wrong_witness_by_the_r1cs(backend: Any):
    base = OWN_CASES / "multiplier-bn254"
    with pytest.raises(InvalidProof, match="although the witness satisfies the r1cs") as caught:
        prove(
            BROKEN / "coef-value-changed.zkey",
            base / "witness.wtns",
            backend=backend,
            r1cs=base / "circuit.r1cs",
        )
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("name", ["multiplier-bn254", "multiplier-bls12381"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_mutated_key_or_witness_never_gives_a_false_proof(
    backend: Any, tmp_path: Path, name: str, data: st.DataObject
):
    """Bytes changed anywhere behind the magic: an error of ours, or a proof that holds under the true key."""
    base = OWN_CASES / name
    paths = {"circuit.zkey": base / "circuit.zkey", "witness.wtns": base / "witness.wtns"}
    target = data.draw(st.sampled_from(sorted(paths)))
    content = bytearray(paths[target].read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(12, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    paths[target] = tmp_path / target
    paths[target].write_bytes(content)
    try:
        result = prove(paths["circuit.zkey"], paths["witness.wtns"], backend=backend)
    except CuzkError as error:
        assert str(tmp_path / target) in str(error)
    else:
        assert verify(base / "verification_key.json", result.public, result.proof)
