"""Every other frame is left out while frames are dear; costs are given, not measured."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from cuzk_top.screens.pace import Beat, Pace


def drawn(pace: Pace, cost_s: float, ticks: int, cpu_s: float = 0.0) -> tuple[int, float]:
    """Frames of so many ticks, each frame costing the same; and the CPU time then."""
    count = 0
    for _ in range(ticks):
        if pace.due(cpu_s):
            count += 1
            cpu_s += cost_s
    return count, cpu_s


def test_cheap_frames_are_all_drawn() -> None:
    assert drawn(Pace(), 0.0049, 500)[0] == 500


def test_dear_frames_are_halved_and_come_back_when_they_are_cheap() -> None:
    pace = Pace()
    count, cpu = drawn(pace, 0.007, 200)
    # 0.007 * (1 - 0.9^n) passes 0.005 at the 12th cost, known with the 13th tick; then every other tick
    assert count == 12 + (200 - 12) // 2 and pace.halved
    # between the two thresholds nothing changes
    count, cpu = drawn(pace, 0.0045, 200, cpu)
    assert count == 100 and pace.halved
    count, cpu = drawn(pace, 0.003, 200, cpu)
    assert count > 180 and not pace.halved


def test_one_dear_frame_changes_nothing() -> None:
    pace = Pace()
    drawn(pace, 0.002, 100)
    assert pace.due(0.2) and pace.due(1.2) and not pace.halved


def test_a_beat_keeps_its_times_and_leaves_out_what_comes_late() -> None:
    """On a loop whose clock stands still but for what the ticks take; the third takes 0.35 s."""
    loop = Loop()
    took = [0.01, 0.01, 0.35, 0.01]
    began: list[float] = []

    def tick() -> None:
        began.append(round(loop.now, 6))
        loop.now += took[len(began) - 1]
        if len(began) == len(took):
            beat.stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio, "get_running_loop", lambda: loop)
        beat = Beat(tick)
    loop.run()
    # 0.4, 0.5 and 0.6 are past when the third ends, at 0.65: the tick that was set for 0.4 comes then
    assert began == [0.1, 0.2, 0.3, 0.65]


class Loop:
    """As much of an event loop as a beat needs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[float, Handle]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, call: Callable[[], None]) -> Handle:
        handle = Handle(call)
        self.calls.append((at, handle))
        return handle

    def run(self) -> None:
        while self.calls:
            at, handle = self.calls.pop(0)
            if not handle.cancelled:
                self.now = max(self.now, at)
                handle.call()


class Handle:
    """What takes a call back."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call = call
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True
