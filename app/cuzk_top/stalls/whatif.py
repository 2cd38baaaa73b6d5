"""What closing a finding would save: a proof's end, recomputed with some stretches shortened.

An event happens when the last of its edges allows it (`events`). Without any change this gives exactly the
recorded times; the longest path through the shortened graph is the new end. Edges that held nothing up may do
so then: a stretch that is removed saves at most its length, and nothing where something else takes as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cuzk_top.stalls import longest
from cuzk_top.stalls.critical import DEVICE, HOST, QUEUED, Paths, Stretch
from cuzk_top.stalls.events import Edges, Events
from cuzk_top.stalls.intervals import Int64s, Measure, Set
from cuzk_top.stalls.records import Bools
from cuzk_top.stalls.scene import Proof

_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """What is taken out: of threads, `share` of what they do in some intervals; of device work, `shorter` ns
    each; the gap between each of `closed` and the work before it on its stream; and of what was `handed` to
    threads (places in `Graph.arrivals`) the last ns before it came: it comes so much `sooner`.
    """

    threads: dict[int, Set] = field(default_factory=dict)
    share: float = 1.0
    work: Int64s = field(default_factory=lambda: _NOTHING)
    shorter: Int64s = field(default_factory=lambda: _NOTHING)
    closed: Int64s = field(default_factory=lambda: _NOTHING)
    handed: Int64s = field(default_factory=lambda: _NOTHING)
    sooner: Int64s = field(default_factory=lambda: _NOTHING)


NO_CUT = Cut()


@dataclass(frozen=True, slots=True, eq=False)
class _Where:
    """The paths of all proofs by kind: when which was on which thread, which work they led through and which
    they waited for; each with the proof's number.
    """

    threads: Int64s  # rows of proof, thread, start, end
    work: Int64s  # rows of proof, work
    queued: Int64s

    @staticmethod
    def of(paths: list[list[Stretch]]) -> _Where:
        every = [one for path in paths for one in path]
        if not every:
            return _Where(*(np.empty((0, width), np.int64) for width in (4, 2, 2)))
        start, end, where, place = zip(*every, strict=True)
        number = np.arange(len(paths)).repeat([len(path) for path in paths])
        times = np.array([start, end], np.int64)
        kind, places = np.array(where), np.array(place, np.int64)
        on_thread, at_work, queued = (kind == one for one in (HOST, DEVICE, QUEUED))
        return _Where(
            np.stack([number[on_thread], places[on_thread], *times[:, on_thread]], axis=1),
            np.stack([number[at_work], places[at_work]], axis=1),
            np.stack([number[queued], places[queued]], axis=1),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Timed:
    """Where each edge comes from (an event counted from its proof's first; -1: a fixed time), and the time
    from there on as recorded. Where `worked`, the edge's thread did something from `begins` to the edge's
    moment.
    """

    edges: Edges
    source: Int64s
    lag: Int64s
    begins: Int64s
    worked: Bools

    def without(self, cut: Cut) -> Int64s:
        """The lags, less what is taken out of threads."""
        lag = self.lag
        for track, of in cut.threads.items():
            mine = np.flatnonzero(self.worked & (self.edges.track == track))
            out = Measure(of).within(self.begins[mine], self.edges.at[mine])
            lag = lag.copy() if lag is self.lag else lag
            lag[mine] -= out if cut.share == 1.0 else np.rint(out * cut.share).astype(np.int64)
        return lag


class WhatIf:
    """Recomputes the proofs of a scene but for those that failed: an earlier failure saves nothing. `steps`
    is how many events are recomputed at most, over all calls.
    """

    def __init__(self, paths: Paths, steps: int) -> None:
        self.paths, self.graph = paths, paths.graph
        self.events = Events(paths.graph)
        self._steps = steps
        self.proofs = tuple(proof for proof in paths.graph.scene.proofs if not proof.failed)
        floor = [max(proof.start, self.graph.records.low) for proof in self.proofs]
        self._floor = np.array(floor, np.int64)
        ends = np.array([proof.end for proof in self.proofs], np.int64)
        self._first = np.searchsorted(self.events.time, self._floor)
        self._last = np.searchsorted(self.events.time, ends + 1)
        self._stretches = [paths.stretches(proof) for proof in self.proofs]
        self._where = _Where.of(self._stretches)
        self._ends = [self._ends_of(proof) for proof in self.proofs]

    def stretches(self, proof: Proof) -> list[Stretch]:
        """The proof's critical path as it was."""
        if proof.failed:
            return self.paths.stretches(proof)
        return self._stretches[self.proofs.index(proof)]

    def saved(self, cuts: Sequence[Cut]) -> list[int]:
        """Wall time that each cut saves, summed over the window's proofs.

        Where there are more events than may be recomputed, the earliest proofs are left out for all cuts.
        """
        on_path = np.array([self._on_path(cut) for cut in cuts], dtype=bool).reshape(
            len(cuts), len(self.proofs)
        )
        events = (self._last - self._first) * on_path.sum(axis=0)
        within = np.cumsum(events[::-1])[::-1] <= self._steps
        self._steps -= int(events[within].sum())
        total = [0] * len(cuts)
        for layer in self._layers():
            chosen = [(cut, proof) for cut in range(len(cuts)) for proof in layer if on_path[cut, proof]]
            lanes = [lane for lane in chosen if within[lane[1]]]
            for (cut, proof), end in zip(lanes, self._recomputed(cuts, lanes, layer), strict=True):
                total[cut] += max(0, self.proofs[proof].end - end)
        return total

    def end(self, proof: Proof, cut: Cut = NO_CUT) -> int:
        """When a proof would end."""
        number = self.proofs.index(proof)
        return self._recomputed([cut], [(0, number)], [number])[0]

    def _on_path(self, cut: Cut) -> Bools:
        """Of each proof whether anything is taken out of its path; else that is still there, as long as
        before.
        """
        found = np.zeros(len(self.proofs), dtype=bool)
        where = self._where
        for track, of in cut.threads.items():
            mine = where.threads[where.threads[:, 1] == track]
            found[mine[Measure(of).within(mine[:, 2], mine[:, 3]) > 0, 0]] = True
        for on_path, taken in ((where.work, cut.work), (where.queued, cut.closed)):
            chosen = np.zeros(len(self.graph.records.ops), dtype=bool)
            chosen[taken] = True
            found[on_path[chosen[on_path[:, 1]], 0]] = True
        for place in self.events.of_arrivals(cut.handed).tolist():
            found |= (self._first <= place) & (place < self._last)
        return found

    def _layers(self) -> list[list[int]]:
        """The proofs in groups of which no two overlap."""
        layers: list[list[int]] = []
        reach: list[int] = []
        for number in sorted(range(len(self.proofs)), key=lambda n: int(self._first[n])):
            first, last = int(self._first[number]), int(self._last[number])
            for layer, until in enumerate(reach):
                if until <= first:
                    layers[layer].append(number)
                    reach[layer] = last
                    break
            else:
                layers.append([number])
                reach.append(last)
        return layers

    def _recomputed(self, cuts: Sequence[Cut], lanes: list[tuple[int, int]], layer: list[int]) -> list[int]:
        """The new end of each (cut, proof), all of one layer."""
        if not lanes:
            return []
        count = len(self.events.time)
        first, floor = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for number in layer:
            mine = slice(int(self._first[number]), int(self._last[number]))
            first[mine], floor[mine] = self._first[number], self._floor[number]
        ends = [(n, *end) for n in layer for end in self._ends[n]]
        of, tracks, at, more = (np.array([end[i] for end in ends], np.int64) for i in range(4))
        base = self.events.base(tracks, at, self._last[of])
        last = Edges(np.full(len(of), -1), tracks, at, base, more)
        sides = [self._timed(one, first, floor) for one in self.events.edges]
        closing = self._timed(last, self._first[of], self._floor[of])
        found = {
            cut: (self._shortened(cuts[cut], sides), closing.without(cuts[cut]))
            for cut in sorted({cut for cut, _ in lanes})
        }
        result: dict[tuple[int, int], int] = {}
        solved = longest.solve([(found[cut][0], int(self._first[n]), int(self._last[n])) for cut, n in lanes])
        for (cut, number), times in zip(lanes, solved, strict=True):
            source, lag = closing.source, found[cut][1]
            latest = int(self._floor[number])
            for place in np.flatnonzero(of == number).tolist():
                begun = int(times[source[place]]) if source[place] >= 0 else 0
                latest = max(latest, begun + int(lag[place]))
            result[cut, number] = latest
        return [result[lane] for lane in lanes]

    def _shortened(self, cut: Cut, sides: list[_Timed]) -> longest.Graph:
        """All events' edges without what is cut."""
        ops = self.events.op
        length = self.events.length
        if len(cut.work):
            shorter = np.zeros(len(self.graph.records.ops) + 1, np.int64)
            shorter[cut.work] = cut.shorter
            length = length - shorter[ops]  # op -1: the last, which is no work
        edges = []
        for number, side in enumerate(sides):
            lag = side.without(cut)
            if number == 0 and len(cut.closed):
                closed = np.zeros(len(self.graph.records.ops) + 1, dtype=bool)
                closed[cut.closed] = True
                lag = np.where(closed[ops], lag - np.maximum(side.edges.lag, 0), lag)
            if number == 0 and len(cut.handed):
                lag = lag.copy()
                lag[self.events.of_arrivals(cut.handed)] -= cut.sooner
            edges.append((side.source, lag + length))
        return edges[0], edges[1]

    def _timed(self, edges: Edges, first: Int64s, floor: Int64s) -> _Timed:
        """Edges of events of proofs that begin with the event `first` at `floor`. Events before the proof
        happened when they did.
        """
        event = np.where(edges.event >= 0, edges.event, edges.base)
        inside = event >= first
        recorded = self.events.recorded[np.maximum(event, 0)] if len(self.events.recorded) else edges.at
        moment = edges.event < 0
        since = np.where(moment, edges.at - np.where(inside, recorded, 0), np.where(inside, 0, recorded))
        begins = np.where(inside, recorded, floor)
        worked = moment & (edges.at > begins)
        return _Timed(edges, np.where(inside, event - first, -1), since + edges.lag, begins, worked)

    def _ends_of(self, proof: Proof) -> list[tuple[int, int, int]]:
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
