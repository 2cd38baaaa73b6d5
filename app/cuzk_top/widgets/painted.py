"""Rows of the time area that are no bars of spans: one character and one look a cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment

from cuzk_top.theme import Theme
from cuzk_top.widgets.paint import segment
from cuzk_top.widgets.runs import Ground, blank_run


class Cell(NamedTuple):
    """What one cell shows; without `bg` it stands on the ground, with `fg` ``label`` on the fill `bg`."""

    glyph: str
    fg: str
    bg: str | None = None
    bold: bool = False


Cells = list[Cell | None]
"""A row; None is the bare ground."""


def painted_runs(cells: Sequence[Cell | None], ground: Ground, theme: Theme) -> list[Segment]:
    """Runs of cells that look alike."""
    out: list[Segment] = []
    begin, count = 0, len(cells)
    while begin < count:
        cell, surface = cells[begin], ground.surfaces[begin]
        end = begin + 1
        if cell is None:
            while end < count and cells[end] is None:
                end += 1
            out += blank_run(" " * (end - begin), begin, ground, theme)
        else:
            look = cell[1:]
            text = [cell.glyph]
            while end < count:
                other = cells[end]
                same = other is not None and other[1:] == look
                if other is None or not same or (cell.bg is None and ground.surfaces[end] != surface):
                    break
                text.append(other.glyph)
                end += 1
            paint = theme.paint(cell.fg, surface if cell.bg is None else cell.bg, cell.bold)
            out.append(segment("".join(text), paint))
        begin = end
    return out


def fill(theme: Theme, role: str, letter: str = "") -> Cell:
    """A cell of a fill: its letter, else its pattern."""
    return Cell(letter, "label", role, True) if letter else Cell(theme.pattern(role), "text", role)
