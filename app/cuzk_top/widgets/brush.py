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
from typing import TYPE_CHECKING

from rich.color import ColorSystem
from rich.console import COLOR_SYSTEMS
from rich.style import Style
from textual.geometry import Region

from cuzk_top.widgets import sgr
from cuzk_top.widgets.cell_line import Run

if TYPE_CHECKING:
    from textual.screen import Screen


class Brush:
    """Collects the changed runs of a frame between `take` and `lay_down`, and writes them together."""

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self._down = False
        self._runs: dict[int, tuple[Style, list[str]]] = {}
        """By the style's identity: styles are interned, and hashing one costs more than all else here."""

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

    def paints(self, region: Region, width: int, height: int) -> bool:
        """Whether a canvas there may be painted; if not, it must be left to the compositor.

        `width` and `height` are those of its lines: where they are not the region's the layout is about to
        change.
        """
        return self._down and (region.width, region.height) == (width, height)

    def put(self, x: int, y: int, runs: Iterable[Run]) -> None:
        """Write runs of a line whose cell 0 is at that place of the screen."""
        known = self._runs
        for at, text, style in runs:
            found = known.get(id(style))
            if found is None:
                found = known[id(style)] = (style, [])
            found[1].append(f"\x1b[{y + 1};{x + at + 1}H{text}")

    def lay_down(self) -> None:
        """Finish the frame."""
        self._down = False
        if not self._runs:
            return
        app = self._screen.app
        driver = app._driver
        assert driver is not None
        system = COLOR_SYSTEMS.get(app.console.color_system or "", ColorSystem.TRUECOLOR)
        parts: list[str] = []
        now = sgr.PLAIN
        looks = [(sgr.look(style, system), texts) for style, texts in self._runs.values()]
        for look, texts in sorted(looks, key=lambda entry: entry[0]):
            parts.append(sgr.step(now, look))
            parts += texts
            now = look
        parts.append("\x1b[0m")
        self._runs.clear()
        app._begin_update()
        driver.write("".join(parts))
        app._end_update()
        driver.flush()
