"""Longest paths through many graphs of events at once: different cuts of the same graph, and different
proofs.

Graphs of about one size are walked through together, one event of each a step; long ones each alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cuzk_top.stalls.intervals import Int64s

Edge = tuple[Int64s, Int64s]
"""Of each event the event before it (counted from its graph's first; -1: none, the time is absolute), and the
time from there to the event's end."""
Graph = tuple[Edge, Edge]
"""Both edges of each event: the later of the two decides."""

LONG = 4_000
"""Events from which a graph is walked through alone: one at a time costs 0.25 us an event, together 10 us a
step and 0.05 us for each graph."""
FEW = 24


def solve(parts: Sequence[tuple[Graph, int, int]]) -> list[Sequence[int] | Int64s]:
    """The time of each event from `first` to below `last` of each graph, and at the end 0."""
    found: list[Sequence[int] | Int64s] = [()] * len(parts)
    together = [i for i, (_, first, last) in enumerate(parts) if last - first < LONG]
    if len(together) < FEW:
        together = []
    for i in sorted(set(range(len(parts))) - set(together)):
        found[i] = _alone(*parts[i])
    # Of about one length, so that little is walked in vain.
    together.sort(key=lambda i: parts[i][2] - parts[i][1])
    for low in range(0, len(together), 512):
        batch = together[low : low + 512]
        times = _together([parts[i] for i in batch])
        for column, i in enumerate(batch):
            found[i] = times[:, column]
    return found


def _alone(graph: Graph, first: int, last: int) -> list[int]:
    lists = [values[first:last].tolist() for edge in graph for values in edge]
    times = [0] * (last - first + 1)  # the last stands for "at a fixed time": place -1
    for i, (a, b, c, d) in enumerate(zip(*lists, strict=True)):
        one, other = times[a] + b, times[c] + d
        times[i] = one if one > other else other
    times[-1] = 0
    return times


def _together(parts: Sequence[tuple[Graph, int, int]]) -> Int64s:
    """Times by event and graph."""
    lengths = [last - first for _, first, last in parts]
    most = max(lengths, default=0)
    source = np.full((2, most, len(parts)), most, np.int64)
    lag = np.zeros((2, most, len(parts)), np.int64)
    for column, (graph, first, last) in enumerate(parts):
        for side, (event, after) in enumerate(graph):
            places = event[first:last]
            source[side, : last - first, column] = np.where(places < 0, most, places)
            lag[side, : last - first, column] = after[first:last]
    times = np.zeros((most + 1, len(parts)), np.int64)
    flat = times.reshape(-1)
    where = source * len(parts) + np.arange(len(parts))
    for step in range(most):
        np.maximum(flat[where[0, step]] + lag[0, step], flat[where[1, step]] + lag[1, step], out=times[step])
    return times
