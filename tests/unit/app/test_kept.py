"""What a session holds in memory, saved as a trace: opened again it is the same, record for record."""

import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from test_recording import batches

from cuzk_top import history, kept, packing, recording, trace
from cuzk_top.errors import InputError
from cuzk_top.live import LiveSession
from cuzk_top.model import (
    COLUMN_TYPES,
    FLAG_F64,
    FLAG_OPEN,
    KIND_COUNTER,
    KIND_FLOW,
    KIND_SPAN,
    ROW_BYTES,
    SPAN_KINDS,
    Batch,
    Columns,
    Name,
    Session,
    Snapshot,
)
from cuzk_top.replayed import ReplaySession
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store

DATA = Path(__file__).parents[2] / "data"
TRACES = sorted([*DATA.glob("traces/*.cuzk"), *DATA.glob("gpu/traces/*.cuzk")])
assert len(TRACES) > 5


def opened(path: Path) -> Snapshot:
    store, source = Store(), TraceSource(path)
    store.append(source.poll())
    return store.snapshot()


def spans(path: Path) -> dict[str, np.ndarray]:
    """All spans of a file, column by column, in an order that their content alone decides."""
    columns = trace.open(path).columns
    columns = columns.take(np.isin(columns.kind, (*SPAN_KINDS, KIND_FLOW)))
    arrays = dict(columns.arrays())
    order = np.lexsort([arrays[name] for name in COLUMN_TYPES])
    return {name: array[order] for name, array in arrays.items()}


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_a_saved_buffer_holds_the_same_records(tmp_path, path):
    before = opened(path)
    copy = tmp_path / "copy.cuzk"
    packing.write(kept.trace(before), copy)
    one, two = spans(path), spans(copy)
    assert len(two["id"]) > 0
    for name in COLUMN_TYPES:
        assert np.array_equal(one[name], two[name]), name
    after = opened(copy)
    assert [row.key for row in before.rows] == [row.key for row in after.rows]
    for mine, theirs in zip(before.rows, after.rows, strict=True):
        assert np.array_equal(mine.columns.start_ns, theirs.columns.start_ns)
        assert np.array_equal(mine.columns.id, theirs.columns.id)
        assert mine.open == theirs.open
    assert before.marks == after.marks
    for mine, theirs in zip(before.counters, after.counters, strict=True):
        assert (mine.key, mine.missing) == (theirs.key, theirs.missing)
        for column in ("t_ns", "start_ns", "value"):
            assert np.array_equal(getattr(mine, column), getattr(theirs, column))
    assert [d.split(before.first_ns, before.last_ns) for d in before.devices] == [
        d.split(before.first_ns, before.last_ns) for d in after.devices
    ]
    assert before.session.meta == after.session.meta
    assert before.session.tracks.items() <= after.session.tracks.items()
    assert before.session.anchors == after.session.anchors
    assert (before.first_ns, before.last_ns, before.spans, before.lost, before.problems) == (
        after.first_ns, after.last_ns, after.spans, after.lost, after.problems,
    )  # fmt: skip


def test_open_spans_and_arguments_of_every_type_come_back(tmp_path):
    store = Store()
    for batch in batches():
        store.append(batch)
    path = tmp_path / "t.cuzk"
    packing.write(kept.trace(store.snapshot()), path)
    again = trace.open(path)
    assert (again.lost, again.now_ns, again.ended, again.problems) == (17, 150, False, ("a problem",))
    by_id = {int(number): i for i, number in enumerate(again.columns.id) if number}
    assert len(by_id) == 5
    msm, still = by_id[1 << 32 | 2], by_id[1 << 32 | 10]
    assert again.columns.a0.view(np.float64)[msm] == 0.1 and again.columns.flags[msm] == FLAG_F64
    assert again.columns.flags[still] == FLAG_OPEN and again.columns.start_ns[still] == 100
    mark = int(np.flatnonzero(again.columns.a1 == 2**62)[0])
    assert again.columns.a0[mark] == -5 and again.session.names[again.columns.name[mark]].text == "prove"
    counter = int(np.flatnonzero(again.columns.kind == KIND_COUNTER)[0])
    assert again.columns.a0.view(np.float64)[counter] == 2.5
    assert again.session.tracks[8].kind == "probe", "no track of a probe was there"


def test_hand_overs_between_threads_are_saved(tmp_path):
    store = Store()
    columns = Columns.make(
        3,
        start_ns=[10, 12, 20],
        end_ns=[10, 40, 20],
        kind=[KIND_FLOW, KIND_SPAN, KIND_FLOW],
        track=[1, 2, 2],
        depth=[1, 0, 0],
        name=[1, 1, 1],
        parent=[5, 0, 6],
        a0=[77, 0, 78],
        id=[0, 6, 0],
        seq=[0, 1, 2],
    )
    store.append(Batch(Session(names=[Name(""), Name("task")]), columns, Columns.empty(), 0, 50))
    packing.write(kept.trace(store.snapshot()), tmp_path / "t.cuzk")
    flows = opened(tmp_path / "t.cuzk").flows
    flows = flows.take(np.argsort(flows.start_ns))
    assert [flows.start_ns.tolist(), flows.track.tolist(), flows.parent.tolist(), flows.a0.tolist()] == [
        [10, 20], [1, 2], [5, 6], [77, 78],
    ]  # fmt: skip


