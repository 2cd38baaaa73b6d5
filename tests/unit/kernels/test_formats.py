"""The file formats: sections in any order, every field checked, writers that other readers understand."""

import gzip
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_cases import BROKEN, OWN_CASES, SHARED, case, case_folders, le, read_sections, write_sections

from cuzk_kernels.curves import BLS12_381, BN254
from cuzk_kernels.errors import InputError
from cuzk_kernels.formats import files, proof, public, r1cs, vkey, wtns, zkey

SMALL = OWN_CASES / "multiplier-bn254"
SNARKJS_ORDER_AFTER_SETUP = [1, 2, 4, 3, 9, 8, 5, 6, 7, 10]


def reordered(source: Path, target: Path, order: list[int]) -> Path:
    magic, version, sections = read_sections(source)
    by_id = dict(sections)
    return write_sections(target, magic, version, [(i, by_id[i]) for i in order])


def changed(source: Path, target: Path, section: int, change: Any) -> Path:
    """A copy with one section replaced by change(its bytes)."""
    magic, version, sections = read_sections(source)
    return write_sections(
        target, magic, version, [(i, change(d) if i == section else d) for i, d in sections]
    )


def test_zkey_header_is_read_exactly():
    key = zkey.open(SMALL / "circuit.zkey")
    vk = json.loads((SMALL / "verification_key.json").read_text())
    assert key.curve is BN254
    assert (key.n_vars, key.n_public, key.domain, key.n_coefs) == (8, 2, 8, 9)
    assert [str(v) for v in key.alpha1] == vk["vk_alpha_1"][:2]
    for point, name in ((key.beta2, "vk_beta_2"), (key.gamma2, "vk_gamma_2"), (key.delta2, "vk_delta_2")):
        assert [[str(v) for v in pair] for pair in point] == vk[name][:2]
    assert {query.name: query.count for query in key.queries} == {
        "IC": 3,
        "A": 8,
        "B1": 8,
        "B2": 8,
        "C": 5,
        "H": 8,
    }


@pytest.mark.parametrize("folder", case_folders(), ids=lambda folder: folder.name)
def test_vkey_inside_the_zkey_is_the_one_snarkjs_exported(folder: Path):
    ours = vkey.from_zkey(zkey.open(folder / "circuit.zkey"))
    theirs = vkey.open(folder / "verification_key.json")
    for name in ("curve", "alpha1", "beta2", "gamma2", "delta2", "ic"):
        assert getattr(ours, name) == getattr(theirs, name)


def test_sections_may_come_in_any_order(tmp_path: Path):
    expected = zkey.open(SMALL / "circuit.zkey")
    for order in (SNARKJS_ORDER_AFTER_SETUP, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]):
        key = zkey.open(reordered(SMALL / "circuit.zkey", tmp_path / "key.zkey", order))
        assert [bytes(query.data) for query in key.queries] == [
            bytes(query.data) for query in expected.queries
        ]
        assert bytes(key.coefs) == bytes(expected.coefs)
    assert [i for i, _ in read_sections(SMALL / "circuit.r1cs")[2]] == [2, 1, 3]  # circom's own order
    system = r1cs.open(reordered(SMALL / "circuit.r1cs", tmp_path / "c.r1cs", [3, 1, 2]))
    assert list(system.constraints()) == list(r1cs.open(SMALL / "circuit.r1cs").constraints())
    witness = wtns.open(reordered(SMALL / "witness.wtns", tmp_path / "w.wtns", [2, 1]))
    assert bytes(witness.data) == bytes(wtns.open(SMALL / "witness.wtns").data)


def test_unknown_sections_are_skipped(tmp_path: Path):
    magic, version, sections = read_sections(SMALL / "circuit.zkey")
    path = write_sections(tmp_path / "key.zkey", magic, version, [(77, b"later"), *sections])
    assert zkey.open(path).n_vars == 8


