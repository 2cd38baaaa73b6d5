"""What the viewer knows at one moment: rows, counters, marks, all of a snapshot. Numpy only.

Times are nanoseconds of CLOCK_MONOTONIC as int64. Everything a `Snapshot` holds is immutable; its arrays are
read-only views of columns that only ever grow behind it. What records and sessions are (`columns`, `session`)
is given on from here.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cuzk_top.columns import (
    BUSY_NAME,
    COLUMN_TYPES,
    DEVICE_KINDS,
    FLAG_ERR,
    FLAG_F64,
    FLAG_F64_A1,
    FLAG_FAULTS,
    FLAG_OPEN,
    FLAG_TEXT,
    FLAG_UNBALANCED,
    KIND_ARGS,
    KIND_ASYNC,
    KIND_COUNTER,
    KIND_FLOW,
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_GPU_MEMSET,
    KIND_GPU_SYNC,
    KIND_INSTANT,
    KIND_META,
    KIND_OVERHEAD,
    KIND_SPAN,
    KIND_UVM,
    NO_DEVICE,
    ROW_BYTES,
    SPAN_KINDS,
    Columns,
    Int64s,
)
from cuzk_top.session import Batch, Name, Run, Session, SpanRecord, Track, span_record

if TYPE_CHECKING:
    from cuzk_top.devicetime import Device
    from cuzk_top.stages import Lane

__all__ = [
    "BUSY_NAME",
    "COLUMN_TYPES",
    "DEVICE_KINDS",
    "FLAG_ERR",
    "FLAG_F64",
    "FLAG_F64_A1",
    "FLAG_FAULTS",
    "FLAG_OPEN",
    "FLAG_TEXT",
    "FLAG_UNBALANCED",
    "KIND_ARGS",
    "KIND_ASYNC",
    "KIND_COUNTER",
    "KIND_FLOW",
    "KIND_GPU_KERNEL",
    "KIND_GPU_MEMCPY",
    "KIND_GPU_MEMSET",
    "KIND_GPU_SYNC",
    "KIND_INSTANT",
    "KIND_META",
    "KIND_OVERHEAD",
    "KIND_SPAN",
    "KIND_UVM",
    "NO_DEVICE",
    "ROW_BYTES",
    "SPAN_KINDS",
    "Batch",
    "Columns",
    "CounterData",
    "Int64s",
    "Mark",
    "Name",
    "RowData",
    "Run",
    "Session",
    "Snapshot",
    "SpanRecord",
    "Track",
    "span_record",
]


@dataclass(frozen=True, slots=True, eq=False)
class RowData:
    """One drawn line: the spans of one lane on one track at one depth.

    `columns` holds the closed spans, sorted by start and not overlapping; `open` is the one that is still
    running, after all of them. `missing` says why a lane has nothing and never will.
    """

    lane: "Lane"
    track: int
    depth: int
    columns: Columns
    open: SpanRecord | None = None
    missing: str | None = None

    @property
    def key(self) -> tuple[str, int, int]:
        """What identifies the row from snapshot to snapshot."""
        return (self.lane.key, self.track, self.depth)

    def index_at(self, t_ns: int) -> int:
        """Index of the span that covers a moment (start <= t < end; of no length: its start), or -1."""
        i = int(np.searchsorted(self.columns.start_ns, t_ns, side="right")) - 1
        if i < 0:
            return -1
        end = int(self.columns.end_ns[i])
        return i if t_ns < end or (t_ns == end and t_ns == int(self.columns.start_ns[i])) else -1


@dataclass(frozen=True, slots=True, eq=False)
class CounterData:
    """One counter on the shared time axis: sample i held from start_ns[i] to t_ns[i].

    A gauge is drawn as the mean of a column's time, a rate as its maximum. `top` is the natural limit, if
    there is one; `missing` says why there are no samples.
    """

    key: str
    label: str
    unit: str
    kind: str  # "gauge" | "rate"
    role: str
    t_ns: Int64s
    start_ns: Int64s
    value: NDArray[np.float64]
    top: float | None = None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """An instant with a text."""

    t_ns: int
    text: str
    a0: int | float
    a1: int | float
    track: int


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Everything to draw, at one moment. Rows are in screen order: lane, then track, then depth.

    `first_ns` and `last_ns` bound the data (0 and 0 when there is none): all that came, also where the oldest
    is no longer kept, so that the origin of the time axis stays. `now_ns` is the last poll, or in a replay
    the play head: what starts after it is not drawn yet, what ends after it is open.
    """

    revision: int
    session: Session
    rows: tuple[RowData, ...]
    counters: tuple[CounterData, ...]
    marks: tuple[Mark, ...]
    first_ns: int
    last_ns: int
    now_ns: int
    spans: int
    lost: int
    ended: bool
    problems: tuple[str, ...]
    viewer_cpu: float | None = None
    devices: tuple["Device", ...] = ()
    """GPUs with records of kernels or copies, by number."""
    flows: Columns = field(default_factory=Columns.empty)
    """Arrows between threads: a point where it begins (a0 0) and where it arrives (a0 1), joined by corr."""

    def record(self, row: RowData, i: int) -> SpanRecord:
        """Closed span `i` of a row."""
        return span_record(self.session, row.columns, i, row.lane.key)

    def at(self, row: RowData, t_ns: int) -> SpanRecord | None:
        """The span that covers a moment in a row, the open one included."""
        i = row.index_at(t_ns)
        if i >= 0:
            return self.record(row, i)
        if row.open is not None and row.open.start_ns <= t_ns:
            return row.open
        return None

    def children(self, record: SpanRecord) -> list[SpanRecord]:
        """The spans directly inside one, by start; open ones too."""
        found: list[SpanRecord] = []
        for row in self.rows:  # any track: asynchronous spans have tracks of their own
            low = int(np.searchsorted(row.columns.start_ns, record.start_ns, side="left"))
            high = int(np.searchsorted(row.columns.start_ns, record.end_ns, side="right"))
            parents = row.columns.take(slice(low, high)).parent
            inside = np.flatnonzero(parents == np.uint64(record.id))
            found.extend(self.record(row, low + int(i)) for i in inside)
            if row.open is not None and row.open.parent == record.id:
                found.append(row.open)
        return sorted(found, key=lambda span: (span.start_ns, span.depth))

    def parent(self, record: SpanRecord) -> SpanRecord | None:
        """The span around one, or None (none, not arrived yet, or no longer kept)."""
        if record.parent == 0:
            return None
        for row in self.rows:
            if row.open is not None and row.open.id == record.parent:
                return row.open
            high = int(np.searchsorted(row.columns.start_ns, record.start_ns, side="right"))
            # A parent covers its child's start, so in a row of spans that do not overlap it is the last to
            # have begun by then; spans of no length may share that moment.
            low = (
                int(np.searchsorted(row.columns.start_ns[:high], row.columns.start_ns[high - 1]))
                if high
                else 0
            )
            for i in np.flatnonzero(row.columns.take(slice(low, high)).id == np.uint64(record.parent)):
                return self.record(row, low + int(i))
        return None
