"""The stage table: numpy over a snapshot's rows, no drawing.

Time after the snapshot's play head does not count: spans that begin later are left out, those across it are
open. Count, median and p95 are of finished spans; totals include the running ones as far as they have come.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cuzk_top import stages
from cuzk_top.device_stages import Block, Proofs, device_stages
from cuzk_top.model import FLAG_ERR, FLAG_FAULTS, RowData, Snapshot
from cuzk_top.stage import Int64s, Stage, inside, proof_times, quantile
from cuzk_top.stats import begun

__all__ = ["Stage", "stage_table"]


@dataclass(slots=True)
class _Sum:
    row: RowData
    first_ns: int
    durations: list[Int64s]
    count: int = 0
    running: int = 0
    total_ns: int = 0
    proving_ns: int = 0
    """What of the total lies inside of proofs."""
    child_ns: int = 0
    minflt: int = 0
    majflt: int = 0
    faults: bool = False
    points: int = 0
    points_ns: int = 0


def stage_table(snapshot: Snapshot) -> list[Stage]:
    """One `Stage` a span name, parents before their children, in the order of a proof; of GPUs as
    `device_stages` has them.
    """
    now = snapshot.now_ns
    sums: dict[int, _Sum] = {}
    proofs = proof_times(snapshot)
    for row in snapshot.rows:
        if stages.has_work(row.lane) or stages.is_derived(row.lane):
            continue
        starts, ends, finished = begun(row, now)
        # Names that the session lacks, as damaged traces have them, count as one.
        names = np.minimum(row.columns.name[: len(starts)], len(snapshot.session.names))
        durations = ends - starts
        proving = np.where(inside(starts, ends, proofs), durations, 0)
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
            entry.proving_ns += int(proving[where].sum())
            entry.running += int(where[-1] >= finished)
            where = where[: len(where) - int(where[-1] >= finished)]
            entry.count += len(where)
            # What an exception left came to no end: it counts, but says nothing of how long one takes.
            whole = where[(row.columns.flags[where] & FLAG_ERR) == 0]
            entry.durations.append(durations[whole])
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
            length = now - row.open.start_ns
            entry.total_ns += length
            ends = np.array([now], dtype=np.int64)
            entry.proving_ns += length if inside(ends - length, ends, proofs)[0] else 0
    for name, nanoseconds in _child_time(snapshot).items():
        if name in sums:
            sums[name].child_ns += nanoseconds
    whole = sum(int((ends - starts).sum()) for starts, ends in proofs)
    return _ordered(snapshot, _by_text(snapshot, sums), whole, device_stages(snapshot, Proofs(proofs, whole)))


def _by_text(snapshot: Snapshot, sums: dict[int, _Sum]) -> dict[str, _Sum]:
    """Sums by the names' texts: two processes number one name apart. What the session lacks is left out."""
    names = snapshot.session.names
    merged: dict[str, _Sum] = {}
    for number, entry in sums.items():
        if number >= len(names):
            continue
        known = merged.setdefault(names[number].text, entry)
        if known is entry:
            continue
        if entry.first_ns < known.first_ns:
            known.row, known.first_ns = entry.row, entry.first_ns
        known.durations += entry.durations
        known.faults |= entry.faults
        for figure in ("count", "running", "total_ns", "proving_ns", "child_ns", "minflt", "majflt"):
            setattr(known, figure, getattr(known, figure) + getattr(entry, figure))
        known.points += entry.points
        known.points_ns += entry.points_ns
    return merged


