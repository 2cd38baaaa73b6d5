"""How the commands with a screen end when their terminal or a signal ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pseudo import OnTerminal

from cuzk_top import trace

DATA = Path(__file__).parents[1] / "data"
GOLDEN = DATA / "gpu" / "golden" / "dense-20.cuzk"
CASE = DATA / "cases" / "multiplier-bn254"
TRACED = """
import cuzk_tracer, os, signal, sys, time
STEP = cuzk_tracer.span("msm.h", a0="number", stage=True)
def work(number):
    with STEP(number): time.sleep(0.005)
"""
WORKS_ON = f"{TRACED}\nprint('ready', flush=True)\nnumber = 0\nwhile True: work(number); number += 1"
PROOFS = 60
"""Enough to last until the screen is up and taken away."""
AWAY = ("closed", "closed, SIGHUP ignored", "SIGHUP")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Every folder the program may use, under the test's own."""
    (tmp_path / "run").mkdir(mode=0o700)
    places = {"XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache", "XDG_RUNTIME_DIR": "run", "HOME": "home"}
    own = {name: str(tmp_path / folder) for name, folder in places.items()}
    return {**os.environ, **own, "TERM": "xterm-256color", "LANG": "C.UTF-8"}


@pytest.fixture
def prover(env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A traced process that is nobody's but the test's."""
    command = [sys.executable, "-c", WORKS_ON]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def opened(env: dict[str, str], *arguments: object, hangup_ignored: bool = False) -> OnTerminal:
    command = [sys.executable, "-m", "cuzk_top.cli", *map(str, arguments)]
    return OnTerminal(command, env=env, ignored=(signal.SIGHUP,) if hangup_ignored else ())


def taken_away(screen: OnTerminal, how: str) -> None:
    if how == "SIGHUP":
        screen.kill(signal.SIGHUP)
    else:
        screen.hang_up()


def numbers(path: Path) -> list[int]:
    """The numbers of the steps in a trace, sorted."""
    found = trace.open(path)
    step = [name.text for name in found.session.names].index("msm.h")
    columns = found.columns
    return sorted(columns.take((columns.name == step) & (columns.kind == 1)).a0.tolist())


def given_back(screen: OnTerminal) -> None:
    """The terminal is as it was before: its own screen, a cursor, no reports of mouse, focus or paste."""
    assert not screen.terminal.modes & {1049, 1000, 1003, 1004, 1006, 1015, 2004, 2026}
    assert {7, 25} <= screen.terminal.modes


@pytest.mark.parametrize("how", AWAY)
def test_attach_ends_with_its_terminal(
    how: str, prover: subprocess.Popen[str], env: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "t.cuzk"
    with opened(env, "attach", "-o", file, prover.pid, hangup_ignored="ignored" in how) as screen:
        screen.shows("lost 0", "msm h")
        taken_away(screen, how)
        assert screen.ends() == 0
    assert prover.poll() is None, "it is not disturbed"
    found = numbers(file)
    assert found == list(range(found[0], found[0] + len(found))), "nothing is missing"


def test_a_closed_terminal_that_nobody_told_of(env: dict[str, str]) -> None:
    with opened(env, "replay", GOLDEN, hangup_ignored=True) as screen:
        screen.shows("lost 0")
        screen.hang_up()
        assert screen.ends() == 0


def test_sigterm_gives_the_terminal_back(
    prover: subprocess.Popen[str], env: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "t.cuzk"
    with opened(env, "attach", "-o", file, prover.pid) as screen:
        screen.shows("lost 0", "msm h")
        screen.kill(signal.SIGTERM)
        assert screen.ends() == 128 + signal.SIGTERM
        given_back(screen)
        said = [line.rstrip() for line in screen.terminal.texts if line.strip()]
        assert said == [f"trace     {file}", "cuzk-top: ended by SIGTERM"]
    assert prover.poll() is None
    assert len(numbers(file)) > 0


@pytest.mark.parametrize("how", AWAY)
def test_a_proof_goes_on_without_its_terminal(how: str, env: dict[str, str], tmp_path: Path) -> None:
    proof, public, file = tmp_path / "proof.json", tmp_path / "public.json", tmp_path / "t.cuzk"
    files = (CASE / "circuit.zkey", CASE / "witness.wtns", "-o", proof, "--public", public, "--trace", file)
    options = ("--backend", "python", "--repeat", str(PROOFS))
    with opened(env, "prove", *files, *options, hangup_ignored="ignored" in how) as screen:
        screen.shows("lost 0")
        taken_away(screen, how)
        assert screen.ends() == 0
    assert public.read_text(encoding="utf-8").split() == (CASE / "public.json").read_text().split()
    verify = [sys.executable, "-m", "cuzk_top.cli", "verify", CASE / "verification_key.json", public, proof]
    assert subprocess.run(verify, env=env, capture_output=True, check=False).returncode == 0
    found = trace.open(file)
    prove = [name.text for name in found.session.names].index("prove")
    assert (found.columns.name == prove).sum() == PROOFS


def test_a_demo_ends_with_its_terminal(env: dict[str, str], tmp_path: Path) -> None:
    with opened(env, "demo", "--backend", "python", "--trace", tmp_path / "t.cuzk") as screen:
        screen.shows("lost 0", "msm")
        screen.hang_up()
        assert screen.ends() == 0
    assert len(trace.open(tmp_path / "t.cuzk").columns) > 0
    assert not list((tmp_path / "run").rglob("*.ring")), "its prover has ended and left nothing"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_program_gets_the_signal_and_is_watched_to_its_end(
    number: signal.Signals, env: dict[str, str], tmp_path: Path
) -> None:
    code = (
        f"{TRACED}\ngot = []\nsignal.signal({int(number)}, lambda *_: got.append(1))\nwork(0)\n"
        "while not got: time.sleep(0.01)\nfor i in range(1, 5): work(i)\nsys.exit(5)"
    )
    file = tmp_path / "t.cuzk"
    with opened(env, "run", "-o", file, "--", sys.executable, "-c", code) as screen:
        screen.shows("lost 0", "msm h")
        screen.kill(number)
        assert screen.ends() == 5
        given_back(screen)
    assert numbers(file) == list(range(5))


def test_a_program_outlives_the_terminal(env: dict[str, str], tmp_path: Path) -> None:
    code = (
        f"{TRACED}\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\nwork(0)\n"
        "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\nprint('said to nobody', flush=True)\n"
        "for i in range(1, 5): work(i)\nsys.exit(6)"
    )
    file, go = tmp_path / "t.cuzk", tmp_path / "go"
    with opened(env, "run", "-o", file, "--", sys.executable, "-c", code, go) as screen:
        screen.shows("lost 0", "msm h")
        screen.hang_up()
        time.sleep(0.3)
        assert screen.running()
        go.write_text("")
        assert screen.ends() == 6
    assert numbers(file) == list(range(5))


def test_a_terminal_that_stops_reading_holds_up_no_record(
    prover: subprocess.Popen[str], env: dict[str, str], tmp_path: Path
) -> None:
    """A ring of 64 KiB would be overwritten in the time; what the viewer wrote meanwhile is one picture."""
    file = tmp_path / "t.cuzk"
    with opened(env, "attach", "-o", file, prover.pid) as screen:
        screen.shows("lost 0", "msm h")
        before = len(screen.raw)
        time.sleep(4)
        assert screen.running()
        screen.send(b"2")
        screen.shows("majflt  ", "p95")  # heads of the stage table
        assert len(screen.raw) - before < 100_000
        screen.send(b"q")
        assert screen.ends() == 0
        given_back(screen)
    found = numbers(file)
    assert found == list(range(found[0], found[0] + len(found)))
    assert len(found) > 4 / 0.05, "those of the time in which nobody read are among them"
