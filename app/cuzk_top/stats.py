"""Figures of the numbers column, the header and the inspector: numpy over a snapshot's rows, no drawing.

Time after the snapshot's play head does not count: spans that begin later are left out, those across it are
open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cuzk_top import stages
from cuzk_top.model import FLAG_ERR, RowData, Session, Snapshot, SpanRecord
from cuzk_top.proofs import covered
from cuzk_top.rows import Spans
from cuzk_top.viewport import SpanRef

Int64s = NDArray[np.int64]
Intervals = tuple[Int64s, Int64s]
"""Starts and ends."""
FEW_NAMES = 4
"""Of so many, comparing with each is quicker than a table."""
FEW = 64
"""So many spans are gone through more quickly without numpy."""
PROOF = "prove"
"""Name of the span around one whole proof."""
PROOF_LANE = stages.lane_of(PROOF)


def clipped(row: RowData, now_ns: int) -> Spans:
    """The spans of a row up to the play head."""
    opened = row.open.start_ns if row.open is not None else None
    return Spans.until(row.columns.start_ns, row.columns.end_ns, opened, now_ns)


def begun(row: RowData, now_ns: int) -> tuple[Int64s, Int64s, int]:
    """Starts and ends (clipped) of the closed spans that have begun, and how many of them have finished."""
    count = int(np.searchsorted(row.columns.start_ns, now_ns, "left"))
    ends = row.columns.end_ns[:count]
    finished = int(np.searchsorted(ends, now_ns, "right"))
    return row.columns.start_ns[:count], np.minimum(ends, now_ns), finished


def busy_ns(rows: Sequence[RowData], begin_ns: int, end_ns: int, now_ns: int) -> int:
    """Time inside ``[begin_ns, min(end_ns, now_ns))`` that at least one span of the rows of a track covers.

    Nested spans count once; spans of different tracks add up, as two threads do twice the work.
    """
    end_ns = min(end_ns, now_ns)
    if end_ns <= begin_ns:
        return 0
    by_track: dict[int, list[Intervals]] = {}
    for row in sorted(rows, key=_depth):  # the outer ones cover the others
        spans = clipped(row, now_ns)
        low = int(spans.end_ns.searchsorted(begin_ns, "right"))
        high = int(spans.start_ns.searchsorted(end_ns, "left"))
        parts = by_track.setdefault(row.track, [])
        if high > low:
            parts.append((spans.start_ns[low:high], spans.end_ns[low:high]))
        if spans.open_ns is not None and spans.open_ns < end_ns:
            parts.append((np.array([spans.open_ns]), np.array([now_ns])))
    return sum(_covered(parts, begin_ns, end_ns) for parts in by_track.values() if parts)


def _covered(parts: Sequence[Intervals], begin_ns: int, end_ns: int) -> int:
    """Length of the union of intervals, clipped to ``[begin_ns, end_ns)``; those of a part do not overlap."""
    if len(parts) == 1:
        starts, ends = parts[0]
        beyond = max(0, begin_ns - starts.item(0)) + max(0, ends.item(-1) - end_ns)
        return int((ends - starts).sum()) - beyond
    if sum(len(starts) for starts, _ in parts) <= FEW:
        return _few_covered(parts, begin_ns, end_ns)
    starts, ends = reduce(_union, parts)
    return int(np.maximum(np.minimum(ends, end_ns) - np.maximum(starts, begin_ns), 0).sum())


def _union(one: Intervals, other: Intervals) -> Intervals:
    """Union of two series of disjoint intervals in order.

    Where `one` covers all of `other`, which children of spans are for these, few of its many are looked at.
    """
    starts, ends = one
    if other[0][0] >= ends[-1]:
        return np.concatenate([starts, other[0]]), np.concatenate([ends, other[1]])
    first = np.searchsorted(other[0], starts, "left")
    beyond = np.searchsorted(other[0], ends, "left")
    some = beyond > first
    if (beyond - first).sum() == len(other[0]) and (other[1][beyond[some] - 1] <= ends[some]).all():
        return one
    starts, ends = np.concatenate([starts, other[0]]), np.concatenate([ends, other[1]])
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    fresh = np.append(True, starts[1:] > ends[:-1])
    return starts[fresh], ends[np.append(fresh[1:], True)]


def _few_covered(parts: Sequence[Intervals], begin_ns: int, end_ns: int) -> int:
    """`_covered` by a loop."""
    pairs: list[tuple[int, int]] = []
    for starts, ends in parts:
        pairs += zip(starts.tolist(), ends.tolist(), strict=True)
    pairs.sort()
    busy, reached = 0, begin_ns
    for start, end in pairs:
        if end > reached:
            busy += min(end, end_ns) - max(start, reached)
            reached = min(end, end_ns)
    return busy


def count_in(row: RowData, begin_ns: int, end_ns: int, now_ns: int) -> int:
    """Spans of a row that touch ``[begin_ns, end_ns)``."""
    spans = clipped(row, now_ns)
    low = int(np.searchsorted(spans.end_ns, begin_ns, "right"))
    high = int(np.searchsorted(spans.start_ns, end_ns, "left"))
    touching = max(0, high - low)
    return touching + (spans.open_ns is not None and spans.open_ns < end_ns and now_ns > begin_ns)


def last_duration(rows: Sequence[RowData], now_ns: int) -> int | None:
    """Duration of the span that began last and lies in no other of these rows; None without spans."""
    lasts: list[tuple[int, int, int]] = []
    for row in sorted(rows, key=_depth):
        last = _last(clipped(row, now_ns))
        if last is None:
            continue
        start, end = last
        if not any(track == row.track and s <= start and end <= e for track, s, e in lasts):
            lasts.append((row.track, start, end))
    if not lasts:
        return None
    _, start, end = max(lasts, key=lambda last: last[1])
    return end - start


_depth = attrgetter("depth")


def _last(spans: Spans) -> tuple[int, int] | None:
    """Start and end of the span that began last; an empty one is given one nanosecond."""
    if spans.open_ns is not None:
        return spans.open_ns, spans.now_ns
    if not len(spans.start_ns):
        return None
    start = spans.start_ns.item(-1)
    return start, max(start + 1, min(spans.end_ns.item(-1), spans.now_ns))


def proof_names(session: Session) -> list[int]:
    """Numbers of the names that say ``prove``: a program and a library that it uses may each have one."""
    return [number for number, name in enumerate(session.names) if name.text == PROOF]


def named(names: NDArray[np.uint32], numbers: Sequence[int]) -> NDArray[np.bool_]:
    """Which of the spans' name numbers are among those given. (`np.isin` takes ten times as long.)"""
    if len(numbers) > FEW_NAMES:
        known = np.zeros(max(numbers) + 2, dtype=bool)
        known[list(numbers)] = True
        return np.asarray(known[np.minimum(names, len(known) - 1)], dtype=bool)
    found = np.zeros(len(names), dtype=bool)
    for number in numbers:
        found |= names == number
    return found


