"""From a theme's paints to Textual strips: interned styles and segments, and a builder for lines of text."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from cuzk_top.theme import Paint, Theme


@lru_cache(maxsize=1024)
def style_of(paint: Paint) -> Style:
    """The Rich style of a paint; equal paints share one object, which is what makes drawing cheap."""
    return Style(
        color=paint.fg or "default",
        bgcolor=paint.bg or "default",
        bold=paint.bold or None,
        reverse=paint.reverse or None,
        dim=paint.dim or None,
    )


@lru_cache(maxsize=8192)
def segment(text: str, paint: Paint) -> Segment:
    """One run of cells. Interned: the same run next frame is the same object."""
    return Segment(text, style_of(paint))


def clean(text: str) -> str:
    """Text of a traced process as one line of printable characters: it must not steer the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


class Pen:
    """The styles of one theme by role, as `Theme.paint` gives their paints."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._styles: dict[tuple[str, str, bool], Style] = {}

    def __call__(self, fg: str, bg: str = "page", bold: bool = False) -> Style:
        """Words of role `fg` on surface or fill `bg`."""
        key = (fg, bg, bold)
        found = self._styles.get(key)
        if found is None:
            found = self._styles[key] = style_of(self._theme.paint(fg, bg, bold))
        return found


class Line:
    """Builds one line from left to right. Text beyond the width is cut; `strip` fills up to the width.

    Positions are columns of the screen: a line that begins at column `start` holds the cells from there on.
    """

    def __init__(self, theme: Theme, width: int, surface: str = "page", start: int = 0) -> None:
        self._theme = theme
        self._surface = surface
        self.segments: list[Segment] = []
        self.width = width
        self.start = start
        self.x = start

    @property
    def room(self) -> int:
        """Cells left."""
        return self.width - self.x

    def put(self, text: str, role: str = "text", bold: bool = False, surface: str | None = None) -> Line:
        """Append text; `surface` may also be a fill, with `role` ``label``."""
        text = clean(text)
        cells = len(text) if text.isascii() else cell_len(text)
        if cells > self.room:
            text, cells = set_cell_size(text, max(0, self.room)), max(0, self.room)
        if cells:
            self.segments.append(segment(text, self._theme.paint(role, surface or self._surface, bold)))
            self.x += cells
        return self

    def to(self, x: int, role: str = "text", fill: str = " ") -> Line:
        """Fill with blanks (or a rule) up to column `x`."""
        if x > self.x:
            self.put(fill * (min(x, self.width) - self.x), role)
        return self

    def right(self, text: str, end: int, role: str = "text", bold: bool = False) -> Line:
        """Right-align `text` so that its last cell is column ``end - 1``."""
        return self.to(end - len(text)).put(text, role, bold)

    def strip(self) -> Strip:
        """The finished line."""
        self.to(self.width)
        return Strip(self.segments, self.width - self.start)
