"""Jobs read from spans: state, stage, partitions, who holds a GPU, and what is left, by hand arithmetic."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from traced import Traced

from cuzk_top import stages
from cuzk_top.history import Past
from cuzk_top.jobs import Job, jobs
from cuzk_top.model import (
    FLAG_ERR,
    FLAG_OPEN,
    KIND_SPAN,
    Batch,
    Columns,
    Name,
    RowData,
    Session,
    Snapshot,
    Track,
)
from cuzk_top.sources.ring import RingSource
from cuzk_top.store import Store

sys.path.insert(0, str(Path(__file__).parents[2] / "ui"))
import sessions as build

MS, BASE = build.MS, build.BASE_NS


def at(ms: float) -> int:
    return BASE + round(ms * MS)


def test_finished_and_running():
    snapshot = build.snapshot_of(build.proofs(3, scale=1.0, until_ms=230), 230)
    first, second, third = jobs(snapshot)
    assert first == Job(
        "proof 1", "chain-2^16", "done", at(6), at(98), "", "", (), None, round(-1.84 * MS), None
    )  # 92 ms against the median of 92 and 95.68
    assert (second.state, second.late_ns) == ("done", round(1.84 * MS))
    assert (third.id, third.state, third.end_ns) == ("proof 3", "running", None)
    assert third.age_ns(snapshot.now_ns) == round((230 - 210.48) * MS)
    assert first.age_ns(snapshot.now_ns) == 92 * MS


@pytest.mark.parametrize(
    ("until", "stage"),
    [
        (8.0, "synthesis.witness.load"),
        (31.0, "quotient.intt.a"),
        (60.0, "msm.h.accumulate"),
        (97.5, "finalize"),
        (97.9, ""),
    ],
)
def test_the_stage_is_the_innermost(until, stage):
    [job] = jobs(build.snapshot_of(build.proofs(1, scale=1.0, until_ms=until), until))
    assert (job.state, job.stage) == ("running", stage)


def test_without_any_past_nothing_is_expected():
    [job] = jobs(
        build.snapshot_of(build.proofs(1, scale=1.0, until_ms=60), 60), None, {"chain-2^16": 10 * MS}
    )
    assert (job.left_ns, job.late_ns) == (None, None)
    assert job.slack_ns == -44 * MS, "54 ms old and due within 10: that is known without any past"
    [job] = jobs(
        build.snapshot_of(build.proofs(1, scale=1.0, until_ms=60), 60), None, {"chain-2^16": 55 * MS}
    )
    assert job.slack_ns is None


def test_what_is_left_by_the_past():
    """Synthesis took 23.8 ms, quotient 22; msm.h runs since 52 and is 8 ms old at 60."""
    snapshot = build.snapshot_of(build.proofs(1, scale=1.0, until_ms=60), 60)
    usual = {"synthesis": 20 * MS, "quotient": 23 * MS, "msm.h": 18 * MS, "prove": 90 * MS}
    [job] = jobs(snapshot, Past("k", 5, 90 * MS, usual), {"chain-2^16": 95 * MS, "another": 1})
    assert job.late_ns == round((3.8 - 1.0) * MS), "msm.h is not over its 18 ms yet"
    assert job.left_ns == round((90 + 2.8 - 54) * MS)
    assert job.slack_ns == round((95 - 92.8) * MS)
    [job] = jobs(snapshot, Past("k", 5, 90 * MS, {**usual, "msm.h": 6 * MS}))
    assert job.late_ns == round((3.8 - 1.0 + 2.0) * MS)
    [job] = jobs(snapshot, Past("k", 5, 40 * MS, {}))
    assert (job.late_ns, job.left_ns) == (14 * MS, 0), "older than any, and no end in sight"
    [job] = jobs(snapshot, Past("k", 5, 60 * MS, {}))
    assert (job.late_ns, job.left_ns) == (0, 6 * MS)
    [job] = jobs(snapshot, Past("k"))
    assert (job.late_ns, job.left_ns) == (None, None)


def test_what_is_left_by_this_trace():
    """Each proof is 4 % of the first longer than the one before, and so is each of its parts."""
    until = 204 + 0.54 * 108
    third = jobs(build.snapshot_of(build.proofs(3, scale=1.0, until_ms=until), until))[-1]
    # Usual are 1.02 of the first: this one, 1.08, is 0.06 late in what it is through with.
    assert third.stage == "msm.h.accumulate"
    assert third.late_ns == pytest.approx(0.06 * (23.8 + 22) * MS, abs=20)
    assert third.left_ns == pytest.approx((92 * 1.02 + 0.06 * 45.8 - 1.08 * 48) * MS, abs=20)


def test_a_replay_at_a_moment_says_what_live_said_then():
    whole = build.snapshot_of(build.proofs(3, scale=1.0), 320, ended=True)
    for ms in (5.9, 8, 31.5, 60, 98, 99, 150.2, 230):
        live = build.snapshot_of(build.proofs(3, scale=1.0, until_ms=ms), ms)
        assert jobs(replace(whole, now_ns=at(ms))) == jobs(live)


def test_only_the_newest_are_given():
    snapshot = build.snapshot_of(build.proofs(120, scale=1.0, until_ms=41_000), 41_000)
    found = jobs(snapshot)
    assert [job.id for job in found] == [f"proof {n}" for n in range(21, 121)]


def store_of(rows, names, tracks=(), ended=False, problems=(), now=1_000) -> Snapshot:
    """Rows of start, end (None: open), name, track, depth, a0, flags; names as Name."""
    session = Session(pid=1, name="bench", names=[Name(""), *names])
    for track, kind in tracks:
        session.tracks[track] = Track(track, kind, kind)
    number = {name.text: i for i, name in enumerate(names, 1)}

    def columns(which, is_open):
        return Columns.make(
            len(which),
            start_ns=[r[0] for r in which],
            end_ns=[now if is_open else r[1] for r in which],
            name=[number[r[2]] for r in which],
            track=[r[3] for r in which],
            depth=[r[4] for r in which],
            a0=[r[5] for r in which],
            flags=[r[6] | (FLAG_OPEN if is_open else 0) for r in which],
            kind=KIND_SPAN,
            id=np.arange(1, len(which) + 1) + 100 * is_open,
        )

    closed = sorted((r for r in rows if r[1] is not None), key=lambda r: r[1])
    store = Store()
    opened = columns([r for r in rows if r[1] is None], True)
    store.append(Batch(session, columns(closed, False), opened, 0, now, ended, problems=problems))
    return store.snapshot()


def test_a_proof_that_an_exception_left_has_failed():
    [job] = jobs(store_of([(10, 60, "prove", 1, 0, 0, FLAG_ERR)], [Name("prove")]), Past("k", 1, 20, {}))
    assert (job.state, job.end_ns, job.late_ns, job.left_ns) == ("failed", 60, None, None)


def test_a_proof_whose_process_was_killed_has_failed(tmp_path):
    program = Traced(
        tmp_path, 'with cuzk_tracer.span("prove"):\n    print("in", flush=True); sys.stdin.read()\n'
    )
    try:
        assert program.hear() == "in"
        source, store = RingSource(program.ring, time.monotonic_ns), Store()
        store.append(source.poll())
        assert [job.state for job in jobs(store.snapshot())] == ["running"]
    finally:
        program.kill()
    store.append(source.poll())
    source.close()
    [job] = jobs(store.snapshot())
    assert job.state == "failed" and job.end_ns is None
    assert [job.state for job in jobs(replace(store.snapshot(), now_ns=job.start_ns + 1))] == ["running"]


PARTS = [
    Name("prove"),
    Name("synthesis", "partition"),
    Name("transfer", "partition"),
    Name("quotient", "partition"),
    Name("msm.h", "partition"),
    Name("finalize", "partition"),
]


def test_partitions():
    rows = [
        (10, None, "prove", 1, 0, 0, 0),
        (20, 100, "synthesis", 2, 0, 0, 0),
        (100, None, "synthesis", 2, 0, 3, 0),
        (20, 110, "synthesis", 3, 0, 1, 0),
        (20, 120, "synthesis", 4, 0, 2, 0),
        (120, None, "synthesis", 4, 0, 4, 0),
        (110, 130, "transfer", 5, 0, 0, 0),
        (130, 150, "quotient", 5, 0, 0, 0),
        (150, 200, "msm.h", 5, 0, 0, 0),
        (200, None, "transfer", 5, 0, 1, 0),
        (300, None, "synthesis", 6, 0, 6, 0),
    ]
    [job] = jobs(store_of(rows, PARTS))
    assert job.partitions == "DH.SS.S"
    then = replace(store_of(rows, PARTS), now_ns=140)
    assert jobs(then)[0].partitions == "N..SS", "of the seventh nothing was heard yet"


def test_partitions_of_finished_and_failed_proofs():
    rows = [
        (10, 60, "prove", 1, 0, 0, 0),
        (20, 50, "synthesis", 1, 1, 1, 0),
        (70, 90, "prove", 1, 0, 0, FLAG_ERR),
        (75, 80, "synthesis", 1, 1, 0, 0),
        (80, 85, "msm.h", 1, 1, 0, 0),
        (100, None, "prove", 1, 0, 0, 0),
        (110, None, "finalize", 1, 1, 0, 0),
    ]
    assert [job.partitions for job in jobs(store_of(rows, PARTS))] == ["DD", "D.", "M."]
    assert jobs(store_of(rows[:1], [Name("prove"), Name("synthesis")]))[0].partitions == ""


def test_impossible_partitions_are_none():
    rows = [
        (10, None, "prove", 1, 0, 0, 0),
        (20, 30, "synthesis", 1, 1, 1 << 60, 0),
        (30, 40, "synthesis", 1, 1, -1, 0),
        (40, 50, "synthesis", 1, 1, 1, 0),
    ]
    assert jobs(store_of(rows, PARTS))[0].partitions == ".."


def test_who_holds_which_gpu():
    rows = [
        (10, None, "prove", 1, 0, 0, 0),
        (20, None, "prove", 2, 0, 0, 0),
        (30, None, "msm.h", 1, 1, 0, 0),
        (40, None, "synthesis", 2, 1, 0, 0),
    ]
    snapshot = store_of(rows, PARTS)
    claim = Columns.make(2, start_ns=[15, 50], end_ns=[25, 2_000], name=1, track=1, depth=1, kind=KIND_SPAN)
    other = Columns.make(1, start_ns=[60], end_ns=[3_000], name=1, track=9, depth=0, kind=KIND_SPAN)
    lane = stages.Lane("gpu1.held", "1 held", "", "held")
    held = (RowData(lane, 0, 0, claim), RowData(replace(lane, key="gpu0.held"), 0, 0, other))
    first, second = jobs(replace(snapshot, rows=(*snapshot.rows, *held)))
    assert first.holds == ((1, 50),) and first.stage == "msm.h"
    assert second.holds == ((0, 60),), "of no proof's thread: the one that began last has it"
    assert second.stage == "synthesis"
    assert [job.holds for job in jobs(replace(snapshot, rows=(*snapshot.rows, *held), now_ns=45))] == [(), ()]


def test_asynchronous_proofs():
    rows = [(10, None, "prove", 5, 0, 0, 0), (20, 80, "prove", 5, 1, 0, 0), (30, None, "msm.h", 2, 0, 0, 0)]
    first, second = jobs(store_of(rows, PARTS, tracks=[(5, "async")]))
    assert (first.state, second.state) == ("running", "done")
    assert (first.kind, first.stage) == ("bench", "msm.h")
