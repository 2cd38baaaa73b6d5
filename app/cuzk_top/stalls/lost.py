"""gpu.lost and lost: GPUs that went away or fell silent, and records that were overwritten before they were
read."""

from __future__ import annotations

import re

import numpy as np

from cuzk_top import figures
from cuzk_top.stalls import intervals
from cuzk_top.stalls.draft import Draft, when
from cuzk_top.stalls.finding import Finding, Interval
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.scene import Scene

_GONE = re.compile(r"GPU (\d+) fell off the bus|\bXid\b.*", re.IGNORECASE)
_NUMBER = re.compile(r"GPU (\d+)")


def gone(scene: Scene) -> dict[int, tuple[int, str]]:
    """When each device went away, and what was said of it: the first mark that tells so."""
    found: dict[int, tuple[int, str]] = {}
    for mark in sorted(scene.snapshot.marks, key=lambda mark: mark.t_ns):
        if mark.t_ns >= scene.high or not _GONE.search(mark.text):
            continue
        number = _NUMBER.search(mark.text)
        device = int(number[1]) if number else 0
        found.setdefault(device, (mark.t_ns, mark.text))
    return found


def silent(graph: Graph) -> list[Draft]:
    """Devices of which NVML told nothing for a while in which a job was open, and the host's figures went
    on.
    """
    scene = graph.scene
    lost = gone(scene)
    drafts = list[Draft]()
    for device in scene.devices:
        samples = scene.samples(f"gpu.{device.index}.util")
        if samples is None or device.index in lost:
            continue
        at = np.append(samples[1], scene.high)
        steps = np.flatnonzero(np.diff(at) >= scene.limits.silent_ns).tolist()
        places = np.array([i for i in steps if _asked(scene, int(at[i]), int(at[i + 1]))], np.int64)
        start, end = intervals.both((at[places], at[places + 1]), scene.jobs)
        long = end - start >= scene.limits.silent_ns
        where = intervals.listed((start[long], end[long]))
        if where:
            drafts.append(_silent(scene, device.index, where))
    return drafts


def _asked(scene: Scene, since: int, until: int) -> bool:
    """Whether somebody could have had an answer: a recorder that stood still itself (it was suspended, say)
    has no samples of the host either.
    """
    counter = scene.counters.get("host.cpu")
    if counter is None:
        return True
    inside = counter.t_ns[(counter.t_ns > since) & (counter.t_ns < until)]
    return int(np.diff(np.concatenate([[since], inside, [until]])).max()) < (until - since) / 2


def _silent(scene: Scene, device: int, where: tuple[Interval, ...]) -> Draft:
    total = sum(end - start for start, end in where)
    return Draft(
        Finding(
            "gpu.lost",
            f"gpu{device} silent",
            where,
            device,
            f"gpu{device}.busy",
            0,
            None,
            len(where),
            f"NVML told nothing of GPU {device} for {figures.spaced(total)} from "
            f"{when(scene, where[0][0])} on",
            f"fires after {figures.spaced(scene.limits.silent_ns)} without an answer while a job is open",
            (f"{len(where):,} stretches between two samples of gpu.{device}.util",),
        ),
        None,
        cause=True,
    )


def records(graph: Graph) -> list[Draft]:
    """What the ring overwrote: where is not known, so every claim of idleness is in doubt."""
    scene = graph.scene
    if not scene.lost:
        return []
    count = scene.snapshot.lost
    return [
        Draft(
            Finding(
                "lost",
                "records",
                ((scene.low, scene.high),) if scene.high > scene.low else (),
                None,
                "other",
                0,
                None,
                count,
                f"{count:,} records were lost: what looks idle may not have been",
                "fires at the first",
                ("counted by the rings; where they were is not known",),
                incomplete=True,
                ranked=False,
            )
        )
    ]
