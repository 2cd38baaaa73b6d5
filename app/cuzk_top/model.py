"""What the viewer knows, as values: columns, sessions, batches and snapshots. Numpy only.

Times are nanoseconds of CLOCK_MONOTONIC as int64. Everything a `Snapshot` holds is immutable; its arrays are
read-only views of columns that only ever grow behind it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cuzk_tracer import layout

if TYPE_CHECKING:
    from cuzk_top.devicetime import Device
    from cuzk_top.stages import Lane

KIND_SPAN = layout.KIND_SPAN
KIND_ASYNC = layout.KIND_ASYNC
KIND_INSTANT = layout.KIND_INSTANT
KIND_COUNTER = layout.KIND_COUNTER
KIND_GPU_KERNEL = layout.KIND_GPU_KERNEL
KIND_GPU_MEMCPY = layout.KIND_GPU_MEMCPY
KIND_GPU_MEMSET = layout.KIND_GPU_MEMSET
KIND_UVM = layout.KIND_UVM
KIND_OVERHEAD = layout.KIND_OVERHEAD
KIND_FLOW = layout.KIND_FLOW
KIND_ARGS = layout.KIND_ARGS
KIND_META = layout.KIND_META
KIND_GPU_SYNC = layout.KIND_GPU_SYNC

SPAN_KINDS = (
    KIND_SPAN,
    KIND_ASYNC,
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_GPU_MEMSET,
    KIND_UVM,
    KIND_OVERHEAD,
    KIND_GPU_SYNC,
)
"""Kinds that last: those are drawn as bars."""

DEVICE_KINDS = (KIND_GPU_KERNEL, KIND_GPU_MEMCPY, KIND_GPU_MEMSET)
"""What occupies a device. On tracks of kind "gpu", whose `tid` is the device."""
NO_DEVICE = layout.NO_DEVICE

BUSY_NAME = "gpu.busy"
"""Text of the name that the store gives the stretches in which a device worked, which it derives."""

FLAG_ERR = 1
FLAG_F64 = 2  # a0 holds a float64's bits
FLAG_TEXT = 4  # a1 is a key of the batch's strings
FLAG_FAULTS = 8  # minflt and majflt were measured
FLAG_OPEN = 16  # still open when recorded: end_ns is when it was last seen so
FLAG_UNBALANCED = 32  # closed by an enclosing span's end, not by its own
FLAG_F64_A1 = 64  # a1 holds a float64's bits

COLUMN_TYPES: dict[str, np.dtype[Any]] = {
    "start_ns": np.dtype(np.int64),
    "end_ns": np.dtype(np.int64),
    "kind": np.dtype(np.uint8),
    "flags": np.dtype(np.uint8),
    "depth": np.dtype(np.uint8),
    "track": np.dtype(np.uint32),
    "name": np.dtype(np.uint32),
    "id": np.dtype(np.uint64),
    "parent": np.dtype(np.uint64),
    "corr": np.dtype(np.uint32),
    "a0": np.dtype(np.int64),
    "a1": np.dtype(np.int64),
    "minflt": np.dtype(np.uint32),
    "majflt": np.dtype(np.uint32),
    "seq": np.dtype(np.uint64),
}
ROW_BYTES = sum(kind.itemsize for kind in COLUMN_TYPES.values())

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Records as equal-length arrays, dtypes as in COLUMN_TYPES.

    `id` and `parent` are unique in a session (0: none): the writing track in the high 32 bits, the writer's
    own number in the low. `depth` counts the spans of the same track that were open around this one. `a0` and
    `a1` are integers, or the bits of a float64 where flags say so. `seq` is the order of arrival.
    """

    start_ns: Int64s
    end_ns: Int64s
    kind: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    depth: NDArray[np.uint8]
    track: NDArray[np.uint32]
    name: NDArray[np.uint32]
    id: NDArray[np.uint64]
    parent: NDArray[np.uint64]
    corr: NDArray[np.uint32]
    a0: Int64s
    a1: Int64s
    minflt: NDArray[np.uint32]
    majflt: NDArray[np.uint32]
    seq: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.start_ns)

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Every column with its name, in order."""
        return zip(COLUMN_TYPES, _arrays(self), strict=True)

    def take(self, which: Any) -> "Columns":
        """The rows that an index array, a mask or a slice selects; a slice copies nothing."""
        return Columns(*[array[which] for array in _arrays(self)])

    def row(self, i: int) -> dict[str, Any]:
        """Row `i` by column, as Python's numbers."""
        return {name: array.item(i) for name, array in self.arrays()}

    def replace(self, **columns: NDArray[Any]) -> "Columns":
        """The same with some columns exchanged."""
        return Columns(**(dict(self.arrays()) | columns))

    @staticmethod
    def empty() -> "Columns":
        """No rows."""
        return _EMPTY

    @staticmethod
    def make(count: int, **columns: Any) -> "Columns":
        """`count` rows from the columns given (arrays or single values); the rest is zero."""
        made = {}
        for name, kind in COLUMN_TYPES.items():
            value = columns.pop(name, 0)
            if isinstance(value, (int, float, np.generic)):
                made[name] = array = np.zeros(count, kind)
                if value:
                    array[:] = value
                continue
            made[name] = array = np.asarray(value, kind)
            if len(array) != count:
                raise ValueError(f"column {name} has {len(array)} rows, not {count}")
        if columns:
            raise TypeError(f"no such columns: {', '.join(columns)}")
        return Columns(**made)

    @staticmethod
    def concat(parts: "Sequence[Columns]") -> "Columns":
        """The rows of all parts in order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return _EMPTY
        return Columns(*map(np.concatenate, zip(*map(_arrays, parts), strict=True)))


_arrays: Callable[[Columns], tuple[NDArray[Any], ...]] = attrgetter(*COLUMN_TYPES)
"""All columns at once: batches are many and small, so what each costs is calls, not rows."""
_EMPTY = Columns(*(np.empty(0, kind) for kind in COLUMN_TYPES.values()))


@dataclass(frozen=True, slots=True)
class Name:
    """A span's, counter's or mark's name; a0 and a1 name its arguments ("" where it has none)."""

    text: str
    a0: str = ""
    a1: str = ""
    stage: bool = False
    faults: bool = False


