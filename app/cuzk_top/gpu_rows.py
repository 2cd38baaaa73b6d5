"""The store's rows of GPUs: each record's lane, streams merged into few rows, and when a device was busy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top import stagemap, stages
from cuzk_top.devicetime import Covered, Device, Int64s, Intervals
from cuzk_top.lazy import LazyColumns
from cuzk_top.model import (
    BUSY_NAME,
    COLUMN_TYPES,
    DEVICE_KINDS,
    FLAG_F64,
    FLAG_F64_A1,
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_GPU_SYNC,
    KIND_OVERHEAD,
    NO_DEVICE,
    Columns,
    Name,
    Session,
)

MOST_DEPTHS = 8
"""Spans that overlap more than this many others of their lane go where the store finds room."""

IS_GPU = np.zeros(256, dtype=bool)
IS_GPU[[*DEVICE_KINDS, KIND_GPU_SYNC, KIND_OVERHEAD]] = True
_ON_DEVICE = np.zeros(256, dtype=bool)
_ON_DEVICE[list(DEVICE_KINDS)] = True

MOST_TRACKS = 1 << 16
"""Numbers of tracks beyond this are those of damaged traces."""
MANY, HELD_BACK = 10_000, 64
_OTHER = stages.gpu_place(0, "other")
_FLOATING = {"a0": FLAG_F64, "a1": FLAG_F64_A1}
_IDLE_AND_BUSY = np.array([0.0, 100.0])

DEVICE_ARGUMENTS = ("device", "gpu")
"""Names of an argument that says which device a span is about."""

COPY_LANES = (("memcpy.h2d", "h2d"), ("memcpy.d2h", "d2h"))


class GpuRows:
    """What is known of a session's GPUs. Raises InputError when the user's stage map is wrong."""

    def __init__(self, stage_map: stagemap.StageMap | None = None) -> None:
        self._map = stage_map or stagemap.load()
        self._lanes: list[str] = []
        self._places: NDArray[np.int64] = np.array([_OTHER], np.int64)
        """Place on the first GPU by the number of a kernel's or copy's name; the last is of all others."""
        self._busy_name = 0
        self._devices: NDArray[np.int64] = np.zeros(1, np.int64)
        """Device by the number of a track."""
        self._tracks = 0
        self._kernels: dict[int, Intervals] = {}
        self._work: dict[int, Intervals] = {}
        self._shown: dict[int, Int64s] = {}
        self._charted: dict[int, int] = {}
        self._taken_back: dict[int, int] = {}
        self._claim_names: dict[int, tuple[str | None, int]] = {}
        self._held: dict[int, Intervals] = {}
        self._held_now: dict[int, list[tuple[int, int]]] = {}

    def places(self, session: Session, columns: Columns) -> NDArray[np.int64]:
        """Place of the lane of each record, all of which are of IS_GPU kinds."""
        self._learn(session)
        kind = columns.kind
        places = self._places.take(columns.name, mode="clip")
        places += self.devices_of(session, columns.track) * stages.GPU_STEP
        places[kind == KIND_GPU_SYNC] = stages.ORDER["waits"]
        places[kind == KIND_OVERHEAD] = stages.ORDER["overhead"]
        return places

    def _learn(self, session: Session) -> None:
        known = len(self._lanes)
        new = [name.text for name in session.names[known:]]
        if not new:
            return
        self._map.see(new)
        self._lanes.extend(self._lane(text) for text in new)
        places = [stages.gpu_place(0, lane) for lane in self._lanes[known:]]
        self._places = np.array([*self._places[:-1].tolist(), *places, _OTHER], np.int64)
        if not self._busy_name and BUSY_NAME in new:
            self._busy_name = known + new.index(BUSY_NAME)

    def _lane(self, name: str) -> str:
        for prefix, lane in COPY_LANES:
            if name.startswith(prefix):
                return lane
        return self._map.kernel(name).lane

    def devices_of(self, session: Session, tracks: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Device of each track; 0 of those that the session does not know."""
        if self._tracks != len(session.tracks):
            self._tracks = len(session.tracks)
            mine = {number: track.tid for number, track in session.tracks.items() if track.kind == "gpu"}
            known = [number for number in mine if number < MOST_TRACKS]
            self._devices = np.zeros(max(known, default=0) + 2, np.int64)
            for number in known:
                self._devices[number] = mine[number]
        devices: NDArray[np.int64] = self._devices.take(tracks, mode="clip")
        return devices

    def add(self, session: Session, columns: Columns) -> None:
        """Count what the devices did; records in order of their starts."""
        working = _ON_DEVICE[columns.kind]
        start, end, kind, track = columns.start_ns, columns.end_ns, columns.kind, columns.track
        if not working.all():
            start, end, kind, track = start[working], end[working], kind[working], track[working]
        if not len(start):
            return
        device = self.devices_of(session, track)
        of_kernels = kind == KIND_GPU_KERNEL
        for number in set(device.tolist()):
            mine = device == number
            kernel = mine & of_kernels
            kernels = self._kernels.setdefault(number, Intervals())
            late = kernels.add(start[kernel], end[kernel], _hold(kernels))
            charted = self._charted.get(number, 0)
            if late is not None and late < charted:
                self._charted[number] = late
                self._taken_back[number] = self._taken_back.get(number, 0) + charted - late
            work = self._work.setdefault(number, Intervals())
            work.add(start[mine], end[mine], _hold(work))

    def rest(self) -> None:
        """Nothing came this time: what was held back for what might reach back is held no longer."""
        for intervals in (*self._kernels.values(), *self._work.values()):
            intervals.close()

    def claims(self, session: Session, columns: Columns) -> NDArray[np.int64]:
        """Place of the `held` lane of each span of the host that claims a device (stages.HELD_PLACE)."""
        devices = []
        for i, number in enumerate(columns.name.tolist()):
            if number not in self._claim_names:
                self._claim_names[number] = self._claim_name(session.names[number])
            argument, device = self._claim_names[number]
            if argument is not None and not columns.flags[i] & _FLOATING[argument]:
                device = int(getattr(columns, argument)[i])
            devices.append(device if 0 <= device < NO_DEVICE else 0)
        return stages.gpu_place(0, stages.HELD) + stages.GPU_STEP * np.array(devices, np.int64)

    def _claim_name(self, name: Name) -> tuple[str | None, int]:
        """Which argument of a claim's name tells the device, and which device it is where none does."""
        for argument, told in (("a0", name.a0), ("a1", name.a1)):
            if told in DEVICE_ARGUMENTS:
                return argument, 0
        place = self._map.range(name.text)
        return None, place.device or 0 if place is not None else 0

    def hold(self, places: Int64s, columns: Columns) -> None:
        """Count claims by the places of their `held` lanes."""
        for place in set(places.tolist()):
            mine = places == place
            held = self._held.setdefault(stages.gpu_device(place), Intervals())
            held.add(columns.start_ns[mine], columns.end_ns[mine])

    def hold_now(self, claims: list[tuple[int, int, int]]) -> None:
        """The claims that are not given back yet: place, start, and when they were last seen so."""
        self._held_now = {}
        for place, start, end in claims:
            self._held_now.setdefault(stages.gpu_device(place), []).append((start, end))

    def newly_busy(self) -> list[tuple[int, Columns]]:
        """Place and spans of each device's `busy` row that has changed; they share the union's memory."""
        made = []
        for number, work in self._work.items():
            start, end = work.closed
            shown = self._shown.get(number)
            if shown is None or len(shown) != len(start) or shown.base is not start.base:
                self._shown[number] = start
                made.append((stages.gpu_place(number, "busy"), self._busy(start, end)))
        return made

    def _busy(self, start: Int64s, end: Int64s) -> Columns:
        told = {"kind": KIND_GPU_KERNEL, "name": self._busy_name}

        def load(column: str, low: int, high: int) -> NDArray[Any]:
            if column in ("start_ns", "end_ns"):
                return (start if column == "start_ns" else end)[low:high]
            value = np.array(told.get(column, 0), COLUMN_TYPES[column])
            return np.broadcast_to(value, high - low)

        start.flags.writeable = end.flags.writeable = False
        return LazyColumns(load, 0, len(start))

    def newly_charted(self) -> list[tuple[str, int, Int64s, Int64s, NDArray[np.float64]]]:
        """Per device: its `kernel` counter, how many of its newest samples no longer hold, and those in their
        place and after them.

        A sample is a stretch with kernels (100 %) or the gap before one (0 %): start, end, value. So the mean
        of any window is exact, however narrow.
        """
        made = []
        for number, kernels in self._kernels.items():
            start, end = kernels.closed
            first = self._charted.get(number, 0)
            back = self._taken_back.pop(number, 0)
            if first == len(start) and not back:
                continue
            gap_start = end[max(0, first - 1) : -1] if first else np.concatenate([start[:1], end[:-1]])
            times = np.stack([gap_start, start[first:], end[first:]], axis=1)
            values = np.tile(_IDLE_AND_BUSY, len(times))
            counter = f"gpu.{number}.kernel"
            made.append((counter, 2 * back, times[:, :2].reshape(-1), times[:, 1:].reshape(-1), values))
            self._charted[number] = len(start)
        return made

    def devices(self) -> tuple[Device, ...]:
        """All devices with records, by number."""
        return tuple(
            Device(
                number, self._kernels[number].covered(), self._work[number].covered(), self._claimed(number)
            )
            for number in sorted(self._work)
        )

    def _claimed(self, device: int) -> Covered | None:
        now = self._held_now.get(device, [])
        known = self._held.get(device)
        return (known or Intervals()).covered(now) if known is not None or now else None

    def size_bytes(self) -> int:
        """Memory that the unions take."""
        tables = (self._kernels, self._work, self._held)
        return sum(one.closed[0].nbytes * 2 for table in tables for one in table.values())

    def forget(self, before_ns: int) -> None:
        """Drop what ended before a moment."""
        for number in self._work:
            self._kernels[number].forget(before_ns)
            self._work[number].forget(before_ns)
            self._charted[number] = len(self._kernels[number].closed[0])
        for held in self._held.values():
            held.forget(before_ns)


def _hold(intervals: Intervals) -> int:
    """How many of the newest intervals to hold back: where closed ones are many, a copy of them is dear, and
    work that reaches back behind a few is common on a GPU with several streams.
    """
    return HELD_BACK if len(intervals.closed[0]) >= MANY else 0


def depths(start: list[int], end: list[int], free: list[int]) -> list[int]:
    """For spans of one lane in order of start, the first depth at which each overlaps nothing; MOST_DEPTHS
    where there is none.

    `free` says from when on each depth is free.
    """
    ends = free[:MOST_DEPTHS]
    found = []
    for begins, stop in zip(start, end, strict=True):
        for depth, until in enumerate(ends):
            if until <= begins:
                ends[depth] = stop
                break
        else:
            depth = len(ends)
            if depth < MOST_DEPTHS:
                ends.append(stop)
        found.append(depth)
    return found


def copies(session: Session, columns: Columns) -> dict[str, int]:
    """Bytes copied, by name of the copy's kind."""
    moved: dict[str, int] = {}
    which = columns.take(columns.kind == KIND_GPU_MEMCPY)
    for number in np.unique(which.name).tolist():
        moved[session.names[number].text] = int(which.a0[which.name == number].sum())
    return moved
