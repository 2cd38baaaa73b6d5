"""Moments at which a thread goes on because device work is done: synchronises, and copies that hold up their
callers. Numpy only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cuzk_top.stalls.intervals import Int64s
from cuzk_top.stalls.records import Bools

if TYPE_CHECKING:
    from cuzk_top.stalls.graph import Graph

STAGED_BYTES = 64 << 10
"""Up to this size a copy of pageable memory to a device may be on its way when its call returns (CUDA's API
synchronization behavior)."""
_STREAM = re.compile(r"GPU\d+ stream (\d+)")


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Moments at which a thread goes on because of something elsewhere, sorted by (track, end).

    The thread waited from `start` to `end`. What it waited for was over at `reached`: device work `op`, or
    (op -1) what thread `source` did until then.
    """

    track: Int64s
    start: Int64s
    end: Int64s
    reached: Int64s
    op: Int64s
    source: Int64s

    def __len__(self) -> int:
        return len(self.track)

    @property
    def binding(self) -> Bools:
        """Where the thread did wait: what it waited for was not over when it began to."""
        return self.reached > self.start

    def take(self, which: Int64s | Bools) -> Arrivals:
        """Some of them."""
        return Arrivals(*(getattr(self, name)[which] for name in self.__slots__))


def _awaited(graph: Graph) -> Int64s:
    """The work that each synchronise waited for; -1 where none is known."""
    ops, waits = graph.records.ops, graph.records.waits
    if not len(ops):
        return np.full(len(waits), -1, np.int64)
    order = np.argsort(ops.end, kind="stable")
    corr = ops.corr[order]
    process = graph.op_process[order]
    mine = graph.wait_process
    latest = waits.end + graph.scene.limits.clock_ns
    place = np.searchsorted(ops.end[order], latest, side="right") - 1
    for _ in range(64):  # work launched later, or by another process, is passed over
        at = np.maximum(place, 0)
        wrong = (place >= 0) & ((corr[at] >= waits.corr) | (corr[at] == 0) | (process[at] != mine))
        if not wrong.any():
            return np.where(place >= 0, order[at], -1)
        place = np.where(wrong, place - 1, place)
    return np.where((place >= 0) & ~wrong, order[np.maximum(place, 0)], -1)


def synchronised(graph: Graph) -> Arrivals:
    """Synchronises, those of several streams in as many pieces: one goes on where another ends."""
    waits, ops = graph.records.waits, graph.records.ops
    wait, op = _awaited_pairs(graph)
    known = graph.wait_track[wait] >= 0
    wait, op = wait[known], op[known]
    ended = np.append(ops.end, 0)[op]
    reached = np.where(op >= 0, np.minimum(ended, waits.end[wait]), waits.start[wait])
    order = np.lexsort((reached, wait))
    wait, op, reached = wait[order], op[order], reached[order]
    first = np.concatenate([[True], wait[1:] != wait[:-1]])[: len(wait)]
    last = np.concatenate([wait[1:] != wait[:-1], [True]])[: len(wait)]
    over = np.maximum(reached, waits.start[wait])
    start = np.where(first, waits.start[wait], np.concatenate([over[:1], over[:-1]])[: len(wait)])
    end = np.where(last, waits.end[wait], over)
    return Arrivals(graph.wait_track[wait], start, end, reached, op, np.full(len(wait), -1, np.int64))


def _streams(graph: Graph) -> Int64s:
    """Of each synchronise the track of the stream that it waited for; -1 where that is not told, or two
    streams of its process (of two devices, say) have the number.
    """
    records, waits = graph.records, graph.records.waits
    found = np.full(len(waits), -1, np.int64)
    named = [number for number, name in enumerate(records.session.names) if name.a0 == "stream"]
    told = np.isin(waits.name, named)
    if not told.any():
        return found
    tracks: dict[tuple[int, int], list[int]] = {}
    for track in np.unique(records.ops.track).tolist():
        known = records.session.tracks.get(track)  # not in a damaged trace
        number = _STREAM.match(known.label) if known is not None else None
        if number:
            tracks.setdefault((records.process(track), int(number[1])), []).append(track)
    for (process, stream), of in tracks.items():
        if len(of) == 1:
            found[told & (graph.wait_process == process) & (waits.a0 == stream)] = of[0]
    return found


