"""Random keys, clicks and sizes over a live session and a replay, for as long as one likes.

``python tests/ui/soak.py [SECONDS]`` (ten minutes by default) prints how far it came and how much memory the
process held; the suite runs it for twenty seconds, and ``pytest -m slow`` for ten minutes.
"""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import chdir
from dataclasses import dataclass, field, replace
from pathlib import Path

import example
import psutil
import sessions
from sessions import BASE_NS, MS, FakeClock, FakeControls
from textual.pilot import Pilot

from cuzk_top import actions
from cuzk_top.app import CuzkTop
from cuzk_top.controls import Playback
from cuzk_top.screens.analysis import Insight

LEFT_OUT = {"quit", "stop", "suspend"}
"""They end the application or need a terminal."""
RARE = {"screenshot", "save", "export", "help", "explain"}
"""They write files or cover the screen: one key in fifty."""
SIZES = ((120, 36), (60, 16), (100, 30), (59, 16), (200, 50), (300, 20), (80, 24), (1, 1))
TEXTS = ("1", "msm", "0:01", "zz", "eval", "13:59:30", "250ms", "out.cuzk", "")
WARM = 0.3
"""Share of the time after which all caches have what they will hold."""


@dataclass
class Report:
    """How a walk went. `memory_bytes`: resident, sampled when it was warm."""

    keys: int = 0
    memory_bytes: list[int] = field(default_factory=list)

    @property
    def grown_bytes(self) -> int:
        """From the first half's highest to the second half's lowest: noise does not count, a leak does."""
        half = len(self.memory_bytes) // 2
        if not half:
            return 0
        return min(self.memory_bytes[half:]) - max(self.memory_bytes[:half])


def replayed() -> FakeControls:
    ended = replace(example.snapshot(2), ended=True)
    return FakeControls(ended, "replay", Playback(False, 1.0, at_end=True))


async def walk(mode: actions.Mode, seconds: float, seed: int) -> Report:
    """Press random keys for so long; raises what the screen raises."""
    rng = random.Random(seed)
    controls = replayed() if mode == "replay" else example.controls()
    usable = [action for action in actions.for_mode(mode) if action.id not in LEFT_OUT]
    often = [key for action in usable if action.id not in RARE for key in action.keys]
    rare = [key for action in usable if action.id in RARE for key in action.keys]
    clock, report = FakeClock(), Report()
    process = psutil.Process()
    insights = (example.insight(2), Insight(), example.insight(1))

    def analyse(snapshot: object, part: object) -> Insight:
        return replace(insights[report.keys // 40 % 3])

    app = CuzkTop(controls, clock=clock, analyse=analyse)
    ends = time.monotonic() + seconds
    warm = ends - seconds * (1 - WARM)
    async with app.run_test(size=(120, 36)) as pilot:
        while time.monotonic() < ends:
            await _press(pilot, rng.choice(rare if rng.random() < 0.02 else often), rng)
            report.keys += 1
            clock.now_ns += rng.randrange(10**9)
            if report.keys % 30 == 0:
                await pilot.resize_terminal(*rng.choice(SIZES))
            if report.keys % 25 == 0:
                _go_on(controls, mode, rng)
            if report.keys % 10 == 0 and time.monotonic() >= warm:
                report.memory_bytes.append(process.memory_info().rss)
    return report


async def _press(pilot: Pilot[str], key: str, rng: random.Random) -> None:
    app = pilot.app
    if len(app.screen_stack) > 2:
        await pilot.press("escape")
    if rng.random() < 0.05 and app.size.width > 2 and app.size.height > 2:
        at = (rng.randrange(app.size.width), rng.randrange(app.size.height))
        await pilot.click(offset=at)
    await pilot.press(key)
    if key in ("colon", "slash", "e"):
        await pilot.press("ctrl+u", *rng.choice(TEXTS), rng.choice(("enter", "enter", "escape")))


def _go_on(controls: FakeControls, mode: actions.Mode, rng: random.Random) -> None:
    """Time passes: a live session brings more, a replay's head moves."""
    if mode == "replay":
        controls.snap = replace(controls.snap, now_ns=BASE_NS + rng.randrange(1, example.NOW_MS) * MS)
    elif rng.random() < 0.5:
        until = rng.randrange(500, 12_000)
        controls.snap = sessions.snapshot_of(sessions.proofs(3, until_ms=until), until)
    else:
        controls.snap = example.snapshot(rng.choice((1, 2)))


def run(seconds: float, say: Callable[[str], object] = print) -> None:
    """Walk live and replay in turn; raises AssertionError when memory grew."""
    for mode in ("live", "replay"):
        with tempfile.TemporaryDirectory() as folder, chdir(Path(folder)):
            report = asyncio.run(walk(mode, seconds / 2, 20261201))
        highest = max(report.memory_bytes, default=0) >> 20
        say(f"{mode}: {report.keys} keys, {highest} MiB at most, grew {report.grown_bytes >> 20} MiB")
        assert report.grown_bytes < 16 << 20, f"memory grew: {report.memory_bytes}"


if __name__ == "__main__":
    run(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0)
