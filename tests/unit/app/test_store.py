"""The store: rows, lanes, lookups and retention against brute force."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_top import stages
from cuzk_top.growing import Growing
from cuzk_top.model import (
    FLAG_F64,
    FLAG_OPEN,
    KIND_COUNTER,
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_INSTANT,
    KIND_SPAN,
    ROW_BYTES,
    Batch,
    Columns,
    Name,
    Run,
    Session,
    Snapshot,
    Track,
)
from cuzk_top.stage_table import stage_table
from cuzk_top.store import Store


def names(*texts: str) -> list[Name]:
    return [Name(""), *(Name(text) for text in texts)]


def batch(
    session: Session, columns: Columns, *, open_: Columns | None = None, now: int = 0, **more: object
) -> Batch:
    return Batch(session, columns, open_ or Columns.empty(), lost=0, now_ns=now, **more)  # type: ignore[arg-type]


def spans(*rows: tuple[int, int, int, int, int]) -> Columns:
    """(start, end, name, depth, id), parent = id // 10."""
    table = np.array(rows, np.int64).reshape(-1, 5)
    return Columns.make(
        len(table),
        start_ns=table[:, 0],
        end_ns=table[:, 1],
        name=table[:, 2],
        depth=table[:, 3],
        id=table[:, 4],
        parent=table[:, 4] // 10,
        kind=KIND_SPAN,
        track=1,
    )


PROOF = names("prove", "synthesis", "synthesis.witness.load", "quotient.ntt.a", "msm.h", "nobody.knows")


def proof_store() -> Store:
    store = Store()
    session = Session(pid=7, names=PROOF, meta={"backend": "cpu-native"})
    # Children end, and arrive, before their parents.
    closed = spans(
        (20, 30, 3, 2, 111), (10, 40, 2, 1, 11), (40, 60, 4, 1, 12), (60, 90, 5, 1, 13), (0, 100, 1, 0, 1)
    )
    store.append(batch(session, closed, now=100))
    return store


def test_rows_are_in_order_of_lanes_and_depths():
    snapshot = proof_store().snapshot()
    filled = [
        (row.lane.key, row.depth, row.columns.start_ns.tolist()) for row in snapshot.rows if len(row.columns)
    ]
    assert filled == [
        ("proof", 0, [0]),
        ("synthesis", 1, [10]),
        ("synthesis", 2, [20]),
        ("ntt", 1, [40]),
        ("msm.h", 1, [60]),
    ]
    assert (snapshot.first_ns, snapshot.last_ns, snapshot.now_ns, snapshot.spans) == (0, 100, 100, 5)


def test_lanes_of_a_proof_are_there_before_their_first_span():
    rows = proof_store().snapshot().rows
    assert [row.lane.key for row in rows if not len(row.columns)] == [
        "transfer", "msm.l", "msm.a", "msm.b_g1", "msm.b_g2", "finalize",
    ]  # fmt: skip
    missing = {row.lane.key: row.missing for row in rows if row.missing}
    assert missing == {"transfer": "none: CPU back end"}


def test_a_cpu_back_end_has_the_cpu_msm_role_and_letter():
    lanes = {row.lane.key: row.lane for row in proof_store().snapshot().rows}
    assert (lanes["msm.h"].letter, lanes["msm.h"].role) == ("m", "cpu msm")
    assert (stages.lane("msm.h", {}).letter, stages.lane("msm.h", {}).role) == ("M", "msm")


def test_other_programs_get_no_empty_lanes():
    store = Store()
    store.append(batch(Session(names=names("load.page")), spans((0, 5, 1, 0, 1))))
    assert [row.lane.key for row in store.snapshot().rows] == ["other"]


def test_children_and_parents():
    snapshot = proof_store().snapshot()
    proof = snapshot.record(snapshot.rows[0], 0)
    children = snapshot.children(proof)
    assert [child.name for child in children] == ["synthesis", "quotient.ntt.a", "msm.h"]
    assert [child.name for child in snapshot.children(children[0])] == ["synthesis.witness.load"]
    assert snapshot.parent(children[2]) == proof
    assert snapshot.parent(proof) is None
    assert snapshot.children(children[2]) == []


