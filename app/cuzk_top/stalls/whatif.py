"""What closing a finding would save: a proof's end, recomputed with some stretches shortened.

An event happens when the last of its edges allows it (`events`). Without any change this gives exactly the
recorded times; the longest path through the shortened graph is the new end. Edges that held nothing up may do
so then: a stretch that is removed saves at most its length, and nothing where something else takes as long.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from cuzk_top.stalls.critical import DEVICE, HOST, QUEUED, Paths, Stretch
from cuzk_top.stalls.events import Edges, Events
from cuzk_top.stalls.intervals import Int64s, Measure, Set
from cuzk_top.stalls.scene import Proof

_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """What is taken out: of threads, `share` of what they do in some intervals; of device work, `shorter` ns
    each; and the gap between each of `closed` and the work before it on its stream.
    """

    threads: dict[int, Set] = field(default_factory=dict)
    share: float = 1.0
    work: Int64s = field(default_factory=lambda: _NOTHING)
    shorter: Int64s = field(default_factory=lambda: _NOTHING)
    closed: Int64s = field(default_factory=lambda: _NOTHING)


NO_CUT = Cut()


@dataclass(frozen=True, slots=True, eq=False)
class _Where:
    """A path by kind: when it was on which thread, which work it led through and which it waited for."""

    thread: Int64s
    start: Int64s
    end: Int64s
    work: Int64s
    queued: Int64s

    @staticmethod
    def of(path: list[Stretch]) -> _Where:
        threads = [one for one in path if one.where == HOST]
        return _Where(
            np.array([one.place for one in threads], np.int64),
            np.array([one.start for one in threads], np.int64),
            np.array([one.end for one in threads], np.int64),
            np.array([one.place for one in path if one.where == DEVICE], np.int64),
            np.array([one.place for one in path if one.where == QUEUED], np.int64),
        )


class WhatIf:
    """Recomputes the proofs of a scene. `steps_left` is how many events may still be recomputed."""

    def __init__(self, paths: Paths, steps: int) -> None:
        self.paths, self.graph = paths, paths.graph
        self.events = Events(paths.graph)
        self.steps_left = steps
        self._stretches: dict[int, list[Stretch]] = {}
        self._where: dict[int, _Where] = {}

    def saved(self, cut: Cut) -> int:
        """Wall time that the cut saves, summed over the window's proofs, the latest first."""
        total = 0
        for proof in reversed(self.graph.scene.proofs):
            if not self._on_path(proof, cut):
                continue  # the path is still there, as long as before
            first, last = self._events(proof)
            if last - first > self.steps_left:
                break
            self.steps_left -= last - first
            total += max(0, proof.end - self.end(proof, cut))
        return total

    def stretches(self, proof: Proof) -> list[Stretch]:
        """The proof's critical path as it was."""
        known = self._stretches.get(proof.index)
        if known is None:
            known = self._stretches[proof.index] = self.paths.stretches(proof)
        return known

    def _on_path(self, proof: Proof, cut: Cut) -> bool:
        where = self._where.get(proof.index)
        if where is None:
            where = self._where[proof.index] = _Where.of(self.stretches(proof))
        for track, of in cut.threads.items():
            mine = where.thread == track
            if (Measure(of).within(where.start[mine], where.end[mine]) > 0).any():
                return True
        return bool(np.isin(where.work, cut.work).any() or np.isin(where.queued, cut.closed).any())

    def _events(self, proof: Proof) -> tuple[int, int]:
        first, last = np.searchsorted(self.events.time, [self._floor(proof), proof.end + 1])
        return int(first), int(last)

    def _floor(self, proof: Proof) -> int:
        return max(proof.start, self.graph.records.low)

    def end(self, proof: Proof, cut: Cut = NO_CUT) -> int:
        """When the proof would end."""
        first, last = self._events(proof)
        floor = self._floor(proof)
        removed = {track: Measure(of) for track, of in cut.threads.items()}
        ops = self.events.op[first:last]
        length = self.events.length[first:last].copy()
        closed = np.zeros(last - first, dtype=bool)
        if len(cut.work):
            shorter = np.zeros(len(self.graph.records.ops), np.int64)
            shorter[cut.work] = cut.shorter
            length -= np.where(ops >= 0, shorter[np.maximum(ops, 0)], 0)
        if len(cut.closed):
            closed = np.isin(ops, cut.closed) & (ops >= 0)
        lists = []
        for number, edges in enumerate(self.events.edges):
            part = Edges(*(getattr(edges, name)[first:last] for name in Edges.__slots__))
            source, lag = self._moments(part, floor, first, last, removed, cut.share)
            own = np.where(closed, np.minimum(part.lag, 0), part.lag) if number == 0 else part.lag
            lists += [source.tolist(), (lag + own + length).tolist()]
        times = [0] * (last - first + 1)  # the last stands for the zero of fixed times
        for i, (a, b, c, d) in enumerate(zip(*lists, strict=True)):
            one, other = times[a] + b, times[c] + d
            times[i] = one if one > other else other
        latest = floor
        for track, at, more in self._ends(proof):
            where, moment = np.array([track]), np.array([at])
            base = self.events.base(where, moment, np.array([last]))
            end = Edges(np.array([-1]), where, moment, base, np.array([more]))
            source, lag = self._moments(end, floor, first, last, removed, cut.share)
            latest = max(latest, times[int(source[0])] + int(lag[0]) + more)
        return latest

    def _moments(
        self, edges: Edges, floor: int, first: int, last: int, removed: dict[int, Measure], share: float
    ) -> tuple[Int64s, Int64s]:
        """Where each edge comes from (place after `first`; the last one: a fixed time), and the time since,
        less what is taken out. Events before `first` happened when they did.
        """
        event = np.where(edges.event >= 0, edges.event, edges.base)
        inside = event >= first
        recorded = self.events.recorded[np.maximum(event, 0)] if len(self.events.recorded) else edges.at
        since = np.where(edges.event >= 0, 0, edges.at - np.where(inside, recorded, 0))
        fixed = np.where(edges.event >= 0, recorded, edges.at)
        begins = np.where(inside, recorded, floor)
        for track, measure in removed.items():
            mine = np.flatnonzero((edges.event < 0) & (edges.track == track) & (edges.at > begins))
            out = measure.before(edges.at[mine]) - measure.before(begins[mine])
            taken = out if share == 1.0 else np.rint(out * share).astype(np.int64)
            since[mine] -= taken
            fixed[mine] -= taken
        return np.where(inside, event - first, last - first), np.where(inside, since, fixed)

    def _ends(self, proof: Proof) -> list[tuple[int, int, int]]:
        """(thread, moment, time from there to the proof's end) of what the proof's end waited for."""
        records = self.graph.records
        host = records.host
        if records.on_thread[proof.index]:
            return [(int(host.track[proof.index]), proof.end, 0)]
        threads, waiting, seen = list[int](), [proof.index], {proof.index}
        while waiting:
            children = np.flatnonzero((host.parent == host.id[waiting.pop()]) & (host.id != 0))
            for child in set(children.tolist()) - seen:
                seen.add(child)
                (threads if records.on_thread[child] else waiting).append(child)
        ends = [(int(host.track[i]), min(int(host.end[i]), proof.end)) for i in threads]
        last = max((end for _, end in ends), default=proof.end)
        found = [(track, end, proof.end - last) for track, end in ends]  # its own time comes after the last
        return found or [(-1, proof.end, 0)]
