"""One CUDA device through PyCUDA: memory, copies, launches. All that the rest of the back end knows of CUDA.

Imported only when a GPU is asked for. Device memory is an address (int) in a `Block` that returns to a pool
when it is released: cuMemAlloc and cuMemFree wait for the device. Pinned host memory comes from the driver
through ctypes, because PyCUDA's functions for it want numpy arrays.
"""

import atexit
import ctypes
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import cuzk_tracer
from cuzk_kernels.backend import gpu_build
from cuzk_kernels.backend.gpu_blocks import Block, Event, Pinned, Pool
from cuzk_kernels.backend.gpu_kernels import SIGNATURES
from cuzk_kernels.errors import MissingError

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_events import EventTimes, Timed

INSTALL = "install it with: pip install 'cuzk-top[gpu]'"
_MIN_CAPABILITY = (8, 0)
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
_current = threading.local()  # the device whose context is current


def _driver() -> Any:
    try:
        from pycuda import driver  # noqa: PLC0415 (imports numpy: only where a GPU is asked for)
    except ImportError as error:
        if "libcuda" in str(error):
            raise MissingError("no NVIDIA driver: libcuda.so.1 cannot be loaded on this machine") from None
        raise MissingError(f"PyCUDA is not installed ({error}): {INSTALL}") from None
    try:
        driver.init()
    except driver.Error as error:
        raise MissingError(f"the NVIDIA driver does not start: {error}") from None
    return driver


def count() -> int:
    """How many GPUs there are; raises MissingError without a driver or without PyCUDA."""
    return int(_driver().Device.count())


