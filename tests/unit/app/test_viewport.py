"""Window arithmetic against exact fractions and hand-made cases."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzk_top import viewport
from cuzk_top.viewport import MAX_WIDTH_NS, MIN_WIDTH_NS, Window

times = st.integers(-(10**15), 10**15)
widths = st.integers(MIN_WIDTH_NS, 10**15)
columns = st.integers(1, 400)
windows = st.builds(lambda t0, width: Window(t0, t0 + width), times, widths)


@given(windows, st.floats(0, 1), st.floats(0.01, 100))
def test_zoom_keeps_the_point_under_the_pointer(window: Window, place: float, factor: float) -> None:
    at = window.t0_ns + int(place * window.width_ns)
    zoomed = viewport.zoom(window, at, factor)
    before = Fraction(at - window.t0_ns, window.width_ns)
    after = Fraction(at - zoomed.t0_ns, zoomed.width_ns)
    assert abs(before - after) <= Fraction(1, zoomed.width_ns)
    assert MIN_WIDTH_NS <= zoomed.width_ns <= MAX_WIDTH_NS


@given(windows, times, st.floats(allow_nan=True, allow_infinity=True))
def test_zoom_never_returns_an_empty_window(window: Window, at: int, factor: float) -> None:
    zoomed = viewport.zoom(window, at, factor)
    assert all(isinstance(edge, int) for edge in zoomed)
    assert zoomed.width_ns >= MIN_WIDTH_NS


@given(windows, st.integers(-(10**16), 10**16), times, times)
def test_pan_keeps_width_and_stays_with_the_data(window: Window, delta: int, first: int, last: int) -> None:
    moved = viewport.pan(window, delta, first, last)
    assert moved.width_ns == window.width_ns
    middle = moved.t0_ns + moved.width_ns // 2
    assert first <= middle <= max(first, last)


def test_pan_moves_by_what_was_asked_inside_the_data() -> None:
    assert viewport.pan(Window(100_000, 200_000), 50_000, 0, 10**6) == Window(150_000, 250_000)


@given(times, st.integers(0, 10**15), columns)
def test_fit_shows_everything_and_wastes_at_most_a_tenth(first: int, length: int, count: int) -> None:
    window = viewport.fit(first, first + length, count)
    assert window.t0_ns == first and window.t1_ns >= first + length
    assert window.width_ns % count == 0 or window.width_ns == MIN_WIDTH_NS
    if length >= 100 * max(MIN_WIDTH_NS, count * count):
        assert window.width_ns <= length * 1.101


@given(windows, columns, st.integers(0, 10**15))
def test_edges_and_column_of_agree(window: Window, count: int, offset: int) -> None:
    edges = viewport.edges(window, count)
    assert edges[0] == window.t0_ns and edges[-1] == window.t1_ns
    assert all(int(b) > int(a) for a, b in itertools.pairwise(edges))
    t = window.t0_ns + offset % window.width_ns
    column = viewport.column_of(window, count, t)
    assert int(edges[column]) <= t < int(edges[column + 1])
    exact = [window.t0_ns + Fraction(c * window.width_ns, count) for c in range(count + 1)]
    assert [int(edge) for edge in edges] == [math.ceil(edge) for edge in exact]


@given(st.integers(1, 10**18))
def test_round_step_is_the_next_one_two_or_five(wanted: int) -> None:
    ladder = [factor * 10**power for power in range(20) for factor in (1, 2, 5)]
    assert viewport.round_step(wanted) == min(step for step in ladder if step >= wanted)


@given(windows, st.integers(20, 300), times)
def test_axis_ticks_are_round_inside_and_apart(window: Window, count: int, origin: int) -> None:
    axis = viewport.axis(window, count, origin)
    assert str(axis.step_ns).rstrip("0") in ("1", "2", "5")
    assert all(
        window.t0_ns <= tick < window.t1_ns and (tick - origin) % axis.step_ns == 0 for tick in axis.ticks_ns
    )
    expected = len(
        range(-((origin - window.t0_ns) // axis.step_ns), 1 + (window.t1_ns - 1 - origin) // axis.step_ns)
    )
    assert len(axis.ticks_ns) == expected
    for tick in axis.ticks_ns:
        label = viewport.tick_label(tick, origin, axis.decimals)
        assert len(label) < axis.step_ns * count / window.width_ns
        if tick != origin:
            assert Fraction(label) * 10**9 == tick - origin  # no digit is cut off


def test_axis_of_the_drawn_example() -> None:
    axis = viewport.axis(Window(0, 44 * 10**9), 88, 0)
    assert [viewport.tick_label(t, 0, axis.decimals) for t in axis.ticks_ns] == [
        "0s", "5", "10", "15", "20", "25", "30", "35", "40",
    ]  # fmt: skip


def test_page_stands_still_then_turns_at_nine_tenths() -> None:
    window = Window(0, 10_000_000)
    assert viewport.page(window, 9_000_000, 100) == window
    assert viewport.page(window, 9_000_001, 100) == Window(8_000_001, 18_000_001)


def test_page_widens_for_the_proof_that_began_on_it() -> None:
    second = 10**9
    window = Window(0, 10 * second)
    turned = viewport.page(window, 9 * second + 1, 100, 0, 10 * second)
    assert turned == Window(0, 20 * second)
    # a proof that has just begun gets a page of its own
    turned = viewport.page(window, 9 * second + 1, 100, 8 * second, 10 * second)
    assert turned == Window(8 * second, 18 * second)
    # pages of another width come with the next turn: 0.2 s proofs leave the 10 s page that a long one made
    assert viewport.page(window, 9 * second, 100, 8 * second, 3 * second) == window
    assert viewport.page(window, 9 * second + 1, 100, 9 * second, 3 * second) == Window(
        9 * second, 12 * second
    )


@pytest.mark.parametrize(
    ("median_ms", "count", "column_ms"),
    [
        (None, 129, 20),  # 3 s / 129 = 23.3 ms; 20 is nearer than 50 and makes 2.58 s
        (None, 88, 50),  # 34.1 ms; 20 would be 1.76 s, too short
        (200, 129, 20),  # 0.5 s is under the shortest page: 2.5 s / 129 = 19.4 ms
        (200, 100, 50),  # 25 ms; 20 would be 2.0 s
        (3_754, 88, 100),  # 9.385 s / 88 = 106.6 ms; 106.6/100 < 200/106.6
        (39_000, 129, 1_000),  # 97.5 s / 129 = 756 ms; 756/500 = 1.51 > 1000/756 = 1.32
        (30_000, 129, 500),  # 75 s / 129 = 581 ms; 581/500 = 1.16 < 1000/581
    ],
)
def test_automatic_page_holds_two_to_three_proofs(median_ms: int | None, count: int, column_ms: int) -> None:
    median = None if median_ms is None else median_ms * 1_000_000
    assert viewport.page_width(median, count) == column_ms * 1_000_000 * count


@given(st.one_of(st.none(), st.integers(0, 10**14)), columns)
def test_automatic_page_is_round_and_never_short(median: int | None, count: int) -> None:
    width = viewport.page_width(median, count)
    assert width >= 2_500_000_000 and width % count == 0
    assert str(width // count).rstrip("0") in ("1", "2", "5")
    if median is not None and median >= 2_000_000_000:
        # steps are at most 2.5 apart, so the nearest is within its root
        assert 2.5 / math.sqrt(2.5) <= width / median * (1 + 1e-6) <= 2.5 * math.sqrt(2.5) * (1 + 1e-4)


def test_first_page_shows_all_so_far_if_one_step_wider_is_enough() -> None:
    second = 10**9
    # 88 columns of 100 ms; 10.3 s need 11.45 s: 88 columns of 200 ms
    assert viewport.first_page(5, 5 + 10_300_000_000, 8_800_000_000, 88) == Window(5, 5 + 17_600_000_000)
    assert viewport.first_page(5, 5 + 7 * second, 8_800_000_000, 88) == Window(5, 5 + 8_800_000_000)
    # 20 s would need 22.3 s: too long ago, so the page will turn
    assert viewport.first_page(5, 5 + 20 * second, 8_800_000_000, 88) == Window(5, 5 + 8_800_000_000)


@given(
    windows,
    columns,
    st.integers(0, 10**15),
    st.one_of(st.none(), st.integers(0, 10**15)),
    st.one_of(st.none(), widths),
)
def test_page_always_contains_now(
    window: Window, count: int, ahead: int, back: int | None, auto: int | None
) -> None:
    now = window.t0_ns + ahead
    turned = viewport.page(window, now, count, None if back is None else now - back, auto)
    assert turned.t0_ns <= now < turned.t1_ns
    assert viewport.page(turned, now, count, None if back is None else now - back, auto) == turned


@given(windows, st.integers(10, 400), st.integers(-(10**15), 10**15))
def test_follow_scrolls_whole_columns(window: Window, count: int, ahead: int) -> None:
    window = Window(window.t0_ns, window.t0_ns + count * MIN_WIDTH_NS)
    now = window.t0_ns + ahead
    moved = viewport.follow(window, now, count)
    assert moved.width_ns == window.width_ns
    assert moved.t0_ns <= now <= moved.t0_ns + int(moved.width_ns * viewport.FLIP_AT) + 1
    if ahead >= 0:
        assert (moved.t0_ns - window.t0_ns) % MIN_WIDTH_NS == 0


def test_typed_times() -> None:
    # 2026-12-01 13:59:00 UTC at session time 5 s
    origin, offset = 5 * 10**9, 1_796_133_540 * 10**9 - 5 * 10**9
    parse = viewport.parse_time
    assert parse("12.5", origin, None) == 17_500_000_000
    assert parse("250ms", origin, None) == 5_250_000_000
    assert parse("1:02.5", origin, None) == 67_500_000_000
    assert parse("14:00:01", origin, offset) == 66 * 10**9
    assert parse("14:00:01", origin, None) is None
    assert parse("soon", origin, offset) is None
