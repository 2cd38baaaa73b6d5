"""Screens of text over the session, scrollable on short terminals: the keys, and how a number came about."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from cuzk_top import actions
from cuzk_top.theme import Theme
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.paint import Line

NAME_WIDTH = 16


class Entry(NamedTuple):
    """A name and what is said about it; a name alone is a heading, nothing at all a blank line."""

    name: str = ""
    text: str = ""


def help_lines(mode: actions.Mode) -> list[Entry]:
    """Every key that works in this mode and what it does, by group."""
    entries = []
    for group, title in actions.GROUPS.items():
        entries.append(Entry(title))
        for action in actions.for_mode(mode):
            if action.group == group:
                entries.append(Entry(" ".join(actions.key_name(key) for key in action.keys), action.help))
        entries.append(Entry())
    entries.append(Entry("Mouse"))
    return entries + [Entry(gesture, does) for gesture, does in actions.MOUSE]


def laid_out(entries: Sequence[Entry], theme: Theme, width: int) -> list[Line]:
    """The entries as lines of this width."""
    lines = [Line(theme, width)]
    for name, text in entries:
        first = Line(theme, width).put("  ").put(name, "ink", True)
        if not text:
            lines.append(first)
            continue
        parts = textwrap.wrap(text, max(20, width - NAME_WIDTH - 6)) or [""]
        lines.append(first.to(NAME_WIDTH + 3).put(parts[0]))
        lines += [Line(theme, width).to(NAME_WIDTH + 3).put(part) for part in parts[1:]]
    return lines


class TextScreen(Screen[None], inherit_bindings=False):
    """Covers the session; the session goes on underneath."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,i,q,enter", "leave", show=False),
        Binding("j,down", "scroll_lines(1)", show=False),
        Binding("k,up", "scroll_lines(-1)", show=False),
        Binding("pagedown,J,space", "scroll_lines(10)", show=False),
        Binding("pageup,K", "scroll_lines(-10)", show=False),
    ]

    def __init__(self, theme: Theme, title: str, entries: Sequence[Entry]) -> None:
        super().__init__()
        self._theme = theme
        self._title = title
        self._entries = entries
        self._offset = 0
        self._canvas = Canvas("help")

    def compose(self) -> ComposeResult:
        yield self._canvas

    def on_mount(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    @property
    def texts(self) -> list[str]:
        """The lines as they are shown, without their colours."""
        return self._canvas.texts

    def _draw(self) -> None:
        width, height = self.size
        if not width or height < 3:
            return
        lines = laid_out(self._entries, self._theme, width)
        room = height - 2
        self._offset = max(0, min(self._offset, len(lines) - room))
        title = Line(self._theme, width, "bar").put("  ").put(self._title, "ink", True)
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
