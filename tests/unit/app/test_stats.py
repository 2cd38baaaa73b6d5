"""Stage figures against brute force over plain Python spans."""

from __future__ import annotations

import statistics
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzk_top import stats
from cuzk_top.model import FLAG_ERR, KIND_SPAN, Batch, Columns, Name, RowData, Session, Snapshot, Track
from cuzk_top.stage_table import stage_table
from cuzk_top.store import Store

sys.path.insert(0, str(Path(__file__).parents[2] / "ui"))
import sessions as build

MS = build.MS
Flat = list[tuple[str, float, float | None]]


@st.composite
def traces(draw: st.DrawFn) -> tuple[Flat, float]:
    """Proofs of random children and grandchildren in whole milliseconds, cut at a random moment."""
    at = draw(st.integers(0, 5))
    spans: Flat = []
    for _ in range(draw(st.integers(1, 4))):
        start = at
        for child in draw(st.lists(st.sampled_from(["synthesis", "quotient", "msm.h"]), max_size=4)):
            at += draw(st.integers(0, 3))
            begin = at
            for step in draw(st.lists(st.sampled_from(["x", "y"]), max_size=3)):
                at += draw(st.integers(0, 2))
                length = draw(st.integers(1, 9))
                spans.append((f"{child}.{step}", at, at + length))
                at += length
            at += draw(st.integers(1, 5))
            spans.append((child, begin, at))
        at += draw(st.integers(1, 4))
        spans.append(("prove", start, at))
        at += draw(st.integers(0, 6))
    cut = draw(st.integers(1, max(1, at)))
    return [(n, s, e if e is not None and e <= cut else None) for n, s, e in spans if s < cut], float(cut)


def direct_children(spans: Flat, name: str, cut: float) -> float:
    """Time of the direct children of all spans of a name, from the nesting of the names themselves."""
    if name == "prove":
        inside = [s for s in spans if s[0] in ("synthesis", "quotient", "msm.h")]
    else:
        inside = [s for s in spans if s[0].startswith(name + ".")]
    return sum((cut if end is None else end) - start for _, start, end in inside)


@given(traces())
def test_stage_table_against_brute_force(trace: tuple[Flat, float]) -> None:
    spans, cut = trace
    table = {stage.name: stage for stage in stage_table(build.snapshot_of(spans, cut, counters=False))}
    assert set(table) == {name for name, _, _ in spans}
    proof_total = sum((cut if e is None else e) - s for n, s, e in spans if n == "prove")
    for name, stage in table.items():
        mine = [(s, e) for n, s, e in spans if n == name]
        finished = [round((e - s) * MS) for s, e in mine if e is not None]
        total = sum((cut if e is None else e) - s for s, e in mine)
        assert stage.count == len(finished) and stage.running == len(mine) - len(finished)
        assert stage.total_ns == round(total * MS)
        assert stage.self_ns == round((total - direct_children(spans, name, cut)) * MS)
        if finished:
            assert stage.median_ns == int(statistics.median(finished))
            rank = 0.95 * (len(finished) - 1)
            low, high = sorted(finished)[int(rank)], sorted(finished)[min(int(rank) + 1, len(finished) - 1)]
            assert stage.p95_ns == pytest.approx(low + (rank - int(rank)) * (high - low), abs=1)
        else:
            assert stage.median_ns is None and stage.p95_ns is None
        if proof_total:
            assert stage.share == pytest.approx(total / proof_total)


@given(traces(), st.integers(0, 80))
def test_a_replay_at_a_moment_equals_the_live_table_then(trace: tuple[Flat, float], head: int) -> None:
    spans, cut = trace
    finished: Flat = [(n, s, cut if e is None else e) for n, s, e in spans]
    head_ms = min(float(head), cut)
    replay = replace(
        build.snapshot_of(finished, cut, counters=False), now_ns=build.BASE_NS + round(head_ms * MS)
    )
    then: Flat = [
        (n, s, e if e is not None and e <= head_ms else None) for n, s, e in finished if s < head_ms
    ]
    live = build.snapshot_of(then, head_ms, counters=False)
    ignored = {"minflt": None, "majflt": None, "role": "", "label": "", "indent": 0}
    assert [replace(s, **ignored) for s in stage_table(replay)] == [
        replace(s, **ignored) for s in stage_table(live)
    ]


