"""Saved traces: round trips, streams cut at every byte, foreign files, packing, replay."""

import errno
import json
import math
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_top import machine, packing, paths, recording, trace
from cuzk_top.errors import TraceError
from cuzk_top.model import (
    COLUMN_TYPES,
    FLAG_F64,
    FLAG_OPEN,
    KIND_ASYNC,
    KIND_COUNTER,
    KIND_INSTANT,
    KIND_META,
    KIND_SPAN,
    Batch,
    Columns,
    Name,
    Session,
    Track,
)
from cuzk_top.sources.trace_file import FASTEST, Replay, TraceSource
from cuzk_top.store import Store

SESSION = Session(
    pid=4711,
    name="demo",
    started_ns=1_000,
    meta={"backend": "cpu-native", "job": "demo é"},
    names=[Name(""), Name("prove", "n", "", True, True), Name("msm.h"), Name("msm.h", "points"), Name("rss")],
    tracks={1: Track(1, "thread", "main", 4711), 7: Track(7, "async", "async")},
    anchors=[(1_000, 1_700_000_000_000_000_000)],
)
ONE = 1 << 32


def batches() -> list[Batch]:
    """Three polls of a session: children before parents, every kind, arguments, faults, an open span."""
    first = Columns.make(
        4,
        start_ns=[30, 20, 25, 40],
        end_ns=[35, 50, 25, 60],
        kind=[KIND_SPAN, KIND_SPAN, KIND_INSTANT, KIND_COUNTER],
        flags=[0, FLAG_F64, 0, FLAG_F64],
        depth=[2, 1, 2, 0],
        track=[1, 1, 1, 1],
        name=[2, 3, 1, 4],
        id=[ONE | 3, ONE | 2, 0, 0],
        parent=[ONE | 2, ONE | 1, ONE | 2, 0],
        a0=[0, np.float64(0.1).view(np.int64), -5, np.float64(2.5).view(np.int64)],
        a1=[0, 0, 2**62, 0],
        minflt=[0, 100, 0, 0],
        majflt=[0, 2, 0, 0],
        seq=[0, 1, 2, 3],
    )
    second = Columns.make(
        2, start_ns=[10, 70], end_ns=[90, 95], kind=[KIND_SPAN, KIND_ASYNC], track=[1, 7], name=[1, 3],
        id=[ONE | 1, ONE | 9], parent=[0, ONE | 1], corr=[0, 8], seq=[4, 5],
    )  # fmt: skip
    open_ = Columns.make(
        1,
        start_ns=[100],
        end_ns=[150],
        kind=[KIND_SPAN],
        flags=[FLAG_OPEN],
        track=[1],
        name=[1],
        id=[ONE | 10],
    )
    grown = Session(
        SESSION.pid, SESSION.name, SESSION.started_ns, SESSION.meta | {"late": "1"},
        [*SESSION.names, Name("new")], SESSION.tracks, [*SESSION.anchors, (2_000, 1_700_000_000_000_001_000)],
    )  # fmt: skip
    return [
        Batch(SESSION, first, Columns.empty(), 0, 100),
        Batch(SESSION, Columns.empty(), Columns.empty(), 0, 120),
        Batch(grown, second, open_, 17, 150, problems=("a problem",)),
    ]


def same(one: Columns, two: Columns, ordered: bool = True) -> bool:
    if not ordered:
        one, two = (c.take(np.argsort(c.seq, kind="stable")) for c in (one, two))
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in COLUMN_TYPES)


def everything() -> Columns:
    parts = [batch.columns for batch in batches()]
    last = batches()[-1].open
    return Columns.concat([*parts, last.replace(seq=np.array([6], np.uint64))])


def record(path, *, pack=True) -> recording.Recorder:
    recorder = recording.Recorder(path, {"machine.cpu": "abacus"})
    for batch in batches():
        recorder.append(batch)
        recorder._flush(batch)  # so that the stream has several batches
    if pack:
        recorder.close()
    else:
        recorder._pending.append(batches()[-1].open.replace(seq=np.array([6], np.uint64)))
        recorder._flush(batches()[-1])
        recorder._writer.close()
    return recorder


