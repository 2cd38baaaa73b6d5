"""A live (or crashed) process's ring as batches, and the list of rings on this machine."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top.demangle import readable
from cuzk_top.errors import RingError
from cuzk_top.model import (
    FLAG_ERR,
    FLAG_F64,
    FLAG_F64_A1,
    FLAG_FAULTS,
    FLAG_OPEN,
    FLAG_TEXT,
    FLAG_UNBALANCED,
    KIND_ASYNC,
    KIND_SPAN,
    Batch,
    Columns,
    Name,
    Session,
    Track,
)
from cuzk_top.sources.gpu_records import GpuTracks
from cuzk_tracer import layout, places, reader
from cuzk_tracer.sweep import sweep

Clock = Callable[[], int]

AHEAD_NS = 1_000_000_000
"""Records that end later than this after now were not written by this machine's clock."""

_TRACK_FLAGS = (
    (layout.TRACK_F64, FLAG_F64),
    (layout.TRACK_TEXT, FLAG_TEXT),
    (layout.TRACK_FAULTS, FLAG_FAULTS),
    (layout.TRACK_UNBALANCED, FLAG_UNBALANCED),
    (layout.TRACK_F64_A1, FLAG_F64_A1),
)


class Numbers:
    """Gives out numbers, from 1: rings of one session take their tracks' from the same."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        """One that nobody has."""
        self.last += 1
        return self.last


class RingSource:
    """Batches of one ring. `clock` is CLOCK_MONOTONIC in ns. Raises RingError when the file is not usable.

    `tracks` numbers the ring's tracks; `resume` is what `position` said of the same ring to an earlier
    reader: records up to there do not come again, and tracks keep their numbers.
    """

    def __init__(
        self,
        path: str | Path,
        clock: Clock,
        tracks: Numbers | None = None,
        resume: dict[str, Any] | None = None,
    ) -> None:
        try:
            self.ring = reader.Ring(path)
        except reader.RingError as error:
            raise RingError(str(error)) from None
        self._clock = clock
        self._numbers = tracks or Numbers()
        self._session = Session(pid=self.ring.pid, started_ns=self.ring.opened_ns, names=[])
        self._tracks: dict[tuple[int, int], int] = {}  # by slot and generation
        self._slots: dict[int, int] = {}  # the track that a slot's thread has now
        self._gpu = GpuTracks(self._session.tracks, self._numbers.next)
        self._async_track = 0
        self._async_ends: list[int] = []
        self._seq = 0
        self._last_ns = self.ring.opened_ns
        self._impossible = 0
        self._lost = self._lost_before = 0
        if resume is not None:
            self._resume(resume)

    def position(self) -> dict[str, Any]:
        """How far this ring was read and which track is whose, as JSON can hold it."""
        return {
            "slots": {str(slot): index for slot, index in self.ring.position().items()},
            "tracks": [[slot, generation, track] for (slot, generation), track in self._tracks.items()],
            "async": [self._async_track, *self._async_ends],
            "gpu": self._gpu.position(),
            "lost": self._lost,
        }

    def _resume(self, position: dict[str, Any]) -> None:
        try:
            self.ring.resume({int(slot): int(index) for slot, index in position["slots"].items()})
            for slot, generation, track in position["tracks"]:
                self._tracks[int(slot), int(generation)] = int(track)
            self._async_track, *self._async_ends = map(int, position["async"])
            self._gpu.resume(position.get("gpu", []))
            self._lost_before = int(position["lost"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RingError(f"{self.ring.path}: the recording says wrongly how far it was read") from error

    def poll(self) -> Batch:
        """New records, and all spans open now; `ended` once the owner is gone and everything was read."""
        now = self._clock()
        try:
            poll = self.ring.poll()
        except reader.RingError as error:
            raise RingError(str(error)) from None
        for thread, _ in poll.open:
            self._track(thread)  # known before the records of what it launched
        parts = [self._columns(self._track(thread), rows, now) for thread, rows in poll.records]
        columns = Columns.concat([part for part in parts if len(part)])
        if len(columns):
            self._last_ns = max(self._last_ns, int(columns.end_ns.max()))
        if poll.alive:  # what was written since the clock was read may end after it
            self._last_ns = max(self._last_ns, now)
        # A dead owner's spans were last open when it was last seen alive or wrote its last record.
        open_ = [self._open(self._track(thread), rows, self._last_ns) for thread, rows in poll.open]
        self._learn()
        self._lost = poll.lost + self._lost_before
        return Batch(
            session=self._session,
            columns=columns,
            open=Columns.concat(open_),
            lost=self._lost,
            now_ns=now if poll.alive else self._last_ns,
            ended=not poll.alive,
            problems=self._problems(poll),
            rings={self.ring.uuid: self.position()},
        )

    def close(self) -> None:
        """Close the ring file."""
        self.ring.close()

    def discard(self) -> None:
        """Remove the ring of a dead owner: everything in it was recorded elsewhere."""
        if not self.ring.alive():
            Path(self.ring.path).unlink(missing_ok=True)

    def _learn(self) -> None:
        session = self._session
        session.names.extend(
            Name(readable(name.text), name.a0, name.a1, name.stage, name.faults)
            for name in self.ring.names[len(session.names) :]
        )
        session.meta = self.ring.meta
        session.anchors = self.ring.anchors
        session.name = _job_name(session.meta)

    def _problems(self, poll: reader.Poll) -> tuple[str, ...]:
        problems = list(self.ring.problems)
        if "gpu.problem" in self.ring.meta and "gpu.times" not in self.ring.meta:
            problems.append(self.ring.meta["gpu.problem"])
        if poll.skipped:
            problems.append(f"{poll.skipped:,} records are older than this viewer and no longer in the ring")
        if self._impossible:
            problems.append(f"{self._impossible:,} records with impossible times were left out")
        if not self.ring.ended_ns and self.ring.replaced():
            problems.append("the process replaced its program (exec); what it had not handed over is lost")
        elif not poll.alive and not self.ring.ended_ns:
            problems.append("the process was killed or crashed; its last records and open spans are kept")
        return tuple(problems)

    def _track(self, thread: reader.Thread) -> int:
        track = self._tracks.get((thread.slot, thread.generation))
        if track is None:
            track = self._tracks[thread.slot, thread.generation] = self._numbers.next()
        if track not in self._session.tracks:
            label = thread.name or f"thread {thread.tid}"
            self._session.tracks[track] = Track(track, "thread", label, thread.tid)
        self._slots[thread.slot] = track
        return track

    def _columns(self, track: int, rows: reader.Rows, now: int) -> Columns:
        start, end = rows["t0"].astype(np.int64), rows["t1"].astype(np.int64)
        possible = (start >= 0) & (start <= end) & (end <= now + AHEAD_NS)
        if not possible.all():
            self._impossible += len(rows) - int(possible.sum())
            rows, start, end = rows[possible], start[possible], end[possible]
        bits = rows["track"]
        flags = np.where(rows["kind"] & layout.KIND_ERR, FLAG_ERR, 0).astype(np.uint8)
        for theirs, ours in _TRACK_FLAGS:
            flags |= np.where(bits & theirs, ours, 0).astype(np.uint8)
        kind = (rows["kind"] & layout.KIND_MASK).astype(np.uint8)
        count = len(rows)
        columns = Columns(
            start_ns=start,
            end_ns=end,
            kind=kind,
            flags=flags,
            depth=rows["depth"].copy(),
            track=np.full(count, track, np.uint32),
            name=rows["name"].copy(),
            id=_unique(track, rows["id"]),
            parent=_unique(track, rows["parent"]),
            corr=rows["corr"].copy(),
            a0=rows["a0"].copy(),
            a1=rows["a1"].copy(),
            minflt=rows["minflt"].copy(),
            majflt=rows["majflt"].copy(),
            seq=np.arange(self._seq, self._seq + count, dtype=np.uint64),
        )
        columns = self._gpu.place(columns, rows, self._slots)
        self._seq += count
        overlapping = np.flatnonzero(kind == KIND_ASYNC)
        if len(overlapping):
            self._place(columns, overlapping)
        return columns

    def _place(self, columns: Columns, which: NDArray[np.intp]) -> None:
        """Put asynchronous spans on a track of their own, each at the first depth where it overlaps nothing.

        They come in order of their ends, so a depth is free when its last span ended before this one began.
        """
        if not self._async_track:
            self._async_track = self._numbers.next()
        if self._async_track not in self._session.tracks:
            self._session.tracks[self._async_track] = Track(self._async_track, "async", "async")
        ends = self._async_ends
        for i in which.tolist():
            start = int(columns.start_ns[i])
            depth = next((d for d, end in enumerate(ends) if end <= start), len(ends))
            if depth == len(ends) and depth < 255:
                ends.append(0)
            depth = min(depth, 254)
            ends[depth] = max(ends[depth], int(columns.end_ns[i]))
            columns.depth[i] = depth
            columns.track[i] = self._async_track

    def _open(self, track: int, rows: reader.Rows, now: int) -> Columns:
        name = rows["name"]
        flags = np.full(len(rows), FLAG_OPEN, np.uint8)
        flags |= np.where(name & layout.OPEN_F64, FLAG_F64, 0).astype(np.uint8)
        flags |= np.where(name & layout.OPEN_F64_A1, FLAG_F64_A1, 0).astype(np.uint8)
        start = rows["t0"].astype(np.int64)
        number = _unique(track, rows["id"])
        return Columns.make(
            len(rows),
            start_ns=start,
            end_ns=np.maximum(start, now),
            kind=KIND_SPAN,
            flags=flags,
            depth=np.arange(len(rows)),
            track=track,
            name=name & layout.OPEN_NAME_MASK,
            id=number,
            parent=np.concatenate([np.zeros(min(1, len(rows)), np.uint64), number[:-1]]),
            a0=rows["a0"],
            a1=rows["a1"],
        )


def _unique(track: int, number: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """A slot's span numbers made unique in the session; 0 stays 0."""
    whole: NDArray[np.uint64] = np.where(
        number == 0, np.uint64(0), np.uint64(track << 32) | number.astype(np.uint64)
    )
    return whole


