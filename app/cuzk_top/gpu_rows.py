"""The store's rows of GPUs: each record's lane, streams merged into few rows, and when a device was busy."""

import numpy as np
from numpy.typing import NDArray

from cuzk_top import stagemap, stages
from cuzk_top.devicetime import Covered, Device, Intervals
from cuzk_top.model import (
    BUSY_NAME,
    DEVICE_KINDS,
    FLAG_F64,
    FLAG_F64_A1,
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_GPU_SYNC,
    KIND_OVERHEAD,
    NO_DEVICE,
    Columns,
    Session,
)

MOST_DEPTHS = 8
"""Spans that overlap more than this many others of their lane go where the store finds room."""

IS_GPU = np.zeros(256, dtype=bool)
IS_GPU[[*DEVICE_KINDS, KIND_GPU_SYNC, KIND_OVERHEAD]] = True
_ON_DEVICE = np.zeros(256, dtype=bool)
_ON_DEVICE[list(DEVICE_KINDS)] = True

DEVICE_ARGUMENTS = ("device", "gpu")
"""Names of an argument that says which device a span is about."""

COPY_LANES = (("memcpy.h2d", "h2d"), ("memcpy.d2h", "d2h"))


class GpuRows:
    """What is known of a session's GPUs. Raises InputError when the user's stage map is wrong."""

    def __init__(self, stage_map: stagemap.StageMap | None = None) -> None:
        self._map = stage_map or stagemap.load()
        self._lanes: list[str] = []
        self._kernels: dict[int, Intervals] = {}
        self._work: dict[int, Intervals] = {}
        self._shown: dict[int, int] = {}
        self._charted: dict[int, int] = {}
        self._held: dict[int, Intervals] = {}
        self._held_now: dict[int, list[tuple[int, int]]] = {}

    def places(self, session: Session, columns: Columns) -> NDArray[np.int64]:
        """Place of the lane of each record, all of which are of IS_GPU kinds."""
        self._learn(session)
        kind = columns.kind
        table = np.array([stages.gpu_place(0, lane) for lane in (*self._lanes, "other")], np.int64)
        places = table[np.minimum(columns.name, len(table) - 1)]
        device = self.devices_of(session, columns)
        places += device * stages.GPU_STEP
        places[kind == KIND_GPU_SYNC] = stages.ORDER["waits"]
        places[kind == KIND_OVERHEAD] = stages.ORDER["overhead"]
        return places

    def _learn(self, session: Session) -> None:
        new = [name.text for name in session.names[len(self._lanes) :]]
        if new:
            self._map.see(new)
            self._lanes.extend(self._lane(text) for text in new)

    def _lane(self, name: str) -> str:
        for prefix, lane in COPY_LANES:
            if name.startswith(prefix):
                return lane
        return self._map.kernel(name).lane

    @staticmethod
    def devices_of(session: Session, columns: Columns) -> NDArray[np.int64]:
        """Device of each record: its track's."""
        tracks = np.unique(columns.track)
        devices = np.array(
            [track.tid if (track := session.tracks.get(int(t))) is not None else 0 for t in tracks], np.int64
        )
        found: NDArray[np.int64] = devices[np.searchsorted(tracks, columns.track)]
        return found

    def add(self, session: Session, columns: Columns) -> None:
        """Count what the devices did."""
        works = columns.take(_ON_DEVICE[columns.kind])
        device = self.devices_of(session, works)
        for number in np.unique(device).tolist():
            mine = device == number
            start, end = works.start_ns[mine], works.end_ns[mine]
            kernel = works.kind[mine] == KIND_GPU_KERNEL
            if self._kernels.setdefault(number, Intervals()).add(start[kernel], end[kernel]):
                self._charted.pop(number, None)
            if self._work.setdefault(number, Intervals()).add(start, end):
                self._shown.pop(number, None)  # the row of what was busy is to be made anew

    def claims(self, session: Session, columns: Columns) -> NDArray[np.int64]:
        """Place of the `held` lane of each span of the host that claims a device (stages.HELD_PLACE)."""
        devices = np.zeros(len(columns), np.int64)
        for number in np.unique(columns.name).tolist():
            name = session.names[number]
            mine = columns.name == number
            arguments = ((name.a0, columns.a0, FLAG_F64), (name.a1, columns.a1, FLAG_F64_A1))
            for argument, values, floating in arguments:
                if argument in DEVICE_ARGUMENTS:
                    devices[mine] = np.where(columns.flags & floating, 0, values)[mine]
                    break
            else:
                place = self._map.range(name.text)
                devices[mine] = place.device or 0 if place is not None else 0
        devices[(devices < 0) | (devices >= NO_DEVICE)] = 0
        return stages.gpu_place(0, stages.HELD) + stages.GPU_STEP * devices

    def hold(self, place: int, columns: Columns) -> None:
        """Count claims, all of one device: `place` is that of its `held` lane."""
        device = stages.gpu_device(place)
        self._held.setdefault(device, Intervals()).add(columns.start_ns, columns.end_ns)

    def hold_now(self, claims: list[tuple[int, int, int]]) -> None:
        """The claims that are not given back yet: place, start, and when they were last seen so."""
        self._held_now = {}
        for place, start, end in claims:
            self._held_now.setdefault(stages.gpu_device(place), []).append((start, end))

    def newly_busy(self, session: Session) -> list[tuple[int, bool, Columns]]:
        """Per device: place of its `busy` row, whether what it shows is to be forgotten, what comes to it."""
        made = []
        for number, work in self._work.items():
            start, end = work.closed
            shown = self._shown.get(number)
            if shown == len(start):
                continue
            part = slice(shown or 0, None)
            name = next((i for i, name in enumerate(session.names) if name.text == BUSY_NAME), 0)
            columns = Columns.make(
                len(start) - (shown or 0),
                start_ns=start[part],
                end_ns=end[part],
                kind=KIND_GPU_KERNEL,
                name=name,
            )
            made.append((stages.gpu_place(number, "busy"), shown is None, columns))
            self._shown[number] = len(start)
        return made

    def newly_charted(
        self,
    ) -> list[tuple[str, bool, NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
        """Per device: its `kernel` counter, whether its samples are to be forgotten, and new ones.

        A sample is a stretch with kernels (100 %) or the gap before one (0 %): start, end, value. So the mean
        of any window is exact, however narrow.
        """
        made = []
        for number, kernels in self._kernels.items():
            start, end = kernels.closed
            known = self._charted.get(number)
            if known == len(start):
                continue
            first = known or 0
            gap_start = end[max(0, first - 1) : -1] if first else np.concatenate([start[:1], end[:-1]])
            times = np.stack([gap_start, start[first:], end[first:]], axis=1)
            values = np.tile(np.array([0.0, 100.0]), len(times))
            made.append(
                (
                    f"gpu.{number}.kernel",
                    known is None,
                    times[:, :2].reshape(-1),
                    times[:, 1:].reshape(-1),
                    values,
                )
            )
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

    def forget(self, before_ns: int) -> None:
        """Drop what ended before a moment."""
        for number in self._work:
            self._kernels[number].forget(before_ns)
            self._work[number].forget(before_ns)
            self._shown[number] = len(self._work[number].closed[0])
            self._charted[number] = len(self._kernels[number].closed[0])
        for held in self._held.values():
            held.forget(before_ns)


def split_by_depth(columns: Columns, after: list[int]) -> list[Columns]:
    """Spans in order of start, as parts of which none overlaps itself.

    `after` says from when on each depth is free; the last part may be left with spans that overlap.
    """
    parts = []
    for depth in range(MOST_DEPTHS):
        if not len(columns):
            break
        start, end = columns.start_ns, columns.end_ns
        free = after[depth] if depth < len(after) else np.iinfo(np.int64).min
        if int(start[0]) >= free and bool((start[1:] >= end[:-1]).all()):
            parts.append(columns)
            return parts
        chosen = np.array(_chain(start.tolist(), end.tolist(), free), dtype=bool)
        parts.append(columns.take(chosen))
        columns = columns.take(~chosen)
    if len(columns):
        parts.append(columns)
    return parts


def _chain(start: list[int], end: list[int], free: int) -> list[bool]:
    """Of spans in order of start, those that one after the other find room."""
    chosen = []
    for begins, ends in zip(start, end, strict=True):
        fits = begins >= free
        chosen.append(fits)
        if fits:
            free = ends
    return chosen


def copies(session: Session, columns: Columns) -> dict[str, int]:
    """Bytes copied, by name of the copy's kind."""
    moved: dict[str, int] = {}
    which = columns.take(columns.kind == KIND_GPU_MEMCPY)
    for number in np.unique(which.name).tolist():
        moved[session.names[number].text] = int(which.a0[which.name == number].sum())
    return moved
