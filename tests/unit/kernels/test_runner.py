"""The prover's process, called in this one."""

import json
from typing import Any

import pytest
from kernel_cases import OWN_CASES

from cuzk_kernels import runner
from cuzk_kernels.errors import InputError
from cuzk_kernels.formats import zkey


def test_repeated_proofs_share_one_open_key(
    monkeypatch: Any, tmp_path: Any, capsys: pytest.CaptureFixture[str]
):
    """A GPU keeps the points of an open key: opened anew, they would be checked and copied for each proof."""
    folder = OWN_CASES / "multiplier-bn254"
    opened = []
    real = zkey.open
    monkeypatch.setattr(zkey, "open", lambda path: opened.append(path) or real(path))
    monkeypatch.setattr(runner.cuzk_tracer, "open", lambda: None)
    code = runner.main([
        "--backend", "python", "prove", str(folder / "circuit.zkey"), str(folder / "witness.wtns"),
        "--proof", str(tmp_path / "p.json"), "--public", str(tmp_path / "u.json"), "--repeat", "3",
    ])  # fmt: skip
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0 and [e["number"] for e in events if e["event"] == "proof"] == [1, 2, 3]
    assert opened == [str(folder / "circuit.zkey")]


@pytest.mark.parametrize(("text", "devices"), [("0", (0,)), ("0,1", (0, 1)), ("3,0,2", (3, 0, 2))])
def test_a_list_of_devices(text: str, devices: tuple[int, ...]):
    arguments = ["--device", text, "--gpu-memory", "5", "demo", "--directory", "d"]
    options = runner.cuda_options(runner.parse(arguments))
    assert options.devices == devices and options.memory == 5 << 20


@pytest.mark.parametrize("text", ["x", "0,", "", "0,0"])
def test_a_bad_list_of_devices_is_refused(text: str):
    with pytest.raises(InputError, match=r"^--device "):
        runner.cuda_options(runner.parse(["--device", text, "demo", "--directory", "d"]))