def test_no_contribution_is_a_note_not_an_error():
    fresh, contributed = OWN_CASES / "multiplier-bn254-fresh", SMALL
    for opened in (zkey.open(fresh / "circuit.zkey"), vkey.open(fresh / "verification_key.json")):
        assert len(opened.notes) == 1
        assert "delta equals gamma" in opened.notes[0] and "phase 2" in opened.notes[0]
    assert zkey.open(contributed / "circuit.zkey").notes == ()
    assert vkey.open(contributed / "verification_key.json").notes == ()


@pytest.mark.parametrize(
    ("section", "change", "fact"),
    [
        (1, lambda d: le(9, 4), "protocol id 9"),
        (1, lambda d: d + b"\0", "section 1 (protocol) is too long"),
        (2, lambda d: d[:-1], "section 2 (header) is too short"),
        (2, lambda d: d + b"\0", "section 2 (header) is too long"),
        (2, lambda d: le(2**32 - 1, 4) + d[4:], "section 2 (header) is too short"),
        (2, lambda d: d[:76] + le(8, 4) + d[80:], "claims 8 public values of 8 wires"),
        (2, lambda d: d[:80] + le(1 << 28, 4) + d[84:], "too large for BN254"),
        (2, lambda d: d[:84] + bytes(64) + d[148:], "alpha1 is the point at infinity"),
        (2, lambda d: d[:84] + b"\xff" * 32 + d[116:], "alpha1 has a coordinate that is not below the prime"),
        (2, lambda d: d[:84] + bytes([d[84] ^ 1]) + d[85:], "alpha1 is not on the curve"),
        (3, lambda d: d[:-64], "section 3 (IC points) should hold nPublic + 1 = 3 points"),
        (4, lambda d: d[:2], "section 4 (coefficients) is too short"),
        (4, lambda d: le(1, 4) + d[4:], "section 4 claims fewer coefficients than it holds"),
        (8, lambda d: d + bytes(64), "section 8 (C points) should hold nVars - nPublic - 1 = 5 points"),
        (9, lambda d: b"", "section 9 (H points) should hold domain size = 8 points"),
    ],
)
def test_zkey_fields_are_checked(tmp_path: Path, section: int, change: Any, fact: str):
    path = changed(SMALL / "circuit.zkey", tmp_path / "key.zkey", section, change)
    with pytest.raises(InputError) as caught:
        zkey.open(path)
    assert fact in str(caught.value) and str(path) in str(caught.value)


def test_a_missing_section_is_named(tmp_path: Path):
    path = reordered(SMALL / "circuit.zkey", tmp_path / "key.zkey", [1, 2, 3, 4, 5, 6, 7, 8, 10])
    with pytest.raises(InputError, match=r"section 9 \(H points\) is missing"):
        zkey.open(path)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (lambda d: le(9, 4), "section 1 (header) is too short: 13 bytes needed, 4 there"),
        (lambda d: d[:4] + b"\3" + d[5:], "unknown scalar field"),
        (lambda d: d + b"\0", "section 1 (header) is too long"),
    ],
)
def test_wtns_header_is_checked(tmp_path: Path, change: Any, fact: str):
    path = changed(SMALL / "witness.wtns", tmp_path / "w.wtns", 1, change)
    with pytest.raises(InputError) as caught:
        wtns.open(path)
    assert fact in str(caught.value)


def test_r1cs_reads_the_constraints_of_another_reader():
    """Terms of the multiplier, parsed here with struct, against the package's reader."""
    data = dict(read_sections(SMALL / "circuit.r1cs")[2])[2]
    at, rows = 0, []
    for _ in range(3):
        row = []
        for _ in range(3):
            (count,) = struct.unpack_from("<I", data, at)
            at += 4
            terms = []
            for _ in range(count):
                terms.append(
                    (struct.unpack_from("<I", data, at)[0], int.from_bytes(data[at + 4 : at + 36], "little"))
                )
                at += 36
            row.append(terms)
        rows.append(tuple(row))
    assert at == len(data)
    assert list(r1cs.open(SMALL / "circuit.r1cs").constraints()) == rows


