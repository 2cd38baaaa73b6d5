"""fault.burst: spans that were slower than their siblings because the kernel had to find memory for them.

A span's minor faults a second against the session's median: of the samples of ``host.minflt`` where there are
any, else of all spans whose faults were counted. Major faults (pages read from a disk) count whatever their
rate. Faults must be able to explain the excess. Of nested spans the innermost that took most of the faults is
named; workers' spans are left out, their faults are in the stage's.
"""

from __future__ import annotations

import numpy as np

from cuzk_top import figures
from cuzk_top.devicetime import union
from cuzk_top.stalls import intervals, siblings
from cuzk_top.stalls.draft import Draft, described, evidence, share, times
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.intervals import Int64s
from cuzk_top.stalls.records import WORKER
from cuzk_top.stalls.whatif import Cut

FEW_SAMPLES = 5
MORE = 1.5
"""A span must have taken so many times its siblings' faults for them to explain its length."""
MOST = 0.6
"""A span inside that took this share of a span's faults is named in its place."""
PAGE_BYTES = 4096


def find(graph: Graph) -> list[Draft]:
    """Groups of slow spans by name."""
    scene, records, limits = graph.scene, graph.records, graph.scene.limits
    host = records.host
    counted = host.measured & ~records.in_lane["claim"] & ~records.in_lane["job"] & records.on_thread
    names = np.unique(host.name)
    workers = [int(name) for name in names if records.text(int(name)).endswith(WORKER)]
    counted &= ~np.isin(host.name, workers)
    counted &= (host.end > scene.low) & (host.start < scene.high) & (host.end > host.start)
    if not counted.any():
        return []
    usual, source = _usual(graph, counted)
    others = siblings.compare(records, counted)
    length = host.end - host.start
    rate = host.minflt * 1e9 / np.maximum(1, length)
    burst = (rate > limits.fault_rate * usual) & (host.minflt >= limits.fault_least)
    burst &= host.minflt > MORE * others.faults
    excess = length - others.median_ns
    slower = (others.others >= limits.siblings) & (excess > limits.slower * others.median_ns)
    able = np.where(burst, host.minflt - others.faults, 0) * limits.minor_fault_ns
    able += host.majflt * limits.major_fault_ns
    slower &= able >= limits.explains * excess
    found = np.flatnonzero(counted & slower & (burst | (host.majflt > 0)))
    found = found[~_explained_inside(graph, found)]
    least = limits.group_share * scene.proof_ns / max(1, len(scene.proofs))
    return [
        _draft(graph, mine, excess, others.median_ns, usual, source)
        for name in np.unique(host.name[found]).tolist()
        for mine in [found[host.name[found] == name]]
        if int(excess[mine].sum()) > least
    ]


def _usual(graph: Graph, counted: np.ndarray) -> tuple[float, str]:
    counter = graph.scene.counters.get("host.minflt")
    if counter is not None:
        known = counter.value[counter.t_ns <= graph.scene.snapshot.now_ns]
        if len(known) >= FEW_SAMPLES:
            return float(np.median(known)), f"{len(known)} samples"
    host = graph.records.host
    rates = host.minflt[counted] * 1e9 / (host.end[counted] - host.start[counted])
    return float(np.median(rates)), f"{len(rates)} spans"


def _explained_inside(graph: Graph, found: Int64s) -> np.ndarray:
    """Which of the spans hold another of them that took most of their faults."""
    host = graph.records.host
    outer = np.zeros(len(found), dtype=bool)
    for place, span in enumerate(found.tolist()):
        inside = (host.track[found] == host.track[span]) & (host.depth[found] > host.depth[span])
        inside &= (host.start[found] >= host.start[span]) & (host.end[found] <= host.end[span])
        most = MOST * (host.minflt[span] + host.majflt[span])
        outer[place] = bool((inside & (host.minflt[found] + host.majflt[found] >= most)).any())
    return outer


def _draft(graph: Graph, mine: Int64s, excess: Int64s, median: Int64s, usual: float, source: str) -> Draft:
    records, limits, host = graph.records, graph.scene.limits, graph.records.host
    worst = mine[np.argmax(excess[mine])]
    minor, major = int(host.minflt[mine].sum()), int(host.majflt[mine].sum())
    over, length = int(excess[mine].sum()), int((host.end[mine] - host.start[mine]).sum())
    rate = minor * 1e9 / max(1, length)
    what = described(records, host, int(worst))
    if major:
        plural = "s" if major > 1 else ""
        text = f"{figures.si(major)} major fault{plural} in {what}{times(len(mine))}: pages read from a disk"
    else:
        text = f"{figures.si(minor)} minor faults in {what}{times(len(mine))}: first touch"
    text += f", {figures.spaced(over)} longer"
    return Draft(
        Finding(
            "fault.burst",
            records.text(int(host.name[worst])),
            intervals.listed(union(host.start[mine], host.end[mine])),
            None,
            records.lane(host, int(worst)),
            0,
            None,
            len(mine),
            text,
            f"fires over {limits.fault_rate:g} x the median of {source} ({figures.si(usual)}/s) or with "
            f"major faults, "
            f"over {limits.fault_least:,} faults, {100 * limits.slower:g} % slower than siblings, by over "
            f"{share(limits.group_share)} of a proof",
            (
                f"{figures.si(rate)} faults/s, {figures.si(minor * PAGE_BYTES)}B if in pages of 4 KiB",
                f"excess = {figures.spaced(length)} less its siblings' median "
                f"({figures.spaced(int(median[worst]))}): {figures.spaced(over)}",
            ),
            evidence(records, mine, excess[mine]),
            (("minor faults", float(minor)), ("major faults", float(major)), ("faults/s", rate)),
        ),
        Cut(
            {
                int(track): union(
                    host.start[mine[host.track[mine] == track]], host.end[mine[host.track[mine] == track]]
                )
                for track in np.unique(host.track[mine])
            },
            share=over / max(1, length),
        ),
        cause=True,
    )