def check_whole(opened: trace.Trace) -> None:
    last = batches()[-1]
    assert same(opened.columns, everything(), ordered=False)
    assert opened.session.names == last.session.names
    assert opened.session.tracks == last.session.tracks
    assert opened.session.anchors == last.session.anchors
    assert opened.session.meta == last.session.meta | {"machine.cpu": "abacus"}
    assert (opened.session.pid, opened.session.name, opened.session.started_ns) == (4711, "demo", 1_000)
    assert (opened.lost, opened.now_ns, opened.ended) == (17, 150, False)


def test_the_stream_gives_back_what_went_in(tmp_path):
    record(tmp_path / "t.cuzk", pack=False)
    opened = recording.open(tmp_path / "t.cuzk")
    check_whole(opened)
    assert opened.problems == ("a problem",)
    assert opened.columns.seq.tolist() == list(range(7)), "in order of arrival"


def test_the_packed_file_gives_back_what_went_in_sorted(tmp_path):
    record(tmp_path / "t.cuzk")
    opened = recording.open(tmp_path / "t.cuzk")
    check_whole(opened)
    assert opened.problems == ("a problem",)
    keys = list(zip(opened.columns.track, opened.columns.depth, opened.columns.start_ns, strict=True))
    assert keys == sorted(keys)
    assert [path.name for path in tmp_path.iterdir()] == ["t.cuzk"], "nothing else is left"
    assert (tmp_path / "t.cuzk").stat().st_mode & 0o777 == 0o600


def test_any_arrow_program_can_read_the_packed_file(tmp_path):
    record(tmp_path / "t.cuzk")
    reader = pa.ipc.open_file(tmp_path / "t.cuzk")
    table = reader.read_all()
    table.validate(full=True)
    at = table["seq"].to_pylist().index(1)
    row = {name: table[name][at].as_py() for name in table.column_names}
    assert row["name"] == "msm.h#3", "dictionary values are unique: the second msm.h carries its number"
    assert (row["start"], row["end"], row["id"], row["parent"], row["minflt"]) == (20, 50, 2, 1, 100)
    lanes = json.loads(reader.schema.metadata[b"cuzk.lanes"])
    sizes = [[1, 0, 3], [1, 1, 1], [1, 2, 2], [7, 0, 1]]  # track, depth, rows: counted by hand above
    edges = np.cumsum([0] + [rows for _, _, rows in sizes]).tolist()
    assert lanes == [[track, depth, edge] for (track, depth, _), edge in zip(sizes, edges, strict=False)]
    assert reader.schema.metadata[b"cuzk.version"] == b"1.1"


def test_columns_that_are_zero_everywhere_take_no_room(tmp_path):
    count = 50_000
    start = np.arange(count) * 10
    columns = Columns.make(
        count, start_ns=start, end_ns=start + 9, kind=KIND_SPAN, track=1, name=1, seq=np.arange(count),
        id=ONE | np.arange(1, count + 1, dtype=np.uint64),
    )  # fmt: skip
    recorder = recording.Recorder(tmp_path / "t.cuzk")
    recorder.append(Batch(SESSION, columns, Columns.empty(), 0, 1))
    recorder.close()
    names = pa.ipc.open_file(tmp_path / "t.cuzk").schema.names
    assert not {"corr", "a0", "a1", "minflt", "majflt", "id_track"} & set(names)
    assert (tmp_path / "t.cuzk").stat().st_size < 48 * count
    assert same(recording.open(tmp_path / "t.cuzk").columns, columns)


def stream_ends(data: bytes) -> list[int]:
    """Where each message of a stream ends: walked by hand from its framing (schema, then record batches)."""
    ends, at = [], 0
    while data[at : at + 8] != b"\xff\xff\xff\xff\x00\x00\x00\x00":
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        message = pa.ipc.read_message(pa.py_buffer(data[at:]))
        at += 8 + length + message.body.size
        ends.append(at)
    return ends


