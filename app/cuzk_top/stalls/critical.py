"""The critical path: what a proof waited for at each moment, backwards from its end over recorded edges.

Method: Hollingsworth, "Critical Path Profiling of Message Passing and Shared-Memory Programs" (IEEE TPDS
9(10), 1998): from the end back along each thread; where the thread waited, across to what it waited for,
which is the recorded edge whose other end came last. Here device streams are threads too.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from cuzk_top.stalls.finding import Step
from cuzk_top.stalls.graph import BOUND_BY_LAUNCH, BOUND_BY_STREAM, Graph
from cuzk_top.stalls.scene import Proof

HOST, DEVICE, QUEUED, UNKNOWN = "host", "device", "queued", "unknown"


class Stretch(NamedTuple):
    """One stay of the path: from `start` to `end` on a thread or on a stream.

    `where` is HOST (`place` is the thread), DEVICE (`place` is the work), QUEUED (the work was launched and
    did not run yet: no recorded edge says why) or UNKNOWN (nothing recorded; `place` is the thread, or -1).
    """

    start: int
    end: int
    where: str
    place: int


class Paths:
    """Critical paths of a scene's proofs."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        ops = graph.records.ops
        self._start, self._end = ops.start.tolist(), ops.end.tolist()
        self._before, self._bound = graph.before.tolist(), graph.bound_by.tolist()
        self._thread, self._launched = graph.launch_track.tolist(), graph.launched.tolist()
        waited = graph.arrivals.take(np.flatnonzero(graph.arrivals.binding))
        self._reached, self._op, self._source = (
            values.tolist() for values in (waited.reached, waited.op, waited.source)
        )
        self._arrived: dict[int, list[int]] = {}
        self._first: dict[int, int] = {}
        for track in np.unique(waited.track).tolist():
            low, high = np.searchsorted(waited.track, [track, track + 1])
            self._arrived[track], self._first[track] = waited.end[low:high].tolist(), int(low)
        self._begun = {track: self._spawns(track) for track in graph.hosts.tracks}
        self._ended = {track: self._outermost_ends(track) for track in graph.hosts.tracks}

    def _spawns(self, track: int) -> tuple[list[int], list[int]]:
        """When a thread began spans whose parent is on another thread, and which that is."""
        records = self.graph.records
        places = self.graph.hosts.spans(track)
        parents = records.find(records.host.parent[places])
        other = (parents >= 0) & (records.host.track[parents] != track) & (records.host.depth[places] == 0)
        order = np.argsort(records.host.start[places[other]], kind="stable")
        return records.host.start[places[other]][order].tolist(), parents[other][order].tolist()

    def _outermost_ends(self, track: int) -> list[int]:
        host, places = self.graph.records.host, self.graph.hosts.spans(track)
        ends: list[int] = np.sort(host.end[places[host.depth[places] == 0]]).tolist()
        return ends

    def stretches(self, proof: Proof) -> list[Stretch]:
        """The path of one proof from its start to its end, without gaps."""
        walk = _Walk(self, max(proof.start, self.graph.records.low), proof.end)
        walk.run(proof.index)
        found = walk.found[::-1]
        if not found or found[0].start > walk.floor:
            reached = found[0].start if found else proof.end
            if reached > walk.floor:
                found.insert(0, Stretch(walk.floor, reached, UNKNOWN, -1))
        return found

    def steps(self, stretches: list[Stretch]) -> tuple[Step, ...]:
        """The path as the spans it leads through; neighbours of one span are one step.

        A step of device work has the id of the span that launched it (device records have none).
        """
        records, steps = self.graph.records, list[Step]()
        host, ops = records.host, records.ops

        def add(start: int, end: int, span: int, name: str, lane: str) -> None:
            last = steps[-1] if steps else None
            if last is not None and (last.span, last.name, last.lane) == (span, name, lane):
                start = last.start_ns
                steps.pop()
            steps.append(Step(start, end, span, name, lane))

        lane = ""
        for one in stretches:
            if one.where == DEVICE:
                lane = records.lane(ops, one.place)
                add(
                    one.start,
                    one.end,
                    int(ops.parent[one.place]),
                    records.text(int(ops.name[one.place])),
                    lane,
                )
            elif one.where == HOST:
                for start, end, span in self.graph.hosts.innermost(one.place).pieces(one.start, one.end):
                    if span < 0:
                        add(start, end, 0, "", lane)
                        continue
                    lane = records.lane(host, span)
                    add(start, end, int(host.id[span]), records.text(int(host.name[span])), lane)
            else:
                add(one.start, one.end, 0, "", lane)
        return tuple(steps)


