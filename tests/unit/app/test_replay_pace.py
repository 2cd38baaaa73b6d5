"""The pace of a replay, at every speed: against exact arithmetic, and the same again under the same clock."""

import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzk_top.replayed import ReplaySession
from cuzk_top.sources.trace_file import FASTEST, SLOWEST, Replay

TRACE = Path(__file__).parents[2] / "data" / "traces" / "chain-65533-bls12381.cuzk"
SPEEDS = (Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), *map(Fraction, (1, 2, 4, 8, 16, 64)), None)
"""As the screen has them; None: at once."""
FIRST, LAST = 5_000_000, 905_000_000

steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.integers(0, 20_000).map(lambda n: n * 10_000)),
        st.tuples(st.just("speed"), st.sampled_from(SPEEDS)),
        st.tuples(st.just("seek"), st.integers(-100, 1_100).map(lambda n: n * 1_000_000)),
        st.tuples(st.sampled_from(["play", "pause"]), st.none()),
    ),
    max_size=40,
)


@given(steps)
def test_the_play_head_by_exact_arithmetic(drawn):
    """All steps and speeds are such that the head stands on whole nanoseconds at every step."""
    clock = [7_000_000_000]
    replay = Replay(lambda: clock[0], FIRST, LAST)
    head, speed, playing = Fraction(FIRST), Fraction(1), False
    for what, value in drawn:
        if what == "wait":
            clock[0] += value
            if playing and speed is not None:
                head = min(Fraction(LAST), head + value * speed)
        elif what == "speed":
            replay.set_speed(FASTEST if value is None else float(value))
            speed = value
        elif what == "seek":
            replay.seek(value)
            head = Fraction(min(max(value, FIRST), LAST))
        elif what == "play":
            replay.play()
            head, playing = Fraction(FIRST if head == LAST else head), True
        else:
            replay.pause()
            playing = False
        if playing and speed is None:
            head = Fraction(LAST)
        playing = playing and head != LAST  # at the end it stops
        assert replay.now_ns() == head
        assert (replay.playing, replay.at_end) == (playing, head == LAST)


@pytest.mark.parametrize("speed", [SLOWEST, 0.25, 1.0, 64.0])
def test_many_frames_do_not_add_up_to_a_drift(speed):
    """Asked 36,000 times in an hour, the head is where one question at its end finds it."""
    clock = [0]
    replay = Replay(lambda: clock[0], 0, 1 << 60)
    replay.set_speed(speed)
    replay.play()
    before = -1
    for frame in range(36_000):
        clock[0] = frame * 100_000_000
        assert replay.now_ns() > before
        before = replay.now_ns()
    clock[0] = 3_600_000_000_000
    assert replay.now_ns() == round(3_600_000_000_000 * Fraction(str(speed)))


@pytest.mark.parametrize(
    ("asked", "has"),
    [(0.0, 0.1), (-3.0, 0.1), (0.05, 0.1), (1e9, 1e9), (math.inf, math.inf), (math.nan, 0.1)],
)
def test_speeds_out_of_range(asked, has):
    replay = Replay(lambda: 0, 0, 10)
    replay.set_speed(asked)
    assert replay.speed == has
    replay.play()
    assert replay.now_ns() in (0, 10)


def test_the_same_clock_gives_the_same_pictures():
    def watched() -> list[tuple[int, bool, bool]]:
        clock = [0]
        session = ReplaySession(TRACE, lambda: clock[0])
        session.play()  # it opens at its end
        seen = []
        for frame in range(200):
            clock[0] = frame * 100_000_000
            if frame == 20:
                session.set_speed(0.1)
            if frame == 120:
                session.set_speed(16)
            playback = session.playback()
            assert playback is not None
            seen.append((session.snapshot().now_ns, playback.playing, playback.at_end))
        return seen

    once = watched()
    assert once == watched()
    heads = [head for head, _, _ in once]
    first, last = heads[0], heads[-1]
    assert heads == sorted(heads) and once[-1][2] and first < last
    # 2 s at 1x, then at a tenth of it, then 16x to the end of a trace of 2.6 s.
    assert heads[20] - first == 2_000_000_000 and heads[120] == last
    assert heads[25] - heads[20] == 50_000_000
