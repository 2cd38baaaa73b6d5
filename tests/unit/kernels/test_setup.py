"""Keys of our own: the demo circuit, the setup's queries, and the cache they are kept in."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernel_cases import OWN_CASES, SHARED, case, read_sections, write_sections
from native_cases import unpacked
from test_groth16 import snarkjs_accepts

from cuzk_kernels import circuits, formats, keygen, matrices, prove, setup, verify
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


@pytest.mark.parametrize("rounds", [1, 2, 20])
def test_chain_rows_by_the_definition(tmp_path: Path, curve: Curve, rounds: int):
    """Row by row from the module's docstring, without arrays."""
    rows: list[Any] = []
    acc = 2
    for i, c in enumerate(circuits.chain_constants(curve, rounds)):
        sq, qd, out = range(4 + 3 * i, 7 + 3 * i)
        t = [(0, c), (acc, 1), (3, 1)]
        rows += (t, t, [(sq, 1)]), ([(sq, 1)], [(sq, 1)], [(qd, 1)]), ([(qd, 1)], t, [(out, 1)])
        acc = out
    rows.append(([(acc, 1), (3, 1)], [(0, 1)], [(1, 1)]))
    circuits.write_chain(tmp_path / "c.r1cs", curve, rounds)
    assert list(r1cs.open(tmp_path / "c.r1cs").constraints()) == rows


