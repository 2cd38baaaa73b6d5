"""idle.host, idle.sync, idle.launch, idle.unknown, idle.nowork and gpu.lost: where devices did nothing, and
for what.

Gaps (see `gaps`) are grouped by what they waited for, what ended before and what began after; the threshold
is on the group's sum, so that a thousand short gaps count as much as a long one. Groups below it are told of
together, unranked: every idle nanosecond is in one finding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuzk_top import figures, stages
from cuzk_top.devicetime import union
from cuzk_top.stalls import gaps, idle_rest, intervals, lost
from cuzk_top.stalls.draft import Draft, described, evidence, share, times, when
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.gaps import GONE, HOST, LAUNCH, SYNC, UNKNOWN, Gaps
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.intervals import Int64s
from cuzk_top.stalls.whatif import Cut

RULES = {
    GONE: "gpu.lost",
    SYNC: "idle.sync",
    LAUNCH: "idle.launch",
    HOST: "idle.host",
    UNKNOWN: "idle.unknown",
}
BLOCKED = "sync.cu"
"""A driver call that stood still, and which."""
WAITS = {"sync.event": "event", "sync.stream": "stream", "sync.context": "device"}


@dataclass(frozen=True, slots=True)
class Idle:
    """The findings, and what idle time they explain."""

    drafts: tuple[Draft, ...]
    explained_ns: int
    unknown_ns: int
    nowork_ns: int


def find(graph: Graph) -> Idle:
    """All idle time of a scene's devices."""
    gone = lost.gone(graph.scene)
    found = gaps.find(graph, {device: at for device, (at, _) in gone.items()})
    drafts = list[Draft]()
    for reason in RULES:
        drafts += _of_reason(graph, found, np.flatnonzero(found.reason == reason), reason)
    unknown = int(found.length[found.reason == UNKNOWN].sum())
    told = {draft.finding.device for draft in drafts if draft.finding.rule == RULES[GONE]}
    drafts += [
        idle_rest.gone(graph, found, device, np.empty(0, np.int64)) for device in gone if device not in told
    ]
    nowork = idle_rest.nowork(graph)
    return Idle(
        (*drafts, *nowork),
        int(found.length.sum()) - unknown,
        unknown,
        sum(draft.finding.cost_ns for draft in nowork),
    )


def label(graph: Graph, work: int) -> str:
    """What a piece of work belongs to: the span that launched it, else its own name."""
    records = graph.records
    launcher = int(records.launcher[work])
    if launcher >= 0:
        return records.text(int(records.host.name[launcher]))
    name = records.text(int(records.ops.name[work]))
    return stages.short_kernel(name) or name


def _of_reason(graph: Graph, found: Gaps, which: Int64s, reason: int) -> list[Draft]:
    if not len(which):
        return []
    groups = _groups(graph, found, which, reason)
    limits, scene = graph.scene.limits, graph.scene
    if reason == GONE:
        return [idle_rest.gone(graph, found, int(found.device[group[0]]), group) for group in groups]
    if reason == LAUNCH:
        least, condition = (
            limits.launch_share * (scene.high - scene.low),
            f"{share(limits.launch_share)} of the window",
        )
    else:
        least, condition = limits.group_share * scene.proof_ns, f"{share(limits.group_share)} of the proof"
    threshold = f"fires over {condition} ({figures.spaced(round(least))})"
    if reason == LAUNCH:
        threshold += f", gaps under {figures.spaced(limits.launch_ns)}"
    large = [group for group in groups if int(found.length[group].sum()) > least]
    small = [group for group in groups if int(found.length[group].sum()) <= least]
    around = [_around(graph, found, group) for group in large]
    drafts = []
    for group, edges in zip(large, around, strict=True):
        alike = [
            other
            for one, other in zip(large, around, strict=True)
            if _name(graph, found, one) == _name(graph, found, group)
            and found.device[one[0]] == found.device[group[0]]
        ]
        tell = ""
        if reason in (HOST, UNKNOWN) and len(alike) > 1:
            number = _name(graph, found, group)
            tell = _apart(edges, alike, graph.records.text(number) if number >= 0 else "")
        drafts.append(_draft(graph, found, group, reason, threshold, edges, tell))
    return [*drafts, *idle_rest.small(graph, found, small, RULES[reason], threshold)]


