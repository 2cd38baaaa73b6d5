"""What stands on a terminal is what Textual thinks it shows, whoever wrote it there.

Frames are written past Textual's compositor. Here the application runs on a pseudo-terminal; what came out of
it is compared, cell by cell with colours, with what the compositor would draw.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pseudo import PATIENCE_S, OnTerminal
from vt import BLANK, Cell, Look, Terminal

from cuzk_top import actions

HERE = Path(__file__).parent
LEFT_OUT = {"quit", "stop", "suspend", "screenshot", "export"}
"""They end the application, stop it, or write files."""
BYTES = {
    "plus": "+", "minus": "-", "colon": ":", "full_stop": ".", "comma": ",", "slash": "/",
    "question_mark": "?",
    "left_square_bracket": "[", "right_square_bracket": "]", "less_than_sign": "<", "greater_than_sign": ">",
    "space": " ", "enter": "\r", "tab": "\t", "escape": "\x1b", "ctrl+p": "\x10", "home": "\x1b[H",
    "end": "\x1b[F", "left": "\x1b[D", "right": "\x1b[C", "up": "\x1b[A", "down": "\x1b[B",
    "pagedown": "\x1b[6~", "pageup": "\x1b[5~",
}  # fmt: skip
"""What a terminal sends for a key."""
SIZES = ((120, 36), (60, 16), (100, 30), (59, 16), (160, 45), (20, 5), (80, 24))
ESCAPE_S = 0.15
"""A terminal program waits so long until an Esc is a key and not the begin of a sequence."""


class Watching(OnTerminal):
    """The application of `watched.py`."""

    def __init__(self, scene: str, size: tuple[int, int], folder: Path, answering: bool = True) -> None:
        requests, self._ask = os.pipe()
        self._told, answers = os.pipe()
        command = [sys.executable, str(HERE / "watched.py"), scene, str(requests), str(answers)]
        env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        env.update(XDG_STATE_HOME=str(folder), HOME=str(folder))
        for name in ("NO_COLOR", "LC_ALL", "LC_CTYPE", "TMUX"):
            env.pop(name, None)
        super().__init__(command, size, env, answering, (requests, answers))
        os.close(requests)
        os.close(answers)
        self._asked = 0

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        os.close(self._ask)
        os.close(self._told)

    def ask(self, request: str) -> None:
        os.write(self._ask, f"{request}\n".encode())

    def pictures(self) -> tuple[list[list[Cell]], list[list[Cell]]]:
        """The same moment twice: what stands on the terminal, and what Textual thinks."""
        self._asked += 1
        mark = f"777;{self._asked}"
        self.ask(f"show {self._asked}")
        self.read_until(lambda: mark in self.terminal.titles, f"the answer to {mark}")
        told = b""
        while not told.endswith(b"\n"):
            told += os.read(self._told, 1 << 16)
        return [list(row) for row in self.terminal.rows], [cells(line) for line in json.loads(told)]

    def agrees(self, after: str) -> None:
        """What is still to be drawn may come; what then differs will stay."""
        ends = time.monotonic() + PATIENCE_S / 3
        while True:
            shown, thought = self.pictures()
            differing = difference(shown, thought)
            if not differing:
                return
            assert time.monotonic() < ends, f"after {after}: {differing}"
            self.read(0.1)


def cells(runs: list[list[object]]) -> list[Cell]:
    """A line of the compositor as cells: through a terminal, whose text takes the room it takes."""
    line: list[Cell] = []
    for text, fg, bg, bold, dim, reverse, other in runs:
        look = Look(fg, bg, bold, dim, reverse, frozenset(other))  # type: ignore[arg-type]
        width = sum(1 for _ in str(text))
        narrow = Terminal(2 * width, 1)
        narrow.feed(str(text).encode())
        line += [Cell(cell.text, look) for cell in narrow.rows[0] if cell is not BLANK]
    return line


def seen(cell: Cell) -> Cell:
    """As an eye has it: of a blank only the background is seen."""
    text, look = cell
    if text == " " and not look.reverse and not look.other & {4, 9}:
        return Cell(" ", Look(bg=look.bg))
    return Cell(text, look)


def difference(shown: list[list[Cell]], thought: list[list[Cell]]) -> str:
    """Where they differ first, and in how many lines; "" where they are the same."""
    if [len(row) for row in shown] != [len(row) for row in thought]:
        return f"{len(shown)} lines of {len(shown[0])} cells, thought {[len(row) for row in thought]}"
    lines = [
        y
        for y, (here, there) in enumerate(zip(shown, thought, strict=True))
        if [seen(cell) for cell in here] != [seen(cell) for cell in there]
    ]
    if not lines:
        return ""
    y = lines[0]
    x = next(x for x in range(len(shown[y])) if seen(shown[y][x]) != seen(thought[y][x]))
    texts = ["".join(cell.text for cell in line) for line in (shown[y], thought[y])]
    return f"lines {lines}, first at column {x}: {shown[y][x]} for {thought[y][x]}\n{texts[0]}\n{texts[1]}"


@contextmanager
def watching(
    scene: str, folder: Path, size: tuple[int, int] = (120, 36), answering: bool = True
) -> Iterator[Watching]:
    with Watching(scene, size, folder, answering) as app:
        app.shows("lost")
        yield app


def press(app: Watching, text: str) -> None:
    app.send(text.encode())
    if text.endswith("\x1b"):
        app.read(ESCAPE_S)
        time.sleep(ESCAPE_S)


def usable(mode: actions.Mode) -> list[str]:
    """Every key of the table that is not left out, as a terminal sends it."""
    return [
        BYTES.get(key, key)
        for action in actions.for_mode(mode)
        if action.id not in LEFT_OUT
        for key in action.keys
    ]


@pytest.mark.parametrize("scene", ["live", "256", "16", "mono", "ascii", "replay"])
def test_after_every_key(scene: str, tmp_path: Path) -> None:
    with watching(scene, tmp_path) as app:
        app.agrees("the first frame")
        for key in usable("replay" if scene == "replay" else "live"):
            press(app, key)
            app.agrees(f"key {key!r}")
            if key in (":", "/", "?", "i", BYTES["ctrl+p"]):
                press(app, "\x1b")
                app.agrees(f"Esc behind {key!r}")
            app.ask("later")
        app.agrees("all keys")
        assert app.raw.isascii() == (scene == "ascii")
        assert app.terminal.torn == 0


def mouse(rng: random.Random, width: int, height: int) -> str:
    """A click, a drag or a turn of the wheel (xterm, SGR coordinates)."""
    x, y, to = rng.randint(1, width), rng.randint(1, height), rng.randint(1, width)
    return rng.choice(
        (
            f"\x1b[<0;{x};{y}M\x1b[<0;{x};{y}m",
            f"\x1b[<0;{x};{y}M\x1b[<32;{(x + to) // 2};{y}M\x1b[<32;{to};{y}M\x1b[<0;{to};{y}m",
            f"\x1b[<64;{x};{y}M",
            f"\x1b[<81;{x};{y}M",
            f"\x1b[<35;{x};{y}M",
        )
    )


@pytest.mark.parametrize(("scene", "answering"), [("live", True), ("replay", False)])
def test_whatever_is_done(scene: str, answering: bool, tmp_path: Path) -> None:
    """Keys, mouse, sizes, prompts, help, palette, notifications and time, in an order of chance."""
    rng = random.Random(20261201)
    keys = usable("replay" if scene == "replay" else "live")
    with watching(scene, tmp_path, answering=answering) as app:
        done: list[str] = []
        for _ in range(120):
            what = rng.randrange(20)
            if what == 0:
                size = rng.choice(SIZES)
                app.resize(*size)
                done.append(f"size {size}")
            elif what == 1:
                press(app, BYTES["ctrl+p"])
                done.append("palette")
                app.agrees(f"{done[-8:]}")
                press(app, rng.choice(("zoom\r", "\x1b", "lane\x1b", "\x1b[B\r")))
            elif what == 2:
                app.ask("note 0.5")
                done.append("note")
            elif what < 6:
                app.ask("later")
                done.append("later")
            elif what < 9:
                event = mouse(rng, app.terminal.width, app.terminal.height)
                press(app, event)
                done.append(f"mouse {event!r}")
            else:
                key = rng.choice(keys)
                press(app, key)
                done.append(f"key {key!r}")
                if key in (":", "/"):
                    press(app, rng.choice(("1\r", "eval\r", "zz\r", "\x1b")))
            if rng.random() < 0.4:
                app.agrees(f"{done[-8:]}")
            if rng.random() < 0.1:
                press(app, "\x1b")
        app.agrees(f"{done[-8:]}")
        assert app.terminal.torn == 0


def test_under_a_notification(tmp_path: Path) -> None:
    with watching("live", tmp_path) as app:
        app.ask("note 60")
        app.shows("a notification")
        for key in ("2", "z", "w", "d", "4", "0"):
            press(app, key)
            app.ask("later")
            app.agrees(f"{key!r} under a notification")
            app.shows("a notification")


def test_continued_without_having_been_suspended(tmp_path: Path) -> None:
    with watching("replay", tmp_path) as app:
        for _ in range(3):
            app.kill(signal.SIGCONT)
            app.kill(signal.SIGSTOP)
            app.kill(signal.SIGCONT)
            press(app, "w")
            app.agrees("SIGCONT")
        assert app.raw.count(b"\x1b[?1049h") == 1
        attributes = termios.tcgetattr(app.master)
        attributes[tty.LFLAG] |= termios.ICANON  # as a shell has it
        app.kill(signal.SIGSTOP)
        termios.tcsetattr(app.master, termios.TCSANOW, attributes)
        app.kill(signal.SIGCONT)
        app.read_until(lambda: app.raw.count(b"\x1b[?1049h") == 2, "the screen again")
        press(app, "s")
        app.agrees("a shell was there")
        assert not termios.tcgetattr(app.master)[tty.LFLAG] & termios.ICANON
        press(app, "q")
        assert app.ends() == 0


def test_suspended_and_resumed(tmp_path: Path) -> None:
    with watching("live", tmp_path) as app:
        for size in ((120, 36), (100, 30)):
            press(app, "\x1a")
            app.read_until(lambda: os.waitpid(app.pid, os.WNOHANG | os.WUNTRACED)[0] != 0, "stopped")
            while app.read(0.1):
                pass
            assert 1049 not in app.terminal.modes, "the shell's own screen"
            assert not app.terminal.modes & {1000, 1003, 1006, 2004, 1004}
            app.resize(*size)
            app.kill(signal.SIGCONT)
            app.shows("lost")
            app.agrees(f"fg at {size}")
            press(app, "2w")
            app.ask("later")
            app.agrees("keys after fg")
