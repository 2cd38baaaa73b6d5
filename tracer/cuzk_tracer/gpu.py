"""Kernels and copies of this process, or of one to be started, into the ring. Standard library only.

The capture itself is a C library of its own (`gpu_capture/`), which CUDA's driver loads into any program that
is started with `environment`, and which `start` loads into this one. It opens libcupti itself; `cupti_files`
only says where Python packages keep theirs.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from glob import glob
from importlib.machinery import EXTENSION_SUFFIXES

import cuzk_tracer
from cuzk_tracer import layout

CUDA_VARIABLE = "CUDA_INJECTION64_PATH"
NVTX_VARIABLE = "NVTX_INJECTION64_PATH"
CUPTI_VARIABLE = "CUZK_CUPTI"

_WHEELS = ("nvidia/cu13/lib/libcupti.so.13", "nvidia/cuda_cupti/lib/libcupti.so.1[23]")

KERNEL, MEMCPY, MEMSET = layout.KIND_GPU_KERNEL, layout.KIND_GPU_MEMCPY, layout.KIND_GPU_MEMSET

launcher = cuzk_tracer._writer.launcher
_device = cuzk_tracer._writer.device

_library: ctypes.CDLL | None = None


def library() -> str | None:
    """Path of the capture library; None where it was not built (no compiler at installation)."""
    folder = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 (pathlib takes 10 ms to import)
    for suffix in EXTENSION_SUFFIXES:
        path = f"{folder}/_gpu{suffix}"
        if os.path.exists(path):  # noqa: PTH110
            return path
    return None


def cupti_files() -> list[str]:
    """libcupti of Python packages (nvidia-cuda-cupti and what depends on it), newest first."""
    found: list[str] = []
    for folder in sys.path:
        for wheel in _WHEELS:
            found += sorted(glob(f"{folder or '.'}/{wheel}"), reverse=True)  # noqa: PTH207 (as above)
    return sorted(set(found), key=lambda path: (-int(path.rpartition(".")[2]), found.index(path)))


def environment(env: Mapping[str, str]) -> tuple[dict[str, str], str | None]:
    """Variables to add to `env` so that a program started with it is captured, and what will not be, in a
    line.

    A tool that is set up in `env` already is left alone.
    """
    path = library()
    if path is None:
        return {}, "kernels and copies are not recorded: the capture library was not built (no C compiler)"
    added, taken = {}, []
    for variable, what in ((CUDA_VARIABLE, "kernels and copies"), (NVTX_VARIABLE, "NVTX ranges")):
        if env.get(variable, path) == path:
            added[variable] = path
        else:
            taken.append(f"{what} are not recorded: {variable} is set to {env[variable]}")
    if CUDA_VARIABLE in added and CUPTI_VARIABLE not in env and (files := cupti_files()):
        added[CUPTI_VARIABLE] = ":".join(files)
    return added, "; ".join(taken) or None


def start() -> str | None:
    """Record what this process does on GPUs from now on; the reason why not, or None. Never raises.

    Call it before the first CUDA context: later, the next launch waits some 20 ms. Where the driver is to
    load a capture library it is that one, so that nothing is recorded twice; another tool is left alone.
    """
    global _library  # noqa: PLW0603
    try:
        if _library is None:
            injected = os.environ.get(CUDA_VARIABLE)
            path = injected or library()
            if path is None:
                return "the capture library was not built (no C compiler)"
            if CUPTI_VARIABLE not in os.environ and (files := cupti_files()):
                os.environ[CUPTI_VARIABLE] = ":".join(files)
            loaded = ctypes.CDLL(path)
            if injected and not hasattr(loaded, "cuzk_gpu_start"):
                return f"{CUDA_VARIABLE} is set to {injected}"
            _library = _declared(loaded)
        if _library.cuzk_gpu_start():
            return None
        said: bytes | None = _library.cuzk_gpu_problem()
        return said.decode("utf-8", "replace") if said else "unknown"
    except (OSError, AttributeError) as error:
        return str(error)


def flush() -> None:
    """Hand over what is complete now; otherwise it is, 20 times a second."""
    capture = _library or _loaded()
    if capture is not None:
        capture.cuzk_gpu_flush()


@contextmanager
def launches() -> Iterator[None]:
    """What this thread launches inside has its innermost open span as parent.

    From its first use on CUPTI calls back at each driver call of the process, which costs a launch 0.0 to
    0.15 µs. One that stands still in the driver is recorded as a wait then (`sync.cuLaunchKernel`).
    """
    capture = _library or _loaded()
    if capture is None:
        yield
        return
    capture.cuzk_gpu_enter_as(launcher() or 0)
    try:
        yield
    finally:
        capture.cuzk_gpu_leave()


def _loaded() -> ctypes.CDLL | None:
    """The capture that the driver loaded by itself, as it does in a program under `cuzk-top run`."""
    global _library  # noqa: PLW0603
    injected = os.environ.get(CUDA_VARIABLE)
    if injected is not None:
        try:
            _library = _declared(ctypes.CDLL(injected, mode=os.RTLD_NOW | os.RTLD_NOLOAD))
        except (OSError, AttributeError):  # not yet, or another tool
            return None
    return _library


def _declared(loaded: ctypes.CDLL) -> ctypes.CDLL:
    """With the types of its functions."""
    loaded.cuzk_gpu_problem.restype = ctypes.c_char_p
    loaded.cuzk_gpu_enter_as.argtypes = [ctypes.c_uint64]
    return loaded


def record(
    name: cuzk_tracer.Span,
    kind: int,
    start_ns: int,
    end_ns: int,
    *,
    device: int,
    stream: int,
    launcher: int,
    a0: int = 0,
    a1: int = 0,
    corr: int = 0,
) -> None:
    """Record what a device did, as CUPTI's records are, where a program timed it itself.

    name: a span, for its name and those of its arguments. kind: KERNEL, MEMCPY or MEMSET. Times are of
    CLOCK_MONOTONIC in ns, the end not below the start. launcher: what `launcher()` was when it was launched.
    corr: its number among the launches of the process. Goes into the ring of the calling thread.
    """
    _device(name, kind, start_ns, end_ns, device, stream, launcher, a0, a1, corr)