@given(traces(), st.integers(-5, 80), st.integers(0, 60))
def test_busy_time_and_count_in_a_stretch(trace: tuple[Flat, float], begin: int, length: int) -> None:
    spans, cut = trace
    snapshot = build.snapshot_of(spans, cut, counters=False)
    low, high = build.BASE_NS + begin * MS, build.BASE_NS + (begin + length) * MS
    for row in snapshot.rows:
        names = {snapshot.session.names[n].text for n in row.columns.name.tolist()}
        names |= {row.open.name} if row.open is not None else set()
        mine = [(s, cut if e is None else e) for n, s, e in spans if n in names]
        inside = sum(max(0.0, min(e, begin + length, cut) - max(s, begin)) for s, e in mine)
        assert stats.busy_ns([row], low, high, snapshot.now_ns) == round(inside * MS)
        touching = [1 for s, e in mine if s < begin + length and e > begin and begin < cut]
        assert stats.count_in(row, low, high, snapshot.now_ns) == len(touching)


@given(traces(), st.integers(-5, 80), st.integers(0, 60))
@pytest.mark.parametrize("few", [0, stats.FEW])
def test_nested_spans_are_busy_once(few: int, trace: tuple[Flat, float], begin: int, length: int) -> None:
    spans, cut = trace
    snapshot = build.snapshot_of(spans, cut, counters=False)
    # spans lie on whole milliseconds, so a millisecond is either covered or not
    covered = {t for _, s, e in spans for t in range(int(s), int(cut if e is None else e))}
    low, high = build.BASE_NS + begin * MS, build.BASE_NS + (begin + length) * MS
    inside = covered & set(range(begin, min(begin + length, int(cut))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats, "FEW", few)
        assert stats.busy_ns(snapshot.rows, low, high, snapshot.now_ns) == len(inside) * MS


series = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=8)
"""Pauses and lengths."""


@given(st.lists(series, min_size=1, max_size=4), st.integers(-2, 40), st.integers(0, 50), st.integers(0, 60))
def test_spans_of_a_track_are_busy_once_however_they_lie(
    rows: list[list[tuple[int, int]]], begin: int, length: int, now: int
) -> None:
    made, covered = [], set()
    lane = build.live_controls().snap.rows[0].lane
    for depth, series in enumerate(rows):
        at, spans = depth, []
        for pause, took in series:
            spans.append((at + pause, at + pause + took))
            at += pause + max(1, took)  # no two begin together
        columns = Columns.make(len(spans), start_ns=[s for s, _ in spans], end_ns=[e for _, e in spans])
        made.append(RowData(lane, 1, depth, columns))
        covered |= {t for start, end in spans for t in range(start, end)}
    inside = covered & set(range(begin, min(begin + length, now)))
    assert stats.busy_ns(made, begin, begin + length, now) == len(inside)


def test_last_duration_is_of_the_last_outermost_span() -> None:
    snapshot = build.live_controls().snap
    lanes = {
        key: [row for row in snapshot.rows if row.lane.key == key] for key in ("synthesis", "ntt", "msm.h")
    }
    # third proof, 8 % slower: synthesis has ended, the quotient runs since 8160 + 300 * 4.32 ms
    assert stats.last_duration(lanes["synthesis"], snapshot.now_ns) == round((300 - 62) * 4.32 * MS)
    assert stats.last_duration(lanes["ntt"], snapshot.now_ns) == round((10_300 - 8160 - 300 * 4.32) * MS)
    assert stats.last_duration(lanes["msm.h"], snapshot.now_ns) == round(180 * 4.16 * MS)


def finished_snapshot() -> Snapshot:
    return build.snapshot_of(build.proofs(3), 12_480, ended=True)