def test_a_stream_cut_at_every_byte_opens_with_all_whole_batches(tmp_path):
    whole = tmp_path / "whole.cuzk"
    record(whole, pack=False)
    data = whole.read_bytes()
    ends = stream_ends(data)
    assert len(ends) == 5, "a schema and four batches"
    rows = [0, 0, 4, 4, 6, 7]  # rows that may be expected after so many messages
    cut = tmp_path / "cut.cuzk"
    cut.write_bytes(b"")
    with pytest.raises(TraceError, match="an empty file: nothing was written to it"):
        recording.open(cut)
    for size in range(1, len(data)):
        cut.write_bytes(data[:size])
        opened = recording.open(cut)
        messages = sum(end <= size for end in ends)
        expected = rows[messages]
        assert same(opened.columns, everything().take(slice(0, expected))), size
        assert any("cut off" in problem for problem in opened.problems), size
        if messages >= 2:
            assert opened.session.names[: len(SESSION.names)] == SESSION.names
            assert opened.session.tracks == SESSION.tracks


def test_a_long_stream_cut_at_random_bytes(tmp_path):
    """Batches of different sizes; what a cut leaves is a beginning of what was written, in whole batches."""
    recorder = recording.Recorder(tmp_path / "whole.cuzk")
    for batch in long_batches(40):
        recorder.append(batch)
    recorder._flush(recorder._last)
    recorder._writer.close()
    data = (tmp_path / "whole.cuzk").read_bytes()
    sizes = [batch.num_rows for batch in pa.ipc.open_stream(data)]
    metadata = [sum(k == KIND_META for k in batch["kind"].to_pylist()) for batch in pa.ipc.open_stream(data)]
    ends = stream_ends(data)[1:]  # of the batches
    cut = tmp_path / "cut.cuzk"
    for size in np.random.default_rng(1).integers(ends[0], len(data), 60).tolist():
        cut.unlink(missing_ok=True)
        cut.write_bytes(data[:size])
        whole = sum(end <= size for end in ends)
        rows = sum(sizes[:whole]) - sum(metadata[:whole])
        assert recording.open(cut).columns.a0.tolist() == list(range(rows))


def test_a_packed_file_cut_anywhere_opens_or_says_so(tmp_path):
    whole = tmp_path / "whole.cuzk"
    record(whole)
    data = whole.read_bytes()
    cut = tmp_path / "cut.cuzk"
    outcomes = set()
    for size in range(8, len(data), 7):
        cut.write_bytes(data[:size])
        try:
            opened = recording.open(cut)
        except TraceError as error:
            assert "cut off before its first row" in str(error)
            outcomes.add("nothing")
            continue
        assert len(opened.columns) in (0, 7)
        missing = 7 - len(opened.columns)
        told = [problem for problem in opened.problems if "cut off" in problem]
        assert told == (
            [f"the file was cut off: {missing} of 7 rows are missing"]
            if missing
            else ["the file was cut off"]
        )
        outcomes.add(len(opened.columns))
    assert outcomes == {"nothing", 0, 7}


