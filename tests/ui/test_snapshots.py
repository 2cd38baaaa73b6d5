"""The screen as pictures. Look at a changed SVG beside design/screen-*.png before accepting it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import example
import pytest
import sessions
from textual.pilot import Pilot

from cuzk_top.app import CuzkTop, StartApp
from cuzk_top.screens.start import Running, Trace
from cuzk_top.theme import Theme

MONO = Theme("mono", "mono")
ASCII = Theme("mono", "mono", ascii=True)
LOOKS = {"dark": Theme(), "mono": MONO, "ascii": ASCII}
SIZES = ((200, 50), (120, 36), (100, 30), (60, 16))
Compare = Callable[..., Any]


def with_keys(*keys: str) -> Callable[[Pilot[str]], Awaitable[None]]:
    """Wait for the analysis, press keys, and wait again."""

    async def run(pilot: Pilot[str]) -> None:
        await sessions.settled(pilot)
        await pilot.press(*keys)
        await sessions.settled(pilot)

    return run


def drawn(theme: Theme | None = None, devices: int = 1, held: bool = False) -> CuzkTop:
    """The example of the design, live."""
    return sessions.app_of(example.controls(devices, held), theme, insight=example.insight(devices))


everywhere = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
every_look = pytest.mark.parametrize("look", LOOKS)


@every_look
@everywhere
def test_main(snap_compare: Compare, size: tuple[int, int], look: str) -> None:
    assert snap_compare(drawn(LOOKS[look]), terminal_size=size, run_before=with_keys())


@pytest.mark.parametrize(
    "theme", [Theme("light"), Theme("dark", "256"), Theme("dark", "16")], ids=["light", "256", "16"]
)
def test_main_in_every_palette(snap_compare: Compare, theme: Theme) -> None:
    """With a gap selected, so that the selection's colours are there too."""
    assert snap_compare(drawn(theme), terminal_size=(120, 36), run_before=with_keys("n", "n"))


PANES = {"stages": ("2",), "jobs": ("3",), "gap": ("n", "4"), "log": ("6",), "explain": ("i",)}


@every_look
@everywhere
@pytest.mark.parametrize("pane", PANES)
def test_panes(snap_compare: Compare, pane: str, size: tuple[int, int], look: str) -> None:
    keys = with_keys(*PANES[pane])
    assert snap_compare(drawn(LOOKS[look]), terminal_size=size, run_before=keys)


def test_two_gpus(snap_compare: Compare) -> None:
    assert snap_compare(drawn(devices=2), terminal_size=(120, 36), run_before=with_keys())


@every_look
def test_who_holds_the_gpu(snap_compare: Compare, look: str) -> None:
    """The partitions' numbers in the lane of claims."""
    app = drawn(LOOKS[look], held=True)
    assert snap_compare(app, terminal_size=(120, 36), run_before=with_keys())


def test_a_finding_from_near(snap_compare: Compare) -> None:
    assert snap_compare(drawn(), terminal_size=(120, 36), run_before=with_keys("n", "enter", "t", "t"))


def test_search(snap_compare: Compare) -> None:
    keys = with_keys("slash", *"multiexp", "enter")
    assert snap_compare(drawn(), terminal_size=(120, 36), run_before=keys)


def test_cpu_live(snap_compare: Compare) -> None:
    app = sessions.app_of(sessions.live_controls())
    assert snap_compare(app, terminal_size=(120, 36), run_before=with_keys("j", "j", "j", "full_stop"))


def test_replay_paused(snap_compare: Compare) -> None:
    app = sessions.app_of(sessions.replay_controls())
    assert snap_compare(app, terminal_size=(100, 30), run_before=with_keys())


def test_inspector(snap_compare: Compare) -> None:
    app = sessions.app_of(sessions.live_controls())
    keys = with_keys(*["j"] * 6, "full_stop", "full_stop", "full_stop", "enter")
    assert snap_compare(app, terminal_size=(120, 36), run_before=keys)


def test_zoomed_and_unfolded(snap_compare: Compare) -> None:
    app = sessions.app_of(sessions.live_controls())
    keys = with_keys(*["j"] * 6, "full_stop", "f", "o", "m")
    assert snap_compare(app, terminal_size=(120, 36), run_before=keys)


def test_lost_records_are_marked(snap_compare: Compare) -> None:
    app = sessions.app_of(sessions.live_controls(lost=1_204))
    assert snap_compare(app, terminal_size=(100, 30), run_before=with_keys())


@every_look
@everywhere
def test_help(snap_compare: Compare, size: tuple[int, int], look: str) -> None:
    assert snap_compare(drawn(LOOKS[look]), terminal_size=size, run_before=with_keys("question_mark"))


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


@every_look
@everywhere
def test_start_screen(snap_compare: Compare, size: tuple[int, int], look: str) -> None:
    assert snap_compare(StartApp(Places(), LOOKS[look]), terminal_size=size, press=["j"])
