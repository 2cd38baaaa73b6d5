"""copy.exposed and copy.slow: copies that no kernel hides, and copies far below what the link can do.

Each moment in which a device only copied or filled belongs to one piece of work: of several that overlap, to
the first. So the costs add up to the device's copy-only time.
"""

from __future__ import annotations

import numpy as np

from cuzk_top import figures
from cuzk_top.devicetime import union
from cuzk_top.model import KIND_GPU_MEMCPY
from cuzk_top.stalls import intervals
from cuzk_top.stalls.draft import Draft, evidence, share, when
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.intervals import Int64s, Measure, Set
from cuzk_top.stalls.scene import DeviceTime
from cuzk_top.stalls.whatif import Cut

LINKS = {"memcpy.h2d": "pcie_in", "memcpy.d2h": "pcie_out"}
"""Copies that cross the link to the host, by the beginning of their name, and the counter whose limit that
is.
"""


def exposed(graph: Graph) -> list[Draft]:
    """Of each device and kind of copy what no kernel hid while a job was open."""
    scene, records = graph.scene, graph.records
    least = scene.limits.exposed_share * scene.proof_ns
    drafts = list[Draft]()
    for device in scene.devices:
        own, begins, alone = _shares(graph, device)
        for name in np.unique(records.ops.name[own]).tolist():
            mine = own[records.ops.name[own] == name]
            cost = int(alone[mine].sum())
            if cost > least:
                drafts.append(_exposed(graph, device, mine, begins, alone, cost, least))
    return drafts


def _shares(graph: Graph, device: DeviceTime) -> tuple[Int64s, Int64s, Int64s]:
    """The device's copies and fills; of all work, since when its time is its own, and how long it then was
    copy-only."""
    records = graph.records
    ops = records.ops
    mine = np.flatnonzero((records.device == device.index) & ~records.kernel)  # by start
    alone, begins = np.zeros(len(ops), np.int64), ops.start.copy()
    if len(mine):
        bare = Measure(intervals.both(device.copies, graph.scene.jobs))
        reach = np.maximum.accumulate(ops.end[mine])
        begins[mine] = np.maximum(begins[mine], np.concatenate([ops.start[mine[:1]], reach[:-1]]))
        alone[mine] = bare.within(begins[mine], np.maximum(begins[mine], ops.end[mine]))
    return mine, begins, alone


def _exposed(
    graph: Graph, device: DeviceTime, mine: Int64s, begins: Int64s, alone: Int64s, cost: int, least: float
) -> Draft:
    records, ops = graph.records, graph.records.ops
    name = records.text(int(ops.name[mine[0]]))
    bare = mine[alone[mine] > 0]
    where = intervals.both(
        union(begins[bare], ops.end[bare]), intervals.both(device.copies, graph.scene.jobs)
    )
    whole = intervals.length(
        intervals.clipped(union(ops.start[mine], ops.end[mine]), graph.scene.low, graph.scene.high)
    )
    part, all_of = figures.spaced(cost), figures.spaced(whole)
    part = f"all {all_of}" if part == all_of else f"{part} of {all_of}"
    text = f"{part} of {name} exposed: no kernel runs meanwhile"
    rate = int(ops.a0[mine].sum()) / max(1, int((ops.end[mine] - ops.start[mine]).sum()))
    longest = bare[np.argmax(alone[bare])]
    return Draft(
        Finding(
            "copy.exposed",
            f"gpu{device.index} {name}",
            intervals.listed(where),
            device.index,
            records.lane(ops, int(longest)),
            cost,
            None,
            len(bare),
            text,
            f"fires over {share(graph.scene.limits.exposed_share)} of the proof "
            f"({figures.spaced(round(least))})",
            (
                f"cost = {len(bare):,} of {len(mine):,} {name} while GPU {device.index} ran no kernel and a "
                f"job was open: {figures.spaced(cost)}",
                f"{figures.three(rate)} GB/s on average; the longest at "
                f"{when(graph.scene, int(ops.start[longest]))}",
            ),
            evidence(records, records.launcher[bare], alone[bare]),
            (("GB/s", rate), ("bytes", float(ops.a0[mine].sum()))),
            incomplete=graph.scene.lost,
        ),
        Cut(work=bare, shorter=alone[bare]),
    )


def slow(graph: Graph) -> list[Draft]:
    """Large copies over a link at less than half of its best rate in this window, by device and kind; where
    all of them are slower than that, of what the link can carry by the session's metadata.
    """
    limits, records = graph.scene.limits, graph.records
    ops = records.ops
    length = np.maximum(1, ops.end - ops.start)
    touch = (ops.end > graph.scene.low) & (ops.start < graph.scene.high)
    large = (ops.kind == KIND_GPU_MEMCPY) & (ops.a0 >= limits.copy_bytes)
    drafts = list[Draft]()
    for link, limit in LINKS.items():
        names = [int(n) for n in np.unique(ops.name) if records.text(int(n)).startswith(link)]
        crossing = np.flatnonzero(large & np.isin(ops.name, names))
        for device in np.unique(records.device[crossing]).tolist():
            here = crossing[records.device[crossing] == device]
            rate = ops.a0[here] / length[here]
            peak = float(rate.max())
            carries = _number(graph.scene.snapshot.session.meta.get(f"top.gpu.{device}.{limit}"))
            if peak < limits.slow_rate * carries:
                peak = carries
            behind = here[(rate < limits.slow_rate * peak) & touch[here]]
            for name in np.unique(ops.name[behind]).tolist():
                drafts.append(_slow(graph, device, behind[ops.name[behind] == name], peak))
    return drafts


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0


def _slow(graph: Graph, device: int, mine: Int64s, peak: float) -> Draft:
    records, ops = graph.records, graph.records.ops
    length = ops.end[mine] - ops.start[mine]
    excess = np.maximum(0, length - np.rint(ops.a0[mine] / peak).astype(np.int64))
    name = records.text(int(ops.name[mine[0]]))
    size = int(ops.a0[mine].sum())
    rate = size / max(1, int(length.sum()))
    where: Set = union(ops.start[mine], ops.end[mine])
    return Draft(
        Finding(
            "copy.slow",
            f"gpu{device} {name}",
            intervals.listed(where),
            device,
            records.lane(ops, int(mine[0])),
            0,
            None,
            len(mine),
            f"{name} at {figures.three(rate)} of {figures.three(peak)} GB/s: {figures.si(size)}B took "
            f"{figures.spaced(int(excess.sum()))} longer",
            f"fires under {share(graph.scene.limits.slow_rate)} of the link's best rate for copies from "
            f"{figures.si(graph.scene.limits.copy_bytes)}B on ({figures.three(peak)} GB/s)",
            (
                f"excess = {figures.spaced(int(length.sum()))} less {figures.si(size)}B at "
                f"{figures.three(peak)} GB/s: {figures.spaced(int(excess.sum()))}",
            ),
            evidence(records, records.launcher[mine], excess),
            (("GB/s", rate), ("best GB/s", peak), ("bytes", float(size))),
        ),
        Cut(work=mine, shorter=excess),
        cause=True,
    )
