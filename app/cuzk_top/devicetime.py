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
    """A union as it was: disjoint intervals in order, and the `tail` after them, which later ones may change.

    `gone` is what was before: start, end and length of all intervals that are no longer kept one by one.
    """

    start: Int64s
    end: Int64s
    tail: tuple[Int64s, Int64s] | None = None
    gone: tuple[int, int, int] | None = None

    def within(self, low: int, high: int) -> int:
        """Length within a window. What is gone counts where the window has all of it."""
        length = covered(self.start, self.end, low, high)
        if self.tail is not None:
            length += covered(*self.tail, low, high)
        if self.gone is not None and low <= self.gone[0] and self.gone[1] <= high:
            length += self.gone[2]
        return length

    def touching(self, low: int, high: int) -> tuple[Int64s, Int64s]:
        """All intervals of which some lies in a window, whole."""
        parts = [(self.start, self.end), *([self.tail] if self.tail is not None else [])]
        found = []
        for start, end in parts:
            first, beyond = int(end.searchsorted(low, "right")), int(start.searchsorted(high, "left"))
            if first < beyond:
                found.append((start[first:beyond], end[first:beyond]))
        if len(found) == 1:
            return found[0]
        if not found:
            return self.start[:0], self.end[:0]
        return np.concatenate([start for start, _ in found]), np.concatenate([end for _, end in found])

    @property
    def last(self) -> tuple[int, int] | None:
        """The last interval of the tail; None without one."""
        if self.tail is None or not len(self.tail[0]):
            return None
        return int(self.tail[0][-1]), int(self.tail[1][-1])


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
    """A union that grows. What was handed out stays as it is.

    Intervals are `closed` once nothing is expected to change them; one that reaches back behind those after
    all costs a copy of them. The rest, at least the last one, is the tail.
    """

    def __init__(self) -> None:
        self._start: Int64s = np.empty(64, np.int64)
        self._end: Int64s = np.empty(64, np.int64)
        self._count = 0
        self._tail = _NONE
        self._gone: tuple[int, int, int] | None = None

    @property
    def closed(self) -> tuple[Int64s, Int64s]:
        """The intervals that nothing newer is expected to change; views."""
        return self._start[: self._count], self._end[: self._count]

    def covered(self, more: Sequence[tuple[int, int]] = ()) -> Covered:
        """All intervals as they are now, with some more that are not to be kept."""
        if not more:
            return Covered(*self.closed, self._tail, self._gone)
        start, end = self.closed
        extra = np.array(more, np.int64)
        tail = union(np.append(self._tail[0], extra[:, 0]), np.append(self._tail[1], extra[:, 1]))
        return Covered(*union(np.append(start, tail[0]), np.append(end, tail[1])), None, self._gone)

    def add(self, start: Int64s, end: Int64s, hold: int = 0) -> int | None:
        """More intervals, in any order. Where some reach back: the number of closed ones that still hold.

        `hold` more of the newest than the last one are not closed yet.
        """
        if not len(start):
            return None
        late = None
        parts = [self._tail, (start, end)]
        first = int(start.min())
        if self._count and first <= int(self._end[self._count - 1]):
            # Those that end before the first new one begins hold; the rest is merged with the new.
            late = int(self._end[: self._count].searchsorted(first, side="left"))
            parts.insert(0, (self._start[late : self._count], self._end[late : self._count]))
            self._room(late, 2 * late)
        self._tail = union(*map(np.concatenate, zip(*parts, strict=True)))
        self.close(hold)
        return late

    def close(self, hold: int = 0) -> None:
        """Close all but the last, and `hold` before it."""
        start, end = self._tail
        new = len(start) - 1 - hold
        if new <= 0:
            return
        count = self._count + new
        if count > len(self._start):
            self._room(self._count, 2 * count)
        self._start[self._count : count] = start[:new]
        self._end[self._count : count] = end[:new]
        self._count = count
        self._tail = start[new:], end[new:]

    def _room(self, keep: int, room: int) -> None:
        """New arrays for so many, with the first of the old."""
        room = max(room, 64)
        start, end = np.empty(room, np.int64), np.empty(room, np.int64)
        start[:keep], end[:keep] = self._start[:keep], self._end[:keep]
        self._start, self._end, self._count = start, end, keep

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


_NONE: tuple[Int64s, Int64s] = (np.empty(0, np.int64), np.empty(0, np.int64))


def together(devices: Sequence[Device], count: int, low: int, high: int) -> Split:
    """The time of `count` devices from `low` to `high`; those that left no record were idle."""
    total = Split(0, 0, max(0, count - len(devices)) * max(0, high - low))
    for device in devices:
        total += device.split(low, high)
    return total
