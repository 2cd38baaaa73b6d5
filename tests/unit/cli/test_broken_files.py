"""Each file of tests/data/broken through the command line: its exit code, one line, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_cases import CASES, DATA, Command

BROKEN = DATA / "broken"
ENTRIES = json.loads((BROKEN / "manifest.json").read_text())["cases"]
# A well-formed input with a negative answer exits with 1; everything else that is rejected is malformed: 2.
NEGATIVE = {
    "coef-value-changed.zkey",
    "unsatisfied.wtns",
    "altered-point.proof.json",
    "infinity.proof.json",
    "other-setup.verification_key.json",
    "one-changed.public.json",
    "swapped.public.json",
}
ACCEPTED = {"negated.proof.json", "no-curve.verification_key.json"}


def expected_code(entry: dict[str, str]) -> int:
    if entry["file"] in ACCEPTED:
        return 0
    return 1 if entry["file"] in NEGATIVE else 2


def test_the_manifest_and_the_expectations_agree() -> None:
    verdicts = {entry["file"]: entry["expect"] for entry in ENTRIES}
    assert set(verdicts) >= NEGATIVE | ACCEPTED
    assert {verdicts[name] for name in NEGATIVE} == {"reject"}
    assert {name for name, verdict in verdicts.items() if verdict != "reject"} == ACCEPTED


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["file"])
def test_a_broken_file_gets_one_line_and_its_exit_code(
    entry: dict[str, str], cuzk_top: Command, tmp_path: Path
) -> None:
    base, broken = CASES / entry["base"], BROKEN / entry["file"]
    files = {path.name: path for path in base.iterdir()} | {entry["instead_of"]: broken}
    proof, public = tmp_path / "proof.json", tmp_path / "public.json"
    if entry["instead_of"].endswith((".zkey", ".wtns", ".r1cs")):
        arguments = ["prove", files["circuit.zkey"], files["witness.wtns"], "-o", proof, "--public", public]
        if entry["instead_of"].endswith(".r1cs"):
            arguments += ["--r1cs", broken]
    else:
        arguments = ["verify", files["verification_key.json"], files["public.json"], files["proof.json"]]
    done = cuzk_top(*arguments)
    assert done.returncode == expected_code(entry), done.stderr
    if done.returncode:
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert done.stderr.startswith("cuzk-top: ")
        assert broken.name in done.stderr or files["circuit.zkey"].name in done.stderr or done.returncode == 1
        assert not proof.exists()
        assert not public.exists()
        assert not list(tmp_path.glob("*.partial"))
    assert "Traceback" not in done.stderr + done.stdout