def test_at_is_half_open_and_knows_the_open_span():
    store = proof_store()
    open_ = Columns.make(
        1,
        start_ns=[200],
        end_ns=[250],
        name=[5],
        depth=[1],
        id=[21],
        track=[1],
        kind=[KIND_SPAN],
        flags=[FLAG_OPEN],
    )
    store.append(
        batch(Session(names=PROOF, meta={"backend": "cpu-native"}), Columns.empty(), open_=open_, now=250)
    )
    snapshot = store.snapshot()
    row = next(row for row in snapshot.rows if row.lane.key == "msm.h")
    found = {t: snapshot.at(row, t) for t in (59, 60, 89, 90, 199, 200, 10**9)}
    assert {t: span and span.id for t, span in found.items()} == {
        59: None, 60: 13, 89: 13, 90: None, 199: None, 200: 21, 10**9: 21,
    }  # fmt: skip
    assert found[200] is not None and found[200].is_open and found[200].duration_ns == 50
    store.append(batch(Session(names=PROOF), Columns.empty(), now=300))
    assert all(row.open is None for row in store.snapshot().rows)


def test_the_snapshot_is_the_same_object_until_something_comes():
    store = proof_store()
    first = store.snapshot()
    assert store.snapshot() is first
    store.append(batch(Session(names=PROOF), spans((100, 120, 5, 1, 31)), now=120))
    second = store.snapshot()
    assert second is not first and second.revision > first.revision
    assert first.spans == 5 and second.spans == 6
    msm = next(row for row in first.rows if row.lane.key == "msm.h")
    assert msm.columns.end_ns.tolist() == [90], "an old snapshot does not change"
    with pytest.raises(ValueError, match="read-only"):
        msm.columns.end_ns[0] = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        second.spans = 7  # type: ignore[misc]


def test_counters_marks_and_missing_reasons():
    store = Store()
    session = Session(
        names=names("host.minflt", "queue", "go"),
        meta={"missing.gpu.0.util": "no NVIDIA driver", "top.host.minflt": "500"},
    )
    columns = Columns.make(
        4,
        kind=[KIND_COUNTER, KIND_COUNTER, KIND_INSTANT, KIND_COUNTER],
        name=[1, 2, 3, 1],
        start_ns=[0, 5, 7, 100],
        end_ns=[100, 5, 7, 200],
        flags=[FLAG_F64, 0, 0, FLAG_F64],
        a0=[np.float64(1.5).view(np.int64), 42, 9, np.float64(-2.0).view(np.int64)],
    )
    store.append(batch(session, columns, now=200))
    snapshot = store.snapshot()
    assert [(c.key, c.label, c.value.tolist(), c.missing, c.top) for c in snapshot.counters] == [
        ("host.minflt", "minflt/s", [1.5, -2.0], None, 500.0),
        ("gpu.0.util", "GPU %", [], "no NVIDIA driver", 100.0),
        ("queue", "queue", [42.0], None, None),
    ]
    assert snapshot.counters[0].start_ns.tolist() == [0, 100]
    assert snapshot.counters[0].t_ns.tolist() == [100, 200]
    assert [(mark.t_ns, mark.text, mark.a0) for mark in snapshot.marks] == [(7, "go", 9)]
    assert snapshot.spans == 0


def test_retention_drops_the_oldest_spans_of_all_rows():
    store = Store(limit_bytes=800 * ROW_BYTES)
    session = Session(names=PROOF)
    for i in range(1000):
        store.append(batch(session, spans((10 * i, 10 * i + 5, 4 + i % 2, 1, i + 1)), now=10 * i))
    snapshot = store.snapshot()
    kept = sorted(start for row in snapshot.rows for start in row.columns.start_ns.tolist())
    assert kept == [10 * i for i in range(1000 - len(kept), 1000)], "the newest, without gaps"
    assert 700 <= len(kept) <= 800
    assert snapshot.spans == 1000
    assert snapshot.first_ns == 0, "the origin of the time axis stays where it was"
    assert snapshot.problems == (f"the oldest {1000 - len(kept):,} spans are no longer kept",)


