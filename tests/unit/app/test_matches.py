"""Stepping through what a search found, against a plain list of all spans."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from cuzk_top import stages
from cuzk_top.model import Columns, Name, RowData, Session, Snapshot
from cuzk_top.screens.matches import Matches
from cuzk_top.viewport import SpanRef, ViewState

NAMES = ("", "ntt", "msm.h", "Ntt.inverse", "key")
LANE = stages.lane("ntt", {})

spans = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(1, 4)), max_size=8)
"""Pause before, length, and number of the name."""


def row_of(depth: int, parts: list[tuple[int, int, int]]) -> RowData:
    at, starts, ends = 0, [], []
    for pause, length, _ in parts:
        starts.append(at + pause)
        at += pause + length
        ends.append(at)
    columns = Columns.make(len(parts), start_ns=starts, end_ns=ends, name=[name for _, _, name in parts])
    return RowData(LANE, 1, depth, columns)


@given(
    st.lists(spans, min_size=1, max_size=4), st.integers(0, 40), st.integers(-2, 40), st.sampled_from((1, -1))
)
def test_matches_come_in_the_order_of_their_starts(
    parts: list[list[tuple[int, int, int]]], now: int, window: int, step: int
) -> None:
    rows = tuple(row_of(depth, one) for depth, one in enumerate(parts))
    session = Session(names=[Name(text) for text in NAMES])
    snapshot = Snapshot(1, session, rows, (), (), 0, 40, now, 0, 0, True, ())
    expected = sorted(
        (start, place)
        for place, row in enumerate(rows)
        for start, name in zip(row.columns.start_ns.tolist(), row.columns.name.tolist(), strict=True)
        if start < now and name in (1, 3)
    )
    view = ViewState(t0_ns=window, t1_ns=window + 10, search="nTt")
    matches = Matches()
    if not expected:
        assert matches.step(view, snapshot, step) is None
        return
    if step > 0:
        at = next((i for i, (start, _) in enumerate(expected) if start >= window), 0)
    else:
        at = max(
            (i for i, (start, _) in enumerate(expected) if start <= window + 10), default=len(expected) - 1
        )
    for _ in range(len(expected) + 1):
        found = matches.step(view, snapshot, step)
        assert found is not None
        start, place = expected[at]
        assert (found.number, found.count) == (at + 1, len(expected))
        assert found.row is rows[place] and found.record.start_ns == start
        view = replace(view, selected=SpanRef(LANE.key, 1, place, start))
        at = (at + step) % len(expected)
