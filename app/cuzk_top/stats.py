"""Figures of the stage table, the numbers column and the inspector: numpy over a snapshot's rows, no drawing.

Time after the snapshot's play head does not count: spans that begin later are left out, those across it are
open. Count, median and p95 are of finished spans; totals include the running ones as far as they have come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cuzk_top import stages
from cuzk_top.model import FLAG_FAULTS, RowData, Snapshot, SpanRecord
from cuzk_top.rows import Spans
from cuzk_top.viewport import SpanRef

Int64s = NDArray[np.int64]
PROOF = "prove"
"""Name of the span around one whole proof: shares are of its total."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One row of the stage table: all spans of one name."""

    name: str
    lane: str
    role: str
    indent: int
    label: str
    count: int
    running: int
    total_ns: int
    self_ns: int
    median_ns: int | None
    p95_ns: int | None
    share: float | None
    """Of the proofs' total, 0..1; None without a proof."""
    minflt: int | None
    majflt: int | None
    ns_per_point: float | None


def clipped(row: RowData, now_ns: int) -> Spans:
    """The spans of a row up to the play head."""
    opened = row.open.start_ns if row.open is not None else None
    return Spans.until(row.columns.start_ns, row.columns.end_ns, opened, now_ns)


def _within(row: RowData, now_ns: int) -> tuple[Int64s, Int64s, int]:
    """Starts and ends (clipped) of the closed spans that have begun, and how many of them have finished."""
    count = int(np.searchsorted(row.columns.start_ns, now_ns, "left"))
    ends = row.columns.end_ns[:count]
    finished = int(np.searchsorted(ends, now_ns, "right"))
    return row.columns.start_ns[:count], np.minimum(ends, now_ns), finished


@dataclass(slots=True)
class _Sum:
    row: RowData
    first_ns: int
    durations: list[Int64s]
    count: int = 0
    running: int = 0
    total_ns: int = 0
    child_ns: int = 0
    minflt: int = 0
    majflt: int = 0
    faults: bool = False
    points: int = 0
    points_ns: int = 0


def stage_table(snapshot: Snapshot) -> list[Stage]:
    """One `Stage` a span name, parents before their children, in the order of a proof."""
    now = snapshot.now_ns
    sums: dict[int, _Sum] = {}
    for row in snapshot.rows:
        starts, ends, finished = _within(row, now)
        names = row.columns.name[: len(starts)]
        durations = ends - starts
        # 16-bit keys are sorted by radix, in linear time; a session has at most a few thousand names.
        order = np.argsort(
            names.astype(np.uint16) if len(snapshot.session.names) < 65_536 else names, kind="stable"
        )
        counts = np.bincount(names)
        stops = np.cumsum(counts)
        for name in np.flatnonzero(counts).tolist():
            where = order[stops[name] - counts[name] : stops[name]]
            entry = sums.setdefault(name, _Sum(row, int(starts[where[0]]), []))
            entry.first_ns = min(entry.first_ns, int(starts[where[0]]))
            entry.total_ns += int(durations[where].sum())
            entry.running += int(where[-1] >= finished)
            where = where[: len(where) - int(where[-1] >= finished)]
            entry.count += len(where)
            entry.durations.append(durations[where])
            measured = where[(row.columns.flags[where] & FLAG_FAULTS) != 0]
            if len(measured):
                entry.faults = True
                entry.minflt += int(row.columns.minflt[measured].sum(dtype=np.int64))
                entry.majflt += int(row.columns.majflt[measured].sum(dtype=np.int64))
            if name < len(snapshot.session.names) and snapshot.session.names[name].a0 == "points":
                entry.points += int(row.columns.a0[where].sum())
                entry.points_ns += int(durations[where].sum())
        if row.open is not None and row.open.start_ns < now:
            entry = sums.setdefault(row.open.name_id, _Sum(row, row.open.start_ns, []))
            entry.running += 1
            entry.total_ns += now - row.open.start_ns
    for name, nanoseconds in _child_time(snapshot).items():
        if name in sums:
            sums[name].child_ns += nanoseconds
    return _ordered(snapshot, sums)


