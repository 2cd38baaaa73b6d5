"""alloc and dealloc: calls that allocate, register or free, and resident memory given back at once."""

from __future__ import annotations

import re

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
_CALLS = {
    "alloc": re.compile(
        rf"{_EDGE}((\w*_)?(m|c|re)?alloc(ate|_\w+)?|cu(da)?(mem|host)\w*(alloc|register)\w*|(\w*_)?register|pin(_\w+)?|"
        rf"mlock|mmap|prefault){_END}",
        re.IGNORECASE,
    ),
    "dealloc": re.compile(
        rf"{_EDGE}((\w*_)?(de|un)alloc(ate|_\w+)?|(async_)?dealloc|cu(da)?\w*(free|unregister)\w*|(\w*_)?unregister|"
        rf"unpin(_\w+)?|munmap|free(_\w+)?|malloc_trim|drop(_\w+)?){_END}",
        re.IGNORECASE,
    ),
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
    """Falls of resident memory from one high to the low after it."""
    scene, limits = graph.scene, graph.scene.limits
    samples = scene.samples("host.rss")
    if samples is None or len(samples[1]) < 2:
        return []
    _, at, value = samples
    peak = float(value.max())
    drafts = list[Draft]()
    for high, low in falls(value):
        given = float(value[high] - value[low])
        # What a process gives back at its end delays no proof.
        inside = (scene.jobs[0] <= at[high]) & (scene.jobs[1] >= at[low])
        if inside.any() and given > limits.fall * peak and given * GIB >= limits.fall_bytes:
            drafts.append(_fall(graph, int(at[high]), int(at[low]), given, peak))
    return drafts


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


def _fall(graph: Graph, high: int, low: int, given: float, peak: float) -> Draft:
    records, host, limits = graph.records, graph.records.host, graph.scene.limits
    window = np.array([high]), np.array([low])
    spans = [int(graph.hosts.covering(track, *window, limits.cover)[0]) for track in graph.hosts.tracks]
    inside = max((span for span in spans if span >= 0), key=lambda i: int(host.depth[i]), default=-1)
    where = f"inside {records.text(int(host.name[inside]))}, no child span" if inside >= 0 else "in no span"
    threads = {}
    if inside >= 0:
        threads[int(host.track[inside])] = window
    return Draft(
        Finding(
            "dealloc",
            f"resident memory: {where}",
            ((high, low),),
            None,
            records.lane(host, inside) if inside >= 0 else "other",
            0,
            None,
            1,
            f"{given:.3g} GiB given back in {figures.spaced(low - high)} {where}",
            f"fires when resident memory falls by {share(limits.fall)} of its peak and "
            f"{figures.si(limits.fall_bytes)}B",
            (f"from {when(graph.scene, high)} to {when(graph.scene, low)}; the peak is {peak:.3g} GiB",),
            (int(host.id[inside]),) if inside >= 0 else (),
            (("GiB given back", given), ("peak GiB", peak)),
        ),
        Cut(threads),
        cause=True,
    )
