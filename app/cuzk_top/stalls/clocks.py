"""clock.drop: a busy device that runs below the clock it had in this session."""

from __future__ import annotations

import numpy as np

from cuzk_top import figures
from cuzk_top.devicetime import union
from cuzk_top.stalls import intervals
from cuzk_top.stalls.draft import Draft, share, times, when
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.intervals import Int64s, Measure, Set
from cuzk_top.stalls.scene import DeviceTime
from cuzk_top.stalls.whatif import Cut

BUSY = 0.5
"""A sample of a device that worked for less than this share of it says nothing about its speed."""


def find(graph: Graph) -> list[Draft]:
    """One finding a device: all stretches of slow samples that last long enough."""
    drafts = list[Draft]()
    for device in graph.scene.devices:
        counter = graph.scene.counters.get(f"gpu.{device.index}.clock")
        samples = graph.scene.samples(f"gpu.{device.index}.clock")
        if counter is None or samples is None or not device.used:
            continue
        top = float(counter.value[counter.t_ns <= graph.scene.snapshot.now_ns].max())
        if top > 0:
            drafts += _of(graph, device, samples, top)
    return drafts


def _of(
    graph: Graph, device: DeviceTime, samples: tuple[Int64s, Int64s, np.ndarray], top: float
) -> list[Draft]:
    limits = graph.scene.limits
    start, end, value = samples
    start = np.maximum(start, graph.scene.low)
    idle = Measure(device.idle).within(start, end)
    slow = (value < limits.clock_drop * top) & (end - start - idle >= BUSY * (end - start)) & (end > start)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], slow, [False]]).astype(np.int8)))
    runs = [
        np.arange(first, last)
        for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
        if int(end[last - 1] - start[first]) >= limits.clock_drop_ns
    ]
    return [_draft(graph, device, runs, samples, top)] if runs else []


def _draft(
    graph: Graph,
    device: DeviceTime,
    runs: list[Int64s],
    samples: tuple[Int64s, Int64s, np.ndarray],
    top: float,
) -> Draft:
    scene, records = graph.scene, graph.records
    every = np.concatenate(runs)
    start, end, value = np.maximum(samples[0][every], scene.low), samples[1][every], samples[2][every]
    kernel = Measure(device.kernels).within(start, end)
    lack = 1 - value / top
    cost = int(np.rint(kernel * lack).sum())
    mine = np.flatnonzero(records.kernel & (records.device == device.index))
    shorter = np.zeros(len(mine), np.float64)
    for low, high, part in zip(start.tolist(), end.tolist(), lack.tolist(), strict=True):
        overlap = np.minimum(records.ops.end[mine], high) - np.maximum(records.ops.start[mine], low)
        shorter += np.maximum(0, overlap) * part
    slowed = np.flatnonzero(shorter >= 1)
    where: Set = union(start, end)
    total, lowest = intervals.length(where), float(value.min())
    why = _reason(graph, device.index, int(end[-1]))
    return Draft(
        Finding(
            "clock.drop",
            f"gpu{device.index}",
            intervals.listed(where),
            device.index,
            f"gpu{device.index}.busy",
            cost,
            None,
            len(runs),
            f"GPU {device.index} throttled{times(len(runs))}: {why}, {lowest:.0f} of {top:.0f} MHz for "
            f"{figures.spaced(total)}",
            f"fires under {share(scene.limits.clock_drop)} of the session's highest clock ({top:.0f} "
            f"MHz) while busy, "
            f"for {figures.spaced(scene.limits.clock_drop_ns)}",
            (
                f"cost = kernels' time x (1 - clock / {top:.0f} MHz), over {len(every)} samples: "
                f"{figures.spaced(cost)} (derived)",
                f"from {when(scene, int(start[0]))} to {when(scene, int(end[-1]))}",
            ),
            (),
            (("lowest MHz", lowest), ("session's MHz", top)),
        ),
        Cut(work=mine[slowed], shorter=np.rint(shorter[slowed]).astype(np.int64)),
    )


def _reason(graph: Graph, device: int, end: int) -> str:
    """What the driver gave as the reason, last before the end or as it was said at the end of the session."""
    told = f"GPU {device} throttled: "
    marks = graph.scene.snapshot.marks
    texts = [mark.text for mark in marks if mark.t_ns <= end and mark.text.startswith(told)]
    if texts:
        return texts[-1].removeprefix(told)
    return graph.scene.snapshot.session.meta.get(f"gpu.{device}.throttle") or "the driver gave no reason"
