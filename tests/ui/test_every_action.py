"""Every action of the table by its first key: what it changes, asserted one by one on the drawn example."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import example
import pytest
import sessions
from sessions import BASE_NS, MS, FakeControls
from textual.command import CommandList, CommandPalette
from textual.pilot import Pilot

from cuzk_top import actions, trace, view_file
from cuzk_top.app import CuzkTop
from cuzk_top.controls import Playback
from cuzk_top.screens.help import TextScreen
from cuzk_top.screens.session import SessionScreen
from cuzk_top.viewport import ViewState

Exercise = Callable[["Desk"], Awaitable[None]]
EXERCISES: dict[str, Exercise] = {}


class Desk:
    """A running application with the example, put back to its start before each exercise."""

    def __init__(self, pilot: Pilot[str], screen: SessionScreen, controls: FakeControls) -> None:
        self.pilot = pilot
        self.screen = screen
        self.controls = controls
        self.start = screen.view
        self.key = ""

    async def press(self, *keys: str) -> ViewState:
        await self.pilot.press(*(keys or (self.key,)))
        return self.screen.view

    @property
    def view(self) -> ViewState:
        return self.screen.view

    @property
    def text(self) -> str:
        screen = self.screen
        parts = (screen.header, screen.timeline, screen.panel, screen.keys)
        return "\n".join(text for part in parts for text in part.texts)

    @property
    def middle(self) -> float:
        """Of the window, in ms."""
        return ((self.view.t0_ns + self.view.t1_ns) / 2 - BASE_NS) / MS

    async def said(self, words: str) -> None:
        """Wait for what a thread has to say."""
        for _ in range(200):
            await self.pilot.pause()
            if words in self.text:
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"never said {words!r}:\n{self.text}")

    def again(self, key: str) -> None:
        self.key = key
        self.screen.view = self.start
        self.screen.undo = []
        self.screen.panel.top = 0
        self.controls.asked.clear()
        self.screen.tick(True)


def exercise(action: str) -> Callable[[Exercise], Exercise]:
    def keep(function: Exercise) -> Exercise:
        assert action not in EXERCISES
        EXERCISES[action] = function
        return function

    return keep


WIDTH_MS = 44_000
SIZE = (120, 40)


@exercise("zoom_in")
async def _(desk: Desk) -> None:
    view = await desk.press()
    assert view.window.width_ns == pytest.approx(WIDTH_MS * MS * 0.7, rel=1e-6)


@exercise("zoom_out")
async def _(desk: Desk) -> None:
    view = await desk.press()
    assert view.window.width_ns == pytest.approx(WIDTH_MS * MS / 0.7, rel=1e-6)


@exercise("pan_left")
async def _(desk: Desk) -> None:
    before = desk.middle
    await desk.press()
    assert desk.middle == pytest.approx(before - 0.2 * WIDTH_MS)


@exercise("pan_right")
async def _(desk: Desk) -> None:
    before = desk.middle
    await desk.press()
    assert desk.middle == pytest.approx(before + 0.2 * WIDTH_MS)


@exercise("fit_all")
async def _(desk: Desk) -> None:
    await desk.press("w", "w")
    view = await desk.press()
    assert view.mode == "all" and view.t0_ns == BASE_NS and view.t1_ns >= BASE_NS + 39_500 * MS


@exercise("fit_selection")
async def _(desk: Desk) -> None:
    await desk.press()
    assert "nothing is selected" in desk.text
    view = await desk.press("n", desk.key)
    assert view.t0_ns <= BASE_NS + 36_500 * MS and view.window.width_ns < 1.5 * 2_100 * MS


@exercise("go_start")
async def _(desk: Desk) -> None:
    view = await desk.press("n", "enter", desk.key)
    assert view.t0_ns == BASE_NS and view.mode == "hold"


@exercise("go_end")
async def _(desk: Desk) -> None:
    view = await desk.press("space", desk.key)
    assert view.mode == "page" and not view.paused


@exercise("go_to")
async def _(desk: Desk) -> None:
    await desk.press(desk.key, *"0:21.5", "enter")
    assert desk.middle == pytest.approx(21_500)


@exercise("toggle_scroll")
async def _(desk: Desk) -> None:
    assert (await desk.press()).mode == "follow"
    assert (await desk.press()).mode == "page"


@exercise("undo")
async def _(desk: Desk) -> None:
    await desk.press("n", "enter", "colon", *"3", "enter", "x", "m")
    assert desk.view != desk.start
    for _ in range(5):
        await desk.press()
    assert desk.view == desk.start
    await desk.press()
    assert "nothing to take back" in desk.text


@exercise("clock")
async def _(desk: Desk) -> None:
    await desk.press()
    assert (
        "monotonic" in desk.text and "1010" in desk.screen.timeline.texts[1]
    )  # boot to 10 s after the start
    await desk.press()
    assert "13:59:10" in desk.screen.timeline.texts[1] and " UTC " in desk.text
    assert (await desk.press()).clock == "session"


@exercise("lane_down")
async def _(desk: Desk) -> None:
    view = await desk.press()
    assert view.cursor == "path" and view.focus == "lanes"
    assert (await desk.press()).cursor == "partitions"


@exercise("lane_up")
async def _(desk: Desk) -> None:
    assert (await desk.press()).cursor == "stalls"


@exercise("next_span")
async def _(desk: Desk) -> None:
    await desk.press(*["j"] * 4, desk.key)
    assert desk.view.cursor == "synthesis" and desk.view.selection == (BASE_NS, BASE_NS + 7_000 * MS)
    await desk.press("k", *["j"] * 20, desk.key)
    assert desk.view.cursor == "stalls" and desk.view.selection == (
        BASE_NS + 10_500 * MS,
        BASE_NS + 11_000 * MS,
    )


@exercise("previous_span")
async def _(desk: Desk) -> None:
    await desk.press(*["j"] * 4, "full_stop", "full_stop", desk.key)
    assert desk.view.selection == (BASE_NS, BASE_NS + 7_000 * MS)


@exercise("inspect")
async def _(desk: Desk) -> None:
    view = await desk.press()  # in the stalls pane: go to the finding
    assert view.finding == ("idle.host", "abc.eval p8") and view.window.width_ns < 5_000 * MS
    await desk.press("j", "j", "j", "j", desk.key)  # in the lanes: the span
    assert desk.view.tab == "inspector" and "synthesis.abc.eval" in desk.text


@exercise("edge_start")
async def _(desk: Desk) -> None:
    view = await desk.press(*["j"] * 4, desk.key)
    assert view.selection is not None and view.selection[0] == BASE_NS + 21_500 * MS
    assert "synth 0 busy 100%" in desk.text


async def test_an_edge_where_there_is_none_is_said() -> None:
    app = sessions.app_of(example.controls(), insight=example.insight())
    async with app.run_test(size=SIZE) as pilot:
        screen = await sessions.settled(pilot)
        before = screen.view.selection
        await pilot.press("j", "left_square_bracket")  # the critical path has no spans of its own
        assert screen.view.selection == before
        assert "no further span edge in this lane" in screen.header.texts[0]
        await pilot.press("w")
        assert "no further" not in screen.header.texts[0], "it was about the view before"


@exercise("edge_end")
async def _(desk: Desk) -> None:
    view = await desk.press(*["j"] * 4, desk.key)
    assert view.selection is not None and view.selection[1] == BASE_NS + 30_500 * MS


@exercise("clear")
async def _(desk: Desk) -> None:
    view = await desk.press("n", "slash", *"eval", "enter", desk.key)
    assert view.selection is None and view.selected is None and not view.search


@exercise("search")
async def _(desk: Desk) -> None:
    view = await desk.press(desk.key, *"multiexp", "enter")
    assert view.search == "multiexp" and "match 1 of 9: G1_multiexp" in desk.text


@exercise("next_hit")
async def _(desk: Desk) -> None:
    assert (await desk.press()).finding == ("idle.host", "abc.eval p8")
    assert "finding 1 of 5: idle.host" in desk.text
    assert (await desk.press()).finding == ("copy.exposed", "h2d")
    await desk.press("slash", *"radix", "enter")
    assert "match 1 of 10" in desk.text
    await desk.press()
    assert "match 2 of 10" in desk.text and desk.view.finding == ("copy.exposed", "h2d")


@exercise("previous_hit")
async def _(desk: Desk) -> None:
    assert (await desk.press()).finding == ("copy.slow", "p5")
    assert (await desk.press()).finding == ("idle.host", "waves")


@exercise("order")
async def _(desk: Desk) -> None:
    def keys() -> list[str]:
        return [finding.key for finding in desk.screen.insight.in_order(desk.view.order)]

    assert keys() == ["abc.eval p8", "h2d", "fill", "waves", "p5"]
    await desk.press()
    assert keys() == ["fill", "waves", "h2d", "abc.eval p8", "p5"]  # 10.5, 6.0, 2.3, 2.1, 1.35 s
    await desk.press()
    assert keys() == ["fill", "h2d", "waves", "p5", "abc.eval p8"]  # from 0, 10.5, 18.5, 24, 36.5 s


@exercise("explain")
async def _(desk: Desk) -> None:
    await desk.press()
    assert isinstance(desk.pilot.app.screen, TextScreen)
    shown = "\n".join(desk.pilot.app.screen.texts)
    assert "Finding: idle.host" in shown and "saved = path with p8 at 36.5" in shown
    counters = shown.partition("Counters")[2]
    assert "minflt/s" in counters and "last 8,000, highest 744,000 /s" in " ".join(counters.split())
    await desk.press("escape", *["j"] * 4, desk.key)
    assert isinstance(desk.pilot.app.screen, TextScreen)
    shown = "\n".join(desk.pilot.app.screen.texts)
    assert "Lane: synth 0" in shown and "38,600,000,000 ns" in shown  # 7 + 3.5 + 7.5 + 3.5 + 9 + 8.1 s
    await desk.press("escape")


@exercise("mark")
async def _(desk: Desk) -> None:
    assert (await desk.press()).marks == (BASE_NS + 39_500 * MS,)
    assert (await desk.press()).marks == ()


@exercise("fold")
async def _(desk: Desk) -> None:
    assert (await desk.press()).show_all


@exercise("unfold_lane")
async def _(desk: Desk) -> None:
    assert (await desk.press("j", "j", "j", "j", desk.key)).unfolded == {"synthesis"}


@exercise("pin")
async def _(desk: Desk) -> None:
    await desk.press("j", desk.key)
    assert desk.view.pinned == {"path"}
    await desk.press("j")
    assert any(line.startswith("*^path") for line in desk.screen.timeline.texts)
    await desk.press("k", desk.key)
    assert not desk.view.pinned


@exercise("hide")
async def _(desk: Desk) -> None:
    await desk.press("j", desk.key)
    assert desk.view.hidden == {"path"} and desk.view.cursor == "partitions"
    assert not any(line.startswith("*") for line in desk.screen.timeline.texts)


@exercise("show_hidden")
async def _(desk: Desk) -> None:
    await desk.press("j", "x", desk.key)
    assert not desk.view.hidden
    await desk.press()
    assert "no lane is hidden" in desk.text


@exercise("toggle_pause")
async def _(desk: Desk) -> None:
    """Pause, scrub back, resume: the picture holds still meanwhile, and is at now again after it."""
    await desk.press()
    assert desk.view.paused and " PAUSED " in desk.text
    await desk.press("w", "a", "a")
    assert desk.view.paused and desk.view.mode == "hold"
    await desk.press()
    assert not desk.view.paused and desk.view.mode == "page" and " LIVE " in desk.text
    assert desk.view.t0_ns <= desk.screen.data.now_ns <= desk.view.t1_ns


@exercise("toggle_play")
async def _(desk: Desk) -> None:
    await desk.press()
    assert desk.controls.asked == ["play"]
    await desk.press()
    assert desk.controls.asked == ["play", "pause"]


@exercise("slower")
async def _(desk: Desk) -> None:
    for _ in range(8):
        await desk.press()
    assert desk.controls.asked[-1] == "speed 0.1"


@exercise("faster")
async def _(desk: Desk) -> None:
    for _ in range(12):
        await desk.press()
    assert desk.controls.asked[-2:] == ["speed inf", "speed inf"] and "speed max" in desk.text


@exercise("seek_here")
async def _(desk: Desk) -> None:
    await desk.press("n", desk.key)
    assert desk.controls.asked[-1] == "seek 10500"  # the second finding: the first is selected from the start


@exercise("next_tab")
async def _(desk: Desk) -> None:
    seen = [desk.screen.tab]
    for _ in range(4):
        await desk.press()
        seen.append(desk.screen.tab)
    assert seen == ["stalls", "stages", "jobs", "inspector", "log"]


@exercise("tab_stalls")
async def _(desk: Desk) -> None:
    await desk.press("j", desk.key)
    assert desk.screen.tab == "stalls" and desk.view.focus == "panel" and "wall saved" in desk.text


@exercise("tab_stages")
async def _(desk: Desk) -> None:
    await desk.press()
    assert desk.screen.tab == "stages" and "against" in desk.text


@exercise("tab_jobs")
async def _(desk: Desk) -> None:
    await desk.press()
    assert desk.screen.tab == "jobs" and "porep-1000-7" in desk.screen.panel.texts[2]


@exercise("tab_inspector")
async def _(desk: Desk) -> None:
    await desk.press("n", desk.key)
    assert desk.screen.tab == "inspector" and "waited for abc.eval of p8" in desk.text


@exercise("tab_log")
async def _(desk: Desk) -> None:
    await desk.press()
    assert desk.screen.tab == "log" and "proof 1 verified" in desk.text


@exercise("panel_down")
async def _(desk: Desk) -> None:
    await desk.pilot.resize_terminal(100, 26)
    await desk.press("2")
    before = desk.screen.panel.texts[2]
    await desk.press()
    assert desk.screen.panel.top > 0 and desk.screen.panel.texts[2] != before


@exercise("panel_up")
async def _(desk: Desk) -> None:
    await desk.press("2", "J", desk.key)
    assert desk.screen.panel.top == 0
    await desk.pilot.resize_terminal(*SIZE)


@exercise("save")
async def _(desk: Desk) -> None:
    await desk.press()
    await desk.said("saved saved.cuzk in traces")
    assert desk.controls.asked == ["save"]


@exercise("export")
async def _(desk: Desk) -> None:
    await desk.press(desk.key, "ctrl+u", *"out.cuzk", "enter")
    await desk.said("wrote out.cuzk")
    assert len(trace.open("out.cuzk")) >= desk.screen.data.spans
    await desk.press(desk.key, "ctrl+u", *"out.doc", "enter")
    await desk.said("which format?")


@exercise("screenshot")
async def _(desk: Desk) -> None:
    await desk.press("n", desk.key)
    (picture,) = Path.cwd().glob("*.svg")
    assert picture.read_text().startswith("<svg")
    view, traced = view_file.load(picture.with_suffix(".view.json"))
    assert view == desk.view and traced is not None and traced.name == "chain.cuzk"


@exercise("help")
async def _(desk: Desk) -> None:
    await desk.press()
    assert isinstance(desk.pilot.app.screen, TextScreen)
    await desk.press("escape")
    assert desk.pilot.app.screen is desk.screen


@exercise("palette")
async def _(desk: Desk) -> None:
    await desk.press(desk.key)
    palette = desk.pilot.app.screen
    assert isinstance(palette, CommandPalette)
    await desk.pilot.press(*"axis from")
    for _ in range(200):  # it looks for them in the background
        await desk.pilot.pause(0.05)
        if palette.query_one(CommandList).option_count == 1:
            break
    await desk.pilot.press("enter")
    await desk.pilot.pause()
    assert desk.pilot.app.screen is desk.screen
    assert desk.view.clock == "monotonic"


@exercise("suspend")
async def _(desk: Desk) -> None:
    await desk.press()
    assert desk.controls.asked == ["suspend"]


def test_every_action_has_an_exercise() -> None:
    left = {"stop", "quit"}  # they end the application: test_keys.test_quit_and_stop
    assert set(EXERCISES) | left == {action.id for action in actions.ACTIONS}


@pytest.mark.parametrize("mode", ["live", "replay"])
async def test_every_action(mode: actions.Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    controls = example.controls()
    if mode == "replay":
        ended = replace(controls.snap, ended=True)
        controls = FakeControls(ended, "replay", Playback(False, 1.0))
    monkeypatch.setattr(CuzkTop, "action_suspend_process", lambda app: controls.asked.append("suspend"))
    app = sessions.app_of(controls, insight=example.insight())
    async with app.run_test(size=SIZE) as pilot:
        desk = Desk(pilot, await sessions.settled(pilot), controls)
        for action in actions.for_mode(mode):
            # Live has all but the keys of the play head; a replay's other keys do the same as live's.
            if action.id in EXERCISES and (mode == "live") == ("live" in action.modes):
                desk.again(action.keys[0])
                try:
                    await EXERCISES[action.id](desk)
                except AssertionError as error:
                    raise AssertionError(f"{action.id}: {error}") from error
