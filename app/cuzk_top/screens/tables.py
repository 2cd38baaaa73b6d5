"""The figures of a screen: the right-hand numbers of lanes and counters, and the stage table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cuzk_top import figures, stats
from cuzk_top.model import CounterData, Snapshot
from cuzk_top.screens.layout import DisplayRow, Layout
from cuzk_top.stage_table import Stage, stage_table
from cuzk_top.viewport import ViewState
from cuzk_top.widgets.areas import highest
from cuzk_top.widgets.timeline import Numbers


class Figures(NamedTuple):
    """What is computed at most twice a second, and in the background for large traces."""

    numbers: dict[str, Numbers]
    table: Sequence[Stage]


NO_FIGURES = Figures({}, ())


def compute(snapshot: Snapshot, view: ViewState, layout: Layout, table: Sequence[Stage] | None) -> Figures:
    """All figures of a moment; a stage table that still holds is passed in."""
    return Figures(all_numbers(snapshot, view, layout), stage_table(snapshot) if table is None else table)


def all_numbers(snapshot: Snapshot, view: ViewState, layout: Layout) -> dict[str, Numbers]:
    """By row key and ``counter KEY``: lanes their time in the window, its share, and the last duration;
    counters their value now and the highest so far."""
    numbers = {row.key: _lane(snapshot, view, row, layout.compact) for row in layout.rows}
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


def _counter(snapshot: Snapshot, counter: CounterData) -> Numbers:
    if counter.missing is not None:
        return Numbers()
    count = int(np.searchsorted(counter.start_ns, snapshot.now_ns, "left"))
    if not count:
        return Numbers()
    note = f"of {figures.si(counter.top)}" if counter.top is not None and counter.unit != "%" else ""
    return Numbers(
        _value(counter, float(counter.value[count - 1])),
        note,
        _value(counter, highest(counter, count)),
    )


def _value(counter: CounterData, value: float) -> str:
    if counter.unit == "GiB" and np.isfinite(value):
        return figures.three(value) if value else "0"
    return figures.si(value)
