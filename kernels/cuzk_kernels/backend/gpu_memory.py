"""Copies from the host to a device: from pageable memory, from memory registered in place, or through a pool.

The pool is one page-locked buffer per process, used in two halves: while one is on its way to the device, the
other is filled. Memory that is page-locked already (`Stager.pinned`) is copied from where it is.
"""

import ctypes
import os
import resource
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import cuzk_tracer
from cuzk_kernels.backend.native_library import Borrowed

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_device import Device

H2D_MODES = ("pageable", "register", "pool")
REFUSED = (
    "--h2d register: the driver did not page-lock some of the memory to be copied (a read-only file mapping, "
    "or more than ulimit -l allows): that is copied as pageable memory, several times slower; use --h2d pool"
)
_HALF = 8 << 20
_PAGE = 4096
_SLICE = 1 << 20  # of a half, for one thread: below that, handing over costs more than it saves
_FILLERS = 8  # threads beyond which copying within host memory gets no faster


class Filler:
    """Copies within host memory on several threads; the caller's spans are charged with their faults.

    One thread alone, with the pages of a mapped file to touch, fills the pool at a tenth of the link's rate.
    """

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, "fill") if threads > 1 else None

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes between addresses; done when it returns."""
        if self._threads is None or size < 2 * _SLICE:
            ctypes.memmove(target, source, size)
            return
        starts = range(0, size, _SLICE)
        parts = [(target + at, source + at, min(_SLICE, size - at)) for at in starts]
        faults = list(self._threads.map(_move, parts))
        cuzk_tracer.add_faults(sum(minor for minor, _ in faults), sum(major for _, major in faults))


def _move(part: tuple[int, int, int]) -> tuple[int, int]:
    """Copy, without the interpreter's lock; the minor and major faults that it took."""
    before = resource.getrusage(resource.RUSAGE_THREAD)
    ctypes.memmove(*part)
    after = resource.getrusage(resource.RUSAGE_THREAD)
    return after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt


class Stager:
    """Copies to one device in one of H2D_MODES, on its compute stream. note: what the user should know."""

    def __init__(self, device: "Device", mode: str) -> None:
        self.device, self.mode = device, mode
        self._pool = device.pinned(2 * _HALF) if mode == "pool" else None
        self._filler = Filler(min(_FILLERS, len(os.sched_getaffinity(0))) if mode == "pool" else 1)
        self._sent: list[Any] = [None, None]
        self._ranges: list[tuple[int, int]] = []
        self.note: str | None = None

    def pinned(self, size: int) -> memoryview:
        """New page-locked memory that `copy` recognises."""
        memory = self.device.pinned(size)
        self._ranges.append((memory.address, memory.address + size))
        self.device.keep(memory)
        return memory.view

    def copy(self, target: int, data: memoryview | bytes, size: int, stream: Any = None) -> None:
        """Copy the first `size` bytes of data to a device address, in the order of the stream."""
        source = Borrowed(data, size)
        address = source.address
        if address is None:
            return
        if any(first <= address and address + size <= last for first, last in self._ranges):
            self.device.upload(target, address, size, stream)
        elif self._pool is not None:
            self._through_pool(target, address, size, stream)
        elif self.mode == "register":
            self._registered(target, address, size, stream)
        else:
            self.device.upload(target, address, size, stream)
            self.device.finish(self.device.event(stream))  # the source may go away

    def _through_pool(self, target: int, address: int, size: int, stream: Any) -> None:
        assert self._pool is not None
        for number, at in enumerate(range(0, size, _HALF)):
            half, part = number % 2, min(_HALF, size - at)
            if self._sent[half] is not None:
                self.device.finish(self._sent[half])
            staging = self._pool.address + half * _HALF
            self._filler.copy(staging, address + at, part)
            self.device.upload(target + at, staging, part, stream)
            self._sent[half] = self.device.event(stream)

    def _registered(self, target: int, address: int, size: int, stream: Any) -> None:
        first = address // _PAGE * _PAGE
        last = -(-(address + size) // _PAGE) * _PAGE
        locked = self.device.register(first, last - first)
        if not locked and self.note is None:
            self.note = REFUSED
            cuzk_tracer.meta(**{"h2d.problem": REFUSED})
        self.device.upload(target, address, size, stream)
        self.device.finish(self.device.event(stream))
        if locked:
            self.device.unregister(first)
