"""What of the CUDA driver has to do with time, simulated: streams, launches, events, two clocks.

Calls take host time; what is given to a stream begins a latency after its call, when all before it has ended.
`did` is the truth, in the host's time. The device's clock runs at its own rate and counts in steps.
"""

import struct

NOT_READY, FAILED = 600, 719
LATENCY_NS, CALL_NS, LAUNCH_NS = 1_500, 1_200, 3_000
STEP_NS = 500


class SimulatedDriver:
    """The functions of libcuda.so.1 that the back end calls through ctypes, and `launch`, as PyCUDA does."""

    def __init__(self, ppm: float = 0.0) -> None:
        self.now = 1_000_000_000_000
        self.ppm = ppm
        self.jump_ns = 0
        self.free: dict[int, int] = {}  # when all that a stream was given has ended
        self.events: dict[int, int] = {}  # when they happen, by the host's clock
        self.stamps: dict[int, int] = {}  # and by the device's
        self.made = self.waits = 0
        self.failing: dict[str, int] = {}
        self.pinned: set[int] = set()
        self.did: list[tuple[str, int, int, int]] = []

    def clock(self) -> int:
        self.now += 50
        return self.now

    def _call(self, name: str, took_ns: int = CALL_NS) -> int:
        self.now += took_ns
        return self.failing.get(name, 0)

    def _given(self, stream: int, length_ns: int) -> tuple[int, int]:
        start = max(self.now + LATENCY_NS, self.free.get(stream, 0))
        self.free[stream] = start + length_ns
        return start, start + length_ns

    def launch(self, stream: int, name: str, length_ns: int) -> None:
        self.now += LAUNCH_NS
        self.did.append((name, stream, *self._given(stream, length_ns)))

    def _device_ns(self, host_ns: int) -> int:
        return round((host_ns - 7_000_000) * (1 + self.ppm * 1e-6) + self.jump_ns) // STEP_NS * STEP_NS

    # As ctypes calls them

    def cuStreamCreate(self, out, flags) -> int:
        assert flags == 1  # not held up by the default stream
        out._obj.value = 0xABC
        return self._call("cuStreamCreate")

    def cuEventCreate(self, out, flags) -> int:
        assert flags == 0  # one that keeps times
        self.made += 1
        out._obj.value = self.made
        return self._call("cuEventCreate")

    def cuEventDestroy_v2(self, event) -> int:
        self.events.pop(event.value, None)
        return 0

    def cuEventRecord(self, event, stream) -> int:
        status = self._call("cuEventRecord")
        if status == 0:
            at = self.events[event.value] = self._given(stream.value or 0, 0)[0]
            self.stamps[event.value] = self._device_ns(at)
        return status

    def cuEventQuery(self, event) -> int:
        return self._call("cuEventQuery", 300) or (0 if self.events[event.value] <= self.now else NOT_READY)

    def cuEventSynchronize(self, event) -> int:
        self.waits += 1
        self.now = max(self.now, self.events[event.value]) + 4_000
        return self._call("cuEventSynchronize")

    def cuEventElapsedTime(self, out, start, end) -> int:
        passed = self.stamps[end.value] - self.stamps[start.value]
        out._obj.value = struct.unpack("<f", struct.pack("<f", passed / 1e6))[0]
        return self._call("cuEventElapsedTime", 300)

    def cuPointerGetAttribute(self, out, attribute, address) -> int:
        assert attribute == 2  # the kind of memory
        if address.value not in self.pinned:
            return 1  # the driver knows nothing of it
        out._obj.value = 1
        return self._call("cuPointerGetAttribute", 200)

    def _copy(self, host: int, size: int, stream: int, name: str) -> int:
        self.now += LAUNCH_NS
        length_ns = size // (50 if host in self.pinned else 8)  # GB/s
        start, end = self._given(stream, length_ns)
        if host not in self.pinned:  # the call copies it through the driver's own buffer
            self.now = end
        self.did.append(
            (f"memcpy.{name}.{'pinned' if host in self.pinned else 'pageable'}", stream, start, end)
        )
        return self.failing.get("cuMemcpy", 0)

    def cuMemcpyHtoDAsync_v2(self, target, source, size, stream) -> int:
        return self._copy(source.value, size.value, stream.value, "h2d")

    def cuMemcpyDtoHAsync_v2(self, target, source, size, stream) -> int:
        return self._copy(target.value, size.value, stream.value, "d2h")

    def cuMemsetD32Async(self, target, value, count, stream) -> int:
        self.launch(stream.value, "memset", 4 * count.value // 2000)
        return 0

    def cuCtxGetCurrent(self, out) -> int:
        return 0

    def cuCtxSetCurrent(self, context) -> int:
        return 0
