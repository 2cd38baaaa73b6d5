"""The native library itself: found and loaded, and the memory it works on."""

import ctypes
import mmap
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuzk_kernels.errors import MissingError

CPU_LEVELS = ("portable", "adx", "ifma")  # Level in cuda/x86.cuh: each needs more of the processor

_pointer, _i64, _int, _u32 = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_uint32
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "threads": (_int, ()),
    "cpu_level": (_int, (_int,)),
    "field_operation": (None, (_int, _int, _pointer, _pointer, _pointer, _i64)),
    "take_faults": (None, (_pointer,)),
    "worker_name": (_pointer, (ctypes.c_char_p,)),
    "worker_spans": (None, (_pointer,)),
    "point_check": (_i64, (_int, _int, _pointer, _i64, _int, _pointer)),
    "witness_check": (_i64, (_int, _pointer, _i64)),
    "eval_ab": (_i64, (_int, _pointer, _i64, _pointer, _u32, _u32, _pointer, _pointer, _pointer)),
    "product": (None, (_int, _pointer, _pointer, _pointer, _i64)),
    "pointwise": (None, (_int, _pointer, _pointer, _pointer, _pointer, _i64)),
    "intt": (None, (_int, _pointer, _int)),
    "coset": (None, (_int, _pointer, _int)),
    "ntt": (None, (_int, _pointer, _int)),
    "reorder": (None, (_pointer, _int)),
    "montgomery": (None, (_int, _pointer, _pointer, _i64, _int)),
    "msm_window_bits": (_int, (_int, _pointer, _i64)),
    "msm_begin": (_pointer, (_int, _int, _pointer, _pointer, _i64, _int)),
    "msm_digits": (None, (_pointer,)),
    "msm_accumulate": (None, (_pointer,)),
    "msm_reduce": (None, (_pointer,)),
    "msm_horner": (None, (_pointer, _pointer)),
    "msm_end": (None, (_pointer,)),
    "combine": (None, (_int, _int, _pointer, _pointer, _i64, _pointer)),
    "fixed_base": (None, (_int, _int, _pointer, _pointer, _i64, _pointer)),
    "touch": (None, (_pointer, _i64, _int)),
    "lock": (_int, (_pointer, _i64, _int, _int)),
}


class Library:
    """The loaded functions, without their prefix."""

    def __init__(self, path: Path) -> None:
        handle = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(handle, f"cuzk_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


_loaded: Library | None = None


def _path() -> Path | None:
    here = Path(__file__).resolve().parent.parent
    return next((p for suffix in EXTENSION_SUFFIXES if (p := here / f"_host{suffix}").exists()), None)


def library() -> Library:
    """The native library; raises MissingError where it is not built or does not load."""
    global _loaded  # noqa: PLW0603 (one library a process)
    if _loaded is None:
        path = _path()
        if path is None:
            raise MissingError("the native library is not built: install again where a C++ compiler is")
        try:
            _loaded = Library(path)
        except (OSError, AttributeError) as error:
            raise MissingError(f"the native library does not load: {error}") from None
    return _loaded


def available() -> str | None:
    """None where the native back end can be used, else why not."""
    try:
        library()
    except MissingError as error:
        return str(error)
    return None


class Memory:
    """Zeroed memory of this process: `address` is valid as long as the object lives."""

    def __init__(self, size: int) -> None:
        self._map = mmap.mmap(-1, max(size, 1))
        self._anchor = ctypes.c_char.from_buffer(self._map)
        self.address = ctypes.addressof(self._anchor)
        self.size = size

    def view(self) -> memoryview:
        return memoryview(self._map)[: self.size]


class Borrowed:
    """The address of a buffer's bytes: in place where it is writable or bytes, else of a copy."""

    def __init__(self, data: memoryview | bytes, size: int) -> None:
        if len(data) < size:
            raise ValueError(f"buffer of {len(data)} bytes where {size} are needed")
        self.address = None
        self._keep: object = None
        if size == 0:
            return
        if isinstance(data, memoryview) and data.readonly:
            data = bytes(data[:size])
        if isinstance(data, bytes):
            self._keep = data
            self.address = ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p).value
        else:
            self._keep = ctypes.c_char.from_buffer(data)
            self.address = ctypes.addressof(self._keep)


def cpu_level(limit: str = CPU_LEVELS[-1]) -> str:
    """Use no more of the processor than `limit`, one of CPU_LEVELS; returns the level now in use.

    For tests and benchmarks: the library picks the best by itself.
    """
    return CPU_LEVELS[library().cpu_level(CPU_LEVELS.index(limit))]


def touch(memory: Memory, threads: int) -> None:
    """Write one byte to every page of the memory, the pages shared out over the threads."""
    library().touch(memory.address, memory.size, threads)


def lock(memory: Memory, threads: int) -> None:
    """mlock the memory, in parts, on the threads. Raises OSError where the limit on locked memory forbids."""
    error = library().lock(memory.address, memory.size, threads, 1)
    if error:
        raise OSError(error, "mlock")


def unlock(memory: Memory) -> None:
    library().lock(memory.address, memory.size, 1, 0)
