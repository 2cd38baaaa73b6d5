"""``cuzk-top stalls``: text, JSON and exit codes, on traces recorded on an H200 and here."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from cuzk_top.cli import main
from cuzk_top.stalls.limits import DEFAULTS, Limits

DATA = Path(__file__).parents[2] / "data"
H200 = str(DATA / "gpu/traces/own-chain-65533-bn254.cuzk")
TORCH = str(DATA / "gpu/traces/torch.cuzk")
CPU = str(DATA / "traces/chain-65533-bls12381.cuzk")


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["stalls", *arguments])
    return code, capsys.readouterr().out


def test_text_is_at_most_100_columns_and_begins_with_the_worst(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, H200)
    lines = text.splitlines()
    assert code == 0 and max(map(len, lines)) <= 100
    # of 445 ms, 309 in five proofs, says `cuzk-top report`; 184 ms of it without a kernel at the end of each
    assert lines[0] == "own-chain-65533-bn254.cuzk: 5 proofs, 309 ms of 445 ms"
    first = next(line for line in lines if line.startswith("  1  "))
    assert first == "  1  idle.host        184 ms      5      184 ms  waited 184 ms for verify, 5 times"
    assert "  fires over 0.5 % of the proof (1.55 ms)" in text
    assert "not ranked" in text


def test_causes_stand_under_their_effect(capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, TORCH)[1].splitlines()
    place = next(i for i, line in enumerate(lines) if " copy.exposed " in line)
    assert any(line.startswith("     < copy.slow ") for line in lines[place + 1 : place + 4])
    assert any("no proof" in line for line in lines)


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, CPU)
    assert code == 0
    assert "no device data: " in text and "no stall over its limit" in text
    assert "path  of the last proof, 816 ms: msm.b_g2.accumulate 30%" in text


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = told(capsys, "--json", H200)
    data = json.loads(text)
    assert code == 0 and data["schema"] == "cuzk-top.stalls/1"
    window, devices = data["window"], data["devices"]
    assert (
        devices["kernel_ns"] + devices["copy_only_ns"] + devices["idle_ns"]
        == window["end_ns"] - window["start_ns"]
    )
    assert devices["explained_ns"] + devices["unknown_ns"] + devices["nowork_ns"] == devices["idle_ns"]
    ranked = [finding for finding in data["findings"] if finding["rank"] is not None]
    assert [finding["rank"] for finding in ranked] == list(range(1, len(ranked) + 1))
    order = [(-finding["saved_ns"], -finding["cost_ns"]) for finding in ranked]
    assert order == sorted(order)
    assert data["path"][0]["start_ns"] < data["path"][-1]["end_ns"]
    assert set(data["limits"]) == {field.name for field in fields(Limits)}
    assert data["share"] == pytest.approx(sum(f["saved_ns"] for f in ranked) / data["proofs"]["wall_ns"])
    idle = sum(f["cost_ns"] for f in data["findings"] if f["rule"].startswith("idle."))
    assert idle == devices["idle_ns"]


def test_exit_code_over_a_share(capsys: pytest.CaptureFixture[str]) -> None:
    share = json.loads(told(capsys, "--json", H200)[1])["share"]
    assert told(capsys, "--fail-over", str(share - 0.001), H200)[0] == 1
    assert told(capsys, "--fail-over", f"{100 * share + 0.1}%", H200)[0] == 0
    assert told(capsys, "--fail-over", "0", CPU)[0] == 0
    # without a proof the devices' time counts
    assert told(capsys, "--fail-over", "50%", TORCH)[0] == 1


def test_limits_can_be_changed(capsys: pytest.CaptureFixture[str]) -> None:
    _, text = told(capsys, "--json", "--limit", "group_share=0.05", "--limit", "launch_ns=10000", H200)
    data = json.loads(text)
    assert data["limits"]["group_share"] == 0.05 and data["limits"]["launch_ns"] == 10_000
    host = [f for f in data["findings"] if f["rule"] == "idle.host" and f["rank"] is not None]
    assert host and all(f["cost_ns"] > 0.05 * data["proofs"]["wall_ns"] for f in host)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("group=1", "--limit group=1: no such limit; there are group_share, cover"),
        ("launch_ns=0.5", "--limit launch_ns=0.5: '0.5' is not a whole number"),
        ("cover=much", "--limit cover=much: 'much' is not a number"),
        ("cover=-1", "--limit cover=-1: a limit is a number from 0 on"),
        ("cover=nan", "--limit cover=nan: a limit is a number from 0 on"),
    ],
)
def test_wrong_limits(given: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stalls", "--limit", given, CPU]) == 2
    assert capsys.readouterr().err.startswith(f"cuzk-top: {said}")


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content in (b"no trace", b"ARROW1", Path(H200).read_bytes()[:100]):
        path = tmp_path / "x.cuzk"
        path.write_bytes(content)
        assert main(["stalls", str(path)]) == 2
    assert main(["stalls", str(tmp_path / "absent.cuzk")]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 4 and all(line.startswith("cuzk-top: ") for line in errors)
    for wrong in ("200%", "-1", "much"):
        with pytest.raises(SystemExit) as stopped:
            main(["stalls", "--fail-over", wrong, H200])
        assert stopped.value.code == 2


def test_a_trace_cut_off_anywhere_is_analysed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (DATA / "traces/1.1-stream.cuzk").read_bytes()
    opened = 0
    for length in range(0, len(whole), 97):
        path = tmp_path / "cut.cuzk"
        path.write_bytes(whole[:length])
        opened += main(["stalls", str(path)]) == 0
    assert opened > 10


def test_every_limit_says_what_it_is() -> None:
    text = Path(__file__).parents[3].joinpath("app/cuzk_top/stalls/limits.py").read_text()
    body = text.split("class Limits:")[1].split("DEFAULTS")[0]
    for field in fields(DEFAULTS):
        after = body.split(f"    {field.name}: ")[1].splitlines()
        assert after[1].strip().startswith('"""'), field.name
