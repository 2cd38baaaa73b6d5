"""What the rules look at: a window's host spans, device work and waits as plain columns. Numpy only.

Everything ends at the snapshot's play head: later spans are not there, those across it are open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top.model import (
    DEVICE_KINDS,
    FLAG_FAULTS,
    FLAG_OPEN,
    KIND_GPU_KERNEL,
    KIND_GPU_SYNC,
    Columns,
    RowData,
    Session,
    Snapshot,
)
from cuzk_top.stalls.intervals import Int64s

Bools = NDArray[np.bool_]
_PROCESS = re.compile(r" \[(\d+)\]$")
_ON_DEVICE = np.zeros(256, dtype=bool)
_ON_DEVICE[list(DEVICE_KINDS)] = True
IGNORED_LANES = ("overhead",)
"""What recording cost is nobody's work."""
WORKER = ".worker"
"""Ending of the names of spans of a stage's worker threads, which are part of it."""
NOT_WAITS = "sync.stream_wait_event"
"""Its call only puts a condition into a stream; the host does not wait."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Spans as equally long columns. `row` is the place in `Records.lanes` of each span's lane.

    Host spans are sorted by (track, depth, start), device work by start.
    """

    start: Int64s
    end: Int64s
    track: Int64s
    depth: Int64s
    row: Int64s
    kind: Int64s
    flags: Int64s
    name: Int64s
    id: NDArray[np.uint64]
    parent: NDArray[np.uint64]
    corr: Int64s
    a0: Int64s
    a1: Int64s
    minflt: Int64s
    majflt: Int64s

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: NDArray[np.int64] | Bools) -> Table:
        """The rows that an index array or a mask selects."""
        return Table(*(getattr(self, name)[which] for name in self.__slots__))

    @property
    def open(self) -> Bools:
        """Which have no end yet."""
        return np.asarray((self.flags & FLAG_OPEN) != 0)

    @property
    def measured(self) -> Bools:
        """Whose page faults were counted."""
        return np.asarray((self.flags & FLAG_FAULTS) != 0)


@dataclass(frozen=True, eq=False)
class Records:
    """A window's records. Equal snapshots give equal ones."""

    session: Session
    low: int
    high: int
    lanes: tuple[str, ...]
    host: Table
    """Spans of threads and async spans: jobs, claims, waits and work."""
    ops: Table
    """Kernels, copies and fills."""
    waits: Table
    """The host's waits for devices, by end."""

    def text(self, name: int) -> str:
        """A name's text."""
        return self.session.names[name].text if name < len(self.session.names) else f"<name {name}>"

    def lane(self, table: Table, i: int) -> str:
        """Key of a span's lane."""
        return self.lanes[int(table.row[i])]

    @cached_property
    def device(self) -> Int64s:
        """Device of each row of `ops`."""
        of = np.array([_device(lane) for lane in self.lanes] or [0], np.int64)
        return of[self.ops.row]

    @cached_property
    def kernel(self) -> Bools:
        """Which rows of `ops` are kernels."""
        return np.asarray(self.ops.kind == KIND_GPU_KERNEL)

    @cached_property
    def in_lane(self) -> dict[str, Bools]:
        """Which host spans are jobs (``job``) and which are claims on a GPU (``claim``)."""
        job = np.array([lane == "proof" for lane in self.lanes] or [False])
        claim = np.array(
            [lane.startswith("gpu") and lane.endswith(".held") for lane in self.lanes] or [False]
        )
        return {"job": job[self.host.row], "claim": claim[self.host.row]}

    @cached_property
    def on_thread(self) -> Bools:
        """Which host spans are of a thread, which does one thing at a time; the others are async."""
        kinds = {number: track.kind for number, track in self.session.tracks.items()}
        tracks, inverse = np.unique(self.host.track, return_inverse=True)
        one = np.array([kinds.get(int(track), "thread") != "async" for track in tracks], dtype=bool)
        return one[inverse] if len(tracks) else np.empty(0, dtype=bool)

    @cached_property
    def _by_id(self) -> tuple[NDArray[np.uint64], Int64s]:
        order = np.argsort(self.host.id, kind="stable")
        return self.host.id[order], order

    def find(self, ids: NDArray[np.uint64]) -> Int64s:
        """Place in `host` of the spans with these ids; -1 where there is none."""
        known, order = self._by_id
        if not len(known):
            return np.full(len(ids), -1, np.int64)
        place = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where((known[place] == ids) & (ids != 0), order[place], -1)

    @cached_property
    def launcher(self) -> Int64s:
        """Place in `host` of the span that launched each of `ops`; -1 where it is not known."""
        return self.find(self.ops.parent)

    def process(self, track: int) -> int:
        """Which process a track belongs to: 0 for the session's first."""
        known = self.session.tracks.get(track)
        found = _PROCESS.search(known.label) if known is not None else None
        return int(found[1]) if found else 0


