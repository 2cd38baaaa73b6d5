"""Exports read back with other people's code: Perfetto's published protos, json, Arrow's readers."""

import csv
import json
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_top import exports, packing, trace
from cuzk_top.errors import InputError
from cuzk_top.exports import protobuf
from cuzk_top.exports.tracks import in_sequence
from cuzk_top.model import (
    FLAG_ERR,
    FLAG_F64,
    FLAG_F64_A1,
    FLAG_FAULTS,
    FLAG_OPEN,
    FLAG_UNBALANCED,
    KIND_ASYNC,
    KIND_COUNTER,
    KIND_FLOW,
    KIND_INSTANT,
    KIND_SPAN,
    Columns,
    Name,
    Run,
    Session,
    Track,
)

NAMES = [
    Name(""), Name("prove", "n", "", True, True), Name("msm.h", "points", "bits"), Name('quo"te\n', "", "x"),
    Name("host.rss"), Name("hand over"),
]  # fmt: skip
WORDS = {
    0: ("a0", "a1"),
    4: ("a0", "a1"),
    1: ("n", "a1"),
    2: ("points", "bits"),
    3: ("a0", "x"),
    5: ("a0", "a1"),
}
EPOCH = 10**18
FLAGS = [0, FLAG_F64, FLAG_F64_A1, FLAG_FAULTS, FLAG_ERR, FLAG_UNBALANCED, 127 - FLAG_OPEN - 4]


def session() -> Session:
    return Session(
        pid=4711,
        name="demo",
        started_ns=EPOCH,
        meta={"command": "prover --fast", "job": "demo"},
        names=list(NAMES),
        tracks={
            1: Track(1, "thread", "main", 4711),
            2: Track(2, "thread", "worker", 4712),
            3: Track(3, "async", "async"),
            5: Track(5, "thread", "giver", 4715),
            6: Track(6, "gpu", "stream 7"),
            9: Track(9, "probe", "host"),
        },
        anchors=[(EPOCH, 1_700_000_000_000_000_000)],
    )


@st.composite
def forests(draw, most=12):
    """Rows of one thread as a tracer writes them: begins, ends and points; time often stands still."""
    rows, stack, now, seq = [], [], EPOCH, 0
    for _ in range(draw(st.integers(0, most))):
        now += draw(st.sampled_from([0, 0, 1, 999, 10**6]))
        step = draw(st.sampled_from(["begin", "begin", "end", "end", "point"]))
        if step == "begin" and len(stack) < 6:
            stack.append(now)
        elif step == "end" and stack:
            rows.append((stack.pop(), now, KIND_SPAN, 0, len(stack), seq))
            seq += 1
        elif step == "point":
            rows.append((now, now, KIND_INSTANT, 0, len(stack), seq))
            seq += 1
    for depth, start in enumerate(stack):  # still open: recorded last, outermost first
        rows.append((start, now + 5, KIND_SPAN, FLAG_OPEN, depth, seq))
        seq += 1
    return rows


