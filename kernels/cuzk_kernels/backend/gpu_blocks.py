"""What a device lends and takes back: pieces of its memory, page-locked host memory, events."""

import ctypes
from typing import Any

from cuzk_kernels.errors import MissingError

_POOL_STEP = 1 << 20


class Block:
    """A piece of device memory: `address`, `size` bytes usable. Back to the pool with `release`."""

    __slots__ = ("_pool", "_room", "address", "size")

    def __init__(self, pool: "Pool", address: int, size: int, room: int) -> None:
        self._pool, self.address, self.size, self._room = pool, address, size, room

    def release(self) -> None:
        if self.address:
            self._pool.give(self.address, self._room)
            self.address = 0

    def __del__(self) -> None:
        self.release()


class Pool:
    """Released blocks by size, so that repeated work allocates nothing."""

    def __init__(self, allocate: Any, free: Any, describe: Any) -> None:
        self._allocate, self._free, self._describe = allocate, free, describe
        self._spare: dict[int, list[int]] = {}
        self.held_bytes = 0

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes. Raises MissingError when the device has no more."""
        step = max(_POOL_STEP, 1 << max(0, size.bit_length() - 4))  # at most an eighth is wasted
        room = -(-max(size, 1) // step) * step
        spare = self._spare.get(room)
        if spare:
            return Block(self, spare.pop(), size, room)
        address = self._allocate(room)
        if address is None:
            self.trim()
            address = self._allocate(room)
        if address is None:
            raise MissingError(f"out of GPU memory: {room >> 20} MiB more are needed; {self._describe()}")
        self.held_bytes += room
        return Block(self, address, size, room)

    def give(self, address: int, room: int) -> None:
        self._spare.setdefault(room, []).append(address)

    def trim(self) -> None:
        """Return everything spare to the driver."""
        for room, addresses in self._spare.items():
            for address in addresses:
                self._free(address)
                self.held_bytes -= room
        self._spare.clear()


class Pinned:
    """Page-locked host memory from the driver; `view` is writable."""

    def __init__(self, cuda: ctypes.CDLL, size: int) -> None:
        pointer = ctypes.c_void_p()
        self._cuda = cuda
        status = cuda.cuMemHostAlloc(ctypes.byref(pointer), ctypes.c_size_t(max(size, 1)), 1)  # portable
        if status != 0 or pointer.value is None:
            raise MissingError(f"{size >> 20} MiB of pinned host memory cannot be had (CUDA error {status})")
        self.address, self.size = pointer.value, size
        self.view = memoryview((ctypes.c_char * size).from_address(self.address)).cast("B")

    def __del__(self) -> None:
        if getattr(self, "address", None):
            self._cuda.cuMemFreeHost(ctypes.c_void_p(self.address))


class Event:
    """A moment on a stream. PyCUDA's own cannot be released from another thread."""

    def __init__(self, cuda: ctypes.CDLL) -> None:
        self._cuda, self.handle = cuda, ctypes.c_void_p()
        status = cuda.cuEventCreate(ctypes.byref(self.handle), 0)
        if status != 0:  # also how a fault of earlier work shows
            raise MissingError(f"the GPU gives no event (CUDA error {status}); nothing was written")

    def __del__(self) -> None:
        if self.handle:
            self._cuda.cuEventDestroy_v2(self.handle)
