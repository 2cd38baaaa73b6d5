"""Records that are kept narrow are the records that came."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_top import sealed
from cuzk_top.columns import COLUMN_TYPES, Columns, Packed
from cuzk_top.growing import GrowingColumns

ROWS = 8


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealed, "ROWS", ROWS)
        yield


@st.composite
def records(draw: st.DrawFn, most: int = 40) -> Columns:
    """Columns such as sessions have: all the same, near each other, of few values, or anything."""
    count = draw(st.integers(0, most))
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    made = {}
    for name, kind in COLUMN_TYPES.items():
        low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
        width = draw(st.sampled_from([0, 200, 60_000, 1 << 31, high - low]))
        first = draw(st.integers(low, max(low, high - width)))
        last = min(high, first + width)
        values = random.integers(first, last, count, kind, endpoint=True)
        if draw(st.booleans()) and count:
            values = values[random.integers(0, min(3, count), count)]
        made[name] = values
    return Columns(*made.values())


def listed(columns: Columns) -> dict[str, list[int]]:
    return {name: array.tolist() for name, array in columns.arrays()}


@given(records(most=ROWS).filter(lambda made: len(made) == ROWS), st.integers(0, ROWS), st.integers(0, ROWS))
def test_a_block_gives_back_what_it_is_of(made: Columns, one: int, other: int) -> None:
    low, high = sorted((one, other))
    block = sealed.Sealed(Packed.of(made))
    for name in COLUMN_TYPES.keys() - {"start_ns", "end_ns", "name", "track"}:
        part = block.part(name, low, high)
        assert part.dtype == COLUMN_TYPES[name]
        assert part.tolist() == getattr(made, name)[low:high].tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(records(), st.integers(0, 30)), max_size=8), st.data())
def test_narrow_columns_are_those_that_are_not(steps: list[tuple[Columns, int]], data: st.DataObject) -> None:
    narrow, wide = GrowingColumns(sealing=True), GrowingColumns()
    handed: list[tuple[Columns, dict[str, list[int]]]] = []
    for new, gone in steps:
        for rows in (narrow, wide):
            rows.append(new)
        handed.append((narrow.columns(), listed(wide.columns())))
        drop = min(gone, len(wide))
        for rows in (narrow, wide):
            rows.drop(drop)
        mine, others = narrow.columns(), wide.columns()
        assert len(narrow) == len(mine) == len(others)
        assert listed(mine) == listed(others)
        assert [array.dtype for _, array in mine.arrays()] == list(COLUMN_TYPES.values())
        low, high = sorted(data.draw(st.tuples(*[st.integers(0, len(mine))] * 2)))
        assert listed(mine.take(slice(low, high))) == listed(others.take(slice(low, high)))
        if len(mine):
            i = data.draw(st.integers(0, len(mine) - 1))
            assert mine.row(i) == others.row(i)
    assert all(listed(columns) == expected for columns, expected in handed), "views never change"


def test_what_is_the_same_everywhere_takes_no_memory() -> None:
    """Of eight records the one column that differs, by less than 256: a byte each."""
    same = Columns.make(ROWS, kind=1, track=3, a0=7 << 40, parent=5 << 32)
    assert sealed.Sealed(Packed.of(same)).size_bytes == 0
    assert sealed.Sealed(Packed.of(same.replace(seq=np.arange(9, 9 + ROWS, dtype=np.uint64)))).size_bytes == 8
    rows = GrowingColumns(sealing=True)
    for _ in range(4):
        rows.append(same)
    # One block stays as it came; three have their times, names and tracks alone, which the fourth has too.
    assert rows.size_bytes == 4 * ROWS * 24 + ROWS * sum(kind.itemsize for kind in COLUMN_TYPES.values())