def test_a_million_spans_need_no_object_each():
    count = 1_000_000
    start = np.arange(count, dtype=np.int64) * 10
    store = Store()
    session = Session(names=PROOF)
    for low in range(0, count, 65_536):
        part = start[low : low + 65_536]
        store.append(
            batch(session, Columns.make(len(part), start_ns=part, end_ns=part + 9, name=5, kind=KIND_SPAN))
        )
    snapshot = store.snapshot()
    row = next(row for row in snapshot.rows if len(row.columns))
    assert len(row.columns) == count
    assert snapshot.at(row, 5_000_004) == snapshot.record(row, 500_000)


def overlaps(snapshot: Snapshot) -> bool:
    return any(
        (row.columns.start_ns[1:] < row.columns.end_ns[:-1]).any()
        or (np.diff(row.columns.start_ns) < 0).any()
        for row in snapshot.rows
    )


span_lists = st.lists(
    st.lists(
        st.tuples(
            st.integers(0, 60),
            st.integers(0, 15),
            st.integers(1, 9),
            st.sampled_from([0, 1, 254, 255]),
            st.just(0),
        ),
        max_size=12,
    ),
    max_size=5,
)


@settings(deadline=None, max_examples=200)
@given(span_lists)
def test_rows_never_overlap_whatever_comes(batches):
    """Rows against brute force: nothing is lost but what the deepest row has no room for."""
    store = Store()
    session = Session(names=PROOF)
    sent = []
    number = 0
    for rows in batches:
        table = []
        for start, length, name, depth, _ in rows:
            number += 1
            table.append((start, start + length, name, depth, number))
        sent += table
        store.append(batch(session, spans(*table)))
    snapshot = store.snapshot()
    assert not overlaps(snapshot)
    lanes = {i: stages.lane_of(name.text) for i, name in enumerate(PROOF)}
    got = {}
    for row in snapshot.rows:
        for i in range(len(row.columns)):
            got[int(row.columns.id[i])] = (row, i)
    for start, end, name, depth, number in sent:
        if number in got:
            row, i = got[number]
            assert (row.columns.start_ns[i], row.columns.end_ns[i]) == (start, end)
            assert row.lane.key == lanes.get(name, "other")
            assert row.depth >= depth, "an overlapping span goes deeper, never up"
    dropped = len(sent) - len(got)
    assert snapshot.problems == ((f"the oldest {dropped:,} spans are no longer kept",) if dropped else ())
    if all(depth < 100 for *_, depth, _ in sent):
        assert dropped == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))))
def test_growing_arrays_behave_like_a_list(steps):
    growing = Growing(2)
    model: list[int] = []
    views = []
    count = 0
    for add, drop, cut in steps:
        new = list(range(count, count + add))
        count += add
        growing.append(np.array([new, [-value for value in new]], np.int64))
        model += new
        drop = min(drop, len(model))  # noqa: PLW2901
        views.append((growing.block, list(model)))
        growing.drop(drop)
        del model[:drop]
        assert growing.block.tolist() == [model, [-value for value in model]]
        if cut < len(model):  # others come in place of the last
            growing.cut(cut)
            del model[cut:]
            assert growing.block.tolist() == [model, [-value for value in model]]
        assert len(growing) == len(model)
    assert all(view[0].tolist() == expected for view, expected in views)


@pytest.mark.parametrize(
    ("name", "lane", "role"),
    [
        ("prove", "proof", "held"),
        ("key.load", "key", "held"),
        ("check.points", "key", "held"),
        ("synthesis.witness.load", "synthesis", "witness"),
        ("synthesis.abc.eval", "synthesis", "eval"),
        ("quotient.ntt.a", "ntt", "ntt"),
        ("msm.b_g1.accumulate", "msm.b_g1", "msm"),
        ("msm.b_g11", "other", "busy"),
        ("msm", "other", "busy"),
        ("prover", "other", "busy"),
        ("", "other", "busy"),
    ],
)
def test_the_stage_map(name, lane, role):
    assert stages.lane_of(name) == lane
    assert stages.role_of(name, {}) == role


def test_counters_of_more_than_one_gpu():
    assert stages.counter("gpu.1.util").label == "GPU1 %"
    assert stages.counter("gpu.1.memory").unit == "GiB"
    assert stages.counter("anything").kind == "gauge"


# Saved traces, damaged ones too.


def run(columns: Columns) -> Run:
    return Run(int(columns.track[0]), int(columns.depth[0]), columns)


