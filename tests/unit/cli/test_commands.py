"""The commands as a user runs them without a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_cases import CASES, DATA, Command

from cuzk_top import view_file
from cuzk_top.cli import build_parser
from cuzk_top.commands import top
from cuzk_top.viewport import ViewState

MULTIPLIER = CASES / "multiplier-bn254"
KEY, WITNESS = MULTIPLIER / "circuit.zkey", MULTIPLIER / "witness.wtns"


def prove(
    cuzk_top: Command, tmp_path: Path, *more: str | Path, **env: str
) -> subprocess.CompletedProcess[str]:
    return cuzk_top(
        "prove",
        KEY,
        WITNESS,
        "-o",
        tmp_path / "proof.json",
        "--public",
        tmp_path / "public.json",
        *more,
        **env,
    )


def test_prove_writes_a_proof_that_verify_accepts(cuzk_top: Command, tmp_path: Path) -> None:
    done = prove(cuzk_top, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "verified" in done.stdout.splitlines()[-1]
    assert json.loads((tmp_path / "public.json").read_text()) == json.loads(
        (MULTIPLIER / "public.json").read_text()
    )
    checked = cuzk_top(
        "verify", MULTIPLIER / "verification_key.json", tmp_path / "public.json", tmp_path / "proof.json"
    )
    assert checked.returncode == 0
    assert "\x1b" not in done.stdout, "no escape codes where there is no terminal"


def test_each_stage_is_told_as_it_ends(cuzk_top: Command, tmp_path: Path) -> None:
    done = prove(cuzk_top, tmp_path)
    progress = done.stdout.split("session", 1)[0].splitlines()
    told = [line.split()[0] for line in progress if line.startswith(" ")]
    msms = ["msm.h", "msm.l", "msm.a", "msm.b_g1", "msm.b_g2"]
    assert told == ["key.load", "synthesis", "quotient", *msms, "finalize.c", "finalize", "verify"]


def test_the_trace_goes_where_it_was_asked_to_and_reports_the_same_proofs(
    cuzk_top: Command, tmp_path: Path
) -> None:
    trace = tmp_path / "mine.cuzk"
    assert prove(cuzk_top, tmp_path, "--trace", trace, "--repeat", "3").returncode == 0
    done = cuzk_top("report", trace, "--json")
    data = json.loads(done.stdout)
    assert data["schema"] == "cuzk-top.report/1"
    assert data["proofs"]["count"] == 3
    stages = {stage["name"]: stage for stage in data["stages"]}
    assert stages["prove"]["count"] == 3
    assert stages["msm.b_g2"]["count"] == 3
    # A proof's time is its own plus its children's: the parts of one level never exceed the whole.
    inside = [
        s
        for s in data["stages"]
        if s["name"] in {"key.load", "synthesis", "quotient", "finalize.c", "finalize", "verify"}
    ]
    assert sum(s["total_ns"] for s in inside) < stages["prove"]["total_ns"]
    assert data["lost"] == 0
    assert data["session"]["meta"]["backend"].startswith("cpu-")


def test_replay_without_a_terminal_prints_the_report(cuzk_top: Command, tmp_path: Path) -> None:
    trace = tmp_path / "mine.cuzk"
    prove(cuzk_top, tmp_path, "--trace", trace)
    replayed, reported = cuzk_top("replay", trace), cuzk_top("report", trace)
    assert replayed.returncode == 0
    assert replayed.stdout == reported.stdout
    assert "msm.b_g2" in replayed.stdout


def test_traces_are_saved_by_default_and_the_newest_20_kept(cuzk_top: Command, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "cuzk-top" / "traces"
    folder.mkdir(parents=True)
    for number in range(25):
        old = folder / f"old-{number:02}.cuzk"
        old.write_bytes(b"x")
        os.utime(old, (1000 + number, 1000 + number))
    assert prove(cuzk_top, tmp_path).returncode == 0
    kept = sorted(path.name for path in folder.glob("*.cuzk"))
    assert len(kept) == 20
    assert kept[-19:] == [f"old-{number:02}.cuzk" for number in range(6, 25)], "the oldest go first"


def test_a_proof_that_fails_before_its_first_span_leaves_no_trace(cuzk_top: Command, tmp_path: Path) -> None:
    trace = tmp_path / "t.cuzk"
    outputs = ("-o", tmp_path / "p.json", "--public", tmp_path / "q.json", "--trace", trace)
    done = cuzk_top("prove", DATA / "broken/empty.zkey", WITNESS, *outputs)
    assert done.returncode == 2 and "empty.zkey" in done.stderr
    assert not trace.exists() and "trace " not in done.stdout


def test_a_proof_that_fails_later_says_where_its_trace_is(cuzk_top: Command, tmp_path: Path) -> None:
    trace = tmp_path / "t.cuzk"
    outputs = ("-o", tmp_path / "p.json", "--public", tmp_path / "q.json", "--trace", trace)
    done = cuzk_top("prove", KEY, DATA / "broken/unsatisfied.wtns", *outputs)
    assert done.returncode == 1 and "does not verify" in done.stderr
    assert f"trace     {trace}" in done.stdout.splitlines()
    stages = json.loads(cuzk_top("report", trace, "--json").stdout)["stages"]
    assert {"prove", "msm.b_g2", "verify"} <= {stage["name"] for stage in stages}


@pytest.mark.parametrize("backend", ["python", "auto"])
def test_demo_makes_its_key_once(backend: str, cuzk_top: Command) -> None:
    first = cuzk_top("demo", "--backend", backend)
    assert first.returncode == 0, first.stderr
    assert "key made now" in first.stdout
    assert "verified" in first.stdout.splitlines()[-1]
    second = cuzk_top("demo", "--backend", backend)
    assert second.returncode == 0, second.stderr
    assert "key from the cache" in second.stdout


def test_python_backend_says_so_in_the_report(cuzk_top: Command, tmp_path: Path) -> None:
    done = prove(cuzk_top, tmp_path, "--backend", "python")
    assert done.returncode == 0
    assert "cpu-python" in done.stdout


def test_proving_goes_on_where_tracing_cannot(cuzk_top: Command, tmp_path: Path) -> None:
    done = prove(cuzk_top, tmp_path, CUZK_TRACE="off")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "proof.json").exists()
    assert "trace ring" in done.stdout


def test_an_unwritable_traces_folder_is_said_and_does_not_stop_the_proof(
    cuzk_top: Command, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = prove(cuzk_top, tmp_path, "--trace", tmp_path / "file" / "x.cuzk")
    assert done.returncode == 0
    assert "no trace is saved" in done.stderr
    assert (tmp_path / "proof.json").exists()


def test_an_output_that_cannot_be_written_is_one_line(cuzk_top: Command, tmp_path: Path) -> None:
    done = cuzk_top(
        "prove", KEY, WITNESS, "-o", tmp_path / "no" / "p.json", "--public", tmp_path / "pub.json"
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert str(tmp_path / "no" / "p.json") in done.stderr


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["report", "no-such.cuzk"], "no-such.cuzk"),
        (["replay", str(KEY)], "circuit.zkey"),
        (["replay", str(DATA / "broken/empty.zkey")], "empty.zkey: an empty file: nothing was written to it"),
        (["attach", "4194000"], "4194000"),
        (["verify", "no-vkey.json", "p", "q"], "no-vkey.json"),
        (["prove", "no.zkey", "no.wtns", "-o", "p", "--public", "q"], "no.zkey"),
    ],
)
def test_bad_arguments_end_in_one_line_and_2(arguments: list[str], names: str, cuzk_top: Command) -> None:
    done = cuzk_top(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert names in done.stderr


@pytest.mark.parametrize(
    ("line", "theme", "ascii_only"),
    [
        ("--theme light demo", "light", False),
        ("demo --theme light", "light", False),
        ("--theme light --ascii demo --theme dark", "dark", True),
        ("demo", "auto", False),
        ("", "auto", False),
    ],
)
def test_screen_options_work_before_and_behind_the_command(line: str, theme: str, ascii_only: bool) -> None:
    args = build_parser().parse_args(line.split())
    assert (args.theme, args.ascii) == (theme, ascii_only)


def test_plain_cuzk_top_without_sessions_says_how_to_get_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the function that prints it: the command also lists whoever else is traced on this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    top.print_list([])
    said = capsys.readouterr().out
    assert "no traced prover" in said
    assert "cuzk-top demo" in said


def test_plain_cuzk_top_ends_well_without_a_terminal(cuzk_top: Command) -> None:
    done = cuzk_top()
    assert (done.returncode, done.stderr) == (0, "")
    assert "cuzk-top" in done.stdout


PROVER = """
import sys, time, cuzk_tracer
cuzk_tracer.meta(job="mine")
STEP = cuzk_tracer.span("msm.h", stage=True)
cuzk_tracer.open()
print("ready", flush=True)
while True:
    with STEP:
        time.sleep(0.02)
