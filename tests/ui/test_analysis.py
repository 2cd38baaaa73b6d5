"""The analysis on its thread: when it runs, that a frame never waits, and what it knows when it came."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import example
import numpy as np
import pytest
import sessions
from sessions import BASE_NS, MS, FakeClock, FakeControls

from cuzk_top.controls import Playback
from cuzk_top.model import Snapshot
from cuzk_top.screens import analysis
from cuzk_top.screens.analysis import NO_INSIGHT, Analysing, Analyst, Insight
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.stalls.finding import NOTHING
from cuzk_top.store import Store
from cuzk_top.viewport import Window

TRACES = Path(__file__).parents[1] / "data"


WINDOW = Window(0, 1)


def moment(revision: int, now_ns: int = 1) -> Snapshot:
    return replace(Store().snapshot(), revision=revision, now_ns=now_ns)


class Slow:
    """An analysis that ends when it is let."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.go = threading.Event()

    def __call__(self, snapshot: Snapshot, part: object) -> Insight:
        self.calls.append(snapshot.revision)
        assert self.go.wait(10)
        return Insight(problem=f"of {snapshot.revision}")


def test_a_frame_takes_what_is_there_and_one_run_is_made_at_a_time() -> None:
    slow, clock = Slow(), FakeClock()
    analyst = Analyst(slow, clock, clock)
    assert analyst.look(moment(1), WINDOW, True) is NO_INSIGHT
    assert analyst.look(moment(2), WINDOW, True) is NO_INSIGHT  # the first still runs
    clock.now_ns = 300 * MS
    slow.go.set()
    analyst.wait()
    assert analyst.look(moment(3), WINDOW, True).problem == "of 1"
    # 300 ms of work: a pause of 100 times that
    clock.now_ns = (300 + 29_999) * MS
    assert analyst.look(moment(4), WINDOW, True).problem == "of 1"
    assert slow.calls == [1]
    clock.now_ns = (300 + 30_000) * MS
    analyst.look(moment(5), WINDOW, True)
    analyst.wait()
    assert slow.calls == [1, 5] and analyst.look(moment(5), WINDOW, True).problem == "of 5"


