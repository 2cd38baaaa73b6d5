"""Keys of our own: the demo circuit, the setup's queries, and the cache they are kept in."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernel_cases import OWN_CASES, SHARED, case
from test_groth16 import snarkjs_accepts

from cuzk_kernels import circuits, formats, keygen, prove, setup, verify
from cuzk_kernels.backend import choose
from cuzk_kernels.curves import BLS12_381, BN254, Curve
from cuzk_kernels.errors import InputError, UnsatisfiedWitness
from cuzk_kernels.formats import r1cs, vkey, wtns, zkey


def test_chain_witness_by_hand():
    """Two rounds computed here from the definition x -> (x + key + c_i)^5."""
    c = circuits.chain_constants(BN254, 2)
    x, key, r = 5, 9, BN254.r
    first = pow(x + key + c[0], 5, r)
    second = pow(first + key + c[1], 5, r)
    values = circuits.chain_values(BN254, 2, x, key)
    assert values[:4] == [1, (second + key) % r, x, key]
    assert values[4:7] == [pow(x + key + c[0], 2, r), pow(x + key + c[0], 4, r), first]
    assert values[9] == second and len(values) == 10
    assert len(set(circuits.chain_constants(BN254, 50))) == 50


@pytest.mark.parametrize(("constraints", "rounds"), [(1, 1), (4, 1), (5, 2), (256, 85), (4096, 1365)])
def test_chain_is_the_shortest_with_enough_constraints(constraints: int, rounds: int):
    assert circuits.chain_rounds(constraints) == rounds
    assert circuits.chain_constraint_count(rounds) >= constraints
    assert rounds == 1 or circuits.chain_constraint_count(rounds - 1) < constraints


def test_fresh_witnesses_satisfy_the_circuit_and_differ(tmp_path: Path, curve: Curve):
    circuits.write_chain(tmp_path / "c.r1cs", curve, 20)
    system = r1cs.open(tmp_path / "c.r1cs")
    assert (system.n_constraints, system.n_wires, system.n_public) == (61, 64, 2)
    seen = set()
    for _ in range(2):
        circuits.chain_witness(tmp_path / "w.wtns", curve, 20)
        witness = wtns.open(tmp_path / "w.wtns")
        assert system.first_unsatisfied(witness.data) is None
        seen.add((witness.value(2), witness.value(3)))
    assert len(seen) == 2


@pytest.mark.parametrize("wire", [1, 3, 4, 63])
def test_any_changed_wire_breaks_a_constraint(tmp_path: Path, wire: int):
    circuits.write_chain(tmp_path / "c.r1cs", BN254, 20)
    values = circuits.chain_values(BN254, 20, 3, 4)
    values[wire] += 1
    wtns.write(tmp_path / "w.wtns", BN254, values)
    assert r1cs.open(tmp_path / "c.r1cs").first_unsatisfied(wtns.open(tmp_path / "w.wtns").data) is not None


@pytest.mark.parametrize("n", [1, 2, 16])
def test_lagrange_values_interpolate(curve: Curve, n: int):
    """sum_k p(w^k) L_k(tau) = p(tau) for any p below degree n."""
    r, tau, w = curve.r, 123456789, curve.root_of_unity(n)
    weights = keygen.lagrange_at(curve, n, tau, range(n))
    p = lambda x: sum((k + 3) * pow(x, k, r) for k in range(n)) % r  # noqa: E731
    assert sum(p(pow(w, k, r)) * weight for k, weight in enumerate(weights)) % r == p(tau)


@pytest.mark.parametrize("name", [folder.name for folder in sorted(OWN_CASES.iterdir())])
def test_domain_is_snarkjs_choice(name: str):
    folder = case(name)
    assert keygen.domain_size(r1cs.open(folder / "circuit.r1cs")) == zkey.open(folder / "circuit.zkey").domain


@pytest.mark.parametrize("name", ["multiplier-bn254", "chain5-bls12381", "nopublic5-bn254", "linear3-bn254"])
def test_keys_of_our_own_setup_for_circom_circuits(backend: Any, name: str, tmp_path: Path):
    """Our key proves circom's circuit; its shape (infinities included) is that of snarkjs's key."""
    folder = OWN_CASES / name
    keygen.make_key(backend, folder / "circuit.r1cs", tmp_path / "key.zkey", tmp_path / "vkey.json")
    ours, theirs = zkey.open(tmp_path / "key.zkey"), zkey.open(folder / "circuit.zkey")
    assert (ours.n_vars, ours.n_public, ours.domain) == (theirs.n_vars, theirs.n_public, theirs.domain)
    assert sorted(records(ours)) == sorted(records(theirs))
    for mine, other in zip(ours.queries, theirs.queries, strict=True):
        size = ours.curve.point_bytes(mine.group)
        assert infinities(mine.data, size) == infinities(other.data, size)
    assert ours.gamma2 == ours.curve.g2.generator and ours.notes == ()
    ours.check(backend, subgroup=True)
    result = prove(ours, folder / "witness.wtns", backend=backend, r1cs=folder / "circuit.r1cs")
    assert verify(tmp_path / "vkey.json", result.public, result.proof)
    assert not verify(folder / "verification_key.json", result.public, result.proof)


def records(key: zkey.Zkey) -> list[bytes]:
    return [bytes(key.coefs[at : at + 44]) for at in range(0, len(key.coefs), 44)]


def infinities(data: memoryview, size: int) -> list[int]:
    return [i for i in range(len(data) // size) if not any(data[i * size : (i + 1) * size])]


def test_two_setups_share_no_secret(tmp_path: Path, quickest: Any):
    source = OWN_CASES / "multiplier-bn254" / "circuit.r1cs"
    for name in ("one", "two"):
        keygen.make_key(quickest, source, tmp_path / f"{name}.zkey", tmp_path / f"{name}.json")
    one, two = (vkey.open(tmp_path / f"{name}.json") for name in ("one", "two"))
    assert one.alpha1 != two.alpha1 and one.beta2 != two.beta2 and one.delta2 != two.delta2


@pytest.mark.parametrize("constraints", [61, 253])
def test_demo_proves_and_is_reused(backend: Any, curve: Curve, constraints: int, tmp_path: Path):
    """61: 64 rows, half of the domain; 253: 256 rows, a domain filled to the last row."""
    made = setup.demo(backend, tmp_path / "cache", constraints=constraints, curve=curve)
    assert not made.reused and curve.label in made.summary and "made now" in made.summary
    again = setup.demo(backend, tmp_path / "cache", constraints=constraints, curve=curve)
    assert again.reused and again.zkey.read_bytes() == made.zkey.read_bytes()
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == [again.folder.name]
    result = prove(again.zkey, again.fresh_witness(), backend=backend, r1cs=again.r1cs)
    assert verify(again.vkey, result.public, result.proof)


@pytest.mark.parametrize("name", ["circuit.zkey", "circuit.r1cs", "verification_key.json", "sha256.json"])
def test_a_damaged_cache_is_made_again(quickest: Any, tmp_path: Path, name: str):
    made = setup.demo(quickest, tmp_path, constraints=61)
    file = made.folder / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    again = setup.demo(quickest, tmp_path, constraints=61)
    assert not again.reused
    prove(again.zkey, again.fresh_witness(), backend=quickest)
    again.vkey.unlink()
    assert not setup.demo(quickest, tmp_path, constraints=61).reused


def test_a_run_that_was_killed_leaves_nothing_in_the_way(quickest: Any, tmp_path: Path):
    folder = setup.demo(quickest, tmp_path, constraints=61).folder
    (folder / "sha256.json").unlink()  # the last file: without it the folder is half made
    assert not setup.demo(quickest, tmp_path, constraints=61).reused
    assert setup.demo(quickest, tmp_path, constraints=61).reused


def test_a_place_that_cannot_be_written_is_an_error_to_read(quickest: Any, tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="demo's files cannot be kept there"):
        setup.demo(quickest, tmp_path / "file", constraints=61)


def test_sizes_suit_the_back_end():
    assert setup.NATIVE_CONSTRAINTS >= 1 << 12
    assert setup.PYTHON_CONSTRAINTS >= 1 << 8


def test_snarkjs_accepts_the_demos_proof(quickest: Any, tmp_path: Path):
    made = setup.demo(quickest, tmp_path, constraints=256)
    result = prove(made.zkey, made.fresh_witness(), backend=quickest)
    formats.write_result(tmp_path / "proof.json", tmp_path / "public.json", result)
    assert snarkjs_accepts(made.vkey, tmp_path / "public.json", tmp_path / "proof.json")


def test_pure_python_needs_no_gmpy2(tmp_path: Path):
    """2^8 constraints, key generation included, with plain integers in a fresh interpreter."""
    code = (
        "import sys; sys.modules['gmpy2'] = None\n"
        "from pathlib import Path; from cuzk_kernels import prove, setup\n"
        "from cuzk_kernels.backend import choose\n"
        "backend = choose('python')[0]; demo = setup.demo(backend, Path(sys.argv[1]), constraints=256)\n"
        "prove(demo.zkey, demo.fresh_witness(), backend=backend)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=120)


@pytest.mark.parametrize("kind", ["zeros", "ones"])
def test_a_wrong_demo_witness_names_its_constraint(quickest: Any, tmp_path: Path, kind: str):
    made = setup.demo(quickest, tmp_path, constraints=61, curve=BLS12_381)
    wtns.write(tmp_path / "w.wtns", BLS12_381, [1] + [0 if kind == "zeros" else 1] * (made.rounds * 3 + 3))
    with pytest.raises(UnsatisfiedWitness, match="does not satisfy constraint 0 of"):
        prove(made.zkey, tmp_path / "w.wtns", backend=quickest, r1cs=made.r1cs)


@pytest.mark.slow
def test_sha256_of_circom_under_a_key_of_ours(tmp_path: Path):
    """31,761 constraints, nearly all wires 0 or 1; the digest in public.json is hashlib's."""
    import lzma

    folder = SHARED / "fixtures" / "cases" / "sha256x1-bn254"
    if not folder.exists():
        pytest.skip("the shared fixtures are not here")
    backend = choose("native")[0]
    for name in ("circuit.r1cs", "witness.wtns"):
        (tmp_path / name).write_bytes(lzma.decompress((folder / f"{name}.xz").read_bytes()))
    keygen.make_key(backend, tmp_path / "circuit.r1cs", tmp_path / "key.zkey", tmp_path / "vkey.json")
    result = prove(
        tmp_path / "key.zkey", tmp_path / "witness.wtns", backend=backend, r1cs=tmp_path / "circuit.r1cs"
    )
    assert [str(value) for value in result.public] == json.loads((folder / "public.json").read_text())
    formats.write_result(tmp_path / "proof.json", tmp_path / "public.json", result)
    assert snarkjs_accepts(tmp_path / "vkey.json", tmp_path / "public.json", tmp_path / "proof.json")
