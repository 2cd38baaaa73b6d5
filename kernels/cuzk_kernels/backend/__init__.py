"""The choice of a back end."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cuzk_kernels.errors import InputError, MissingError

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend

NAMES = ("auto", "cuda", "native", "python")


class CudaOptions(NamedTuple):
    """devices: their numbers; h2d, b_g2, memory: see CudaBackend."""

    devices: tuple[int, ...] = (0,)
    h2d: str = "pool"
    b_g2: str = "gpu"
    memory: int | None = None


def choose(name: str = "auto", cuda: CudaOptions | None = None) -> tuple["Backend", str | None]:
    """The back end of that name, and why "auto" had to do without a GPU that is there, or the native library.

    Raises MissingError when "cuda" or "native" is asked for and cannot be had, InputError for another name.
    """
    if name not in NAMES:
        raise InputError(f"unknown back end {name!r}: choose one of {', '.join(NAMES)}")
    if name == "cuda" or (name == "auto" and Path("/dev/nvidiactl").exists()):
        try:
            return _cuda(cuda or CudaOptions()), None
        except MissingError as error:
            if name == "cuda":
                raise
            host, why = _host()
            return host, why or f"proving on the CPU: {error}"
    return _host(name)


def _host(name: str = "auto") -> tuple["Backend", str | None]:
    reason = None
    if name != "python":
        from cuzk_kernels.backend import native  # noqa: PLC0415 (loads a shared library)

        reason = native.available()
        if reason is None:
            return native.NativeBackend(), None
        if name == "native":
            raise MissingError(f"the native back end cannot be used: {reason}")
    from cuzk_kernels.backend import pure  # noqa: PLC0415 (not needed beside the native one)

    return pure.PureBackend(), reason and f"proving in pure Python, which is slow: {reason}"


def _trace_device() -> None:
    """Have kernels and copies recorded from the first context on, if the driver does not load the capture."""
    from cuzk_tracer import gpu, meta, ring_path  # noqa: PLC0415

    if ring_path() is None or gpu.CUDA_VARIABLE in os.environ:
        return
    why = gpu.start()
    if why is not None:
        meta(**{"gpu.problem": f"kernels and copies are not recorded: {why}"})


def _cuda(options: CudaOptions) -> "Backend":
    from cuzk_kernels.backend.cuda import CudaBackend  # noqa: PLC0415 (needed with a GPU only)
    from cuzk_kernels.backend.gpu_device import Device  # noqa: PLC0415 (loads PyCUDA)

    _trace_device()
    devices = [Device(index) for index in options.devices]
    host = _host()[0]
    return CudaBackend(devices, host, h2d=options.h2d, b_g2=options.b_g2, memory=options.memory)
