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
    found: dict[int, list[tuple[int, int]]] = {}
    for proof in graph.scene.proofs:
        tail = _cpu_tail(graph, proof)
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


def _cpu_tail(graph: Graph, proof: Proof) -> tuple[int, int] | None:
    """The multiplication that ended last in a proof, and since when it ran alone; None where it was no
    tail.
    """
    records, host, ops = graph.records, graph.records.host, graph.records.ops
    inside = (host.end <= proof.end) & (host.start >= proof.start) & records.on_thread & ~host.open
    msm = np.array([lane.startswith("msm") for lane in records.lanes], dtype=bool)
    sums = np.flatnonzero(inside & msm[host.row]) if len(host) else np.empty(0, np.int64)
    if not len(sums):
        return None
    last = int(sums[np.lexsort((host.depth[sums], -host.end[sums]))[0]])
    begun, ended = int(host.start[last]), int(host.end[last])
    idle = np.isin(np.arange(len(host)), graph.wait_spans) | records.in_lane["claim"] | records.in_lane["job"]
    others = records.on_thread & ~idle & (host.track != host.track[last])
    others &= (host.end > begun) & (host.start < ended)
    work = (ops.end > begun) & (ops.start < ended)
    ends = np.concatenate([host.end[others], ops.end[work]])
    if not len(ends) or int(ends.max()) >= ended:
        return None
    since = int(ends.max())
    return (last, since) if ended - since > graph.scene.limits.tail_share * proof.wall_ns else None


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
    mine = kernels[(ops.start[kernels] >= proof.start) & (ops.end[kernels] <= proof.end)]
    if not len(mine) or len(np.unique(ops.track[mine])) < 2:
        return None
    last = ops.track[mine[np.lexsort((mine, ops.end[mine]))[-1]]]
    own, others = mine[ops.track[mine] == last], mine[ops.track[mine] != last]
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