def test_runs_are_adopted_as_they_lie_and_mixed_lanes_are_parted():
    session = Session(pid=7, names=PROOF)
    one_lane = spans((0, 10, 5, 0, 1), (10, 20, 5, 0, 2))
    mixed = spans((0, 4, 5, 1, 3), (4, 6, 2, 1, 4), (6, 9, 5, 1, 5))
    store = Store()
    store.append(
        dataclasses.replace(batch(session, Columns.empty(), now=20), runs=(run(one_lane), run(mixed)))
    )
    snapshot = store.snapshot()
    rows = {row.key: row for row in snapshot.rows if len(row.columns)}
    assert list(rows) == [("synthesis", 1, 1), ("msm.h", 1, 0), ("msm.h", 1, 1)]
    assert rows["msm.h", 1, 0].columns is one_lane, "nothing was copied"
    assert rows["msm.h", 1, 1].columns.id.tolist() == [3, 5]
    assert rows["synthesis", 1, 1].columns.start_ns.tolist() == [4]
    assert (snapshot.spans, snapshot.first_ns, snapshot.last_ns) == (5, 0, 20)
    store.append(batch(session, spans((20, 30, 5, 0, 9)), now=30))
    later = next(row for row in store.snapshot().rows if row.key == ("msm.h", 1, 0))
    assert later.columns.id.tolist() == [1, 2, 9], "and more can be put behind"


def test_a_run_that_overlaps_is_put_in_order_one_row_deeper():
    store = Store()
    overlapping = spans((30, 40, 5, 0, 3), (0, 20, 5, 0, 1), (10, 15, 5, 0, 2))
    store.append(dataclasses.replace(batch(Session(names=PROOF), Columns.empty()), runs=(run(overlapping),)))
    rows = [row for row in store.snapshot().rows if len(row.columns)]
    assert [row.columns.id.tolist() for row in rows] == [[1, 3], [2]]


def test_impossible_times_are_left_out_and_counted():
    store = Store()
    odd = spans((-(2**63), 10, 5, 0, 1), (20, 30, 5, 0, 2), (40, 2**63 - 1, 5, 0, 3))
    store.append(dataclasses.replace(batch(Session(names=PROOF), Columns.empty(), now=50), runs=(run(odd),)))
    snapshot = store.snapshot()
    assert [row.columns.id.tolist() for row in snapshot.rows if len(row.columns)] == [[2]]
    assert snapshot.problems == ("2 records with impossible times were left out",)
    assert (snapshot.spans, snapshot.first_ns, snapshot.last_ns) == (1, 20, 30)


def test_the_stage_table_takes_names_that_nobody_has_and_one_without_text():
    """Found by fuzzing: the first cost gigabytes, the second was its own parent without end."""
    store = Store()
    odd = spans((0, 10, 0, 0, 1), (10, 20, 2**32 - 1, 0, 2), (20, 30, 5, 0, 3))
    store.append(batch(Session(names=PROOF), odd, now=30))
    assert [(stage.name, stage.count) for stage in stage_table(store.snapshot())] == [("msm.h", 1), ("", 1)]


# What is taken in bit by bit is what is taken in afresh.

DEVICES = Session(
    names=names("kernel", "memcpy.h2d"),
    tracks={7: Track(7, "gpu", "GPU0 stream 7"), 8: Track(8, "gpu", "GPU1 stream 8", 1)},
)
POLLS = st.lists(
    st.lists(
        st.tuples(st.integers(0, 90), st.integers(0, 9), st.sampled_from([7, 8]), st.booleans()), max_size=4
    ),
    max_size=8,
)


def whole(snapshot: Snapshot) -> tuple[object, ...]:
    """All spans of devices by their numbers, and when each device worked."""
    told = sorted(
        (row.columns.seq.item(i), row.lane.key, row.columns.start_ns.item(i), row.columns.end_ns.item(i))
        for row in snapshot.rows
        for i in range(len(row.columns))
        if not row.lane.key.endswith(".busy")
    )
    split = [(device.index, device.split(0, 200)) for device in snapshot.devices]
    return snapshot.spans, snapshot.first_ns, snapshot.last_ns, told, split


