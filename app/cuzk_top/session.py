"""What a source tells of a traced process: names and tracks, what is new, and one record as plain values."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuzk_top.columns import (
    FLAG_ERR,
    FLAG_F64,
    FLAG_F64_A1,
    FLAG_FAULTS,
    FLAG_OPEN,
    Columns,
)


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
