"""host.claim and lock.wait: GPUs that the host claims and does not use, and who waits for them meanwhile."""

from __future__ import annotations

import numpy as np

from cuzk_top import figures
from cuzk_top.devicetime import union
from cuzk_top.stalls import intervals
from cuzk_top.stalls.draft import Draft, described, evidence, share, times, when
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.intervals import Int64s, Measure, Set
from cuzk_top.stalls.whatif import Cut


def claimed(graph: Graph) -> list[Draft]:
    """Of each device the claims that device work covers too little of."""
    scene, records, host = graph.scene, graph.records, graph.records.host
    drafts = list[Draft]()
    inside = records.in_lane["claim"] & (host.end > scene.low) & (host.start < scene.high)
    claims = np.flatnonzero(inside & (host.end > host.start))
    of = np.array([graph.claimed(int(i)) for i in claims], np.int64)
    for device in scene.devices:
        mine = claims[of == device.index]
        start = np.maximum(host.start[mine], scene.low)
        length = np.minimum(host.end[mine], scene.high) - start
        idle = Measure(device.idle).within(start, start + length)
        low = mine[length - idle < scene.limits.claim * length]
        if device.used and len(low):
            drafts.append(_claim(graph, low, device.index, device.idle))
    return drafts


def _claim(graph: Graph, mine: Int64s, device: int, idle: Set) -> Draft:
    scene, records, host = graph.scene, graph.records, graph.records.host
    whole = intervals.clipped(union(host.start[mine], host.end[mine]), scene.low, scene.high)
    unused = intervals.both(whole, idle)
    total, lost = intervals.length(whole), intervals.length(unused)
    what = records.text(int(host.name[mine[0]]))
    return Draft(
        Finding(
            "host.claim",
            f"gpu{device} {what}",
            intervals.listed(unused),
            device,
            records.lane(host, int(mine[0])),
            0,
            None,
            len(mine),
            f"{what} claims {figures.spaced(total)} of GPU {device}, its work covers "
            f"{figures.spaced(total - lost)}",
            f"fires when device work covers less than {share(scene.limits.claim)} of a claim",
            (
                f"{len(mine):,} claims, {figures.spaced(lost)} of them without device work",
                "given back meanwhile, the GPU serves others sooner (see lock.wait), this proof not",
            ),
            evidence(records, mine, host.end[mine] - host.start[mine]),
            incomplete=scene.lost,
        ),
        cause=True,
    )


def waited(graph: Graph) -> list[Draft]:
    """Waits while the holder's device idles for longer than a launch takes, by who holds it."""
    scene, host = graph.scene, graph.records.host
    least = scene.limits.wait_share * scene.proof_ns
    idle = {device.index: _longer(device.idle, scene.limits.launch_ns) for device in scene.devices}
    groups: dict[tuple[str, int], list[tuple[int, int, Set]]] = {}
    for wait in graph.wait_spans.tolist():
        holder = graph.holder(wait)
        if holder is None or holder[1] not in idle:
            continue
        since = max(int(host.start[wait]), int(host.start[holder[0]]), scene.low)
        until = min(int(host.end[wait]), int(host.end[holder[0]]), scene.high)
        if until > since:
            bad = intervals.clipped(idle[holder[1]], since, until)
            key = described(graph.records, host, holder[0]), holder[1]
            groups.setdefault(key, []).append((wait, holder[0], bad))
    return [
        _wait(graph, group, device, least)
        for (_, device), group in groups.items()
        if sum(intervals.length(bad) for _, _, bad in group) > least
    ]


def _longer(of: Set, least: int) -> Set:
    """The intervals of at least this length: between kernels that follow one another nobody is idle."""
    start, end = of
    return start[end - start >= least], end[end - start >= least]


def _wait(graph: Graph, group: list[tuple[int, int, Set]], device: int, least: float) -> Draft:
    scene, records, host = graph.scene, graph.records, graph.records.host
    waits, holders = np.array([one[0] for one in group]), np.array([one[1] for one in group])
    lost = np.array([intervals.length(one[2]) for one in group])
    worst = int(np.argmax(lost))
    holder = described(records, host, int(holders[worst]))
    number = int(host.track[holders[worst]])
    track = records.session.tracks.get(number)
    thread = track.label if track is not None else f"thread {number}"
    others = len(np.unique(host.track[holders])) - 1
    thread += f" and {others} other{'s' if others > 1 else ''}" if others else ""
    where = union(np.concatenate([one[2][0] for one in group]), np.concatenate([one[2][1] for one in group]))
    since, bare = int(host.start[holders[worst]]), figures.spaced(int(lost.sum()))
    return Draft(
        Finding(
            "lock.wait",
            f"gpu{device} held by {holder}",
            intervals.listed(where),
            device,
            records.lane(host, int(waits[worst])),
            0,
            None,
            len(group),
            f"waited {bare} for an idle GPU {device}: held by {thread} since {when(scene, since)}"
            f"{times(len(group))}",
            f"fires over {share(scene.limits.wait_share)} of the proof ({figures.spaced(round(least))}) of "
            f"waits while the holder's device idles for {figures.spaced(scene.limits.launch_ns)} or more",
            (
                f"{len(group):,} waits, {bare} of them while GPU {device} was idle, claimed by {holder}",
                f"the longest such begins at {when(scene, int(host.start[waits[worst]]))}",
            ),
            evidence(records, np.concatenate([waits, holders]), np.concatenate([lost, lost])),
        ),
        _let_go(graph, waits, holders, lost),
        cause=True,
    )


def _let_go(graph: Graph, waits: Int64s, holders: Int64s, lost: Int64s) -> Cut:
    """Each wait over so much sooner. What its holder did, it does all the same."""
    arrivals, host = graph.arrivals, graph.records.host
    handed, sooner = list[int](), list[int]()
    for wait, holder, ns in zip(waits.tolist(), holders.tolist(), lost.tolist(), strict=True):
        mine = (arrivals.track == host.track[wait]) & (arrivals.start == host.start[wait])
        mine &= (arrivals.op < 0) & (arrivals.source == host.track[holder])
        for place in np.flatnonzero(mine)[:1].tolist():
            handed.append(place)
            sooner.append(ns)
    return Cut(handed=np.array(handed, np.int64), sooner=np.array(sooner, np.int64))