class ProofRow(NamedTuple):
    """The proofs of one row that have begun and not failed, without those within another of their thread."""

    starts: Int64s
    ends: Int64s
    """Clipped."""
    running: int | None
    """Start of the one that has not ended; it is none of the others."""


def proof_rows(snapshot: Snapshot) -> Iterator[ProofRow]:
    """Each row that holds proofs. A program's own ``prove`` may lie around that of a library: that is one."""
    now, numbers = snapshot.now_ns, proof_names(snapshot.session)
    around: dict[int, list[tuple[Int64s, Int64s]]] = {}
    for row in snapshot.rows:  # of a track, the outer ones first
        if row.lane.key != PROOF_LANE:
            continue
        opened = row.open if row.open is not None and row.open.name == PROOF else None
        # A row of that lane may be of other spans: a look at the first few tells whether it holds proofs.
        if opened is None and not named(row.columns.name[:64], numbers).any():
            continue
        starts, ends, finished = begun(row, now)
        mine = named(row.columns.name[: len(starts)], numbers)
        if opened is not None and opened.start_ns < now:
            starts, ends, mine = (
                np.append(starts, opened.start_ns),
                np.append(ends, now),
                np.append(mine, True),
            )
        track = snapshot.session.tracks.get(row.track)
        if track is None or track.kind != "async":  # there, depths are mere room
            outer = around.setdefault(row.track, [])
            if outer:
                mine &= ~covered(starts, outer)
            outer.append((starts, ends))
        last = finished if finished < len(starts) and mine[finished] else None
        # One that failed took no proof's time.
        whole = mine[:finished] & ((row.columns.flags[:finished] & FLAG_ERR) == 0)
        yield ProofRow(
            starts[:finished][whole], ends[:finished][whole], None if last is None else int(starts[last])
        )


