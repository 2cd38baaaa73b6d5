"""What NVML tells of each GPU, sampled by threads of the viewer; never in the prover.

NVML calls block for milliseconds and, with a sick driver, for ever. So each GPU has a thread that asks, each
question at its own rate; one that does not come back is named on screen after a deadline, and the rest goes
on. NVML's utilisation is a 5 Hz figure: a cross-check, not the measure of device time.
"""

import ctypes
import threading
from collections.abc import Callable
from typing import Any

from cuzk_top.columns import samples
from cuzk_top.model import KIND_INSTANT, Batch, Columns, Name, Session, Track
from cuzk_top.probes import nvml_readings
from cuzk_top.probes.nvml_readings import GpuProcess, Reading

DEADLINE_NS = 2_000_000_000
POLL_NS = 200_000_000
"""No figure is read more often."""
ALWAYS = ("gpu.0.util", "gpu.0.memory")
"""Counters that are there even without a GPU, to say why they are empty."""


NO_DRIVER = "no NVIDIA driver: libnvidia-ml.so.1 not found"
EXPECTED = frozenset({"util", "memory"})


class Gpu:
    """One GPU: the thread that asks, and what it has found since the last poll."""

    def __init__(self, index: int, library: Any, handle: Any, clock: Callable[[], int]) -> None:
        self.index = index
        self._library = library
        self._handle = handle
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: list[tuple[int, int, str, float]] = []
        self._marks: list[tuple[int, str]] = []
        self._before: dict[str, tuple[int, float]] = {}
        self._due: dict[str, int] = {}
        self._asking: tuple[int, str] | None = None
        self._throttled: tuple[str, ...] = ()
        self._processes: tuple[GpuProcess, ...] = ()
        self.reasons: dict[str, str] = {}
        self.about: dict[str, str] = {}
        self.lost = False
        self._stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name=f"nvml {index}", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Let the thread end after the call it is in."""
        self._stop.set()

    def take(self) -> tuple[list[tuple[int, int, str, float]], list[tuple[int, str]]]:
        """Samples (start, end, counter, value) and marks (time, text) since the last call."""
        with self._lock:
            rows, self._rows = self._rows, []
            marks, self._marks = self._marks, []
        return rows, marks

    def meta(self) -> dict[str, str]:
        """The GPU's facts as session metadata."""
        prefix = f"gpu.{self.index}."
        with self._lock:
            found = {
                f"top.{prefix}{key[4:]}" if key.startswith("top.") else prefix + key: value
                for key, value in self.about.items()
            }
            # An empty row only for what every card should tell, or has told before.
            found |= {
                f"missing.{prefix}{counter}": why
                for counter, why in self.reasons.items()
                if counter in EXPECTED or counter in self._before
            }
            found[f"{prefix}throttle"] = ", ".join(self._throttled)
            found[f"{prefix}processes"] = ", ".join(_process(one) for one in self._processes)
        return {key: value for key, value in found.items() if value}

    def processes(self) -> tuple[GpuProcess, ...]:
        """Who computes on it."""
        with self._lock:
            return self._processes

    def problem(self, now: int) -> str | None:
        """A sentence for the screen when the GPU is gone or does not answer."""
        if self.lost:
            return f"GPU {self.index} fell off the bus"
        asking = self._asking
        if asking is not None and self.thread.is_alive() and now - asking[0] > DEADLINE_NS:
            return (
                f"NVML has been silent for {(now - asking[0]) / 1e9:.0f} s: GPU figures are old "
                f"(asked for {asking[1]} of GPU {self.index})"
            )
        return None

    def _run(self) -> None:
        about = self._ask("name", lambda: nvml_readings.limits(self._library, self._handle))
        with self._lock:
            self.about = about or {}
        while not self._stop.is_set() and not self.lost:
            for reading in nvml_readings.READINGS:
                if self._is_due(reading.name, reading.period_s):
                    self._sample(reading)
            if self._is_due("clock reasons", nvml_readings.REASONS_S):
                self._look_at_clocks()
            if self._is_due("processes", nvml_readings.PROCESSES_S):
                found = self._ask("processes", lambda: nvml_readings.processes(self._library, self._handle))
                with self._lock:
                    self._processes = found or ()
            self._stop.wait(max(0.001, (min(self._due.values()) - self._clock()) / 1e9))

    def _is_due(self, name: str, period_s: float) -> bool:
        now = self._clock()
        if now < self._due.get(name, 0):
            return False
        self._due[name] = now + round(period_s * 1e9)
        return not (self.lost or self._stop.is_set())

    def _ask(self, name: str, call: Callable[[], Any], counters: tuple[str, ...] = ()) -> Any:
        """What a call says; None where it fails, and why is kept for its counters."""
        self._asking = (self._clock(), name)
        try:
            answer = call()
        except Exception as error:
            self._failed(error, counters)
            return None
        finally:
            self._asking = None
        with self._lock:
            for counter in counters:
                self.reasons.pop(counter, None)
        return answer

    def _failed(self, error: Exception, counters: tuple[str, ...]) -> None:
        lost = getattr(error, "value", None) == getattr(self._library, "NVML_ERROR_GPU_IS_LOST", 15)
        why = "not in this version of nvidia-ml-py" if isinstance(error, AttributeError) else f"NVML: {error}"
        with self._lock:
            if lost and not self.lost:
                self.lost = True
                counters = tuple(counter for one in nvml_readings.READINGS for counter in one.counters)
                self._marks.append((self._clock(), f"GPU {self.index} fell off the bus"))
            self.reasons.update(dict.fromkeys(counters, "the GPU fell off the bus" if lost else why))

    def _sample(self, reading: Reading) -> None:
        values = self._ask(reading.name, lambda: reading.read(self._library, self._handle), reading.counters)
        now = self._clock()
        for counter, value in (values or {}).items():
            start, before = self._before.get(counter, (now, value))
            self._before[counter] = (now, value)
            if reading.rate:
                if now == start:
                    continue
                value = max(0.0, value - before) * 1e9 / (now - start)  # noqa: PLW2901
            with self._lock:
                self._rows.append((start, now, f"gpu.{self.index}.{counter}", value))

    def _look_at_clocks(self) -> None:
        found = self._ask("clock reasons", lambda: nvml_readings.throttled(self._library, self._handle))
        if found is None:
            return
        with self._lock:
            if found != self._throttled:
                why = f"throttled: {', '.join(found)}" if found else "no longer throttled"
                self._marks.append((self._clock(), f"GPU {self.index} {why}"))
            self._throttled = found


