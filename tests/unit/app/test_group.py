"""Several rings as one source: a program and its children, other namespaces, going on where a reader was."""

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from traced import Traced

from cuzk_top import detail, recording, recovery, trace
from cuzk_top.collector import Collector
from cuzk_top.errors import InputError, RingError
from cuzk_top.model import FLAG_OPEN, KIND_SPAN
from cuzk_top.sources.group import Descendants, Group
from cuzk_top.sources.ring import RingSource, SessionList, find
from cuzk_top.store import Store
from cuzk_tracer import layout, places

CLOCK = time.monotonic_ns


@pytest.fixture
def traced(tmp_path):
    programs = []

    def start(code: str) -> Traced:
        programs.append(Traced(tmp_path, code))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()


STEPS = """
    S = cuzk_tracer.span("msm.h", a0="i"); OUT = cuzk_tracer.span("prove")
    i = 0
    with OUT:
        for line in sys.stdin:
            for _ in range(int(line)):
                with S(i): pass
                i += 1
            print(i, flush=True)
"""


def step(program: Traced, count: int) -> None:
    program.say(str(count))
    program.hear()


def finish(program: Traced) -> None:
    program.process.stdin.close()
    program.process.stdin = None
    program.wait()


def test_two_programs_are_one_source(traced):
    one, two = traced(STEPS), traced(STEPS.replace("msm.h", "msm.l"))
    step(one, 3)
    step(two, 5)
    paths = [[one.ring, two.ring]]
    group = Group(lambda: paths.pop() if paths else [], CLOCK)
    batch = group.poll()
    names = [batch.session.names[int(n)].text for n in batch.columns.name]
    assert (names.count("msm.h"), names.count("msm.l")) == (3, 5)
    assert batch.columns.seq.tolist() == list(range(8))
    assert batch.session.pid == one.process.pid
    assert [(t.label, t.tid) for t in batch.session.tracks.values()] == [
        ("main", one.process.pid), (f"main [{two.process.pid}]", two.process.pid),
    ]  # fmt: skip
    tracks = batch.columns.track
    assert (batch.columns.id >> np.uint64(32) == tracks).all() and set(tracks.tolist()) == {1, 2}
    assert [batch.session.names[int(n)].text for n in batch.open.name] == ["prove", "prove"]
    one.kill()
    step(two, 1)
    batch = group.poll()
    assert not batch.ended and len(batch.columns) == 1
    (problem,) = batch.problems
    assert problem.startswith(f"process {one.process.pid}: the process was killed or crashed")
    assert [batch.session.names[int(n)].text for n in batch.open.name] == ["prove", "prove"], (
        "the dead one's too"
    )
    finish(two)
    batch = group.poll()
    assert batch.ended and len(batch.columns) == 1
    group.close()


@pytest.mark.parametrize("from_start", [True, False])
def test_what_is_overwritten_before_the_first_poll_is_lost_of_a_program_that_we_started(traced, from_start):
    """A main thread has room for 65,536 records, of which one may be half overwritten."""
    program = traced(STEPS)
    step(program, 70_000)
    paths = [[program.ring]]
    group = Group(lambda: paths.pop() if paths else [], CLOCK, from_start=from_start)
    batch = group.poll()
    assert len(batch.columns) == 65_535
    assert batch.lost == (70_000 - 65_535 if from_start else 0)
    assert batch.problems == (
        () if from_start else ("4,465 records are older than this viewer and no longer in the ring",)
    )
    step(program, 5)
    batch = group.poll()
    group.close()
    assert (len(batch.columns), batch.lost) == (5, 4_465 if from_start else 0)


def test_a_ring_that_cannot_be_read_leaves_the_others(traced, tmp_path):
    program = traced(STEPS)
    step(program, 2)
    (tmp_path / "x.ring").write_text("nonsense")
    paths = [[str(tmp_path / "x.ring"), program.ring]]
    group = Group(lambda: paths.pop() if paths else [], CLOCK, lambda: True, "nothing yet")
    batch = group.poll()
    group.close()
    assert len(batch.columns) == 2 and not batch.ended
    assert any("not a trace ring" in problem for problem in batch.problems)


def test_without_a_ring_it_says_so_until_the_program_ends():
    running = [True]
    group = Group(lambda: [], CLOCK, lambda: running[0], "x has not traced anything yet")
    batch = group.poll()
    assert (batch.ended, batch.problems) == (False, ("x has not traced anything yet",))
    running[0] = False
    assert group.poll().ended


