"""Small traces made span by span, through the real store. Times are in microseconds from `ZERO`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cuzk_top import stalls
from cuzk_top.model import (
    BUSY_NAME,
    FLAG_F64,
    FLAG_FAULTS,
    FLAG_OPEN,
    KIND_ASYNC,
    KIND_COUNTER,
    KIND_FLOW,
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_GPU_MEMSET,
    KIND_GPU_SYNC,
    KIND_INSTANT,
    KIND_SPAN,
    NO_DEVICE,
    Batch,
    Columns,
    Name,
    Session,
    Snapshot,
    Track,
)
from cuzk_top.stalls.finding import Analysis, Finding
from cuzk_top.stalls.limits import DEFAULTS, Limits
from cuzk_top.store import Store

US = 1_000
ZERO = 5_000_000_000
ASYNC, DRIVER, PROBE, STREAM = 90, 91, 92, 100
Row = dict[str, int]


@dataclass
class Trace:
    """Rows in the making. Every method gives the id or number of what it added."""

    rows: list[Row] = field(default_factory=list)
    texts: dict[str, int] = field(default_factory=lambda: {"": 0, BUSY_NAME: 1})
    arguments: dict[str, tuple[str, str]] = field(default_factory=dict)
    meta: dict[str, str] = field(default_factory=dict)
    tracks: dict[int, Track] = field(default_factory=dict)
    lost: int = 0
    calls: int = 0

    def _name(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def _add(self, kind: int, name: str, start: float, end: float, **more: int) -> int:
        number = len(self.rows) + 1
        row = {"kind": kind, "name": self._name(name), "seq": number} | more
        self.rows.append(row | {"start_ns": ZERO + round(start * US), "end_ns": ZERO + round(end * US)})
        return number

    def span(
        self,
        name: str,
        start: float,
        end: float | None,
        thread: int = 1,
        *,
        a0: int = 0,
        faults: int | None = None,
        major: int = 0,
        parent: int = 0,
    ) -> int:
        """A span of a thread; its depth follows from the times, and its parent if none is given."""
        self.tracks.setdefault(thread, Track(thread, "thread", f"thread {thread}", 1000 + thread))
        flags = (FLAG_OPEN if end is None else 0) | (FLAG_FAULTS if faults is not None else 0)
        number = self._add(
            KIND_SPAN, name, start, 1e15 if end is None else end, track=thread, flags=flags, a0=a0,
            minflt=faults or 0, majflt=major, parent=parent,
        )  # fmt: skip
        self.rows[-1]["id"] = thread << 32 | number
        return thread << 32 | number

    def job(self, name: str, start: float, end: float, parent: int = 0) -> int:
        """An async span, which no thread runs."""
        self.tracks.setdefault(ASYNC, Track(ASYNC, "async", "async", 0))
        number = self._add(KIND_ASYNC, name, start, end, track=ASYNC, parent=parent)
        self.rows[-1]["id"] = ASYNC << 32 | number
        return ASYNC << 32 | number

    def work(
        self, name: str, start: float, end: float, parent: int = 0, *, stream: int = 0, device: int = 0,
        size: int = 0, corr: int | None = None,
    ) -> int:  # fmt: skip
        """A kernel, or by its name a copy or fill; calls are numbered in the order they are made here."""
        track = STREAM + 10 * device + stream
        self.tracks.setdefault(track, Track(track, "gpu", f"GPU{device} stream {stream}", device))
        kind = KIND_GPU_MEMCPY if name.startswith("memcpy") else KIND_GPU_KERNEL
        kind = KIND_GPU_MEMSET if name == "memset" else kind
        self.calls += 1
        call = self.calls if corr is None else corr
        return self._add(kind, name, start, end, track=track, parent=parent, a0=size, corr=call)

    def sync(self, start: float, end: float, kind: str = "stream") -> int:
        """The host waits for a device."""
        self.tracks.setdefault(DRIVER, Track(DRIVER, "gpu", "driver", NO_DEVICE))
        self.calls += 1
        return self._add(KIND_GPU_SYNC, f"sync.{kind}", start, end, track=DRIVER, corr=self.calls)

    def counter(self, key: str, *samples: tuple[float, float, float]) -> None:
        """Samples as (start, end, value)."""
        self.tracks.setdefault(PROBE, Track(PROBE, "probe", "probe", 0))
        for start, end, value in samples:
            bits = int(np.float64(value).view(np.int64))
            self._add(KIND_COUNTER, key, start, end, track=PROBE, flags=FLAG_F64, a0=bits)

    def mark(self, t: float, text: str) -> None:
        """An instant."""
        self._add(KIND_INSTANT, text, t, t, track=PROBE)

    def flow(self, number: int, t: float, thread: int, *, arrives: bool) -> None:
        """One end of an arrow between threads."""
        self._add(KIND_FLOW, "flow", t, t, track=thread, corr=number, a0=int(arrives))

    def snapshot(self, now: float, *, ended: bool = True) -> Snapshot:
        """As the store has it at a moment."""
        at = ZERO + round(now * US)
        for row in self.rows:
            if row.get("flags", 0) & FLAG_OPEN:
                row["end_ns"] = at
        self._nest()
        names = [
            Name(text, *self.arguments.get(text, ("", "")), stage=True, faults=True) for text in self.texts
        ]
        session = Session(7, "made", ZERO, self.meta, names, self.tracks)
        opened = [row for row in self.rows if row.get("flags", 0) & FLAG_OPEN]
        closed = sorted((row for row in self.rows if row not in opened), key=lambda row: row["end_ns"])
        store = Store()
        store.append(Batch(session, _columns(closed), _columns(opened), self.lost, at, ended))
        return store.snapshot()

    def _nest(self) -> None:
        threads = {track for track, of in self.tracks.items() if of.kind == "thread"}
        for thread in threads:
            spans = [row for row in self.rows if row.get("track") == thread and row["kind"] == KIND_SPAN]
            stack: list[Row] = []
            for row in sorted(spans, key=lambda row: (row["start_ns"], -row["end_ns"], row["seq"])):
                while stack and stack[-1]["end_ns"] <= row["start_ns"]:
                    stack.pop()
                row["depth"] = len(stack)
                row["parent"] = row["parent"] or (stack[-1]["id"] if stack else 0)
                stack.append(row)

    def analyse(
        self,
        now: float,
        window: tuple[float, float] | None = None,
        *,
        ended: bool = True,
        limits: Limits = DEFAULTS,
    ) -> Analysis:
        """What is said about it."""
        low_high = (ns(window[0]), ns(window[1])) if window else None
        return stalls.analyse(self.snapshot(now, ended=ended), low_high, limits)


def ns(t: float) -> int:
    """A moment in ns."""
    return ZERO + round(t * US)


def _columns(rows: list[Row]) -> Columns:
    keys: set[str] = {key for row in rows for key in row}
    made: dict[str, Any] = {key: np.array([row.get(key, 0) for row in rows]) for key in keys}
    return Columns.make(len(rows), **made)


def rules(of: Analysis) -> list[str]:
    """Rules of the ranked findings, best first."""
    return [finding.rule for finding in of.findings if finding.ranked]


def the(of: Analysis, rule: str, about: str = "") -> Finding:
    """The only finding of a rule whose key says this, wherever it hangs; unranked ones apart."""
    every = [one for top in of.findings for one in (top, *top.causes)]
    found = [finding for finding in every if finding.rule == rule and finding.ranked and about in finding.key]
    assert len(found) == 1, [(finding.rule, finding.key) for finding in every]
    return found[0]


def silent(of: Analysis, rule: str) -> bool:
    """Whether a rule says nothing that is ranked."""
    every = [one for top in of.findings for one in (top, *top.causes)]
    return not any(finding.rule == rule and finding.ranked for finding in every)


def spots(finding: Finding) -> list[tuple[float, float]]:
    """A finding's intervals in microseconds."""
    return [((start - ZERO) / US, (end - ZERO) / US) for start, end in finding.intervals]
