"""The tabbed panel: a tab line and the lines of the open tab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from textual.strip import Strip

from cuzk_top.theme import Theme
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.paint import Line

TABS: tuple[tuple[str, str], ...] = (("stages", "Stages"), ("inspector", "Inspector"), ("log", "Log"))
"""Key and title, in the order of the number keys."""


class Body(NamedTuple):
    """Lines of a tab: some that stay, and `lines` that scroll and are made only when they are seen."""

    fixed: Sequence[Line]
    lines: int
    make: Callable[[int], Line]


class Panel(Canvas):
    """Shows ready lines under the tab line; scrolls by whole lines."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("panel")
        self._theme = theme
        self._made: list[tuple[object, Strip]] = []
        self.top = 0
        self._beyond = 0

    def move(self, lines: int) -> None:
        """Move the open tab's lines; the next `draw` shows it."""
        self.top = max(0, min(self.top + lines, self._beyond))

    def draw(self, tab: str, status: str, body: Body, size: tuple[int, int]) -> None:
        """Show the tab line and as much of `body` as fits in (width, height)."""
        width, height = size
        fixed, count = body.fixed, body.lines
        room = max(0, height - 1 - len(fixed))
        self._beyond = max(0, count - room)
        self.top = min(self.top, self._beyond)
        scroll = ""
        if self._beyond and room:
            last = min(count, self.top + room)
            scroll = f"{self.top + 1}-{last} of {count}: J/K"
        shown = [self._tabs(tab, (status, scroll), width), *fixed]
        shown += [body.make(i) for i in range(self.top, min(count, self.top + room))]
        shown += [Line(self._theme, width) for _ in range(height - len(shown))]
        made: list[tuple[object, Strip]] = []
        for number, line in enumerate(shown[:height]):
            content = (width, *line.segments)
            old = self._made[number] if number < len(self._made) else None
            made.append(old if old is not None and old[0] == content else (content, line.strip()))
        self._made = made
        self.show([strip for _, strip in made])

    def _tabs(self, tab: str, words: tuple[str, str], width: int) -> Line:
        theme = self._theme
        rule = " " if theme.surfaces else theme.glyphs.rule
        line = Line(theme, width, "bar")
        for number, (key, title) in enumerate(TABS, 1):
            if key == tab:
                if theme.surfaces:
                    line.put(f" {number} {title} ", "ink", True, "page")
                else:
                    line.put(f"[{number} {title}]", "label", True, "busy")
            else:
                line.put(f" {number} ", "text").put(f"{title} ", "dim")
            line.put(rule, "dim")
        both = "   ".join(word for word in words if word)
        fits = [text for text in (both, *words) if text and width - len(text) - 2 > line.x]
        if fits:
            line.to(width - len(fits[0]) - 2, "dim", rule).put(f" {fits[0]} ", "text")
        return line.to(width, "dim", rule)

    def tab_at(self, x: int) -> str | None:
        """Key of the tab whose title is at column `x` of the tab line."""
        left = 0
        for key, title in TABS:
            right = left + len(title) + 5
            if left <= x < right:
                return key
            left = right
        return None