@st.composite
def tracks(draw):
    """Columns of two threads, of overlapping async spans and of a counter."""
    parts = []
    for track in (1, 2):
        table = np.array(draw(forests()), np.int64).reshape(-1, 6)
        count = len(table)
        extra = draw(st.lists(
            st.tuples(
                st.sampled_from(FLAGS),
                st.sampled_from([1, 2, 3]), st.sampled_from([0, 7, -1, 2**62, -(2**63)]),
                st.sampled_from([0, 1]), st.integers(0, 2**32 - 1), st.sampled_from([0, 0, 5]),
            ),
            min_size=count, max_size=count,
        ))  # fmt: skip
        more = np.array(extra, np.int64).reshape(-1, 6)
        number = np.arange(1, count + 1, dtype=np.uint64) | np.uint64(track << 32)
        parts.append(Columns.make(
            count, start_ns=table[:, 0], end_ns=table[:, 1], kind=table[:, 2], flags=table[:, 3] | more[:, 0],
            depth=table[:, 4], seq=table[:, 5], track=track, name=more[:, 1], a0=more[:, 2], a1=more[:, 3],
            minflt=more[:, 4], majflt=more[:, 4] % 3, corr=more[:, 5], id=number,
        ))  # fmt: skip
    jobs = draw(st.lists(st.integers(0, 50), max_size=4))
    count = len(jobs)
    parts.append(Columns.make(
        count, start_ns=EPOCH + np.arange(count), end_ns=EPOCH + np.arange(count) + jobs, kind=KIND_ASYNC,
        track=3, depth=np.arange(count), name=2, a0=jobs, seq=np.arange(count),
        id=3 << 32 | np.arange(1, count + 1),
    ))  # fmt: skip
    values = draw(
        st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False)), max_size=4)
    )
    bits = [np.float64(v).view(np.int64) if isinstance(v, float) else v for v in values]
    floats = [FLAG_F64 if isinstance(v, float) else 0 for v in values]
    count = len(values)
    parts.append(Columns.make(
        count, start_ns=EPOCH + 10 * np.arange(count), end_ns=EPOCH + 10 * np.arange(count) + 10, track=9,
        kind=KIND_COUNTER, name=4, a0=np.array(bits, np.int64), flags=floats, seq=np.arange(count),
    ))  # fmt: skip
    flows = Columns.make(
        2, start_ns=EPOCH, end_ns=EPOCH, kind=KIND_FLOW, track=[5, 6], name=5, a0=[0, 1], corr=77, seq=2**40
    )
    return Columns.concat([part for part in [*parts, flows] if len(part)])


def trace_of(columns: Columns) -> trace.Trace:
    key = columns.track.astype(np.int64) << 8 | columns.depth
    runs = []
    for value in np.unique(key).tolist():
        part = columns.take(np.flatnonzero(key == value))
        runs.append(Run(value >> 8, value & 0xFF, part.take(np.lexsort((part.end_ns, part.start_ns)))))
    now = int(columns.end_ns.max()) if len(columns) else EPOCH
    return trace.Trace(session(), tuple(runs), 3, now, True, ("a problem",))


def argument(flags: int, bit: int, value: int) -> int | float:
    return np.int64(value).view(np.float64).item() if flags & bit else value


def facts(columns: Columns, i: int) -> dict:
    """What an export has to say of a record, worked out from its columns by hand."""
    row = {name: array[i].item() for name, array in columns.arrays()}
    name, flags = NAMES[row["name"]], row["flags"]
    args = {}
    flow = row["kind"] == KIND_FLOW
    if name.a0 or (row["a0"] and not flow):
        args[WORDS[row["name"]][0]] = argument(flags, FLAG_F64, row["a0"])
    if name.a1 or row["a1"]:
        args[WORDS[row["name"]][1]] = argument(flags, FLAG_F64_A1, row["a1"])
    if flags & FLAG_FAULTS:
        args |= {"minflt": row["minflt"], "majflt": row["majflt"]}
    if flags & FLAG_ERR:
        args["error"] = True
    if flags & FLAG_UNBALANCED:
        args["unbalanced"] = True
    return row | {"text": name.text, "args": args}


def expected(columns: Columns) -> Counter:
    """Every span and point as (track, name, start, end or None, arguments, flow id)."""
    found: Counter = Counter()
    labels = {1: 4711, 2: 4712, 3: "async", 5: 4715, 6: "stream 7"}
    for i in range(len(columns)):
        row = facts(columns, i)
        if row["kind"] == KIND_COUNTER:
            continue
        end = None if row["flags"] & FLAG_OPEN else row["end_ns"]
        flow = ((1 if row["kind"] == KIND_FLOW else 2) << 32 | row["corr"]) if row["corr"] else None
        what = "span" if row["kind"] in (KIND_SPAN, KIND_ASYNC) else "point"
        found[what, labels[row["track"]], row["text"], row["start_ns"], end, said(row["args"]), flow] += 1
    return found


def said(args: dict) -> str:
    """Arguments as text: NaN equals itself there, and 1 is not 1.0."""
    return repr(sorted((key, type(value).__name__, repr(value)) for key, value in args.items()))


# Perfetto.


