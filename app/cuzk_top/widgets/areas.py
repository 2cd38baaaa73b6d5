"""Strips of the time area, one a row and tile, kept from frame to frame.

A row is two parts: up to the last column that it fills, which changes only when its spans do, and the
blank rest, which all rows share. While a proof runs, now moves the rest every frame; only the rows that
grow are computed, and only the tiles that now crosses are other strips than before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment
from textual.strip import Strip

from cuzk_top import rows, stats, viewport
from cuzk_top.model import CounterData
from cuzk_top.rows import Cells, Spans
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.theme import Theme
from cuzk_top.viewport import Int64s, Window
from cuzk_top.widgets.looks import Looks, known_role
from cuzk_top.widgets.paint import clean
from cuzk_top.widgets.painted import Cells as Painted
from cuzk_top.widgets.painted import painted_runs
from cuzk_top.widgets.row import Row
from cuzk_top.widgets.runs import Ground, blank_run, chart_runs, span_runs
from cuzk_top.widgets.tiles import Pieces, cut, strips_of

CHART_NS = 200_000_000
"""How long a chart stands while its session runs."""
LANE_NS = 150_000_000
"""How long a lane stands when spans of it begin or end in quick succession: every other frame takes them in.
Between them its running span grows, which costs little."""


@dataclass(slots=True)
class _Filled:
    """The filled part of one row."""

    content: object
    """What it was made from, compared by identity; kept, so that its identity cannot pass to another."""
    look: Hashable
    ground: Ground
    under: Hashable
    """The part of the ground that it covers."""
    pieces: Pieces
    strips: list[Strip]
    """Of the tiles that are filled to their end."""
    shared: tuple[list[Segment], Strip] | None = None
    """The rest that completes the tile in which the filled part ends, and the strip of both."""


class _Chart(NamedTuple):
    """The chart of one counter as it was drawn last."""

    window: tuple[Window, int]
    now_ns: int
    heights: NDArray[np.int8]


class _Lane(NamedTuple):
    """The cells of one row as they were computed last."""

    place: object
    """Window, columns and the rows of spans."""
    signatures: list[list[int | None]]
    """A source: what changes when spans of it begin or end."""
    steps: list[int | None]
    """A source: how far its running span has grown."""
    taken_ns: int
    """When the signatures changed."""
    cells: Cells


class Areas:
    """Computes rows of one window; `begin` starts a frame."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._window = Window(0, 1)
        self._columns = 0
        self._tiles: tuple[int, ...] = (0,)
        self._edges: Int64s = np.empty(0, np.int64)
        self._ground = Ground((), -1)
        self._cells: dict[str, _Lane] = {}
        self._charts: dict[str, _Chart] = {}
        self._filled: dict[str, _Filled] = {}
        self._sources: dict[tuple[str, int], tuple[Hashable, int, Cells]] = {}
        self._settled: dict[str, tuple[Hashable, int, Cells]] = {}
        self._painted: dict[str, tuple[Hashable, Painted]] = {}
        self._tops: dict[str, tuple[int, float]] = {}
        self._looks: list[Hashable] = []
        self._blanks: list[Strip] = []
        self._rests: list[dict[int, list[Segment]]] = []

    def begin(self, window: Window, tiles: tuple[int, ...], ground: Ground) -> None:
        """Set what all rows of this frame share; `tiles` are the edges of the canvases, 0 to the columns."""
        columns = tiles[-1]
        if (window, columns) != (self._window, self._columns):
            self._window, self._columns = window, columns
            self._edges = viewport.edges(window, columns)
        if tiles != self._tiles:
            self._tiles = tiles
            self._filled.clear()
            count = len(tiles) - 1
            self._looks, self._blanks, self._rests = [None] * count, [Row([])] * count, [{}] * count
        if ground is self._ground:
            return
        self._ground = ground
        for tile, (low, high) in enumerate(pairwise(tiles)):
            look = ground.part(low, high)
            if look != self._looks[tile]:
                self._looks[tile] = look
                self._rests[tile] = {}
                self._blanks[tile] = Row(self._blank(low, high), high - low)

    def words(self, name: str, text: str) -> list[Strip]:
        """A reason in place of a picture."""
        text = clean(text)[: self._columns]
        return self._area(name, text, len(text), lambda: blank_run(text, 0, self._ground, self._theme, "dim"))

    def lane(self, row: DisplayRow, looks: Looks, now_ns: int, runs: bool) -> list[Strip]:
        """A row of spans, all its sources over each other; `runs`: while the session does."""
        look = (self._window, self._columns, row.sources)
        settled = self._settled.get(row.key)
        if settled is not None and settled[0] == look and now_ns >= settled[1]:
            cells = settled[2]
        else:
            cells = self._unsettled(row, look, now_ns, runs)
        return self._area(
            row.key,
            cells,
            len(cells.left),
            lambda: span_runs(cells, looks.labels(row), self._ground, self._theme),
            looks.search,
        )

    def state_of(self, row: DisplayRow, now_ns: int) -> Hashable:
        """What must change for a folded row's cells to do so."""
        return tuple(tuple(self._signature(stats.clipped(source, now_ns))) for source in row.sources)

    def painted(self, name: str, key: Hashable, make: Callable[[Int64s], Painted]) -> list[Strip]:
        """A row of cells that `make` paints over the columns' edges when `key` or the window changes."""
        key = (key, self._window, self._columns)
        found = self._painted.get(name)
        if found is None or found[0] != key:
            cells = make(self._edges)
            while cells and cells[-1] is None:
                cells.pop()  # the bare end of the row is shared with all others
            found = self._painted[name] = (key, cells)
        cells = found[1]
        return self._area(name, cells, len(cells), lambda: painted_runs(cells, self._ground, self._theme))

    def _unsettled(self, row: DisplayRow, look: Hashable, now_ns: int, runs: bool) -> Cells:
        """Cells of a row that may have changed; they are settled when nothing in it runs any more."""
        spans = [stats.clipped(source, now_ns) for source in row.sources]
        signatures = [self._signature(part) for part in spans]
        steps = [signature.pop() for signature in signatures]
        found = self._cells.get(row.key)
        place = (self._window, self._columns, [source.key for source in row.sources])
        same = found is not None and found.place == place
        if found is None or not same or found.signatures != signatures:
            if found is not None and same and runs and 0 <= now_ns - found.taken_ns < LANE_NS:
                return found.cells
            found = self._cells[row.key] = _Lane(
                place, signatures, steps, now_ns, self._compute(row.key, spans)
            )
        elif found.steps != steps:
            found = self._cells[row.key] = found._replace(steps=steps, cells=self._compute(row.key, spans))
        ends = [int(source.columns.end_ns[-1]) for source in row.sources if len(source.columns)]
        if all(source.open is None for source in row.sources) and now_ns >= max(ends, default=0):
            self._settled[row.key] = (look, max(ends, default=0), found.cells)
        return found.cells

    def chart(self, counter: CounterData, now_ns: int, runs: bool) -> list[Strip]:
        """A row of a counter; while the session `runs` it is drawn anew five times a second."""
        name = f"counter {counter.key}"
        drawn = self._charts.get(name)
        if (
            drawn is None
            or not runs
            or drawn.window != (self._window, self._columns)
            or not 0 <= now_ns - drawn.now_ns < CHART_NS
        ):
            drawn = self._charts[name] = self._chart(name, counter, now_ns)
        heights = drawn.heights
        role = known_role(counter.role)
        return self._area(
            name, heights, len(heights), lambda: chart_runs(heights, role, self._ground, self._theme)
        )

    def _chart(self, name: str, counter: CounterData, now_ns: int) -> _Chart:
        count = int(np.searchsorted(counter.start_ns, now_ns, "left"))
        last = min(int(counter.t_ns[count - 1]), now_ns) if count else self._window.t0_ns
        limit = self._limit(last)
        top = self._tops.get(name)
        if top is None or top[0] != count:
            top = self._tops[name] = (count, rows.chart_top(highest(counter, count), counter.top))
        values = np.empty(0)
        if limit:
            per_column = rows.gauge_columns if counter.kind == "gauge" else rows.rate_columns
            edges = self._edges[: limit + 1]
            values = per_column(counter.start_ns, counter.t_ns, counter.value, edges, now_ns)
        return _Chart((self._window, self._columns), now_ns, rows.levels(values, top[1]))

    def _area(
        self,
        name: str,
        content: object,
        limit: int,
        make: Callable[[], list[Segment]],
        look: Hashable = None,
    ) -> list[Strip]:
        """A strip a tile. The filled part is kept until its content, look or ground changes."""
        found = self._filled.get(name)
        same = found is not None and found.content is content and found.look == look
        if found is None or not same or found.ground is not self._ground:
            under = self._ground.part(0, limit)
            if found is not None and same and found.under == under:
                found.ground = self._ground
            else:
                pieces = cut(make(), self._tiles)
                full = bisect_right(self._tiles, limit) - 1
                before = (found.pieces, found.strips) if found is not None else None
                strips = strips_of(pieces[:full], self._tiles, before)
                found = _Filled(content, look, self._ground, under, pieces, strips)
                self._filled[name] = found
        full = len(found.strips)
        if self._tiles[full] == limit:
            return found.strips + self._blanks[full:]
        rest = self._rest(full, limit)
        if found.shared is None or found.shared[0] is not rest:
            width = self._tiles[full + 1] - self._tiles[full]
            found.shared = (rest, Row([*found.pieces[full], *rest], width))
        return [*found.strips, found.shared[1], *self._blanks[full + 1 :]]

    def _blank(self, low: int, high: int) -> list[Segment]:
        return blank_run(" " * (high - low), low, self._ground, self._theme)

    def _rest(self, tile: int, start: int) -> list[Segment]:
        """The blank end of a tile; one object for all rows, and the same until the ground changes there."""
        rest = self._rests[tile].get(start)
        if rest is None:
            rest = self._rests[tile][start] = self._blank(start, self._tiles[tile + 1])
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

    def _signature(self, spans: Spans) -> list[int | None]:
        """What must change for a row's cells to do so, as long as the window stays; last: how far it grew."""
        count = len(spans.start_ns)
        first = int(spans.start_ns[0]) if count else 0
        last = int(spans.end_ns[-1]) if count else 0
        growing = spans.open_ns is not None or last > spans.now_ns
        eighths = 2 * rows.EIGHTHS
        step = viewport.column_of(self._window, self._columns * eighths, spans.now_ns) if growing else 0
        return [count, first, last, spans.open_ns, step]


def highest(counter: CounterData, count: int) -> float:
    """Highest finite one of the first `count` samples; 0 without one."""
    values = counter.value[:count]
    values = values[np.isfinite(values)]
    return float(values.max()) if len(values) else 0.0