@dataclass(frozen=True, slots=True)
class Track:
    """Something that does one thing at a time: a thread, a stream; or a bundle of overlapping async spans."""

    id: int
    kind: str  # "thread" | "async" | "probe" | "gpu"
    label: str
    tid: int = 0  # of "gpu": the device


@dataclass(slots=True)
class Session:
    """One traced process. `anchors` are (monotonic_ns, realtime_ns) pairs; names and tracks only grow."""

    pid: int = 0
    name: str = ""
    started_ns: int = 0
    meta: dict[str, str] = field(default_factory=dict)
    names: list[Name] = field(default_factory=lambda: [Name("")])
    tracks: dict[int, Track] = field(default_factory=dict)
    anchors: list[tuple[int, int]] = field(default_factory=list)

    def copy(self) -> "Session":
        """A session whose containers are its own."""
        return Session(
            self.pid,
            self.name,
            self.started_ns,
            dict(self.meta),
            list(self.names),
            dict(self.tracks),
            list(self.anchors),
        )

    def realtime_ns(self, monotonic_ns: int) -> int | None:
        """The wall clock at a moment, from the nearest anchor; None where there is no anchor."""
        if not self.anchors:
            return None
        monotonic, realtime = min(self.anchors, key=lambda pair: abs(pair[0] - monotonic_ns))
        return realtime + monotonic_ns - monotonic


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Rows of one track and depth. Where it is known without a look at them: which `names` and `kinds` occur,
    and all their `flags` together.
    """

    track: int
    depth: int
    columns: Columns
    names: tuple[int, ...] | None = None
    kinds: tuple[int, ...] | None = None
    flags: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """What a source had to say since it was last asked.

    `columns` are new records in order of arrival; `open` are all spans open now and replaces what was open
    before; `lost` counts all records lost so far; `problems` are sentences for the screen. A saved trace
    comes as `runs` instead of columns. `rings` says how far each ring was read: what `RingSource.position`
    says, by the ring's session id.
    """

    session: Session
    columns: Columns
    open: Columns
    lost: int
    now_ns: int
    ended: bool = False
    strings: dict[int, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    runs: tuple[Run, ...] = ()
    rings: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanRecord:
    """One record as plain values. `lane` is a key of stages; a0 and a1 are floats where they were."""

    start_ns: int
    end_ns: int
    kind: int
    flags: int
    depth: int
    track: int
    name: str
    name_id: int
    id: int
    parent: int
    corr: int
    a0: int | float
    a1: int | float
    a0_name: str
    a1_name: str
    minflt: int
    majflt: int
    seq: int
    lane: str
    stage: bool

    @property
    def duration_ns(self) -> int:
        """Length; of an open span, up to when it was last seen open."""
        return self.end_ns - self.start_ns

    @property
    def is_open(self) -> bool:
        """True while no end is known."""
        return bool(self.flags & FLAG_OPEN)

    @property
    def failed(self) -> bool:
        """True when an exception left the span."""
        return bool(self.flags & FLAG_ERR)

    @property
    def has_faults(self) -> bool:
        """True when minflt and majflt were measured; else they are 0 for want of knowing."""
        return bool(self.flags & FLAG_FAULTS)

    def arguments(self) -> list[tuple[str, int | float]]:
        """The named arguments with their values."""
        pairs = ((self.a0_name, self.a0), (self.a1_name, self.a1))
        return [(name, value) for name, value in pairs if name]


def span_record(session: Session, columns: Columns, i: int, lane: str) -> SpanRecord:
    """Row `i` of columns as one value. Raises IndexError when there is no such row."""
    if i < 0:
        i += len(columns)
    if not 0 <= i < len(columns):
        raise IndexError(f"no row {i} of {len(columns)}")
    row = columns.row(i)
    number = row.pop("name")
    name = session.names[number] if number < len(session.names) else Name(f"<name {number}>")
    flags = row["flags"]
    if flags & FLAG_F64:
        row["a0"] = np.int64(row["a0"]).view(np.float64).item()
    if flags & FLAG_F64_A1:
        row["a1"] = np.int64(row["a1"]).view(np.float64).item()
    return SpanRecord(
        name=name.text,
        name_id=number,
        a0_name=name.a0,
        a1_name=name.a1,
        lane=lane,
        stage=name.stage,
        **row,
    )


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