def proofs(snapshot: Snapshot) -> tuple[int, list[int], int | None]:
    """Finished proofs, the durations of the last hundred, and the start of the one that runs."""
    count, running = 0, None
    durations: list[int] = []
    for row in proof_rows(snapshot):
        count += len(row.starts)
        durations += (row.ends[-100:] - row.starts[-100:]).tolist()
        running = row.running if row.running is not None else running
    return count, durations, running


def running_proof(snapshot: Snapshot) -> int | None:
    """Start of the proof that runs at the play head; cheap enough for every frame."""
    now = snapshot.now_ns
    for row in snapshot.rows:
        if row.open is not None and row.open.name == PROOF and row.open.start_ns < now:
            return row.open.start_ns
    return None


def find(snapshot: Snapshot, ref: SpanRef) -> SpanRecord | None:
    """The span that `ref` names, clipped to the play head as far as its record allows; None if no longer
    kept.
    """
    for row in snapshot.rows:
        if row.key != (ref.lane, ref.track, ref.depth):
            continue
        index = int(np.searchsorted(row.columns.start_ns, ref.start_ns, "left"))
        if index < len(row.columns) and int(row.columns.start_ns[index]) == ref.start_ns:
            return snapshot.record(row, index)
        if row.open is not None and row.open.start_ns == ref.start_ns:
            return row.open
    return None


def reference(record: SpanRecord, row: RowData) -> SpanRef:
    """What to remember of a span so that it is found again in later snapshots."""
    return SpanRef(row.lane.key, row.track, row.depth, record.start_ns)


@dataclass(frozen=True, slots=True)
class Siblings:
    """A span's place among the finished spans of its name."""

    count: int
    rank: int
    """1: the slowest."""
    median_ns: int
    fastest_ns: int
    slowest_ns: int
    histogram: tuple[int, ...]
    bucket: int
    """Bucket of the span itself."""


class Kin(NamedTuple):
    """The finished spans of a name at a moment."""

    name: str
    moment: tuple[int, int]
    """Revision and play head of the snapshot."""
    durations: Int64s
    """Sorted."""


def kin(snapshot: Snapshot, name: str) -> Kin:
    """All that have finished, also those that another process gave a name of the same text."""
    numbers = [number for number, one in enumerate(snapshot.session.names) if one.text == name]
    parts = []
    for row in snapshot.rows:
        starts, ends, finished = begun(row, snapshot.now_ns)
        same = np.flatnonzero(named(row.columns.name[:finished], numbers))
        parts.append(ends[same] - starts[same])
    durations = np.concatenate(parts) if parts else np.empty(0, np.int64)
    durations.sort()
    return Kin(name, (snapshot.revision, snapshot.now_ns), durations)


def siblings(durations: Int64s, duration_ns: int, buckets: int = 24) -> Siblings | None:
    """A duration's place among sorted ones; None when there is none."""
    count = len(durations)
    if not count:
        return None
    low, high = int(durations[0]), int(durations[-1])
    span = max(1, high - low)
    # Bucket b begins at the least duration whose share of the span, in buckets and rounded down, is b.
    begins = low + -(-span * np.arange(buckets, dtype=np.int64) // buckets)
    places = np.append(durations.searchsorted(begins), count)
    mine = min(max((duration_ns - low) * buckets // span, 0), buckets - 1)
    middle = durations[(count - 1) // 2 : count // 2 + 1]
    return Siblings(
        count,
        count - int(durations.searchsorted(duration_ns, "right")) + 1,
        int(middle.mean()),
        low,
        high,
        tuple(np.diff(places).tolist()),
        mine,
    )
