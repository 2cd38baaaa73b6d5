"""Up to the moment that is said to be the first change, two pictures of a row must not differ."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from test_rows import COLUMN, i64, span_rows

from cuzk_top import growth, rows, viewport
from cuzk_top.growth import ALL_NS, NOTHING_NS, Seen
from cuzk_top.viewport import Window

COLUMNS = 30
EDGES = viewport.edges(Window(-5 * COLUMN, 25 * COLUMN), COLUMNS)


def seen(starts: viewport.Int64s, ends: viewport.Int64s, opened: int | None, now: int) -> Seen:
    return Seen(starts, ends, opened, now)


def cells(of: Seen) -> list[list[int]]:
    return [part.tolist() for part in rows.cells(of.spans(), EDGES)]


@given(span_rows(), st.integers(0, 40), st.integers(0, 40), st.integers(0, 9 * COLUMN), st.data())
def test_what_was_drawn_stays(
    row: tuple[list[tuple[int, int]], int | None, int], many: int, more: int, later: int, data: st.DataObject
) -> None:
    """Views of one pair of arrays, as the store gives them; where spans are open is free."""
    spans, last_open, now = row
    starts, ends = i64([s for s, _ in spans]), i64([e for _, e in spans])
    low = min(many, len(spans))
    high = min(low + more, len(spans))

    def opened(count: int) -> int | None:
        following = spans[count][0] if count < len(spans) else last_open
        return following if data.draw(st.booleans()) else None

    before = seen(starts[:low], ends[:low], opened(low), now)
    after = seen(starts[:high], ends[:high], opened(high), now + later)
    from_ns = growth.changed_from(before, after)
    same = viewport.column_of(Window(-5 * COLUMN, 25 * COLUMN), COLUMNS, from_ns)
    one, other = cells(before), cells(after)
    for part, (old, new) in enumerate(zip(one, other, strict=True)):
        # What is merged in a column is known once the next one is.
        until = max(0, min(same, COLUMNS) - (part == 3))
        assert old[:until] == new[:until]
    if from_ns == NOTHING_NS:
        assert one == other


def test_of_other_arrays_nothing_is_known() -> None:
    starts, ends = i64([0, 10, 20]), i64([5, 15, 25])
    before = seen(starts[:2], ends[:2], None, 30)
    assert growth.changed_from(before, seen(starts[:3], ends[:3], None, 30)) == 20
    assert growth.changed_from(before, seen(starts.copy()[:3], ends, None, 30)) == ALL_NS
    assert growth.changed_from(before, seen(starts[1:], ends[1:], None, 30)) == ALL_NS  # the oldest dropped
    assert growth.changed_from(before, replace(before, now_ns=29)) == ALL_NS
    assert growth.changed_from(before, before) == NOTHING_NS


def test_an_open_span_changes_from_where_it_was_seen() -> None:
    starts, ends = i64([0, 10, 20]), i64([5, 18, 25])
    before = seen(starts[:1], ends[:1], 10, 15)
    assert growth.changed_from(before, replace(before, now_ns=16)) == 15
    assert growth.changed_from(before, seen(starts[:2], ends[:2], 20, 22)) == 15
    ended = seen(starts[:2], np.array([5, 13, 25], np.int64)[:2], None, 16)
    assert growth.changed_from(before, ended) == 13
    assert growth.changed_from(before, replace(before, open_ns=None)) == 10
    assert growth.changed_from(before, replace(before, open_ns=12)) == 10