@given(POLLS)
def test_the_store_of_a_live_session_has_all_once_it_is_settled(polls):
    stores = Store(), Store(live=True)
    number = 0
    for poll in polls:
        columns = Columns.make(
            len(poll),
            start_ns=[start for start, *_ in poll],
            end_ns=[start + length for start, length, *_ in poll],
            kind=[KIND_GPU_KERNEL if kernel else KIND_GPU_MEMCPY for *_, kernel in poll],
            name=[1 if kernel else 2 for *_, kernel in poll],
            track=[track for _, _, track, _ in poll],
            seq=range(number, number + len(poll)),
        )
        number += len(poll)
        for store in stores:
            store.append(batch(DEVICES, columns))
        waits = stores[1]._waiting
        assert stores[1].snapshot().spans == stores[0].snapshot().spans - (len(waits) if waits else 0)
    if polls and not polls[-1]:
        assert stores[1]._waiting is None, "a poll without such records leaves none waiting"
    stores[1].settle()
    assert whole(stores[1].snapshot()) == whole(stores[0].snapshot())


STEPS = st.lists(
    st.tuples(
        st.booleans(),  # whether the open spans are others than before
        st.lists(st.integers(0, 3), max_size=2, unique=True),  # their depths
        st.integers(0, 2),  # spans that have ended
        st.integers(0, 30),  # time that has passed
    ),
    max_size=10,
)


@given(STEPS)
def test_what_stays_open_is_as_if_it_was_told_again(steps):
    session = Session(names=PROOF, tracks={1: Track(1, "thread", "main")}, meta={"backend": "cpu"})
    known, afresh = Store(), Store()
    now, opened, number = 100, Columns.empty(), 0
    for others, depths, ended, passed in steps:
        now += passed
        if others:
            starts, named = [now - depth for depth in depths], [1 + depth for depth in depths]
            opened = Columns.make(
                len(depths), start_ns=starts, end_ns=now + 5, depth=depths, track=1, kind=KIND_SPAN,
                flags=FLAG_OPEN, name=named,
            )  # fmt: skip
        closed = spans(*[(now, now, 2 + i, 1, number + i) for i in range(ended)])
        number += ended
        told = opened.replace(end_ns=np.maximum(opened.end_ns, now)) if len(opened) else Columns.empty()
        known.append(batch(session, closed, open_=opened, now=now))
        afresh.append(batch(session.copy(), closed, open_=told.replace(), now=now))
        one, two = known.snapshot(), afresh.snapshot()
        assert [(row.key, len(row.columns), row.open, row.missing) for row in one.rows] == [
            (row.key, len(row.columns), row.open, row.missing) for row in two.rows
        ]
        assert (one.first_ns, one.now_ns) == (two.first_ns, two.now_ns)


@pytest.mark.parametrize("spans_too", [True, False])
def test_a_live_store_keeps_to_its_limit_with_all_it_holds(spans_too):
    """Counters and what is derived of devices count as well; without spans, counters alone."""
    limit = 64_000
    session = Session(names=names("kernel", "host.rss"), tracks={7: Track(7, "gpu", "GPU0 stream 7")})
    store = Store(limit, live=True)
    last = 0
    for poll in range(400):
        i = np.arange(poll * 20, poll * 20 + 20)
        made = Columns.make(
            20, start_ns=10 * i, end_ns=10 * i + 5, track=7, seq=i,
            kind=np.where((i % 2 == 0) & spans_too, KIND_GPU_KERNEL, KIND_COUNTER),
            name=np.where((i % 2 == 0) & spans_too, 1, 2),
        )  # fmt: skip
        last = int(made.end_ns[-1])
        store.append(batch(session, made, now=last))
    store.settle()
    snapshot = store.snapshot()
    held = sum(len(row.columns) * 32 for row in snapshot.rows if not row.lane.key.endswith(".busy"))
    held += sum(len(counter.t_ns) * 24 for counter in snapshot.counters)
    held += sum(len(device.work.start) * 32 for device in snapshot.devices)
    assert limit // 3 < held < limit * 5 // 4
    assert max(counter.t_ns[-1] for counter in snapshot.counters if len(counter.t_ns)) == last
    assert (snapshot.spans, bool(snapshot.problems)) == ((4_000, True) if spans_too else (0, False))
