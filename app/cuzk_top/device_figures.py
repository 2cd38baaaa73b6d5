"""What each GPU did in a session so far, in figures: device time, the host's claims, and what NVML said."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuzk_top.devicetime import Covered, Device, Split
from cuzk_top.model import CounterData, Snapshot

_NOTHING = Covered(np.empty(0, np.int64), np.empty(0, np.int64), None)


@dataclass(frozen=True, slots=True)
class DeviceFigures:
    """One GPU from the session's first record to now. `nvml` is its mean utilisation in percent; None where
    it was not asked, as `held_ns` is where nobody claims it."""

    index: int
    name: str
    split: Split
    held_ns: int | None
    nvml: float | None

    @property
    def held_percent(self) -> int | None:
        """Whole percent of the time that it was claimed."""
        if self.held_ns is None or not self.split.wall_ns:
            return None
        return round(100 * self.held_ns / self.split.wall_ns)


def device_figures(snapshot: Snapshot) -> list[DeviceFigures]:
    """All GPUs that left a record or that NVML knows: those that did nothing were idle. None of them where no
    GPU left a record, because then nothing is known of any.
    """
    if not snapshot.devices:
        return []
    low = snapshot.first_ns
    high = min(snapshot.now_ns, snapshot.last_ns) if snapshot.ended else snapshot.now_ns
    meta = snapshot.session.meta
    known = {device.index: device for device in snapshot.devices}
    counters = {counter.key: counter for counter in snapshot.counters}
    named = {int(key.split(".")[1]) for key in meta if _names_a_gpu(key)}
    found = []
    for index in sorted(named | set(known)):
        device = known.get(index, Device(index, _NOTHING, _NOTHING))
        found.append(
            DeviceFigures(
                index,
                meta.get(f"gpu.{index}.name", "").removeprefix("NVIDIA "),
                device.split(low, high),
                device.held_ns(low, high),
                _mean(counters.get(f"gpu.{index}.util"), low, high),
            )
        )
    return found


def _names_a_gpu(key: str) -> bool:
    parts = key.split(".")
    return len(parts) == 3 and parts[0] == "gpu" and parts[1].isdecimal() and parts[2] == "name"


def _mean(counter: CounterData | None, low: int, high: int) -> float | None:
    """Mean of a counter in a window; each sample weighs as long as it held."""
    if counter is None or not len(counter.value):
        return None
    lengths = np.minimum(counter.t_ns, high) - np.maximum(counter.start_ns, low)
    weights = np.maximum(lengths, 0).astype(np.float64)
    weights[~np.isfinite(counter.value)] = 0
    if not weights.sum():
        return None
    return float(np.average(np.nan_to_num(counter.value), weights=weights))