class _Walk:
    """One walk back from `t` to `floor`. Every turn goes back in time, or to an earlier edge of that
    moment.
    """

    def __init__(self, paths: Paths, floor: int, t: int) -> None:
        self.paths, self.floor, self.t = paths, floor, t
        self.found: list[Stretch] = []  # the last first
        # Of each thread, the arrivals and beginnings of spans from here on are behind us.
        self._used: dict[int, int] = {}
        self._passed: dict[int, int] = {}

    def run(self, span: int) -> None:
        records = self.paths.graph.records
        here = self._from_span(span)
        turns = 4 * (len(records.ops) + len(self.paths.graph.arrivals) + len(records.host)) + 16
        while here is not None and self.t > self.floor and turns:
            turns -= 1
            where, place = here
            here = self._thread(place) if where == HOST else self._device(place)

    def _add(self, until: int, where: str, place: int) -> None:
        """The path was there from `until` to now."""
        until = max(until, self.floor)
        if until < self.t:
            self.found.append(Stretch(until, self.t, where, place))
            self.t = until

    def _from_span(self, span: int) -> tuple[str, int] | None:
        """Where the path is at `t` when it is in this span: of an async one, in the child that ended last."""
        records = self.paths.graph.records
        host = records.host
        seen: set[int] = set()  # in a damaged trace a span may be its own parent
        while not records.on_thread[span]:
            seen.add(span)
            children = np.flatnonzero((host.parent == host.id[span]) & (host.end <= self.t) & (host.id != 0))
            children = children[(host.end[children] > self.floor) & (host.start[children] < self.t)]
            children = np.array([child for child in children.tolist() if child not in seen], np.int64)
            if not len(children):
                self._add(int(host.start[span]), UNKNOWN, -1)
                return None
            last = children[np.lexsort((children, host.end[children]))[-1]]
            self._add(int(host.end[last]), UNKNOWN, -1)
            span = int(last)
        return HOST, int(host.track[span])

    def _began(self, track: int, parent: int) -> tuple[str, int] | None:
        """Where the path goes from the beginning of a thread's span whose parent is on another track.

        An async parent runs nothing itself: the thread was free, or what the parent had done before was over,
        whichever came last.
        """
        paths = self.paths
        records = paths.graph.records
        if not records.on_thread[parent]:
            ends = paths._ended[track]
            free = bisect_right(ends, self.t) - 1
            host = records.host
            earlier = host.end[(host.parent == host.id[parent]) & (host.end <= self.t)]
            if free >= 0 and ends[free] > self.floor and ends[free] >= int(earlier.max(initial=0)):
                self._add(ends[free], HOST, track)
                return HOST, track
        return self._from_span(parent)

    def _thread(self, track: int) -> tuple[str, int] | None:
        paths = self.paths
        ends = paths._arrived.get(track, [])
        last = min(bisect_right(ends, self.t), self._used.get(track, len(ends))) - 1
        starts, parents = paths._begun.get(track, ([], []))
        born = min(bisect_right(starts, self.t), self._passed.get(track, len(starts))) - 1
        arrived = ends[last] if last >= 0 else self.floor
        if born >= 0 and starts[born] > max(arrived, self.floor):
            self._passed[track] = born
            self._add(starts[born], HOST, track)
            return self._began(track, parents[born])
        if last < 0 or arrived <= self.floor:
            self._add(self.floor, HOST, track)
            return None
        self._used[track] = last
        which = paths._first[track] + last
        self._add(min(paths._reached[which], arrived), HOST, track)
        op = paths._op[which]
        return (DEVICE, op) if op >= 0 else (HOST, paths._source[which])

    def _device(self, op: int) -> tuple[str, int] | None:
        paths = self.paths
        self._add(paths._start[op], DEVICE, op)
        if paths._bound[op] == BOUND_BY_STREAM:
            before = paths._before[op]
            self._add(paths._end[before], QUEUED, op)
            return DEVICE, before
        if paths._bound[op] == BOUND_BY_LAUNCH:
            self._add(paths._launched[op], QUEUED, op)
            return HOST, paths._thread[op]
        self._add(self.floor, UNKNOWN, -1)
        return None