def _child_time(snapshot: Snapshot) -> dict[int, int]:
    """Time of direct children, by the parent's name.

    A child lies on its parent's track one level deeper, so its parent is the last span that began there by
    then; spans of other tracks (asynchronous ones) are nobody's children here.
    """
    now = snapshot.now_ns
    spent: dict[int, int] = {}
    by_track: dict[int, list[RowData]] = {}
    for row in snapshot.rows:
        by_track.setdefault(row.track, []).append(row)
    for members in by_track.values():
        for child in members:
            starts, ends, _ = _within(child, now)
            depths = child.columns.depth[: len(starts)].astype(np.int64)
            if child.open is not None and child.open.start_ns < now:
                starts = np.append(starts, child.open.start_ns)
                ends = np.append(ends, now)
                depths = np.append(depths, child.open.depth)
            if len(starts):
                for parent in (row for row in members if row.depth < child.depth):
                    _charge(parent, (starts, ends, depths), now, spent)
    return spent


def _charge(
    parent: RowData, children: tuple[Int64s, Int64s, Int64s], now: int, spent: dict[int, int]
) -> None:
    """Add to `spent` the time of children (starts, ends, depths) that falls to spans of this row."""
    starts, ends, depths = children
    columns = parent.columns
    if len(columns):
        index = np.searchsorted(columns.start_ns, starts, "right") - 1
        held = np.maximum(index, 0)
        inside = (index >= 0) & (columns.depth[held] == depths - 1)
        inside &= np.minimum(columns.end_ns[held], now) >= ends
        if inside.any():
            lengths = (ends - starts)[inside].astype(np.float64)
            totals = np.bincount(columns.name[held[inside]], weights=lengths)
            for name in np.flatnonzero(totals).tolist():
                spent[name] = spent.get(name, 0) + int(totals[name])
    opened = parent.open
    if opened is not None:
        inside = (starts >= opened.start_ns) & (depths == opened.depth + 1)
        spent[opened.name_id] = spent.get(opened.name_id, 0) + int((ends - starts)[inside].sum())


def _ordered(snapshot: Snapshot, sums: dict[int, _Sum]) -> list[Stage]:
    names = {snapshot.session.names[name].text: name for name in sums if name < len(snapshot.session.names)}
    lanes: dict[str, int] = {}
    for row in snapshot.rows:
        lanes.setdefault(row.lane.key, len(lanes))
    parents = {text: _prefix(text, names) for text in names}
    proof = names.get(PROOF)
    whole = sums[proof].total_ns if proof is not None else 0
    table: list[Stage] = []

    def add(text: str, indent: int) -> None:
        entry = sums[names[text]]
        finished = np.sort(np.concatenate(entry.durations)) if entry.durations else np.empty(0, np.int64)
        table.append(
            Stage(
                text,
                entry.row.lane.key,
                stages.role_of(text, snapshot.session.meta),
                indent,
                text[len(parents[text]) + 1 :] if parents[text] else text,
                entry.count,
                entry.running,
                entry.total_ns,
                max(0, entry.total_ns - entry.child_ns),
                quantile(finished, 0.5) if len(finished) else None,
                quantile(finished, 0.95) if len(finished) else None,
                entry.total_ns / whole if whole else None,
                entry.minflt if entry.faults else None,
                entry.majflt if entry.faults else None,
                entry.points_ns / entry.points if entry.points > 0 else None,
            )
        )
        for child in sorted((t for t in names if parents[t] == text), key=lambda t: sums[names[t]].first_ns):
            add(child, indent + 1)

    roots = [text for text in names if not parents[text]]
    for text in sorted(roots, key=lambda t: (lanes[sums[names[t]].row.lane.key], sums[names[t]].first_ns)):
        add(text, 0)
    return table


def quantile(ordered: Int64s, q: float) -> int:
    """Quantile of sorted values, linear between neighbours (numpy's default, without its 0.1 ms a call)."""
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return int(ordered[low] + (at - low) * (ordered[high] - ordered[low]))


def _prefix(text: str, names: Iterable[str]) -> str:
    """The longest other name that is a dotted prefix of `text`, or nothing."""
    parts = text.split(".")
    present = set(names)
    return next(
        (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1) if ".".join(parts[:n]) in present), ""
    )


