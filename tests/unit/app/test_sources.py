"""Live rings as batches, several sources under one session, and the collector's thread."""

import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traced import Traced

from cuzk_top.collector import Collector
from cuzk_top.errors import RingError
from cuzk_top.live import LIMIT_BYTES, LiveSession
from cuzk_top.merge import PROBE_TRACKS, Merger
from cuzk_top.model import (
    FLAG_ERR,
    FLAG_F64,
    FLAG_FAULTS,
    FLAG_OPEN,
    FLAG_UNBALANCED,
    KIND_ASYNC,
    KIND_COUNTER,
    KIND_SPAN,
    Batch,
    Columns,
    Name,
    Session,
    Track,
)
from cuzk_top.sources.absent import AbsentRing
from cuzk_top.sources.ring import RingSource, SessionList, find, remove_stale
from cuzk_top.store import DEFAULT_LIMIT_BYTES, Store


@pytest.fixture
def traced(tmp_path):
    programs = []

    def start(code: str) -> Traced:
        programs.append(Traced(tmp_path, code))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()


PROOF = """
    PROVE = cuzk_tracer.span("prove", stage=True); MSM = cuzk_tracer.span("msm.h", a0="share", faults=True)
    LEAK = cuzk_tracer.span("leak")
    cuzk_tracer.meta(backend="cpu-python", job="demo")
    with PROVE:
        with MSM(0.25):
            LEAK.__enter__()
        try:
            with MSM(3): raise ValueError
        except ValueError: pass
        cuzk_tracer.counter("queue", 3)
        with MSM(9):
            print("in", flush=True)
            sys.stdin.readline()
"""


def test_records_become_columns(traced):
    program = traced(PROOF)
    assert program.hear() == "in"
    source = RingSource(program.ring, time.monotonic_ns)
    batch = source.poll()
    session = batch.session
    assert (session.pid, session.name) == (program.process.pid, "demo")
    assert session.meta["backend"] == "cpu-python"
    assert session.tracks[1] == Track(1, "thread", "main", program.process.pid)
    texts = [session.names[int(n)].text for n in batch.columns.name]
    assert texts == ["leak", "msm.h", "msm.h", "queue"]
    assert session.names[int(batch.columns.name[1])] == Name("msm.h", "share", "", False, True)
    assert batch.columns.flags.tolist() == [
        FLAG_UNBALANCED, FLAG_F64 | FLAG_FAULTS, FLAG_ERR | FLAG_FAULTS, 0,
    ]  # fmt: skip
    assert batch.columns.kind.tolist() == [KIND_SPAN] * 3 + [KIND_COUNTER]
    assert batch.columns.depth.tolist() == [2, 1, 1, 1]
    one = 1 << 32
    assert batch.columns.id.tolist() == [one | 3, one | 2, one | 4, 0]
    assert batch.columns.parent.tolist() == [one | 2, one | 1, one | 1, one | 1]
    assert batch.columns.a0[:3].view(np.float64)[1] == 0.25
    assert batch.columns.seq.tolist() == [0, 1, 2, 3]
    assert not batch.ended and batch.lost == 0 and batch.problems == ()
    open_ = batch.open
    assert [session.names[int(n)].text for n in open_.name] == ["prove", "msm.h"]
    assert (open_.flags & FLAG_OPEN).all() and open_.depth.tolist() == [0, 1]
    assert open_.parent.tolist() == [0, one | 1] and open_.a0.tolist() == [0, 9]
    assert (open_.end_ns == batch.now_ns).all()
    program.say()
    program.wait()
    last = source.poll()
    assert last.ended and len(last.columns) == 2 and len(last.open) == 0
    assert last.problems == ()
    source.close()


def test_what_a_killed_program_leaves(traced):
    program = traced(PROOF)
    program.hear()
    source = RingSource(program.ring, time.monotonic_ns)
    source.poll()
    program.kill()
    batch = source.poll()
    assert batch.ended
    assert [batch.session.names[int(n)].text for n in batch.open.name] == ["prove", "msm.h"]
    assert "killed or crashed" in batch.problems[0]
    again = source.poll()
    assert again.now_ns == batch.now_ns, "time stands still after the end"
    source.discard()
    assert not Path(program.ring).exists()
    source.close()


