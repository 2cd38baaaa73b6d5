"""alloc and dealloc: calls that allocate, register or free, and resident memory given back at once."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from cuzk_top import figures
from cuzk_top.devicetime import union
from cuzk_top.stalls import intervals
from cuzk_top.stalls.draft import Draft, evidence, share, times, when
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.intervals import Int64s
from cuzk_top.stalls.whatif import Cut

GIB = float(1 << 30)
_EDGE = r"(^|[._ :/])"
_END = r"($|[._ :/(])"
_WORDS = {
    "alloc": (
        r"(\w*_)?(m|c|re)?alloc(ate|_\w+)?",
        r"cu(da)?\w*(alloc|register)\w*",
        r"(\w*_)?register",
        r"pin(_\w+)?",
        r"mlock|mmap|prefault",
    ),
    "dealloc": (
        r"(\w*_)?(de|un)alloc(ate|_\w+)?",
        r"cu(da)?\w*(free|unregister)\w*",
        r"(\w*_)?unregister",
        r"unpin(_\w+)?|free(_\w+)?|drop(_\w+)?",
        r"munmap|malloc_trim",
    ),
}
_CALLS = {
    kind: re.compile(rf"{_EDGE}({'|'.join(words)}){_END}", re.IGNORECASE) for kind, words in _WORDS.items()
}


def kind_of(name: str) -> str:
    """``alloc`` or ``dealloc`` for a span of such a call, by its name; "" for any other."""
    for kind in ("dealloc", "alloc"):
        if _CALLS[kind].search(name):
            return kind
    return ""


def find(graph: Graph) -> list[Draft]:
    """Both rules, by spans and by the counter of resident memory."""
    return [*_calls(graph), *_falls(graph)]


def _calls(graph: Graph) -> list[Draft]:
    """Spans of such calls by name; the threshold is on the time of all of a kind."""
    scene, records, host = graph.scene, graph.records, graph.records.host
    names = np.unique(host.name)
    kinds = {int(name): kind_of(records.text(int(name))) for name in names}
    least = scene.limits.call_share * scene.proof_ns
    drafts = list[Draft]()
    for kind in _CALLS:
        named = np.isin(host.name, [name for name, of in kinds.items() if of == kind])
        places = np.flatnonzero(
            named & records.on_thread & (host.end > scene.low) & (host.start < scene.high)
        )
        whole = intervals.both(union(host.start[places], host.end[places]), scene.jobs)
        if not len(places) or intervals.length(whole) <= least:
            continue
        for name in np.unique(host.name[places]).tolist():
            mine = places[host.name[places] == name]
            length = host.end[mine] - host.start[mine]
            total = int(length.sum())
            drafts.append(
                Draft(
                    Finding(
                        kind,
                        records.text(name),
                        intervals.listed(union(host.start[mine], host.end[mine])),
                        None,
                        records.lane(host, int(mine[0])),
                        0,
                        None,
                        len(mine),
                        f"{figures.spaced(total)} in {records.text(name)}{times(len(mine))}",
                        f"fires when such calls take over {share(scene.limits.call_share)} of the proof "
                        f"({figures.spaced(round(least))})",
                        (f"{len(mine):,} calls, the longest {figures.spaced(int(length.max()))}",),
                        evidence(records, mine, length),
                    ),
                    Cut(_by_track(graph, mine)),
                    cause=True,
                )
            )
    return drafts


def _by_track(graph: Graph, mine: Int64s) -> dict[int, intervals.Set]:
    host = graph.records.host
    tracks = host.track[mine]
    return {
        int(track): union(host.start[mine[tracks == track]], host.end[mine[tracks == track]])
        for track in np.unique(tracks)
    }


def _falls(graph: Graph) -> list[Draft]:
    """Falls of resident memory from one high to the low after it, by the span in which they happened."""
    scene, limits = graph.scene, graph.scene.limits
    samples = scene.samples("host.rss")
    if samples is None or len(samples[1]) < 2:
        return []
    _, at, value = samples
    peak = float(value.max())
    groups: dict[int, list[_Fall]] = {}
    for high, low in falls(value):
        given = float(value[high] - value[low])
        # What a process gives back at its end delays no proof.
        inside = (scene.jobs[0] <= at[high]) & (scene.jobs[1] >= at[low])
        if inside.any() and given > limits.fall * peak and given * GIB >= limits.fall_bytes:
            span = _around(graph, int(at[high]), int(at[low]))
            name = int(graph.records.host.name[span]) if span >= 0 else -1
            groups.setdefault(name, []).append(_Fall(int(at[high]), int(at[low]), given, span))
    return [_fell(graph, group, peak) for group in groups.values()]


class _Fall(NamedTuple):
    """From when to when, by how many GiB, and the place of the innermost span around it (-1: none)."""

    high: int
    low: int
    given: float
    span: int


def _around(graph: Graph, high: int, low: int) -> int:
    window, cover = (np.array([high]), np.array([low])), graph.scene.limits.cover
    spans = [int(graph.hosts.covering(track, *window, cover)[0]) for track in graph.hosts.tracks]
    depth = graph.records.host.depth
    return max((span for span in spans if span >= 0), key=lambda i: int(depth[i]), default=-1)


def falls(value: np.ndarray) -> list[tuple[int, int]]:
    """(first, last) of each run of samples that never rise and fall in all: from the last of the highest to
    the first of the lowest.
    """
    step = np.diff(value)
    down = step < 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], step <= 0, [False]]).astype(np.int8)))
    found = []
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        falling = np.flatnonzero(down[first:last])
        if len(falling):
            found.append((first + int(falling[0]), first + int(falling[-1]) + 1))
    return found


def _fell(graph: Graph, group: list[_Fall], peak: float) -> Draft:
    records, host, limits = graph.records, graph.records.host, graph.scene.limits
    most = max(group, key=lambda fall: fall.given)
    inside = most.span
    where = f"inside {records.text(int(host.name[inside]))}, no child span" if inside >= 0 else "in no span"
    spans = np.array([fall.span for fall in group])
    start, end = np.array([fall.high for fall in group]), np.array([fall.low for fall in group])
    given, length = sum(fall.given for fall in group), int((end - start).sum())
    tracks = host.track[spans] if inside >= 0 else spans
    return Draft(
        Finding(
            "dealloc",
            f"resident memory: {where}",
            intervals.listed(union(start, end)),
            None,
            records.lane(host, inside) if inside >= 0 else "other",
            0,
            None,
            len(group),
            f"{given:.3g} GiB given back in {figures.spaced(length)} {where}{times(len(group))}",
            f"fires when resident memory falls by {share(limits.fall)} of its peak and "
            f"{figures.si(limits.fall_bytes)}B",
            (
                f"the most, {most.given:.3g} GiB, from {when(graph.scene, most.high)} to "
                f"{when(graph.scene, most.low)}; the peak is {peak:.3g} GiB",
            ),
            evidence(records, spans, end - start),
            (("GiB given back", given), ("peak GiB", peak)),
        ),
        Cut({int(t): union(start[tracks == t], end[tracks == t]) for t in np.unique(tracks) if t >= 0}),
        cause=True,
    )
