"""The screen as pictures. Look at a changed SVG beside design/screen-*.png before accepting it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sessions

from cuzk_top.app import StartApp
from cuzk_top.screens.start import Running, Trace
from cuzk_top.theme import Theme

MONO = Theme("mono", "mono")
Compare = Callable[..., Any]


@pytest.mark.parametrize("size", [(200, 50), (120, 36), (100, 30), (60, 16)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_live_dark(snap_compare: Compare, size: tuple[int, int]) -> None:
    assert snap_compare(sessions.app_of(sessions.live_controls()), terminal_size=size)


@pytest.mark.parametrize(
    "theme",
    [Theme("light"), Theme("dark", "256"), Theme("dark", "16"), MONO, Theme("mono", "mono", ascii=True)],
    ids=["light", "256", "16", "mono", "ascii"],
)
def test_live_in_every_palette(snap_compare: Compare, theme: Theme) -> None:
    app = sessions.app_of(sessions.live_controls(), theme)
    assert snap_compare(app, terminal_size=(120, 36), press=["j", "j", "j", "full_stop"])


def test_compact_mono(snap_compare: Compare) -> None:
    assert snap_compare(sessions.app_of(sessions.live_controls(), MONO), terminal_size=(60, 16))


def test_replay_paused(snap_compare: Compare) -> None:
    assert snap_compare(sessions.app_of(sessions.replay_controls()), terminal_size=(100, 30))


def test_inspector(snap_compare: Compare) -> None:
    app = sessions.app_of(sessions.live_controls())
    keys = ["j"] * 6 + ["full_stop", "full_stop", "full_stop", "enter"]
    assert snap_compare(app, terminal_size=(120, 36), press=keys)


def test_zoomed_and_unfolded(snap_compare: Compare) -> None:
    app = sessions.app_of(sessions.live_controls())
    assert snap_compare(app, terminal_size=(120, 36), press=["j"] * 6 + ["full_stop", "f", "o", "m"])


def test_lost_records_are_marked(snap_compare: Compare) -> None:
    assert snap_compare(sessions.app_of(sessions.live_controls(lost=1_204)), terminal_size=(100, 30))


def test_help(snap_compare: Compare) -> None:
    app = sessions.app_of(sessions.live_controls())
    assert snap_compare(app, terminal_size=(100, 30), press=["question_mark"])


def test_too_small(snap_compare: Compare) -> None:
    assert snap_compare(sessions.app_of(sessions.live_controls()), terminal_size=(59, 15))


class Places:
    """Two provers and a trace."""

    def running(self) -> list[Running]:
        second = 1_000_000_000
        return [
            Running(41207, "chain-2^16", 39 * second, 18_204.0),
            Running(977, "cuzk-daemon", 7_300 * second, None),
        ]

    def traces(self) -> list[Trace]:
        return [Trace("~/.local/state/cuzk-top/demo.cuzk", 3_000_000_000_000, 1_843_200)]


def test_start_screen(snap_compare: Compare) -> None:
    assert snap_compare(StartApp(Places(), Theme()), terminal_size=(100, 30), press=["j"])