@pytest.mark.parametrize(
    ("section", "change", "fact"),
    [
        (1, lambda d: d[:40] + le(8, 4) + d[44:], "public values of 8 wires"),
        (1, lambda d: d[:36] + le(2**32 - 1, 4) + d[40:], "claims 4294967295 wires in a file of 572 bytes"),
        (1, lambda d: d[:-4] + le(4, 4), "ends inside constraint 3"),
        (1, lambda d: d[:-4] + le(2, 4), "its 2 constraints need"),
        (2, lambda d: le(2**32 - 1, 4) + d[4:], "ends inside constraint 0"),
        (
            2,
            lambda d: d[:8] + b"\xff" * 32 + d[40:],
            "constraint 0: a value of A is not below the scalar prime",
        ),
    ],
)
def test_r1cs_fields_are_checked(tmp_path: Path, section: int, change: Any, fact: str):
    path = changed(SMALL / "circuit.r1cs", tmp_path / "c.r1cs", section, change)
    with pytest.raises(InputError) as caught:
        list(r1cs.open(path).constraints())
    assert fact in str(caught.value)


def test_custom_gates_are_refused(tmp_path: Path):
    magic, version, sections = read_sections(SMALL / "circuit.r1cs")
    path = write_sections(tmp_path / "c.r1cs", magic, version, [*sections, (4, le(1, 4)), (5, le(0, 4))])
    with pytest.raises(InputError, match="custom gates"):
        r1cs.open(path)
    path = write_sections(tmp_path / "d.r1cs", magic, version, [*sections, (4, le(0, 4)), (5, le(0, 4))])
    assert r1cs.open(path).n_constraints == 3


@pytest.mark.parametrize(
    "name", ["multiplier-bn254", "chain5-bls12381", "nopublic5-bn254", "circom-compat-multiplier"]
)
def test_sound_witnesses_satisfy_their_r1cs(name: str):
    folder = case(name)
    assert (
        r1cs.open(folder / "circuit.r1cs").first_unsatisfied(wtns.open(folder / "witness.wtns").data) is None
    )


def test_third_party_r1cs_and_witness_without_a_key():
    folder = SHARED / "fixtures" / "thirdparty" / "circom-compat-circuit2"
    if not folder.exists():
        pytest.skip("the shared fixtures are not here")
    assert (
        r1cs.open(folder / "circuit.r1cs").first_unsatisfied(wtns.open(folder / "witness.wtns").data) is None
    )


def test_r1cs_writer_round_trips(tmp_path: Path):
    rows = [([(0, 1), (2, BN254.r - 1)], [(1, 5)], []), ([], [], [(3, 7)])]
    path = tmp_path / "c.r1cs"
    r1cs.write(path, BN254, n_wires=4, n_outputs=1, n_public_inputs=1, n_private_inputs=1, constraints=rows)
    system = r1cs.open(path)
    assert (system.curve, system.n_wires, system.n_public, system.n_constraints) == (BN254, 4, 2, 2)
    assert list(system.constraints()) == rows


def test_writers_make_the_bytes_of_circom_and_snarkjs(tmp_path: Path):
    """A witness written from its values and a system from its rows have the originals' bytes."""
    witness = wtns.open(SMALL / "witness.wtns")
    wtns.write(tmp_path / "w.wtns", BN254, [witness.value(i) for i in range(witness.count)])
    assert (tmp_path / "w.wtns").read_bytes() == (SMALL / "witness.wtns").read_bytes()
    system = r1cs.open(SMALL / "circuit.r1cs")
    r1cs.write(
        tmp_path / "c.r1cs", BN254, n_wires=8, n_outputs=1, n_public_inputs=1, n_private_inputs=3,
        constraints=system.constraints(),
    )  # fmt: skip
    ours, theirs = (dict(read_sections(path)[2]) for path in (tmp_path / "c.r1cs", SMALL / "circuit.r1cs"))
    assert ours[2] == theirs[2]
    assert ours[1][:52] == theirs[1][:52]  # all but the number of labels, which are circom's