def test_of_a_store_that_forgets_what_it_still_holds_is_saved(tmp_path):
    store = Store(limit_bytes=1_000 * ROW_BYTES)
    session = Session(names=[Name(""), Name("msm.h")])
    for i in range(30):
        low = i * 100
        columns = Columns.make(
            100, start_ns=np.arange(low, low + 100), end_ns=np.arange(low + 1, low + 101), name=1, track=1,
            kind=KIND_SPAN, id=np.arange(low + 1, low + 101),
        )  # fmt: skip
        store.append(Batch(session, columns, Columns.empty(), 0, low + 100))
    held = max((row.columns for row in store.snapshot().rows), key=len)
    assert 500 < len(held) < 1_001
    packing.write(kept.trace(store.snapshot()), tmp_path / "t.cuzk")
    again = trace.open(tmp_path / "t.cuzk")
    assert again.columns.id.tolist() == held.id.tolist()
    assert "no longer kept" in again.problems[0]


class Script:
    """A source that gives one span a poll until it is told to end."""

    def __init__(self) -> None:
        self.polls = 0
        self.over = threading.Event()
        names = [Name(""), Name("prove"), Name("msm.h")]
        realtime = (0, 1_800_000_000_000_000_000)
        self.session = Session(7, "p", 0, {"job": "a/b"}, names, anchors=[realtime])

    def poll(self) -> Batch:
        self.polls += 1
        columns = Columns.make(
            1,
            start_ns=10 * self.polls,
            end_ns=10 * self.polls + 5,
            name=1 + self.polls % 2,
            track=1,
            kind=KIND_SPAN,
            id=[self.polls],
        )
        return Batch(self.session, columns, Columns.empty(), 0, 10 * self.polls + 6, self.over.is_set())

    def close(self) -> None:
        pass


def wait_for(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_live_session_saves_while_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    script = Script()
    session = LiveSession(script, 0, time.monotonic_ns)
    try:
        assert session.trace_path() is None
        wait_for(lambda: session.store.snapshot().spans >= 3)
        before = script.polls
        path = session.save_buffer()
        wait_for(lambda: script.polls > before + 2)
        assert path.parent == tmp_path / "cuzk-top" / "traces"
        assert re.fullmatch(r"\d{8}T\d{6}Z-a-b\.cuzk", path.name)
        assert path.stat().st_mode & 0o777 == 0o600
        ids = trace.open(path).columns.id
        ids = ids[ids > 0].tolist()
        assert ids == list(range(1, len(ids) + 1)) and len(ids) >= 3
        assert session.trace_path() == path
        assert session.save_buffer() != path, "another file in the same second"
        noted = history.read(session.store.snapshot().session.meta)
        assert noted.proofs >= 1 and noted.median_ns == 5, "what is saved is known to the past"
    finally:
        script.over.set()
        session.collector.stop()
    # And at the end the rest is.
    meta = session.store.snapshot().session.meta
    assert meta["machine.host"], "the last batch comes without the probes, their facts stay"
    assert history.read(meta).proofs == min(50, len(range(2, script.polls + 1, 2)))


def test_a_recorded_session_names_its_recording(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    script = Script()
    script.over.set()
    recorder = recording.Recorder(tmp_path / "mine.cuzk")
    session = LiveSession(script, 0, time.monotonic_ns, recorder)
    session.collector.stop()
    assert session.trace_path() == tmp_path / "mine.cuzk"
    session.save_buffer()
    assert session.trace_path() == tmp_path / "mine.cuzk"


def test_a_replay_saves_what_it_replays(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    source = DATA / "traces" / "1.1-sorted.cuzk"
    session = ReplaySession(source, lambda: 0)
    assert session.trace_path() == source
    assert spans(session.save_buffer())["id"].tolist() == spans(source)["id"].tolist()
    assert not (tmp_path / "cuzk-top" / "history").exists(), "a replay proves nothing anew"


def test_deadlines_are_among_a_sessions_facts():
    session = ReplaySession(DATA / "traces" / "1.1-sorted.cuzk", lambda: 0)
    assert session.facts().deadlines == {}
    session.deadlines = {"porep-32g": 90_000_000_000}
    assert session.facts().deadlines == {"porep-32g": 90_000_000_000}


def test_a_buffer_that_cannot_be_saved_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "cuzk-top").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session = ReplaySession(DATA / "traces" / "1.1-sorted.cuzk", lambda: 0)
    with pytest.raises(InputError, match=r"traces: Not a directory"):
        session.save_buffer()
