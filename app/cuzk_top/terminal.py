"""Whether there is a terminal to draw on, the screen's start on it, and its end."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from cuzk_top import environment, heap, theme
from cuzk_top.errors import EndedError

if TYPE_CHECKING:
    from types import FrameType

    from cuzk_top.app import OnTerminal
    from cuzk_top.facts import SessionControls
    from cuzk_top.viewport import ViewState

Result = TypeVar("Result")


def interactive() -> bool:
    """True when keys can be read and a picture shown. Textual draws to standard error and does not ask."""
    if os.environ.get("TERM", "dumb") == "dumb":
        return False
    return sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()


def open_streams() -> None:
    """Open those of the three standard streams that were closed at the start (``2>&-``), on nothing.

    Else the next file that is opened, a recording perhaps, would take what we and our programs write there.
    """
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            _to_nowhere(descriptor)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8", closefd=False))


def say(line: str) -> None:
    """A line on standard output. Where nobody takes it (head has ended, say) the work goes on without."""
    try:
        print(line, flush=True)
    except OSError:
        close_output()


def close_output() -> None:
    """Have what is still to come on standard output, and what stands in its buffer, go nowhere."""
    _to_nowhere(1)


def skin(args: argparse.Namespace) -> theme.Theme:
    """Colours and glyphs by the command's options and the environment."""
    return theme.choose(None if args.theme == "auto" else args.theme, args.ascii, environment.as_given())


def load() -> None:
    """Load the screen's libraries, as `show` does at the latest."""
    from cuzk_top import app  # noqa: F401, PLC0415 - only where there is a screen


def show(
    controls: SessionControls,
    args: argparse.Namespace,
    view: ViewState | None = None,
    hand_on: Callable[[int], object] | None = None,
) -> str:
    """Open the session screen, at `view` if there is one, until it is left; "quit" or "stop".

    For signals and `hand_on` see `until_left`.
    """
    from cuzk_top.app import CuzkTop  # noqa: PLC0415 - the screen's libraries load only where there is a screen

    heap.give_back()
    controls.deadlines = dict(args.deadline)
    app = CuzkTop(controls, skin(args), view=view, adapts=args.theme == "auto")
    return until_left(app, hand_on) or "quit"


def until_left(app: OnTerminal[Result], hand_on: Callable[[int], object] | None = None) -> Result | None:
    """Run an application. A terminal that goes away leaves it as its user would.

    SIGTERM and SIGHUP leave it too, so that the terminal is always given back; with `hand_on` they are then
    somebody else's, else SIGTERM raises EndedError afterwards.
    """
    came: list[int] = []

    def leave(number: int, _: FrameType | None) -> None:
        came.append(number)
        if hand_on is not None:
            hand_on(number)
        app.leave()

    # What was ignored when we came (nohup) stays so.
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, leave) for number in numbers}
    try:
        left = app.run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _do_without()
    if signal.SIGTERM in came and hand_on is None:
        raise EndedError(signal.SIGTERM)
    return left


def _do_without() -> None:
    """Where the terminal is gone, what is said from now on goes nowhere, and is no error."""
    if all(os.isatty(descriptor) for descriptor in range(3)):
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # may come later than the news
    _to_nowhere(0, 1, 2)


def _to_nowhere(*descriptors: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    if nowhere not in descriptors:
        os.close(nowhere)
