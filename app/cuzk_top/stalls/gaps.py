"""Idle stretches of devices, each put down to one reason. Numpy only.

A gap is a stretch of a device without any work while a job was open. In this order:

0. *gone*: the device was lost before.
1. *sync*: the calls show a synchronise between the launches around it that returned when the gap had just
   opened, and both launches lie in the span that covers the gap (or none covers it): the queue was drained.
2. *launch*: it is shorter than a launch takes, between two pieces of work.
3. *host*: a span that is no job covers enough of it, on the thread that launched what came after (else
   before; else on any). If that span waited for another thread, what that thread did counts.
4. *unknown*. If the launching thread (a job's own, where nothing was launched) was in several spans
meanwhile, one after another, the gap is first cut where the outermost of them begin and end: each piece
waited for its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuzk_top.stalls import intervals
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.hosts import Hosts
from cuzk_top.stalls.intervals import Int64s, Set, pairs
from cuzk_top.stalls.records import Bools

SYNC, LAUNCH, HOST, UNKNOWN, GONE = range(5)


@dataclass(frozen=True, slots=True, eq=False)
class Gaps:
    """Gaps in order of device and start. `before` and `after` are the work around each, or around the gap
    that it was cut from (-1: none, the job began or ended), `span` the host span that covers it and `wait`
    the synchronise that drained it (-1: none). `closes` is `after` where the gap reaches up to it, else -1.
    """

    start: Int64s
    end: Int64s
    device: Int64s
    before: Int64s
    after: Int64s
    track: Int64s
    span: Int64s
    wait: Int64s
    reason: Int64s
    closes: Int64s

    @property
    def length(self) -> Int64s:
        """Of each."""
        return self.end - self.start


def find(graph: Graph, gone: dict[int, int]) -> Gaps:
    """The gaps of all devices of a scene while jobs were open; `gone` tells when a device was lost."""
    scene = graph.scene
    used = [device for device in scene.devices if device.used]
    if not used:
        nothing = np.empty(0, np.int64)
        return Gaps(*([nothing] * 10))
    idle = [_cut(intervals.both(device.idle, scene.jobs), gone.get(device.index)) for device in used]
    start, end = np.concatenate([one[0] for one in idle]), np.concatenate([one[1] for one in idle])
    device = np.repeat(np.array([one.index for one in used]), [len(one[0]) for one in idle])
    before, after = _around(graph, start, end, device)
    track = _thread(graph, before, after, start)
    span = _covering(graph, track, start, end)
    wait = _drained(graph, start, end, before, after)
    launcher = np.append(graph.records.launcher, -1)
    inside = graph.hosts.inside(launcher[before], span) & graph.hosts.inside(launcher[after], span)
    worked = (before >= 0) & (after >= 0)
    short = worked & (end - start < scene.limits.launch_ns)
    reason = np.select(
        [(wait >= 0) & (inside | (span < 0)), short, span >= 0], [SYNC, LAUNCH, HOST], default=UNKNOWN
    )
    found = _in_pieces(graph, Gaps(start, end, device, before, after, track, span, wait, reason, after))
    for number, since in gone.items():
        found.reason[(found.device == number) & (found.start >= since)] = GONE
    return found


def _in_pieces(graph: Graph, found: Gaps) -> Gaps:
    """The same with unexplained gaps cut along the outermost spans of their threads, jobs and claims
    apart.
    """
    host, records = graph.records.host, graph.records
    inner = Hosts(records, records.in_lane["claim"] | records.in_lane["job"])
    parts: list[tuple[Int64s, Int64s, Int64s]] = []  # start, end, the gap it is of
    unknown = (found.reason == UNKNOWN) & np.isin(found.track, inner.tracks)
    keys = np.unique(np.stack([found.device, found.track], axis=1)[unknown], axis=0)
    for device, track in keys.tolist():
        mine = np.flatnonzero(unknown & (found.device == device) & (found.track == track))
        spans = inner.outermost(track)
        gaps, held = (found.start[mine], found.end[mine]), (host.start[spans], host.end[spans])
        for start, end in (intervals.both(gaps, held), intervals.without(gaps, held)):
            parts.append((start, end, mine[np.searchsorted(gaps[1], start, side="right")]))
    if not parts:
        return found
    start, end, of = (np.concatenate([part[i] for part in parts]) for i in range(3))
    whole = np.setdiff1d(np.arange(len(found.start)), of)
    of = np.concatenate([whole, of])
    start, end = np.concatenate([found.start[whole], start]), np.concatenate([found.end[whole], end])
    order = np.lexsort((start, found.device[of]))
    of, start, end = of[order], start[order], end[order]
    cut = end - start < found.length[of]
    span = found.span[of]
    span[cut] = _covering(graph, found.track[of][cut], start[cut], end[cut])
    return Gaps(
        start,
        end,
        found.device[of],
        found.before[of],
        found.after[of],
        found.track[of],
        span,
        found.wait[of],
        np.where(cut & (span >= 0), HOST, found.reason[of]),
        np.where(end == found.end[of], found.after[of], -1),
    )


def _cut(of: Set, at: int | None) -> Set:
    """The same with the interval around a moment in two."""
    start, end = of
    if at is None or not ((start < at) & (end > at)).any():
        return of
    place = int(np.searchsorted(start, at, side="left"))
    return np.insert(start, place, at), np.insert(end, place - 1, at)


def _around(graph: Graph, start: Int64s, end: Int64s, device: Int64s) -> tuple[Int64s, Int64s]:
    """The work that ended where each gap begins, and that began where it ends; -1: none."""
    ops, of = graph.records.ops, graph.records.device
    before, after = np.full(len(start), -1, np.int64), np.full(len(start), -1, np.int64)
    for number in np.unique(device).tolist():
        mine, work = np.flatnonzero(device == number), np.flatnonzero(of == number)
        if not len(work):
            continue
        by_end = work[np.lexsort((work, ops.end[work]))]
        place = np.searchsorted(ops.end[by_end], start[mine], side="right") - 1
        found = by_end[np.maximum(place, 0)]
        before[mine] = np.where((place >= 0) & (ops.end[found] == start[mine]), found, -1)
        place = np.searchsorted(ops.start[work], end[mine], side="left")
        found = work[np.minimum(place, len(work) - 1)]
        after[mine] = np.where((place < len(work)) & (ops.start[found] == end[mine]), found, -1)
    return before, after


def _thread(graph: Graph, before: Int64s, after: Int64s, start: Int64s) -> Int64s:
    """The thread that launched what came after, else before; without either, the job's own; -1: not known."""
    threads = np.append(graph.launch_track, -1)
    found = np.where(threads[after] >= 0, threads[after], threads[before])
    alone = (before < 0) & (after < 0)
    for proof in graph.scene.proofs if alone.any() else ():
        if graph.records.on_thread[proof.index]:
            inside = alone & (start >= proof.start) & (start < proof.end)
            found[inside] = graph.records.host.track[proof.index]
    return found