def _job_name(meta: dict[str, str]) -> str:
    """What to call a session: its job, else the program."""
    if "job" in meta:
        return meta["job"]
    words = meta.get("command", "").split(" ")
    return Path(words[0]).name or "?"


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of the list of traced processes. `rate` is records a second since the list was last made."""

    path: str
    pid: int
    name: str
    age_s: float
    spans: int
    rate: float | None
    alive: bool


class SessionList:
    """The traced processes of this user, in all ring folders and in other mount namespaces."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._before: dict[str, tuple[int, int]] = {}

    def refresh(self) -> list[SessionInfo]:
        """All rings that can be read: live ones first, then newest first. Other files are skipped."""
        found = []
        now = self._clock()
        before, self._before = self._before, {}
        for path in (*map(str, ring_files()), *reader.in_other_namespaces()):
            try:
                with reader.Ring(path) as ring:
                    ring.poll()
                    spans = ring.written()
                    then = before.get(path)
                    self._before[path] = (now, spans)
                    rate = (spans - then[1]) * 1e9 / (now - then[0]) if then and now > then[0] else None
                    age = max(0.0, (now - ring.opened_ns) / 1e9)
                    name = _job_name(ring.meta)
                    found.append(SessionInfo(path, ring.pid, name, age, spans, rate, ring.alive()))
            except reader.RingError:
                continue
        return sorted(found, key=lambda info: (not info.alive, info.age_s))


def ring_files() -> list[Path]:
    """Ring files in every ring folder."""
    return [path for folder in places.folders() for path in sorted(Path(folder).glob("*.ring"))]


def remove_stale(now_s: float, week_s: float = 7 * 86_400) -> None:
    """Remove rings nobody will ask for again: as the tracer does, and crashed ones after a week.

    `now_s` is the wall clock in seconds since the epoch.
    """
    for folder in places.folders():
        sweep(folder)
    for path in ring_files():
        try:
            if path.stat().st_mtime + week_s < now_s:
                with reader.Ring(path) as ring:
                    if not ring.alive():
                        path.unlink(missing_ok=True)
        except (OSError, reader.RingError):
            continue


def find(pid: int) -> str:
    """Path of a process's ring. Raises RingError when it has none."""
    try:
        return reader.find(pid)
    except reader.RingError as error:
        raise RingError(str(error)) from None
