"""run, attach -o, pack, recover and export as a user runs them."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_cases import Command

import cuzk_tracer
from cuzk_top import trace

TRACED = """
import cuzk_tracer, os, signal, sys, time
S = cuzk_tracer.span("msm.h", a0="i", stage=True)
for i in range(3):
    with S(i): pass
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A traced Python program that does what further arguments say."""
    path = tmp_path / "program.py"
    path.write_text(TRACED + "\nexec(sys.argv[1] if len(sys.argv) > 1 else '')\n")
    return path


def cuzk(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "cuzk_top.cli", *map(str, arguments)]


# run


def test_run_passes_output_and_exit_code_and_records(
    cuzk_top: Command, program: Path, tmp_path: Path
) -> None:
    what = "print('to stdout'); print('to stderr', file=sys.stderr); sys.exit(7)"
    done = cuzk_top("run", "-o", tmp_path / "t.cuzk", "--", sys.executable, program, what)
    assert done.returncode == 7
    assert done.stdout == "to stdout\n", "standard output is the program's alone"
    assert "to stderr" in done.stderr and done.stderr.count("msm.h") >= 3
    assert done.stderr.splitlines()[-1] == f"trace     {tmp_path / 't.cuzk'}"
    data = json.loads(cuzk_top("report", tmp_path / "t.cuzk", "--json").stdout)
    assert {stage["name"]: stage["count"] for stage in data["stages"]} == {"msm.h": 3}
    assert data["lost"] == 0


def test_run_saves_to_the_traces_folder_by_default(cuzk_top: Command, program: Path, tmp_path: Path) -> None:
    assert cuzk_top("run", "--", sys.executable, program).returncode == 0
    (saved,) = (tmp_path / "state" / "cuzk-top" / "traces").glob("*.cuzk")
    assert len(trace.open(saved).columns) >= 3
    assert not list((tmp_path / "run").rglob("*.ring")), "what was recorded is not kept twice"


def test_run_follows_children_too(cuzk_top: Command, program: Path, tmp_path: Path) -> None:
    child = "import subprocess; subprocess.run([sys.executable, sys.argv[0]])"
    done = cuzk_top(
        "run", "-o", tmp_path / "t.cuzk", "--", "sh", "-c", f'{sys.executable} {program} "{child}"; true'
    )
    assert done.returncode == 0
    opened = trace.open(tmp_path / "t.cuzk")
    spans = opened.columns.take(opened.columns.kind == 1)
    assert spans.a0.tolist().count(2) == 2, "the child of a shell's child, and its child"
    assert len({track.tid for track in opened.session.tracks.values() if track.kind == "thread"}) == 2


def test_run_reads_its_input_for_the_program(environment: dict[str, str]) -> None:
    done = subprocess.run(
        cuzk("run", "--", "tr", "a-z", "A-Z"),
        input="hello\n",
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "HELLO\n")


def test_a_program_that_never_traces_gets_one_line(cuzk_top: Command, tmp_path: Path) -> None:
    done = cuzk_top("run", "-o", tmp_path / "t.cuzk", "--", "sh", "-c", "echo hi; exit 3")
    assert (done.returncode, done.stdout) == (3, "hi\n")
    assert done.stderr.splitlines() == [
        "cuzk-top: sh was not traced: neither it nor what it started uses CUDA, NVTX or cuzk_tracer"
    ]
    assert not (tmp_path / "t.cuzk").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run"], 2, "which program?"),
        (["run", "--"], 2, "which program?"),
        (["run", "--", "no-such-command"], 127, "no-such-command: no such command"),
        (["run", "--", __file__], 126, "not an executable file"),
        (["run", "-o", "no/such/folder/t.cuzk", "--", "true"], 2, "no/such/folder/t.cuzk: No such file"),
        (["run", "--max-size", "12", "--", "true"], 2, "at least 1M"),
        (["run", "--max-size", "much", "--", "true"], 2, "not a size"),
        (["attach", "4194000"], 2, "no process 4194000"),
        (["pack", "no.cuzk"], 2, "no.cuzk: No such file"),
        (["recover", "no.ring", "-o", "x.cuzk"], 2, "no.ring: No such file"),
        (["export", "no.cuzk", "x.pftrace"], 2, "no.cuzk: No such file"),
        (["export", "no.cuzk", "x.svg"], 2, "which format?"),
    ],
)
def test_mistakes_end_in_one_line(cuzk_top: Command, arguments: list[str], code: int, says: str) -> None:
    done = cuzk_top(*arguments)
    assert done.returncode == code
    assert says in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_command_that_does_not_start_leaves_no_file(cuzk_top: Command, tmp_path: Path) -> None:
    script = tmp_path / "empty"
    script.write_bytes(b"\x7fELF")
    script.chmod(0o755)
    for command in ("no-such-command", script):
        assert cuzk_top("run", "-o", tmp_path / "t.cuzk", "--", command).returncode in (126, 127)
        assert not (tmp_path / "t.cuzk").exists()


def test_run_begins_to_watch_before_the_program_traces(cuzk_top: Command, tmp_path: Path) -> None:
    """More records at once, from the start, than a ring holds in the time that a viewer takes to load."""
    program = tmp_path / "busy.py"
    program.write_text(
        "import cuzk_tracer, time\nS = cuzk_tracer.span('msm.h', a0='i')\n"
        "for i in range(120_000):\n    with S(i): pass\n    if i % 10_000 == 0: time.sleep(0.2)\n"
    )
    done = cuzk_top("run", "-o", tmp_path / "t.cuzk", "--", sys.executable, program)
    assert done.returncode == 0, done.stderr
    opened = trace.open(tmp_path / "t.cuzk")
    spans = opened.columns.take(opened.columns.kind == 1)
    assert sorted(spans.a0.tolist()) == list(range(120_000))
    assert done.stderr.count("\n") < 3_000, "spans by the thousand are not told one by one"


def test_a_program_ended_by_a_signal_gives_a_shells_exit_code(cuzk_top: Command, program: Path) -> None:
    done = cuzk_top("run", "--", sys.executable, program, "os.kill(os.getpid(), signal.SIGKILL)")
    assert done.returncode == 128 + signal.SIGKILL
    assert "killed or crashed" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_are_handed_on(
    environment: dict[str, str], program: Path, tmp_path: Path, number: int
) -> None:
    """One sent to cuzk-top alone reaches the program, whose answer is its own exit code."""
    what = (
        f"signal.signal({int(number)}, lambda *_: (print('got it', flush=True), sys.exit(42)));"
        "print('ready', flush=True)\nwhile True: time.sleep(0.01)"
    )
    command = cuzk("run", "-o", tmp_path / "t.cuzk", "--", sys.executable, program, what)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (42, "got it\n"), err
    assert len(trace.open(tmp_path / "t.cuzk").columns) >= 3


def test_stopped_and_continued_the_recorder_goes_on(
    environment: dict[str, str], program: Path, tmp_path: Path
) -> None:
    """For longer than it ever waits: the system call is interrupted then, past its time."""
    command = cuzk("run", "-o", tmp_path / "t.cuzk", "--", sys.executable, program, "print(input())")
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment,
    )  # fmt: skip
    deadline = time.monotonic() + 30
    while not (tmp_path / "t.cuzk").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(3):
        time.sleep(0.2)  # it has begun to follow
        process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        process.send_signal(signal.SIGCONT)
    out, err = process.communicate("gone on\n", timeout=60)
    assert (process.returncode, out) == (0, "gone on\n"), err


def test_a_program_has_the_signals_that_it_would_have_without_us(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """SIGPIPE ends it, which Python ignores; what nohup ignores stays ignored; nothing is blocked."""
    show = "grep -E '^Sig(Blk|Ign)' /proc/self/status; yes | head -1"
    with_us = ["run", "-o", str(tmp_path / "t.cuzk"), "--", "sh", "-c", show]
    outputs = []
    for command in (["sh", "-c", show], cuzk(*with_us)):
        done = subprocess.run(
            ["nohup", *command], capture_output=True, text=True, env=environment, timeout=60, check=False
        )
        assert "Broken pipe" not in done.stderr
        _, blocked, _, ignored, yes = done.stdout.split()
        # The numbers below 32: glibc keeps two above for itself.
        outputs.append((int(blocked, 16), int(ignored, 16) & 0x7FFF_FFFF, yes))
    assert outputs == [(0, 1, "y"), (0, 1, "y")], "only SIGHUP is ignored"


# run and the terminal


class Terminal:
    """A command on a pseudo-terminal."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, env | {"TERM": "xterm-256color"})
        self.seen = b""

    def until(self, text: bytes, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen[-2000:]
            if select.select([self.fd], [], [], 0.1)[0]:
                self.seen += os.read(self.fd, 1 << 16)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def wait(self) -> int:
        while True:
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            self.seen += data
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        os.close(self.fd)
        if Path(f"/proc/{self.pid}").exists():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def terminal(environment: dict[str, str]) -> Iterator[object]:
    opened: list[Terminal] = []

    def start(*arguments: str | Path) -> Terminal:
        opened.append(Terminal(cuzk(*arguments), environment))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_without_a_screen_the_terminal_is_the_programs(terminal, program: Path) -> None:
    """It sees a terminal on all three, and Ctrl-C once."""
    what = (
        "got = []\n"
        "signal.signal(signal.SIGINT, lambda *_: (got.append(1), print('INTERRUPTED', flush=True)))\n"
        "print('TTY', [os.isatty(i) for i in range(3)], flush=True)\n"
        "while not got: time.sleep(0.01)\n"
        "print('READ', input(), flush=True)\ntime.sleep(0.2)\nsys.exit(9)"
    )
    screen = terminal("run", "--no-screen", "--", sys.executable, program, what)
    screen.until(b"TTY [True, True, True]")
    screen.type(b"\x03")
    screen.until(b"INTERRUPTED\r\n")
    screen.type(b"line\n")
    screen.until(b"READ line")
    assert screen.wait() == 9
    assert screen.seen.count(b"INTERRUPTED\r\n") == 1, "the key reached it, and we did not send it again"


def test_on_a_screen_its_output_waits_until_the_screen_is_left(
    terminal, program: Path, tmp_path: Path
) -> None:
    # A line is one write, so that the two streams meet between lines, whatever buffers Python is told to use.
    what = (
        "for i in range(3): os.write(1, b'out %d\\n' % i); os.write(2, b'err %d\\n' % i)\n"
        "os.write(1, b'INPUT %r\\n' % sys.stdin.read())\n"
        "while not os.path.exists(sys.argv[2]): time.sleep(0.01)\nprint('after', flush=True); sys.exit(5)"
    )
    go = tmp_path / "go"
    screen = terminal("run", "-o", tmp_path / "t.cuzk", "--", sys.executable, program, what, go)
    screen.until(b"viewer")  # a word of the header: the screen is up
    assert b"out 2\r\n" not in screen.seen
    screen.type(b"q")
    screen.until(b"INPUT ''\r\n")
    go.write_text("")
    assert screen.wait() == 5
    assert b"after" in screen.seen
    printed = screen.seen[screen.seen.rindex(b"out 0") - 3 * 8 :]  # standard error's lines may come first
    for stream in (b"out", b"err"):
        places = [printed.rindex(b"%s %d\r\n" % (stream, i)) for i in range(3)]
        assert places == sorted(places), "each stream in its order"
    assert len(trace.open(tmp_path / "t.cuzk").columns) >= 3


# attach

PROVER = """
import cuzk_tracer, sys, time
STEP = cuzk_tracer.span("msm.h", stage=True); LEAF = cuzk_tracer.span("leaf")
cuzk_tracer.open()
print("ready", flush=True)
while True:
    with STEP:
        with LEAF: time.sleep(0.005)
"""


@pytest.fixture
def prover(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROVER], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def test_attach_records_until_ctrl_c(
    prover: subprocess.Popen[str], environment: dict[str, str], tmp_path: Path
) -> None:
    command = cuzk("attach", "-o", tmp_path / "t.cuzk", prover.pid)
    watcher = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert watcher.stdout is not None
    for _ in range(20):
        watcher.stdout.readline()
    watcher.send_signal(signal.SIGINT)
    out, _ = watcher.communicate(timeout=30)
    assert watcher.returncode == 130
    assert out.splitlines()[-1] == f"trace     {tmp_path / 't.cuzk'}"
    assert prover.poll() is None
    assert len(trace.open(tmp_path / "t.cuzk").columns) >= 20


def test_attach_watches_several_at_once(
    prover: subprocess.Popen[str], environment: dict[str, str], tmp_path: Path
) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", PROVER.replace("msm.h", "msm.l")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert other.stdout is not None
        other.stdout.readline()
        command = cuzk("attach", "-o", tmp_path / "t.cuzk", prover.pid, other.pid)
        watcher = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert watcher.stdout is not None
        seen = ""
        while "msm.h" not in seen or "msm.l" not in seen:
            seen += watcher.stdout.readline()
        watcher.send_signal(signal.SIGINT)
        watcher.communicate(timeout=30)
    finally:
        other.kill()
        other.communicate()
    tracks = trace.open(tmp_path / "t.cuzk").session.tracks.values()
    assert {track.tid for track in tracks if track.kind == "thread"} == {prover.pid, other.pid}


@pytest.mark.skipif(not hasattr(cuzk_tracer, "flow"), reason="this tracer does not look at the word yet")
def test_attach_switches_what_a_program_traces(
    prover: subprocess.Popen[str], environment: dict[str, str], tmp_path: Path
) -> None:
    """Down to stages only, up to everything again: without the program's help, within a second or so."""
    seen = {}
    for level in ("coarse", "all"):
        file = tmp_path / f"{level}.cuzk"
        watcher = subprocess.Popen(
            cuzk("attach", "--detail", level, "-o", file, prover.pid),
            stdout=subprocess.DEVNULL,
            env=environment,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            time.sleep(0.5)
            opened = trace.open(file) if file.exists() and file.stat().st_size else None
            if opened is None or len(opened) < 2:
                continue
            columns = opened.columns.take(opened.columns.kind == 1)
            names = [opened.session.names[int(n)].text for n in columns.name]
            last = {name: int(columns.end_ns[i]) for i, name in enumerate(names)}
            seen[level] = last.get("msm.h", 0) - last.get("leaf", 0)
            if (seen[level] > 500_000_000) == (level == "coarse") and names.count("msm.h") > 50:
                break
        watcher.send_signal(signal.SIGINT)
        watcher.wait(timeout=30)
    assert seen["coarse"] > 500_000_000, "stages went on half a second after the last leaf"
    assert seen["all"] < 500_000_000, "leaves are back"


def test_a_killed_viewer_and_a_killed_prover_leave_a_whole_trace(
    prover: subprocess.Popen[str], environment: dict[str, str], cuzk_top: Command, tmp_path: Path
) -> None:
    watcher = subprocess.Popen(
        cuzk("attach", "-o", tmp_path / "t.cuzk", prover.pid),
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert watcher.stdout is not None
    for _ in range(30):
        watcher.stdout.readline()
    watcher.kill()
    watcher.communicate()
    time.sleep(0.1)
    prover.kill()
    prover.wait()
    (ring,) = (tmp_path / "run" / "cuzk").glob("*.ring")
    done = cuzk_top("recover", ring, tmp_path / "t.cuzk", "-o", tmp_path / "whole.cuzk")
    assert done.returncode == 0, done.stderr
    assert " 0 lost" in done.stdout.splitlines()[-1]
    opened = trace.open(tmp_path / "whole.cuzk")
    columns = opened.columns
    leaves = columns.take(
        (columns.name == [n.text for n in opened.session.names].index("leaf")) & (columns.flags == 0)
    )
    numbers = sorted((leaves.id & 0xFFFFFFFF).tolist())
    assert numbers == list(range(numbers[0], numbers[0] + 2 * len(numbers), 2)), "every second span is a leaf"
    assert numbers[0] == 2, "from the first on"


# pack and export


def test_pack_and_export(cuzk_top: Command, program: Path, tmp_path: Path) -> None:
    file = tmp_path / "t.cuzk"
    assert cuzk_top("run", "-o", file, "--", sys.executable, program).returncode == 0
    before = trace.open(file).columns
    done = cuzk_top("pack", "--zstd", file)
    assert done.returncode == 0, done.stderr
    assert f"{len(before):,} records" in done.stdout
    assert trace.open(file).columns.a0.tolist() == before.a0.tolist()
    for suffix in ("pftrace", "json", "parquet", "csv", "cuzk"):
        out = tmp_path / f"x.{suffix}"
        done = cuzk_top("export", file, out)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1].startswith(f"{out}: {len(before):,} of {len(before):,} records, ")
    done = cuzk_top("export", file, tmp_path / "x.csv", "--from", "10", "--to", "1:30")
    assert done.returncode == 0 and "0 of" in done.stdout
    done = cuzk_top("export", file, tmp_path / "x.csv", "--from", "soon")
    assert done.returncode == 2 and "not a time: 'soon'" in done.stderr


@pytest.mark.parametrize("wish", [None, "3"])
def test_a_program_has_the_environment_that_it_would_have_without_us(
    cuzk_top: Command, environment: dict[str, str], wish: str | None
) -> None:
    """But for what has it traced. The viewer itself keeps numpy from starting threads."""
    environment.pop("OPENBLAS_NUM_THREADS", None)
    changes = {} if wish is None else {"OPENBLAS_NUM_THREADS": wish}
    for name in ("LANG", "LC_ALL", "LC_CTYPE"):
        environment.pop(name, None)  # then Python sets LC_CTYPE, for us
    done = cuzk_top("run", "--", "env", "-0", **changes)
    seen = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
    added = {name for name in seen if name not in environment | changes}
    assert {name.partition("_")[0] for name in added} <= {"CUZK", "CUDA", "NVTX"}
    assert seen.get("OPENBLAS_NUM_THREADS") == wish
