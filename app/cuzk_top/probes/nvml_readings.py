"""What NVML is asked of one GPU, how often, and what that costs.

Measured on an H200: utilisation, power, clocks, temperature and clock reasons 0.3 to 2.2 ms when fresh,
memory 5 µs, the two PCIe counters 0.16 ms. `nvmlDeviceGetPcieThroughput` blocks for 20 ms and is never
called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GIB = float(1 << 30)

Values = dict[str, float]
"""Counter -> value; of a `rate`, a cumulative figure."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One question. `read(library, handle)` gives its counters; `rate`: per second of what it counts."""

    name: str
    period_s: float
    read: Callable[[Any, Any], Values]
    counters: tuple[str, ...]
    rate: bool = False


def _utilisation(library: Any, handle: Any) -> Values:
    return {"util": float(library.nvmlDeviceGetUtilizationRates(handle).gpu)}


def _memory(library: Any, handle: Any) -> Values:
    return {"memory": library.nvmlDeviceGetMemoryInfo(handle).used / GIB}


def _power(library: Any, handle: Any) -> Values:
    return {"power": library.nvmlDeviceGetPowerUsage(handle) / 1000}  # told in mW


def _clock(library: Any, handle: Any) -> Values:
    return {"clock": float(library.nvmlDeviceGetClockInfo(handle, library.NVML_CLOCK_SM))}


def _temperature(library: Any, handle: Any) -> Values:
    return {"temperature": float(library.nvmlDeviceGetTemperature(handle, library.NVML_TEMPERATURE_GPU))}


PCIE_TX_BYTES, PCIE_RX_BYTES = 197, 198
"""NVML_FI_DEV_PCIE_COUNT_TX_BYTES and _RX_BYTES: since the driver was loaded, as the GPU sees it."""


def _pcie(library: Any, handle: Any) -> Values:
    sent, received = library.nvmlDeviceGetFieldValues(handle, [PCIE_TX_BYTES, PCIE_RX_BYTES])
    for value in (sent, received):
        if value.nvmlReturn:
            raise library.NVMLError(value.nvmlReturn)
    return {"pcie_in": received.value.ullVal / 1e9, "pcie_out": sent.value.ullVal / 1e9}


READINGS: tuple[Reading, ...] = (
    Reading("utilisation", 0.5, _utilisation, ("util",)),  # 2.2 ms, for a cross-check
    Reading("memory", 0.2, _memory, ("memory",)),
    Reading("power", 0.5, _power, ("power",)),  # 1 ms
    Reading("SM clock", 0.2, _clock, ("clock",)),  # a throttled stretch counts from 0.2 s on
    Reading("PCIe", 0.2, _pcie, ("pcie_in", "pcie_out"), rate=True),
    Reading("temperature", 1.0, _temperature, ("temperature",)),
)
REASONS_S = 0.5
PROCESSES_S = 5.0
"""Lists take the driver's lock the longest, which the prover's launches need too."""

THROTTLE_REASONS: tuple[tuple[int, str], ...] = (
    (0x004, "power cap"),
    (0x008, "hardware slowdown"),
    (0x020, "software thermal limit"),
    (0x040, "hardware thermal limit"),
    (0x080, "power brake"),
    (0x010, "sync boost"),
    (0x200, "board limit"),
    (0x400, "reliability limit"),
)
"""nvmlClocksEventReasons that take performance away; the idle GPU and clocks that a user set do not."""


def throttled(library: Any, handle: Any) -> tuple[str, ...]:
    """Why the clocks are lower than they could be."""
    ask = getattr(library, "nvmlDeviceGetCurrentClocksEventReasons", None)
    bits = int((ask or library.nvmlDeviceGetCurrentClocksThrottleReasons)(handle))
    return tuple(text for bit, text in THROTTLE_REASONS if bits & bit)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that computes on a GPU. `memory_bytes` is None where the driver does not tell (MIG, other
    users)."""

    pid: int
    name: str
    memory_bytes: int | None


def processes(library: Any, handle: Any) -> tuple[GpuProcess, ...]:
    """The compute processes of a GPU, by pid."""
    found = []
    for process in library.nvmlDeviceGetComputeRunningProcesses(handle):
        found.append(GpuProcess(int(process.pid), command(int(process.pid)), process.usedGpuMemory))
    return tuple(sorted(found, key=lambda process: process.pid))


def command(pid: int) -> str:
    """A process's name, as the kernel has it; "?" where it is not to be seen."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


LANE_GB_S = (0.25, 0.5, 0.985, 1.969, 3.938, 7.563)
"""GB/s of one PCIe lane in one direction, by generation from 1 on: the line rate less its coding."""


def _link(library: Any, handle: Any) -> float:
    generation = int(library.nvmlDeviceGetMaxPcieLinkGeneration(handle))
    return LANE_GB_S[generation - 1] * int(library.nvmlDeviceGetMaxPcieLinkWidth(handle))


def limits(library: Any, handle: Any) -> dict[str, str]:
    """What does not change: the card's name, and the natural limits of its counters."""
    name = library.nvmlDeviceGetName(handle)
    facts = {"name": name if isinstance(name, str) else name.decode("utf-8", "replace")}
    tops: dict[str, Callable[[], float]] = {
        "memory": lambda: library.nvmlDeviceGetMemoryInfo(handle).total / GIB,
        "power": lambda: library.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000,
        "clock": lambda: float(library.nvmlDeviceGetMaxClockInfo(handle, library.NVML_CLOCK_SM)),
        "pcie_in": lambda: _link(library, handle),
        "pcie_out": lambda: _link(library, handle),
    }
    for counter, ask in tops.items():
        try:
            facts[f"top.{counter}"] = str(ask())
        except (library.NVMLError, AttributeError, IndexError):
            continue
    return facts
