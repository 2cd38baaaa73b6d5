"""tail.cpu and tail.gpu: what runs last and alone while the proof waits for it."""

from __future__ import annotations

import numpy as np

from cuzk_top import figures
from cuzk_top.devicetime import union
from cuzk_top.stalls import intervals
from cuzk_top.stalls.draft import Draft, described, evidence, share, times
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.intervals import Int64s, Set
from cuzk_top.stalls.records import WORKER
from cuzk_top.stalls.scene import Proof
from cuzk_top.stalls.whatif import Cut


def cpu(graph: Graph) -> list[Draft]:
    """Multi-scalar multiplications of threads that went on after all else of their proof was done, by
    lane.
    """
    records, host = graph.records, graph.records.host
    msm = np.array([lane.startswith("msm") for lane in records.lanes] or [False])
    sums = np.setdiff1d(np.flatnonzero(msm[host.row] & records.on_thread & ~host.open), graph.wait_spans)
    sums = sums[np.lexsort((host.depth[sums], -host.start[sums], host.end[sums]))]
    others = _Others(graph)
    found: dict[str, list[tuple[Int64s, Set]]] = {}
    for proof in graph.scene.proofs:
        first, last = np.searchsorted(host.end[sums], [proof.start, proof.end + 1])
        inside = sums[first:last]
        inside = inside[host.start[inside] >= proof.start]
        tail = others.tail(proof, inside) if len(inside) else None
        if tail is not None:
            found.setdefault(records.lane(host, int(tail[0][0])), []).append(tail)
    return [_cpu(graph, lane, tails) for lane, tails in found.items()]


def _cpu(graph: Graph, lane: str, tails: list[tuple[Int64s, Set]]) -> Draft:
    records, host = graph.records, graph.records.host
    where: Set = union(*(np.concatenate([alone[i] for _, alone in tails]) for i in range(2)))
    spans = np.concatenate([mine for mine, _ in tails])
    weight = np.concatenate(
        [intervals.Measure(alone).within(host.start[mine], host.end[mine]) for mine, alone in tails]
    )
    longest = int(spans[np.lexsort((host.depth[spans], -weight))[0]])
    threads: dict[int, list[Set]] = {}
    for mine, alone in tails:
        threads.setdefault(int(host.track[mine[0]]), []).append(alone)
    text = figures.spaced(intervals.length(where))
    return Draft(
        Finding(
            "tail.cpu",
            lane,
            intervals.listed(where),
            None,
            lane,
            0,
            None,
            len(tails),
            f"the proof waits {text} for {described(records, host, longest)} alone{times(len(tails))}",
            f"fires over {share(graph.scene.limits.tail_share)} of the proof",
            ("from the end of all other work of the proof to that of the multiplication",),
            evidence(records, spans[weight > 0], weight[weight > 0]),
        ),
        Cut(
            {
                track: union(*(np.concatenate([alone[i] for alone in of]) for i in range(2)))
                for track, of in threads.items()
            }
        ),
        cause=True,
    )