def test_a_session_ends_no_earlier_than_its_last_record(traced):
    """Records are read after the clock is: some ended in between."""
    program = traced("""
        with cuzk_tracer.span("prove"): pass
        print("in", flush=True)
        sys.stdin.readline()
    """)
    assert program.hear() == "in"
    early = time.monotonic_ns() - 100_000_000
    source = RingSource(program.ring, lambda: early)
    end = int(source.poll().columns.end_ns.max())
    assert end > early
    program.say()
    program.wait()
    last = source.poll()
    assert last.ended and last.now_ns == end
    source.close()


def test_overlapping_async_spans_get_rows_of_their_own(traced):
    program = traced("""
        import asyncio
        JOB = cuzk_tracer.async_span("job", a0="i")
        async def job(i):
            async with JOB(i): await asyncio.sleep(0.002 * (4 - i))
        async def main():
            await asyncio.gather(*(job(i) for i in range(4)))
        asyncio.run(main()); asyncio.run(main())
    """)
    program.wait()
    source = RingSource(program.ring, time.monotonic_ns)
    batch = source.poll()
    source.close()
    columns = batch.columns
    assert columns.kind.tolist() == [KIND_ASYNC] * 8
    (track,) = set(columns.track.tolist())
    assert batch.session.tracks[track].kind == "async"
    # The shortest of four that begin together ends first and is placed first; the second round fits in again.
    assert columns.a0.tolist() == [3, 2, 1, 0] * 2
    assert columns.depth.tolist() == [0, 1, 2, 3] * 2
    store = Store()
    store.append(batch)
    assert [len(row.columns) for row in store.snapshot().rows] == [2, 2, 2, 2]


