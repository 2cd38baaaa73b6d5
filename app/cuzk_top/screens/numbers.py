"""The numbers beside rows and counters. What they are made from is kept while it holds: while a session runs
most rows have nothing new, and of these only the share of the time is another."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cuzk_top import figures, growth, stats
from cuzk_top.growth import Seen
from cuzk_top.model import CounterData, Snapshot
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.lanes import OF_SPANS, DisplayRow, device_of
from cuzk_top.screens.layout import Layout
from cuzk_top.viewport import ViewState, Window
from cuzk_top.widgets.areas import highest
from cuzk_top.widgets.timeline import Numbers


class _Lane(NamedTuple):
    """What is known of a row of spans from `settled_ns` on."""

    row: DisplayRow
    window: Window
    settled_ns: int
    busy_ns: int
    last_ns: int | None


class _Counted(NamedTuple):
    """The first `samples` of a counter, and the highest of them."""

    counter: CounterData
    samples: int
    highest: float


class NumbersColumn:
    """The numbers of one screen, from moment to moment."""

    def __init__(self) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._counted: dict[str, _Counted] = {}
        self._told: dict[str, tuple[tuple[object, ...], Numbers]] = {}
        """Of rows that the analysis gives: what they were made from, and what came of it."""

    def at(self, snapshot: Snapshot, view: ViewState, layout: Layout, insight: Insight) -> dict[str, Numbers]:
        """By row key and ``counter KEY``: lanes their time in the window, its share, and the last duration;
        counters their value now and the highest so far."""
        compact = layout.compact
        numbers: dict[str, Numbers] = {}
        for row in layout.rows:
            if row.kind == "workers":
                numbers[row.key] = _workers(snapshot.now_ns, row, compact)
            elif row.kind in OF_SPANS:
                numbers[row.key] = self._lane(snapshot, view.window, row, compact)
            else:
                numbers[row.key] = self._special(row, insight, compact)
        for counter in layout.counters:
            numbers[f"counter {counter.key}"] = self._counter(counter, snapshot.now_ns)
        return numbers

    def _lane(self, snapshot: Snapshot, window: Window, row: DisplayRow, compact: bool) -> Numbers:
        if row.empty:
            return Numbers("" if row.missing else "0")
        (begin, end), now = window, snapshot.now_ns
        kept = self._lanes.get(row.key)
        if kept is None or kept.row is not row or kept.window != window or now < kept.settled_ns:
            busy, last = stats.busy_ns(row.sources, begin, end, now), stats.last_duration(row.sources, now)
            settled = growth.settled([Seen.of_row(source, now) for source in row.sources])
            kept = self._lanes[row.key] = _Lane(row, window, settled, busy, last)
        busy, last = kept.busy_ns, kept.last_ns
        seen = max(1, min(end, now, max(snapshot.last_ns, begin)) - max(begin, snapshot.first_ns))
        share = figures.percent(busy, seen) if busy else "0%"
        return Numbers(
            figures.lane_time(busy), share, "" if compact or last is None else figures.spaced(last)
        )

    def _special(self, row: DisplayRow, insight: Insight, compact: bool) -> Numbers:
        key = (insight, row.kind, row.device, compact)
        kept = self._told.get(row.key)
        if kept is None or kept[0] != key:
            kept = self._told[row.key] = (key, _special(row, insight, compact))
        return kept[1]

    def _counter(self, counter: CounterData, now_ns: int) -> Numbers:
        if counter.missing is not None:
            return Numbers()
        count = len(counter.start_ns)
        if count and counter.start_ns.item(-1) >= now_ns:
            count = int(np.searchsorted(counter.start_ns, now_ns, "left"))
        if not count:
            return Numbers()
        kept = self._counted.get(counter.key)
        if kept is None or kept.counter is not counter or kept.samples != count:
            known = kept if kept is not None and kept.samples <= count else None
            top = _highest(known, counter, count)
            kept = self._counted[counter.key] = _Counted(counter, count, top)
        note = f"/{figures.si(counter.top)}" if counter.top is not None and counter.unit != "%" else ""
        return Numbers(_value(counter, counter.value.item(count - 1)), note, _value(counter, kept.highest))


def _highest(known: _Counted | None, counter: CounterData, count: int) -> float:
    """Highest of the first `count` samples; of those that were `known` only the rest is looked at."""
    if known is not None:
        before = Seen(known.counter.start_ns, known.counter.t_ns, None, 0)
        if growth.only_grew(before, Seen(counter.start_ns, counter.t_ns, None, 0)):
            return max(known.highest, highest(counter.value[known.samples : count]))
    return highest(counter.value[:count])


def _workers(now_ns: int, row: DisplayRow, compact: bool) -> Numbers:
    busy = sum(
        source.index_at(now_ns - 1) >= 0 or (source.open is not None and source.open.start_ns < now_ns)
        for source in row.sources
    )
    return Numbers(f"{busy}/{len(row.sources)}", "" if compact else "now")


def _special(row: DisplayRow, insight: Insight, compact: bool) -> Numbers:
    """Figures of the rows that the analysis gives."""
    analysis = insight.analysis
    if row.kind == "path":
        return Numbers(words=_path_words(insight, compact))
    if row.kind == "ghost":
        ghost = next((one for one in insight.ghosts if one.device == row.device), None)
        if ghost is None:
            return Numbers()
        busy = int((ghost.end_ns - ghost.start_ns).sum())
        return Numbers(figures.lane_time(busy), top=f"of {figures.lane_time(ghost.proof_ns)}")
    if row.kind == "stalls":
        if not compact:
            return Numbers(words="/ idle  ! exposed")
        whole = analysis.kernel_ns + analysis.copy_only_ns + analysis.idle_ns
        lost = analysis.idle_ns + analysis.copy_only_ns
        return Numbers(figures.lane_time(lost), figures.percent(lost, whole)) if whole else Numbers()
    return Numbers()


@lru_cache(maxsize=4)
def path_shares(insight: Insight) -> list[tuple[str, float]]:
    """What the critical path consists of: kinds of work with their shares of it, the largest first."""
    sums: dict[str, int] = {}
    for step in insight.analysis.path:
        lane = "GPU" if device_of(step.lane) is not None else step.lane.partition(".")[0]
        name = {"synthesis": "synth", "": "?"}.get(lane, lane)
        sums[name] = sums.get(name, 0) + step.end_ns - step.start_ns
    whole = max(1, sum(sums.values()))
    return sorted(((name, ns / whole) for name, ns in sums.items()), key=lambda item: -item[1])


def _path_words(insight: Insight, compact: bool) -> str:
    shares = [f"{name} {figures.percent(share, 1)}" for name, share in path_shares(insight)]
    two = ", ".join(shares[:2])
    return two if len(two) <= (9 if compact else 17) else "".join(shares[:1])


def _value(counter: CounterData, value: float) -> str:
    if counter.unit == "GiB" and np.isfinite(value):
        return figures.three(value) if value else "0"
    return figures.si(value)