def _process(process: GpuProcess) -> str:
    memory = process.memory_bytes
    return f"{process.pid} {process.name}" + (f" {memory / nvml_readings.GIB:.1f} GiB" if memory else "")


class NvmlProbe:
    """Counters gpu.N.util, .memory, .power, .clock, .pcie_in, .pcie_out and .temperature of every NVIDIA GPU.

    A reason where there is none. The metadata tells each card's name, processes and what throttles it; a
    change of that, and the loss of a GPU, are marks. `library` is the pynvml module (imported by the probe's
    thread when not given), `clock` CLOCK_MONOTONIC in ns.
    """

    def __init__(self, clock: Callable[[], int], library: Any = None) -> None:
        self._clock = clock
        self._library = library
        self._session = Session(names=[])
        self._session.tracks[1] = Track(1, "probe", "nvml")
        self._ids: dict[str, int] = {}
        self._lock = threading.Lock()
        self._gpus: list[Gpu] = []
        self._reasons = dict.fromkeys(ALWAYS, "NVML has not answered yet")
        self._begun_ns = self.due_ns = clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._thread.start()

    def poll(self) -> Batch:
        """The samples taken since the last call, never waiting for the driver."""
        now = self._clock()
        self.due_ns = now + POLL_NS
        with self._lock:
            gpus = list(self._gpus)
            meta = {f"missing.{key}": why for key, why in self._reasons.items()}
        problems = [problem for gpu in gpus if (problem := gpu.problem(now)) is not None]
        if not gpus and self._thread.is_alive() and now - self._begun_ns > DEADLINE_NS:
            problems.append(
                f"NVML has been silent for {(now - self._begun_ns) / 1e9:.0f} s: it does not start"
            )
        parts = []
        for gpu in gpus:
            rows, marks = gpu.take()
            parts += [self._columns(rows), self._marks(marks)]
            meta |= gpu.meta()
        if meta != self._session.meta:
            self._session.meta = meta
        columns = Columns.concat([part for part in parts if len(part)])
        return Batch(self._session, columns, Columns.empty(), 0, now, problems=tuple(problems))

    def close(self) -> None:
        """Let the threads end; one that hangs in the driver is left behind (it is a daemon)."""
        self._stop.set()
        for gpu in self._gpus:
            gpu.stop()
        self._thread.join(0.1)

    def _name(self, text: str) -> int:
        if text not in self._ids:
            self._ids[text] = len(self._session.names)
            self._session.names.append(Name(text))
        return self._ids[text]

    def _columns(self, rows: list[tuple[int, int, str, float]]) -> Columns:
        names = [self._name(row[2]) for row in rows]
        return samples(1, names, [row[0] for row in rows], [row[1] for row in rows], [row[3] for row in rows])

    def _marks(self, marks: list[tuple[int, str]]) -> Columns:
        times = [mark[0] for mark in marks]
        names = [self._name(mark[1]) for mark in marks]
        if not marks:
            return Columns.empty()
        return Columns.make(len(marks), start_ns=times, end_ns=times, kind=KIND_INSTANT, track=1, name=names)

    def _run(self) -> None:
        try:
            if self._library is None:
                if not driver():
                    self._give_up(NO_DRIVER)
                    return
                import pynvml  # noqa: PLC0415 (here, so that a viewer without a GPU does not wait for it)

                self._library = pynvml
            self._library.nvmlInit()
        except Exception as error:
            self._give_up(reason(error))
            return
        try:
            library = self._library
            handles = [library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())]
            gpus = [Gpu(i, library, handle, self._clock) for i, handle in enumerate(handles)]
            with self._lock:
                self._gpus = gpus
                self._reasons = {}
            if self._stop.is_set():  # closed before the list was there
                for gpu in gpus:
                    gpu.stop()
            for gpu in gpus:
                gpu.thread.join()
            if not gpus:
                self._give_up("no NVIDIA GPU in this machine")
        except Exception as error:
            self._give_up(f"NVML: {error}")
        finally:
            self._library.nvmlShutdown()

    def _give_up(self, why: str) -> None:
        with self._lock:
            self._reasons = dict.fromkeys(ALWAYS, why)


def driver() -> bool:
    """Whether there is a driver to ask; without one, its binding need not be loaded (10 ms)."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return False
    return True


def reason(error: Exception) -> str:
    """Why NVML did not start, in words that say what is lacking."""
    name = type(error).__name__
    if name == "NVMLError_LibraryNotFound":
        return NO_DRIVER
    if name == "NVMLError_DriverNotLoaded":
        return "the NVIDIA driver is not loaded"
    if name == "ModuleNotFoundError":
        return "the Python package nvidia-ml-py is not installed"
    return f"NVML: {error}"