def test_table_of_the_drawn_session() -> None:
    table = stage_table(finished_snapshot())
    names = [stage.name for stage in table]
    assert names[0] == "prove" and names.index("msm.h") + 1 == names.index("msm.h.digits")
    by_name = {stage.name: stage for stage in table}
    # 180 units of 4 ms, 4 % and 8 % slower in the second and third proof
    assert by_name["msm.h"].total_ns == round(180 * 4 * (1 + 1.04 + 1.08) * MS)
    assert by_name["msm.h"].ns_per_point == pytest.approx(by_name["msm.h"].total_ns / (3 * 65_536))
    assert by_name["msm.h.reduce"].label == "reduce" and by_name["msm.h.reduce"].indent == 1
    assert by_name["synthesis.abc.eval"].role == "eval"
    assert by_name["msm.h.digits"].ns_per_point is None


def test_shares_are_of_what_lies_inside_proofs() -> None:
    spans: Flat = [
        ("setup", 0, 300),
        ("msm.h", 20, 50),  # of key generation
        ("synthesis.witness.calculate", 310, 390),
        ("prove", 400, 500),
        ("synthesis", 400, 420),
        ("msm.h", 430, 480),
        ("verify", 505, 510),
        ("prove", 600, None),
        ("synthesis", 600, 630),
        ("msm.h", 640, None),
    ]
    table = {stage.name: stage for stage in stage_table(build.snapshot_of(spans, 700, counters=False))}
    # proofs: 100 ms, and 100 of the one that runs
    assert table["prove"].share == 1
    assert table["synthesis"].share == pytest.approx((20 + 30) / 200)
    assert table["msm.h"].share == pytest.approx((50 + 60) / 200)
    assert table["msm.h"].total_ns == (30 + 50 + 60) * MS
    for name in ("setup", "synthesis.witness.calculate", "verify"):
        assert table[name].share is None


def test_proofs_counts_and_durations() -> None:
    count, durations, running = stats.proofs(finished_snapshot())
    assert (count, running) == (3, None)
    assert durations == [round(920 * 4 * f * MS) for f in (1.0, 1.04, 1.08)]
    live = build.live_controls().snap
    count, _, running = stats.proofs(live)
    assert count == 2
    assert running == build.BASE_NS + round((4000 + 4160 + 60 * 4.32) * MS)


