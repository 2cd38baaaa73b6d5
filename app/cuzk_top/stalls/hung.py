"""hung: a span that stays open while nothing moves: no record, no CPU time, no page from a disk, no GPU."""

from __future__ import annotations

import numpy as np

from cuzk_top import figures
from cuzk_top.stalls import siblings
from cuzk_top.stalls.draft import Draft, described, when
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.intervals import Measure
from cuzk_top.stalls.scene import Scene
from cuzk_top.stalls.whatif import Cut

MOVING = ("host.majflt", "host.disk_read", "host.disk_write")


def find(graph: Graph) -> list[Draft]:
    """Each stretch without a record in which a span of a job was open and the process did nothing."""
    scene, records, host = graph.scene, graph.records, graph.records.host
    ends = host.end[~host.open]
    moments = [host.start, ends, records.ops.start, records.ops.end, records.waits.start, records.waits.end]
    inside = np.concatenate([*moments, scene.jobs[0], scene.jobs[1], np.array([scene.high])])
    at = np.sort(inside[(inside >= scene.low) & (inside <= scene.high)])
    usual = None
    drafts = list[Draft]()
    for place in np.flatnonzero(np.diff(at) >= scene.limits.still_ns).tolist():
        since, until = int(at[place]), int(at[place + 1])
        span = _open(graph, since, until)
        if span is None:
            continue
        idle = _idle(scene, since, until)
        usual = usual or siblings.compare(records, records.on_thread & ~records.in_lane["claim"])
        length, median = int(host.end[span] - host.start[span]), int(usual.median_ns[span])
        long = int(usual.others[span]) > 0 and length > scene.limits.hung * median
        if idle is not False and (long or (idle and not scene.devices)):
            drafts.append(_draft(graph, span, since, until, median if long else None, bool(idle)))
    return drafts


def _open(graph: Graph, since: int, until: int) -> int | None:
    """The innermost span of a job's thread that was open all that time; None outside of jobs."""
    host = graph.records.host
    window = np.array([since]), np.array([until])
    for proof in graph.scene.proofs:
        if proof.start <= since and until <= proof.end and graph.records.on_thread[proof.index]:
            found = graph.hosts.covering(int(host.track[proof.index]), *window, 1.0)
            return int(found[0]) if found[0] >= 0 else proof.index
    return None


def _idle(scene: Scene, since: int, until: int) -> bool | None:
    """Whether the process did nothing; None where its CPU time was never sampled. Where it was, but not for
    half of this stretch, it was the recorder that stood still: then nobody knows, and nothing is said.
    """
    for device in scene.devices:
        window = np.array([since]), np.array([until])
        if int(Measure(device.idle).within(*window)[0]) < until - since:
            return False
        load = _mean(scene, f"gpu.{device.index}.util", since, until)
        if load is not None and load >= 1:
            return False
    if any((_mean(scene, key, since, until) or 0) > 0 for key in MOVING):
        return False
    counter = scene.counters.get("host.cpu")
    if counter is None:
        return None
    inside = (counter.start_ns >= since) & (counter.t_ns <= until)
    known = int((counter.t_ns - counter.start_ns)[inside].sum())
    return 2 * known >= until - since and float(counter.value[inside].mean()) < scene.limits.still_cpu


def _mean(scene: Scene, key: str, since: int, until: int) -> float | None:
    """Mean of the samples that lie in a stretch; None without any."""
    counter = scene.counters.get(key)
    if counter is None:
        return None
    inside = (counter.start_ns >= since) & (counter.t_ns <= until)
    return float(counter.value[inside].mean()) if inside.any() else None


def _draft(graph: Graph, span: int, since: int, until: int, median: int | None, idle: bool) -> Draft:
    scene, records, host = graph.scene, graph.records, graph.records.host
    what = described(records, host, span)
    length = figures.spaced(until - since)
    now = bool(host.open[span]) and until >= scene.high
    text = f"last evidence {length} ago, at {when(scene, since)} in {what}"
    if not now:
        text = f"stood still for {length} from {when(scene, since)} on, in {what}"
    beyond = f"open over {scene.limits.hung:g} x its median" + (
        f" ({figures.spaced(median)})" if median is not None else ", or without CPU time"
    )
    return Draft(
        Finding(
            "hung",
            records.text(int(host.name[span])),
            ((since, until),),
            None,
            records.lane(host, span),
            0,
            None,
            1,
            text,
            f"fires when a span is {beyond} and nothing was recorded for "
            f"{figures.spaced(scene.limits.still_ns)}",
            (
                "no record of any thread or device in that time, "
                + ("no CPU time, no page from a disk" if idle else "and CPU time was not sampled"),
            ),
            (int(host.id[span]),),
        ),
        Cut({int(host.track[span]): (np.array([since]), np.array([until]))}),
        cause=True,
    )
