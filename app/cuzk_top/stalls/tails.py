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
from cuzk_top.stalls.scene import Proof
from cuzk_top.stalls.whatif import Cut


def cpu(graph: Graph) -> list[Draft]:
    """Multi-scalar multiplications of threads that went on after all else of their proof was done, by
    name.
    """
    records, host = graph.records, graph.records.host
    msm = np.array([lane.startswith("msm") for lane in records.lanes] or [False])
    sums = np.setdiff1d(np.flatnonzero(msm[host.row] & records.on_thread & ~host.open), graph.wait_spans)
    sums = sums[np.lexsort((host.depth[sums], -host.start[sums], host.end[sums]))]
    others = _Others(graph)
    found: dict[int, list[tuple[int, int]]] = {}
    for proof in graph.scene.proofs:
        first, last = np.searchsorted(host.end[sums], [proof.start, proof.end + 1])
        inside = sums[first:last]
        inside = inside[host.start[inside] >= proof.start]
        tail = others.tail(proof, inside) if len(inside) else None
        if tail is not None:
            found.setdefault(int(host.name[tail[0]]), []).append(tail)
    drafts = list[Draft]()
    for group in found.values():
        spans = np.array([span for span, _ in group])
        since = np.array([start for _, start in group])
        until = host.end[spans]
        total = int((until - since).sum())
        tracks = host.track[spans]
        drafts.append(
            Draft(
                Finding(
                    "tail.cpu",
                    records.text(int(host.name[spans[0]])),
                    intervals.listed(union(since, until)),
                    None,
                    records.lane(host, int(spans[0])),
                    0,
                    None,
                    len(group),
                    f"the proof waits {figures.spaced(total)} for {described(records, host, int(spans[0]))} "
                    f"alone{times(len(group))}",
                    f"fires over {share(graph.scene.limits.tail_share)} of the proof",
                    ("from the end of the last other work of the proof to that of this span",),
                    evidence(records, spans, until - since),
                ),
                Cut(
                    {
                        int(track): union(since[tracks == track], until[tracks == track])
                        for track in np.unique(tracks)
                    }
                ),
                cause=True,
            )
        )
    return drafts


class _Others:
    """What runs beside a thread: work of other threads and of devices, by end."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[int, tuple[Int64s, Int64s]] = {}
        records = graph.records
        waits = np.zeros(len(records.host), dtype=bool)
        waits[graph.wait_spans] = True
        idle = waits | records.in_lane["claim"] | records.in_lane["job"]
        self._work = np.flatnonzero(records.on_thread & ~idle)

    def _of(self, track: int) -> tuple[Int64s, Int64s]:
        """Ends in order, and the earliest start from each on."""
        if track not in self._known:
            records = self._graph.records
            host, ops = records.host, records.ops
            mine = self._work[host.track[self._work] != track]
            start = np.concatenate([host.start[mine], ops.start])
            end = np.concatenate([host.end[mine], ops.end])
            order = np.argsort(end, kind="stable")
            earliest = np.minimum.accumulate(start[order][::-1])[::-1]
            self._known[track] = end[order], earliest
        return self._known[track]

    def tail(self, proof: Proof, inside: Int64s) -> tuple[int, int] | None:
        """The multiplication that ended last of a proof's (by end), and since when it ran alone; None where
        nothing ran beside it, or something ran on.
        """
        host = self._graph.records.host
        ended = int(host.end[inside[-1]])
        same = inside[host.end[inside] == ended]
        last = int(same[np.lexsort((same, host.depth[same]))[0]])
        end, earliest = self._of(int(host.track[last]))
        place = int(np.searchsorted(end, ended, side="left"))
        if place < len(end) and int(earliest[place]) < ended:
            return None
        if not place or int(end[place - 1]) <= int(host.start[last]):
            return None
        since = int(end[place - 1])
        share_ns = self._graph.scene.limits.tail_share * proof.wall_ns
        return (last, since) if ended - since > share_ns else None


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
    length = ops.end - ops.start
    if length[others].sum() < graph.scene.limits.tail_others * length[mine].sum():
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
            f"one stream alone for {figures.spaced(intervals.length(where))} at the end{times(len(tails))}, "
            f"most of it in {name}",
            f"fires over {share(graph.scene.limits.tail_share)} of the proof",
            (f"{len(work):,} kernels after the last of any other stream of GPU {device}",),
            evidence(records, records.launcher[work], shorter),
        ),
        Cut(work=work, shorter=shorter),
        cause=True,
    )
