"""What the inspector says of a kernel or copy beyond what it says of every span."""

from __future__ import annotations

import re

from cuzk_top import figures, stagemap, stages, stats
from cuzk_top.devicetime import together
from cuzk_top.model import DEVICE_KINDS, KIND_GPU_KERNEL, KIND_GPU_MEMCPY, Snapshot, SpanRecord


def lines(snapshot: Snapshot, record: SpanRecord) -> list[tuple[str, str]]:
    """(label, text) pairs; none for a span of the host."""
    if record.kind not in DEVICE_KINDS:
        return []
    found = []
    track = snapshot.session.tracks.get(record.track)
    if track is not None:
        found.append(("stream", track.label))
    if record.kind == KIND_GPU_MEMCPY and record.duration_ns:
        rate = record.a0 / record.duration_ns
        found.append(("rate", f"{figures.three(rate)} GB/s"))
    if record.kind == KIND_GPU_KERNEL:
        place = _place(snapshot, record.name)
        if place.stage:
            found.append(("stage", f"{place.stage} ({place.library})"))
        command = profile_command(snapshot, record)
        if command:
            found.append(("profile", command))
    return found


def device_time(snapshot: Snapshot, start_ns: int, end_ns: int) -> list[str]:
    """What the GPUs did while a host's span ran; nothing without devices."""
    if not snapshot.devices or end_ns <= start_ns:
        return []
    split = together(snapshot.devices, len(snapshot.devices), start_ns, end_ns)
    kernel, copy, idle = split.percent()
    return [f"kernel {kernel} copy {copy} idle {idle} %, {figures.spaced(split.kernel_ns)} of kernels"]


def _place(snapshot: Snapshot, name: str) -> stagemap.Place:
    rules = stagemap.load()
    rules.see(entry.text for entry in snapshot.session.names)
    return rules.kernel(name)


def profile_command(snapshot: Snapshot, record: SpanRecord) -> str:
    """The `ncu` command that profiles this launch of a run that does the same again; "" where it is not
    known.

    ncu counts the launches of what matches a kernel's own name, in order of launch.
    """
    program = snapshot.session.meta.get("command", "")
    if not program or snapshot.lost:
        return ""
    own = stages.short_kernel(record.name)
    wanted = [i for i, name in enumerate(snapshot.session.names) if stages.short_kernel(name.text) == own]
    earlier = 0
    for row in snapshot.rows:
        if row.lane.key.startswith("gpu") and not row.lane.key.endswith(".busy"):
            columns = row.columns
            before = (columns.kind == KIND_GPU_KERNEL) & (columns.corr < record.corr)
            earlier += int((before & stats.named(columns.name, wanted)).sum())
    which = f"--kernel-name regex:^{re.escape(own)}$ --launch-skip {earlier} --launch-count 1"
    return f"ncu --set full {which} {program}"
