"""What a store holds as a trace: the way back from a snapshot to the records it was made of."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from cuzk_top.model import (
    FLAG_F64,
    FLAG_F64_A1,
    KIND_COUNTER,
    KIND_INSTANT,
    Columns,
    CounterData,
    Mark,
    Name,
    Run,
    Session,
    Snapshot,
    SpanRecord,
    Track,
)
from cuzk_top.trace import Trace


def trace(snapshot: Snapshot) -> Trace:
    """Everything that a snapshot holds, whatever its play head: as records it would be read back from.

    What the store derives of other records (when a device was busy) is left out: it is derived again.
    """
    session = snapshot.session.copy()
    names = _Names(session)
    derived = {f"gpu.{device.index}.kernel" for device in snapshot.devices}
    counters = [counter for counter in snapshot.counters if len(counter.value) and counter.key not in derived]
    track = _track(session) if counters else 0
    parts = [row.columns for row in snapshot.rows if len(row.columns) and not row.lane.key.endswith(".busy")]
    parts += [_open(row.open) for row in snapshot.rows if row.open is not None]
    parts += [_counter(counter, names.number(counter.key), track) for counter in counters]
    if len(snapshot.flows):
        parts.append(snapshot.flows)
    if snapshot.marks:
        parts.append(_marks(snapshot.marks, names))
    return Trace(
        session,
        tuple(_runs(parts)),
        snapshot.lost,
        max(snapshot.now_ns, snapshot.last_ns),
        snapshot.ended,
        snapshot.problems,
    )


class _Names:
    """Numbers of names by their text."""

    def __init__(self, session: Session) -> None:
        self._names = session.names
        self._known = {name.text: number for number, name in reversed(list(enumerate(session.names)))}

    def number(self, text: str) -> int:
        """The number of a name; one that the session lacks is added."""
        if text not in self._known:
            self._known[text] = len(self._names)
            self._names.append(Name(text))
        return self._known[text]


def _track(session: Session) -> int:
    """A track for counters: a probe's, or a new one."""
    for track in session.tracks.values():
        if track.kind == "probe":
            return track.id
    number = max(session.tracks, default=0) + 1
    session.tracks[number] = Track(number, "probe", "counters")
    return number


def _runs(parts: list[Columns]) -> list[Run]:
    """Records sorted into runs of one track and depth."""
    pieces: dict[int, list[Columns]] = {}
    for columns in parts:
        key = columns.track.astype(np.int64) << 8 | columns.depth
        edges = [0, *(np.flatnonzero(key[1:] != key[:-1]) + 1).tolist(), len(key)]
        if len(edges) > 2:  # a lane of devices has records of several streams
            order = np.argsort(key, kind="stable")
            key, columns = key[order], columns.take(order)  # noqa: PLW2901
            edges = [0, *(np.flatnonzero(key[1:] != key[:-1]) + 1).tolist(), len(key)]
        for low, high in pairwise(edges):
            pieces.setdefault(int(key[low]), []).append(columns.take(slice(low, high)))
    return [Run(key >> 8, key & 0xFF, Columns.concat(mine)) for key, mine in sorted(pieces.items())]


def _open(record: SpanRecord) -> Columns:
    a0, a1 = _bits(record.a0), _bits(record.a1)
    return Columns.make(
        1,
        start_ns=record.start_ns,
        end_ns=record.end_ns,
        kind=record.kind,
        flags=record.flags,
        depth=record.depth,
        track=record.track,
        name=record.name_id,
        id=[record.id],
        parent=[record.parent],
        corr=record.corr,
        a0=a0,
        a1=a1,
        minflt=record.minflt,
        majflt=record.majflt,
        seq=[record.seq],
    )


def _bits(value: float) -> int:
    """An argument as its column holds it."""
    return int(np.float64(value).view(np.int64)) if isinstance(value, float) else value


def _counter(counter: CounterData, name: int, track: int) -> Columns:
    return Columns.make(
        len(counter.value),
        start_ns=counter.start_ns,
        end_ns=counter.t_ns,
        kind=KIND_COUNTER,
        flags=FLAG_F64,
        track=track,
        name=name,
        a0=np.asarray(counter.value, np.float64).view(np.int64),
    )


def _marks(marks: tuple[Mark, ...], names: _Names) -> Columns:
    flags = [
        (FLAG_F64 if isinstance(mark.a0, float) else 0) | (FLAG_F64_A1 if isinstance(mark.a1, float) else 0)
        for mark in marks
    ]
    return Columns.make(
        len(marks),
        start_ns=[mark.t_ns for mark in marks],
        end_ns=[mark.t_ns for mark in marks],
        kind=KIND_INSTANT,
        flags=flags,
        track=[mark.track for mark in marks],
        name=[names.number(mark.text) for mark in marks],
        a0=[_bits(mark.a0) for mark in marks],
        a1=[_bits(mark.a1) for mark in marks],
    )
