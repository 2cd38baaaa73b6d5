"""A light terminal gets the light palette by itself, and its answer is no key."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from pseudo import OnTerminal

from cuzk_top.theme import ROLES

GOLDEN = Path(__file__).parents[1] / "data" / "gpu" / "golden" / "dense-20.cuzk"
WHITE, BLACK = "rgb:ffff/ffff/ffff", "rgb:0000/0000/0000"


def rgb(colour: str) -> str:
    """``#rrggbb`` as in `vt.Look`."""
    return ",".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))


DARK, LIGHT = rgb(ROLES["bar"].dark), rgb(ROLES["bar"].light)


def opened(folder: Path, background: str, *options: str, **changes: str) -> OnTerminal:
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    for name in ("NO_COLOR", "COLORFGBG", "LC_ALL", "LC_CTYPE"):
        env.pop(name, None)
    env.update(XDG_STATE_HOME=str(folder), XDG_CACHE_HOME=str(folder), **changes)
    screen = OnTerminal([sys.executable, "-m", "cuzk_top.cli", "replay", str(GOLDEN), *options], env=env)
    screen.terminal.background = background
    return screen


def bar(screen: OnTerminal) -> str:
    """The background of the header, whose last cell is blank."""
    return screen.terminal.rows[0][-1].look.bg


@pytest.mark.parametrize(
    ("background", "options", "changes", "wanted"),
    [
        (WHITE, (), {}, LIGHT),
        (BLACK, (), {}, DARK),
        ("", (), {}, DARK),
        (WHITE, ("--theme", "dark"), {}, DARK),
        (BLACK, ("--theme", "light"), {}, LIGHT),
        (BLACK, (), {"COLORFGBG": "0;15"}, DARK),  # what the terminal says itself is newer
        ("", (), {"COLORFGBG": "0;15"}, LIGHT),
        (WHITE, (), {"TERM": "linux"}, DARK),  # is not asked
    ],
)
def test_the_palette_that_fits(
    background: str, options: tuple[str, ...], changes: dict[str, str], wanted: str, tmp_path: Path
) -> None:
    with opened(tmp_path, background, *options, **changes) as screen:
        screen.shows("lost 0", "q quit")
        screen.read_until(lambda: bar(screen) == wanted, f"a bar of {wanted}, not {bar(screen)}")
        assert screen.terminal.texts[-1].strip().endswith("q quit"), "no prompt: the answer was no key"
        screen.send(b"q")
        assert screen.ends() == 0


def test_a_late_answer_changes_the_palette_and_keeps_the_view(tmp_path: Path) -> None:
    with opened(tmp_path, "") as screen:
        screen.shows("lost 0", "1 idle.host")
        screen.send(b"2")
        screen.shows("majflt  ", "p95")
        screen.send(b"\x1b]11;" + WHITE.encode())
        time.sleep(0.02)
        screen.send(b"\x07")
        screen.read_until(lambda: bar(screen) == LIGHT, "the light palette")
        screen.shows("majflt  ", "p95")
        screen.send(b"q")
        assert screen.ends() == 0
