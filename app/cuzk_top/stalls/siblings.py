"""How a host span compares with the others of its name and size. Numpy only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuzk_top.stalls.intervals import Int64s
from cuzk_top.stalls.records import Bools, Records


@dataclass(frozen=True, slots=True, eq=False)
class Siblings:
    """Of each host span: how many other finished ones there are of its name and first argument, and the
    medians of their lengths and faults (0 where there are none).
    """

    others: Int64s
    median_ns: Int64s
    faults: Int64s


SIZES = frozenset(
    {"points", "domain", "bytes", "constraints", "coefficients", "wires", "size", "log2_points"}
)
"""First arguments that say how much there was to do, by name: spans of another size are no siblings."""


def compare(records: Records, which: Bools) -> Siblings:
    """The chosen spans; the others have zeros. Open ones are compared with finished ones and count for
    nobody."""
    host = records.host
    others, median, faults = (np.zeros(len(host), np.int64) for _ in range(3))
    names = records.session.names
    sized = np.array([name.a0 in SIZES for name in names] + [False])
    size = np.where(sized[np.minimum(host.name, len(names))], host.a0, 0)
    order = np.flatnonzero(which)
    order = order[np.lexsort((size[order], host.name[order]))]
    edges = (host.name[order][1:] != host.name[order][:-1]) | (size[order][1:] != size[order][:-1])
    length = host.end - host.start
    for group in np.split(order, np.flatnonzero(edges) + 1):
        if len(group) < 2:
            continue
        done = group[~host.open[group]]
        if not len(done):
            continue
        others[group] = len(done)
        others[done] -= 1
        _leave_one_out(length, group, done, median)
        _leave_one_out(host.minflt, group, done, faults)
    return Siblings(others, median, faults)


def _leave_one_out(values: Int64s, group: Int64s, done: Int64s, into: Int64s) -> None:
    """The median of the finished spans' values without the span's own (the mean of the middle two, rounded
    down)."""
    ordered = np.sort(values[done])
    into[group] = _middle(ordered)
    if len(done) < 2:
        into[done] = 0
        return
    # Without one value the others move down: which two are in the middle depends on where it stood.
    rank = np.searchsorted(ordered, values[done], side="left")
    count = len(done) - 1
    low, high = (count - 1) // 2, count // 2
    into[done] = (ordered[low + (rank <= low)] + ordered[high + (rank <= high)]) // 2


def _middle(ordered: Int64s) -> int:
    return int(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
