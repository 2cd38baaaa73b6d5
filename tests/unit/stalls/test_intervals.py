"""Interval arithmetic against sets of whole moments."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_top.devicetime import union
from cuzk_top.stalls import intervals
from cuzk_top.stalls.memory import falls
from cuzk_top.stalls.siblings import _leave_one_out

PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=8)


def made(pairs: list[tuple[int, int]]) -> tuple[intervals.Set, set[int]]:
    start = np.array([a for a, _ in pairs], np.int64)
    end = np.array([a + n for a, n in pairs], np.int64)
    return union(start, end), {t for a, n in pairs for t in range(a, a + n)}


def moments(of: intervals.Set) -> set[int]:
    assert (of[1] > of[0]).all() and (of[0][1:] >= of[1][:-1]).all()
    return {t for a, b in zip(of[0].tolist(), of[1].tolist(), strict=True) for t in range(a, b)}


@settings(deadline=None)
@given(PAIRS, PAIRS)
def test_both_and_without(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> None:
    (a, in_a), (b, in_b) = made(left), made(right)
    assert moments(intervals.both(a, b)) == in_a & in_b
    assert moments(intervals.without(a, b)) == in_a - in_b
    assert intervals.length(a) == len(in_a)
    assert intervals.overlap(intervals.listed(a), intervals.listed(b)) == len(in_a & in_b)


@settings(deadline=None)
@given(PAIRS, st.integers(-5, 80), st.integers(0, 80))
def test_windows(pairs: list[tuple[int, int]], low: int, length: int) -> None:
    of, inside = made(pairs)
    window = set(range(low, low + length))
    assert moments(intervals.clipped(of, low, low + length)) == inside & window
    assert moments(intervals.complement(of, low, low + length)) == window - inside


@settings(deadline=None)
@given(PAIRS, st.lists(st.tuples(st.integers(-5, 80), st.integers(0, 30)), min_size=1, max_size=6))
def test_measure(pairs: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    of, inside = made(pairs)
    start = np.array([a for a, _ in windows], np.int64)
    end = np.array([a + n for a, n in windows], np.int64)
    expected = [len(inside & set(range(a, a + n))) for a, n in windows]
    assert intervals.Measure(of).within(start, end).tolist() == expected


def test_listed_joins_what_touches() -> None:
    assert intervals.listed((np.array([1, 5]), np.array([5, 9]))) == ((1, 9),)
    assert intervals.arrays(()) is intervals.NONE


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_the_median_of_the_others(values: list[int]) -> None:
    column, into = np.array(values, np.int64), np.zeros(len(values), np.int64)
    everyone = np.arange(len(values))
    _leave_one_out(column, everyone, everyone, into)
    for i in range(len(values)):
        rest = sorted(values[:i] + values[i + 1 :])
        expected = (rest[(len(rest) - 1) // 2] + rest[len(rest) // 2]) // 2 if rest else 0
        assert into[i] == expected


@settings(deadline=None)
@given(st.lists(st.integers(0, 6), min_size=2, max_size=14))
def test_falls(values: list[int]) -> None:
    """From the last high before the first lower sample to the first of the lowest, without a rise."""
    found = falls(np.array(values, np.float64))
    told = []
    i = 0
    while i < len(values) - 1:
        if values[i + 1] < values[i]:
            j = low = i + 1
            while j + 1 < len(values) and values[j + 1] <= values[j]:
                j += 1
                low = j if values[j] < values[low] else low
            told.append((i, low))
            i = j
        else:
            i += 1
    assert found == told
