"""The in-process tracer: spans, counters and marks of this process, readable from outside while it runs.

    import cuzk_tracer

    MSM = cuzk_tracer.span("msm.h", a0="points", a1="window_bits", stage=True, faults=True)

    with MSM(65536, 13):
        ...

Standard library only. Nothing here raises into the program being traced: where the ring cannot be written,
everything becomes a no-op and `problem` says why. Environment: CUZK_TRACE=off|coarse|all (default all).

There are two writers with one behaviour: a C extension, and pure Python where that could not be built. Both
write the ring that `include/cuzk_trace.h` writes from C, C++ and Rust. CUZK_TRACER=python takes the second.
"""

import os

try:
    if os.environ.get("CUZK_TRACER") == "python":
        raise ImportError
    from cuzk_tracer import _native as _writer
except ImportError:
    from cuzk_tracer import fallback as _writer  # type: ignore[no-redef]

Span = _writer.Span
AsyncSpan = _writer.AsyncSpan
span = _writer.span
async_span = _writer.async_span
counter = _writer.counter
mark = _writer.mark
flow = _writer.flow
add_faults = _writer.add_faults
meta = _writer.meta
enable = _writer.enable
disable = _writer.disable
open = _writer.open_ring
ring_path = _writer.ring_path
problem = _writer.problem


def writer() -> str:
    """Which writer this process has: "native" or "python"."""
    return "python" if _writer.__name__ == "cuzk_tracer.fallback" else "native"


def header() -> str:
    """Folder of `cuzk_trace.h`, for a compiler's -I."""
    return __file__.rpartition("/")[0] + "/include"


__all__ = [
    "AsyncSpan",
    "Span",
    "add_faults",
    "async_span",
    "counter",
    "disable",
    "enable",
    "flow",
    "header",
    "mark",
    "meta",
    "open",
    "problem",
    "ring_path",
    "span",
    "writer",
]
