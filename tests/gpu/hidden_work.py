"""Proofs that each make one stall, beside a longer sum or before it, in turn with it and without.

Run it under `cuzk-top run -o FILE.cuzk -- python tests/gpu/hidden_work.py cpu|gpu PLACE`, or with
hidden.py, which compares. A second thread makes a buffer ready: on the CPU it maps new memory for every
proof, whose pages the kernel must find and clear, and gives it back (flipped: one buffer for all proofs); for
the GPU it copies from pageable memory (flipped: page-locked). The first thread makes a sum, on a core of its
own or on the GPU, which takes longer. *beside*: the proof needs the buffer only after the sum. *before*: the
sum waits for it. *launching* (on the GPU): it is needed after the sum too, but the copy begins before the sum
is launched, and while one thread copies pageable memory no other gets anything through the driver.
"""

import argparse
import ctypes
import mmap
import os
import queue
import threading
import time
from contextlib import nullcontext, suppress
from math import ceil

os.environ["CUZK_THREADS"] = "1"  # read when the library loads: the other core is the second thread's

from random_points import random_points

import cuzk_tracer
from cuzk_kernels.backend import choose
from cuzk_kernels.backend.protocol import MsmSteps
from cuzk_kernels.curves import BLS12_381
from cuzk_tracer import gpu

CPU_BYTES, GPU_BYTES = 64 << 20, 256 << 20
PROVE = cuzk_tracer.span("prove", a0="pair", a1="flipped", stage=True)
SUM = cuzk_tracer.span("msm.h", a0="points", stage=True)
BARRIER = cuzk_tracer.span("barrier.wait")
TOUCH = cuzk_tracer.span("prefault.abc", a0="bytes", stage=True, faults=True)
FILL = cuzk_tracer.span("synthesis.abc.fill", a0="bytes", stage=True)
UNMAP = cuzk_tracer.span("munmap.abc", a0="bytes", stage=True)
COPY = cuzk_tracer.span("h2d.abc", a0="bytes", stage=True)
BEGUN, DONE = "buffer.handed_over", "buffer.handed_back"
UNTRACED = MsmSteps(*(nullcontext() for _ in MsmSteps._fields))


class Points:
    """Random scalars and as many points; a sum of them is the same every time."""

    def __init__(self, backend, count):
        self.backend, self.count = backend, count
        _, self.scalars, self.points = random_points(backend, count)


def _alone(core):
    """The calling thread on this core, before all other programs where that is allowed: their load must not
    decide.
    """
    os.sched_setaffinity(0, [core])
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))


