"""Every action through the keyboard and the mouse, and a walk of random keys."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sessions
from sessions import BASE_NS, MS, FakeClock, FakeControls
from textual import events
from textual.pilot import Pilot

from cuzk_top import actions, view_file
from cuzk_top.app import CuzkTop
from cuzk_top.screens import tables
from cuzk_top.screens.help import TextScreen
from cuzk_top.screens.session import SessionScreen
from cuzk_top.store import Store

SIZE = (120, 36)
Step = Callable[[Pilot[str], SessionScreen, FakeControls], Awaitable[None]]


async def drive(
    controls: FakeControls, step: Step, clock: FakeClock | None = None, size: tuple[int, int] = SIZE
) -> CuzkTop:
    """Run the app and let `step` act on its session screen."""
    app = sessions.app_of(controls, clock=clock)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, SessionScreen)
        await step(pilot, screen, controls)
    return app


def text_of(screen: SessionScreen) -> str:
    parts = (screen.header, screen.timeline, screen.panel, screen.keys)
    return "\n".join(text for part in parts for text in part.texts)


def window_ms(screen: SessionScreen) -> tuple[float, float]:
    return (screen.view.t0_ns - BASE_NS) / MS, (screen.view.t1_ns - BASE_NS) / MS


def selection_ms(screen: SessionScreen) -> tuple[float, float]:
    assert screen.view.selection is not None
    return tuple((edge - BASE_NS) / MS for edge in screen.view.selection)  # type: ignore[return-value]


@pytest.mark.parametrize("action", actions.ACTIONS, ids=lambda action: action.id)
def test_every_action_has_its_method_and_binding(action: actions.Action) -> None:
    assert callable(getattr(SessionScreen, f"action_{action.id}"))
    bound = {binding.id: binding for binding in SessionScreen.BINDINGS}  # type: ignore[union-attr]
    assert bound[action.id].key == ",".join(action.keys)  # type: ignore[union-attr]


async def test_a_path_can_be_pasted_into_a_prompt() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        pilot.app.post_message(events.Paste("q"))  # no prompt is open: it is no key
        await pilot.press("e", "ctrl+u", "a")
        pilot.app.post_message(events.Paste("/b/out.cuzk\nrm -rf"))
        await pilot.pause()
        assert screen.prompt.texts[0].split() == ["export", "to:", "a/b/out.cuzk_", "Enter", "Esc"]

    await drive(sessions.live_controls(), step)


async def test_live_starts_in_page_mode_from_the_first_span() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        assert screen.view.mode == "page"
        # 2.5 proofs of 3.75 s in 88 columns: 100 ms each, and one step wider shows all 10.3 s so far
        assert window_ms(screen) == (0, 88 * 200)
        assert " LIVE " in text_of(screen) and "lost 0" in text_of(screen)

    await drive(sessions.live_controls(), step)


async def test_an_ended_session_is_fitted_once() -> None:
    controls = sessions.live_controls()

    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        controls.snap = replace(controls.snap, ended=True)
        screen.tick(True)
        assert screen.view.mode == "fit"
        low, high = window_ms(screen)
        assert low == 0 and 10_300 <= high <= 10_300 * 1.1
        await pilot.press("G")
        assert screen.view.mode == "page"
        screen.tick(True)
        assert screen.view.mode == "page"

    await drive(controls, step)


async def test_a_window_that_the_user_chose_stays_when_the_session_ends() -> None:
    controls = sessions.live_controls()

    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("w")
        chosen = window_ms(screen)
        controls.snap = replace(controls.snap, ended=True)
        screen.tick(True)
        assert screen.view.mode == "hold" and window_ms(screen) == chosen

    await drive(controls, step)


async def test_replay_starts_fitted() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        assert screen.view.mode == "fit" and window_ms(screen)[0] == 0
        assert 12_480 <= window_ms(screen)[1] <= 12_480 * 1.1

    await drive(sessions.replay_controls(), step)


async def test_zoom_pan_fit_and_undo() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        before = screen.view
        await pilot.press("w")
        low, high = window_ms(screen)
        assert high - low == pytest.approx(17_600 * 0.7, abs=0.001)
        assert (low + high) / 2 == pytest.approx(8_800, abs=0.001)
        assert screen.view.mode == "hold"
        await pilot.press("s")
        assert window_ms(screen) == pytest.approx((0, 17_600), abs=0.01)
        await pilot.press("w", "a")
        assert window_ms(screen)[0] == pytest.approx(low - 0.2 * (high - low), abs=0.001)
        await pilot.press("d")
        assert window_ms(screen)[0] == pytest.approx(low, abs=0.001)
        await pilot.press("0")
        assert screen.view.mode == "all" and window_ms(screen)[0] == 0
        await pilot.press(*["u"] * 6)
        assert screen.view == before

    await drive(sessions.live_controls(), step)


async def test_spans_by_keyboard() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("j", "j", "j")
        assert screen.view.cursor == "synthesis"
        await pilot.press("full_stop")
        assert selection_ms(screen) == (62 * 4, 300 * 4)
        await pilot.press("full_stop")
        assert selection_ms(screen) == (64 * 4, 190 * 4)
        await pilot.press("full_stop", "full_stop")
        assert selection_ms(screen)[0] == pytest.approx(4000 + 62 * 4.16)
        await pilot.press("comma", "comma")
        assert selection_ms(screen) == (64 * 4, 190 * 4)
        await pilot.press("f")
        low, high = window_ms(screen)
        assert low <= 256 and high >= 760 and high - low < 1.4 * 504
        await pilot.press("enter")
        assert screen.view.tab == "inspector"
        assert "synthesis.witness.load" in text_of(screen) and "2026-12-01 13:59:00.256000" in text_of(screen)
        await pilot.press("escape")
        assert screen.view.selection is None and screen.view.selected is None
        await pilot.press("k")
        assert screen.view.cursor == "key"

    await drive(sessions.live_controls(), step)


async def test_selection_edges_snap_to_spans() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("j", "left_square_bracket")  # the proof lane; the window's middle is 8.8 s
        assert selection_ms(screen)[0] == pytest.approx(8160 + 60 * 4.32)
        await pilot.press("left_square_bracket")
        assert selection_ms(screen)[0] == pytest.approx(4000 + 980 * 4.16)
        await pilot.press("right_square_bracket")
        assert selection_ms(screen)[1] == pytest.approx(10_300)
        # 10.3 - 8.4192 of 2.2232 s
        assert "8.08 to 10.30 s: 2.22 s, proof busy 85%, 1 span" in text_of(screen)

    await drive(sessions.live_controls(), step)


async def test_search_and_matches() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("n")
        assert "no findings; / starts a search" in text_of(screen)
        await pilot.press("slash", *"reduce", "enter")
        assert screen.view.search == "reduce"
        assert "match 1 of 10: msm.h.reduce" in text_of(screen)
        assert screen.view.cursor == "msm.h"
        await pilot.press("n")
        assert "match 2 of 10: msm.l.reduce" in text_of(screen)
        await pilot.press("N", "N")
        assert "match 10 of 10: msm.b_g2.reduce" in text_of(screen)
        await pilot.press("slash", "ctrl+u", *"zz", "enter")
        assert "no span named like 'zz'" in text_of(screen)
        await pilot.press("slash", "q", "escape")
        assert screen.view.search == "zz"

    await drive(sessions.live_controls(), step)


async def test_go_to_a_time_and_ends() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("colon", *"2.5", "enter")
        assert sum(window_ms(screen)) / 2 == pytest.approx(2_500)
        await pilot.press("colon", *"13:59:04", "enter")
        assert sum(window_ms(screen)) / 2 == pytest.approx(4_000)
        await pilot.press("colon", *"later", "enter")
        assert "not a time" in text_of(screen)
        await pilot.press("g")
        assert window_ms(screen)[0] == 0 and screen.view.mode == "hold"
        await pilot.press("G")
        assert screen.view.mode == "page"
        await pilot.press("p")
        assert screen.view.mode == "follow"
        await pilot.press("p")
        assert screen.view.mode == "page"

    await drive(sessions.live_controls(), step)


async def test_pause_holds_the_picture_and_counts_what_came() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, controls: FakeControls) -> None:
        await pilot.press("space")
        assert " PAUSED " in text_of(screen)
        controls.snap = sessions.snapshot_of(sessions.proofs(3, until_ms=11_500), 11_500)
        screen.tick(True)
        assert "10.3 s" in text_of(screen)
        new = controls.snap.spans - screen.data.spans
        assert new > 0 and f"+{new} spans since" in text_of(screen)
        await pilot.press("space")
        assert " LIVE " in text_of(screen) and "11.5 s" in text_of(screen)

    await drive(sessions.live_controls(), step)


async def test_page_turns_when_now_reaches_nine_tenths() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, controls: FakeControls) -> None:
        controls.snap = sessions.snapshot_of(sessions.proofs(4, until_ms=15_900), 15_900)
        screen.tick(True)
        running = 12_480 + 60 * 4.48  # the fourth proof gets a page of its own
        assert window_ms(screen)[0] == pytest.approx(running)

    await drive(sessions.live_controls(), step)


async def test_replay_controls() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, controls: FakeControls) -> None:
        await pilot.press("space")
        assert " REPLAY 2x " in text_of(screen)
        await pilot.press("greater_than_sign")
        assert "speed 4x" in text_of(screen)
        await pilot.press("less_than_sign", "less_than_sign", "space")
        assert controls.asked == ["play", "speed 4", "speed 2", "speed 1", "pause"]
        assert " PAUSED " in text_of(screen)
        await pilot.press("g")
        assert controls.asked[-1] == "seek 0"
        await pilot.press("G")
        assert controls.asked[-1] == "seek 12479.7" or controls.asked[-1].startswith("seek 1")
        await pilot.press("colon", *"3", "enter")
        assert controls.asked[-1] == "seek 3000"
        await pilot.press("p")
        assert controls.asked[-1] == "seek 3000"
        controls.state = replace(controls.state, at_end=True) if controls.state else None
        await pilot.press("space")
        assert controls.asked[-2:] == ["seek 0", "play"]

    await drive(sessions.replay_controls(), step)


async def test_future_spans_are_not_drawn_and_the_current_one_grows() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, controls: FakeControls) -> None:
        assert "proof 2" in text_of(screen) and "proof 3" not in text_of(screen)
        controls.snap = replace(controls.snap, now_ns=BASE_NS + 12_000 * MS)
        screen.tick(True)
        assert "proof 3" in text_of(screen)

    await drive(sessions.replay_controls(), step)


async def test_panes_marks_folds() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("4")
        assert "no span selected" in text_of(screen)
        await pilot.press("6")
        assert "proof 1 verified in 9.21 s" in text_of(screen)
        await pilot.press("tab", "tab")
        assert screen.view.tab == "stages"
        await pilot.press("J")
        assert "6-14 of 38" in text_of(screen)
        await pilot.press("K")
        assert "1-9 of 38" in text_of(screen)
        await pilot.press("m")
        assert screen.view.marks == (BASE_NS + 10_300 * MS,)
        await pilot.press("m")
        assert screen.view.marks == ()
        await pilot.press(*["j"] * 6, "o")
        assert screen.view.unfolded == {"msm.h"} and "level 1" in text_of(screen)
        await pilot.press("o")
        assert "level 1" not in text_of(screen)

    await drive(sessions.live_controls(), step)


async def test_hidden_lanes_are_counted_and_shown() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        assert re.search(r"\d lanes hidden: z", text_of(screen))
        assert "finali" not in text_of(screen).split("Stages")[0]
        await pilot.press("z")
        assert "finali" in text_of(screen)

    await drive(sessions.live_controls(), step, size=(60, 16))


async def test_help_opens_scrolls_and_closes() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("question_mark")
        assert isinstance(screen.app.screen, TextScreen)
        await pilot.press("j", "J", "k", "K", "escape")
        assert screen.app.screen is screen

    await drive(sessions.live_controls(), step)


async def test_quit_and_stop() -> None:
    async def leave(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("q")

    async def stop(pilot: Pilot[str], screen: SessionScreen, controls: FakeControls) -> None:
        await pilot.press("ctrl+c")
        assert controls.asked == ["stop"]

    assert (await drive(sessions.live_controls(), leave)).return_value == "quit"
    assert (await drive(sessions.live_controls(), stop)).return_value == "stop"


async def test_screenshot_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("S")
        written = list(tmp_path.glob("*.svg"))
        assert view_file.load(written[0].with_suffix(".view.json"))[0] == screen.view
        assert len(written) == 1 and written[0].read_text().startswith("<svg")
        assert written[0].name in text_of(screen)

    await drive(sessions.live_controls(), step, size=(200, 50))


async def test_suspend_asks_the_application(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(CuzkTop, "action_suspend_process", lambda self: asked.append("suspend"))

    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("ctrl+z")

    await drive(sessions.live_controls(), step)
    assert asked == ["suspend"]


async def test_command_palette_offers_the_actions() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await pilot.press("ctrl+p", *"show everything")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await pilot.pause(0.2)
        assert screen.view.mode == "all"

    await drive(sessions.live_controls(), step)


async def test_mouse() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        layout = screen.frame
        assert layout is not None
        names = [row.key for row in layout.rows]
        y = 2 + layout.first_row_y + names.index("msm.h")
        await pilot.click(offset=(layout.label_width + 12, y))  # 2.4 to 2.6 s: accumulate of the first proof
        assert screen.view.cursor == "msm.h"
        assert selection_ms(screen) == (530 * 4, 680 * 4)
        await pilot.click(offset=(layout.label_width + 45, y))  # nothing there
        assert screen.view.selection is None
        await pilot.mouse_down(offset=(layout.label_width + 10, y))
        await pilot.hover(offset=(layout.label_width + 20, y))
        await pilot.mouse_up(offset=(layout.label_width + 20, y))
        tab_y = screen.panel.region.y
        await pilot.click(offset=(screen.panel.texts[0].index("Inspector"), tab_y))
        assert screen.view.tab == "inspector"

    await drive(sessions.live_controls(), step)


async def test_resizing_at_any_time() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        for size in [
            (59, 15),
            (60, 16),
            (200, 50),
            (20, 3),
            (1, 1),
            (100, 30),
            (79, 60),
            (300, 17),
            (120, 36),
        ]:
            await pilot.resize_terminal(*size)
            await pilot.pause()
            if size[0] < 60 or size[1] < 16:
                assert screen.frame is None
                if size[0] >= 30:
                    assert f"needs 60x16, has {size[0]}x{size[1]}" in text_of(screen)
                elif size[0] >= 11 and size[1] >= 2:
                    said = [text.rstrip() for text in screen.timeline.texts[:2]]
                    assert said == ["needs 60x16", f"has {size[0]}x{size[1]}"]
        assert "LIVE" in text_of(screen)

    await drive(sessions.live_controls(), step)


async def test_a_session_without_any_span_yet() -> None:
    empty = FakeControls(Store().snapshot())

    async def step(pilot: Pilot[str], screen: SessionScreen, controls: FakeControls) -> None:
        assert "spans 0" in text_of(screen) and "lost 0" in text_of(screen)
        for key in ("j", "full_stop", "enter", "f", "0", "w", "space", "space", "m", "n", "2", "G", "g", "u"):
            await pilot.press(key)
        await pilot.resize_terminal(60, 16)
        await pilot.pause()
        # the first span moves the window to where the session begins
        controls.snap = sessions.live_controls().snap
        screen.tick(True)
        assert "spans 83" in text_of(screen) and window_ms(screen)[0] == 0

    await drive(empty, step)


async def test_an_ended_session_says_so_and_stays() -> None:
    async def step(pilot: Pilot[str], screen: SessionScreen, controls: FakeControls) -> None:
        controls.snap = sessions.snapshot_of(sessions.proofs(3), 12_480, ended=True)
        screen.tick(True)
        assert " ENDED " in text_of(screen) and "proofs 3" in text_of(screen)

    await drive(sessions.live_controls(), step)


async def test_names_of_a_traced_process_cannot_steer_the_terminal() -> None:
    spans: list[sessions.SpanSpec] = [("prove", 0, 900), ("evil\x1b[2J\nname", 100, 500)]

    async def step(pilot: Pilot[str], screen: SessionScreen, controls: FakeControls) -> None:
        for key in ("slash", *"evil", "enter", "enter"):
            await pilot.press(key)
        shown = text_of(screen)
        assert "evil?[2J?name" in shown and "\x1b" not in shown
        assert len(shown.splitlines()) == SIZE[1]

    await drive(FakeControls(sessions.snapshot_of(spans, 1_000)), step)


async def test_figures_of_large_traces_come_from_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "INLINE_SPANS", 10)

    async def step(pilot: Pilot[str], screen: SessionScreen, _: FakeControls) -> None:
        await screen.workers.wait_for_complete()
        await pilot.pause()
        screen.tick(True)
        assert "S synthesis" in text_of(screen) and "1-9 of 38" in text_of(screen)

    await drive(sessions.live_controls(), step)
