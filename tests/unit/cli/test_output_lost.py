"""Output that nobody takes, closed streams, and signals, without a terminal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_cases import CASES, DATA, Command

from cuzk_top import trace

CASE = CASES / "multiplier-bn254"
GOLDEN = DATA / "gpu" / "golden" / "dense-20.cuzk"
CLI = [sys.executable, "-m", "cuzk_top.cli"]
PROVER = """
import cuzk_tracer, time
STEP = cuzk_tracer.span("msm.h", a0="number", stage=True)
print("ready", flush=True)
number = 0
while True:
    with STEP(number): time.sleep(0.005)
    number += 1
"""


def prove(proof: Path, *options: str) -> list[str]:
    files = (
        CASE / "circuit.zkey",
        CASE / "witness.wtns",
        "-o",
        proof,
        "--public",
        proof.with_suffix(".public"),
    )
    return [*CLI, "prove", *map(str, files), "--backend", "python", *options]


def shell(line: str, env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """``"$@"`` in the line is the command."""
    command = ["bash", "-o", "pipefail", "-c", line, "bash", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("line", ['"$@" | head -1', '"$@" > /dev/full'])
def test_a_proof_does_not_depend_on_who_reads_its_lines(
    line: str, environment: dict[str, str], cuzk_top: Command, tmp_path: Path
) -> None:
    file = tmp_path / "t.cuzk"
    options = ("--repeat", "20", "--trace", str(file))
    done = shell(line, environment, *prove(tmp_path / "proof.json", *options))
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(cuzk_top("report", file, "--json").stdout)
    assert report["proofs"]["count"] == 20
    public = tmp_path / "proof.public"
    assert cuzk_top("verify", CASE / "verification_key.json", public, tmp_path / "proof.json").returncode == 0


@pytest.mark.parametrize("command", [("report", GOLDEN), ("replay", GOLDEN), ("stalls", GOLDEN), ("doctor",)])
def test_a_full_disk_is_one_line(command: tuple[object, ...], environment: dict[str, str]) -> None:
    done = shell('"$@" > /dev/full', environment, *CLI, *map(str, command))
    assert done.returncode == 3
    assert done.stderr == "cuzk-top: standard output: No space left on device\n"


def test_an_answer_that_nobody_reads_is_an_exit_code_all_the_same(environment: dict[str, str]) -> None:
    command = (*CLI, "stalls", str(GOLDEN), "--fail-over", "0")
    done = shell('"$@" | (exec <&-; sleep 3)', environment, *command)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "command", [("report", GOLDEN), ("replay", GOLDEN), ("doctor",), ("run", "--", "true"), ()]
)
def test_closed_streams(command: tuple[object, ...], closed: str, environment: dict[str, str]) -> None:
    done = shell(f'"$@" {closed}', environment, *CLI, *map(str, command))
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "cuzk-top:" not in done.stdout, "what is for standard error does not go elsewhere"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_recording_that_is_ended_by_a_signal_is_whole(
    number: signal.Signals, environment: dict[str, str], tmp_path: Path
) -> None:
    """What ``timeout 60 cuzk-top attach -o FILE PID`` does."""
    with subprocess.Popen(
        [sys.executable, "-c", PROVER], stdout=subprocess.PIPE, text=True, env=environment
    ) as prover:
        assert prover.stdout is not None
        assert prover.stdout.readline() == "ready\n"
        file = tmp_path / "t.cuzk"
        command = [*CLI, "attach", "-o", str(file), str(prover.pid)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as viewer:
            assert viewer.stdout is not None
            for _ in range(20):
                viewer.stdout.readline()
            viewer.send_signal(number)
            out, err = viewer.communicate(timeout=60)
        assert prover.poll() is None
        prover.kill()
    assert viewer.returncode == 128 + number
    assert out.splitlines()[-1] == f"trace     {file}"
    assert err == f"cuzk-top: ended by {number.name}\n"
    found = trace.open(file)
    numbers = sorted(found.columns.take(found.columns.kind == 1).a0.tolist())
    assert len(numbers) >= 20
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
