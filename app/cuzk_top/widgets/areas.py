"""The cells under the time axis, row by row, kept from frame to frame."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

import numpy as np

from cuzk_top import growth, rows, stats, viewport
from cuzk_top.growth import Seen
from cuzk_top.model import CounterData
from cuzk_top.rows import Spans
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.theme import Theme
from cuzk_top.viewport import Axis, Int64s, Window
from cuzk_top.widgets.area_row import AreaRow, Frame
from cuzk_top.widgets.cell_line import CellLine
from cuzk_top.widgets.chart_row import ChartRow, highest
from cuzk_top.widgets.ground import Ground, Grounds
from cuzk_top.widgets.lane_row import LaneRow
from cuzk_top.widgets.looks import Looks, RowLabels
from cuzk_top.widgets.paint import Pen, clean
from cuzk_top.widgets.painted import Cell, Cells, PaintedRow

__all__ = ["Areas", "highest"]

Kind = TypeVar("Kind", bound=AreaRow)


class Areas:
    """Draws rows of one window into the lines that they are given; `begin` starts a frame."""

    def __init__(self, theme: Theme, pen: Pen, looks: Looks) -> None:
        self._theme, self._pen, self._looks = theme, pen, looks
        self._grounds = Grounds(theme, pen)
        self._rows: dict[str, AreaRow] = {}
        self._key: object = None
        self._place: object = None
        """Another object whenever every row is to be drawn anew."""
        self._frame = Frame(Window(0, 1), np.empty(0, np.int64), [], Ground([], -1, "", []))

    def begin(
        self, window: Window, columns: int, axis: Axis, selection: tuple[int, int] | None, now_ns: int
    ) -> None:
        """Set what all rows of this frame share."""
        place = (window, columns, self._looks.version)
        if place != self._key:
            self._key, self._place = place, object()
        last = self._frame
        edges, times = last.edges, last.times
        if (window, columns) != (last.window, last.columns):
            edges = viewport.edges(window, columns)
            times = edges.tolist()
        ground, moved = self._grounds.at(window, columns, axis, selection, now_ns)
        before = last.ground if moved and edges is last.edges else None
        self._frame = Frame(window, edges, times, ground, before)

    @property
    def ground(self) -> Ground:
        """What is under all rows of this frame."""
        return self._frame.ground

    def rests(self, name: str, line: CellLine, source: object, now_ns: int) -> bool:
        """Whether that row is of the same `source` as when it was drawn, and no time changes it. Then it is
        up to date by now.
        """
        row = self._rows.get(name)
        if (
            row is None
            or row.source is not source
            or row.place is not self._place
            or row.line is not line
            or now_ns < row.settled_ns
        ):
            return False
        row.rest(self._frame)
        return True

    def words(self, name: str, line: CellLine, x: int, source: object, text: str) -> None:
        """A reason in place of a picture."""
        row = self._row(name, line, PaintedRow, lambda: PaintedRow(line, x, self._pen))
        row.source = source
        row.draw(self._frame, text, self._place, lambda _: self._letters(text))

    def _letters(self, text: str) -> Cells:
        letters = clean(text)[: self._frame.columns]
        return [None if letter == " " else Cell(letter, "dim") for letter in letters]

    def lane(self, row: DisplayRow, line: CellLine, x: int, now_ns: int) -> None:
        """A row of spans, all its sources over each other."""
        drawn = self._row(
            row.key,
            line,
            LaneRow,
            lambda: LaneRow(line, x, self._theme, self._pen, RowLabels(self._looks)),
        )
        drawn.draw(self._frame, row, self._place, now_ns)

    def painted(
        self, name: str, line: CellLine, x: int, key: Hashable, make: Callable[[Int64s], Cells]
    ) -> None:
        """A row of cells that `make` paints over the columns' edges when `key`, its source, or the window
        changes.
        """
        row = self._row(name, line, PaintedRow, lambda: PaintedRow(line, x, self._pen))
        row.source = key
        row.draw(self._frame, key, self._place, make)

    def folded(
        self, row: DisplayRow, line: CellLine, x: int, now_ns: int, make: Callable[[Int64s], Cells]
    ) -> None:
        """The same of a row that stands for several."""
        drawn = self._row(row.key, line, PaintedRow, lambda: PaintedRow(line, x, self._pen))
        drawn.source = row
        drawn.settled_ns = growth.settled([Seen.of_row(source, now_ns) for source in row.sources])
        drawn.draw(self._frame, self._state_of(row, now_ns), self._place, make)

    def chart(self, counter: CounterData, line: CellLine, x: int, now_ns: int) -> None:
        """A row of a counter."""
        name = f"counter {counter.key}"
        row = self._row(name, line, ChartRow, lambda: ChartRow(line, x, self._theme, self._pen))
        row.draw(self._frame, counter, self._place, now_ns)

    def _state_of(self, row: DisplayRow, now_ns: int) -> Hashable:
        """What must change for a folded row's cells to do so, as long as the window stays."""
        return tuple(self._signature(stats.clipped(source, now_ns)) for source in row.sources)

    def _signature(self, spans: Spans) -> tuple[int | None, ...]:
        count = len(spans.start_ns)
        first = spans.start_ns.item(0) if count else 0
        last = spans.end_ns.item(-1) if count else 0
        growing = spans.open_ns is not None or last > spans.now_ns
        eighths = 2 * rows.EIGHTHS * self._frame.columns
        step = viewport.column_of(self._frame.window, eighths, spans.now_ns) if growing else 0
        return count, first, last, spans.open_ns, step

    def _row(self, name: str, line: CellLine, kind: type[Kind], make: Callable[[], Kind]) -> Kind:
        """The row of before, or another where its line or kind is another one."""
        found = self._rows.get(name)
        if isinstance(found, kind) and found.line is line:
            return found
        made = self._rows[name] = make()
        return made
