"""Probes: /proc figures against the kernel's own, NVML against a scripted library."""

import mmap
import os
import resource
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from cuzk_top.model import FLAG_F64, KIND_COUNTER, Batch
from cuzk_top.probes.host import COUNTERS, HostProbe
from cuzk_top.probes.nvml import NvmlProbe

MS = 1_000_000


def values(batch: Batch) -> dict[str, float]:
    names = batch.session.names
    floats = batch.columns.a0.view(np.float64)
    return {names[int(n)].text: float(v) for n, v in zip(batch.columns.name, floats, strict=True)}


def test_faults_cpu_and_memory_of_this_process():
    clock = [10**12]
    probe = HostProbe(os.getpid(), lambda: clock[0], cpus=4)
    first = probe.poll()
    assert set(values(first)) == {"host.rss"}, "rates need two samples"
    before = resource.getrusage(resource.RUSAGE_SELF)
    region = mmap.mmap(-1, 2000 * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    region.madvise(mmap.MADV_NOHUGEPAGE)
    region.write(b"x" * (2000 * 4096))
    spun = time.process_time() + 0.05
    while time.process_time() < spun:
        pass
    after = resource.getrusage(resource.RUSAGE_SELF)
    clock[0] += 99 * MS
    assert len(probe.poll().columns) == 0, "not due yet"
    clock[0] += 401 * MS
    batch = probe.poll()
    seen = values(batch)
    assert list(seen) == list(COUNTERS)
    # Half a second, so rates are twice the counts. Faults between our readings belong to the interpreter.
    faults = after.ru_minflt - before.ru_minflt
    assert faults >= 2000
    assert faults <= seen["host.minflt"] / 2 <= faults + 500
    assert seen["host.majflt"] / 2 >= after.ru_majflt - before.ru_majflt
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    # /proc counts in ticks of 10 ms: two readings may be a tick off each.
    assert seen["host.cpu"] == pytest.approx(100 * used / 0.5 / 4, abs=100 * 0.03 / 0.5 / 4)
    rise = seen["host.rss"] - values(first)["host.rss"]
    assert rise * 2**30 >= 1900 * 4096
    columns = batch.columns
    assert set(columns.kind.tolist()) == {KIND_COUNTER} and set(columns.flags.tolist()) == {FLAG_F64}
    assert (columns.end_ns - columns.start_ns).tolist() == [500 * MS] * 4
    probe.close()


def test_a_process_that_ends_yields_nothing_more():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    clock = [10**12]
    probe = HostProbe(child.pid, lambda: clock[0])
    assert len(probe.poll().columns) == 1
    child.communicate(b"\n")
    clock[0] += 10**9
    assert len(probe.poll().columns) == 0
    clock[0] += 10**9
    assert len(probe.poll().columns) == 0
    probe.close()


def test_a_process_that_is_not_there_has_a_reason():
    probe = HostProbe(2**22 + 1, lambda: 0)
    meta = probe.poll().session.meta
    assert meta["missing.host.rss"] == f"/proc/{2**22 + 1}/stat: No such file or directory"
    probe.close()


def test_many_threads_are_sampled_less_often():
    code = """
import threading
stop = threading.Event()
for _ in range(70): threading.Thread(target=stop.wait, daemon=True).start()
print("ready", flush=True); input()
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    clock = [10**12]
    probe = HostProbe(child.pid, lambda: clock[0])
    sampled = []
    for _ in range(20):
        sampled.append(len(probe.poll().columns) > 0)
        clock[0] += 100 * MS
    child.communicate(b"\n")
    probe.close()
    assert [i for i, yes in enumerate(sampled) if yes] == [0, 5, 10, 15]


class NVMLError(Exception):
    pass


class Library:
    """Two GPUs as NVML shows them; the second is cut up by MIG and does not tell its utilisation."""

    NVMLError = NVMLError

    def __init__(self, count=2):
        self.count = count
        self.asked = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.ended = threading.Event()

    def nvmlInit(self): ...

    def nvmlShutdown(self):
        self.ended.set()

    def nvmlDeviceGetCount(self):
        return self.count

    def nvmlDeviceGetHandleByIndex(self, i):
        return i

    def nvmlDeviceGetName(self, i):
        return f"Card {i}"

    def nvmlDeviceGetMemoryInfo(self, i):
        class Info:
            total = 8 << 30
            used = (i + 1) << 29

        return Info

    def nvmlDeviceGetUtilizationRates(self, i):
        self.asked.set()
        self.go_on.wait(10)
        if i == 1:
            raise NVMLError("Not Supported")

        class Rates:
            gpu = 43

        return Rates


def first_samples(probe: NvmlProbe, count: int) -> dict[str, float]:
    found: dict[str, float] = {}
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        batch = probe.poll()
        if len(batch.columns):
            found |= values(batch)
        if len(found) >= count:
            return found
        time.sleep(0.005)
    raise AssertionError("no sample came")


def test_gpus_are_sampled_and_say_what_they_cannot_tell():
    library = Library()
    probe = NvmlProbe(time.monotonic_ns, library)
    assert first_samples(probe, 3) == {
        "gpu.0.util": 43.0, "gpu.0.memory": 0.5, "gpu.1.memory": 1.0,
    }  # fmt: skip
    meta = probe.poll().session.meta
    assert meta["missing.gpu.1.util"] == "NVML: Not Supported"
    assert (meta["gpu.0.name"], meta["top.gpu.1.memory"]) == ("Card 0", "8.0")
    assert not [key for key in meta if key.startswith("missing.gpu.0")]
    probe.close()
    assert library.ended.wait(10)


def test_a_driver_that_hangs_is_told_and_blocks_nobody():
    library = Library(1)
    clock = [0]
    probe = NvmlProbe(lambda: clock[0], library)
    first_samples(probe, 2)
    library.go_on.clear()
    library.asked.clear()
    clock[0] += 1_000_000_000
    assert library.asked.wait(10)
    clock[0] += 7_000_000_000
    (problem,) = probe.poll().problems
    assert problem.startswith("NVML has been silent for 7 s: GPU figures are old")
    probe.close()
    library.go_on.set()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("NVMLError_LibraryNotFound", "no NVIDIA driver: libnvidia-ml.so.1 not found"),
        ("NVMLError_DriverNotLoaded", "the NVIDIA driver is not loaded"),
        ("NVMLError_Unknown", "NVML: what"),
    ],
)
def test_no_gpu_has_a_reason(error, reason):
    library = Library()

    def fail():
        raise type(error, (NVMLError,), {})("what")

    library.nvmlInit = fail
    probe = NvmlProbe(time.monotonic_ns, library)
    probe._thread.join(10)
    batch = probe.poll()
    assert batch.session.meta == {"missing.gpu.0.util": reason, "missing.gpu.0.memory": reason}
    assert len(batch.columns) == 0 and batch.problems == ()
    probe.close()


def test_a_driver_without_cards():
    probe = NvmlProbe(time.monotonic_ns, Library(0))
    probe._thread.join(10)
    assert probe.poll().session.meta["missing.gpu.0.util"] == "no NVIDIA GPU in this machine"
    probe.close()
