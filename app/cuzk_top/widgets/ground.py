"""What blank cells of the time area show: the well, ticks, the time selection, the time not reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.style import Style

from cuzk_top.theme import Theme
from cuzk_top.viewport import Axis, Window, column_of
from cuzk_top.widgets.cell_line import Run
from cuzk_top.widgets.paint import Pen


class Ground(NamedTuple):
    """The same for every row of a frame."""

    surfaces: list[str]
    now: int
    """Column of the play head's line, or -1."""
    glyphs: str
    styles: list[Style]

    def runs(self, low: int, high: int) -> Iterator[Run]:
        """The bare columns from `low` up to `high`."""
        styles = self.styles
        while low < high:
            style = styles[low]
            end = low + 1
            while end < high and styles[end] is style:
                end += 1
            yield low, self.glyphs[low:end], style
            low = end


class Grounds:
    """Makes them. All but the play head's place stays from frame to frame."""

    def __init__(self, theme: Theme, pen: Pen) -> None:
        self._glyph = theme.glyphs.now
        self._pen = pen
        self._key: object = None
        self._reached: tuple[list[str], list[Style]] = ([], [])
        self._future: tuple[list[str], list[Style]] = ([], [])
        self._last = Ground([], -1, "", [])
        self._head: int | None = None

    def at(
        self, window: Window, columns: int, axis: Axis, selection: tuple[int, int] | None, now_ns: int
    ) -> tuple[Ground, bool]:
        """The ground of a moment (the same object as last time where nothing changed), and whether all but
        the play head is as it was. Ticks give way to all else, the time not reached to the selection.
        """
        key = (window, columns, axis, selection)
        head = max(-1, min(columns, column_of(window, columns, now_ns) + 1))
        moved = key == self._key
        if moved and head == self._head:
            return self._last, True
        if not moved:
            self._key = key
            self._reached = self._surfaces(window, columns, axis, selection)
            self._future = self._surfaces(window, columns, None, selection)
        self._head = head
        self._last = self._made(columns, head)
        return self._last, moved

    def _made(self, columns: int, head: int) -> Ground:
        reached = max(0, head)
        surfaces = self._reached[0][:reached] + self._future[0][reached:]
        styles = self._reached[1][:reached] + self._future[1][reached:]
        if not 0 <= head < columns:
            return Ground(surfaces, -1, " " * columns, styles)
        styles[head] = self._pen("now", surfaces[head])
        return Ground(surfaces, head, " " * head + self._glyph + " " * (columns - head - 1), styles)

    def _surfaces(
        self, window: Window, columns: int, axis: Axis | None, selection: tuple[int, int] | None
    ) -> tuple[list[str], list[Style]]:
        """As if all time had been reached; without an axis, none."""
        surfaces = ["future" if axis is None else "well"] * columns
        for tick in axis.ticks_ns if axis is not None else ():
            surfaces[column_of(window, columns, tick)] = "tick"
        if selection is not None:
            low = column_of(window, columns, selection[0])
            high = column_of(window, columns, max(selection[0], selection[1] - 1))
            for column in range(max(0, low), min(columns, high + 1)):
                surfaces[column] = "time selection"
        return surfaces, [self._pen("text", surface) for surface in surfaces]
