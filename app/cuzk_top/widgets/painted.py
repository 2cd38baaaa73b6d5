"""Rows of the time area that are no bars of spans: one character and one look a cell."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from cuzk_top.theme import Theme
from cuzk_top.viewport import Int64s
from cuzk_top.widgets.area_row import AreaRow, Frame
from cuzk_top.widgets.cell_line import CellLine
from cuzk_top.widgets.paint import Pen


class Cell(NamedTuple):
    """What one cell shows; without `bg` it stands on the ground, with `fg` ``label`` on the fill `bg`."""

    glyph: str
    fg: str
    bg: str | None = None
    bold: bool = False


Cells = list[Cell | None]
"""A row; None is the bare ground."""


class PaintedRow(AreaRow):
    """Shows cells that are painted whole when anything in them changes."""

    def __init__(self, line: CellLine, x: int, pen: Pen) -> None:
        super().__init__(line, x)
        self._pen = pen
        self._key: Hashable = None
        self._cells: Cells = []

    def draw(self, frame: Frame, key: Hashable, place: object, make: Callable[[Int64s], Cells]) -> None:
        """Bring the line up to date; `make` paints over the columns' edges when `key` or `place` changes."""
        if place is self.place and key == self._key:
            self.rest(frame)
            return
        self.place, self._key = place, key
        cells = make(frame.edges)
        while cells and cells[-1] is None:
            cells.pop()  # the bare end of the row
        self._cells = cells
        self.bring(frame, 0, len(cells))

    def write(self, frame: Frame, low: int) -> None:
        """Cells that look alike together."""
        cells, surfaces = self._cells, frame.ground.surfaces
        begin = low
        while begin < self.limit:
            cell, surface = cells[begin], surfaces[begin]
            end = begin + 1
            if cell is None:
                while end < self.limit and cells[end] is None:
                    end += 1
                self.write_bare(frame, begin, end)
            else:
                text, look = cell.glyph, cell[1:]
                while end < self.limit:
                    other = cells[end]
                    if other is None or other[1:] != look:
                        break
                    if cell.bg is None and surfaces[end] != surface:
                        break
                    text += other.glyph
                    end += 1
                style = self._pen(cell.fg, surface if cell.bg is None else cell.bg, cell.bold)
                self.line.fill(self.x + begin, text, style)
            begin = end


def fill(theme: Theme, role: str, letter: str = "") -> Cell:
    """A cell of a fill: its letter, else its pattern."""
    return Cell(letter, "label", role, True) if letter else Cell(theme.pattern(role), "text", role)
