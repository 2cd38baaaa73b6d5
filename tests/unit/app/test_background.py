"""Dark or light, by what the environment and the terminal say."""

from __future__ import annotations

import pytest

from cuzk_top import background, theme


@pytest.mark.parametrize(
    ("colour", "wanted"),
    [
        ("rgb:ffff/ffff/ffff", "light"),
        ("rgb:0000/0000/0000", "dark"),
        ("rgb:fdfd/f6f6/e3e3", "light"),  # Solarized, light
        ("rgb:0000/2b2b/3636", "dark"),  # Solarized, dark
        ("rgb:ff/ff/ff", "light"),  # X11 allows one to four digits a colour
        ("rgb:f/f/e", "light"),
        ("rgba:1e1e/1e1e/2e2e/ffff", "dark"),
        ("#ffffff", "light"),
        ("#1a1b26", "dark"),
        ("#fff", "light"),
        ("rgb:0000/0000/ffff", "dark"),  # blue weighs 0.114
        ("rgb:0000/ffff/0000", "light"),  # green weighs 0.587
        ("?", None),
        ("", None),
        ("rgb:ffff/ffff", None),
        ("rgb:fffff/0/0", None),
        ("#ffff", None),
        ("white", None),
    ],
)
def test_answers(colour: str, wanted: str | None) -> None:
    assert background.told(colour) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("15;0", "dark"),
        ("0;15", "light"),
        ("0;7", "light"),
        ("0;default;15", "light"),
        ("15;8", "dark"),
        ("0;default", None),
        ("", None),
        ("0;231", None),
    ],
)
def test_colorfgbg(text: str, wanted: str | None) -> None:
    assert background.of_environment({"COLORFGBG": text}) == wanted


@pytest.mark.parametrize(
    ("style", "colorfgbg", "wanted"),
    [
        (None, "0;15", "light"),
        (None, "15;0", "dark"),
        (None, "", "dark"),
        ("dark", "0;15", "dark"),
        ("light", "15;0", "light"),
    ],
)
def test_a_wish_comes_first(style: str | None, colorfgbg: str, wanted: str) -> None:
    env = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "COLORFGBG": colorfgbg}
    assert theme.choose(style, False, env).style == wanted


@pytest.mark.parametrize(
    ("term", "asked"),
    [
        ("xterm-256color", True),
        ("tmux-256color", True),
        ("screen", True),
        ("xterm-kitty", True),
        ("dumb", False),
        ("linux", False),
        ("vt100", False),
        ("", False),
    ],
)
def test_who_is_asked(term: str, asked: bool) -> None:
    assert background.asks({"TERM": term}) == asked