def perfetto_events(path: Path) -> tuple[Counter, Counter]:
    """Spans and points, and counter samples, as somebody who knows the published protos reads them."""
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    whole = protos.Trace()
    whole.ParseFromString(path.read_bytes())
    labels, counters, sequences = {}, {}, {}
    stacks: dict[int, list] = {}
    spans: Counter = Counter()
    samples: Counter = Counter()
    kinds = protos.TrackEvent
    for packet in whole.packet:
        if packet.HasField("track_descriptor"):
            about = packet.track_descriptor
            labels[about.uuid] = about.thread.tid if about.HasField("thread") else about.name
            counters[about.uuid] = about.HasField("counter")
        if packet.HasField("trace_packet_defaults"):
            assert packet.incremental_state_cleared and packet.sequence_flags == 1
            assert packet.trace_packet_defaults.timestamp_clock_id == protos.BUILTIN_CLOCK_MONOTONIC
            uuid = packet.trace_packet_defaults.track_event_defaults.track_uuid
            names = {entry.iid: entry.name for entry in packet.interned_data.event_names}
            words = {entry.iid: entry.name for entry in packet.interned_data.debug_annotation_names}
            sequences[packet.trusted_packet_sequence_id] = (uuid, names, words, [])
        if not packet.HasField("track_event"):
            continue
        assert packet.sequence_flags == 2
        uuid, names, words, times = sequences[packet.trusted_packet_sequence_id]
        event, now = packet.track_event, packet.timestamp
        if not counters[uuid]:
            assert not times or times[-1] <= now, "a sequence is in order"
            times.append(now)
        if event.type == kinds.TYPE_COUNTER:
            assert counters[uuid]
            value = (
                event.double_counter_value if event.HasField("double_counter_value") else event.counter_value
            )
            samples[labels[uuid], now, repr(value)] += 1
        elif event.type == kinds.TYPE_SLICE_END:
            start, name, args, flow = stacks[uuid].pop()
            spans["span", labels[uuid], name, start, now, args, flow] += 1
        else:
            args = said(
                {words[a.name_iid]: getattr(a, a.WhichOneof("value")) for a in event.debug_annotations}
            )
            flow = event.flow_ids[0] if event.flow_ids else None
            if event.type == kinds.TYPE_SLICE_BEGIN:
                stacks.setdefault(uuid, []).append((now, names[event.name_iid], args, flow))
            else:
                assert event.type == kinds.TYPE_INSTANT
                spans["point", labels[uuid], names[event.name_iid], now, now, args, flow] += 1
    for uuid, stack in stacks.items():
        for start, name, args, flow in stack:
            spans["span", labels[uuid], name, start, None, args, flow] += 1
    return spans, samples


@settings(deadline=None, max_examples=150)
@given(columns=tracks())
def test_perfetto_gives_back_every_record(tmp_path_factory, columns):
    path = tmp_path_factory.getbasetemp() / "x.pftrace"
    for track in (1, 2):
        mine = columns.take(np.flatnonzero(columns.track == track))
        assert in_sequence(mine) is not None, "nested rows are seen to be nested"
    exports.write(trace_of(columns), path)
    spans, samples = perfetto_events(path)
    assert spans == expected(columns)
    values = Counter()
    for i in np.flatnonzero(columns.kind == KIND_COUNTER).tolist():
        row = facts(columns, i)
        values["host.rss", row["start_ns"], repr(argument(row["flags"], FLAG_F64, row["a0"]))] += 1
    assert samples == values


def test_perfetto_knows_process_threads_and_both_clocks(tmp_path):
    protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    columns = Columns.make(1, start_ns=EPOCH, end_ns=EPOCH + 5, kind=KIND_SPAN, track=1, name=1)
    exports.write(trace_of(columns), tmp_path / "x.pftrace")
    whole = protos.Trace()
    whole.ParseFromString((tmp_path / "x.pftrace").read_bytes())
    clocks, process, thread = (whole.packet[i] for i in range(3))
    assert {c.clock_id: c.timestamp for c in clocks.clock_snapshot.clocks} == {
        protos.BUILTIN_CLOCK_MONOTONIC: EPOCH,
        protos.BUILTIN_CLOCK_REALTIME: 1_700_000_000_000_000_000,
    }
    assert clocks.clock_snapshot.primary_trace_clock == protos.BUILTIN_CLOCK_MONOTONIC
    assert process.track_descriptor.process.pid == 4711
    assert process.track_descriptor.process.process_name == "demo"
    assert list(process.track_descriptor.process.cmdline) == ["prover", "--fast"]
    assert (thread.track_descriptor.thread.pid, thread.track_descriptor.thread.tid) == (4711, 4711)
    assert thread.track_descriptor.thread.thread_name == "main"