def _covering(graph: Graph, track: Int64s, start: Int64s, end: Int64s) -> Int64s:
    """The span that each gap waited for; -1: none covers enough of it."""
    share = graph.scene.limits.cover
    job = np.append(graph.records.in_lane["job"], False)
    found = np.full(len(start), -1, np.int64)
    for number in np.unique(track[track >= 0]).tolist():
        mine = np.flatnonzero(track == number)
        found[mine] = graph.hosts.covering(number, start[mine], end[mine], share)
    found[job[found]] = -1
    open_ = np.flatnonzero(found < 0)
    if len(open_):
        found[open_] = _on_any(graph, start[open_], end[open_], share)
    host = graph.records.host
    for i in np.flatnonzero(np.isin(found, graph.wait_spans)).tolist():
        found[i] = _behind(graph, int(found[i]), int(start[i]), int(end[i]), share)
    assert not len(host) or not job[found].any()
    return found


def _on_any(graph: Graph, start: Int64s, end: Int64s, share: float) -> Int64s:
    """Of all threads the span that covers most of each; of equal ones the lowest thread's."""
    host, job = graph.records.host, np.append(graph.records.in_lane["job"], False)
    best, most = np.full(len(start), -1, np.int64), np.zeros(len(start), np.int64)
    for number in sorted(graph.hosts.tracks):
        span = graph.hosts.covering(number, start, end, share)
        span[job[span]] = -1
        covered = np.minimum(host.end[span], end) - np.maximum(host.start[span], start)
        better = (span >= 0) & (covered > most)
        best, most = np.where(better, span, best), np.where(better, covered, most)
    return best


def _behind(graph: Graph, wait: int, start: int, end: int, share: float) -> int:
    """What was done that a wait span waited for, on to the end of a chain of waits: for a lock, whose holder
    waited for what another thread prepared. The last wait itself where more is not recorded.
    """
    seen = {wait}
    while (span := _beyond(graph, wait, start, end, share)) not in seen:
        wait = span
        seen.add(span)
    return wait


def _beyond(graph: Graph, wait: int, start: int, end: int, share: float) -> int:
    """What the thread did that one wait span waited for; the span itself where it is none or that is not
    recorded.
    """
    host, arrivals = graph.records.host, graph.arrivals
    mine = (
        (arrivals.track == host.track[wait]) & (arrivals.source >= 0) & (arrivals.start == host.start[wait])
    )
    for which in np.flatnonzero(mine).tolist() if wait in graph.wait_spans else ():
        span = graph.hosts.covering(
            int(arrivals.source[which]), np.array([start]), np.array([end]), share
        ).item()
        if span >= 0 and not graph.records.in_lane["job"][span]:
            return int(span)
    return wait


def _drained(graph: Graph, start: Int64s, end: Int64s, before: Int64s, after: Int64s) -> Int64s:
    """The synchronise that each gap opens at; -1: none."""
    limits, ops, waits = graph.scene.limits, graph.records.ops, graph.records.waits
    found = np.full(len(start), -1, np.int64)
    worked = np.flatnonzero((before >= 0) & (after >= 0))
    if not len(worked) or not len(waits):
        return found
    process = graph.wait_process
    mine = graph.op_process[after[worked]]
    length = end[worked] - start[worked]
    until = start[worked] + np.maximum((length * limits.drained).astype(np.int64), limits.launch_ns)
    until = np.minimum(until, end[worked] + limits.clock_ns)
    first = np.searchsorted(waits.end, start[worked] - limits.clock_ns, side="left")
    last = np.searchsorted(waits.end, until, side="right")
    index, wait = pairs(first, last)
    low, high = ops.corr[before[worked]][index], ops.corr[after[worked]][index]
    between: Bools = (waits.corr[wait] > low) & (waits.corr[wait] < high) & (low > 0)
    between &= process[wait] == mine[index]
    index, wait = index[between], wait[between]
    places, where = np.unique(index, return_index=True)  # the first of several, which are in order of end
    found[worked[places]] = wait[where]
    return found