@pytest.mark.parametrize("words", [1, 3])
def test_bits_by_hand(tmp_path: Path, curve: Curve, words: int):
    """The digest from its definition; rows and wires of each kind from the module's docstring."""
    r, start, message = curve.r, 11, bytes(range(7, 7 + 31 * words))
    digest = start
    for index, c in enumerate(circuits.chain_constants(curve, words)):
        digest = pow(digest + int.from_bytes(message[31 * index : 31 * index + 31], "little") + c, 5, r)
    values = unpacked(circuits.bits_values(curve, start, message).tobytes())
    assert values[:3] == [1, digest, start] and values[-1] == digest
    bits = values[3 : 3 + 248 * words]
    assert bits == [message[k // 8] >> (k % 8) & 1 for k in range(248 * words)]
    assert len(values) == 3 + 252 * words

    circuits.write_bits(tmp_path / "c.r1cs", curve, words)
    system = r1cs.open(tmp_path / "c.r1cs")
    rows = list(system.constraints())
    assert (system.n_wires, system.n_public, system.n_constraints) == (len(values), 2, 252 * words + 1)
    assert circuits.bits_constraint_count(words) == len(rows)
    for a, b, c in rows:
        x, y, z = (sum(value * values[wire] for wire, value in terms) % r for terms in (a, b, c))
        assert x * y % r == z
    for word in range(words):
        first = 3 + 248 * word
        for k in range(248):
            assert rows[252 * word + k] == ([(first + k, 1)], [(first + k, 1), (0, r - 1)], [])
        packing = rows[252 * word + 248]
        assert packing == (
            [(first + k, 1 << k) for k in range(248)],
            [(0, 1)],
            [(3 + 248 * words + 4 * word, 1)],
        )


@pytest.mark.parametrize("change", [-1, 1, 2])
@pytest.mark.parametrize("wire", [1, 2, 3, 250, 251, 498, 499, 500, 501, 506])
def test_any_changed_wire_of_the_bits_breaks_a_constraint(tmp_path: Path, wire: int, change: int):
    circuits.write_bits(tmp_path / "c.r1cs", BN254, 2)
    values = unpacked(circuits.bits_values(BN254, 5, b"\x5a" * 62).tobytes())
    values[wire] = (values[wire] + change) % BN254.r
    wtns.write(tmp_path / "w.wtns", BN254, values)
    assert r1cs.open(tmp_path / "c.r1cs").first_unsatisfied(wtns.open(tmp_path / "w.wtns").data) is not None


@pytest.mark.parametrize("log", [9, 10, 14, 20, 22])
def test_circuits_fill_a_domain(log: int):
    """One round or word more would double it."""
    for words, count in (
        (circuits.chain_rounds_in(1 << log), circuits.chain_constraint_count),
        (circuits.bits_words_in(1 << log), circuits.bits_constraint_count),
    ):
        assert count(words) + 2 < 1 << log <= count(words + 1) + 2


def test_proofs_about_bits(quickest: Any, curve: Curve, tmp_path: Path):
    """Key from the matrices in memory; the public values are the digest and its start; snarkjs agrees."""
    circuits.write_bits(tmp_path / "c.r1cs", curve, 2)
    keygen.make_key(quickest, circuits.bits_matrices(curve, 2), tmp_path / "k.zkey", tmp_path / "v.json")
    circuits.bits_witness(tmp_path / "w.wtns", curve, 2)
    result = prove(
        tmp_path / "k.zkey", tmp_path / "w.wtns", backend=quickest, r1cs=tmp_path / "c.r1cs", check_key=True
    )
    witness = wtns.open(tmp_path / "w.wtns")
    assert result.public == [witness.value(1), witness.value(2)]
    formats.write_result(tmp_path / "proof.json", tmp_path / "public.json", result)
    assert snarkjs_accepts(tmp_path / "v.json", tmp_path / "public.json", tmp_path / "proof.json")


@pytest.mark.parametrize("name", [folder.name for folder in sorted(OWN_CASES.iterdir())])
def test_matrices_are_the_rows_of_the_file(name: str, tmp_path: Path):
    """Read as arrays and row by row; written again, the section is the same."""
    path = OWN_CASES / name / "circuit.r1cs"
    system = r1cs.open(path)
    arrays = matrices.read(system)
    found: list[Any] = [([], [], []) for _ in range(system.n_constraints)]
    for matrix, (rows, wires, values) in enumerate((arrays.a, arrays.b, arrays.c)):
        for row, wire, value in zip(rows.tolist(), wires.tolist(), values.tolist(), strict=True):
            found[row][matrix].append((wire, int.from_bytes(arrays.values[value].tobytes(), "little")))
    assert found == list(system.constraints())
    matrices.write(tmp_path / "c.r1cs", arrays, n_outputs=0, n_private_inputs=0)
    ours, theirs = (dict(read_sections(file)[2]) for file in (tmp_path / "c.r1cs", path))
    assert ours[2] == theirs[2]


@pytest.mark.parametrize("damage", ["short", "long", "count", "wire", "value", "odd"])
def test_damaged_constraints_are_named_by_the_setup_too(quickest: Any, damage: str, tmp_path: Path):
    """The arrays refuse what reading row by row refuses, in its words."""
    magic, version, sections = read_sections(OWN_CASES / "multiplier-bn254" / "circuit.r1cs")
    data = dict(sections)
    body = bytearray(data[2])
    if damage == "short":
        body = body[:-36]
    elif damage == "long":
        body += bytes(12)
    elif damage == "odd":
        body += b"x"
    elif damage == "count":
        body[0:4] = b"\xff\xff\xff\x7f"
    elif damage == "wire":
        body[4:8] = (8).to_bytes(4, "little")
    else:
        body[8:40] = BN254.r.to_bytes(32, "little")
    data[2] = bytes(body)
    path = write_sections(tmp_path / "c.r1cs", magic, version, list(data.items()))
    with pytest.raises(InputError) as row_by_row:
        list(r1cs.open(path).constraints())
    with pytest.raises(InputError) as arrays:
        keygen.make_key(quickest, path, tmp_path / "k.zkey", tmp_path / "v.json")
    assert str(arrays.value) == str(row_by_row.value)
    assert not (tmp_path / "k.zkey").exists()


@pytest.mark.parametrize("wire", [1, 3, 4, 63])
def test_any_changed_wire_breaks_a_constraint(tmp_path: Path, wire: int):
    circuits.write_chain(tmp_path / "c.r1cs", BN254, 20)
    values = circuits.chain_values(BN254, 20, 3, 4)
    values[wire] += 1
    wtns.write(tmp_path / "w.wtns", BN254, values)
    assert r1cs.open(tmp_path / "c.r1cs").first_unsatisfied(wtns.open(tmp_path / "w.wtns").data) is not None


@pytest.mark.parametrize("n", [1, 2, 16, 32])
def test_lagrange_values_interpolate(backend: Any, curve: Curve, n: int):
    """sum_k p(w^k) L_k(tau) = p(tau) for any p below degree n; with q = p * (x^n - 1), which is zero on the
    even points of the doubled domain, the odd ones alone give q(tau)."""
    r, tau, w, v = curve.r, 123456789, curve.root_of_unity(n), curve.root_of_unity(2 * n)
    even, odd = (unpacked(vector.tobytes()) for vector in keygen.lagrange_at(backend, curve, n, tau))
    p = lambda x: sum((k + 3) * pow(x, k, r) for k in range(n)) % r  # noqa: E731
    q = lambda x: p(x) * (pow(x, n, r) - 1) % r  # noqa: E731
    assert sum(p(pow(w, k, r)) * weight for k, weight in enumerate(even)) % r == p(tau)
    assert sum(q(pow(v, 2 * k + 1, r)) * weight for k, weight in enumerate(odd)) % r == q(tau)


def lagrange_by_definition(curve: Curve, points: list[int], k: int, x: int) -> int:
    """The product of (x - p_m) / (p_k - p_m) over all m but k."""
    r, over, under = curve.r, 1, 1
    for m, point in enumerate(points):
        if m != k:
            over, under = over * (x - point) % r, under * (points[k] - point) % r
    return over * pow(under, -1, r) % r


@pytest.mark.parametrize("longest", [2, 1024])
@pytest.mark.parametrize("name", ["chain5-bls12381", "multiplier-bn254"])
def test_every_point_is_the_multiple_the_definition_says(
    backend: Any, name: str, longest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With known secrets: columns from the rows as they are read one by one, Lagrange's products, and one
    multiplication a point. longest: the sums of busy wires in one piece, and in many."""
    monkeypatch.setattr(keygen, "LONGEST_SUM", longest)
    drawn = iter([1000003, 1000033, 1000037, 1000039])
    monkeypatch.setattr(keygen.secrets, "randbelow", lambda _: next(drawn) - 1)
    tau, alpha, beta, delta = 1000003, 1000033, 1000037, 1000039
    system = r1cs.open(OWN_CASES / name / "circuit.r1cs")
    keygen.make_key(backend, system, tmp_path / "key.zkey", tmp_path / "vkey.json")
    key = zkey.open(tmp_path / "key.zkey")
    curve, r, n, inverse = key.curve, key.curve.r, key.domain, pow(delta, -1, key.curve.r)
    v = curve.root_of_unity(2 * n)
    doubled = [pow(v, k, r) for k in range(2 * n)]
    rows = [lagrange_by_definition(curve, doubled[::2], k, tau) for k in range(n)]
    columns = [[0] * key.n_vars for _ in range(3)]
    for row, lists in enumerate(system.constraints()):
        for column, terms in zip(columns, lists, strict=True):
            for wire, value in terms:
                column[wire] += value * rows[row]
    for wire in range(key.n_public + 1):
        columns[0][wire] += rows[system.n_constraints + wire]
    a, b, c = columns
    combined = [beta * x + alpha * y + z for x, y, z in zip(a, b, c, strict=True)]
    first = key.n_public + 1
    expected = {
        key.ic: combined[:first],
        key.a: a,
        key.b1: b,
        key.b2: b,
        key.c: [value * inverse for value in combined[first:]],
        key.h: [
            lagrange_by_definition(curve, doubled, k, tau) * inverse for k in range(1, 2 * n, 2)
        ],
    }  # fmt: skip
    for query, values in expected.items():
        ops, size = curve.group(query.group), curve.point_bytes(query.group)
        for index, value in enumerate(values):
            point = curve.decode(query.group, query.data[index * size : (index + 1) * size])
            assert point == ops.mul(ops.generator, value % r), (query.name, index)
    assert key.delta2 == curve.g2.mul(curve.g2.generator, delta)
    assert key.beta1 == curve.g1.mul(curve.g1.generator, beta)


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
