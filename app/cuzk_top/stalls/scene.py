"""A window as the rules see it: records, jobs, proofs, and when each device computed, copied or idled."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cuzk_top.devicetime import Covered, union
from cuzk_top.model import FLAG_ERR, FLAG_OPEN, CounterData, Snapshot
from cuzk_top.stalls import intervals, records
from cuzk_top.stalls.intervals import Int64s, Set
from cuzk_top.stalls.limits import Limits
from cuzk_top.stalls.records import Records


@dataclass(frozen=True, slots=True)
class Proof:
    """One span around a whole proof, or job; `index` is its place in the host spans."""

    index: int
    start: int
    end: int
    finished: bool
    failed: bool
    """Ended by an error: it would have taken longer."""

    @property
    def wall_ns(self) -> int:
        """Its length as far as it has come."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTime:
    """One device in the window; the three sets fill it."""

    index: int
    kernels: Set
    copies: Set
    """Copies and fills while no kernel ran."""
    idle: Set
    used: bool
    """Whether it did anything at all in this session."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Everything a rule needs. `low` and `high` are the window."""

    snapshot: Snapshot
    limits: Limits
    records: Records
    low: int
    high: int
    proofs: tuple[Proof, ...]
    """By end."""
    jobs: Set
    """When a job was open."""
    devices: tuple[DeviceTime, ...]

    @property
    def proof_ns(self) -> int:
        """The time in which a job was open, which shares of the proof are of."""
        return intervals.length(self.jobs)

    @property
    def lost(self) -> bool:
        """Whether records were lost, in the window or elsewhere: where they were lost is not known."""
        return self.snapshot.lost > 0

    @cached_property
    def counters(self) -> dict[str, CounterData]:
        """Counters with samples, by key."""
        return {counter.key: counter for counter in self.snapshot.counters if len(counter.value)}

    def samples(self, key: str) -> tuple[Int64s, Int64s, np.ndarray] | None:
        """Start, end and value of a counter's samples that end in the window; None without any."""
        counter = self.counters.get(key)
        if counter is None:
            return None
        first = int(np.searchsorted(counter.t_ns, self.low, side="right"))
        last = int(np.searchsorted(counter.t_ns, min(self.high, self.snapshot.now_ns), side="right"))
        if first >= last:
            return None
        return counter.start_ns[first:last], counter.t_ns[first:last], counter.value[first:last]


def make(snapshot: Snapshot, window: tuple[int, int] | None, limits: Limits) -> Scene:
    """Look at a window of a snapshot (None: all of it)."""
    low, high = window or (snapshot.first_ns, snapshot.now_ns)
    known = _known_until(snapshot, limits)
    high = max(min(high, known), snapshot.first_ns)
    low = min(max(low, snapshot.first_ns), high)
    begin, finish = _whole_jobs(snapshot, low, high, known)
    found = records.gather(snapshot, begin, finish, limits.most_records)
    low = min(max(low, found.low), high)
    proofs = _proofs(found)
    if proofs or _has_jobs(snapshot):
        starts = np.array([proof.start for proof in proofs], np.int64)
        jobs = union(starts, np.array([proof.end for proof in proofs], np.int64))
    elif len(found.ops):
        jobs = found.ops.start[:1], found.ops.end.max(keepdims=True)
    else:
        jobs = intervals.NONE
    devices = [_device_time(one.index, one.kernels, one.work, low, high) for one in snapshot.devices]
    active = {device.index for device in devices}
    empty = Covered(*intervals.NONE, None)
    for number in _gpus(snapshot):
        if number not in active:
            devices.append(_device_time(number, empty, empty, low, high, used=False))
    devices.sort(key=lambda device: device.index)
    return Scene(
        snapshot, limits, found, low, high, proofs, intervals.clipped(jobs, low, high), tuple(devices)
    )


def _known_until(snapshot: Snapshot, limits: Limits) -> int:
    """Up to when records are complete: a device's last work is handed over late while the program runs."""
    if snapshot.ended or not snapshot.devices:
        return max(snapshot.first_ns, snapshot.now_ns)
    reached = [last[1] for device in snapshot.devices if (last := device.work.last) is not None]
    known = max([snapshot.now_ns - limits.delivery_ns, *(end for end in reached if end <= snapshot.now_ns)])
    return max(snapshot.first_ns, known)


def _gpus(snapshot: Snapshot) -> list[int]:
    """GPUs that NVML knows, if any was used at all: those without work were idle."""
    if not snapshot.devices:
        return []
    parts = [key.split(".") for key in snapshot.session.meta if key.startswith("gpu.")]
    return sorted({int(p[1]) for p in parts if len(p) == 3 and p[2] == "name" and p[1].isdigit()})


def _device_time(
    index: int, kernels: Covered, work: Covered, low: int, high: int, *, used: bool = True
) -> DeviceTime:
    kernel, busy = _set(kernels, low, high), _set(work, low, high)
    return DeviceTime(
        index, kernel, intervals.without(busy, kernel), intervals.complement(busy, low, high), used
    )


def _set(covered: Covered, low: int, high: int) -> Set:
    return intervals.clipped(covered.touching(low, high), low, high)


def _whole_jobs(snapshot: Snapshot, low: int, high: int, known: int) -> tuple[int, int]:
    """The window with all of each job that reaches into it: what a proof waited for may lie before."""
    begin, finish = low, high
    for row in snapshot.rows:
        if row.lane.key != "proof":
            continue
        first = int(np.searchsorted(row.columns.end_ns, low, side="right"))
        last = int(np.searchsorted(row.columns.start_ns, high, side="left"))
        if last > first:
            begin = min(begin, int(row.columns.start_ns[first]))
            finish = max(finish, int(row.columns.end_ns[last - 1]))
        if row.open is not None and row.open.start_ns < high:
            begin, finish = min(begin, row.open.start_ns), snapshot.now_ns
    return begin, max(high, min(finish, known))


def _has_jobs(snapshot: Snapshot) -> bool:
    return any(
        row.lane.key == "proof" and (len(row.columns) or row.open is not None) for row in snapshot.rows
    )


def _proofs(found: Records) -> tuple[Proof, ...]:
    """The jobs' spans that lie in no other job's span of the same track."""
    host = found.host
    jobs = np.flatnonzero(found.in_lane["job"])
    order = jobs[np.lexsort((-host.end[jobs], host.start[jobs], host.track[jobs]))]
    proofs, reach, track = [], 0, -1
    for i in order.tolist():
        start, end = int(host.start[i]), int(host.end[i])
        if int(host.track[i]) == track and end <= reach and found.on_thread[i]:
            continue
        track, reach = int(host.track[i]), end
        finished = not host.flags[i] & FLAG_OPEN
        proofs.append(Proof(i, start, end, finished, finished and bool(host.flags[i] & FLAG_ERR)))
    return tuple(sorted(proofs, key=lambda proof: (proof.end, proof.start)))
