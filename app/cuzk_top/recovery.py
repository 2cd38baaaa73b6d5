"""Put a recording together after a crash: what the stream has, and what only the ring still had.

A stream says with every batch how far each ring was read into it. So the ring is read on from there: nothing
that was published is missing (unless the ring has overwritten it meanwhile: that is counted), and nothing
comes twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from cuzk_top import trace
from cuzk_top.errors import InputError
from cuzk_top.merge import Merger
from cuzk_top.model import FLAG_OPEN, Batch, Columns, Run, Session
from cuzk_top.sources.group import Group
from cuzk_top.sources.ring import RingSource
from cuzk_top.trace import Trace
from cuzk_tracer import layout


@dataclass(frozen=True, slots=True)
class Recovered:
    """A whole trace: records of the recording, records that only rings had, and those lost in between."""

    trace: Trace
    recorded: int
    added: int
    lost: int


def recover(paths: Sequence[Path], clock: Callable[[], int]) -> Recovered:
    """Merge at most one recording and any number of rings. `clock` is CLOCK_MONOTONIC in ns.

    A recording's older segments are found beside it. Raises InputError when a file is neither, when there are
    two recordings, or when a ring belongs to another session than the recording.
    """
    rings = [path for path in paths if _is_ring(path)]
    recordings = _without_segments([path for path in paths if path not in rings])
    if len(recordings) > 1:
        raise InputError(
            f"{recordings[1]}: a second recording; recover merges one with the rings it was made of"
        )
    base = trace.open(recordings[0]) if recordings else None
    group = Group(lambda: (), clock)
    for path in rings:
        group.add(_source(path, group, base, clock))
    recorded = 0 if base is None else len(base)
    lost = 0 if base is None else base.lost
    if not rings:
        assert base is not None
        return Recovered(base, recorded, 0, lost)
    try:
        batch = group.poll()
    finally:
        group.close()
    made = _merged(base, batch)
    return Recovered(made, recorded, len(batch.columns), made.lost)


def _is_ring(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(layout.MAGIC)) == layout.MAGIC
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error


def _without_segments(paths: list[Path]) -> list[Path]:
    """The newest file of each recording: it finds the older ones itself."""
    older = {other for path in paths for other in trace.segments(path)}
    return [path for path in paths if path not in older]


def _source(path: Path, group: Group, base: Trace | None, clock: Callable[[], int]) -> RingSource:
    if base is None:
        return RingSource(path, clock, group.numbers)
    with_header = RingSource(path, clock, group.numbers)
    with_header.close()
    position = base.rings.get(with_header.ring.uuid)
    if position is None:
        pid = with_header.ring.pid
        raise InputError(f"{path}: the ring of another session (process {pid}) than the recording is of")
    group.numbers.last = max(group.numbers.last, *_below_probes(base))
    return RingSource(path, clock, group.numbers, position)


def _below_probes(base: Trace) -> list[int]:
    from cuzk_top.merge import PROBE_TRACKS  # noqa: PLC0415

    return [0, *(number for number in base.session.tracks if number < PROBE_TRACKS)]


def _merged(base: Trace | None, batch: Batch) -> Trace:
    if base is None:
        base = Trace(Session(names=[]), (), 0, 0, False, ())
    runs, seq = [], 0
    for run in base.runs:
        columns = run.columns
        still = columns.flags & FLAG_OPEN != 0
        if still.any():  # the rings know better which spans are open, or have their end
            columns = columns.take(~still)
        if len(columns):
            seq = max(seq, int(columns.seq.max()) + 1)
            runs.append(Run(run.track, run.depth, columns))
    known, meta = base.session.tracks, base.session.meta
    merged = Merger(base.session, seq).merge(batch, [])
    session = merged.session
    session.meta = meta | session.meta
    for number, track in known.items():
        session.tracks.setdefault(number, track)
    open_ = merged.open
    seq += len(merged.columns)
    open_ = open_.replace(seq=np.arange(seq, seq + len(open_), dtype=np.uint64))
    parts = list(_runs_of(Columns.concat([part for part in (merged.columns, open_) if len(part)])))
    problems = [text for text in base.problems if "cut off" not in text]
    problems += [text for text in merged.problems if text not in problems]
    if not merged.ended:
        problems.append("the process still ran when this was recovered")
    now = max(base.now_ns, merged.now_ns)
    return Trace(
        session, tuple(_joined(runs + parts)), merged.lost, now, merged.ended, tuple(problems), merged.rings
    )


def _runs_of(columns: Columns) -> list[Run]:
    if not len(columns):
        return []
    key = columns.track.astype(np.int64) << 8 | columns.depth
    order = np.argsort(key, kind="stable")
    key = key[order]
    edges = [0, *(np.flatnonzero(key[1:] != key[:-1]) + 1).tolist(), len(key)]
    return [
        Run(int(key[low]) >> 8, int(key[low]) & 0xFF, columns.take(order[low:high]))
        for low, high in pairwise(edges)
    ]


def _joined(runs: list[Run]) -> list[Run]:
    """One run a track and depth."""
    found: dict[tuple[int, int], list[Columns]] = {}
    for run in runs:
        found.setdefault((run.track, run.depth), []).append(run.columns)
    return [Run(track, depth, Columns.concat(parts)) for (track, depth), parts in found.items()]
