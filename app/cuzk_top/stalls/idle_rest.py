"""Idle time that is no finding of its own: too short, outside of jobs, or of a device that is gone."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from cuzk_top import figures
from cuzk_top.stalls import intervals, lost
from cuzk_top.stalls.draft import Draft, evidence, when
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.gaps import Gaps
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.intervals import Int64s


def gone(graph: Graph, found: Gaps, device: int, group: Int64s) -> Draft:
    """What a device that went away did not do any more. Nothing is known of what it would have done."""
    at, told = lost.gone(graph.scene)[device]
    cost = int(found.length[group].sum())
    clock = graph.scene.snapshot.session.realtime_ns(at)
    return Draft(
        Finding(
            "gpu.lost",
            f"gpu{device}",
            intervals.listed((found.start[group], found.end[group])),
            device,
            f"gpu{device}.busy",
            cost,
            None,
            1,
            f"{told} at {when(graph.scene, at)}" if clock is None else f"{told} at {_utc(clock)}",
            "fires at the driver's word",
            (f"cost = GPU {device} idle from then on while a job was open: {figures.spaced(cost)}",),
            evidence(graph.records, found.span[group], found.length[group]),
        )
    )


def _utc(realtime_ns: int) -> str:
    return datetime.fromtimestamp(realtime_ns // 1_000_000_000, UTC).strftime("%H:%M:%S UTC")


def small(graph: Graph, found: Gaps, groups: list[Int64s], rule: str, threshold: str) -> list[Draft]:
    """The groups of one reason that are too small to be findings, as one that is not ranked, a device."""
    if not groups:
        return []
    every = np.sort(np.concatenate(groups))
    drafts = []
    for device in np.unique(found.device[every]).tolist():
        mine = every[found.device[every] == device]
        count = sum(bool(found.device[group[0]] == device) for group in groups)
        cost = int(found.length[mine].sum())
        many = f"in {count:,} groups, each below the limit" if count > 1 else "below the limit"
        drafts.append(
            Draft(
                Finding(
                    rule,
                    f"gpu{device} small",
                    intervals.listed((found.start[mine], found.end[mine])),
                    device,
                    f"gpu{device}.busy",
                    cost,
                    None,
                    len(mine),
                    f"{len(mine):,} short gaps {many}",
                    threshold,
                    (f"cost = {len(mine):,} gaps of GPU {device}: {figures.spaced(cost)}",),
                    incomplete=graph.scene.lost,
                    ranked=False,
                )
            )
        )
    return drafts


def nowork(graph: Graph) -> list[Draft]:
    """Idle time of each device while no job was open; all the time of one that was given nothing."""
    scene, drafts = graph.scene, []
    for device in scene.devices:
        free = intervals.without(device.idle, scene.jobs) if device.used else device.idle
        cost = intervals.length(free)
        if not cost:
            continue
        text = "no job was open" if device.used else f"GPU {device.index} was given no work"
        drafts.append(
            Draft(
                Finding(
                    "idle.nowork",
                    f"gpu{device.index}",
                    intervals.listed(free),
                    device.index,
                    f"gpu{device.index}.busy",
                    cost,
                    None,
                    len(free[0]),
                    f"{text}: {figures.spaced(cost)}",
                    "shown, never ranked",
                    (f"cost = GPU {device.index} idle outside of jobs: {figures.spaced(cost)}",),
                    incomplete=scene.lost,
                    ranked=False,
                )
            )
        )
    return drafts
