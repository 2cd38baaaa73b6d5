"""The choice of a back end."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cuzk_kernels.errors import InputError, MissingError

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_device import Device
    from cuzk_kernels.backend.protocol import Backend

NAMES = ("auto", "cuda", "native", "python")


class CudaOptions(NamedTuple):
    """devices: their numbers; h2d, b_g2, memory: see CudaBackend."""

    devices: tuple[int, ...] = (0,)
    h2d: str = "pool"
    b_g2: str = "gpu"
    memory: int | None = None


def choose(name: str = "auto", cuda: CudaOptions | None = None) -> tuple["Backend", str | None]:
    """The back end of that name, and what the user should know: why "auto" had to do without a GPU that is
    there, or the native library; or where a GPU's times come from, if not from CUPTI.

    Raises MissingError when "cuda" or "native" is asked for and cannot be had, InputError for another name.
    """
    if name not in NAMES:
        raise InputError(f"unknown back end {name!r}: choose one of {', '.join(NAMES)}")
    if name == "cuda" or (name == "auto" and Path("/dev/nvidiactl").exists()):
        try:
            return _cuda(cuda or CudaOptions())
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


def _trace_device() -> str | None:
    """Have kernels and copies recorded from the first context on; why CUPTI cannot, None also without a
    trace. The ring is made now: a program need not have recorded anything before.
    """
    import cuzk_tracer  # noqa: PLC0415
    from cuzk_tracer import gpu  # noqa: PLC0415

    return gpu.start() if cuzk_tracer.open() is not None else None


def _time_by_events(devices: "list[Device]", why: str) -> str:
    """Have the devices' work timed by events instead; the line that says so."""
    from cuzk_tracer import meta  # noqa: PLC0415

    why = why.removeprefix("no kernels and copies: ")
    timed = [device.time_by_events() for device in devices]
    if not all(timed):
        meta(**{"gpu.problem": f"kernels and copies are not recorded: {why}; nor does the GPU give events"})
        return f"no GPU times: {why}; nor does the GPU give events"
    source = f"CUDA events ({why}): kernels and copies of this prover only"
    meta(**{"gpu.times": source})
    return f"GPU times: {source}"


def _cuda(options: CudaOptions) -> "tuple[Backend, str | None]":
    from cuzk_kernels.backend.cuda import CudaBackend  # noqa: PLC0415 (needed with a GPU only)
    from cuzk_kernels.backend.gpu_device import Device  # noqa: PLC0415 (loads PyCUDA)

    why = _trace_device()
    devices = [Device(index) for index in options.devices]
    host = _host()[0]
    backend = CudaBackend(devices, host, h2d=options.h2d, b_g2=options.b_g2, memory=options.memory)
    return backend, _time_by_events(devices, why) if why is not None else None