def test_it_rests_for_what_it_computed_however_long_that_took() -> None:
    slow, clock = Slow(), FakeClock()
    analyst = Analyst(slow, clock, lambda: clock.now_ns // 10)  # a tenth of a core was left for it
    analyst.look(moment(1), WINDOW, True)
    clock.now_ns = 500 * MS
    slow.go.set()
    analyst.wait()
    for after_ms, calls in ((4_999, [1]), (5_000, [1, 5_000])):
        clock.now_ns = (500 + after_ms) * MS
        analyst.look(moment(after_ms), WINDOW, True)
        analyst.wait()
        assert slow.calls == calls


def test_a_short_one_runs_every_two_seconds() -> None:
    slow, clock = Slow(), FakeClock()
    slow.go.set()
    analyst = Analyst(slow, clock)
    for tick in range(61):
        clock.now_ns = tick * 100 * MS
        analyst.look(moment(tick), WINDOW, True)
        analyst.wait()
    assert slow.calls == [0, 20, 40, 60]


def test_a_replay_that_stands_is_analysed_once_a_place_and_at_once() -> None:
    slow, clock = Slow(), FakeClock()
    slow.go.set()
    analyst = Analyst(slow, clock)
    for now in (1, 1, 1, 2, 2, 3):
        analyst.look(moment(7, now), WINDOW, False)
        analyst.wait()
    assert slow.calls == [7, 7, 7]


def test_an_analysis_that_fails_says_so() -> None:
    def broken(_: Snapshot, __: object) -> Insight:
        raise ZeroDivisionError("by zero")

    analyst = Analyst(broken, FakeClock())
    analyst.look(moment(1), WINDOW, True)
    analyst.wait()
    assert analyst.look(moment(1), WINDOW, True).problem == "the analysis failed: ZeroDivisionError: by zero"


def test_what_is_analysed_of_long_and_large_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    live = sessions.live_controls().snap
    whole = Window(live.first_ns, live.last_ns)
    assert analysis.part_of(live, whole) is None
    monkeypatch.setattr(analysis, "LOOK_BACK_NS", 5_000 * MS)
    assert analysis.part_of(live, whole) == (live.now_ns - 5_000 * MS, live.now_ns)
    ended = replace(live, ended=True)
    assert analysis.part_of(ended, whole) is None
    # 83 spans in 10.3 s: of more than allowed, the window; of more than allowed in it, the half at its end
    monkeypatch.setattr(analysis, "MOST_SPANS", 40)
    window = Window(BASE_NS + 4_300 * MS, BASE_NS + 5_000 * MS)
    assert analysis.part_of(ended, window) == tuple(window)
    low, high = analysis.part_of(ended, whole) or (0, 0)
    starts = np.concatenate([row.columns.start_ns for row in live.rows])
    assert high == live.now_ns and ((low <= starts) & (starts < high)).sum() <= 40
    assert high - low in [(live.now_ns - live.first_ns) // 2**halves for halves in (1, 2, 3)]
    assert analysis.part_of(ended, Window(0, 1)) is not None  # nothing of it on the screen: its end


def test_the_part_follows_a_window_that_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "MOST_SPANS", 40)
    slow, clock = Slow(), FakeClock()
    slow.go.set()
    analyst = Analyst(slow, clock)
    ended = replace(sessions.live_controls().snap, ended=True)
    for step in range(10):  # it moves: 100 ms a step
        clock.now_ns += 100 * MS
        low = BASE_NS + step * 300 * MS
        analyst.look(ended, Window(low, low + 1_000 * MS), False)
        analyst.wait()
    assert slow.calls == []
    clock.now_ns += 300 * MS
    analyst.look(ended, Window(low, low + 1_000 * MS), False)
    analyst.wait()
    assert slow.calls == [ended.revision]


def test_orders_and_ranks() -> None:
    said = example.insight()
    assert list(said.ranks.values()) == [1, 2, 3, 4, 5]
    nowork = example.finding("idle.nowork", "", (50, None), "no job open", (39.0, 39.4), ranked=False)
    wider = Insight(replace(said.analysis, findings=(*said.analysis.findings, nowork)))
    assert ("idle.nowork", "") not in wider.ranks
    for order in ("saved", "lost", "time"):
        assert wider.in_order(order)[-1] is nowork  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["gpu/traces/own-chain-65533-bn254.cuzk", "traces/chain-65533-bls12381.cuzk"]
)
def test_the_real_analyses_of_a_real_trace(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = Store()
    store.append(TraceSource(TRACES / name).poll())
    snapshot = store.snapshot()
    said = Analysing({})(snapshot, None)
    assert not said.problem and said.analysis.path and said.past is not None and said.past.proofs == 0
    assert [job.state for job in said.jobs] == ["done"] * len(said.jobs) and len(said.jobs) in (3, 5)
    # the last proof's time by its own span, looked up in the store's rows
    proof = next(i for i, entry in enumerate(snapshot.session.names) if entry.text == "prove")
    ends = [
        (int(e), int(e - s))
        for row in snapshot.rows
        for s, e, n in zip(row.columns.start_ns, row.columns.end_ns, row.columns.name, strict=True)
        if n == proof
    ]
    assert said.last["prove"] == max(ends)[1]
    assert {ghost.device for ghost in said.ghosts} == ({0} if snapshot.devices else {None})


async def test_the_first_pane_is_the_stalls_where_there_is_a_device_or_a_finding() -> None:
    for controls, insight, tab in (
        (example.controls(), Insight(), "stalls"),
        (sessions.live_controls(), Insight(), "stages"),
        (sessions.live_controls(), example.insight(), "stalls"),
    ):
        async with sessions.app_of(controls, insight=insight).run_test(size=(120, 36)) as pilot:
            screen = await sessions.settled(pilot)
            assert screen.tab == tab
            await pilot.press("3")
            assert screen.tab == "jobs"


async def test_a_replay_opens_whole_with_the_worst_finding_selected() -> None:
    ended = replace(example.snapshot(), ended=True)
    controls = FakeControls(ended, "replay", Playback(False, 1.0, at_end=True))
    async with sessions.app_of(controls, insight=example.insight()).run_test(size=(120, 36)) as pilot:
        screen = await sessions.settled(pilot)
        assert screen.view.mode == "fit" and screen.view.finding == ("idle.host", "abc.eval p8")
        assert screen.view.selection == example.FINDINGS[0].intervals[0]
        assert controls.asked == [] and " REPLAY " in screen.header.texts[0]
        await pilot.press("space")
        assert controls.asked == ["seek 0", "play"]


async def test_while_nothing_is_known_the_pane_says_so() -> None:
    words = {
        Insight(): "too early to tell",
        Insight(replace(NOTHING, early=False)): "no stalls",
        Insight(replace(NOTHING, early=False, no_device="no device data: none")): "no device data: none",
        Insight(problem="the analysis failed: X"): "the analysis failed: X",
    }
    for insight, said in words.items():
        app = sessions.app_of(sessions.live_controls(), insight=insight)
        async with app.run_test(size=(120, 36)) as pilot:
            screen = await sessions.settled(pilot)
            await pilot.press("1")
            assert said in "\n".join(screen.panel.texts)