class Device:
    """GPU number `index`, its context current on the calling thread."""

    def __init__(self, index: int = 0) -> None:
        driver = self._driver = _driver()
        found = driver.Device.count()
        if found == 0:
            raise MissingError("no NVIDIA GPU on this machine")
        if not 0 <= index < found:
            raise MissingError(f"there is no GPU {index}: this machine has {found}, counted from 0")
        device = driver.Device(index)
        self.index, self.name = index, str(device.name())
        self.capability = tuple(device.compute_capability())
        if self.capability < _MIN_CAPABILITY:
            raise MissingError(
                f"GPU {index} ({self.name}) has compute capability "
                f"{self.capability[0]}.{self.capability[1]}; 8.0 (Ampere) or newer is needed"
            )
        try:
            self._context = device.retain_primary_context()
            self._context.push()
            atexit.register(self._context.pop)  # PyCUDA aborts the process where one is left
        except driver.Error as error:
            raise MissingError(
                f"GPU {index} ({self.name}) cannot be used: {error}; "
                "another process may own it (see nvidia-smi)"
            ) from None
        self.processors = int(device.get_attribute(driver.device_attribute.MULTIPROCESSOR_COUNT))
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._handle = ctypes.c_void_p()
        self._cuda.cuCtxGetCurrent(ctypes.byref(self._handle))
        _current.device = self
        self._owner = threading.get_ident()
        self.pool = Pool(self._allocate, self._free, self._describe)
        self.sort_pool = Pool(self._allocate, self._free, self._describe)  # blocks of the stream `sort`
        self._retired: list[tuple[Event, list[Block]]] = []
        self._modules: dict[str, Any] = {}
        self._functions: dict[tuple[str, str], Any] = {}
        self._shared: dict[tuple[str, str], int] = {}
        try:
            self.compute, self.copy, self.sort = (driver.Stream() for _ in range(3))
        except driver.Error as error:
            raise MissingError(f"GPU {index} ({self.name}) gives no streams: {error}") from None
        self.fingerprints: dict[str, str] = {}
        self._sources: dict[str, gpu_build.Sources] = {}
        self._told: dict[str, str] = {}
        self._kept: list[Pinned] = []
        self._scratch: list[Pinned] = []
        self._times: EventTimes | None = None

    def time_by_events(self) -> bool:
        """Time everything that is given to the device from now on, for want of CUPTI; False where it gives
        no events.
        """
        from cuzk_kernels.backend.gpu_events import EventTimes  # noqa: PLC0415 (rarely needed)

        self.attach()
        times = EventTimes(self._cuda, self.index, lambda: Event(self._cuda))
        self._times = times if times.works else None
        return times.works

    def _timed(self, stream: Any = None) -> "Timed | None":
        return self._times.begin((stream or self.compute).handle) if self._times is not None else None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let the calling thread use the device.

        PyCUDA keeps a stack of contexts for each thread, and ends the process when one is left on it.
        """
        if threading.get_ident() == self._owner:
            yield
            return
        self._context.push()
        before, _current.device = getattr(_current, "device", None), self
        try:
            yield
        finally:
            self._context.pop()
            _current.device = before

    def attach(self) -> None:
        """Make this the calling thread's device, of several."""
        if getattr(_current, "device", None) is not self:
            self._check(self._cuda.cuCtxSetCurrent(self._handle), "use from another thread")
            _current.device = self

    def _allocate(self, size: int) -> int | None:
        self.attach()
        pointer = ctypes.c_uint64()
        status = self._cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
        if status == _OUT_OF_MEMORY:
            self.reuse_sort_blocks(0)
            self.finish(self.event(self.sort))
            self.pool.trim()
            self.sort_pool.trim()
            status = self._cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
        if status == _OUT_OF_MEMORY:
            return None
        self._check(status, "taking memory")  # after a fault on the device every call fails
        return pointer.value

    def _free(self, address: int) -> None:
        self._cuda.cuMemFree_v2(ctypes.c_uint64(address))

    def _describe(self) -> str:
        free, total = self.memory()
        return (
            f"GPU {self.index} ({self.name}) has {free >> 20} of {total >> 20} MiB free; "
            "close what else uses it, or lower --gpu-memory so that the key is streamed"
        )

    def memory(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = self._driver.mem_get_info()
        return int(free), int(total)

    def alloc(self, size: int) -> Block:
        return self.pool.take(size)

    def retire_sort_blocks(self, blocks: list[Block]) -> None:
        """Blocks of `sort_pool` that what is enqueued on `compute` so far still reads."""
        self._retired.append((self.event(), blocks))

    def reuse_sort_blocks(self, kept: int = 1) -> None:
        """Let later work on `sort` use retired blocks, but for the last `kept` lots; it waits for readers.

        One lot is kept so that sorting need not wait for the sums just enqueued.
        """
        while len(self._retired) > kept:
            event, blocks = self._retired.pop(0)
            self.wait_for(event, self.sort)
            for block in blocks:
                block.release()

    def pinned(self, size: int) -> Pinned:
        return Pinned(self._cuda, size)

    def keep(self, memory: Pinned) -> None:
        """Hold pinned memory for as long as the device lives."""
        self._kept.append(memory)

    def pinned_scratch(self, size: int) -> Pinned:
        """Pinned memory of at least `size` bytes for a result; back with `give_scratch`."""
        for index, memory in enumerate(self._scratch):
            if memory.size >= size:
                return self._scratch.pop(index)
        return self.pinned(max(size, 1 << 18))

    def give_scratch(self, memory: Pinned) -> None:
        self._scratch.append(memory)

    def upload_bytes(self, target: int, data: bytes) -> None:
        """Copy a few bytes; they may go away afterwards (the driver copies pageable memory at once)."""
        self.upload(target, ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value or 0, len(data))
        self.synchronize()

    def read(self, source: int, size: int) -> bytes:
        """Bytes from the device, once everything before is done."""
        out = ctypes.create_string_buffer(max(size, 1))
        self.download(ctypes.addressof(out), source, size)
        self.synchronize()
        return out.raw[:size]

    def register(self, address: int, size: int) -> bool:
        """Page-lock memory where it is; False where the driver refuses."""
        return bool(self._cuda.cuMemHostRegister_v2(ctypes.c_void_p(address), ctypes.c_size_t(size), 1) == 0)

    def unregister(self, address: int) -> None:
        self._cuda.cuMemHostUnregister(ctypes.c_void_p(address))

    def _check(self, status: int, what: str) -> None:
        if status != 0:
            raise MissingError(f"GPU {self.index}: {what} failed (CUDA error {status}); nothing was written")

    def upload(self, target: int, source: int, size: int, stream: Any = None) -> None:
        """Copy host bytes at an address; asynchronous where they are pinned."""
        if size:
            self.attach()
            handle = self._stream(stream)
            timed = self._timed(stream)
            status = self._cuda.cuMemcpyHtoDAsync_v2(
                ctypes.c_uint64(target),
                ctypes.c_void_p(source),
                ctypes.c_size_t(size),
                handle,
            )
            self._check(status, "copying to the device")
            if timed is not None:
                timed.copied("h2d", source, size)

    def download(self, target: int, source: int, size: int, stream: Any = None) -> None:
        if size:
            self.attach()
            handle = self._stream(stream)
            timed = self._timed(stream)
            status = self._cuda.cuMemcpyDtoHAsync_v2(
                ctypes.c_void_p(target),
                ctypes.c_uint64(source),
                ctypes.c_size_t(size),
                handle,
            )
            self._check(status, "copying from the device")
            if timed is not None:
                timed.copied("d2h", target, size)

    def clear(self, target: int, size: int, stream: Any = None) -> None:
        """Zeros, in stream order; size is a multiple of 4."""
        if size:
            self.attach()
            timed = self._timed(stream)
            status = self._cuda.cuMemsetD32Async(
                ctypes.c_uint64(target), 0, ctypes.c_size_t(size // 4), self._stream(stream)
            )
            self._check(status, "clearing memory")
            if timed is not None:
                timed.filled(size)

    def launch(
        self, unit: str, name: str, grid: int | tuple[int, int], block: int, *arguments: int, shared: int = 0,
        stream: Any = None,
    ) -> None:  # fmt: skip
        """Enqueue a kernel of a unit, on the compute stream unless another is named."""
        self.attach()
        function = self._function(unit, name)
        if shared > self._shared.get((unit, name), 48 << 10):
            function.set_attribute(self._driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
            self._shared[unit, name] = shared
        x, y = grid if isinstance(grid, tuple) else (grid, 1)
        timed = self._timed(stream)
        try:
            function.prepared_async_call(
                (x, y, 1), (block, 1, 1), stream or self.compute, *arguments, shared_size=shared
            )
        except self._driver.Error as error:
            raise MissingError(f"GPU {self.index}: {name} cannot be launched: {error}") from None
        if timed is not None:
            timed.kernel(name, x * y, block)

    def _function(self, unit: str, name: str) -> Any:
        function = self._functions.get((unit, name))
        if function is None:
            function = self._module(unit).get_function(name)
            function.prepare(SIGNATURES[name])
            self._functions[unit, name] = function
        return function

    def _module(self, unit: str) -> Any:
        module = self._modules.get(unit)
        if module is None:
            built = gpu_build.build(unit, self.capability)
            try:
                module = self._driver.module_from_buffer(built.path.read_bytes() + b"\0")
            except self._driver.Error as error:
                raise MissingError(f"GPU {self.index} refuses the kernels {built.path}: {error}") from None
            address, size = module.get_global("cuzk_fingerprint")
            text = ctypes.create_string_buffer(size)
            self._cuda.cuMemcpyDtoH_v2(text, ctypes.c_uint64(int(address)), ctypes.c_size_t(size))
            embedded = text.value.decode()
            if embedded != built.fingerprint:
                raise MissingError(
                    f"the kernels {built.path} are not those they claim to be: delete the file"
                )
            self.fingerprints[unit] = embedded
            self._sources[unit] = gpu_build.Sources(built.record)
            self._modules[unit] = module
        return module

    def tell_kernels(self) -> None:
        """Put into the trace which kernels are loaded, and what their sources on disk would make now.

        They differ when someone edits or pulls sources under a prover that runs on.
        """
        said = {f"kernels.fingerprint.{unit}": text for unit, text in self.fingerprints.items()}
        said |= {f"kernels.sources.{unit}": sources.fingerprint() for unit, sources in self._sources.items()}
        if said != self._told:
            self._told = said
            cuzk_tracer.meta(**said)

    def event(self, stream: Any = None) -> "Event":
        """An event behind everything enqueued on the stream so far."""
        self.attach()
        event = Event(self._cuda)
        self._check(self._cuda.cuEventRecord(event.handle, self._stream(stream)), "recording an event")
        return event

    def wait_for(self, event: "Event", stream: Any = None) -> None:
        """Later work of the stream runs after the event."""
        self.attach()
        self._check(self._cuda.cuStreamWaitEvent(self._stream(stream), event.handle, 0), "waiting")

    def finish(self, event: "Event") -> None:
        """Block until the event has happened: where a fault of earlier work shows."""
        self.attach()
        self._check(self._cuda.cuEventSynchronize(event.handle), "the work on the device")
        if self._times is not None:
            self._times.settle()

    def elapsed_ms(self, start: "Event", end: "Event") -> float:
        out = ctypes.c_float()
        self._check(self._cuda.cuEventElapsedTime(ctypes.byref(out), start.handle, end.handle), "timing")
        return out.value

    def _stream(self, stream: Any) -> ctypes.c_void_p:
        return ctypes.c_void_p((stream or self.compute).handle)

    def synchronize(self) -> None:
        self.finish(self.event())

    def words(self, source: int, number: int) -> Sequence[int]:
        """`number` u32 from the device, once everything before is done."""
        out = (ctypes.c_uint32 * number)()
        self.download(ctypes.addressof(out), source, 4 * number)
        self.synchronize()
        return list(out)