def test_begins_and_ends_of_one_nanosecond_keep_their_order():
    """Everything happens at 7: only depth and order of the ends say what is inside what."""
    # p [ a [ b ] ] q [ c [ ] ] in order of ends: b a p c q
    columns = Columns.make(
        5, start_ns=7, end_ns=7, kind=KIND_SPAN, depth=[2, 1, 0, 1, 0], seq=[0, 1, 2, 3, 4], track=1, name=1
    )
    row, is_begin, times = in_sequence(columns)
    b, a, p, c, q = range(5)
    assert list(zip(row.tolist(), is_begin.tolist(), strict=True)) == [
        (p, True), (a, True), (b, True), (b, False), (a, False), (p, False),
        (q, True), (c, True), (c, False), (q, False),
    ]  # fmt: skip
    assert set(times.tolist()) == {7}


def test_rows_that_do_not_nest_are_told_apart(tmp_path):
    """Two spans of one depth that overlap, as only a damaged trace has them."""
    columns = Columns.make(
        3,
        start_ns=[10, 15, 12],
        end_ns=[20, 25, 30],
        kind=KIND_SPAN,
        depth=[0, 0, 1],
        seq=[0, 1, 2],
        track=1,
        name=1,
    )
    assert in_sequence(columns) is None
    exports.write(trace_of(columns), tmp_path / "x.pftrace")
    assert (tmp_path / "x.pftrace").stat().st_size > 0


@given(values=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20), constant=st.binary(max_size=5))
def test_padded_varints_mean_what_they_should(values, constant):
    made = protobuf.messages(len(values), [constant, protobuf.Numbers(4, np.array(values, np.uint64))])
    for value, message in zip(values, made, strict=True):
        data = message.tobytes()
        assert data.startswith(constant)
        tag, *rest = data[len(constant) :]
        assert tag == 4 << 3
        assert sum((byte & 0x7F) << 7 * place for place, byte in enumerate(rest)) == value
        assert all(byte & 0x80 for byte in rest[:-1]) and not rest[-1] & 0x80


# Chrome.


@settings(deadline=None, max_examples=100)
@given(columns=tracks())
def test_chrome_gives_back_every_record(tmp_path_factory, columns):
    path = tmp_path_factory.getbasetemp() / "x.json"
    exports.write(trace_of(columns), path)
    whole = json.loads(path.read_text(), parse_float=Decimal)
    labels, found, samples, flows = {}, Counter(), Counter(), []
    for event in whole["traceEvents"]:
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                labels[event["tid"]] = event["args"]["name"]
            continue
        start = int(Decimal(event["ts"]) * 1000)
        if event["ph"] in "XBi":
            args = {key: float(v) if isinstance(v, (Decimal, str)) else v for key, v in event["args"].items()}
            flow = args.pop("corr", None)
            end = (
                start + int(Decimal(event["dur"]) * 1000)
                if event["ph"] == "X"
                else start
                if event["ph"] == "i"
                else None
            )
            what = "point" if event["ph"] == "i" else "span"
            found[what, labels[event["tid"]], event["name"], start, end, said(args), flow] += 1
        elif event["ph"] == "C":
            value = event["args"]["value"]
            samples[start, repr(float(value) if isinstance(value, (Decimal, str)) else value)] += 1
        else:
            flows.append((event["ph"], event["id"], start, labels[event["tid"]]))
    names = {4711: "main", 4712: "worker", "async": "async"}
    wanted = Counter()
    for (what, track, name, start, end, args, flow), count in expected(columns).items():
        if name != "hand over":
            wanted[what, names[track], name, start, end, args, flow and flow & 0xFFFFFFFF] += count
    assert found == wanted
    assert flows == [("s", 77, EPOCH, "giver"), ("f", 77, EPOCH, "stream 7")]
    values = Counter()
    for i in np.flatnonzero(columns.kind == KIND_COUNTER).tolist():
        row = facts(columns, i)
        values[row["start_ns"], repr(argument(row["flags"], FLAG_F64, row["a0"]))] += 1
    assert samples == values


# Parquet and CSV.


