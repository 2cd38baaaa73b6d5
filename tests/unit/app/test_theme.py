"""Palette facts of the design page, capability choice, and that every mode keeps the same information."""

from __future__ import annotations

import itertools
import re

import pytest

from cuzk_top import theme
from cuzk_top.theme import ROLES, SURFACES, WORDS, Theme

CHARTS = ("faults", "memory", "cpu", "power", "last proof")
FILLS = [role for role in ROLES if role not in SURFACES | WORDS | {"path"}]


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """WCAG 2 contrast ratio."""
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", ["dark", "light"])
def test_words_read_on_every_surface(style: theme.Style) -> None:
    # palette.md: ink 11.2; 14.1. text 7.4; 8.1. dim 3.8; 4.3, worst case over page, well, future, bar,
    # selections
    worst = {
        "dark": {"ink": 11.15, "text": 7.35, "dim": 3.75},
        "light": {"ink": 14.05, "text": 8.05, "dim": 4.25},
    }
    paints = Theme(style)
    for word, floor in worst[style].items():
        for surface in ("page", "well", "future", "bar", "row selection", "time selection"):
            paint = paints.paint(word, surface)
            assert paint.fg and paint.bg and contrast(paint.fg, paint.bg) >= floor, (word, surface)


@pytest.mark.parametrize("style", ["dark", "light"])
def test_labels_read_on_fills_and_fills_stand_out(style: theme.Style) -> None:
    for role in FILLS:
        label = Theme(style).paint("label", role)
        assert label.fg and label.bg
        # palette.md: labels on fills at least 4.9 (dark), 4.7 (light); charts and the ghost carry no labels
        if role not in CHARTS:
            assert contrast(label.fg, label.bg) >= (4.85 if style == "dark" else 4.65), role
        well = Theme(style).paint("text", "well").bg
        assert well and contrast(label.bg, well) >= 2.95, role


@pytest.mark.parametrize(
    ("env", "depth", "ascii_only"),
    [
        ({"COLORTERM": "truecolor", "TERM": "xterm-256color", "LANG": "en_US.UTF-8"}, "true", False),
        ({"TERM": "screen-256color", "LANG": "C.UTF-8"}, "256", False),
        ({"TERM": "xterm", "LANG": "en_US.utf8"}, "16", False),
        ({"TERM": "linux", "LANG": "en_US.utf8"}, "16", True),
        ({"TERM": "vt220", "LANG": "en_US.utf8"}, "mono", True),
        ({"TERM": "xterm-kitty", "LANG": "en_US.UTF-8"}, "true", False),
        ({"TERM": "xterm-256color", "NO_COLOR": "1", "LANG": "en_US.UTF-8"}, "mono", False),
        ({"TERM": "xterm-256color", "NO_COLOR": "", "LANG": "en_US.UTF-8"}, "256", False),
        ({"TERM": "dumb", "LANG": "en_US.UTF-8"}, "mono", False),
        ({"COLORTERM": "24bit", "LANG": "en_US.UTF-8", "LC_ALL": "C"}, "true", True),
        ({"COLORTERM": "24bit"}, "true", False),
        ({"COLORTERM": "24bit", "TMUX": "/tmp/tmux-0/default,1,0"}, "true", True),
        ({"COLORTERM": "24bit", "LANG": "C", "TMUX": ""}, "true", True),
    ],
)
def test_capability_is_chosen_from_the_environment(env: dict[str, str], depth: str, ascii_only: bool) -> None:
    chosen = theme.choose(None, False, env)
    assert (chosen.depth, chosen.ascii) == (depth, ascii_only)


def test_user_wishes_win() -> None:
    env = {"COLORTERM": "truecolor", "LANG": "en_US.UTF-8"}
    assert theme.choose("light", False, env).style == "light"
    assert theme.choose("mono", False, env).depth == "mono"
    assert theme.choose("dark", True, env).ascii


def test_mono_has_no_colour_anywhere() -> None:
    for fg, bg in itertools.product([*ROLES, "label"], ROLES):
        paint = Theme("mono", "mono").paint(fg, bg, True)
        assert paint.fg is None and paint.bg is None


def test_sixteen_colours_use_ansi_names_and_never_dim_text() -> None:
    for fg, bg in itertools.product(ROLES, ROLES):
        paint = Theme("dark", "16").paint(fg, bg)
        assert not paint.dim
        for colour in (paint.fg, paint.bg):
            assert colour is None or re.fullmatch(
                r"(bright_)?(black|red|green|yellow|blue|magenta|cyan|white)|default", colour
            )


def test_two_hundred_fifty_six_colours_are_indices() -> None:
    for style, role in itertools.product(("dark", "light"), ROLES):
        paint = Theme(style, "256").paint("text", role)
        assert paint.bg and re.fullmatch(r"color\(\d{1,3}\)", paint.bg)


def test_kinds_that_share_a_lane_differ_without_colour() -> None:
    for mode in (Theme("mono", "mono"), Theme("mono", "mono", ascii=True)):
        for one, other in (("witness", "eval"), ("h pinned", "p pageable"), ("ntt", "msm"), ("held", "busy")):
            assert mode.pattern(one) != mode.pattern(other)
        assert all(
            mode.pattern(role) != " "
            for role in FILLS
            if role not in ("cost", "faults", "memory", "cpu", "power")
        )


def test_ascii_patterns_and_glyphs_are_ascii() -> None:
    mode = Theme("mono", "mono", ascii=True)
    glyphs = mode.glyphs
    text = (
        glyphs.eighths
        + glyphs.charts
        + glyphs.now
        + glyphs.rule
        + glyphs.vertical
        + glyphs.select_fill
        + glyphs.micro
    )
    assert (text + "".join(mode.pattern(role) for role in ROLES)).isascii()