def test_descendants_are_found_by_the_sessions_they_name(tmp_path, monkeypatch):
    """A program, what it executes, what that forks; and a stranger."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "child.py").write_text(
        "import cuzk_tracer, os\n"
        "with cuzk_tracer.span('child'): pass\n"
        "if os.fork() == 0:\n"
        "    with cuzk_tracer.span('forked'): pass\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    (tmp_path / "parent.py").write_text(
        "import cuzk_tracer, subprocess, sys\n"
        "with cuzk_tracer.span('parent'): subprocess.run([sys.executable, sys.argv[1]])\n"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("CUZK_")}
    session = "0123456789abcdef" * 2
    parent = env | {places.PARENT_VARIABLE: f"{session}:{os.getpid()}"}
    subprocess.run([sys.executable, tmp_path / "parent.py", tmp_path / "child.py"], env=parent, check=True)
    subprocess.run([sys.executable, "-c", "import cuzk_tracer; cuzk_tracer.open()"], env=env, check=True)
    find_them = Descendants(session)
    found = find_them()
    texts = []
    for path in found:
        source = RingSource(path, CLOCK)
        batch = source.poll()
        source.close()
        texts.append([batch.session.names[int(n)].text for n in batch.columns.name])
    assert texts == [["parent"], ["child"], ["forked"]], "parents before their children"
    assert find_them() == []
    assert len(list((tmp_path / "cuzk").glob("*.ring"))) == 4


# Going on where another reader was.


def recorded(program: Traced, path: Path, steps: list[int], **more) -> Collector:
    recorder = recording.Recorder(path, **more)
    collector = Collector(RingSource(program.ring, CLOCK), [], Store(), recorder, CLOCK)
    for count in steps:
        step(program, count)
        collector.step()
    recorder._flush(collector._last)  # what 100 ms would do
    return collector


def cut(collector: Collector, bytes_off: int = 0) -> None:
    """Leave the recording as a SIGKILL of the viewer does."""
    recorder = collector._recorder
    with recorder.path.open("r+b") as file:
        file.truncate(recorder.path.stat().st_size - bytes_off)


@pytest.mark.parametrize("bytes_off", [0, 1, 3000])
def test_recovery_misses_nothing_and_doubles_nothing(traced, tmp_path, bytes_off):
    program = traced(STEPS)
    collector = recorded(program, tmp_path / "t.cuzk", [10, 20, 30])
    step(program, 40)
    cut(collector, bytes_off)
    program.kill()
    found = recovery.recover([Path(program.ring), tmp_path / "t.cuzk"], CLOCK)
    columns = found.trace.columns
    closed = columns.take(columns.flags & FLAG_OPEN == 0)
    assert sorted(closed.a0.tolist()) == list(range(100))
    assert len(set(closed.id.tolist())) == 100
    assert len(set(columns.seq.tolist())) == 101
    assert [found.trace.session.names[int(n)].text for n in columns.name[columns.flags & FLAG_OPEN != 0]] == [
        "prove"
    ]
    assert found.lost == 0 and found.recorded + found.added == 100
    assert (found.added == 40) == (bytes_off == 0), "what the cut took off came from the ring again"
    assert "cut off" not in " ".join(found.trace.problems)
    assert len({track.label for track in found.trace.session.tracks.values()}) == 1


def test_recovery_after_a_recording_that_was_closed_while_the_program_went_on(traced, tmp_path):
    program = traced(STEPS)
    collector = recorded(program, tmp_path / "t.cuzk", [10])
    collector.stop()
    collector._finish()
    assert (trace.open(tmp_path / "t.cuzk").columns.flags & FLAG_OPEN != 0).sum() == 1
    step(program, 5)
    finish(program)
    found = recovery.recover([tmp_path / "t.cuzk", Path(program.ring)], CLOCK)
    columns = found.trace.columns
    names = [found.trace.session.names[int(n)].text for n in columns.name]
    assert sorted(columns.a0[columns.kind == KIND_SPAN].tolist())[:2] == [0, 0] and names.count("msm.h") == 15
    assert names.count("prove") == 1 and not (columns.flags & FLAG_OPEN).any(), "open then, ended now"
    assert found.trace.ended


def test_what_the_ring_has_overwritten_meanwhile_is_counted(traced, tmp_path):
    program = traced(STEPS)
    collector = recorded(program, tmp_path / "t.cuzk", [10])
    step(program, 70_000)
    cut(collector)
    program.kill()
    found = recovery.recover([Path(program.ring), tmp_path / "t.cuzk"], CLOCK)
    ring_holds = 65_536 - 1
    assert (found.recorded, found.added, found.lost) == (10, ring_holds, 70_000 - ring_holds)


def test_a_ring_alone_becomes_a_trace(traced):
    program = traced(STEPS)
    step(program, 7)
    program.kill()
    found = recovery.recover([Path(program.ring)], CLOCK)
    assert (found.recorded, found.added, len(found.trace)) == (0, 7, 8)
    assert found.trace.session.pid == program.process.pid


def test_recovery_refuses_what_does_not_belong_together(traced, tmp_path):
    one, two = traced(STEPS), traced(STEPS)
    for program, name in ((one, "a"), (two, "b")):
        cut(recorded(program, tmp_path / f"{name}.cuzk", [1]))
    with pytest.raises(InputError, match="another session"):
        recovery.recover([tmp_path / "a.cuzk", Path(two.ring)], CLOCK)
    with pytest.raises(InputError, match="a second recording"):
        recovery.recover([tmp_path / "a.cuzk", tmp_path / "b.cuzk"], CLOCK)
    with pytest.raises(InputError, match="No such file"):
        recovery.recover([tmp_path / "c.cuzk"], CLOCK)


# Namespaces.


def in_namespace(tmp_path: Path, *options: str) -> subprocess.Popen:
    """A traced program whose /dev/shm is its own."""
    code = textwrap.dedent("""
        import cuzk_tracer, sys
        S = cuzk_tracer.span("inside", a0="i")
        with S(42): pass
        print(cuzk_tracer.ring_path(), flush=True)
        sys.stdin.readline()
    """)
    script = f"mount -t tmpfs none /dev/shm && exec {sys.executable} -c '{code}'"
    env = {
        key: value
        for key, value in os.environ.items()
        if key != "XDG_RUNTIME_DIR" and not key.startswith("CUZK_")
    }
    probe = subprocess.run(
        ["unshare", *options, "mount", "-t", "tmpfs", "none", "/dev/shm"],
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode:
        pytest.skip(f"unshare {' '.join(options)} is not permitted here: {probe.stderr.strip()}")
    return subprocess.Popen(
        ["unshare", *options, "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    )


@pytest.mark.parametrize("options", [("-m",), ("-Urm",), ("-mpf", "--mount-proc")], ids=" ".join)
def test_a_program_in_another_mount_namespace(tmp_path, options):
    process = in_namespace(tmp_path, *options)
    try:
        path = process.stdout.readline().strip()
        assert path.startswith("/dev/shm/cuzk-")
        assert not Path(path).exists(), "it is not in our /dev/shm"
        pid = process.pid
        if "-mpf" in options:  # unshare has forked
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
        ring = find(pid)
        assert ring.startswith(f"/proc/{pid}/")
        source = RingSource(ring, CLOCK)
        batch = source.poll()
        assert batch.columns.a0.tolist() == [42] and not batch.ended
        assert source.ring.pid == pid and batch.session.pid == pid
        if Path(f"/proc/{pid}").stat().st_uid == os.getuid():
            assert pid in [info.pid for info in SessionList(CLOCK).refresh() if info.alive]
        process.communicate("\n", timeout=30)
        assert source.poll().ended
        source.close()
    finally:
        process.kill()
        process.communicate()


# Detail.


def test_the_detail_of_a_running_program_is_one_word_of_its_ring(traced):
    program = traced("sys.stdin.readline()")
    offset = {name: at for name, at, _ in layout.HEADER}["enabled"]
    before = Path(program.ring).read_bytes()[: layout.HEADER_BYTES]
    for level, word in (("off", 0), ("coarse", 1), ("all", 2)):
        detail.set_level(program.ring, level)
        after = Path(program.ring).read_bytes()[: layout.HEADER_BYTES]
        assert after[offset : offset + 4] == word.to_bytes(4, "little")
    assert {i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b} <= set(
        range(192, 304)
    ), "no other"
    program.say()
    program.wait()
    with pytest.raises(RingError, match="has ended"):
        detail.set_level(program.ring, "off")