def test_a_program_and_a_library_may_both_have_a_name_for_proofs() -> None:
    """Three proofs of 10, 20 and 40 ms under the second of two names; half of each is synthesis, the last
    quarter a ``prove`` of the library that the program calls.
    """
    names = [Name("prove", faults=True), Name("prove", "number"), Name("synthesis")]
    lengths = np.array([10, 20, 40], np.int64) * MS
    start = np.array([0, 100, 200], np.int64) * MS
    spans = Columns.make(
        9,
        kind=KIND_SPAN,
        start_ns=np.stack([start, start, start + lengths * 3 // 4], axis=1).ravel(),
        end_ns=np.stack([start + lengths, start + lengths // 2, start + lengths], axis=1).ravel(),
        name=np.tile([1, 2, 0], 3),
        depth=np.tile([0, 1, 1], 3),
    )
    store = Store()
    store.append(Batch(Session(names=names), spans, Columns.empty(), 0, 300 * MS, True))
    snapshot = store.snapshot()
    assert stats.proofs(snapshot) == (3, [10 * MS, 20 * MS, 40 * MS], None)
    table = {entry.name: entry for entry in stage_table(snapshot)}
    assert table["synthesis"].share == 0.5


def test_siblings_rank_and_histogram() -> None:
    snapshot = finished_snapshot()
    row = next(row for row in snapshot.rows if row.lane.key == "msm.h" and row.depth == 1)
    kin = stats.kin(snapshot, snapshot.record(row, 0).name)
    found = [stats.siblings(kin.durations, snapshot.record(row, i).duration_ns, 4) for i in range(3)]
    assert [s.rank for s in found if s] == [3, 2, 1]
    first = found[0]
    assert first is not None
    assert first.histogram == (1, 0, 1, 1) and first.bucket == 0
    assert first.median_ns == round(180 * 4 * 1.04 * MS)
    assert sum(first.histogram) == first.count == 3


@given(st.lists(st.integers(0, 1_000), max_size=30), st.integers(-10, 1_010), st.integers(1, 24))
def test_siblings_against_counting(durations: list[int], mine: int, buckets: int) -> None:
    found = stats.siblings(np.array(sorted(durations), np.int64), mine, buckets)
    if not durations:
        assert found is None
        return
    assert found is not None
    low, high = min(durations), max(durations)

    def bucket(duration: int) -> int:
        share = Fraction(duration - low, max(1, high - low))
        return min(max(int(share * buckets // 1), 0), buckets - 1)

    assert found.count == len(durations) and found.rank == 1 + sum(one > mine for one in durations)
    assert found.median_ns == int(statistics.median(durations))
    assert (found.fastest_ns, found.slowest_ns) == (low, high)
    assert found.histogram == tuple([bucket(one) for one in durations].count(b) for b in range(buckets))
    assert found.bucket == bucket(mine)


def test_kin_are_all_of_a_text_whatever_their_numbers() -> None:
    """Two processes number one name apart; what runs or has not begun does not count."""
    starts, ends = np.array([0, 10, 20, 30, 40]), np.array([4, 15, 26, 37, 48])
    columns = Columns.make(5, start_ns=starts, end_ns=ends, name=np.array([1, 2, 3, 1, 1]))
    row = RowData(build.live_controls().snap.rows[0].lane, 1, 0, columns)
    session = Session(names=[Name(""), Name("ntt"), Name("ntt.x"), Name("ntt")])
    snapshot = replace(build.live_controls().snap, session=session, rows=(row,), now_ns=45)
    assert stats.kin(snapshot, "ntt").durations.tolist() == [4, 6, 7]


def two_threads(flags: list[int]) -> Snapshot:
    """Two processes number their names apart: proofs of 10, 20 and 40 ms in one, 30 ms in the other."""
    names = [Name(""), Name("prove"), Name("msm.h"), Name("prove"), Name("msm.h")]
    spans = Columns.make(
        8,
        start_ns=np.array([0, 20, 50, 5, 1, 21, 51, 6]) * MS,
        end_ns=np.array([10, 40, 90, 35, 9, 39, 89, 16]) * MS,
        kind=KIND_SPAN,
        flags=np.array(flags),
        depth=np.array([0, 0, 0, 0, 1, 1, 1, 1]),
        track=np.array([1, 1, 1, 2, 1, 1, 1, 2]),
        name=np.array([1, 1, 1, 3, 2, 2, 2, 4]),
        id=np.arange(1, 9),
        parent=np.array([0, 0, 0, 0, 1, 2, 3, 4]),
    )
    tracks = {1: Track(1, "thread", "main", 1), 2: Track(2, "thread", "main", 2)}
    store = Store()
    store.append(Batch(Session(names=names, tracks=tracks), spans, Columns.empty(), 0, 100 * MS, True))
    return store.snapshot()


def test_names_of_one_text_are_one_stage() -> None:
    table = {stage.name: stage for stage in stage_table(two_threads([0] * 8))}
    assert set(table) == {"prove", "msm.h"}
    assert (table["prove"].count, table["prove"].total_ns) == (4, 100 * MS)
    assert (table["msm.h"].count, table["msm.h"].total_ns) == (4, (8 + 18 + 38 + 10) * MS)
    assert table["prove"].self_ns == (100 - 74) * MS
    assert table["prove"].median_ns == 25 * MS and table["msm.h"].share == 0.74


def test_a_proof_that_failed_is_none_to_compare_with() -> None:
    snapshot = two_threads([0, 0, FLAG_ERR, 0, 0, 0, FLAG_ERR, 0])
    assert stats.proofs(snapshot) == (3, [10 * MS, 20 * MS, 30 * MS], None)
    table = {stage.name: stage for stage in stage_table(snapshot)}
    assert (table["prove"].count, table["prove"].median_ns) == (4, 20 * MS)
    assert (table["msm.h"].count, table["msm.h"].median_ns) == (4, 10 * MS)


def test_find_names_the_same_span_again() -> None:
    snapshot = finished_snapshot()
    row = next(row for row in snapshot.rows if row.lane.key == "synthesis")
    record = snapshot.record(row, 1)
    assert stats.find(snapshot, stats.reference(record, row)) == record
    assert stats.find(snapshot, replace(stats.reference(record, row), start_ns=1)) is None
