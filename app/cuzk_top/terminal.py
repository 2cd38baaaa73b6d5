"""Whether there is a terminal to draw on, and the screen's start on it."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from cuzk_top import heap, theme

if TYPE_CHECKING:
    from cuzk_top.facts import SessionControls
    from cuzk_top.viewport import ViewState


def interactive() -> bool:
    """True when keys can be read and a picture shown. Textual draws to standard error and does not ask."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()


def skin(args: argparse.Namespace) -> theme.Theme:
    """Colours and glyphs by the command's options and the environment."""
    return theme.choose(None if args.theme == "auto" else args.theme, args.ascii, os.environ)


def load() -> None:
    """Load the screen's libraries, as `show` does at the latest."""
    from cuzk_top import app  # noqa: F401, PLC0415 - only where there is a screen


def show(controls: SessionControls, args: argparse.Namespace, view: ViewState | None = None) -> str:
    """Open the session screen, at `view` if there is one, until it is left; "quit" or "stop"."""
    from cuzk_top.app import CuzkTop  # noqa: PLC0415 - the screen's libraries load only where there is a screen

    heap.give_back()
    controls.deadlines = dict(args.deadline)
    return CuzkTop(controls, skin(args), view=view).run() or "quit"
