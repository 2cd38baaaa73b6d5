"""Columns in a block do what columns one by one do; arrays that grow do what lists do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_top import growing
from cuzk_top.columns import COLUMN_TYPES, FLAG_F64, KIND_COUNTER, Columns, Packed, samples
from cuzk_top.growing import GrowingColumns

counts = st.integers(0, 12)


def some(count: int, seed: int = 0) -> Columns:
    """Columns of any values that their types can hold."""
    random = np.random.default_rng(seed)
    return Columns(
        *(
            random.integers(np.iinfo(kind).min, np.iinfo(kind).max, count, kind, endpoint=True)
            for kind in COLUMN_TYPES.values()
        )
    )


def listed(columns: Columns) -> dict[str, list[int]]:
    return {name: array.tolist() for name, array in columns.arrays()}


@given(counts, st.integers(0, 1000))
def test_packed_columns_have_the_same_values_and_types(count: int, seed: int) -> None:
    plain = some(count, seed)
    packed = Packed.of(plain)
    assert len(packed) == count
    assert listed(packed) == listed(plain)
    assert [array.dtype for _, array in packed.arrays()] == list(COLUMN_TYPES.values())
    assert [packed.row(i) for i in range(count)] == [plain.row(i) for i in range(count)]
    assert Packed.of(packed) is packed
    with pytest.raises(AttributeError):
        packed.end  # noqa: B018


@given(counts, st.data())
def test_packed_columns_are_taken_exchanged_and_joined_as_plain_ones(count: int, data: st.DataObject) -> None:
    plain = some(count)
    packed = Packed.of(plain)
    low, high = sorted(data.draw(st.tuples(counts, counts)))
    index = np.array(data.draw(st.lists(st.integers(0, count - 1))) if count else [], np.int64)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    for which in (slice(low, high), slice(None, None, -1), index, mask):
        assert listed(packed.take(which)) == listed(plain.take(which))
    names, parents = np.arange(count, dtype=np.uint32), np.full(count, 2**64 - 1, np.uint64)
    changed = packed.replace(name=names, parent=parents)
    assert listed(changed) == listed(plain.replace(name=names, parent=parents))
    assert listed(packed) == listed(plain), "the old ones are as they were"
    parts = [packed, packed.take(slice(low, high)), changed]
    assert listed(Columns.concat(parts)) == {
        name: [value for part in parts for value in listed(part)[name]] for name in COLUMN_TYPES
    }
    assert isinstance(Columns.concat(parts), Packed)


def test_samples_are_records_of_counters() -> None:
    found = samples(3, [5, 2], [10, 20], 30, [0.5, -1e300])
    assert found.a0.view(np.float64).tolist() == [0.5, -1e300]
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([10, 20], [30, 30])
    assert (found.name.tolist(), found.track.tolist()) == ([5, 2], [3, 3])
    assert (found.kind.tolist(), found.flags.tolist()) == ([KIND_COUNTER] * 2, [FLAG_F64] * 2)
    assert len(samples(3, [], [], 30, [])) == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.integers(0, 40))))
def test_growing_columns_behave_like_a_list(steps: list[tuple[int, bool, int]]) -> None:
    """Appended at the end, dropped at the front; a part of 30 or more to begin with is kept as it came."""
    whole = growing.TAKEN_OVER
    growing.TAKEN_OVER = 30
    try:
        grown = GrowingColumns()
        model: list[int] = []
        views = []
        count = 0
        for add, packed, drop in steps:
            new = Columns.make(add, start_ns=np.arange(count, count + add), seq=np.arange(count, count + add))
            model += range(count, count + add)
            count += add
            grown.append(Packed.of(new) if packed else new)
            assert len(grown) == len(model)
            views.append((grown.columns(), list(model)))
            drop = min(drop, len(model))  # noqa: PLW2901
            grown.drop(drop)
            del model[:drop]
            assert grown.columns().start_ns.tolist() == grown.columns().seq.tolist() == model
            assert grown.columns() is grown.columns()
    finally:
        growing.TAKEN_OVER = whole
    for view, expected in views:
        assert view.start_ns.tolist() == expected, "what was handed out stays as it was"


def test_what_is_handed_out_cannot_be_written_to() -> None:
    grown = GrowingColumns()
    grown.append(some(3))
    view = grown.columns()
    for name in COLUMN_TYPES:
        with pytest.raises(ValueError, match="read-only"):
            getattr(view, name)[0] = 1