@pytest.mark.parametrize("name", ["multiplier-bn254", "multiplier-bls12381", "nopublic5-bn254"])
def test_json_writers_make_what_snarkjs_makes(tmp_path: Path, name: str):
    folder = OWN_CASES / name
    proof.write(tmp_path / "proof.json", proof.open(folder / "proof.json"))
    public.write(tmp_path / "public.json", public.open(folder / "public.json"))
    vkey.write(tmp_path / "vkey.json", vkey.open(folder / "verification_key.json"))
    for written, original in (("proof.json", "proof.json"), ("public.json", "public.json")):
        assert json.loads((tmp_path / written).read_text()) == json.loads((folder / original).read_text())
    theirs = json.loads((folder / "verification_key.json").read_text())
    theirs.pop("vk_alphabeta_12")  # a cache snarkjs does not read
    assert json.loads((tmp_path / "vkey.json").read_text()) == theirs


def test_writing_is_all_or_nothing(tmp_path: Path):
    path = tmp_path / "public.json"
    public.write(path, [1, 2])
    with pytest.raises(InputError, match="cannot be written"):
        public.write(tmp_path / "absent" / "public.json", [1])
    with pytest.raises(TypeError):
        files.write_atomically(path, [b"partial", "not bytes"])  # type: ignore[list-item]
    assert json.loads(path.read_text()) == ["1", "2"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["public.json"]


READERS = {
    "zkey": (zkey.open, SMALL / "circuit.zkey"),
    "wtns": (wtns.open, SMALL / "witness.wtns"),
    "r1cs": (lambda path: list(r1cs.open(path).constraints()), SMALL / "circuit.r1cs"),
    "proof": (proof.open, SMALL / "proof.json"),
    "public": (public.open, SMALL / "public.json"),
    "vkey": (vkey.open, SMALL / "verification_key.json"),
}


@pytest.mark.parametrize("kind", READERS)
def test_paths_that_are_not_files(tmp_path: Path, kind: str):
    read, _ = READERS[kind]
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "absent")
    with pytest.raises(InputError, match="this is a folder"):
        read(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a regular file"):
        read(tmp_path / "pipe")
    with pytest.raises(InputError):
        read("bad\0name")


@pytest.mark.parametrize("kind", READERS)
def test_files_of_another_kind_are_recognised(tmp_path: Path, kind: str):
    read, sound = READERS[kind]
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(sound.read_bytes()))
    with pytest.raises(InputError, match="gzip file; unpack it first"):
        read(path)
    path.write_text("<!doctype html><p>404")
    with pytest.raises(InputError, match="HTML page"):
        read(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="the file is empty"):
        read(path)


def test_swapped_arguments_are_guessed(tmp_path: Path):
    with pytest.raises(InputError, match="this is a wtns file; the arguments may be swapped"):
        zkey.open(SMALL / "witness.wtns")
    with pytest.raises(InputError, match="this is a zkey; the arguments may be swapped"):
        vkey.open(SMALL / "circuit.zkey")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('["' + "1" * 5000 + '"]', "not a number"),
        ("[" + "1" * 5000 + "]", "not valid JSON"),
        ("[1.5]", "public value 0 is not a number"),
        ("[true]", "public value 0 is not a number"),
        ("[null]", "public value 0 is not a number"),
        ('["-1"]', "public value 0 is not a number"),
        ("[-1]", "public value 0 is not a number"),
        ('["１"]', "public value 0 is not a number"),
        ('[" 1"]', "public value 0 is not a number"),
        ("[[]]", "public value 0 is not a number: a list of 0"),
        ("7", "public.json should hold a list"),
        ('"7"', "public.json should hold a list"),
        ("[NaN]", "public value 0 is not a number"),
    ],
)
def test_public_values_are_decimal_strings_or_integers(tmp_path: Path, text: str, fact: str):
    path = tmp_path / "public.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        public.open(path)
    assert fact in str(caught.value)
    path.write_text('\ufeff["12", 34, "0"]')
    assert public.open(path) == [12, 34, 0]


