"""The Textual applications: theme, clock and the first screen; behaviour lives in the screens."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable

from textual.app import App

from cuzk_top.screens.session import SessionControls, SessionScreen
from cuzk_top.screens.start import Choice, Places, StartScreen
from cuzk_top.theme import Theme, choose
from cuzk_top.viewport import ViewState


class CuzkTop(App[str]):
    """Shows one session, from `view` on if there is one. `run()` returns ``quit`` (the screen was left) or
    ``stop`` (Ctrl-C).
    """

    CSS_PATH = "main.tcss"
    TITLE = "cuzk-top"

    def __init__(
        self,
        controls: SessionControls,
        theme: Theme | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
        view: ViewState | None = None,
    ) -> None:
        # The theme reads the environment first: Textual takes NO_COLOR out of it.
        self.skin = choose(None, False, os.environ) if theme is None else theme
        super().__init__(ansi_color=True)
        self._controls = controls
        self._clock = clock
        self._view = view

    def on_mount(self) -> None:
        self.push_screen(SessionScreen(self._controls, self.skin, self._clock, view=self._view))

    def on_ready(self) -> None:
        # What start-up made lives as long as the screen: no need to walk it again in the middle of a frame.
        if not self.is_headless:
            gc.collect()
            gc.freeze()


class StartApp(App[Choice]):
    """Shows what there is to watch. `run()` returns the user's `Choice`."""

    CSS_PATH = "main.tcss"
    TITLE = "cuzk-top"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, places: Places, theme: Theme | None = None) -> None:
        self.skin = choose(None, False, os.environ) if theme is None else theme
        super().__init__(ansi_color=True)
        self._places = places

    def on_mount(self) -> None:
        self.push_screen(StartScreen(self._places, self.skin, self.exit))