def busy_ns(rows: Sequence[RowData], begin_ns: int, end_ns: int, now_ns: int) -> int:
    """Time inside ``[begin_ns, min(end_ns, now_ns))`` that at least one span of the rows of a track covers.

    Nested spans count once; spans of different tracks add up, as two threads do twice the work.
    """
    end_ns = min(end_ns, now_ns)
    if end_ns <= begin_ns:
        return 0
    by_track: dict[int, tuple[list[Int64s], list[Int64s]]] = {}
    for row in rows:
        spans = clipped(row, now_ns)
        low = int(np.searchsorted(spans.end_ns, begin_ns, "right"))
        high = int(np.searchsorted(spans.start_ns, end_ns, "left"))
        starts, ends = by_track.setdefault(row.track, ([], []))
        if high > low:
            starts.append(spans.start_ns[low:high])
            ends.append(spans.end_ns[low:high])
        if spans.open_ns is not None and spans.open_ns < end_ns:
            starts.append(np.array([spans.open_ns], dtype=np.int64))
            ends.append(np.array([now_ns], dtype=np.int64))
    return sum(
        _union(np.concatenate(s), np.concatenate(e), begin_ns, end_ns) for s, e in by_track.values() if s
    )


def _union(starts: Int64s, ends: Int64s, begin_ns: int, end_ns: int) -> int:
    """Length of the union of intervals, clipped to ``[begin_ns, end_ns)``."""
    order = np.argsort(starts, kind="stable")
    starts = np.maximum(starts[order], begin_ns)
    ends = np.minimum(ends[order], end_ns)
    covered = np.concatenate([[begin_ns], np.maximum.accumulate(ends)[:-1]])
    return int(np.maximum(ends - np.maximum(starts, covered), 0).sum())


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
    for row in sorted(rows, key=lambda row: row.depth):
        spans = clipped(row, now_ns)
        if not spans.total:
            continue
        index = np.array([spans.total - 1], dtype=np.int64)
        start, end = int(spans.starts(index)[0]), int(spans.ends(index)[0])
        if not any(track == row.track and s <= start and end <= e for track, s, e in lasts):
            lasts.append((row.track, start, end))
    if not lasts:
        return None
    _, start, end = max(lasts, key=lambda last: last[1])
    return end - start


def proofs(snapshot: Snapshot) -> tuple[int, list[int], int | None]:
    """Finished proofs, the durations of the last hundred, and the start of the one that runs."""
    proof = next((i for i, name in enumerate(snapshot.session.names) if name.text == PROOF), None)
    count, running = 0, None
    durations: list[int] = []
    for row in snapshot.rows:
        opened = row.open is not None and row.open.name_id == proof
        # All spans of a row are of one lane, so a look at the first few tells whether it holds proofs.
        if proof is None or not (opened or (row.columns.name[:64] == proof).any()):
            continue
        starts, ends, finished = _within(row, snapshot.now_ns)
        mine = np.flatnonzero(row.columns.name[:finished] == proof)
        count += len(mine)
        durations += (ends[mine[-100:]] - starts[mine[-100:]]).tolist()
        if finished < len(starts):
            running = int(starts[finished])
        elif opened and row.open is not None and row.open.start_ns < snapshot.now_ns:
            running = row.open.start_ns
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


def siblings(snapshot: Snapshot, record: SpanRecord, duration_ns: int, buckets: int = 24) -> Siblings | None:
    """Compare with all finished spans of that name; None when there is none."""
    parts = []
    for row in snapshot.rows:
        starts, ends, finished = _within(row, snapshot.now_ns)
        same = np.flatnonzero(row.columns.name[:finished] == record.name_id)
        parts.append(ends[same] - starts[same])
    durations = np.concatenate(parts) if parts else np.empty(0, np.int64)
    if not len(durations):
        return None
    low, high = int(durations.min()), int(durations.max())
    span = max(1, high - low)
    where = np.minimum((durations - low) * buckets // span, buckets - 1)
    mine = min(max((duration_ns - low) * buckets // span, 0), buckets - 1)
    return Siblings(
        len(durations),
        int((durations > duration_ns).sum()) + 1,
        int(np.median(durations)),
        low,
        high,
        tuple(np.bincount(where, minlength=buckets).tolist()),
        int(mine),
    )