def copied(graph: Graph) -> Arrivals:
    """Copies of pageable memory whose calls returned when they were done, so that their threads waited.

    CUDA says that such a call may do so; the records show where it did: its span lasted as long, no span of
    that thread began or ended meanwhile, and what the thread called for next came after.
    """
    records, ops, clock = graph.records, graph.records.ops, graph.scene.limits.clock_ns
    names = np.unique(ops.name)
    pageable = [int(n) for n in names if records.text(int(n)).endswith(".pageable")]
    down = [n for n in pageable if ".d2h" in records.text(n)]
    fits = np.isin(ops.name, pageable) & ((ops.a0 > STAGED_BYTES) | np.isin(ops.name, down))
    fits &= (graph.launch_track >= 0) & (ops.corr > 0) & (ops.end - ops.start > clock)
    copies = np.flatnonzero(fits)
    until = ops.end[copies]
    if len(copies):
        until = np.minimum(until, records.host.end[records.launcher[copies]])
        until = np.minimum(until, _next_call(graph, copies))
    held = (until >= ops.end[copies] - clock) & _stays(graph, copies)
    copies, until = copies[held], until[held]
    track, start = graph.launch_track[copies], ops.start[copies]
    return Arrivals(track, start, until, until, copies, np.full(len(copies), -1, np.int64))


def _next_call(graph: Graph, which: Int64s) -> Int64s:
    """When at the latest each one's thread made the next recorded call after the one that gave it; far away
    where there is none.
    """
    ops, waits = graph.records.ops, graph.records.waits
    found = np.full(len(which), np.iinfo(np.int64).max, np.int64)
    for track in np.unique(graph.launch_track[which]).tolist():
        of = np.flatnonzero(graph.launch_track[which] == track)
        for calls, threads in ((ops, graph.launch_track), (waits, graph.wait_track)):
            mine = np.flatnonzero((threads == track) & (calls.corr > 0))
            mine = mine[np.argsort(calls.corr[mine], kind="stable")]
            after = np.searchsorted(calls.corr[mine], ops.corr[which[of]], side="right")
            begins = np.append(calls.start[mine], np.iinfo(np.int64).max)[after]
            found[of] = np.minimum(found[of], begins)
    return found


def _stays(graph: Graph, which: Int64s) -> Bools:
    """Of each whether no span of the thread that gave it began or ended while it ran."""
    clock, ops, tracks = graph.scene.limits.clock_ns, graph.records.ops, graph.launch_track[which]
    found = np.zeros(len(which), dtype=bool)
    for track in np.unique(tracks).tolist():
        at, mine = graph.hosts.innermost(track).at, tracks == track
        first = np.searchsorted(at, ops.start[which[mine]] + clock, side="left")
        found[mine] = first == np.searchsorted(at, ops.end[which[mine]] - clock, side="right")
    return found


def _awaited_pairs(graph: Graph) -> tuple[Int64s, Int64s]:
    """(synchronise, work it waited for), -1 for none known: of a device's the last work of each stream, of a
    stream's that of its own where it is told.
    """
    waits, ops = graph.records.waits, graph.records.ops
    names = {int(name) for name in np.unique(waits.name)}
    whole = np.isin(waits.name, [name for name in names if graph.records.text(name) == "sync.context"])
    own = _streams(graph)
    single = np.flatnonzero(~whole & (own < 0))
    pairs = [(single, _awaited(graph)[single])]
    process = graph.wait_process
    for stream in np.unique(ops.track).tolist():
        mine = np.flatnonzero((ops.track == stream) & (ops.corr > 0))
        mine = mine[np.argsort(ops.corr[mine], kind="stable")]
        of = np.flatnonzero((whole & (process == graph.records.process(stream))) | (own == stream))
        of = of[waits.corr[of] > 0]
        place = np.searchsorted(ops.corr[mine], waits.corr[of], side="left") - 1
        of, op = of[place >= 0], mine[place[place >= 0]]
        fits = ops.end[op] <= waits.end[of] + graph.scene.limits.clock_ns
        pairs.append((of[fits], op[fits]))
    alone = np.setdiff1d(np.arange(len(waits)), np.concatenate([wait for wait, _ in pairs]))
    pairs.append((alone, np.full(len(alone), -1, np.int64)))
    return np.concatenate([wait for wait, _ in pairs]), np.concatenate([op for _, op in pairs])
