"""GPU utilisation and memory through NVML, sampled by a thread of the viewer.

NVML calls block for milliseconds and, with a sick driver, for ever: a thread of its own makes them, and when
it is silent for too long the viewer says so. NVML's utilisation is a 5 Hz figure: a cross-check, not the
measure of device time.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from cuzk_top.model import FLAG_F64, KIND_COUNTER, Batch, Columns, Name, Session, Track

PERIOD_S = 0.2
DEADLINE_NS = 2_000_000_000
GIB = float(1 << 30)

Sample = dict[str, float]
"""Counter key -> value: utilisation in %, memory in use in GiB."""


class NvmlProbe:
    """Counters gpu.N.util and gpu.N.memory of every NVIDIA GPU; a reason where there is none.

    `library` is the pynvml module (imported by the probe's thread when not given), `clock` CLOCK_MONOTONIC in
    ns.
    """

    def __init__(self, clock: Callable[[], int], library: Any = None) -> None:
        self._clock = clock
        self._library = library
        self._session = Session(names=[])
        self._session.tracks[1] = Track(1, "probe", "nvml")
        self._lock = threading.Lock()
        self._samples: list[tuple[int, Sample]] = []
        self._answered_ns = clock()
        self._before_ns: int | None = None
        self._reasons = dict.fromkeys(("gpu.0.util", "gpu.0.memory"), "NVML has not answered yet")
        self._about: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
        self._thread.start()

    def poll(self) -> Batch:
        """The samples taken since the last call, never waiting for the driver."""
        now = self._clock()
        with self._lock:
            samples, self._samples = self._samples, []
            meta = self._about | {f"missing.{key}": why for key, why in self._reasons.items()}
            silent = now - self._answered_ns
        problems: tuple[str, ...] = ()
        if self._thread.is_alive() and silent > DEADLINE_NS:
            problems = (f"NVML has been silent for {silent / 1e9:.0f} s: GPU figures are old",)
        self._session.meta = meta
        parts = [self._columns(t, values) for t, values in samples]
        return Batch(self._session, Columns.concat(parts), Columns.empty(), 0, now, problems=problems)

    def close(self) -> None:
        """Let the thread end; one that hangs in the driver is left behind (it is a daemon)."""
        self._stop.set()
        self._thread.join(0.1)

    def _columns(self, t_ns: int, values: Sample) -> Columns:
        start = self._before_ns if self._before_ns is not None else t_ns
        self._before_ns = t_ns
        names = self._session.names
        for key in values:
            if Name(key) not in names:
                names.append(Name(key))
        return Columns.make(
            len(values),
            start_ns=start,
            end_ns=t_ns,
            kind=KIND_COUNTER,
            flags=FLAG_F64,
            track=1,
            name=[names.index(Name(key)) for key in values],
            a0=np.array(list(values.values()), np.float64).view(np.int64),
        )

    def _run(self) -> None:
        try:
            if self._library is None:
                import pynvml  # noqa: PLC0415 (here, so that a viewer without a GPU does not wait for it)

                self._library = pynvml
            self._library.nvmlInit()
        except Exception as error:
            self._give_up(_reason(error))
            return
        try:
            handles = self._devices()
            while handles and not self._stop.is_set():
                sample, reasons = self._read(handles)
                with self._lock:
                    self._samples.append((self._clock(), sample))
                    self._answered_ns = self._samples[-1][0]
                    self._reasons = reasons
                self._stop.wait(PERIOD_S)
            if not handles:
                self._give_up("no NVIDIA GPU in this machine")
        except Exception as error:
            self._give_up(f"NVML: {error}")
        finally:
            self._library.nvmlShutdown()

    def _devices(self) -> list[Any]:
        library = self._library
        handles = [library.nvmlDeviceGetHandleByIndex(i) for i in range(library.nvmlDeviceGetCount())]
        tops = {}
        for i, handle in enumerate(handles):
            name = library.nvmlDeviceGetName(handle)
            tops[f"gpu.{i}.name"] = name if isinstance(name, str) else name.decode("utf-8", "replace")
            tops[f"top.gpu.{i}.memory"] = str(library.nvmlDeviceGetMemoryInfo(handle).total / GIB)
        with self._lock:
            self._about = tops
        return handles

    def _read(self, handles: list[Any]) -> tuple[Sample, dict[str, str]]:
        """Values of all devices, and reasons for what a device does not tell (under MIG, utilisation)."""
        library = self._library
        sample: Sample = {}
        reasons: dict[str, str] = {}
        for i, handle in enumerate(handles):
            try:
                sample[f"gpu.{i}.util"] = float(library.nvmlDeviceGetUtilizationRates(handle).gpu)
            except library.NVMLError as error:
                reasons[f"gpu.{i}.util"] = f"NVML: {error}"
            sample[f"gpu.{i}.memory"] = library.nvmlDeviceGetMemoryInfo(handle).used / GIB
        return sample, reasons

    def _give_up(self, reason: str) -> None:
        with self._lock:
            self._reasons = dict.fromkeys(self._reasons or ("gpu.0.util", "gpu.0.memory"), reason)


def _reason(error: Exception) -> str:
    """Why NVML did not start, in words that say what is lacking."""
    name = type(error).__name__
    if name == "NVMLError_LibraryNotFound":
        return "no NVIDIA driver: libnvidia-ml.so.1 not found"
    if name == "NVMLError_DriverNotLoaded":
        return "the NVIDIA driver is not loaded"
    if name == "ModuleNotFoundError":
        return "the Python package nvidia-ml-py is not installed"
    return f"NVML: {error}"
