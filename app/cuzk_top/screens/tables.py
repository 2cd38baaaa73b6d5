"""The figures of a screen: the right-hand numbers of lanes and counters, and the stage table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from cuzk_top import figures, stats
from cuzk_top.model import CounterData, Snapshot
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.lanes import DisplayRow, device_of
from cuzk_top.screens.layout import Layout
from cuzk_top.stage_table import Stage, stage_table
from cuzk_top.stats import Kin
from cuzk_top.viewport import ViewState
from cuzk_top.widgets.areas import highest
from cuzk_top.widgets.timeline import Numbers


class Figures(NamedTuple):
    """What is computed at most twice a second, and in the background for large traces."""

    numbers: dict[str, Numbers]
    table: Sequence[Stage]
    kin: Kin | None
    """Of the span that the inspector shows; None where it shows none."""


NO_FIGURES = Figures({}, (), None)


def compute(
    snapshot: Snapshot, view: ViewState, layout: Layout, insight: Insight, holds: bool, before: Figures
) -> Figures:
    """All figures of a moment. `holds`: the stage table of `before` is kept."""
    numbers = all_numbers(snapshot, view, layout, insight)
    table = before.table if holds else stage_table(snapshot)
    return Figures(numbers, table, _kin(snapshot, view, before.kin))


def _kin(snapshot: Snapshot, view: ViewState, before: Kin | None) -> Kin | None:
    """What the inspector compares its span with."""
    if view.selected is None or view.tab != "inspector":
        return None
    record = stats.find(snapshot, view.selected)
    if record is None:
        return None
    moment = (snapshot.revision, snapshot.now_ns)
    same = before is not None and (before.name, before.moment) == (record.name, moment)
    return before if same else stats.kin(snapshot, record.name)


def all_numbers(snapshot: Snapshot, view: ViewState, layout: Layout, insight: Insight) -> dict[str, Numbers]:
    """By row key and ``counter KEY``: lanes their time in the window, its share, and the last duration;
    counters their value now and the highest so far."""
    compact = layout.compact
    numbers = {
        row.key: _lane(snapshot, view, row, compact)
        if row.kind in ("spans", "letters")
        else _special(snapshot, row, insight, compact)
        for row in layout.rows
    }
    for counter in layout.counters:
        numbers[f"counter {counter.key}"] = _counter(snapshot, counter)
    return numbers


def _lane(snapshot: Snapshot, view: ViewState, row: DisplayRow, compact: bool) -> Numbers:
    if row.empty:
        return Numbers("" if row.missing else "0")
    begin, end, now = view.t0_ns, view.t1_ns, snapshot.now_ns
    busy = stats.busy_ns(row.sources, begin, end, now)
    seen = max(1, min(end, now, max(snapshot.last_ns, begin)) - max(begin, snapshot.first_ns))
    last = stats.last_duration(row.sources, now)
    share = figures.percent(busy, seen) if busy else "0%"
    return Numbers(figures.lane_time(busy), share, "" if compact or last is None else figures.spaced(last))


def _special(snapshot: Snapshot, row: DisplayRow, insight: Insight, compact: bool) -> Numbers:
    """Figures of the rows that the analysis gives, and of folded workers."""
    analysis = insight.analysis
    if row.kind == "path":
        return Numbers(words=_path_words(insight, compact))
    if row.kind == "workers":
        now = snapshot.now_ns
        busy = sum(
            source.index_at(now - 1) >= 0 or (source.open is not None and source.open.start_ns < now)
            for source in row.sources
        )
        return Numbers(f"{busy}/{len(row.sources)}", "" if compact else "now")
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


def _counter(snapshot: Snapshot, counter: CounterData) -> Numbers:
    if counter.missing is not None:
        return Numbers()
    count = int(np.searchsorted(counter.start_ns, snapshot.now_ns, "left"))
    if not count:
        return Numbers()
    note = f"/{figures.si(counter.top)}" if counter.top is not None and counter.unit != "%" else ""
    return Numbers(
        _value(counter, float(counter.value[count - 1])),
        note,
        _value(counter, highest(counter, count)),
    )


def _value(counter: CounterData, value: float) -> str:
    if counter.unit == "GiB" and np.isfinite(value):
        return figures.three(value) if value else "0"
    return figures.si(value)
