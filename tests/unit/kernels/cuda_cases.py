"""The CUDA back end as tests have it: on a GPU where there is one, and emulated by the host."""

import resource
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest
from emulated_gpu import COMPILER, EmulatedDevice

from cuzk_kernels import errors
from cuzk_kernels.backend import gpu_device
from cuzk_kernels.backend.cuda import CudaBackend
from cuzk_kernels.backend.native import NativeBackend
from cuzk_kernels.backend.protocol import MsmSteps

STEPS = MsmSteps(*(nullcontext() for _ in range(4)))
BOTH = ["emulated", pytest.param("gpu", marks=pytest.mark.gpu)]


def no_gpu():
    """Why there is no GPU to test on, or ""."""
    try:
        return "" if gpu_device.count() else "no GPU"
    except errors.MissingError as error:
        return str(error)


def require_gpu():
    if reason := no_gpu():
        pytest.skip(reason)


def emulated(config, name="emulated"):
    """A device on the host; its kernels are compiled once for the same sources."""
    if COMPILER is None:
        pytest.skip("no g++")
    cache = getattr(config, "cache", None)  # absent with -p no:cacheprovider
    folder = cache.mkdir("emulated-kernels") if cache else Path(tempfile.gettempdir()) / "emulated-kernels"
    folder.mkdir(exist_ok=True)
    return EmulatedDevice(folder, name=name)


def backend_on(kind, config):
    """The back end on one device of that kind, or skips."""
    if kind == "gpu":
        require_gpu()
        return CudaBackend([gpu_device.Device(0)], NativeBackend())
    return CudaBackend([emulated(config)], NativeBackend())


def packed(values):
    return memoryview(bytearray(b"".join(v.to_bytes(32, "little") for v in values)))


def resident_bytes():
    """Memory of this process that is in RAM now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
