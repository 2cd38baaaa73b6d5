"""Frames straight to the terminal, past Textual's compositor.

The compositor cuts every changed line at the edges of every widget on it, joins the pieces again and waits
for its own timer of 60 Hz. Our canvases lie side by side and nothing lies over them, so what changed is
written where it stands, at once, and nothing else. The runs of a frame are written style by style, wherever
they stand: to go somewhere costs a third of what another style does. The compositor keeps no picture of the
screen: what it draws itself, after a change of the layout say, it takes from the same lines. This reaches
into Textual, whose version is pinned.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from rich.style import Style
from textual.geometry import Region

from cuzk_top.widgets import sgr
from cuzk_top.widgets.cell_line import Run

if TYPE_CHECKING:
    from textual.screen import Screen


class _Ink:
    """One style's look on the terminal, and what this frame writes in it."""

    __slots__ = ("look", "style", "texts")

    def __init__(self, style: Style, look: sgr.Look) -> None:
        self.style = style
        self.look = look
        self.texts: list[str] = []


_look = attrgetter("look")


class Brush:
    """Collects the changed runs of a frame between `take` and `lay_down`, and writes them together."""

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self._down = False
        self._system = ColorSystem.TRUECOLOR
        self._inks: dict[int, _Ink] = {}
        """By the style's identity: styles are interned, and hashing one costs more than all else here."""
        self._used: list[_Ink] = []
        """Those of this frame."""

    def take(self) -> None:
        """Begin a frame. Whatever else wants to be drawn now leaves this one to the compositor."""
        screen, app = self._screen, self._screen.app
        driver = app._driver
        self._down = (
            driver is not None
            and not (driver.is_headless or driver.is_inline or driver.is_web)
            and app._running
            and not app._batch_count
            and not app._notifications
            and screen.is_current
            and not (screen._layout_required or screen._repaint_required or screen._dirty_widgets)
        )
        system = COLOR_SYSTEMS.get(app.console.color_system or "", ColorSystem.TRUECOLOR)
        if system != self._system:
            self._system = system
            self._inks.clear()

    def paints(self, region: Region, width: int, height: int) -> bool:
        """Whether a canvas there may be painted; if not, it must be left to the compositor.

        `width` and `height` are those of its lines: where they are not the region's the layout is about to
        change.
        """
        return self._down and (region.width, region.height) == (width, height)

    def put(self, x: int, y: int, runs: Iterable[Run]) -> None:
        """Write runs of a line whose cell 0 is at that place of the screen."""
        inks = self._inks
        for at, text, style in runs:
            ink = inks.get(id(style))
            if ink is None:
                ink = inks[id(style)] = _Ink(style, sgr.look(style, self._system))
            if not ink.texts:
                self._used.append(ink)
            ink.texts.append(f"\x1b[{y + 1};{x + at + 1}H{text}")

    def lay_down(self) -> None:
        """Finish the frame."""
        self._down = False
        used = self._used
        if not used:
            return
        app = self._screen.app
        driver = app._driver
        assert driver is not None
        parts: list[str] = []
        now = sgr.PLAIN
        used.sort(key=_look)
        for ink in used:
            parts.append(sgr.step(now, ink.look))
            parts += ink.texts
            now = ink.look
            ink.texts.clear()
        parts.append("\x1b[0m")
        used.clear()
        app._begin_update()
        driver.write("".join(parts))
        app._end_update()
        driver.flush()