class OnCpu:
    """The sum is our host library's, in one thread; every thread has a core of its own."""

    kinds, longer = ("fresh", "kept"), 4  # the sum, than the buffer: pages may come slowly

    def __init__(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise SystemExit("hidden_work.py: two cores are needed, one for each thread")
        _alone(cores[0])
        self._core = cores[1]
        self.points = Points(choose("native")[0], 1 << 11)
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.mmap.restype = ctypes.c_void_p
        self._libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        self._libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._kept = self._map()

    def _map(self):
        """New memory, every page of it touched: one by one, not by MAP_POPULATE, during which no other thread
        can map anything.
        """
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        address = self._libc.mmap(None, CPU_BYTES, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        if address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap")
        ctypes.memset(address, 0, CPU_BYTES)
        return address

    def enter(self):
        """The second thread begins."""
        _alone(self._core)
        return nullcontext()

    def prepare(self, kind):
        """The second thread's part of a proof."""
        address = self._kept
        if kind == "fresh":
            with TOUCH(CPU_BYTES):
                address = self._map()
        with FILL(CPU_BYTES):
            ctypes.memset(address, 1, CPU_BYTES)
        if kind == "fresh":
            with UNMAP(CPU_BYTES):
                self._libc.munmap(address, CPU_BYTES)

    def begin(self, times):
        """The first thread's; what is given back makes the sum."""
        of = self.points
        return lambda: [
            of.backend.msm(BLS12_381, 1, of.points, of.scalars, 0, of.count, UNTRACED) for _ in range(times)
        ]


class OnGpu:
    """The sum is the GPU's, on its compute stream; the copies have a stream of their own."""

    kinds, longer = ("pageable", "pinned"), 2

    def __init__(self):
        backend = choose("cuda")[0]
        self._device = backend.device
        self.points = Points(backend, 1 << 22)
        self._target = self._device.alloc(GPU_BYTES)
        self._pageable, self._pinned = mmap.mmap(-1, GPU_BYTES), self._device.pinned(GPU_BYTES)
        places = (ctypes.addressof(ctypes.c_char.from_buffer(self._pageable)), self._pinned.address)
        for address in places:
            ctypes.memset(address, 1, GPU_BYTES)
        self._address = dict(zip(self.kinds, places, strict=True))

    def enter(self):
        return self._device.entered()

    def prepare(self, kind):
        device = self._device
        with COPY(GPU_BYTES), gpu.launches():
            device.upload(self._target.address, self._address[kind], GPU_BYTES, device.copy)
            device.finish(device.event(device.copy))

    def begin(self, times):
        """All that the GPU is to do is given to it here; what is given back waits for it."""
        of = self.points
        begun = [
            of.backend.msm_begin(BLS12_381, 1, of.points, of.scalars, 0, of.count, UNTRACED)
            for _ in range(times)
        ]
        return lambda: [result() for result in begun]


class Second:
    """The second thread; what is handed to it and back is traced."""

    def __init__(self, on):
        self._on = on
        self._asked, self._answered = queue.SimpleQueue(), queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="buffers")
        self._thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._asked.put(None)
        self._thread.join()

    def _serve(self):
        with self._on.enter():
            while (asked := self._asked.get()) is not None:
                kind, begun = asked
                cuzk_tracer.flow(BEGUN, begun)
                self._on.prepare(kind)
                self._answered.put(cuzk_tracer.flow(DONE))

    def begin(self, kind):
        self._asked.put((kind, cuzk_tracer.flow(BEGUN)))

    def wait(self):
        with BARRIER:
            cuzk_tracer.flow(DONE, self._answered.get())


def prove(on, second, place, kind, times):
    """One proof."""
    if place != "beside":
        second.begin(kind)
    if place == "before":
        second.wait()
    with SUM(on.points.count * times):
        finish = on.begin(times)
        if place == "beside":
            second.begin(kind)
        finish()
    if place != "before":
        second.wait()


def seconds(call):
    """How long a call takes: the best of three, after one that does not count."""
    took = []
    for _ in range(4):
        began = time.perf_counter()
        call()
        took.append(time.perf_counter() - began)
    return min(took[1:])


def make(on, second, place, pairs):
    """All proofs; a line that says what was made."""

    def buffer():
        second.begin(on.kinds[0])
        second.wait()

    def one_sum():
        on.begin(1)()

    times = ceil(on.longer * seconds(buffer) / seconds(one_sum))
    for kind in on.kinds:
        prove(on, second, place, kind, times)
    for pair in range(1, pairs + 1):
        for kind in on.kinds if pair % 2 else on.kinds[::-1]:  # so that what drifts drifts for both
            with PROVE(pair, on.kinds.index(kind)):
                prove(on, second, place, kind, times)
    return f"{pairs} pairs of proofs, {times} sums of {on.points.count:,} points in each"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("on", choices=["cpu", "gpu"])
    parser.add_argument("place", choices=["beside", "before", "launching"])
    parser.add_argument("--pairs", type=int, default=12)
    args = parser.parse_args()
    on = OnCpu() if args.on == "cpu" else OnGpu()
    with Second(on) as second:
        print(make(on, second, args.place, args.pairs))
    gpu.flush()


if __name__ == "__main__":
    main()