def _apart(edges: tuple[str, str], alike: list[tuple[str, str]], awaited: str) -> str:
    """What tells a group's gaps from others that waited for the same, in as few words as do."""
    ended, began = edges
    if ended == began == awaited:
        return " between its own work"
    if ended == began:
        return f" within {began}"
    if sum(other[1] == began for other in alike) == 1:
        return f" before {began}"
    if sum(other[0] == ended for other in alike) == 1:
        return f" after {ended}"
    return f" after {ended}, before {began}"


def _name(graph: Graph, found: Gaps, group: Int64s) -> int:
    """Name of the span that a group waited for."""
    return int(graph.records.host.name[found.span[group[0]]]) if found.span[group[0]] >= 0 else -1


def _around(graph: Graph, found: Gaps, group: Int64s) -> tuple[str, str]:
    """What ended before a group's longest gap, and what began after it."""
    longest = group[np.argmax(found.length[group])]
    before, after = int(found.before[longest]), int(found.after[longest])
    return (
        label(graph, before) if before >= 0 else _edge(graph, int(found.start[longest]), 0),
        label(graph, after) if after >= 0 else _edge(graph, int(found.end[longest]), 1),
    )


def _groups(graph: Graph, found: Gaps, which: Int64s, reason: int) -> list[Int64s]:
    """Places of the gaps of each group, by first gap."""
    records = graph.records
    host = np.append(records.host.name, -1)
    names = np.append(records.ops.name, -1)
    launcher = np.append(records.launcher, -1)
    of = np.where(launcher >= 0, host[launcher], names + len(records.session.names))
    key = [found.device[which]]
    if reason == SYNC:
        key += [records.waits.name[found.wait[which]], host[found.span[which]]]
    elif reason not in (LAUNCH, GONE):
        key += [host[found.span[which]], of[found.before[which]], of[found.after[which]]]
    _, first, inverse = np.unique(np.stack(key, axis=1), axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    order = np.argsort(inverse, kind="stable")
    parts = np.split(which[order], np.cumsum(np.bincount(inverse))[:-1])
    return [parts[number] for number in np.argsort(first, kind="stable").tolist()]


def _draft(
    graph: Graph,
    found: Gaps,
    group: Int64s,
    reason: int,
    threshold: str,
    edges: tuple[str, str],
    tell: str,
) -> Draft:
    records = graph.records
    cost = int(found.length[group].sum())
    longest = group[np.argmax(found.length[group])]
    device = int(found.device[longest])
    before, after = int(found.before[longest]), int(found.after[longest])
    ended, began = edges
    what, key, lane = _said(graph, found, group, reason, tell)
    count = len(group)
    gap = f"{count:,} gaps" if count > 1 else "1 gap"
    most = figures.spaced(int(found.length[longest]))
    at = when(graph.scene, int(found.start[longest]))
    lines = [
        f"cost = {gap} of GPU {device} without any work while a job was open: {figures.spaced(cost)}",
        (f"the longest {most} at {at}, " if count > 1 else "") + f"between {ended} and {began}",
    ]
    return Draft(
        Finding(
            RULES[reason],
            f"gpu{device} {key}" if reason in (SYNC, LAUNCH) else f"gpu{device} {key}: {ended} > {began}",
            intervals.listed((found.start[group], found.end[group])),
            device,
            lane or _lane(graph, before, after, device),
            cost,
            None,
            count,
            what,
            threshold,
            tuple(lines),
            evidence(records, found.span[group], found.length[group]),
            incomplete=graph.scene.lost,
        ),
        cut(graph, found, group),
    )


def _edge(graph: Graph, t: int, side: int) -> str:
    """What a gap without work on one side begins or ends at."""
    edge = "end" if side else "start"
    # The window may cut a job, and a job that runs has no end yet.
    ends = {proof.end for proof in graph.scene.proofs if proof.finished}
    known = ends if side else {proof.start for proof in graph.scene.proofs}
    return f"the job's {edge}" if t in known else f"the window's {edge}"


def _said(graph: Graph, found: Gaps, group: Int64s, reason: int, tell: str) -> tuple[str, str, str]:
    """Sentence, what it is about, and lane of a group."""
    records = graph.records
    cost, count = figures.spaced(int(found.length[group].sum())), len(group)
    longest = group[np.argmax(found.length[group])]
    span = int(found.span[longest])
    lane = records.lane(records.host, span) if span >= 0 else ""
    if reason == LAUNCH:
        return f"{count:,} launch gaps, {cost}: batch or graph them", "launches", ""
    if reason == SYNC:
        name = records.text(int(records.waits.name[found.wait[longest]]))
        kind = WAITS.get(name, "")
        where = f" in {records.text(int(records.host.name[span]))}" if span >= 0 else ""
        if name.startswith(BLOCKED):
            return f"{name[5:]} stood still in the driver{where}{times(count)}", f"{name}{where}", lane
        return (
            f"queue drained by {kind} synchronise{where}{times(count)}".replace("  ", " "),
            f"{name}{where}",
            lane,
        )
    if reason == UNKNOWN:
        return f"idle for {cost}{tell}{times(count)}: nothing recorded says why", "unknown", ""
    return (
        f"waited {cost} for {_whom(graph, found, group, tell)}",
        records.text(int(records.host.name[span])),
        lane,
    )


def _whom(graph: Graph, found: Gaps, group: Int64s, tell: str) -> str:
    """``abc.eval of p8``, ``synthesis of p4 (3.50 s), p9 (2.65 s)``, ``h2d.key before msm.a, 5 times``."""
    records = graph.records
    sums: dict[str, int] = {}
    for place, length in zip(found.span[group].tolist(), found.length[group].tolist(), strict=True):
        text = described(records, records.host, place)
        sums[text] = sums.get(text, 0) + length
    if len(sums) == 1:
        return next(iter(sums)) + tell + times(len(group))
    name = records.text(int(records.host.name[found.span[group[0]]]))
    most = sorted(sums, key=lambda text: -sums[text])
    told = [f"{text.removeprefix(f'{name} of ')} ({figures.spaced(sums[text])})" for text in most[:3]]
    return f"{name} of " + ", ".join(told) + (f" and {len(most) - 3} more" if len(most) > 3 else "") + tell


def _lane(graph: Graph, before: int, after: int, device: int) -> str:
    work = after if after >= 0 else before
    return graph.records.lane(graph.records.ops, work) if work >= 0 else f"gpu{device}.busy"


def cut(graph: Graph, found: Gaps, group: Int64s) -> Cut:
    """Take out what the threads did in these gaps, and what kept work from following the work before it."""
    host = graph.records.host
    threads: dict[int, tuple[list[Int64s], list[Int64s]]] = {}
    of_span = np.where(found.span[group] >= 0, np.append(host.track, -1)[found.span[group]], -1)
    for tracks in (found.track[group], of_span):
        for track in np.unique(tracks[tracks >= 0]).tolist():
            mine = group[tracks == track]
            start, end = threads.setdefault(track, ([], []))
            start.append(found.start[mine])
            end.append(found.end[mine])
    after = found.closes[group]
    return Cut(
        {track: union(np.concatenate(start), np.concatenate(end)) for track, (start, end) in threads.items()},
        closed=np.unique(after[after >= 0]),
    )
