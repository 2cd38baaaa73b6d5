"""What threads hand each other: flows, and GPUs that one claims and another waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from cuzk_top.stalls.graph import Graph

MOST_FLOWS = 20_000
"""Ends of flows that are looked at in a window, the latest."""

Handed = tuple[int, int, int, int, int]
"""(track, start, end, reached, source) of a wait: see `graph.Arrivals`."""


def flows(graph: Graph) -> list[Handed]:
    """(track, start, end, reached, source) of each flow that arrives on a thread that waited for it."""
    points = graph.scene.snapshot.flows
    inside = (points.start_ns >= graph.records.low) & (points.start_ns < graph.records.high)
    points = points.take(np.flatnonzero(inside)[-MOST_FLOWS:])
    first: dict[tuple[int, int], int] = {}
    found = []
    for i in np.argsort(points.start_ns, kind="stable").tolist():
        track, t = int(points.track[i]), int(points.start_ns[i])
        key = (graph.records.process(track), int(points.corr[i]))
        if not int(points.a0[i]):
            first[key] = i
            continue
        begun = first.get(key)
        if begun is None or int(points.track[begun]) == track:
            continue
        sent = int(points.start_ns[begun])
        since, until = _waited(graph, track, sent, t)
        found.append((track, since, until, sent, int(points.track[begun])))
    return found


def _waited(graph: Graph, track: int, sent: int, arrived: int) -> tuple[int, int]:
    """The wait that a flow ended: the wait span in which it arrived, or the time in which the thread was
    in no span, up to the arrival or to the outermost span in which it arrived, if it was sent before
    then; else none.
    """
    host, waits = graph.records.host, graph.wait_spans
    waits = waits[
        (host.track[waits] == track) & (host.start[waits] <= arrived) & (host.end[waits] >= arrived)
    ]
    if len(waits):
        return int(host.start[waits[-1]]), int(host.end[waits[-1]])
    inner = graph.hosts.innermost(track)
    place = int(np.searchsorted(inner.at, arrived, side="right"))
    if not place:
        return graph.records.low, arrived
    if inner.span[place - 1] < 0:
        return int(inner.at[place - 1]), arrived
    idle = np.flatnonzero(inner.span[: max(0, place - 1)] < 0)
    begun = int(inner.at[idle[-1] + 1]) if len(idle) else arrived
    return (int(inner.at[idle[-1]]), begun) if sent <= begun < arrived else (arrived, arrived)


def locks(graph: Graph) -> list[Handed]:
    host = graph.records.host
    if not graph.records.in_lane["claim"].any():
        return []
    found = []
    for wait in graph.wait_spans.tolist():
        holder = graph.holder(wait)
        since, until = int(host.start[wait]), int(host.end[wait])
        if holder is not None and since < int(host.end[holder[0]]) <= until + graph.scene.limits.clock_ns:
            reached = min(int(host.end[holder[0]]), until)
            found.append((int(host.track[wait]), since, until, reached, int(host.track[holder[0]])))
    return found
