"""A live (or crashed) process's ring as batches, and the list of rings on this machine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top.columns import Packed
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

LOOK_NS = 1_000_000_000
"""How often to look whether the file still has its name while nothing comes."""
FROM_START: dict[str, Any] = {"slots": {}, "tracks": [], "async": [0], "lost": 0}
"""The `resume` of who reads from the owner's first record on: what was overwritten before the first poll is
lost, not older than the reader.
"""
AHEAD_NS = 1_000_000_000
"""Records that end later than this after now were not written by this machine's clock."""

# What lies where in a record, counted in words of 64 and of 32 bits.
_FIELDS = {name: offset for name, offset, _ in layout.RECORD}
_LONG = [_FIELDS[name] // 8 for name in ("t0", "t1", "a0", "a1")]
_NAME, _ID, _PARENT, _TOLD, _MINFLT, _MAJFLT, _CORR = (
    _FIELDS[name] // 4 for name in ("name", "id", "parent", "kind", "minflt", "majflt", "corr")
)
"""`told` is kind, depth and track in one word, from the lowest byte on."""

_TRACK_FLAGS = (
    (layout.TRACK_F64, FLAG_F64),
    (layout.TRACK_TEXT, FLAG_TEXT),
    (layout.TRACK_FAULTS, FLAG_FAULTS),
    (layout.TRACK_UNBALANCED, FLAG_UNBALANCED),
    (layout.TRACK_F64_A1, FLAG_F64_A1),
)
_FLAGS = np.array(
    [sum(ours for theirs, ours in _TRACK_FLAGS if bits << 11 & theirs) for bits in range(32)], np.uint32
)
"""By the upper five bits of a record's track: all flags but FLAG_ERR, which is the kind's upper bit."""
assert FLAG_ERR == 1 and layout.KIND_ERR == 0x80
_OPEN_FLAGS = np.array([0, FLAG_F64_A1, FLAG_F64, FLAG_F64 | FLAG_F64_A1], np.uint32)
"""By the upper two bits of an open span's name."""
assert layout.OPEN_F64_A1 == 1 << 30 and layout.OPEN_F64 == 1 << 31


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
        self._session = Session(
            pid=self.ring.pid, name=_job_name({}), started_ns=self.ring.opened_ns, names=[]
        )
        self._tracks: dict[tuple[int, int], int] = {}  # by slot and generation
        self._gpu = GpuTracks(self._session.tracks, self._numbers.next)
        self._async_track = 0
        self._async_ends: list[int] = []
        self._seq = 0
        self._last_ns = self.ring.opened_ns
        self._impossible = 0
        self._lost = self._lost_before = 0
        self._read: tuple[list[tuple[reader.Thread, reader.Rows]], bool] | None = None
        self._open = Columns.empty()
        self._said: tuple[str, ...] = ()
        self._rings: dict[str, dict[str, Any]] = {}
        self._look_ns = 0
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
        """New records, and all spans open now (the same object as before where nothing opened or closed:
        they are open still); `ended` once the owner is gone and everything was read.
        """
        now = self._clock()
        try:
            poll = self.ring.poll()
        except reader.RingError as error:
            raise RingError(str(error)) from None
        open_tracks = [self._track(thread) for thread, _ in poll.open]  # before what those launched
        new = self._columns(poll.records, now) if poll.records else Columns.empty()
        if len(new):
            self._last_ns = max(self._last_ns, int(new.end_ns.max()))
        if poll.alive:  # what was written since the clock was read may end after it
            self._last_ns = max(self._last_ns, now)
        before, self._read = self._read, (poll.open, poll.alive)
        if before is None or before[0] is not poll.open or not poll.alive:
            # A dead owner's spans were last open when it was last seen alive or wrote its last record.
            self._open = _open([rows for _, rows in poll.open], open_tracks, self._last_ns)
        self._learn()
        self._lost = poll.lost + self._lost_before
        if poll.records or before is None or before[1] != poll.alive or now >= self._look_ns:
            self._look_ns = now + LOOK_NS
            self._said = self._problems(poll)
            self._rings = {self.ring.uuid: self.position()}
        return Batch(
            session=self._session,
            columns=new,
            open=self._open,
            lost=self._lost,
            now_ns=now if poll.alive else self._last_ns,
            ended=not poll.alive,
            problems=self._said,
            rings=self._rings,
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
        if len(session.names) != len(self.ring.names):
            session.names.extend(
                Name(readable(name.text), name.a0, name.a1, name.stage, name.faults)
                for name in self.ring.names[len(session.names) :]
            )
        session.anchors = self.ring.anchors
        if session.meta is not self.ring.meta:
            session.meta = self.ring.meta
            session.name = _job_name(session.meta)

    def _problems(self, poll: reader.Poll) -> tuple[str, ...]:
        problems = list(self.ring.problems)
        if "gpu.problem" in self.ring.meta and "gpu.times" not in self.ring.meta:
            problems.append(self.ring.meta["gpu.problem"])
        if "h2d.problem" in self.ring.meta:
            problems.append(self.ring.meta["h2d.problem"])
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
        self._gpu.launches(thread.slot, track)
        return track

    def _columns(self, records: Sequence[tuple[reader.Thread, reader.Rows]], now: int) -> Columns:
        """The records of all threads, in columns."""
        tracks = np.array([self._track(thread) for thread, _ in records], np.uint64)
        words = [rows.view(np.uint64).reshape(len(rows), -1) for _, rows in records]
        track = tracks.repeat([len(rows) for rows in words])
        words64 = words[0] if len(words) == 1 else np.concatenate(words)
        start, end = words64[:, 0].view(np.int64), words64[:, 1].view(np.int64)
        possible = (start >= 0) & (start <= end) & (end <= now + AHEAD_NS)
        if not possible.all():
            self._impossible += len(track) - int(np.count_nonzero(possible))
            words64, track = words64[possible], track[possible]
        count = len(track)
        made = Packed.zeros(count)
        words32 = words64.view(np.uint32)
        made.block[:4] = words64.T[_LONG].view(np.int64)  # start_ns, end_ns, a0, a1
        made.track[:] = track
        made.name[:] = words32[:, _NAME]
        made.corr[:] = words32[:, _CORR]
        made.minflt[:] = words32[:, _MINFLT]
        made.majflt[:] = words32[:, _MAJFLT]
        made.id[:] = _unique(track, words32[:, _ID])
        made.parent[:] = _unique(track, words32[:, _PARENT])
        made.seq[:] = np.arange(self._seq, self._seq + count, dtype=np.uint64)
        self._seq += count
        told = words32[:, _TOLD]
        kind = told & layout.KIND_MASK
        flags = _FLAGS[told >> 27] | (told >> 7 & 1)
        made.told[:] = kind | flags << 8 | (told & 0xFF00) << 8
        self._gpu.place(made, told >> np.uint32(16))
        overlapping = (kind == KIND_ASYNC).nonzero()[0]
        if len(overlapping):
            self._place(made, overlapping)
        return made

    def _place(self, made: Columns, which: NDArray[np.intp]) -> None:
        """Put asynchronous spans on a track of their own, each at the first depth where it overlaps nothing.

        They come in order of their ends, so a depth is free when its last span ended before this one began.
        """
        if not self._async_track:
            self._async_track = self._numbers.next()
        if self._async_track not in self._session.tracks:
            self._session.tracks[self._async_track] = Track(self._async_track, "async", "async")
        ends = self._async_ends
        for i in which.tolist():
            start = int(made.start_ns[i])
            depth = next((d for d, end in enumerate(ends) if end <= start), len(ends))
            if depth == len(ends) and depth < 255:
                ends.append(0)
            depth = min(depth, 254)
            ends[depth] = max(ends[depth], int(made.end_ns[i]))
            made.depth[i] = depth
        made.track[which] = self._async_track


def _open(stacks: Sequence[reader.Rows], tracks: Sequence[int], now: int) -> Columns:
    """The open spans of all threads, in columns."""
    if not stacks:
        return Columns.empty()
    rows = stacks[0] if len(stacks) == 1 else np.concatenate(stacks)
    depths = [np.arange(len(stack)) for stack in stacks]
    depth = depths[0] if len(depths) == 1 else np.concatenate(depths)
    track = np.array(tracks, np.uint64).repeat([len(stack) for stack in stacks])
    made = Packed.zeros(len(rows))
    name = rows["name"]
    made.start_ns[:] = rows["t0"]
    np.maximum(made.start_ns, now, out=made.end_ns)
    made.a0[:], made.a1[:] = rows["a0"], rows["a1"]
    made.track[:] = track
    made.name[:] = name & layout.OPEN_NAME_MASK
    made.told[:] = KIND_SPAN | (FLAG_OPEN | _OPEN_FLAGS[name >> 30]) << 8 | depth << 16
    number = _unique(track, rows["id"])
    made.id[:] = number
    made.parent[1:] = number[:-1]
    made.parent[depth == 0] = 0
    return made


def _unique(track: NDArray[np.uint64], number: NDArray[np.uint32]) -> NDArray[np.uint64]:
    """The numbers that slots gave spans made unique in the session; 0 stays 0."""
    whole: NDArray[np.uint64] = (track << np.uint64(32) | number) * (number != 0)
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
        from cuzk_top import provers  # noqa: PLC0415 (only to say why)

        hidden = provers.hidden()
        raise RingError(f"{error}; {hidden}" if hidden else str(error)) from None
