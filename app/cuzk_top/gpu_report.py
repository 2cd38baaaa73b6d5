"""What GPUs did in a session, as facts for the report: device time, and copies by kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from cuzk_top import figures, stages
from cuzk_top.model import KIND_GPU_KERNEL, KIND_GPU_MEMCPY, KIND_GPU_MEMSET, Columns, Snapshot


def facts(snapshot: Snapshot) -> list[dict[str, Any]]:
    """One object a device with records.

    Keys: index, name (None where NVML did not tell), kernel_ns, copy_only_ns, idle_ns (they add up to the
    session's wall time), held_ns (claimed by somebody on the host; None where nobody ever did), kernels,
    fills (counts), copies (kind -> count, bytes, ns, which is a sum over copies).
    """
    end = max(snapshot.first_ns, min(snapshot.now_ns, snapshot.last_ns))
    found = []
    for device in snapshot.devices:
        split = device.split(snapshot.first_ns, end)
        works = _works(snapshot, device.index)
        found.append(
            {
                "index": device.index,
                "name": snapshot.session.meta.get(f"gpu.{device.index}.name"),
                "kernel_ns": split.kernel_ns,
                "copy_only_ns": split.copy_only_ns,
                "idle_ns": split.idle_ns,
                "held_ns": device.held_ns(snapshot.first_ns, end),
                "kernels": int((works.kind == KIND_GPU_KERNEL).sum()),
                "fills": int((works.kind == KIND_GPU_MEMSET).sum()),
                "copies": _copies(snapshot, works),
            }
        )
    return found


def _works(snapshot: Snapshot, device: int) -> Columns:
    """A device's kernels, copies and fills."""
    prefix = f"gpu{device}."
    return Columns.concat(
        [
            row.columns
            for row in snapshot.rows
            if row.lane.key.startswith(prefix) and stages.has_work(row.lane) and len(row.columns)
        ]
    )


def _copies(snapshot: Snapshot, works: Columns) -> dict[str, dict[str, int]]:
    copies = works.take(works.kind == KIND_GPU_MEMCPY)
    found = {}
    names = snapshot.session.names
    for number in np.unique(copies.name).tolist():
        mine = copies.name == number
        found[names[number].text if number < len(names) else "?"] = {
            "count": int(mine.sum()),
            "bytes": int(copies.a0[mine].sum()),
            "ns": int((copies.end_ns[mine] - copies.start_ns[mine]).sum()),
        }
    return found


def text(devices: list[dict[str, Any]]) -> list[str]:
    """The same for people."""
    lines = []
    for device in devices:
        wall = device["kernel_ns"] + device["copy_only_ns"] + device["idle_ns"]
        parts = [
            f"{label} {figures.spaced(device[key])} ({figures.percent(device[key], wall)})"
            for label, key in (("kernels", "kernel_ns"), ("copy only", "copy_only_ns"), ("idle", "idle_ns"))
        ]
        if device["held_ns"] is not None:
            parts.append(
                f"held {figures.spaced(device['held_ns'])} ({figures.percent(device['held_ns'], wall)})"
            )
        name = f" {device['name']}" if device["name"] else ""
        lines.append(f"GPU {device['index']}{name}   " + "   ".join(parts))
        lines.append(f"  {device['kernels']:,} kernels, {device['fills']:,} fills")
        for kind, copy in device["copies"].items():
            rate = copy["bytes"] / copy["ns"] if copy["ns"] else 0.0
            lines.append(
                f"  {kind:<22}{copy['count']:>8,}  {figures.si(copy['bytes'])}B  "
                f"{figures.spaced(copy['ns'])}  {figures.three(rate)} GB/s"
            )
    return lines