def test_sessions_are_listed_live_ones_first(traced, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    over = traced("cuzk_tracer.meta(job='over')")
    over.wait()
    program = traced("""
        S = cuzk_tracer.span("s")
        cuzk_tracer.meta(job="running")
        for line in sys.stdin:
            for _ in range(int(line)):
                with S: pass
            print("done", flush=True)
    """)
    (tmp_path / "cuzk" / "1.2.ring").write_text("nonsense")
    program.say("10")
    program.hear()
    now = [time.monotonic_ns()]
    sessions = SessionList(lambda: now[0])
    mine = [info for info in sessions.refresh() if info.path.startswith(str(tmp_path))]
    assert [(info.name, info.alive, info.spans, info.rate) for info in mine] == [
        ("running", True, 10, None),
        ("over", False, 0, None),
    ]
    assert mine[0].pid == program.process.pid and find(mine[0].pid) == program.ring
    program.say("30")
    program.hear()
    now[0] += 2_000_000_000
    again = next(info for info in sessions.refresh() if info.pid == program.process.pid)
    assert (again.spans, again.rate) == (40, 15.0)
    assert again.age_s >= 2.0
    program.kill()
    remove_stale(time.time())
    assert Path(program.ring).exists(), "a crashed one is kept for a week"
    remove_stale(time.time() + 8 * 86_400)
    assert not Path(program.ring).exists()


def test_errors_name_the_file(tmp_path):
    path = tmp_path / "x.ring"
    path.write_text("x")
    with pytest.raises(RingError, match="not a trace ring") as caught:
        RingSource(path, time.monotonic_ns)
    assert str(path) in str(caught.value) and caught.value.exit_code == 2
    with pytest.raises(RingError, match="no process"):
        find(2**22 + 1)


# Merging.


def columns(**more) -> Columns:
    return Columns.make(len(next(iter(more.values()))), **more)


def test_names_and_tracks_of_several_sources_share_a_session():
    merger = Merger()
    main = Session(pid=5, names=[Name(""), Name("prove")], tracks={1: Track(1, "thread", "main", 5)})
    probe = Session(names=[Name("host.rss"), Name("prove")], tracks={1: Track(1, "probe", "host")})
    probe.meta["missing.gpu.0.util"] = "no driver"
    first = merger.merge(
        Batch(main, columns(name=[1, 0], track=[1, 1]), Columns.empty(), lost=3, now_ns=9),
        [
            Batch(
                probe, columns(name=[0, 1], track=[1, 1]), Columns.empty(), lost=0, now_ns=9, problems=("p",)
            )
        ],
    )
    texts = [first.session.names[int(n)].text for n in first.columns.name]
    assert texts == ["prove", "", "host.rss", "prove"]
    assert first.columns.track.tolist() == [1, 1, PROBE_TRACKS, PROBE_TRACKS]
    assert first.session.tracks[PROBE_TRACKS] == Track(PROBE_TRACKS, "probe", "host")
    assert first.session.meta == {"missing.gpu.0.util": "no driver"}
    assert (first.lost, first.problems, first.session.pid) == (3, ("p",), 5)
    assert first.columns.seq.tolist() == [0, 1, 2, 3]
    main.names.append(Name("late"))
    second = merger.merge(
        Batch(main, columns(name=[2, 77]), columns(name=[2]), lost=3, now_ns=10, ended=True), []
    )
    assert second.session.names[int(second.columns.name[0])].text == "late"
    assert int(second.columns.name[1]) >= len(second.session.names), "a name nobody told of stays unknown"
    assert second.session.names[int(second.open.name[0])].text == "late"
    assert second.columns.seq.tolist() == [4, 5] and second.ended


# Collecting.


class Script:
    """A source that plays batches, then fails or ends."""

    due_ns = 0

    def __init__(self, batches, error=None):
        self.batches = list(batches)
        self.error = error
        self.closed = False

    def poll(self):
        if not self.batches:
            raise self.error
        return self.batches.pop(0)

    def close(self):
        self.closed = True


class Memory:
    def __init__(self, fails=None):
        self.batches = []
        self.closed = False
        self.fails = fails

    def append(self, batch):
        if self.fails:
            raise self.fails
        self.batches.append(batch)

    def close(self):
        self.closed = True


def script(count, **last):
    session = Session(names=[Name(""), Name("prove")])
    made = [
        Batch(session, columns(name=[1], start_ns=[i], end_ns=[i + 1], kind=[1]), Columns.empty(), 0, i)
        for i in range(count)
    ]
    return [*made[:-1], replace(made[-1], **last)]


def test_the_collector_runs_to_the_end_of_its_source():
    source, probe, memory, store = Script(script(3, ended=True)), Script([]), Memory(), Store()
    probe.poll = lambda: Batch(Session(names=[]), Columns.empty(), Columns.empty(), 0, 0)
    collector = Collector(source, [probe], store, memory, time.monotonic_ns)
    collector.start()
    assert collector.join(10)
    snapshot = store.snapshot()
    assert snapshot.ended and snapshot.spans == 3
    assert len(memory.batches) == 3 and memory.closed and source.closed and probe.closed
    assert collector.cpu_seconds() > 0
    collector.stop()


def test_what_probes_and_the_machine_tell_stays_to_the_end():
    source, store = Script(script(3, ended=True)), Store()
    probe = Script([])
    probe.poll = lambda: Batch(
        Session(names=[], meta={"gpu.0.name": "G"}), Columns.empty(), Columns.empty(), 0, 0
    )
    told = []
    collector = Collector(
        source, [probe], store, None, lambda: 0, {"machine.host": "h"}, lambda: told.append(store.snapshot())
    )
    assert collector.step() and store.snapshot().session.meta == {"machine.host": "h", "gpu.0.name": "G"}
    collector.start()
    assert collector.join(10)
    assert store.snapshot().ended and store.snapshot().session.meta == {
        "machine.host": "h",
        "gpu.0.name": "G",
    }
    assert told == [store.snapshot()]


def test_a_collector_in_a_hurry_does_not_wait_for_its_next_turn(monkeypatch):
    monkeypatch.setattr("cuzk_top.collector.INTERVAL_S", 3_600.0)
    session = Session(names=[Name("")])
    asked = threading.Event()
    ended = []

    class Waiting:
        def poll(self):
            asked.set()
            return Batch(session, Columns.empty(), Columns.empty(), 0, 0, bool(ended))

        def close(self):
            pass

    collector = Collector(Waiting(), [], Store(), None, time.monotonic_ns)
    collector.start()
    assert asked.wait(10)
    assert not collector.join(0.05), "it sleeps for an hour"
    collector.hurry()
    assert not collector.join(0.05), "in a hurry or not, it looks on until the end"
    ended.append(True)
    assert collector.join(30)


def test_less_is_kept_for_a_screen_than_for_a_report():
    clock = time.monotonic_ns
    session = LiveSession(AbsentRing(os.getpid(), "no ring", lambda: True, clock), os.getpid(), clock)
    try:
        assert session.store.limit_bytes == DEFAULT_LIMIT_BYTES == 1 << 30
        session.snapshot()
        assert session.store.limit_bytes == LIMIT_BYTES < 150_000_000 // 4
    finally:
        session.collector.stop()


def test_stopping_collects_once_more():
    source, store = Script(script(10_000)), Store()
    collector = Collector(source, [], store, None, time.monotonic_ns)
    collector.start()
    deadline = time.monotonic() + 10
    while not store.snapshot().spans and time.monotonic() < deadline:
        time.sleep(0.001)
    collector.stop()
    assert store.snapshot().spans == 10_000 - len(source.batches) >= 2
    assert source.closed and not store.snapshot().ended


def test_a_source_that_fails_ends_with_its_reason():
    store = Store()
    collector = Collector(Script(script(2), RingError("the ring was cut off")), [], store, None, lambda: 0)
    assert [collector.step(), collector.step(), collector.step()] == [True, True, False]
    snapshot = store.snapshot()
    assert snapshot.ended and snapshot.spans == 2 and snapshot.problems == ("the ring was cut off",)


def test_a_recorder_that_fails_stops_the_recording_alone():
    store = Store()
    memory = Memory(OSError(28, "No space left on device"))
    collector = Collector(Script(script(3, ended=True)), [], store, memory, lambda: 0)
    while collector.step():
        pass
    assert store.snapshot().spans == 3
    assert store.snapshot().problems == ("recording stopped: [Errno 28] No space left on device",)


def test_a_live_program_is_followed_to_its_end(traced):
    program = traced("""
        S = cuzk_tracer.span("msm.h", a0="i")
        for i in range(30_000):
            with S(i): pass
    """)
    store = Store()
    collector = Collector(RingSource(program.ring, time.monotonic_ns), [], store, None, time.monotonic_ns)
    collector.start()
    assert collector.join(30)
    snapshot = store.snapshot()
    row = next(row for row in snapshot.rows if row.lane.key == "msm.h")
    assert row.columns.a0.tolist() == list(range(30_000)) and snapshot.lost == 0


def test_a_crashed_programs_ring_is_removed_once_it_is_recorded(traced, tmp_path):
    for recorder, stays in ((None, True), (Memory(), False)):
        program = traced(PROOF)
        program.hear()
        collector = Collector(
            RingSource(program.ring, time.monotonic_ns), [], Store(), recorder, time.monotonic_ns
        )
        collector.start()
        program.kill()
        assert collector.join(10)
        assert Path(program.ring).exists() == stays


@pytest.fixture
def small(traced):
    program = traced(PROOF)
    program.hear()
    program.kill()
    return Path(program.ring)


PLACES = st.one_of(
    st.integers(184, 280),
    st.integers(8192, 8192 + 64),
    st.integers(16384, 16384 + 200),
    st.integers(311296, 311296 + 96),
    st.integers(573440, 573440 + 64 * 5),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(PLACES, st.binary(min_size=1, max_size=8)), min_size=1, max_size=5))
def test_a_damaged_ring_never_breaks_the_viewer(small, changes):
    with small.open("r+b") as file:
        original = file.read(600_000)
        for offset, value in changes:
            file.seek(offset)
            file.write(value)
    try:
        store = Store()
        source = RingSource(small, time.monotonic_ns)
        collector = Collector(source, [], store, None, time.monotonic_ns)
        collector.step()
        snapshot = store.snapshot()
        for row in snapshot.rows:
            assert (row.columns.start_ns[1:] >= row.columns.end_ns[:-1]).all()
            for i in range(len(row.columns)):
                snapshot.parent(snapshot.record(row, i))
        source.close()
    except RingError as error:
        assert str(small) in str(error)
    finally:
        with small.open("r+b") as file:
            file.write(original)
