"""Where the counters' figures come from: what was read, how often, and what is drawn of it."""

from __future__ import annotations

import numpy as np

from cuzk_top import figures
from cuzk_top.model import CounterData, Snapshot
from cuzk_top.screens.help import Entry
from cuzk_top.widgets.areas import highest

SOURCES = (
    ("host.minflt", "page faults without a disk that the kernel counts in /proc/PID/stat, pinning included"),
    ("host.majflt", "page faults that read from a disk, as the kernel counts them in /proc/PID/stat"),
    ("host.cpu", "CPU time of all its threads in /proc/PID/stat; 100 % is all processors"),
    ("host.rss", "resident memory in /proc/PID/stat"),
    ("host.pinned", "VmPin in /proc/PID/status: what a driver has pinned"),
    ("host.locked", "VmLck in /proc/PID/status: what mlock holds"),
    ("host.swap", "VmSwap in /proc/PID/status"),
    ("host.disk_", "bytes to or from storage in /proc/PID/io"),
    ("thread.", "a group of its threads by name, from /proc/PID/task/TID/stat"),
    ("pressure.", "the machine's share of time in which some task waited for it, from /proc/pressure"),
)
"""By the beginning of their keys."""
OF_GPU = {
    "kernel": "time with at least one kernel / time, from the recorded kernels",
    "util": "NVML's utilisation, a figure that it renews five times a second",
    "memory": "NVML: memory in use by all processes",
    "pcie_in": "NVML's cumulative count of bytes to the GPU (field value 198)",
    "pcie_out": "NVML's cumulative count of bytes from the GPU (field value 197)",
    "power": "NVML: power drawn now",
    "clock": "NVML: clock of the SMs now",
    "temperature": "NVML: temperature now",
}
"""By the end of ``gpu.N.KEY``."""


def source(key: str) -> str:
    """What a counter was read from; of one that the program wrote itself, that."""
    parts = key.split(".")
    if len(parts) == 3 and parts[0] == "gpu" and parts[2] in OF_GPU:
        return OF_GPU[parts[2]]
    return next((text for begin, text in SOURCES if key.startswith(begin)), "written by the program itself")


def counter_lines(snapshot: Snapshot) -> list[Entry]:
    """A line for each counter."""
    drawn = (
        "drawn is a column's mean (gauges) or highest (rates); figures are the last sample and the highest"
    )
    return [Entry("Counters"), Entry("columns", drawn), *(_told(of, snapshot) for of in snapshot.counters)]


def _told(counter: CounterData, snapshot: Snapshot) -> Entry:
    if counter.missing is not None:
        return Entry(counter.label, f"no data: {counter.missing}")
    count = int(np.searchsorted(counter.start_ns, snapshot.now_ns, "left"))
    if not count:
        return Entry(counter.label, f"{counter.kind}: {source(counter.key)}; no sample yet")
    unit = f" {counter.unit}" if counter.unit else ""
    last, most = float(counter.value[count - 1]), highest(counter.value[:count])
    sampled = f"{figures.count(count)} sample{'s' if count > 1 else ''}"
    period = int(np.median(counter.t_ns[:count] - counter.start_ns[:count]))
    sampled += f", each of {figures.spaced(period)}" if period else ""
    if counter.key.endswith(".kernel"):
        sampled = "known of every moment"
    return Entry(
        counter.label,
        f"{counter.kind}: {source(counter.key)}; {sampled}; last {_figure(last)}, highest "
        f"{_figure(most)}{unit}",
    )


def _figure(value: float) -> str:
    return figures.plain(value) if value else "0"