def _child_time(snapshot: Snapshot) -> dict[int, int]:
    """Time of direct children, by the parent's name.

    A child lies on its parent's track one level deeper, so its parent is the last span that began there by
    then; spans of other tracks (asynchronous ones) are nobody's children here.
    """
    now = snapshot.now_ns
    spent: dict[int, int] = {}
    by_track: dict[int, list[RowData]] = {}
    for row in snapshot.rows:
        if not stages.has_work(row.lane) and not stages.is_derived(row.lane):
            by_track.setdefault(row.track, []).append(row)
    for members in by_track.values():
        for child in members:
            starts, ends, _ = begun(child, now)
            depths = child.columns.depth[: len(starts)].astype(np.int64)
            if child.open is not None and child.open.start_ns < now:
                starts = np.append(starts, child.open.start_ns)
                ends = np.append(ends, now)
                depths = np.append(depths, child.open.depth)
            above = [row for row in members if row.depth < child.depth]
            # Most lie in a span of their own lane, the next one out.
            above.sort(key=lambda row: (row.lane.key != child.lane.key, -row.depth))
            for parent in above:
                if not len(starts):
                    break
                found = _charge(parent, (starts, ends, depths), now, spent, len(snapshot.session.names))
                if found.any():
                    starts, ends, depths = starts[~found], ends[~found], depths[~found]
    return spent


def _charge(
    parent: RowData, children: tuple[Int64s, Int64s, Int64s], now: int, spent: dict[int, int], most: int
) -> NDArray[np.bool_]:
    """Add to `spent` the time of children (starts, ends, depths) that falls to spans of this row; which those
    are.

    Names from `most` on count as one.
    """
    starts, ends, depths = children
    columns = parent.columns
    found = np.zeros(len(starts), bool)
    if len(columns):
        index = np.searchsorted(columns.start_ns, starts, "right") - 1
        held = np.maximum(index, 0)
        inside = (index >= 0) & (columns.depth[held] == depths - 1)
        inside &= np.minimum(columns.end_ns[held], now) >= ends
        if inside.any():
            lengths = (ends - starts)[inside].astype(np.float64)
            names = np.minimum(columns.name[held[inside]], most)
            totals = np.bincount(names, weights=lengths)
            for name in np.flatnonzero(totals).tolist():
                spent[name] = spent.get(name, 0) + int(totals[name])
            found |= inside
    opened = parent.open
    if opened is not None:
        inside = (starts >= opened.start_ns) & (depths == opened.depth + 1)
        spent[opened.name_id] = spent.get(opened.name_id, 0) + int((ends - starts)[inside].sum())
        found |= inside
    return found


def _ordered(snapshot: Snapshot, sums: dict[str, _Sum], whole: int, blocks: list[Block]) -> list[Stage]:
    """The rows of the host's spans, of which proofs took `whole` ns, and of the devices' blocks."""
    lanes: dict[str, int] = {}
    for row in snapshot.rows:
        lanes.setdefault(row.lane.key, len(lanes))
    parents = {text: _prefix(text, sums) for text in sums}
    children: dict[str, list[str]] = {}
    for text, parent in parents.items():
        children.setdefault(parent, []).append(text)
    table: list[Stage] = []

    def add(text: str, indent: int) -> None:
        entry = sums[text]
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
                entry.proving_ns / whole if whole and entry.proving_ns else None,
                entry.minflt if entry.faults else None,
                entry.majflt if entry.faults else None,
                entry.points_ns / entry.points if entry.points > 0 else None,
            )
        )
        inside = children.get(text, ()) if text else ()  # roots have no name for a parent
        for child in sorted(inside, key=lambda t: sums[t].first_ns):
            add(child, indent + 1)

    roots: list[tuple[int, int, str | Block]] = [
        (lanes[entry.row.lane.key], entry.first_ns, text) for text, entry in sums.items() if not parents[text]
    ]
    roots += [(lanes[block.lane], block.first_ns, block) for block in blocks]
    for _, _, root in sorted(roots, key=lambda root: root[:2]):
        if isinstance(root, Block):
            table += root.rows
        else:
            add(root, 0)
    return table


def _prefix(text: str, names: Container[str]) -> str:
    """The longest other name that is a dotted prefix of `text`, or nothing."""
    parts = text.split(".")
    return next(
        (".".join(parts[:n]) for n in range(len(parts) - 1, 0, -1) if ".".join(parts[:n]) in names), ""
    )
