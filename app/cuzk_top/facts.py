"""What the header says beside the trace, read from a session's metadata; live and replay alike."""

from __future__ import annotations

from cuzk_top.controls import Facts, Playback, SessionControls
from cuzk_top.model import Snapshot

__all__ = ["Facts", "Playback", "SessionControls", "describe"]

BACKENDS = {"cpu-native": "CPU native", "cpu-python": "CPU pure Python"}


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
    missing = gpu.missing if gpu is not None else None
    return Facts(
        job=meta.get("job", snapshot.session.name),
        backend=backend,
        gpu=f"no device data ({missing})" if missing else "",
        measured=tuple(sources),
    )