@settings(deadline=None, max_examples=300)
@given(place=st.floats(0, 1, exclude_max=True), value=st.binary(min_size=1, max_size=8), packed=st.booleans())
def test_damage_gives_an_error_or_a_trace_never_a_crash(tmp_path_factory, place, value, packed):
    path = tmp_path_factory.getbasetemp() / f"damaged-{packed}.cuzk"
    if not hasattr(test_damage_gives_an_error_or_a_trace_never_a_crash, f"data{packed}"):
        record(path, pack=packed)
        setattr(test_damage_gives_an_error_or_a_trace_never_a_crash, f"data{packed}", path.read_bytes())
    data = bytearray(getattr(test_damage_gives_an_error_or_a_trace_never_a_crash, f"data{packed}"))
    at = int(place * len(data))
    data[at : at + len(value)] = value
    path.write_bytes(data)
    try:
        source = TraceSource(path)
    except TraceError as error:
        assert str(path) in str(error)
        return
    store = Store()
    store.append(source.poll())
    store.snapshot()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello, world", r"not a \.cuzk trace"),
        (b"{}", r"not a \.cuzk trace"),
        (b"ARROW1\0\0", "cut off before its first row"),
        (b"ARROW2\0\0", r"not a \.cuzk trace"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "x.cuzk"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as caught:
        recording.open(path)
    assert str(path) in str(caught.value)
    with pytest.raises(TraceError, match="No such file"):
        recording.open(tmp_path / "missing")
    with pytest.raises(TraceError, match="directory"):
        recording.open(tmp_path)


def test_an_arrow_file_of_somebody_else_is_refused(tmp_path):
    table = pa.table({"x": [1, 2]})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(TraceError, match="an Arrow file, but not a"):
        recording.open(tmp_path / "x.arrow")


def test_a_column_of_another_type_is_refused_when_the_file_is_opened(tmp_path):
    """Not later, when somebody looks at it."""
    record(tmp_path / "t.cuzk")
    table = pa.ipc.open_file((tmp_path / "t.cuzk").read_bytes()).read_all()
    place = table.schema.get_field_index("corr")
    table = table.set_column(place, "corr", table["corr"].cast(pa.float64()))
    with pa.OSFile(str(tmp_path / "x.cuzk"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(TraceError, match=r"x\.cuzk: damaged: column 'corr' holds no integers"):
        recording.open(tmp_path / "x.cuzk")


@pytest.mark.parametrize("file", ["1.1-stream", "1.1-sorted", "1.1-zstd"])
def test_files_of_every_version_open(file):
    """Written once by the program of that version, from the batches above; never written again."""
    check_whole(recording.open(Path(__file__).parents[2] / "data" / "traces" / f"{file}.cuzk"))


@pytest.mark.parametrize("pack", [True, False])
def test_versions(tmp_path, monkeypatch, pack):
    for module in (recording, packing):
        monkeypatch.setattr(module, "VERSION_MINOR", 9)
    record(tmp_path / "minor.cuzk", pack=pack)
    check_whole(recording.open(tmp_path / "minor.cuzk"))
    monkeypatch.setattr(trace, "VERSION_MAJOR", 2)
    with pytest.raises(TraceError, match=r"trace version 1\.9; this program reads version 2"):
        recording.open(tmp_path / "minor.cuzk")


def test_a_failing_disk_leaves_the_stream(tmp_path, monkeypatch):
    path = tmp_path / "t.cuzk"
    recorder = recording.Recorder(path)
    recorder.append(batches()[0])

    def full(_path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packing, "_sync", full)
    with pytest.raises(OSError, match="No space"):
        recorder.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.cuzk"]
    opened = recording.open(path)
    assert len(opened.columns) == 4 and opened.problems == ()
    recorder.close()


@contextmanager
def files_up_to(size: int):
    """Writing a file beyond that size fails, as on a full disk, with another number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def many(number: int, count: int = 20_000) -> Batch:
    """The number-th poll, which ends so many seconds after the session began."""
    now = SESSION.started_ns + number * 1_000_000_000
    columns = Columns.make(count, start_ns=now - 9, end_ns=now, kind=KIND_SPAN, track=1, name=2)
    return Batch(SESSION, columns, Columns.empty(), 0, now)


def test_a_full_disk_is_told_in_one_line_with_what_is_saved(tmp_path):
    path = tmp_path / "t.cuzk"
    size = 20_000 * recording.ROW_BYTES
    recorder = recording.Recorder(path)
    with files_up_to(5 * size // 2):
        recorder.append(many(1))
        recorder.append(many(2))
        with pytest.raises(OSError) as caught:
            recorder.append(many(3))
    assert str(caught.value) == (
        f"{os.strerror(errno.EFBIG)}: {path}: what came after 2.00 s is not saved; make room, then record "
        "again, or on the screen save what memory holds (W)"
    )
    opened = recording.open(path)
    assert len(opened.columns) == 40_000 and opened.now_ns == SESSION.started_ns + 2_000_000_000


def test_a_disk_that_is_full_from_the_start(tmp_path):
    path = tmp_path / "t.cuzk"
    recorder = recording.Recorder(path)
    with files_up_to(path.stat().st_size), pytest.raises(OSError, match="nothing is saved; make room"):
        recorder.append(many(1))


def test_no_room_for_the_sorted_file_leaves_what_can_be_packed_later(tmp_path, monkeypatch):
    path = tmp_path / "t.cuzk"
    recorder = recording.Recorder(path)
    recorder.append(many(1))
    with monkeypatch.context() as patch:
        patch.setattr(packing, "pack", raising(OSError(errno.ENOSPC, "Error writing bytes. Detail: …")))
        with pytest.raises(OSError) as caught:
            recorder.close()
    assert str(caught.value) == (
        f"No space left on device: {path} has everything, but is not packed; make room, then cuzk-top pack "
        f"{path}"
    )
    assert len(packing.pack(path, path).columns) == 20_000 == len(recording.open(path).columns)


def raising(error: Exception):
    def fail(*_arguments):
        raise error

    return fail


def test_a_stream_can_be_read_while_it_is_written(tmp_path):
    recorder = recording.Recorder(tmp_path / "t.cuzk")
    recorder.append(batches()[0])
    recorder._flush(batches()[0])
    opened = recording.open(tmp_path / "t.cuzk")
    assert len(opened.columns) == 4 and "cut off" in opened.problems[0]
    recorder.close()


def test_batches_gather_for_a_while(tmp_path):
    """A second of records makes one batch; while nothing happens one a second keeps the time."""
    recorder = recording.Recorder(tmp_path / "t.cuzk")
    row = batches()[0].columns.take(slice(0, 1))
    for now in range(0, 3_000_000_000, 50_000_000):
        rows = row if now < 1_000_000_000 else Columns.empty()
        recorder.append(Batch(SESSION, rows, Columns.empty(), 0, now + 10**12))
    recorder._writer.close()
    reader = pa.ipc.open_stream((tmp_path / "t.cuzk").read_bytes())
    sizes = [batch.num_rows for batch in reader]
    # The first poll, those up to 1.0 s, then the time at 2 s.
    assert len(sizes) == 1 + 1 + 1
    assert sum(sizes) >= 20


# Recordings of limited size.


def long_batches(count: int, rows: int = 2_000):
    """Polls of a long session: spans numbered by a0, 20 ms a poll, children of one thread."""
    for poll in range(count):
        i = np.arange(poll * rows, (poll + 1) * rows)
        columns = Columns.make(
            rows, start_ns=i * 10_000, end_ns=i * 10_000 + 9_000, kind=KIND_SPAN, track=1, name=2, a0=i,
            seq=i, id=ONE | (i + 1),
        )  # fmt: skip
        yield Batch(SESSION, columns, Columns.empty(), 0, (poll + 1) * rows * 10_000)


def files_bytes(folder) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_limited_recording_keeps_the_newest(tmp_path):
    limit = 1 << 20
    recorder = recording.Recorder(tmp_path / "t.cuzk", max_bytes=limit)
    most = 0
    for batch in long_batches(50):
        recorder.append(batch)
        most = max(most, files_bytes(tmp_path))
    assert limit / 2 < most <= limit
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[0] == "t.cuzk" and len(names) > 4
    while_it_runs = recording.open(tmp_path / "t.cuzk")
    recorder.close()
    opened = recording.open(tmp_path / "t.cuzk")
    for some in (while_it_runs, opened):
        kept = np.sort(some.columns.a0)
        first = int(kept[0])
        assert kept.tolist() == list(range(first, 100_000)), "the newest, without a gap"
        told = [problem for problem in some.problems if "dropped" in problem]
        assert told == [
            f"the recording keeps the newest 1,048,576 bytes: its oldest {first:,} records were dropped"
        ]
        assert (
            some.session.names[: len(SESSION.names)] == SESSION.names
            and some.session.tracks == SESSION.tracks
        )
    assert [path.name for path in tmp_path.iterdir()] == ["t.cuzk"] and files_bytes(tmp_path) < limit


def test_a_limited_recording_that_was_cut_off(tmp_path):
    recorder = recording.Recorder(tmp_path / "t.cuzk", max_bytes=1 << 20)
    for batch in long_batches(30):
        recorder.append(batch)
    # It is not closed: as after a SIGKILL.
    data = (tmp_path / "t.cuzk").read_bytes()
    (tmp_path / "t.cuzk").write_bytes(data[:-100])
    opened = recording.open(tmp_path / "t.cuzk")
    kept = np.sort(opened.columns.a0)
    assert (np.diff(kept) == 1).all() and len(kept) > 5_000
    assert any("cut off" in problem for problem in opened.problems)
    packing.pack(tmp_path / "t.cuzk", tmp_path / "packed.cuzk")
    assert np.sort(recording.open(tmp_path / "packed.cuzk").columns.a0).tolist() == kept.tolist()


def test_segments_of_another_recording_are_not_mixed_in(tmp_path):
    old = recording.Recorder(tmp_path / "t.cuzk", max_bytes=1 << 20)
    for batch in long_batches(12):
        old.append(batch)
    stray = trace.segments(tmp_path / "t.cuzk")[0].read_bytes()
    new = recording.Recorder(tmp_path / "t.cuzk", max_bytes=1 << 20)
    assert trace.segments(tmp_path / "t.cuzk") == [], "a new recording clears them away"
    for batch in long_batches(6):
        new.append(batch)
    assert trace.segments(tmp_path / "t.cuzk")
    (tmp_path / "t.cuzk.9999").write_bytes(stray)
    opened = recording.open(tmp_path / "t.cuzk")
    kept = np.sort(opened.columns.a0)
    assert kept[-1] == 11_999 and len(set(kept.tolist())) == len(kept)


@pytest.mark.parametrize("zstd", [False, True])
def test_packing_again_changes_nothing(tmp_path, zstd):
    record(tmp_path / "t.cuzk")
    before = recording.open(tmp_path / "t.cuzk")
    packing.pack(tmp_path / "t.cuzk", tmp_path / "t.cuzk", zstd=zstd)
    opened = recording.open(tmp_path / "t.cuzk")
    check_whole(opened)
    assert same(opened.columns, before.columns)
    with pa.OSFile(str(tmp_path / "t.cuzk")) as file:
        table = pa.ipc.open_file(file).read_all()
    table.validate(full=True)
    assert table["start"].to_pylist() == opened.columns.start_ns.tolist()


def test_opening_a_sorted_file_reads_no_column(tmp_path, monkeypatch):
    """What a run is known to hold stands in the metadata; its rows wait for the first look."""
    record(tmp_path / "t.cuzk")
    opened = recording.open(tmp_path / "t.cuzk")
    assert [(run.track, run.depth, run.names, run.kinds, run.flags) for run in opened.runs] == [
        (1, 0, (1, 4), (KIND_SPAN, KIND_COUNTER), FLAG_F64 | FLAG_OPEN),
        (1, 1, (3,), (KIND_SPAN,), FLAG_F64),
        (1, 2, (1, 2), (KIND_SPAN, KIND_INSTANT), 0),
        (7, 0, (1 + 2,), (KIND_ASYNC,), 0),
    ]
    loaded = []
    run = opened.runs[0].columns
    load = run._load
    object.__setattr__(
        run, "_load", lambda name, low, high: loaded.append((name, low, high)) or load(name, low, high)
    )
    assert run.take(slice(1, 2)).a0.tolist() == load("a0", 1, 2).tolist()
    assert loaded == [("a0", 1, 2)], "one row of one column"
    assert len(run.start_ns) == 3
    assert loaded[1:] == [("start_ns", 0, 3)]


# Replay.


def test_a_replayed_file_fills_the_store_like_the_live_session(tmp_path):
    record(tmp_path / "t.cuzk")
    live, replayed = Store(), Store()
    for batch in batches():
        live.append(batch)
    replayed.append(TraceSource(tmp_path / "t.cuzk").poll())
    one, two = live.snapshot(), replayed.snapshot()
    assert [row.key for row in one.rows] == [row.key for row in two.rows]
    for mine, theirs in zip(one.rows, two.rows, strict=True):
        assert same(mine.columns, theirs.columns)
        assert (mine.open and mine.open.id) == (theirs.open and theirs.open.id)
    assert [row.open.name for row in two.rows if row.open] == ["prove"]
    assert one.marks == two.marks
    assert [c.value.tolist() for c in one.counters] == [c.value.tolist() for c in two.counters]
    assert (one.spans, one.lost, one.first_ns, one.last_ns, one.now_ns) == (
        two.spans, two.lost, two.first_ns, two.last_ns, two.now_ns,
    )  # fmt: skip
    assert two.ended
    source = TraceSource(tmp_path / "t.cuzk")
    source.poll()
    assert len(source.poll().columns) == 0, "it says everything once"


def test_the_play_head():
    clock = [0]
    replay = Replay(lambda: clock[0], 1_000, 9_000)
    assert replay.now_ns() == 1_000 and not replay.playing
    clock[0] += 500
    assert replay.now_ns() == 1_000
    replay.play()
    clock[0] += 500
    assert replay.now_ns() == 1_500
    replay.set_speed(2)
    clock[0] += 500
    assert replay.now_ns() == 2_500
    replay.pause()
    clock[0] += 10_000
    assert replay.now_ns() == 2_500
    replay.seek(8_500)
    replay.play()
    clock[0] += 200
    assert replay.now_ns() == 8_900 and not replay.at_end
    clock[0] += 10_000
    assert replay.now_ns() == 9_000 and replay.at_end and not replay.playing
    replay.seek(4_000)
    clock[0] += 200
    assert replay.now_ns() == 4_000, "at the end it stopped"
    replay.seek(9_000)
    replay.play()
    assert replay.now_ns() == 1_000, "playing from the end begins again"
    replay.set_speed(FASTEST)
    assert replay.now_ns() == 9_000
    replay.set_speed(0)
    assert replay.speed == 0.1
    replay.seek(-5)
    assert replay.now_ns() == 1_000
    replay.seek(10**9)
    assert replay.now_ns() == 9_000
    assert Replay(lambda: 0, 5, 3).now_ns() == 5, "an empty trace"
    assert math.inf == FASTEST


def test_the_view_of_a_replay_is_the_snapshot_at_the_head(tmp_path):
    store = Store()
    for batch in batches():
        store.append(batch)
    clock = [0]
    replay = Replay(lambda: clock[0], 10, 150)
    snapshot = store.snapshot()
    view = replay.view(snapshot)
    assert view.now_ns == 10 and view.rows is snapshot.rows
    assert replay.view(snapshot) is view
    replay.play()
    clock[0] = 40
    assert replay.view(snapshot).now_ns == 50


# Places and facts.


def test_places():
    env = {"HOME": "/home/u", "XDG_STATE_HOME": "/state", "XDG_CACHE_HOME": "relative"}
    assert str(paths.traces_folder(env)) == "/state/cuzk-top/traces"
    assert str(paths.cache_folder(env)) == "/home/u/.cache/cuzk-top"
    assert str(paths.traces_folder({"HOME": "/home/u"})) == "/home/u/.local/state/cuzk-top/traces"


def test_old_traces_make_room(tmp_path):
    folder = tmp_path / "traces"
    made = []
    for i in range(25):
        path = paths.new_trace(folder, "a job/with: odd", f"2026-12-01-{i:02d}")
        path.write_bytes(bytes(100))
        os.utime(path, (i, i))
        made.append(path)
    assert made[0].name == "2026-12-01-00-a-job-with--odd.cuzk"
    kept = [path for path in made if path.exists()]
    assert kept == made[-20:]
    assert paths.recent_traces(folder) == kept[::-1]
    paths.prune(folder, limit_bytes=350)
    assert paths.recent_traces(folder) == made[:-4:-1]
    paths.prune(folder, limit_bytes=10)
    assert paths.recent_traces(folder) == [made[-1]], "the newest stays however large"
    again = paths.new_trace(folder, "a job/with: odd", "2026-12-01-24")
    assert again.name == "2026-12-01-24-a-job-with--odd-2.cuzk"
    (folder / "notes.txt").write_text("mine")
    paths.prune(folder, keep=0)
    assert (folder / "notes.txt").exists()


def test_facts_of_the_machine():
    facts = machine.facts()
    assert facts["machine.kernel"] == os.uname().release
    assert facts["machine.cores"] == str(os.cpu_count())
    assert all(isinstance(value, str) and value for value in facts.values())
    assert {
        "machine.host",
        "machine.boot_id",
        "machine.cpu",
        "machine.python",
        "machine.memlock_bytes",
    } <= set(facts)


def test_a_proof_is_watched_and_recorded_without_pyarrow() -> None:
    """It is 28 MB, and takes a tenth of the time until the first frame."""
    screen = "import cuzk_top.app, cuzk_top.commands.proving, cuzk_top.live, cuzk_top.recording"
    asked = f"{screen}, cuzk_top.sources.ring, sys; print('pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
