"""When a device did what this back end gave it, by pairs of CUDA events: for want of CUPTI's records.

One event before and one after each launch, copy and fill, on its stream, from a pool. They are read back once
both have happened, and nothing ever waits for them. The device's clock is tied to CLOCK_MONOTONIC by an event
of a stream of its own that is waited for, anew once a second where the host waits for the device anyway.

How exact: events count in steps of about 0.5 µs (CUDA Driver API, cuEventElapsedTime). While work is queued a
pair encloses just the kernel. On an idle device the first event happens before the kernel is there, so a
kernel begins no earlier than its launch returned; the second comes when the host has given it, so a kernel
shorter than that (2 to 3 µs) looks that long. Where it lies on the time axis is known to a
few µs (`doubt_ns`).
On an H200 a pooled pair cost a launch from Python 4.6 µs, CUPTI's records 0.3 to 0.9 µs.
"""

import atexit
import ctypes
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import cuzk_tracer
from cuzk_tracer import gpu

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_blocks import Event

NOT_READY = 600  # CUDA_ERROR_NOT_READY
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: of the default stream
_MEMORY_TYPE, _HOST = 2, 1  # CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_MEMORYTYPE_HOST

TRIES = 8
ANCHOR_EVERY_NS = 1_000_000_000
MOST_DOUBT_NS = 50_000
"""An anchor is taken over when it is known this well; else the last one stays and it is tried again."""
MOST_DRIFT_NS = 200_000
"""Between two anchors; crystals differ by some 10 µs a second, so beyond this a clock has jumped."""
DRAIN_EVERY = 32

_numbers = itertools.count(1)


class _Anchor(NamedTuple):
    """An event, when it happened by CLOCK_MONOTONIC, and by how much that may be wrong."""

    event: "Event"
    host_ns: int
    doubt_ns: int


class _Pair(NamedTuple):
    start: "Event"
    end: "Event"
    anchor: _Anchor
    given_ns: int  # it cannot have begun before
    name: Any
    kind: int
    stream: int
    launcher: int
    a0: int
    a1: int
    number: int


class Timed:
    """Work that is about to be given to a stream, its first event recorded; one of the methods ends it."""

    __slots__ = ("_began_ns", "_launcher", "_start", "_stream", "_times")

    def __init__(
        self, times: "EventTimes", start: "Event", stream: int, launcher: int, began_ns: int
    ) -> None:
        self._times, self._start, self._stream = times, start, stream
        self._launcher, self._began_ns = launcher, began_ns

    def kernel(self, name: str, blocks: int, threads: int) -> None:
        """A kernel was launched."""
        given_ns, end = self._close()
        self._keep(
            end, given_ns, cuzk_tracer.span(name, a0="blocks", a1="threads"), gpu.KERNEL, blocks, threads
        )

    def copied(self, way: str, host_address: int, size: int) -> None:
        """A copy was given; way: "h2d" or "d2h"."""
        given_ns, end = self._close()
        pinned = self._times.is_pinned(host_address)
        span = cuzk_tracer.span(f"memcpy.{way}.{'pinned' if pinned else 'pageable'}", a0="bytes")
        # Of pageable memory the driver may have copied most by the time the call returns.
        self._keep(end, given_ns if pinned else self._began_ns, span, gpu.MEMCPY, size)

    def filled(self, size: int) -> None:
        """Memory is being set to zero."""
        given_ns, end = self._close()
        self._keep(end, given_ns, cuzk_tracer.span("memset", a0="bytes", a1="value"), gpu.MEMSET, size)

    def _close(self) -> "tuple[int, Event | None]":
        return self._times.clock(), self._times.happening(self._stream)

    def _keep(self, end: "Event | None", given_ns: int, name: Any, kind: int, a0: int, a1: int = 0) -> None:
        if end is not None:
            self._times.keep(self._start, end, given_ns, name, kind, self._stream, self._launcher, a0, a1)


