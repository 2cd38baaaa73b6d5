"""Device time: how much of a stretch a GPU computed, only copied, or did nothing. Numpy only.

The three add up to the whole. *Kernel* is the time in which at least one kernel ran on the device, whatever
the number of its streams (a sum over streams counts some moments twice); *copy only* the time in which there
were copies or fills but no kernel; *idle* the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]


def union(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """The same moments as disjoint intervals in order; ones that touch become one, ones of no length vanish.

    Any order, any overlap; `end` not below `start`.
    """
    real = end > start
    if not real.all():
        start, end = start[real], end[real]
    if not len(start):
        return start[:0], end[:0]
    if bool((start[1:] > end[:-1]).all()):
        return start, end
    if bool((start[1:] < start[:-1]).any()):
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.append(first[1:], True)
    return start[first], reach[last]


def covered(start: Int64s, end: Int64s, low: int, high: int) -> int:
    """Length of disjoint intervals in order (as `union` gives) within a window."""
    if high <= low:
        return 0
    first = int(np.searchsorted(end, low, side="right"))
    beyond = int(np.searchsorted(start, high, side="left"))
    if first >= beyond:
        return 0
    whole = int((end[first:beyond] - start[first:beyond]).sum())
    return whole - max(0, low - int(start[first])) - max(0, int(end[beyond - 1]) - high)


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of `wall_ns` of one device, or of several together."""

    kernel_ns: int
    copy_only_ns: int
    idle_ns: int

    @property
    def wall_ns(self) -> int:
        """The whole; of several devices, theirs added."""
        return self.kernel_ns + self.copy_only_ns + self.idle_ns

    def __add__(self, other: "Split") -> "Split":
        return Split(
            self.kernel_ns + other.kernel_ns,
            self.copy_only_ns + other.copy_only_ns,
            self.idle_ns + other.idle_ns,
        )

    def percent(self) -> tuple[int, int, int]:
        """Whole percents of kernel, copy only and idle that add up to 100; zeros where there is no time."""
        parts = (self.kernel_ns, self.copy_only_ns, self.idle_ns)
        if not self.wall_ns:
            return (0, 0, 0)
        floors = [part * 100 // self.wall_ns for part in parts]
        remainders = [part * 100 % self.wall_ns for part in parts]
        for place in sorted(range(3), key=lambda i: -remainders[i])[: 100 - sum(floors)]:
            floors[place] += 1
        return (floors[0], floors[1], floors[2])


@dataclass(frozen=True, slots=True, eq=False)
class Covered:
    """A union as it was: disjoint intervals in order, and one more after them.

    `gone` is what was before: start, end and length of all intervals that are no longer kept one by one.
    """

    start: Int64s
    end: Int64s
    last: tuple[int, int] | None
    gone: tuple[int, int, int] | None = None

    def within(self, low: int, high: int) -> int:
        """Length within a window. What is gone counts where the window has all of it."""
        length = covered(self.start, self.end, low, high)
        if self.gone is not None and low <= self.gone[0] and self.gone[1] <= high:
            length += self.gone[2]
        if self.last is not None:
            length += max(0, min(high, self.last[1]) - max(low, self.last[0]))
        return length


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """What one GPU did: when kernels ran, and when kernels, copies or fills did. `held` is when somebody on
    the host claimed it, None where nobody ever did.
    """

    index: int
    kernels: Covered
    work: Covered
    held: Covered | None = None

    def split(self, low: int, high: int) -> Split:
        """The device's time from `low` to `high`."""
        kernel, work = self.kernels.within(low, high), self.work.within(low, high)
        return Split(kernel, work - kernel, max(0, high - low) - work)

    def held_ns(self, low: int, high: int) -> int | None:
        """How long of `low` to `high` it was claimed; None where nobody ever did."""
        return self.held.within(low, high) if self.held is not None else None


class Intervals:
    """A union that grows. What was handed out stays as it is."""

    def __init__(self) -> None:
        self._start: Int64s = np.empty(64, np.int64)
        self._end: Int64s = np.empty(64, np.int64)
        self._count = 0
        self._last: tuple[int, int] | None = None  # may still become longer
        self._gone: tuple[int, int, int] | None = None

    @property
    def closed(self) -> tuple[Int64s, Int64s]:
        """The intervals that nothing newer can change; views."""
        return self._start[: self._count], self._end[: self._count]

    def covered(self, more: Sequence[tuple[int, int]] = ()) -> Covered:
        """All intervals as they are now, with some more that are not to be kept."""
        if not more:
            return Covered(*self.closed, self._last, self._gone)
        start, end = self.closed
        extra = np.array([*more, *([self._last] if self._last is not None else [])], np.int64)
        return Covered(*union(np.append(start, extra[:, 0]), np.append(end, extra[:, 1])), None, self._gone)

    def add(self, start: Int64s, end: Int64s) -> bool:
        """More intervals, in any order. True when ones that were closed had to be made anew."""
        start, end = union(start, end)
        if not len(start):
            return False
        late = False
        if self._last is not None:
            if int(start[0]) < self._last[0]:
                # Keep what ends before the first new one begins; the rest is merged with the new.
                keep = int(np.searchsorted(self._end[: self._count], start[0], side="left"))
                late = keep < self._count
                start = np.concatenate([self._start[keep : self._count], [self._last[0]], start])
                end = np.concatenate([self._end[keep : self._count], [self._last[1]], end])
                if late:
                    self._start, self._end = self._start.copy(), self._end.copy()
                    self._count = keep
            else:
                start = np.concatenate([[self._last[0]], start])
                end = np.concatenate([[self._last[1]], end])
            start, end = union(start, end)
        count = self._count + len(start) - 1
        if count > len(self._start):
            room = 2 * count
            self._start = np.concatenate([self._start[: self._count], np.empty(room - self._count, np.int64)])
            self._end = np.concatenate([self._end[: self._count], np.empty(room - self._count, np.int64)])
        self._start[self._count : count] = start[:-1]
        self._end[self._count : count] = end[:-1]
        self._count = count
        self._last = (int(start[-1]), int(end[-1]))
        return late

    def forget(self, before_ns: int) -> None:
        """Drop what ended before a moment; of it remains how much it was."""
        keep = int(np.searchsorted(self._end[: self._count], before_ns, side="left"))
        if keep:
            first, _, length = self._gone or (int(self._start[0]), 0, 0)
            length += int((self._end[:keep] - self._start[:keep]).sum())
            self._gone = first, int(self._end[keep - 1]), length
            self._start, self._end = (
                self._start[keep : self._count].copy(),
                self._end[keep : self._count].copy(),
            )
            self._count -= keep


def together(devices: Sequence[Device], count: int, low: int, high: int) -> Split:
    """The time of `count` devices from `low` to `high`; those that left no record were idle."""
    total = Split(0, 0, max(0, count - len(devices)) * max(0, high - low))
    for device in devices:
        total += device.split(low, high)
    return total
