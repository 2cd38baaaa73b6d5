"""Cells and counter columns against brute force over every span and sample."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzk_top import rows, viewport
from cuzk_top.rows import BLANK, EIGHTHS, Cells, Spans
from cuzk_top.viewport import Window

COLUMN = 10_000


def i64(values: list[int]) -> viewport.Int64s:
    return np.array(values, dtype=np.int64)


@st.composite
def span_rows(draw: st.DrawFn) -> tuple[list[tuple[int, int]], int | None, int]:
    """Sorted spans that do not overlap (some empty, some adjacent), maybe an open one, and a play head."""
    lengths = st.one_of(st.integers(0, 3), st.integers(0, COLUMN // 2), st.integers(0, 6 * COLUMN))
    time = draw(st.integers(-5 * COLUMN, COLUMN))
    spans: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(0, 40))):
        time += draw(st.one_of(st.just(1), lengths))
        if spans and time <= spans[-1][0]:
            time = spans[-1][0] + 1
        end = time + draw(lengths)
        spans.append((time, end))
        time = end
    opened = draw(st.one_of(st.none(), st.integers(time + 1, time + 3 * COLUMN)))
    now = draw(st.integers(-COLUMN, 25 * COLUMN))
    return spans, opened, now


def visible(spans: list[tuple[int, int]], opened: int | None, now: int) -> list[tuple[int, int]]:
    """Spans as drawn: clipped to now, never empty."""
    shown = [(start, max(start + 1, min(end, now))) for start, end in spans if start < now]
    if opened is not None and opened < now:
        shown.append((opened, now))
    return shown


def make(spans: list[tuple[int, int]], opened: int | None, now: int) -> Spans:
    return Spans.until(i64([s for s, _ in spans]), i64([e for _, e in spans]), opened, now)


def brute_owner(shown: list[tuple[int, int]], begin: int, end: int) -> int:
    touching = [i for i, (s, e) in enumerate(shown) if s < end and e > begin]
    if not touching:
        return BLANK
    centre = begin + (end - begin) // 2
    for i in touching:
        if shown[i][0] <= centre < shown[i][1]:
            return i
    cover = {i: min(shown[i][1], end) - max(shown[i][0], begin) for i in (touching[0], touching[-1])}
    return touching[0] if cover[touching[0]] >= cover[touching[-1]] else touching[-1]


def cell_owner(cells: Cells, column: int) -> set[int]:
    return {int(cells.left[column]), int(cells.right[column])} - {BLANK}


@given(span_rows(), st.integers(1, 20))
def test_the_right_span_owns_each_cell(
    row: tuple[list[tuple[int, int]], int | None, int], columns: int
) -> None:
    edges = viewport.edges(Window(0, columns * COLUMN), columns)
    cells = rows.cells(make(*row), edges)
    shown = visible(*row)
    for column in range(columns):
        owner = (
            brute_owner(shown, int(edges[column]), int(edges[column + 1]))
            if edges[column] < row[2]
            else BLANK
        )
        drawn = cell_owner(cells, column)
        assert (owner == BLANK) == (not drawn)
        if owner != BLANK:
            assert owner in drawn
            assert all(shown[i][0] < edges[column + 1] and shown[i][1] > edges[column] for i in drawn)


@given(span_rows(), st.integers(1, 20))
def test_every_span_is_drawn_or_counted(
    row: tuple[list[tuple[int, int]], int | None, int], columns: int
) -> None:
    window = Window(0, columns * COLUMN)
    cells = rows.cells(make(*row), viewport.edges(window, columns))
    shown = visible(*row)
    inside = [i for i, (s, e) in enumerate(shown) if s < window.t1_ns and e > 0]
    drawn = set().union(*(cell_owner(cells, c) for c in range(columns)))
    assert drawn <= set(inside)
    assert len(drawn) + int(cells.merged.sum()) == len(inside)
    assert (cells.merged >= 0).all()
    # a span as wide as two cells always has one to itself
    assert all(
        i in drawn for i in inside if min(shown[i][1], window.t1_ns) - max(shown[i][0], 0) >= 2 * COLUMN
    )


@given(span_rows(), st.integers(1, 20))
def test_partial_ends_are_within_an_eighth(
    row: tuple[list[tuple[int, int]], int | None, int], columns: int
) -> None:
    edges = viewport.edges(Window(0, columns * COLUMN), columns)
    cells = rows.cells(make(*row), edges)
    shown = visible(*row)
    assert ((cells.split >= 1) & (cells.split <= EIGHTHS)).all()
    for column in range(columns):
        left, right, split = int(cells.left[column]), int(cells.right[column]), int(cells.split[column])
        begin = int(edges[column])
        where = Fraction(split * COLUMN, EIGHTHS) + begin
        tolerance = Fraction(COLUMN, 8)
        if BLANK not in (left, right):
            assert split < EIGHTHS and left + 1 == right
            assert abs(shown[left][1] - where) <= tolerance
        elif left != BLANK and split < EIGHTHS and shown[left][0] <= begin:
            assert abs(shown[left][1] - where) <= tolerance
        elif right != BLANK and shown[right][1] >= begin + COLUMN:
            assert abs(shown[right][0] - where) <= tolerance


def test_two_spans_that_meet_share_their_cell() -> None:
    cells = rows.cells(
        make([(0, 14_000), (14_000, 30_000)], None, 10**6), viewport.edges(Window(0, 30_000), 3)
    )
    assert (cells.left.tolist(), cells.right.tolist(), cells.split.tolist()) == (
        [0, 0, 1],
        [-1, 1, -1],
        [8, 3, 8],
    )


def test_a_gap_in_a_cell_stays_a_gap() -> None:
    cells = rows.cells(
        make([(0, 16_000), (19_000, 30_000)], None, 10**6), viewport.edges(Window(0, 30_000), 3)
    )
    assert (cells.left.tolist(), cells.right.tolist(), cells.split.tolist()) == (
        [0, 0, 1],
        [-1, -1, -1],
        [8, 5, 8],
    )


def test_open_span_grows_by_eighths_with_now() -> None:
    edges = viewport.edges(Window(0, 20_000), 2)
    drawn = [rows.cells(make([], 5_000, now), edges) for now in (5_000, 10_000, 12_500, 15_000, 20_000)]
    assert [c.split.tolist() for c in drawn] == [[8, 8], [4, 8], [4, 2], [4, 4], [4, 8]]
    assert [c.left.tolist() for c in drawn] == [[-1, -1], [-1, -1], [-1, 0], [-1, 0], [-1, 0]]


def test_a_thousand_spans_in_a_cell_are_counted() -> None:
    spans = [(i * 10, i * 10 + 5) for i in range(1000)]
    cells = rows.cells(make(spans, None, 10**6), viewport.edges(Window(0, 20_000), 2))
    assert cells.merged.tolist() == [999, 0]


def test_overlay_shows_the_parent_beside_its_child() -> None:
    edges = viewport.edges(Window(0, 40_000), 4)
    parent = rows.cells(make([(0, 40_000)], None, 10**6), edges, 0)
    child = rows.cells(make([(15_000, 25_000)], None, 10**6), edges, 1)
    drawn = rows.overlay(parent, child)
    code = 1 << rows.SOURCE_SHIFT
    assert drawn.left.tolist() == [0, 0, code, 0]
    assert drawn.right.tolist() == [-1, code, 0, -1]
    assert drawn.split.tolist() == [8, 4, 4, 8]


@given(st.lists(span_rows(), min_size=1, max_size=4), st.integers(1, 20), st.booleans())
def test_sources_together_are_each_drawn_over_those_before(
    sources: list[tuple[list[tuple[int, int]], int | None, int]], columns: int, inner: bool
) -> None:
    edges = viewport.edges(Window(0, columns * COLUMN), columns)
    drawn = rows.blank(columns)
    for number, source in enumerate(sources):
        drawn = rows.overlay(drawn, rows.cells(make(*source), edges, number, inner))
    together = rows.stacked([(number, make(*one)) for number, one in enumerate(sources)], edges, inner)
    assert [part.tolist() for part in together] == [part.tolist() for part in drawn]


@given(span_rows(), st.lists(st.integers(-6 * COLUMN, 26 * COLUMN), min_size=1))
def test_which_span_covers_a_moment(
    row: tuple[list[tuple[int, int]], int | None, int], moments: list[int]
) -> None:
    spans = make(*row)
    if not spans.total:
        return
    shown = visible(*row)
    moments.sort()
    expected = [
        max((i for i, (s, e) in enumerate(shown) if s <= t < e and t < row[2]), default=BLANK)
        for t in moments
    ]
    assert spans.covering(i64(moments)).tolist() == expected


@st.composite
def sample_rows(draw: st.DrawFn) -> tuple[list[int], list[int], list[float]]:
    time = draw(st.integers(-3 * COLUMN, COLUMN))
    starts, ends, values = [], [], []
    for _ in range(draw(st.integers(0, 30))):
        time += draw(st.one_of(st.just(0), st.integers(0, 2 * COLUMN)))
        length = draw(st.integers(1, 2 * COLUMN))
        starts.append(time)
        ends.append(time + length)
        values.append(draw(st.one_of(st.just(float("nan")), st.floats(0, 1e6))))
        time += length
    return starts, ends, values


@given(sample_rows(), st.integers(1, 12), st.integers(1, 14 * COLUMN))
def test_counter_columns(row: tuple[list[int], list[int], list[float]], columns: int, now: int) -> None:
    starts, ends, values = row
    edges = viewport.edges(Window(0, columns * COLUMN), columns)
    samples = np.array(values, dtype=np.float64)
    mean = rows.gauge_columns(i64(starts), i64(ends), samples, edges, now)
    top = rows.rate_columns(i64(starts), i64(ends), samples, edges, now)
    for column in range(columns):
        begin, end = int(edges[column]), min(int(edges[column + 1]), now)
        parts = [
            (min(e, end) - max(s, begin), v)
            for s, e, v in zip(starts, ends, values, strict=True)
            if min(e, end) > max(s, begin) and not math.isnan(v)
        ]
        if not parts:
            assert math.isnan(mean[column]) and math.isnan(top[column])
            continue
        assert top[column] == max(v for _, v in parts)
        expected = sum(length * v for length, v in parts) / sum(length for length, _ in parts)
        assert mean[column] == pytest.approx(expected, rel=1e-6, abs=1e-3)


def test_chart_levels() -> None:
    values = np.array([math.nan, 0.0, 0.001, 50.0, 100.0, 120.0])
    assert rows.levels(values, 100.0).tolist() == [-1, 0, 1, 4, 7, 7]  # 3.5 goes up


@given(st.floats(1e-6, 1e15))
def test_chart_top_is_the_next_one_two_five(highest: float) -> None:
    top = rows.chart_top(highest, None)
    mantissa = top / 10 ** math.floor(math.log10(top) + 1e-9)
    assert round(mantissa, 6) in (1, 2, 5)
    assert highest * (1 - 1e-9) <= top <= highest * 2.5 * (1 + 1e-9)


def test_chart_top_keeps_a_natural_limit() -> None:
    assert rows.chart_top(3.0, 100.0) == 100.0