"""


@pytest.fixture
def prover(environment: dict[str, str]) -> subprocess.Popen[str]:
    """A traced program that is not ours, running until the test ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROVER], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_list_shows_a_traced_program(prover: subprocess.Popen[str], cuzk_top: Command) -> None:
    done = cuzk_top()
    row = next(line for line in done.stdout.splitlines() if str(prover.pid) in line)
    assert row.split()[-1] == "mine"
    assert float(row.split()[3].replace(",", "")) > 5, "about 50 spans a second were written"


def test_attach_follows_and_leaves_the_program_running(
    prover: subprocess.Popen[str], environment: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "cuzk_top.cli", "attach", str(prover.pid)]
    watcher = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert watcher.stdout is not None
    assert watcher.stdout.readline().split()[0] == "msm.h"
    watcher.send_signal(signal.SIGINT)
    _, said = watcher.communicate(timeout=20)
    assert watcher.returncode == 130
    assert "detached" in said
    assert prover.poll() is None, "the program goes on"


def test_ctrl_c_stops_a_proof_cleanly(environment: dict[str, str], tmp_path: Path) -> None:
    """The pure-Python back end on the larger case takes seconds: time enough to interrupt it."""
    case = CASES / "chain340-bn254" if (CASES / "chain340-bn254").exists() else MULTIPLIER
    trace = tmp_path / "stopped.cuzk"
    command = [
        sys.executable,
        "-m",
        "cuzk_top.cli",
        "prove",
        str(case / "circuit.zkey"),
        str(case / "witness.wtns"),
    ]
    command += ["-o", str(tmp_path / "p.json"), "--public", str(tmp_path / "q.json"), "--trace", str(trace)]
    command += ["--backend", "python", "--repeat", "1000"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(0.3)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "stopped" in said
    assert "Traceback" not in said
    assert children, "the prover was a process of its own"
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert trace.exists(), "what was traced until then is saved"


def test_finished_proofs_are_known_to_the_past(cuzk_top: Command, tmp_path: Path) -> None:
    for _ in range(2):
        assert prove(cuzk_top, tmp_path, "--repeat", "2", "--check-key").returncode == 0
    assert prove(cuzk_top, tmp_path, "--backend", "python").returncode == 0
    found = [json.loads(path.read_text()) for path in (tmp_path / "state/cuzk-top/history").glob("*.json")]
    kinds = {len(content["proofs"]): content["kind"] for content in found}
    assert sorted(kinds) == [1, 4], "another back end and other switches make another kind"
    for part in ("circuit.zkey; curve bn254; domain 8; ", "threads", "switches check-key", "machine.host"):
        assert part in kinds[4]
    assert "cpu-python" in kinds[1] and "switches" not in kinds[1]
    [stages] = [content["stages"] for content in found if len(content["proofs"]) == 4]
    assert {"prove", "key.load", "synthesis", "quotient", "msm.b_g2", "verify"} <= set(stages)


def test_a_saved_view_opens_its_trace(cuzk_top: Command, tmp_path: Path) -> None:
    trace = CASES.parent / "traces" / "chain-65533-bls12381.cuzk"
    view = tmp_path / "a.view.json"
    view.write_text(view_file.dump(ViewState(), trace, (80, 24)))
    whole = cuzk_top("replay", trace)
    assert whole.returncode == 0 and "msm.b_g2" in whole.stdout
    assert cuzk_top("replay", view).stdout == whole.stdout
    assert cuzk_top("replay", trace, "--view", view).stdout == whole.stdout
    view.write_text("{}")
    for arguments in ((view,), (trace, "--view", view)):
        done = cuzk_top("replay", *arguments)
        assert done.returncode == 2 and done.stdout == ""
        assert (
            done.stderr == f"cuzk-top: {view}: not a view that cuzk-top saved: S on the screen writes one\n"
        )


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("demo", []),
        ("--deadline a=1s demo", [("a", 1_000_000_000)]),
        ("prove k w -o p --public u --deadline c.zkey=250ms", [("c", 250_000_000)]),
        ("replay t --deadline a=1:02.5 --deadline b=c=3", [("a", 62_500_000_000), ("b=c", 3_000_000_000)]),
        ("attach 7 --deadline a=2h", [("a", 7_200_000_000_000)]),
        ("run --deadline a=5m -- x", [("a", 300_000_000_000)]),
    ],
)
def test_deadlines(line: str, wanted: list[tuple[str, int]]) -> None:
    assert build_parser().parse_args(line.split()).deadline == wanted


@pytest.mark.parametrize(
    "text", ["a", "a=", "=5s", "a=soon", "a=-5s", "a=0", "a=5x", "a=99999999999h", "a=14:03:05"]
)
def test_a_deadline_that_is_none_is_one_line(text: str, cuzk_top: Command) -> None:
    done = cuzk_top("replay", "t.cuzk", "--deadline", text)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.endswith(
        f"argument --deadline: {text!r} is not KIND=TIME such as porep-32g=90s or circuit=1:30"
    )