class _Others:
    """What runs beside a multiplication of a thread: work of other threads and of devices, by end."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[tuple[int, int], tuple[Int64s, Int64s]] = {}
        records, names = graph.records, graph.records.host.name
        waits = np.zeros(len(records.host), dtype=bool)
        waits[graph.wait_spans] = True
        idle = waits | records.in_lane["claim"] | records.in_lane["job"]
        self._launches = np.zeros(len(records.host), dtype=bool)
        self._launches[records.launcher[records.launcher >= 0]] = True
        self._work = np.flatnonzero(records.on_thread & ~idle)
        workers = [int(name) for name in np.unique(names) if records.text(int(name)).endswith(WORKER)]
        self._worker = np.isin(names, workers)
        keys = {key: number for number, key in enumerate(sorted(set(records.lanes)))}
        lanes = np.array([keys[key] for key in records.lanes] or [0], np.int64)
        self._lane = lanes[records.host.row]  # rows of several depths are one lane

    def _of(self, track: int, lane: int) -> tuple[Int64s, Int64s]:
        """Ends in order, and the earliest start from each on."""
        if (track, lane) not in self._known:
            records = self._graph.records
            host, ops = records.host, records.ops
            mine = self._work[host.track[self._work] != track]
            mine = mine[~self._worker[mine] | (self._lane[mine] != lane)]
            start = np.concatenate([host.start[mine], ops.start])
            end = np.concatenate([host.end[mine], ops.end])
            order = np.argsort(end, kind="stable")
            earliest = np.minimum.accumulate(start[order][::-1])[::-1]
            self._known[track, lane] = end[order], earliest
        return self._known[track, lane]

    def tail(self, proof: Proof, inside: Int64s) -> tuple[Int64s, Set] | None:
        """The spans of the multiplication that ended last of a proof's (by end), and when it ran alone; None
        where nothing ran beside it, something ran on, or a device did some of it.
        """
        host, track, lane = self._graph.records.host, self._graph.records.host.track, self._lane
        ended = int(host.end[inside[-1]])
        same = inside[host.end[inside] == ended]
        last = int(same[np.lexsort((same, host.depth[same]))[0]])
        mine = inside[(track[inside] == track[last]) & (lane[inside] == lane[last])]
        if self._launches[mine].any():
            return None
        end, earliest = self._of(int(track[last]), int(lane[last]))
        place = int(np.searchsorted(end, ended, side="left"))
        if place < len(end) and int(earliest[place]) < ended:
            return None
        if not place or int(end[place - 1]) <= int(host.start[mine].min()):
            return None
        alone = intervals.clipped(union(host.start[mine], host.end[mine]), int(end[place - 1]), ended)
        share_ns = self._graph.scene.limits.tail_share * proof.wall_ns
        return (mine, alone) if intervals.length(alone) > share_ns else None


def gpu(graph: Graph) -> list[Draft]:
    """Kernels of one stream that went on after those of the others, by device."""
    records = graph.records
    drafts = list[Draft]()
    for device in graph.scene.devices:
        kernels = np.flatnonzero(records.kernel & (records.device == device.index))
        tails = [
            tail for proof in graph.scene.proofs if (tail := _gpu_tail(graph, proof, kernels)) is not None
        ]
        if tails:
            drafts.append(_gpu(graph, device.index, tails))
    return drafts


def _gpu_tail(graph: Graph, proof: Proof, kernels: Int64s) -> tuple[Int64s, int] | None:
    """The kernels of a proof that ran alone at the end, and since when."""
    ops = graph.records.ops
    first, beyond = np.searchsorted(ops.start[kernels], [proof.start, proof.end])
    mine = kernels[first:beyond]
    mine = mine[ops.end[mine] <= proof.end]
    if not len(mine) or not (ops.track[mine] != ops.track[mine[0]]).any():
        return None
    last = ops.track[mine[np.lexsort((mine, ops.end[mine]))[-1]]]
    own, others = mine[ops.track[mine] == last], mine[ops.track[mine] != last]
    length, of_others = ops.end[mine] - ops.start[mine], ops.track[mine] != last
    if length[of_others].sum() < graph.scene.limits.tail_others * length.sum():
        return None
    since = int(ops.end[others].max())
    alone = own[ops.end[own] > since]
    together = bool((ops.start[alone] < since).any())  # two streams did run side by side
    busy = intervals.length(intervals.clipped(union(ops.start[alone], ops.end[alone]), since, proof.end))
    return (alone, since) if together and busy > graph.scene.limits.tail_share * proof.wall_ns else None


def _gpu(graph: Graph, device: int, tails: list[tuple[Int64s, int]]) -> Draft:
    records, ops = graph.records, graph.records.ops
    work = np.concatenate([alone for alone, _ in tails])
    since = np.concatenate([np.maximum(ops.start[alone], start) for alone, start in tails])
    shorter = ops.end[work] - since
    where: Set = union(since, ops.end[work])
    longest = int(work[np.argmax(shorter)])
    name = records.text(int(ops.name[longest]))
    return Draft(
        Finding(
            "tail.gpu",
            f"gpu{device} {name}",
            intervals.listed(where),
            device,
            records.lane(ops, longest),
            0,
            None,
            len(tails),
            f"one stream alone at the end for {figures.spaced(intervals.length(where))}, mostly {name}"
            f"{times(len(tails))}",
            f"fires over {share(graph.scene.limits.tail_share)} of the proof",
            (f"{len(work):,} kernels after the last of any other stream of GPU {device}",),
            evidence(records, records.launcher[work], shorter),
        ),
        Cut(work=work, shorter=shorter),
        cause=True,
    )
