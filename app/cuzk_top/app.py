"""The Textual applications: theme, clock and the first screen; behaviour lives in the screens."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from rich.color import ColorSystem
from textual.app import App, SystemCommand
from textual.screen import Screen

from cuzk_top import environment
from cuzk_top.screens.analysis import Analyse, Analysing
from cuzk_top.screens.session import SessionControls, SessionScreen
from cuzk_top.screens.terminal_driver import TerminalDriver
from cuzk_top.theme import Theme, choose
from cuzk_top.viewport import ViewState

if TYPE_CHECKING:
    from cuzk_top.background import Background
    from cuzk_top.screens.start import Choice, Places  # noqa: F401 (named in quotes)

Result = TypeVar("Result")
COLOR_SYSTEMS: Mapping[str, ColorSystem] = {
    "true": ColorSystem.TRUECOLOR,
    "256": ColorSystem.EIGHT_BIT,
    "16": ColorSystem.STANDARD,
}
"""By a theme's depth; without colours nothing asks."""

SWITCH_S = 0.0005
"""How long a thread that computes may keep the interpreter from the one that draws. With Python's own 5 ms a
frame, which asks for it again and again, comes many times 5 ms late."""


class OnTerminal(App[Result], Generic[Result]):
    """What both applications do about their terminal."""

    CSS_PATH = "main.tcss"
    TITLE = "cuzk-top"

    def __init__(self, theme: Theme | None, adapts: bool) -> None:
        """`adapts`: take the light or the dark palette by what the terminal says of its background."""
        # The theme reads the environment first: Textual takes NO_COLOR out of it.
        self.skin = choose(None, False, environment.as_given()) if theme is None else theme
        super().__init__(ansi_color=True, driver_class=TerminalDriver)
        # Rich guesses from TERM anew, and would bring our colours down to what it guesses.
        if self.skin.depth in COLOR_SYSTEMS:
            self.console._color_system = COLOR_SYSTEMS[self.skin.depth]
        # Its pictures are not of ASCII.
        self.use_command_palette = self.ENABLE_COMMAND_PALETTE and not self.skin.ascii
        self._adapts = adapts
        self._here: asyncio.AbstractEventLoop | None = None
        self._called_away = False

    def first_screen(self, before: Screen[Any] | None) -> Screen[Any]:
        """The screen to show, in place of the one there was `before` the skin changed."""
        raise NotImplementedError

    def on_mount(self) -> None:
        self._here = asyncio.get_running_loop()
        self.push_screen(self.first_screen(None))
        if self._called_away:
            self.leave()

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:  # noqa: ARG002
        """None of Textual's own: they act on its themes and focus, not on our screens."""
        return ()

    def leave(self) -> None:
        """End as by ``q``. Any thread, and a signal at any time, may ask for it."""
        self._called_away = True
        if self._here is not None and not self._here.is_closed():
            self._here.call_soon_threadsafe(self.exit, self.left)

    left: Any = None
    """What `run` returns when the terminal or a signal ended it."""

    def terminal_gone(self) -> None:
        """The driver found nobody at the other end."""
        self.leave()

    def background_told(self, background: Background) -> None:
        """The terminal said what its background is; most often before there is a screen."""
        if not self._adapts or self.skin.style in ("mono", background):
            return
        self.skin = Theme(background, self.skin.depth, self.skin.ascii)
        if len(self.screen_stack) == 2:  # Textual's own and ours, nothing over it
            self.switch_screen(self.first_screen(self.screen))


class CuzkTop(OnTerminal[str]):
    """Shows one session. `run()` returns ``quit`` (the screen was left) or ``stop`` (Ctrl-C)."""

    left = "quit"

    def __init__(
        self,
        controls: SessionControls,
        theme: Theme | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        view: ViewState | None = None,
        analyse: Analyse | None = None,
        adapts: bool = False,
    ) -> None:
        """`view`: where to begin, as a screenshot kept it; `analyse` draws the conclusions, in a thread."""
        super().__init__(theme, adapts)
        self._controls = controls
        self._clock = clock
        self._analyse = analyse or Analysing(controls.deadlines)
        self._view = view

    def first_screen(self, before: Screen[Any] | None) -> SessionScreen:
        view = before.placed_view if isinstance(before, SessionScreen) else None
        return SessionScreen(self._controls, self.skin, self._clock, self._analyse, view or self._view)

    def on_ready(self) -> None:
        # What start-up made lives as long as the screen: no need to walk it again, not even once.
        if not self.is_headless:
            gc.freeze()
            sys.setswitchinterval(SWITCH_S)


class StartApp(OnTerminal["Choice"]):
    """Shows what there is to watch. `run()` returns the user's `Choice`."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, places: Places, theme: Theme | None = None, adapts: bool = False) -> None:
        super().__init__(theme, adapts)
        self._places = places

    def first_screen(self, before: Screen[Any] | None) -> Screen[Any]:  # noqa: ARG002
        from cuzk_top.screens.start import StartScreen  # noqa: PLC0415 - loaded where it is shown

        return StartScreen(self._places, self.skin, self.exit)
