"""A trace's rows by track, as exports walk them: one track in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cuzk_top.model import FLAG_OPEN, KIND_COUNTER, SPAN_KINDS, Columns, Name, Session, Track
from cuzk_top.trace import Trace

IS_SPAN = np.zeros(256, dtype=bool)
IS_SPAN[list(SPAN_KINDS)] = True


@dataclass(frozen=True, slots=True)
class TrackRows:
    """Rows of one track, counters apart. `by_depth`: each depth stands alone, its spans enclose nothing."""

    track: Track
    columns: Columns
    counters: Columns
    by_depth: bool


def tracks(trace: Trace) -> Iterator[TrackRows]:
    """Tracks in order of their numbers; rows of a depth together, by start."""
    by_track: dict[int, list[Columns]] = {}
    for run in sorted(trace.runs, key=lambda run: (run.track, run.depth)):
        if len(run.columns):
            by_track.setdefault(run.track, []).append(run.columns)
    for number, parts in by_track.items():
        columns = Columns.concat([part.take(np.argsort(part.start_ns, kind="stable")) for part in parts])
        counter = columns.kind == KIND_COUNTER
        track = trace.session.tracks.get(number) or Track(number, "thread", f"track {number}")
        counters = columns.take(counter) if counter.any() else Columns.empty()
        rest = columns.take(~counter) if counter.any() else columns
        yield TrackRows(track, rest, counters, track.kind == "async")


def name_of(session: Session, number: int) -> Name:
    """A name by its id; one that says its number where the trace does not have it."""
    return session.names[number] if number < len(session.names) else Name(f"<name {number}>")


def in_sequence(columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]] | None:
    """Begins and ends of one track's rows in the order in which they happened.

    Rows that are no spans count as an end alone. Three arrays of equal length: the row, whether it is a
    begin, its time. Also where many things happen in one nanosecond each begin comes after the ends of what
    was before it and before everything inside it. None where the rows do not nest (a damaged trace).

    Rows end in order of `seq`, children before their parents: with the depths this is a tree in postorder. A
    row's subtree are the rows directly before it that are deeper, and its begin belongs before the first of
    them: in the gap behind the last row that is not deeper.
    """
    count = len(columns)
    rows = np.arange(count)
    depth = columns.depth.astype(np.int64)
    open_ = columns.flags & FLAG_OPEN != 0
    ended = np.minimum(columns.seq, np.uint64(2**61)).astype(np.int64)
    closing = np.where(open_, np.int64(2**62) - depth, ended)
    order = np.argsort(closing, kind="stable")
    rank = np.empty(count, np.int64)
    rank[order] = rows
    gap = _gaps(depth[order])[rank]
    spans = IS_SPAN[columns.kind]
    begins = rows[spans]
    keys = np.concatenate([gap[begins] << 9 | depth[begins], rank << 9 | 511])
    row = np.concatenate([begins, rows])
    is_begin = np.arange(len(keys)) < len(begins)
    times = np.concatenate([columns.start_ns[begins], columns.end_ns])
    sequence = np.argsort(keys, kind="stable")
    row, is_begin, times = row[sequence], is_begin[sequence], times[sequence]
    if bool((times[1:] < times[:-1]).any()):
        return None
    return row, is_begin, times


def _gaps(depth: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of each row of a postorder, how many rows ended before it began."""
    count = len(depth)
    gap = np.arange(count)
    if count < 2:
        return gap
    above = np.flatnonzero(depth[1:] < depth[:-1]) + 1  # rows with something inside
    for level in np.unique(depth[above]).tolist():
        here = above[depth[above] == level]
        not_deeper = np.flatnonzero(depth <= level)
        place = np.searchsorted(not_deeper, here)  # of the row itself
        gap[here] = np.where(place > 0, not_deeper[place - 1] + 1, 0)
    return gap
