"""A scene's edges as a graph of events: ends of device work and ends of waits, each with at most two edges.

An edge comes from another event, or from a *moment of a thread*: that is the thread's last event before it
and what the thread did since. Every edge carries the time that it took in the recording if it was the one
that held the event up, else the least: none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuzk_top.stalls.graph import BOUND_BY_LAUNCH, BOUND_BY_STREAM, Graph
from cuzk_top.stalls.intervals import Int64s


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """One edge an event. `event` is where it comes from (-1: a moment of a thread), `track` and `at` say
    which moment (track -1: a fixed time), `base` is that thread's last event before it (-1: none); `lag`
    follows.
    """

    event: Int64s
    track: Int64s
    at: Int64s
    base: Int64s
    lag: Int64s


class Events:
    """The events in an order in which each comes after those it depends on.

    `time` orders them, `recorded` is when each happened, `op` the device work (-1: a wait).
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        ops, arrivals = graph.records.ops, graph.arrivals
        self._ops = len(ops)
        awaited = np.where(arrivals.op >= 0, arrivals.op, 0)
        over = np.where(arrivals.op >= 0, ops.end[awaited], arrivals.end) if len(ops) else arrivals.end
        happened = np.concatenate([ops.end, np.maximum(arrivals.end, over)])
        waits = np.repeat(np.array([0, 1]), [len(ops), len(arrivals)])
        order = np.lexsort((np.concatenate([ops.start, arrivals.start]), waits, happened))
        self.time = happened[order]
        self.recorded = np.concatenate([ops.end, arrivals.end])[order]
        self.op = np.where(order < len(ops), order, -1)
        self._place = np.empty(len(order), np.int64)
        self._place[order] = np.arange(len(order))
        self._tracks, self._from = np.unique(arrivals.track, return_index=True)
        first, second = self._of_ops(), self._of_arrivals()
        self.edges = tuple(
            self._in_order(Edges(*(np.concatenate([a, b])[order] for a, b in zip(left, right, strict=True))))
            for left, right in zip(first, second, strict=True)
        )
        self.length = np.concatenate([ops.end - ops.start, np.zeros(len(arrivals), np.int64)])[order]

    def of_arrivals(self, which: Int64s) -> Int64s:
        """Places of these arrivals among the events."""
        return self._place[self._ops + which]

    def _in_order(self, edges: Edges) -> Edges:
        """The same where edges from later events (work of one stream that overlaps, clocks that disagree)
        come from when those happened.
        """
        late = edges.event >= np.arange(len(edges.event))
        if not late.any():
            return edges
        return Edges(
            np.where(late, -1, edges.event),
            np.where(late, -1, edges.track),
            np.where(late, self.recorded[np.maximum(edges.event, 0)], edges.at),
            np.where(late, -1, edges.base),
            edges.lag,
        )

    def _of_ops(self) -> tuple[list[Int64s], list[Int64s]]:
        graph, ops = self.graph, self.graph.records.ops
        places = self._place[: self._ops]
        has = graph.before >= 0
        before = np.where(has, graph.before, 0)
        gap = ops.start - ops.end[before] if len(ops) else ops.start
        nothing = np.full(len(ops), -1, np.int64)
        free = ~has & (graph.launch_track < 0)  # nothing is known: it happens when it happened
        stream = [
            np.where(has, self._place[before], -1) if len(ops) else nothing,
            nothing,
            np.where(free, ops.start, np.iinfo(np.int64).min // 2),
            nothing,
            np.where(has & (graph.bound_by == BOUND_BY_STREAM), gap, 0),
        ]
        launched = graph.launch_track >= 0
        at = np.where(launched, graph.launched, np.iinfo(np.int64).min // 2)
        launch = [
            nothing,
            graph.launch_track,
            at,
            self.base(graph.launch_track, at, places, launch=True),
            np.where(graph.bound_by == BOUND_BY_LAUNCH, ops.start - at, 0),
        ]
        return stream, launch

    def _of_arrivals(self) -> tuple[list[Int64s], list[Int64s]]:
        arrivals, ops = self.graph.arrivals, self.graph.records.ops
        places = self._place[self._ops :]
        binding = arrivals.binding
        from_op = arrivals.op >= 0
        awaited = np.where(from_op, arrivals.op, 0)
        over = np.where(from_op, ops.end[awaited], arrivals.reached) if len(ops) else arrivals.reached
        nothing = np.full(len(arrivals), -1, np.int64)
        fixed = np.where(from_op | (arrivals.source >= 0), arrivals.reached, np.iinfo(np.int64).min // 2)
        reason = [
            np.where(from_op, self._place[awaited], -1) if len(self._place) else nothing,
            np.where(from_op, -1, arrivals.source),
            fixed,
            self.base(np.where(from_op, -1, arrivals.source), arrivals.reached, places),
            np.where(binding, arrivals.end - over, np.minimum(arrivals.end - over, 0)),
        ]
        own = [
            nothing,
            arrivals.track,
            arrivals.start,
            self.base(arrivals.track, arrivals.start, places),
            np.where(binding, 0, arrivals.end - arrivals.start),
        ]
        return reason, own

    def base(self, tracks: Int64s, at: Int64s, limit: Int64s, *, launch: bool = False) -> Int64s:
        """The last event of each thread up to a moment that comes before the event `limit`; -1: none.

        A wait of no length at the moment of a launch came after it: the launch is known to be no later.
        """
        arrivals = self.graph.arrivals
        found = np.full(len(tracks), -1, np.int64)
        edges = np.append(self._from, len(arrivals))
        for number, track in enumerate(self._tracks.tolist()):
            mine = np.flatnonzero(tracks == track)
            if not len(mine):
                continue
            low, high = int(edges[number]), int(edges[number + 1])
            index = np.searchsorted(arrivals.end[low:high], at[mine], side="right") - 1
            places = self._place[self._ops + low : self._ops + high]
            start = arrivals.start[low:high]
            while True:
                which = np.maximum(index, 0)
                late = (places[which] >= limit[mine]) | (launch & (start[which] >= at[mine]))
                late &= index >= 0
                if not late.any():
                    break
                index = np.where(late, index - 1, index)
            found[mine] = np.where(index >= 0, places[np.maximum(index, 0)], -1)
        return found
