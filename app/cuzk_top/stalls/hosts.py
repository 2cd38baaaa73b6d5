"""What a thread did when: its innermost spans, and which span covers most of a gap. Numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuzk_top.stalls.intervals import Int64s, pairs
from cuzk_top.stalls.records import Bools, Records


@dataclass(frozen=True, slots=True, eq=False)
class Innermost:
    """A thread's time cut at every start and end: piece i lasts from ``at[i]`` to ``at[i + 1]``.

    `span` is the place of the innermost span in the host spans, -1 between spans.
    """

    at: Int64s
    span: Int64s

    def pieces(self, low: int, high: int) -> list[tuple[int, int, int]]:
        """(start, end, span) of the pieces within a window; before and after the thread's first and last span
        there is one without a span.
        """
        if high <= low:
            return []
        first = int(np.searchsorted(self.at, low, side="right")) - 1
        last = int(np.searchsorted(self.at, high, side="left"))
        edges = [low, *self.at[max(0, first + 1) : last].tolist(), high]
        spans = self.span[max(0, first) : last].tolist() if first >= 0 else [-1, *self.span[:last].tolist()]
        return [(a, b, s) for a, b, s in zip(edges[:-1], edges[1:], spans, strict=True) if b > a]


class Hosts:
    """The host spans of a window by thread."""

    def __init__(self, records: Records, leave_out: Bools | None = None) -> None:
        self._records = records
        host = records.host
        work = records.on_thread.copy()
        if leave_out is not None:
            work &= ~leave_out
        places = np.flatnonzero(work)  # sorted by track, depth, start
        tracks = host.track[places]
        edges = np.concatenate([[0], np.flatnonzero(tracks[1:] != tracks[:-1]) + 1, [len(places)]])
        self._spans: dict[int, Int64s] = {
            int(tracks[low]): places[low:high]
            for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            if high > low
        }
        self._innermost: dict[int, Innermost] = {}

    @property
    def tracks(self) -> list[int]:
        """The threads that have spans."""
        return list(self._spans)

    def spans(self, track: int) -> Int64s:
        """Places of one thread's spans in the host spans, by depth and start."""
        return self._spans.get(track, np.empty(0, np.int64))

    def outermost(self, track: int) -> Int64s:
        """Places of one thread's spans that lie in no other, by start."""
        host, places = self._records.host, self.spans(track)
        places = places[np.lexsort((-host.end[places], host.start[places]))]
        reach = np.maximum.accumulate(host.end[places])
        alone = np.concatenate([[True], host.start[places][1:] >= reach[:-1]])[: len(places)]
        return places[alone & (host.end[places] > host.start[places])]

    def innermost(self, track: int) -> Innermost:
        """One thread's innermost spans."""
        known = self._innermost.get(track)
        if known is None:
            known = self._innermost[track] = self._flatten(self.spans(track))
        return known

    def _flatten(self, places: Int64s) -> Innermost:
        """Deeper spans are painted over those around them."""
        host = self._records.host
        start, end, depth = host.start[places], host.end[places], host.depth[places]
        at = np.sort(np.concatenate([start, end]))  # np.unique would hash what hardly ever repeats
        at = at[np.concatenate([[True], at[1:] > at[:-1]])[: len(at)]]
        span = np.full(max(0, len(at)), -1, np.int64)
        first, last = np.searchsorted(at, start), np.searchsorted(at, end)
        for level in np.unique(depth).tolist():
            mine = np.flatnonzero(depth == level)
            index, piece = pairs(first[mine], last[mine])
            span[piece] = places[mine[index]]
        return Innermost(at, span)

    def covering(self, track: int, start: Int64s, end: Int64s, share: float) -> Int64s:
        """Of each window the deepest span of a thread that covers this share (above a half) of it; -1: none.

        A span that covers more than a half holds the middle, and only one of a depth does.
        """
        host = self._records.host
        places = self._spans.get(track)
        found = np.full(len(start), -1, np.int64)
        if places is None or not len(start):
            return found
        depths = host.depth[places]
        middle = start + (end - start) // 2
        edges = np.concatenate([[0], np.flatnonzero(depths[1:] != depths[:-1]) + 1, [len(places)]])
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            level = places[low:high]
            index = np.searchsorted(host.start[level], middle, side="right") - 1
            span = level[np.maximum(index, 0)]
            covered = np.minimum(host.end[span], end) - np.maximum(host.start[span], start)
            fits = (index >= 0) & (covered >= share * (end - start)) & (covered > 0)
            found = np.where(fits, span, found)
        return found

    def inside(self, inner: Int64s, outer: Int64s) -> Bools:
        """Which spans lie in which others on the same thread, or are they; False where either is -1."""
        host = self._records.host
        if not len(host):
            return np.zeros(len(inner), dtype=bool)
        held = (host.track[inner] == host.track[outer]) & (host.depth[inner] >= host.depth[outer])
        held &= (host.start[inner] >= host.start[outer]) & (host.end[inner] <= host.end[outer])
        return np.asarray(held & (inner >= 0) & (outer >= 0))