class EventTimes:
    """The event pairs of one device. All is called with its context current; any thread.

    cuda: the driver's library. new_event: makes one, raising when there are no more. clock: CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        cuda: Any,
        device: int,
        new_event: "Callable[[], Event]",
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._cuda, self._device, self._new_event, self.clock = cuda, device, new_event, clock
        self._spare: list[Event] = []
        self._pending: dict[int, deque[_Pair]] = {}
        self._streams: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._since_drain = 0
        self._draining = threading.Lock()
        self.worst_drift_ns = 0
        stream = ctypes.c_void_p()
        made = cuda.cuStreamCreate(ctypes.byref(stream), _NON_BLOCKING) == 0
        self._stream = stream
        self._anchor = self._measure() if made else None
        if self._anchor is not None:
            atexit.register(self.drain)

    @property
    def works(self) -> bool:
        """False once the device gives no events any more, and then for good."""
        return self._anchor is not None

    @property
    def doubt_ns(self) -> int:
        """How far the present anchor may be off."""
        return self._anchor.doubt_ns if self._anchor is not None else 0

    # Around each launch

    def begin(self, stream: int) -> Timed | None:
        """Just before work is given to a stream; None where it is not to be recorded or cannot be."""
        launcher = gpu.launcher()
        if launcher is None or self._anchor is None:
            return None
        began_ns = self.clock()
        start = self.happening(stream)
        return None if start is None else Timed(self, start, stream, launcher, began_ns)

    def happening(self, stream: int) -> "Event | None":
        """An event behind what the stream has been given; None where there are no more."""
        try:
            event = self._spare.pop()
        except IndexError:
            try:
                event = self._new_event()
            except Exception:  # the launch is what matters
                return None
        return event if self._cuda.cuEventRecord(event.handle, ctypes.c_void_p(stream)) == 0 else None

    def keep(
        self, start: "Event", end: "Event", given_ns: int, name: Any, kind: int, stream: int, launcher: int,
        a0: int, a1: int,
    ) -> None:  # fmt: skip
        """A pair to be read when it has happened: as many as the driver lets a host run ahead."""
        anchor = self._anchor
        if anchor is None:
            return
        pair = _Pair(start, end, anchor, given_ns, name, kind, stream, launcher, a0, a1, next(_numbers))
        pending = self._pending.get(stream)
        if pending is None:
            pending = self._pending.setdefault(stream, deque())
        pending.append(pair)
        self._since_drain += 1
        if self._since_drain >= DRAIN_EVERY:
            self.drain()

    def is_pinned(self, address: int) -> bool:
        """Whether host memory is page-locked, as the driver knows it."""
        kind = ctypes.c_uint()
        status = self._cuda.cuPointerGetAttribute(ctypes.byref(kind), _MEMORY_TYPE, ctypes.c_uint64(address))
        return bool(status == 0 and kind.value == _HOST)

    # Reading back

    def settle(self) -> None:
        """Where the host has just waited for the device: read what has happened, and tie the clocks anew."""
        self.drain()
        anchor = self._anchor
        if anchor is None or self.clock() - anchor.host_ns < ANCHOR_EVERY_NS:
            return
        fresh = self._measure()
        if fresh is None or fresh.doubt_ns > MOST_DOUBT_NS:
            return
        passed = self._elapsed_ns(anchor.event, fresh.event)
        if passed is not None:
            drift = fresh.host_ns - anchor.host_ns - passed
            self.worst_drift_ns = max(self.worst_drift_ns, abs(drift))
            if abs(drift) > MOST_DRIFT_NS:
                cuzk_tracer.mark(f"GPU{self._device}: its clock jumped against the host's (ns)", drift)
        self._anchor = fresh

    def drain(self) -> None:
        """Record what has happened by now. Another thread that does so already is left to it."""
        if not self._draining.acquire(blocking=False):
            return
        try:
            self._since_drain = 0
            for pending in tuple(self._pending.values()):
                while pending and self._anchor is not None:
                    status = self._cuda.cuEventQuery(pending[0].end.handle)
                    if status == 0:
                        self._write(pending.popleft())
                    elif status == NOT_READY:
                        break
                    else:  # the context is lost, and every later call will say so
                        self._give_up()
        finally:
            self._draining.release()

    def _give_up(self) -> None:
        self._anchor = None
        unread = sum(len(pending) for pending in self._pending.values())
        self._pending.clear()
        cuzk_tracer.mark(f"GPU{self._device}: launches whose times were lost with the device", unread)

    def _write(self, pair: _Pair) -> None:
        offset, length = (
            self._elapsed_ns(pair.anchor.event, pair.start),
            self._elapsed_ns(pair.start, pair.end),
        )
        self._spare += (pair.start, pair.end)
        if offset is None or length is None:
            return
        start = pair.anchor.host_ns + offset
        end = start + max(0, length)
        start = max(start, min(pair.given_ns, end))
        # A stream does one thing after the other, whatever rounding and a new anchor make of it.
        late = max(0, self._ends.get(pair.stream, start) - start)
        self._ends[pair.stream] = end + late
        gpu.record(
            pair.name,
            pair.kind,
            start + late,
            end + late,
            device=self._device,
            stream=self._streams.setdefault(pair.stream, len(self._streams) + 1),
            launcher=pair.launcher,
            a0=pair.a0,
            a1=pair.a1,
            corr=pair.number,
        )

    # Clocks

    def _measure(self) -> _Anchor | None:
        """The best of a few events that are waited for. Each happened between the call that recorded it and
        the return of the wait, and on a stream without work about when the first returned.
        """
        best = None
        for _ in range(TRIES):
            before = self.clock()
            event = self.happening(self._stream.value or 0)
            given = self.clock()
            if event is None or self._cuda.cuEventSynchronize(event.handle) != 0:
                return best
            doubt = max(given - before, self.clock() - given)
            if best is None or doubt < best.doubt_ns:
                best = _Anchor(event, given, doubt)
        return best

    def _elapsed_ns(self, start: "Event", end: "Event") -> int | None:
        """A float of milliseconds, so 60 ns coarse after a second and 1 µs after a quarter of a minute."""
        out = ctypes.c_float()
        if self._cuda.cuEventElapsedTime(ctypes.byref(out), start.handle, end.handle) != 0:
            return None
        return round(out.value * 1e6)
