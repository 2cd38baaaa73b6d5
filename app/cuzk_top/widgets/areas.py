"""Runs of the time area, kept from frame to frame.

A row is two parts: up to the last column that it fills, which changes only when its spans do, and the
blank rest, which all rows share. While a proof runs, now moves the rest every frame and only the rows that
grow are computed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from rich.segment import Segment

from cuzk_top import rows, stats, viewport
from cuzk_top.model import CounterData
from cuzk_top.rows import Cells, Spans
from cuzk_top.screens.layout import DisplayRow
from cuzk_top.theme import Theme
from cuzk_top.viewport import Int64s, Window
from cuzk_top.widgets.looks import Looks, known_role
from cuzk_top.widgets.runs import Ground, blank_run, chart_runs, span_runs


class Area(NamedTuple):
    """The runs of one row; equal parts are the same objects as in the frame before."""

    filled: list[Segment]
    rest: list[Segment]


class Areas:
    """Computes rows of one window; `begin` starts a frame."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._window = Window(0, 1)
        self._columns = 0
        self._edges: Int64s = np.empty(0, np.int64)
        self._ground = Ground((), -1)
        self._cells: dict[str, tuple[Hashable, Cells]] = {}
        self._heights: dict[str, tuple[Hashable, np.ndarray[tuple[int], np.dtype[np.int8]]]] = {}
        self._filled: dict[str, tuple[object, Hashable, list[Segment]]] = {}
        self._sources: dict[tuple[str, int], tuple[Hashable, int, Cells]] = {}
        self._settled: dict[str, tuple[Hashable, int, Cells]] = {}
        self._tops: dict[str, tuple[int, float]] = {}
        self._blanks: list[Segment] = []
        self._blank_ends: list[int] = []
        self._rests: dict[int, list[Segment]] = {}

    def begin(self, window: Window, columns: int, ground: Ground) -> None:
        """Set what all rows of this frame share."""
        if (window, columns) != (self._window, self._columns):
            self._window, self._columns = window, columns
            self._edges = viewport.edges(window, columns)
        if ground is not self._ground:
            self._ground = ground
            self._rests.clear()
            self._blanks = blank_run(" " * columns, 0, ground, self._theme)
            self._blank_ends = list(accumulate(len(part.text) for part in self._blanks))

    def words(self, name: str, text: str) -> Area:
        """A reason in place of a picture."""
        text = text[: self._columns]
        return self._area(name, text, len(text), lambda: blank_run(text, 0, self._ground, self._theme, "dim"))

    def lane(self, row: DisplayRow, looks: Looks, now_ns: int) -> Area:
        """A row of spans, all its sources over each other."""
        look = (self._window, self._columns, row.sources)
        settled = self._settled.get(row.key)
        if settled is not None and settled[0] == look and now_ns >= settled[1]:
            cells = settled[2]
        else:
            cells = self._unsettled(row, look, now_ns)
        return self._area(
            row.key,
            cells,
            len(cells.left),
            lambda: span_runs(cells, looks.labels(row), self._ground, self._theme),
        )

    def _unsettled(self, row: DisplayRow, look: Hashable, now_ns: int) -> Cells:
        """Cells of a row that may have changed; they are settled when nothing in it runs any more."""
        spans = [stats.clipped(source, now_ns) for source in row.sources]
        key = (self._window, self._columns, tuple(self._signature(part) for part in spans))
        found = self._cells.get(row.key)
        if found is None or found[0] != key:
            found = self._cells[row.key] = (key, self._compute(row.key, spans))
        ends = [int(source.columns.end_ns[-1]) for source in row.sources if len(source.columns)]
        if all(source.open is None for source in row.sources) and now_ns >= max(ends, default=0):
            self._settled[row.key] = (look, max(ends, default=0), found[1])
        return found[1]

    def chart(self, counter: CounterData, now_ns: int) -> Area:
        """A row of a counter."""
        count = int(np.searchsorted(counter.start_ns, now_ns, "left"))
        last = min(int(counter.t_ns[count - 1]), now_ns) if count else self._window.t0_ns
        limit = self._limit(last)
        name = f"counter {counter.key}"
        top = self._tops.get(name)
        if top is None or top[0] != count:
            top = self._tops[name] = (count, rows.chart_top(highest(counter, count), counter.top))
        key = (self._window, self._columns, count, last, top, limit)
        found = self._heights.get(name)
        if found is None or found[0] != key:
            per_column = rows.gauge_columns if counter.kind == "gauge" else rows.rate_columns
            edges = self._edges[: limit + 1]
            values = (
                per_column(counter.start_ns, counter.t_ns, counter.value, edges, now_ns)
                if limit
                else np.empty(0)
            )
            found = self._heights[name] = (key, rows.levels(values, top[1]))
        heights = found[1]
        role = known_role(counter.role)
        return self._area(name, heights, limit, lambda: chart_runs(heights, role, self._ground, self._theme))

    def _area(self, name: str, content: object, limit: int, make: Callable[[], list[Segment]]) -> Area:
        """The filled part from the cache if neither its content nor the ground under it changed."""
        ground = self._ground
        under = (ground.surfaces[:limit], ground.now if ground.now < limit else -1)
        found = self._filled.get(name)
        # Content is compared by identity and kept, so that its identity cannot pass to another object.
        if found is None or found[0] is not content or found[1] != under:
            found = self._filled[name] = (content, under, make())
        return Area(found[2], self._rest(limit))

    def _rest(self, start: int) -> list[Segment]:
        rest = self._rests.get(start)
        if rest is None:
            rest = self._rests[start] = []
            first = bisect_right(self._blank_ends, start)
            if first < len(self._blanks):
                cut = self._blank_ends[first] - start
                text, style, _ = self._blanks[first]
                whole = cut == len(text)
                rest.append(self._blanks[first] if whole else Segment(text[:cut], style))
                rest += self._blanks[first + 1 :]
        return rest

    def _limit(self, last_ns: int) -> int:
        """Columns up to the one that holds `last_ns`."""
        return max(0, min(self._columns, viewport.column_of(self._window, self._columns, last_ns) + 1))

    def _compute(self, name: str, spans: list[Spans]) -> Cells:
        ends = [
            part.now_ns if part.open_ns is not None else min(int(part.end_ns[-1]), part.now_ns)
            for part in spans
            if part.total
        ]
        limit = self._limit(max(ends)) if ends else 0
        drawn = rows.blank(limit)
        if limit:
            edges = self._edges[: limit + 1]
            for number, part in enumerate(spans):
                if part.total:
                    own = self._source(name, number, part, edges)
                    drawn = rows.overlay(drawn, own) if number else own
        return drawn

    def _source(self, name: str, number: int, spans: Spans, edges: Int64s) -> Cells:
        """Cells of one source; of a row that only grew, its last columns are added to those of before."""
        limit = len(edges) - 1
        count = len(spans.start_ns)
        first = int(spans.start_ns[0]) if count else 0
        key = (self._window, self._columns, spans.open_ns, count, first)
        before = self._sources.get((name, number))
        cells = None
        if (
            before is not None
            and before[0] == key
            and before[1] <= limit
            and self._limit(spans.now_ns) == limit
        ):
            cells = rows.grow(before[2], before[1] - 1, spans, edges, number)
        if cells is None:
            cells = rows.cells(spans, edges, number)
        self._sources[name, number] = (key, limit, cells)
        return cells

    def _signature(self, spans: Spans) -> Hashable:
        """What must change for a row's cells to change, as long as the window stays."""
        count = len(spans.start_ns)
        first = int(spans.start_ns[0]) if count else 0
        last = int(spans.end_ns[-1]) if count else 0
        growing = spans.open_ns is not None or last > spans.now_ns
        eighths = 2 * rows.EIGHTHS
        step = viewport.column_of(self._window, self._columns * eighths, spans.now_ns) if growing else 0
        return (count, first, last, spans.open_ns, step)


def highest(counter: CounterData, count: int) -> float:
    """Highest finite one of the first `count` samples; 0 without one."""
    values = counter.value[:count]
    values = values[np.isfinite(values)]
    return float(values.max()) if len(values) else 0.0
