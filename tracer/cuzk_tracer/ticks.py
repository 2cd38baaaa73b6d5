"""From a ring's clock ticks to CLOCK_MONOTONIC. Needs numpy; for readers.

The time stamp counter runs at a rate of its own, known only from clock anchors, one a second. A time once
given is never given differently, or a span would move under the eyes of who watches it; so the line from one
anchor on is drawn from what was known at that anchor, without a jump, and what it was off by at the next one
(some 20 ns) is taken back within a second.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

JUMP_NS = 1_000_000
"""Off by more than this, the counter or the clock was set: a new start and no gentle return."""
SHORT_NS = 10_000_000
"""Two anchors nearer to each other than this say less of the rate than older ones do."""
RETURN_NS = 1_000_000_000
MOST = 1 << 61
"""Ticks and nanoseconds of centuries: more is damage."""


class Ticks:
    """A piecewise linear clock, built from anchors in order, extrapolated on both ends."""

    def __init__(self) -> None:
        self._ticks: list[int] = []  # where each piece begins, its monotonic time there, and its ns a tick
        self._ns: list[int] = []
        self._slope: list[float] = []
        self._last: tuple[int, int, int] | None = None
        self._interval = 0
        self._arrays: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]] | None = None

    def add(self, ticks: int, monotonic_ns: int, segment: int) -> None:
        """The next anchor. One that goes back in ticks begins anew; what no clock can give is ignored."""
        if not (0 <= ticks < MOST and 0 <= monotonic_ns < MOST):
            return
        last, self._last = self._last, (ticks, monotonic_ns, segment)
        self._arrays = None
        if last is None or ticks <= last[0]:
            slope = self._slope[-1] if self._slope else 1.0
            self._ticks, self._ns, self._slope = [ticks], [monotonic_ns], [slope]
            self._interval = 0
            return
        interval = monotonic_ns - last[1]
        same = segment == last[2] and 1e-3 < interval / (ticks - last[0]) < 1e3
        rate = self._slope[-1]
        if same and (self._interval == 0 or interval >= min(SHORT_NS, self._interval)):
            rate = interval / (ticks - last[0])
            if self._interval == 0:  # nothing was known of the rate until now
                self._slope[-1] = rate
            self._interval = interval
        while len(self._ticks) > 1 and self._ticks[-1] >= ticks:  # a return that was not over yet
            self._ticks.pop(), self._ns.pop(), self._slope.pop()
        now = self._ns[-1] + round((ticks - self._ticks[-1]) * self._slope[-1])
        error = monotonic_ns - now
        if not same or abs(error) > JUMP_NS:
            self._piece(ticks, monotonic_ns, rate)
            return
        window = min(RETURN_NS, 3 * interval)  # until the next anchor: early ones come ever more slowly
        slope = rate * (1 + error / window)
        passed = round(window / rate)
        self._piece(ticks, now, slope)
        self._piece(ticks + passed, now + round(passed * slope), rate)

    def _piece(self, ticks: int, ns: int, slope: float) -> None:
        self._ticks.append(ticks)
        self._ns.append(ns)
        self._slope.append(slope)

    def to_ns(self, ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Monotonic nanoseconds; as they are where no anchor is known."""
        values: NDArray[np.int64] = ticks.astype(np.int64)
        if not self._ticks:
            return values
        if self._arrays is None:
            self._arrays = (
                np.array(self._ticks, np.int64),
                np.array(self._ns, np.int64),
                np.array(self._slope),
            )
        starts, begins, slopes = self._arrays
        piece = np.maximum(starts.searchsorted(values, side="right") - 1, 0)
        passed = (values - starts[piece]) * slopes[piece]
        np.minimum(passed, MOST, out=passed)
        np.maximum(passed, -MOST, out=passed)
        result: NDArray[np.int64] = begins[piece] + np.rint(passed, out=passed).astype(np.int64)
        return result
