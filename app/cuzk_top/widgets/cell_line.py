"""A line of the screen as cells: a character and a style each. Knows what changed since it was last shown."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

Run = tuple[int, str, Style]
"""First cell, characters and style of cells that look alike. A character of two cells has an empty one behind
it."""

PLAIN = Style()


class CellLine:
    """One line of `width` cells; `fresh` are the runs written since it was last shown.

    Styles are compared by identity: equal ones must be one object (see `paint.style_of`).
    """

    __slots__ = ("_strip", "fresh", "glyphs", "styles")

    def __init__(self, width: int) -> None:
        self.glyphs = [" "] * width
        self.styles = [PLAIN] * width
        self.fresh: list[Run] = []
        self._strip: Strip | None = None

    def fill(self, x: int, text: str, style: Style) -> None:
        """Write characters of one cell each from cell `x` on; those that stand there already are left."""
        glyphs, styles = self.glyphs, self.styles
        low, high = x, x + len(text)
        if high - low == 1:
            if styles[x] is not style or glyphs[x] != text:
                glyphs[x], styles[x] = text, style
                self.fresh.append((x, text, style))
                self._strip = None
            return
        while low < high and styles[low] is style and glyphs[low] == text[low - x]:
            low += 1
        if low == high:
            return
        while styles[high - 1] is style and glyphs[high - 1] == text[high - 1 - x]:
            high -= 1
        text = text[low - x : high - x]
        glyphs[low:high] = text
        styles[low:high] = [style] * (high - low)
        self.fresh.append((low, text, style))
        self._strip = None

    def patch(self, x: int, glyphs: list[str], styles: list[Style], runs: list[Run]) -> None:
        """Write ready cells from cell `x` on: `runs` are the same cells as runs."""
        self.glyphs[x : x + len(glyphs)] = glyphs
        self.styles[x : x + len(styles)] = styles
        self.fresh += runs
        self._strip = None

    def put(self, x: int, segments: Iterable[Segment]) -> None:
        """Write whole runs from cell `x` on, of any characters."""
        for text, style, _ in segments:
            look = PLAIN if style is None else style
            if text.isascii() or cell_len(text) == len(text):
                self.fill(x, text, look)
                x += len(text)
                continue
            for letter in text:
                wide = cell_len(letter)
                if not wide:
                    continue
                if self.glyphs[x : x + wide] != [letter, ""][:wide] or self.styles[x] is not look:
                    self.glyphs[x : x + wide] = [letter, ""][:wide]
                    self.styles[x : x + wide] = [look] * wide
                    self.fresh.append((x, letter, look))
                    self._strip = None
                x += wide

    def runs(self) -> list[Run]:
        """All of the line, in runs of one style."""
        found: list[Run] = []
        x = 0
        for style, cells in groupby(self.styles):
            count = len(list(cells))
            found.append((x, "".join(self.glyphs[x : x + count]), style))
            x += count
        return found

    @property
    def text(self) -> str:
        """The characters."""
        return "".join(self.glyphs)

    def strip(self) -> Strip:
        """The line for Textual's compositor, made when it is asked for."""
        if self._strip is None:
            self._strip = Strip([Segment(text, style) for _, text, style in self.runs()], len(self.glyphs))
        return self._strip
