"""The help screen: the action table, by group, scrollable on short terminals."""

from __future__ import annotations

import textwrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from cuzk_top import actions
from cuzk_top.theme import Theme
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.paint import Line

KEY_WIDTH = 16


def help_lines(theme: Theme, mode: actions.Mode, width: int) -> list[Line]:
    """Every key that works in this mode and what it does."""
    lines: list[Line] = [Line(theme, width)]
    for group, title in actions.GROUPS.items():
        lines.append(Line(theme, width).put("  ").put(title, "ink", True))
        for action in actions.for_mode(mode):
            if action.group == group:
                keys = " ".join(actions.key_name(key) for key in action.keys)
                lines += _entry(theme, width, keys, action.help)
        lines.append(Line(theme, width))
    lines.append(Line(theme, width).put("  ").put("Mouse", "ink", True))
    for gesture, does in actions.MOUSE:
        lines += _entry(theme, width, gesture, does)
    return lines


def _entry(theme: Theme, width: int, keys: str, text: str) -> list[Line]:
    parts = textwrap.wrap(text, max(20, width - KEY_WIDTH - 6)) or [""]
    first = Line(theme, width).put("  ").put(keys, "ink", True).to(KEY_WIDTH + 3).put(parts[0])
    return [first, *(Line(theme, width).to(KEY_WIDTH + 3).put(part) for part in parts[1:])]


class HelpScreen(Screen[None], inherit_bindings=False):
    """Covers the session; the session goes on underneath."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q,enter", "leave", show=False),
        Binding("j,down", "scroll_lines(1)", show=False),
        Binding("k,up", "scroll_lines(-1)", show=False),
        Binding("pagedown,J,space", "scroll_lines(10)", show=False),
        Binding("pageup,K", "scroll_lines(-10)", show=False),
    ]

    def __init__(self, theme: Theme, mode: actions.Mode) -> None:
        super().__init__()
        self._theme = theme
        self._mode: actions.Mode = mode
        self._offset = 0
        self._canvas = Canvas("help")

    def compose(self) -> ComposeResult:
        yield self._canvas

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if not width or height < 3:
            return
        lines = help_lines(self._theme, self._mode, width)
        room = height - 2
        self._offset = max(0, min(self._offset, len(lines) - room))
        title = Line(self._theme, width, "bar").put("  ").put("Keys", "ink", True)
        title.put(f"   {self._mode}", "dim")
        foot = Line(self._theme, width, "bar").put("  ").put("Esc", "ink", True).put(" back", "dim")
        if len(lines) > room:
            foot.put("  ").put("j/k", "ink", True).put(" scroll", "dim")
            last = min(len(lines), self._offset + room)
            title.right(f"{self._offset + 1}-{last} of {len(lines)}", width - 2, "dim")
        body = lines[self._offset : self._offset + room]
        body += [Line(self._theme, width) for _ in range(room - len(body))]
        self._canvas.show([line.strip() for line in (title, *body, foot)])

    def action_scroll_lines(self, lines: int) -> None:
        self._offset += lines
        self._draw()

    def action_leave(self) -> None:
        self.dismiss()
