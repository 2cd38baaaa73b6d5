"""The last columns of a row by loops, against the whole row by numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_rows import COLUMN, i64, sample_rows, span_rows

from cuzk_top import rows, tail, viewport
from cuzk_top.growth import Seen
from cuzk_top.viewport import Window

Row = tuple[list[tuple[int, int]], int | None, int]


def seen(spans: list[tuple[int, int]], opened: int | None, now: int) -> Seen:
    return Seen(i64([start for start, _ in spans]), i64([end for _, end in spans]), opened, now)


def whole(sources: list[rows.Spans], edges: viewport.Int64s) -> rows.Cells:
    """All sources over each other, by numpy alone."""
    drawn = rows.blank(len(edges) - 1)
    for number, spans in enumerate(sources):
        drawn = rows.overlay(drawn, rows.cells(spans, edges, number))
    return drawn


@given(st.lists(span_rows(), min_size=1, max_size=3), st.integers(1, 20), st.integers(0, 19))
@pytest.mark.parametrize(
    ("most_columns", "few_spans"), [(tail.MOST_COLUMNS, 0), (0, tail.FEW_SPANS), (0, 3), (0, -1)]
)
def test_last_columns_are_those_of_the_whole_row(
    most_columns: int, few_spans: int, found: list[Row], columns: int, first: int
) -> None:
    now = found[0][2]
    sources = [seen(spans, opened, now) for spans, opened, _ in found]
    edges = viewport.edges(Window(0, columns * COLUMN), columns)
    first = min(first, columns - 1)
    expected = [part.tolist()[first:] for part in whole([source.spans() for source in sources], edges)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "MOST_COLUMNS", most_columns)
        patch.setattr(tail, "FEW_SPANS", few_spans)
        assert [*tail.cells(sources, edges[first:].tolist(), first > 0)] == expected


def test_many_spans_in_a_column_are_left_to_numpy() -> None:
    starts = np.arange(tail.MOST_SPANS + 1, dtype=np.int64)
    spans = Seen(starts, starts + 1, None, COLUMN)
    assert tail.touching(spans, 0, COLUMN) is None
    part = tail.touching(spans, 1, COLUMN)
    assert part is not None and (part.first, len(part.starts)) == (1, tail.MOST_SPANS)
    assert tail.cells([spans], [0, COLUMN], False).merged == [tail.MOST_SPANS]


@given(sample_rows(), st.integers(1, 12), st.integers(0, 11), st.integers(1, 14 * COLUMN), st.data())
@pytest.mark.parametrize("kind", ["gauge", "rate"])
def test_last_columns_of_a_chart_are_those_of_the_whole(
    kind: str,
    row: tuple[list[int], list[int], list[float]],
    columns: int,
    first: int,
    now: int,
    data: st.DataObject,
) -> None:
    starts, ends, values = i64(row[0]), i64(row[1]), np.round(np.array(row[2], dtype=np.float64), 3)
    top = data.draw(st.sampled_from([1.0, 100.0, 1e6]))
    edges = viewport.edges(Window(0, columns * COLUMN), columns)
    first = min(first, columns - 1)
    per_column = rows.rate_columns if kind == "rate" else rows.gauge_columns
    expected = rows.levels(per_column(starts, ends, values, edges, now), top).tolist()
    assert tail.heights((starts, ends, values), kind, top, edges[first:].tolist(), now) == expected[first:]


def test_chart_heights_by_hand() -> None:
    """Two columns of 10 ns: 40 % over 4 ns and 100 % over 6 are 76 %, 5.32 of 7; then only 20 %, 1.4 of 7."""
    series = (i64([0, 4, 10]), i64([4, 10, 14]), np.array([40.0, 100.0, 20.0]))
    edges = [0, 10, 20, 30]
    assert tail.heights(series, "gauge", 100.0, edges, 25) == [5, 1, -1]
    assert tail.heights(series, "rate", 100.0, edges, 25) == [7, 1, -1]
    assert tail.heights(series, "gauge", 100.0, edges, 10) == [5, -1, -1]
