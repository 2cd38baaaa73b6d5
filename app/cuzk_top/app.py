"""The Textual applications: theme, clock and the first screen; behaviour lives in the screens."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import App

from cuzk_top.screens.analysis import Analyse, Analysing
from cuzk_top.screens.session import SessionControls, SessionScreen
from cuzk_top.theme import Theme, choose
from cuzk_top.viewport import ViewState

if TYPE_CHECKING:
    from cuzk_top.screens.start import Choice, Places

    Choosing = App[Choice]
else:
    Choosing = App  # the start screen is loaded where it is shown

SWITCH_S = 0.0005
"""How long a thread that computes may keep the interpreter from the one that draws. With Python's own 5 ms a
frame, which asks for it again and again, comes many times 5 ms late."""


class CuzkTop(App[str]):
    """Shows one session. `run()` returns ``quit`` (the screen was left) or ``stop`` (Ctrl-C)."""

    CSS_PATH = "main.tcss"
    TITLE = "cuzk-top"

    def __init__(
        self,
        controls: SessionControls,
        theme: Theme | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        view: ViewState | None = None,
        analyse: Analyse | None = None,
    ) -> None:
        """`view`: where to begin, as a screenshot kept it; `analyse` draws the conclusions, in a thread."""
        # The theme reads the environment first: Textual takes NO_COLOR out of it.
        self.skin = choose(None, False, os.environ) if theme is None else theme
        super().__init__(ansi_color=True)
        self._controls = controls
        self._clock = clock
        self._analyse = analyse or Analysing(controls.deadlines)
        self._view = view

    def on_mount(self) -> None:
        self.push_screen(SessionScreen(self._controls, self.skin, self._clock, self._analyse, self._view))

    def on_ready(self) -> None:
        # What start-up made lives as long as the screen: no need to walk it again, not even once.
        if not self.is_headless:
            gc.freeze()
            sys.setswitchinterval(SWITCH_S)


class StartApp(Choosing):
    """Shows what there is to watch. `run()` returns the user's `Choice`."""

    CSS_PATH = "main.tcss"
    TITLE = "cuzk-top"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, places: Places, theme: Theme | None = None) -> None:
        self.skin = choose(None, False, os.environ) if theme is None else theme
        super().__init__(ansi_color=True)
        self._places = places

    def on_mount(self) -> None:
        from cuzk_top.screens.start import StartScreen  # noqa: PLC0415

        self.push_screen(StartScreen(self._places, self.skin, self.exit))
