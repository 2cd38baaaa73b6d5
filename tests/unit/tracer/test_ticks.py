"""Ticks to monotonic nanoseconds: near the truth, never backwards, never changed afterwards."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzk_tracer.ticks import Ticks

START_NS = 5_000_000_000_000
START_TICKS = 12_345_678_901_234
NOISE_NS = 25


def gaps() -> list[int]:
    """When a native writer leaves anchors: after twice the age, and at least once a second."""
    times = [0, 300_000]
    while times[-1] < 8_000_000_000:
        times.append(times[-1] + min(1_000_000_000, 2 * times[-1]))
    return times


class Machine:
    """A counter of `hertz` that a kernel's clock disciplines by `drift` parts per million after 3 seconds."""

    def __init__(self, hertz: float, drift: float) -> None:
        self.per_ns = hertz / 1e9
        self.drift = drift * 1e-6

    def ticks(self, ns: int) -> int:
        slowed = max(0, ns - 3_000_000_000)
        return START_TICKS + round((ns + slowed * self.drift) * self.per_ns)


@given(
    hertz=st.floats(1e8, 5e9),
    drift=st.floats(-500, 500),
    noise=st.lists(st.integers(-NOISE_NS, NOISE_NS), min_size=40, max_size=40),
)
def test_near_in_order_and_final(hertz, drift, noise):
    machine = Machine(hertz, drift)
    clock = Ticks()
    times = gaps()
    given_before: list[tuple[np.ndarray, np.ndarray]] = []
    carried = 0.0
    for number, at in enumerate(times):
        clock.add(machine.ticks(at), START_NS + at + noise[number], 0)
        if number == 0:
            continue
        # What a reader converts between this anchor and the next.
        until = times[number + 1] if number + 1 < len(times) else at + 1_000_000_000
        truth = np.linspace(at, until, 200).astype(np.int64)
        ticks = np.array([machine.ticks(int(t)) for t in truth], np.uint64)
        converted = clock.to_ns(ticks)
        given_before.append((ticks, converted))
        error = np.abs(converted - START_NS - truth)
        tick_ns = 1 / machine.per_ns
        # The rate is as good as the noise over the last interval, a new drift is known after one interval;
        # what that makes until the next anchor is taken back after it.
        interval = at - times[number - 1]
        rate = 2 * (NOISE_NS + tick_ns) / interval + 2 * abs(machine.drift)
        grown = rate * (until - at)
        assert error.max() <= grown + carried + 3 * (NOISE_NS + tick_ns)
        carried = grown
        if drift == 0:
            assert error.max() <= 12 * (NOISE_NS + tick_ns)
    every = np.concatenate([ticks for ticks, _ in given_before])
    first = np.concatenate([converted for _, converted in given_before])
    assert (np.diff(first) >= 0).all(), "time never runs backwards"
    now = clock.to_ns(every)
    assert np.abs(now - first).max() <= 1, "what was said once stays so"


def test_a_jump_begins_anew():
    """Suspended for an hour the counter went on, CLOCK_MONOTONIC did not: the writer counts a new segment."""
    clock = Ticks()
    for second in range(5):
        clock.add(1000 + second * 2_000_000_000, second * 1_000_000_000, 0)
    hour = 3600 * 2_000_000_000
    clock.add(1000 + hour + 5 * 2_000_000_000, 5_000_000_000, 1)
    clock.add(1000 + hour + 6 * 2_000_000_000, 6_000_000_000, 1)
    ticks = np.array([1000 + 4 * 2_000_000_000, 1000 + hour + 11 * 1_000_000_000], np.uint64)
    assert clock.to_ns(ticks).tolist() == [4_000_000_000, 5_500_000_000]
    clock.add(10, 7_000_000_000, 2)  # reset to zero
    clock.add(10 + 2_000_000_000, 8_000_000_000, 2)
    assert clock.to_ns(np.array([10 + 1_000_000_000], np.uint64)).tolist() == [7_500_000_000]


def test_before_the_first_and_without_any():
    assert Ticks().to_ns(np.array([5, 6], np.uint64)).tolist() == [5, 6]
    clock = Ticks()
    clock.add(10_000, 50_000, 0)
    clock.add(12_000, 51_000, 0)
    assert clock.to_ns(np.array([8_000, 11_000, 14_000], np.uint64)).tolist() == [49_000, 50_500, 52_000]


@pytest.mark.parametrize(
    "damage", [(1 << 63, 0, 0), (0, 1 << 62, 0), (5, -5, 0), (2**64 - 1, 2**63 - 1, 2**64 - 1)]
)
def test_damaged_anchors(damage):
    clock = Ticks()
    clock.add(*damage)
    clock.add(1000, 1000, 0)
    clock.add(*damage)
    clock.add(3000, 2000, 0)
    with np.errstate(all="raise"):
        assert len(clock.to_ns(np.array([0, 2**63, 2**64 - 1, 1500], np.uint64))) == 4
