"""What the header says beside the trace, read from a session's metadata; live and replay alike."""

from __future__ import annotations

import numpy as np

from cuzk_top import figures, stages
from cuzk_top.controls import Facts, Playback, SessionControls
from cuzk_top.model import Snapshot

__all__ = ["Facts", "Playback", "SessionControls", "describe"]

BACKENDS = {"cpu-native": "CPU native", "cpu-python": "CPU pure Python", "gpu-cuda": "CUDA"}


def describe(snapshot: Snapshot) -> Facts:
    """Job, back end, GPU and sources of a session; a GPU that tells nothing says why."""
    meta = snapshot.session.meta
    backend = BACKENDS.get(meta.get("backend", ""), meta.get("backend", ""))
    threads = meta.get("threads", "")
    if backend and threads:
        backend = f"{backend}, {threads} thread{'' if threads == '1' else 's'}"
    counters = {counter.key: counter for counter in snapshot.counters}
    sources = ["tracer"]
    if any(key.startswith("host.") and len(counter.value) for key, counter in counters.items()):
        sources.append("proc")
    gpu = counters.get("gpu.0.util")
    if gpu is not None and len(gpu.value):
        sources.append("nvml")
    times = meta.get("gpu.times")
    if snapshot.devices:
        sources.append("events" if times else "cupti")
    missing = meta.get("gpu.problem") or meta.get("gpu.paused") or (gpu.missing if gpu is not None else None)
    return Facts(
        job=meta.get("job", snapshot.session.name),
        backend=backend,
        gpu=_gpu_words(times, missing, bool(snapshot.devices)),
        tracing=_cost(snapshot),
        measured=tuple(sources),
    )


def _gpu_words(times: str | None, missing: str | None, has_records: bool) -> str:
    """What is to be said of the source of device times; "" where it is CUPTI and tells."""
    if times is not None:
        return f"times: {times}"
    return f"no device data ({missing})" if missing and not has_records else ""


LAUNCH_COST_NS = 1_500
"""What recording a kernel, copy or fill adds to a program that does nothing but launch: 0.1 to 2.4 µs were
measured on H200s (tests/gpu/results.md). One that waits for its kernels loses less."""
EVENTS_COST_NS = 4_600
"""The same where our own prover times its launches by pairs of CUDA events; one H200."""
RATE_OVER_NS = 1_000_000_000


def launches_per_s(snapshot: Snapshot) -> float:
    """Kernels, copies and fills that ended in the last second before now, a second."""
    low = snapshot.now_ns - RATE_OVER_NS
    count = 0
    for row in snapshot.rows:
        if stages.has_work(row.lane):
            ends = row.columns.end_ns
            count += int(np.searchsorted(ends, snapshot.now_ns)) - int(np.searchsorted(ends, low))
    return count * 1e9 / RATE_OVER_NS


def _cost(snapshot: Snapshot) -> str | None:
    """Launches a second and what recording them costs; None without devices."""
    if not snapshot.devices:
        return None
    rate = launches_per_s(snapshot)
    each = EVENTS_COST_NS if "gpu.times" in snapshot.session.meta else LAUNCH_COST_NS
    return f"{figures.si(rate)} launches/s, +{rate * each / 1e7:.1g}%"