def table_row(columns: Columns, i: int) -> dict:
    row = facts(columns, i)
    name, flags = NAMES[row["name"]], row["flags"]
    track = session().tracks[row["track"]]
    kinds = {1: "span", 2: "async", 3: "instant", 4: "counter", 10: "flow"}
    measured = bool(flags & FLAG_FAULTS)
    return {
        **{key: row[key] for key in ("start_ns", "end_ns", "track", "depth", "id", "parent", "corr", "seq")},
        "kind": kinds[row["kind"]], "name": name.text,
        "track_kind": track.kind, "track_label": track.label, "tid": track.tid,
        "a0_name": name.a0, "a0": None if flags & FLAG_F64 else row["a0"],
        "a0_float": argument(flags, FLAG_F64, row["a0"]) if flags & FLAG_F64 else None,
        "a1_name": name.a1, "a1": None if flags & FLAG_F64_A1 else row["a1"],
        "a1_float": argument(flags, FLAG_F64_A1, row["a1"]) if flags & FLAG_F64_A1 else None,
        "minflt": row["minflt"] if measured else None, "majflt": row["majflt"] if measured else None,
        "error": bool(flags & FLAG_ERR), "open": bool(flags & FLAG_OPEN),
        "unbalanced": bool(flags & FLAG_UNBALANCED),
    }  # fmt: skip


def as_text(row: dict) -> str:
    return repr(sorted((key, repr(value)) for key, value in row.items()))


@settings(deadline=None, max_examples=50)
@given(columns=tracks())
def test_parquet_and_csv_give_back_every_record(tmp_path_factory, columns):
    folder = tmp_path_factory.getbasetemp()
    opened = trace_of(columns)
    exports.write(opened, folder / "x.parquet")
    exports.write(opened, folder / "x.csv")
    wanted = Counter(as_text(table_row(columns, i)) for i in range(len(columns)))
    table = pq.read_table(folder / "x.parquet")
    assert Counter(as_text(row) for row in table.to_pylist()) == wanted
    assert json.loads(table.schema.metadata[b"cuzk.session"])["meta"]["job"] == "demo"
    read = Counter()
    with (folder / "x.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            texts = ("kind", "name", "track_kind", "track_label", "a0_name", "a1_name")
            made = {}
            for key, value in row.items():
                if key in texts:
                    made[key] = value
                elif key in ("error", "open", "unbalanced"):
                    made[key] = value == "true"
                elif value == "":
                    made[key] = None
                else:
                    made[key] = float(value) if key.endswith("_float") else int(value)
            read[as_text(made)] += 1
    assert read == wanted


# Trimming.


@settings(deadline=None, max_examples=50)
@given(columns=tracks(), begin=st.integers(0, 3000), width=st.integers(0, 3000), zstd=st.booleans())
def test_trimming_keeps_what_touches_the_window(tmp_path_factory, columns, begin, width, zstd):
    path = tmp_path_factory.getbasetemp() / "trimmed.cuzk"
    low, high = EPOCH + begin, EPOCH + begin + width
    packing.write(exports.trim(trace_of(columns), low, high), path, zstd=zstd)
    opened = trace.open(path)
    kept = [i for i in range(len(columns)) if columns.end_ns[i] >= low and columns.start_ns[i] <= high]
    wanted = Counter(as_text(table_row(columns, i)) for i in kept)
    back = opened.columns
    assert Counter(as_text(table_row(back, i)) for i in range(len(back))) == wanted
    assert opened.session.names == NAMES
    assert opened.session.meta["trimmed_ns"] == f"{begin}..{begin + width}"


def test_an_unknown_suffix_lists_the_known_ones(tmp_path):
    with pytest.raises(InputError, match=r"which format\?.*\.pftrace \.json \.parquet \.csv \.cuzk"):
        exports.write(trace_of(Columns.empty()), tmp_path / "x.txt")


@pytest.mark.parametrize("suffix", exports.FORMATS)
def test_a_trace_without_records_can_be_exported(tmp_path, suffix):
    exports.write(trace_of(Columns.empty()), tmp_path / f"x{suffix}")
    assert (tmp_path / f"x{suffix}").stat().st_size > 0
    assert [path.name for path in tmp_path.iterdir()] == [f"x{suffix}"]
