"""The application on the terminal it was started on, telling on demand what Textual thinks it shows.

``python watched.py SCENE REQUESTS ANSWERS``: two descriptors. A request is a line: ``show N`` (Textual's own
picture, as JSON, and the mark N behind everything that was written to the terminal until then), ``note S``
(a notification for so many seconds), ``later`` (the session goes on).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import replace

import example
import sessions
from rich.color import ColorSystem, ColorType
from rich.style import Style
from sessions import BASE_NS, MS, FakeControls

from cuzk_top.app import COLOR_SYSTEMS, CuzkTop
from cuzk_top.controls import Playback
from cuzk_top.screens.analysis import Insight
from cuzk_top.theme import Theme

THEMES = {
    "live": Theme(),
    "256": Theme("dark", "256"),
    "16": Theme("light", "16"),
    "mono": Theme("mono", "mono"),
    "ascii": Theme("mono", "mono", ascii=True),
    "replay": Theme("light"),
}


def scene(name: str) -> tuple[FakeControls, Insight]:
    """A session, and what is concluded from it."""
    if name == "replay":
        ended = replace(example.snapshot(2), ended=True)
        return FakeControls(ended, "replay", Playback(False, 1.0, at_end=True)), example.insight(2)
    return example.controls(), example.insight()


def colour(style: Style, foreground: bool, depth: ColorSystem) -> str:
    """As in `vt.Look`, as far as the depth of the terminal's colours goes."""
    found = style.color if foreground else style.bgcolor
    if found is None or found.type is ColorType.DEFAULT:
        return ""
    found = found.downgrade(depth)
    if found.triplet is not None:
        return ",".join(map(str, found.triplet))
    return str(found.number)


def picture(app: CuzkTop) -> list[list[object]]:
    """A line of the screen -> runs of text, foreground, background, bold, dim, reverse, other attributes."""
    lines: list[list[object]] = []
    depth = COLOR_SYSTEMS.get(app.skin.depth, ColorSystem.TRUECOLOR)
    for strip in app.screen._compositor.render_strips(app.size):
        runs: list[object] = []
        for text, style, control in strip:
            assert not control
            look = style or Style.null()
            marks = (
                (3, look.italic),
                (4, look.underline),
                (5, look.blink),
                (8, look.conceal),
                (9, look.strike),
            )
            other = [code for code, on in marks if on]
            weights = (bool(look.bold), bool(look.dim), bool(look.reverse))
            runs.append([text, colour(look, True, depth), colour(look, False, depth), *weights, other])
        lines.append(runs)
    return lines


class Watched:
    """Answers requests while the application runs."""

    def __init__(self, app: CuzkTop, controls: FakeControls, requests: int, answers: int) -> None:
        self.app, self.controls = app, controls
        self._requests, self._answers = requests, answers
        self._rest = b""

    def begin(self) -> None:
        asyncio.get_running_loop().add_reader(self._requests, self._take)

    def _take(self) -> None:
        data = os.read(self._requests, 4096)
        if not data:
            asyncio.get_running_loop().remove_reader(self._requests)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._do(line.decode())

    def _do(self, request: str) -> None:
        if request.startswith("show "):
            shown = picture(self.app)
            driver = self.app._driver
            assert driver is not None
            driver.write(f"\x1b]777;{request[5:]}\x07")
            os.write(self._answers, json.dumps(shown).encode() + b"\n")
        elif request.startswith("note "):
            self.app.notify("a notification", timeout=float(request[5:]))
        elif request == "later":
            snap = self.controls.snap
            now = snap.now_ns + 300 * MS
            if self.controls.mode == "replay":
                now = BASE_NS + (snap.now_ns - BASE_NS + 4_000 * MS) % (example.NOW_MS * MS)
            self.controls.snap = replace(snap, now_ns=now, revision=snap.revision + 1)
        else:
            raise ValueError(request)


def main() -> None:
    name, requests, answers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.set_blocking(answers, True)
    controls, insight = scene(name)
    app = sessions.app_of(controls, THEMES[name], insight=insight)
    watched = Watched(app, controls, requests, answers)
    app.call_later(watched.begin)
    app.run()


if __name__ == "__main__":
    main()