def gather(snapshot: Snapshot, low: int, high: int, most: int) -> Records:
    """The records that touch ``[low, high)``, ends clipped to the play head; of more than `most`, the latest.

    The result's `low` says from when on it is complete.
    """
    low = _bounded(snapshot, low, high, most)
    lanes: list[str] = []
    parts: dict[str, list[Columns]] = {"host": [], "ops": [], "waits": []}
    where: dict[str, list[tuple[int, int]]] = {"host": [], "ops": [], "waits": []}
    for row in snapshot.rows:
        key = row.lane.key
        if key in IGNORED_LANES or key.endswith(".busy"):
            continue
        columns = _within(row, low, high)
        if not len(columns) and row.open is None:
            continue
        lanes.append(key)
        kind = _table_of(key, columns)
        if len(columns):
            parts[kind].append(columns)
            where[kind].append((len(lanes) - 1, row.depth))
        if row.open is not None and low <= row.open.end_ns and row.open.start_ns < high:
            parts["host"].append(_opened(row, snapshot.now_ns))
            where["host"].append((len(lanes) - 1, row.depth))
    host, ops, waits = (
        _table(parts[kind], where[kind], snapshot.now_ns) for kind in ("host", "ops", "waits")
    )
    waiting = np.array([name.text != NOT_WAITS for name in snapshot.session.names] or [True])
    waits = waits.take(waiting[np.minimum(waits.name, len(waiting) - 1)])
    return Records(
        snapshot.session,
        low,
        high,
        tuple(lanes),
        host.take(np.lexsort((host.end, host.start, host.depth, host.track))),
        ops.take(np.lexsort((ops.end, ops.start))),
        waits.take(np.lexsort((waits.corr, waits.end))),
    )


def _device(lane: str) -> int:
    number = lane.removeprefix("gpu").partition(".")[0]
    return int(number) if lane.startswith("gpu") and number.isdigit() else -1


def _table_of(lane: str, columns: Columns) -> str:
    if lane.startswith("gpu") and len(columns) and _ON_DEVICE[columns.kind[0]]:
        return "ops"
    return "waits" if lane == "waits" and len(columns) and columns.kind[0] == KIND_GPU_SYNC else "host"


def _bounds(row: RowData, low: int, high: int) -> tuple[int, int]:
    first = int(np.searchsorted(row.columns.end_ns, low, side="left"))
    return first, max(first, int(np.searchsorted(row.columns.start_ns, high, side="left")))


def _within(row: RowData, low: int, high: int) -> Columns:
    return row.columns.take(slice(*_bounds(row, low, high)))


def _bounded(snapshot: Snapshot, low: int, high: int, most: int) -> int:
    """The latest start of a window up to `high` that holds at most so many records, if `low` holds more."""

    def count(begin: int) -> int:
        return sum(last - first for first, last in (_bounds(row, begin, high) for row in snapshot.rows))

    if count(low) <= most:
        return low
    least, enough = low, high
    while enough - least > max(1, (high - low) >> 20):
        middle = (least + enough) // 2
        least, enough = (middle, enough) if count(middle) > most else (least, middle)
    return enough


def _opened(row: RowData, now: int) -> Columns:
    span = row.open
    assert span is not None
    return Columns.make(
        1,
        start_ns=min(span.start_ns, now),
        end_ns=now,
        kind=span.kind,
        flags=span.flags | FLAG_OPEN,
        depth=span.depth,
        track=span.track,
        name=span.name_id,
        id=np.array([span.id], np.uint64),
        parent=np.array([span.parent], np.uint64),
        a0=span.a0 if isinstance(span.a0, int) else 0,
        a1=span.a1 if isinstance(span.a1, int) else 0,
        minflt=span.minflt,
        majflt=span.majflt,
    )


def _table(parts: list[Columns], where: Iterable[tuple[int, int]], now: int) -> Table:
    """Columns of several rows as one table, each with its row's lane and depth, ends clipped to `now`."""
    counts = [len(part) for part in parts]
    rows = np.repeat(np.array([row for row, _ in where], np.int64), counts)
    depths = np.repeat(np.array([depth for _, depth in where], np.int64), counts)

    def column(name: str, kind: Any = np.int64) -> NDArray[Any]:
        if not parts:
            return np.empty(0, kind)
        return np.concatenate([np.asarray(getattr(part, name)) for part in parts]).astype(kind)

    end, flags = column("end_ns"), column("flags")
    return Table(
        column("start_ns"),
        np.minimum(end, now),
        column("track"),
        depths,
        rows,
        column("kind"),
        np.where(end > now, flags | FLAG_OPEN, flags),
        column("name"),
        column("id", np.uint64),
        column("parent", np.uint64),
        *(column(name) for name in ("corr", "a0", "a1", "minflt", "majflt")),
    )
