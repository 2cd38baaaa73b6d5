"""Frames straight to the terminal, past Textual's compositor.

The compositor cuts every changed line at the edges of every widget on it, joins the pieces again and waits
for its own timer of 60 Hz. Our canvases lie side by side and nothing lies over them, so a changed line of one
is written where it stands, at once. The compositor keeps no picture of the screen: what it draws itself,
after a change of the layout say, it takes from the same strips. This reaches into Textual, whose version is
pinned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from textual.geometry import Region
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.screen import Screen


class Painted(Protocol):
    """What a brush paints: a widget that knows where it stands on the screen."""

    @property
    def region(self) -> Region: ...


class Brush:
    """Collects the changed lines of a frame between `take` and `lay_down`, and writes them together."""

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self._down = False
        self._parts: list[str] = []

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

    def paint(self, canvas: Painted, lines: Sequence[Strip], changed: Sequence[int]) -> bool:
        """Write those lines of a canvas; False where it must be left to the compositor."""
        if not self._down:
            return False
        region = canvas.region
        width = region.width
        if region.height != len(lines) or any(lines[y].cell_length != width for y in changed):
            return False  # the layout is about to change
        console, x = self._screen.app.console, region.x + 1
        for y in changed:
            self._parts.append(f"\x1b[{region.y + y + 1};{x}H{lines[y].render(console)}")
        return True

    def lay_down(self) -> None:
        """Finish the frame."""
        self._down = False
        if not self._parts:
            return
        app = self._screen.app
        driver = app._driver
        assert driver is not None
        app._begin_update()
        driver.write("".join(self._parts))
        app._end_update()
        driver.flush()
        self._parts.clear()
