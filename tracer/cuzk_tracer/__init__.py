"""The in-process tracer: spans, counters and marks of this process, readable from outside while it runs.

    import cuzk_tracer

    MSM = cuzk_tracer.span("msm.h", a0="points", a1="window_bits", stage=True, faults=True)

    with MSM(65536, 13):
        ...

Standard library only. Nothing here raises into the program being traced: where the ring cannot be written,
everything becomes a no-op and `problem` says why. Environment: CUZK_TRACE=off|coarse|all (default all).
"""

from cuzk_tracer.asyncs import AsyncSpan, async_span
from cuzk_tracer.fallback import Span, add_faults, disable, enable, span
from cuzk_tracer.process import meta, problem, ring_path
from cuzk_tracer.process import open_ring as open
from cuzk_tracer.records import counter, mark

__all__ = [
    "AsyncSpan",
    "Span",
    "add_faults",
    "async_span",
    "counter",
    "disable",
    "enable",
    "mark",
    "meta",
    "open",
    "problem",
    "ring_path",
    "span",
]
