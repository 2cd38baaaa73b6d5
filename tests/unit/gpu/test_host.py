"""Threads by name against the kernel's own counts, and pinned memory, disk and pressure from scripted files."""
# ruff: noqa: E501

import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuzk_top.model import Batch
from cuzk_top.probes.memory import MemoryProbe
from cuzk_top.probes.threads import ThreadProbe, group_of

MS = 1_000_000

WORKERS = """
    import mmap, sys, threading, ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    def name(text):
        libc.prctl(15, text.encode(), 0, 0, 0)
    def touch(number):
        name(f"toucher-{number}")
        ready.wait()
        area = mmap.mmap(-1, 3000 * 4096)
        area.madvise(mmap.MADV_NOHUGEPAGE)
        for i in range(3000):
            area[i * 4096] = 1
        done.wait()
    def spin():
        name("spinner")
        ready.wait()
        while not stop:
            pass
    stop = False
    ready, done = threading.Event(), threading.Event()
    threads = [threading.Thread(target=touch, args=(i,), daemon=True) for i in range(2)]
    threads.append(threading.Thread(target=spin, daemon=True))
    [t.start() for t in threads]
    print("up", flush=True)
    sys.stdin.readline()
    ready.set()
    sys.stdin.readline()
"""


def samples(batches: list[Batch]) -> dict[str, list[tuple[int, int, float]]]:
    found: dict[str, list[tuple[int, int, float]]] = {}
    for batch in batches:
        columns = batch.columns
        for i in range(len(columns)):
            name = batch.session.names[int(columns.name[i])].text
            value = float(columns.a0.view(np.float64)[i])
            found.setdefault(name, []).append((int(columns.start_ns[i]), int(columns.end_ns[i]), value))
    return found


def test_faults_and_cpu_by_thread_name() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WORKERS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    probe = ThreadProbe(child.pid, time.monotonic_ns)
    try:
        child.stdout.readline()
        batches = [probe.poll()]
        child.stdin.write("\n")
        child.stdin.flush()
        deadline = time.monotonic() + 10
        faults = 0.0
        while time.monotonic() < deadline and (
            faults < 6000 or len(samples(batches).get("thread.spinner.cpu", [])) < 5
        ):
            time.sleep(0.05)
            batches.append(probe.poll())
            rows = samples(batches).get("thread.toucher.minflt", [])
            faults = sum((end - start) * value / 1e9 for start, end, value in rows)
        found = samples(batches)
        assert faults >= 6000
        assert faults < 9000
        assert probe.groups()["toucher"] == 2
        assert probe.groups()["spinner"] == 1
        assert max(value for _, _, value in found["thread.spinner.cpu"]) > 20
        assert "thread.toucher.majflt" not in found
    finally:
        child.kill()
        child.communicate()
    probe._due_ns = probe._listed_ns = 0
    assert len(probe.poll().columns) == 0 or probe.groups() == {}
    probe.close()


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("rayon-12", "rayon"), ("tokio-rt-worker", "tokio-rt-worker"), ("cuda00001400007", "cuda"), ("7", "7"),
        ("worker_3", "worker"), ("msm:0", "msm"), ("python3.12", "python"), ("gpu capture", "gpu capture"),
    ],
)  # fmt: skip
def test_groups(name: str, group: str) -> None:
    assert group_of(name) == group


class Proc:
    """A /proc of our own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "7").mkdir()
        (root / "pressure").mkdir()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            folder = self.root / "pressure" if name in {"cpu", "memory"} else self.root / "7"
            (folder / name).write_text(text)


def test_pinned_memory_disk_and_pressure(tmp_path: Path) -> None:
    proc = Proc(tmp_path)
    clock = [0]
    status = "Name:\tx\nVmLck:\t       0 kB\nVmPin:\t {} kB\nVmSwap:\t 0 kB\n"
    io = "rchar: 1\nwchar: 2\nread_bytes: {}\nwrite_bytes: 4096\n"
    some = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"
    proc.write(status=status.format(0), io=io.format(1000), memory=some.format(500), cpu=some.format(9))
    probe = MemoryProbe(7, lambda: clock[0], str(tmp_path))
    assert len(probe.poll().columns) == 0
    clock[0] = 500 * MS
    proc.write(status=status.format(3 << 20), io=io.format(1000 + 2_000_000_000), memory=some.format(125_500))
    assert samples([probe.poll()]) == {
        "host.pinned": [(500 * MS, 500 * MS, 3.0)],
        "host.disk_read": [(0, 500 * MS, 4.0)],
        "pressure.memory": [(0, 500 * MS, 25.0)],
    }
    clock[0] = 600 * MS
    assert len(probe.poll().columns) == 0  # not due yet
    clock[0] = 1000 * MS
    proc.write(status=status.format(0))
    assert samples([probe.poll()]) == {
        "host.pinned": [(500 * MS, 1000 * MS, 0.0)],
        "host.disk_read": [(500 * MS, 1000 * MS, 0.0)],
        "pressure.memory": [(500 * MS, 1000 * MS, 0.0)],
    }
    probe.close()


def test_what_cannot_be_read_has_no_counter(tmp_path: Path) -> None:
    probe = MemoryProbe(7, lambda: 0, str(tmp_path))
    assert len(probe.poll().columns) == 0
    probe.close()


def test_this_process_as_the_kernel_shows_it() -> None:
    clock = [0]
    probe: Any = MemoryProbe(1, lambda: clock[0])
    probe.poll()
    clock[0] = 10**9
    for rows in samples([probe.poll()]).values():
        assert all(value >= 0 for _, _, value in rows)
    probe.close()
