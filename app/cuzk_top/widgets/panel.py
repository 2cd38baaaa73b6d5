"""The tabbed panel: a tab line and the lines of the open tab."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from cuzk_top.theme import Theme
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.paint import Line

TABS: tuple[tuple[str, str], ...] = (("stages", "Stages"), ("inspector", "Inspector"), ("log", "Log"))
"""Key and title, in the order of the number keys."""


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

    def draw(
        self, tab: str, status: str, lines: Sequence[Line], size: tuple[int, int], fixed: int = 0
    ) -> None:
        """Show the tab line and `lines` in (width, height); the first `fixed` of them do not scroll."""
        width, height = size
        room = max(0, height - 1 - fixed)
        rest = lines[fixed:]
        self._beyond = max(0, len(rest) - room)
        self.top = min(self.top, self._beyond)
        scroll = ""
        if self._beyond and room:
            last = min(len(rest), self.top + room)
            scroll = f"{self.top + 1}-{last} of {len(rest)}: J/K"
        shown = [self._tabs(tab, (status, scroll), width), *lines[:fixed], *rest[self.top : self.top + room]]
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