def test_deep_nesting_cannot_overflow_the_stack(tmp_path: Path):
    """py_ecc lifts Python's recursion limit for the whole process; json then recurses until it crashes."""
    path = tmp_path / "public.json"
    path.write_text("[" * 1_000_000)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(1_000_000)
        with pytest.raises(InputError, match="nested more than 32 deep"):
            public.open(path)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"pi_a": ["1", "2"]}, None),
        ({"pi_a": "1"}, "pi_a should be a list of 3 numbers"),
        ({"pi_a": ["1"]}, "pi_a should be a list of 3 numbers"),
        ({"pi_a": ["1", "2", "3"]}, "pi_a is not in affine form"),
        ({"pi_b": ["1", "2", "1"]}, "a coordinate of pi_b should be a pair of numbers"),
        ({"pi_b": [["1", "2", "3"], ["1", "2"], ["1", "0"]]}, "a coordinate of pi_b should be a pair"),
        ({"pi_c": ["x", "2", "1"]}, "a coordinate of pi_c is not a number"),
        ({"curve": "secp256k1"}, "unknown curve"),
        ({"curve": 7}, "unknown curve"),
        ({"protocol": "plonk"}, 'this is a proof for "plonk"'),
    ],
)
def test_proof_shapes_are_checked(tmp_path: Path, change: dict[str, Any], fact: str | None):
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(json.loads((SMALL / "proof.json").read_text()) | change))
    if fact is None:
        assert proof.open(path).a == (1, 2)
        return
    with pytest.raises(InputError) as caught:
        proof.open(path)
    assert fact in str(caught.value)


def test_vkey_without_curve_is_guessed_for_both_curves(tmp_path: Path):
    for name, expected in (("multiplier-bn254", BN254), ("multiplier-bls12381", BLS12_381)):
        data = json.loads((OWN_CASES / name / "verification_key.json").read_text())
        del data["curve"]
        path = tmp_path / "vkey.json"
        path.write_text(json.dumps(data))
        assert vkey.open(path).curve is expected
    data["vk_alpha_1"] = ["5", "5", "1"]
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="names no curve"):
        vkey.open(path)
    for entries, fact in (({}, "IC should be a list"), ([], "IC is empty")):
        path.write_text(json.dumps(data | {"IC": entries}))
        with pytest.raises(InputError, match=fact):
            vkey.open(path)


@pytest.mark.parametrize("kind", READERS)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_mutated_files_give_an_input_error_or_are_read(tmp_path: Path, kind: str, data: st.DataObject):
    """Cut, flipped and overwritten anywhere: never another exception, whatever the bytes."""
    read, sound = READERS[kind]
    content = bytearray(sound.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(
            st.one_of(st.binary(min_size=1, max_size=8), st.just(b"\xff" * 8), st.just(bytes(8)))
        )
        content[at : at + len(piece)] = piece
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    path = tmp_path / "file"
    path.write_bytes(content)
    try:
        read(path)
    except InputError as error:
        assert str(path) in str(error)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    magic=st.sampled_from([b"zkey", b"wtns", b"r1cs"]),
    version=st.integers(0, 3),
    tail=st.binary(max_size=200),
)
def test_random_bytes_behind_a_magic(tmp_path: Path, magic: bytes, version: int, tail: bytes):
    path = tmp_path / "file"
    path.write_bytes(magic + le(version, 4) + tail)
    read, _ = READERS[magic.decode()]
    with pytest.raises(InputError):
        read(path)


def test_every_broken_file_is_described_in_the_manifest():
    named = {entry["file"] for entry in json.loads((BROKEN / "manifest.json").read_text())["cases"]}
    assert named == {path.name for path in BROKEN.iterdir()} - {"manifest.json"}
