"""Every other frame is left out while frames are dear; costs are given, not measured."""

from __future__ import annotations

from cuzk_top.screens.pace import Pace


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
