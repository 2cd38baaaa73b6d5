"""The tabbed panel: a tab line and the lines of the open tab."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from textual.strip import Strip

from cuzk_top.theme import Theme
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.paint import Line

TABS: tuple[tuple[str, str, int], ...] = (
    ("stalls", "Stalls", 1),
    ("stages", "Stages", 2),
    ("jobs", "Jobs", 3),
    ("inspector", "Inspector", 4),
    ("log", "Log", 6),
)
"""Key, title and number key of each."""


class Body(NamedTuple):
    """Lines of a tab: some that stay, and `lines` that scroll and are made only when they are seen."""

    fixed: Sequence[Line]
    lines: int
    make: Callable[[int], Line]
    foot: Sequence[Line] = ()
    """Lines that stay below those that scroll."""
    source: object = None
    """All that the lines are made from, where comparing it is cheaper than making them again."""


class Panel(Canvas):
    """Shows ready lines under the tab line; scrolls by whole lines."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("panel")
        self._theme = theme
        self._made: list[tuple[object, Strip]] = []
        self._source: object = None
        self.top = 0
        self.head = 1
        """Lines above those that scroll."""
        self._beyond = 0
        self._wanted: int | None = None
        self._heading: tuple[object, Line] | None = None
        """The tab line, and what it was made from."""
        self._places: list[tuple[int, str]] = []
        """Where each tab's title ends."""

    def move(self, lines: int) -> None:
        """Move the open tab's lines; the next `draw` shows it."""
        self.top = max(0, min(self.top + lines, self._beyond))

    def show_line(self, line: int) -> None:
        """Scroll so that a line of the open tab is seen."""
        self._wanted = line

    def draw(
        self, tab: str, count_of: Mapping[str, int], status: Sequence[str], body: Body, size: tuple[int, int]
    ) -> None:
        """Show the tab line and as much of `body` as fits in (width, height).

        `count_of`: numbers behind the titles of tabs, by key; `status`: what stands at the end of the tab
        line, the longest form first.
        """
        width, height = size
        fixed, count = body.fixed, body.lines
        room = max(0, height - 1 - len(fixed) - len(body.foot))
        if self._wanted is not None:
            self.top = min(max(self.top, self._wanted - room + 1), self._wanted)
            self._wanted = None
        self.head = 1 + len(fixed)
        self._beyond = max(0, count - room)
        self.top = min(self.top, self._beyond)
        scroll = ""
        if self._beyond and room:
            last = min(count, self.top + room)
            scroll = f"{self.top + 1}-{last} of {count}: J/K"
        heading = (tab, count_of, status, scroll, width)
        if self._heading is None or heading != self._heading[0]:
            self._places = []
            self._heading = (heading, self._tabs(tab, count_of, status, scroll, width))
        shown = [self._heading[1]]
        source = None if body.source is None else (tab, body.source, self.top, size)
        if source is None or source != self._source:
            shown += fixed
            shown += [body.make(i) for i in range(self.top, min(count, self.top + room))]
            shown += body.foot
            shown += [Line(self._theme, width) for _ in range(height - len(shown))]
        self._source = source
        made: list[tuple[object, Strip]] = []
        for number, line in enumerate(shown[:height]):
            content = (width, *line.segments)
            old = self._made[number] if number < len(self._made) else None
            made.append(old if old is not None and old[0] == content else (content, line.strip()))
        self._made = [*made, *self._made[len(made) : height]]
        self.show([strip for _, strip in self._made])

    def _tabs(
        self, tab: str, count_of: Mapping[str, int], status: Sequence[str], scroll: str, width: int
    ) -> Line:
        theme = self._theme
        rule = " " if theme.surfaces else theme.glyphs.rule
        line = Line(theme, width, "bar")
        narrow = width < 76
        for key, title, number in TABS:
            if narrow and key in ("inspector", "log") and key != tab:
                continue
            many = f" {count_of[key]}" if key in count_of else ""
            if key == tab:
                if theme.surfaces:
                    line.put(f" {number} {title}", "ink", True, "page").put(f"{many} ", "text", False, "page")
                else:
                    line.put(f"[{number} {title}{many}]", "label", True, "busy")
            else:
                line.put(f" {number} ", "text").put(f"{title}{many} ", "dim")
            self._places.append((line.x, key))
            line.put(rule, "dim")
        forms = [text for form in status for text in ((f"{form}   {scroll}", form) if scroll else (form,))]
        fits = [text for text in (*forms, scroll) if text.strip() and width - len(text) - 2 > line.x]
        if fits:
            line.to(width - len(fits[0]) - 2, "dim", rule).put(f" {fits[0]} ", "text")
        return line.to(width, "dim", rule)

    def tab_at(self, x: int) -> str | None:
        """Key of the tab whose title is at column `x` of the tab line."""
        return next((key for end, key in self._places if x < end), None)
