"""Arithmetic of disjoint intervals in order, as pairs of int64 arrays ``(start, end)``. Numpy only.

Every function takes and gives such *sets*: starts and ends rise, none is empty, none touches the next unless
said otherwise. `cuzk_top.devicetime.union` makes one of any intervals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cuzk_top.devicetime import union
from cuzk_top.stalls.finding import Interval

Int64s = NDArray[np.int64]
Set = tuple[Int64s, Int64s]

NONE: Set = (np.empty(0, np.int64), np.empty(0, np.int64))


def length(of: Set) -> int:
    """Total length."""
    return int((of[1] - of[0]).sum())


def clipped(of: Set, low: int, high: int) -> Set:
    """What lies in a window."""
    if high <= low:
        return NONE
    first = int(np.searchsorted(of[1], low, side="right"))
    last = int(np.searchsorted(of[0], high, side="left"))
    if last <= first:
        return NONE
    return np.maximum(of[0][first:last], low), np.minimum(of[1][first:last], high)


def complement(of: Set, low: int, high: int) -> Set:
    """What a window holds and the set does not."""
    start, end = clipped(of, low, high)
    begins, stops = np.concatenate([[low], end]), np.concatenate([start, [high]])
    real = stops > begins
    return begins[real], stops[real]


def both(left: Set, right: Set) -> Set:
    """What lies in both. Pieces of one interval that are cut by the other may touch."""
    if not len(left[0]) or not len(right[0]):
        return NONE
    first = np.searchsorted(right[1], left[0], side="right")
    last = np.searchsorted(right[0], left[1], side="left")
    index, other = pairs(first, last)
    return np.maximum(left[0][index], right[0][other]), np.minimum(left[1][index], right[1][other])


def pairs(first: Int64s, last: Int64s) -> tuple[Int64s, Int64s]:
    """For each i all of ``first[i] .. last[i] - 1``, as two equally long index arrays: i, and the number."""
    counts = np.maximum(last - first, 0)
    index = np.repeat(np.arange(len(counts)), counts)
    begins = np.cumsum(counts) - counts
    return index, np.arange(len(index)) - begins[index] + first[index]


def without(left: Set, right: Set) -> Set:
    """What lies in the first set and not in the second."""
    if not len(left[0]):
        return NONE
    return both(left, complement(right, int(left[0][0]), int(left[1][-1])))


class Measure:
    """How much of a set lies before a moment; answers for arrays of moments at once."""

    def __init__(self, of: Set) -> None:
        self._start, self._end = of
        self._before = np.concatenate([[0], np.cumsum(of[1] - of[0])])

    def before(self, moments: Int64s) -> Int64s:
        """Length of the set before each moment."""
        index = np.searchsorted(self._start, moments, side="right")
        inside = np.minimum(moments, self._end[index - 1]) if len(self._end) else moments
        held = self._before[index - 1] + inside - self._start[index - 1] if len(self._end) else index
        return np.where(index > 0, held, 0)

    def within(self, start: Int64s, end: Int64s) -> Int64s:
        """Length of the set in each of these windows."""
        return self.before(end) - self.before(start)


def listed(of: Set) -> tuple[Interval, ...]:
    """As a finding holds them: merged where they touch."""
    start, end = union(*of)
    return tuple(zip(start.tolist(), end.tolist(), strict=True))


def overlap(left: tuple[Interval, ...], right: tuple[Interval, ...]) -> int:
    """Length of what two findings' intervals share."""
    if not left or not right:
        return 0
    return length(both(arrays(left), arrays(right)))


def arrays(of: tuple[Interval, ...]) -> Set:
    """A finding's intervals as a set."""
    if not of:
        return NONE
    made = np.array(of, np.int64)
    return made[:, 0], made[:, 1]
