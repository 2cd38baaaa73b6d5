"""The time window of the screen: pure integer arithmetic, no drawing.

A window is a half-open stretch ``[t0_ns, t1_ns)`` of session time cut into ``columns`` cells. Every function
here returns a new window; none can return one that is empty, so whoever draws needs no special case.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]
Mode = Literal["page", "follow", "fit", "all", "hold"]
"""`fit` shows all spans, `all` the samples before and after them too."""
Clock = Literal["session", "monotonic", "utc"]
"""What the axis counts from: the session's start, the machine's boot (CLOCK_MONOTONIC), or midnight UTC."""
CLOCKS: tuple[Clock, ...] = ("session", "monotonic", "utc")
Order = Literal["saved", "lost", "time"]
ORDERS: tuple[Order, ...] = ("saved", "lost", "time")

MIN_WIDTH_NS = 10_000
"""Narrowest window. Below 10 µs the clock's own resolution would show."""
MAX_WIDTH_NS = 30 * 86_400 * 1_000_000_000
"""Widest window, 30 days: with 2,000 columns the edges still fit 64 bits."""
FLIP_AT = 0.9
"""Page mode turns the page, and follow mode scrolls, when now has come this far."""
FIRST_PAGE_NS = 3_000_000_000
"""Page of a live session, before anything is known about how long a proof takes."""
SHORTEST_PAGE_NS = 2_500_000_000
"""Pages that turn more often than this flicker."""
PROOFS_A_PAGE = 2.5
"""Median proofs on an automatic page: the one that runs, and others to compare it with."""
ZOOM_STEP = 0.7
"""One key press or wheel notch: about half an octave, two presses halve the window."""


class Window(NamedTuple):
    """``[t0_ns, t1_ns)``."""

    t0_ns: int
    t1_ns: int

    @property
    def width_ns(self) -> int:
        return self.t1_ns - self.t0_ns


@dataclass(frozen=True, slots=True)
class SpanRef:
    """Names one span: spans of one row never overlap, so its row and its start identify it."""

    lane: str
    track: int
    depth: int
    start_ns: int


@dataclass(frozen=True, slots=True)
class ViewState:
    """Everything the user has set on the screen. Replaced whole; undo is a list of these."""

    t0_ns: int = 0
    t1_ns: int = FIRST_PAGE_NS
    mode: Mode = "page"
    auto_width: bool = True
    """Page mode chooses the width itself until the user zooms."""
    paused: bool = False
    cursor: str = ""
    """Key of the display row under the lane cursor; empty: the first."""
    selected: SpanRef | None = None
    selection: tuple[int, int] | None = None
    tab: str = ""
    """Key of the open pane; empty: the stalls where there is anything to find them in, else the stages."""
    focus: Literal["lanes", "panel"] = "panel"
    """What Enter acts on: the lane cursor, or the selected row of the pane."""
    finding: tuple[str, str] | None = None
    """Rule and key of the selected finding; None: the first."""
    order: Order = "saved"
    """What the findings are sorted by: wall time saved, GPU time lost, or when they begin."""
    unfolded: frozenset[str] = frozenset()
    pinned: frozenset[str] = frozenset()
    """Keys of lanes that stay on the screen whatever its size."""
    hidden: frozenset[str] = frozenset()
    """Keys of lanes that the user does not want to see."""
    show_all: bool = False
    clock: Clock = "session"
    search: str = ""
    marks: tuple[int, ...] = ()

    @property
    def window(self) -> Window:
        return Window(self.t0_ns, self.t1_ns)

    def looking_at(self, window: Window, mode: Mode | None = None) -> ViewState:
        """The same view on another window."""
        return replace(self, t0_ns=window.t0_ns, t1_ns=window.t1_ns, mode=self.mode if mode is None else mode)


def clamp_width(width_ns: int) -> int:
    return max(MIN_WIDTH_NS, min(MAX_WIDTH_NS, width_ns))


def zoom(window: Window, at_ns: int, factor: float, widest_ns: int = MAX_WIDTH_NS) -> Window:
    """Scale the window about `at_ns`, which keeps its place on the screen (to 1 ns)."""
    if not math.isfinite(factor) or factor <= 0:
        return window
    old = window.width_ns
    limit = max(MIN_WIDTH_NS, min(widest_ns, MAX_WIDTH_NS))
    wanted = min(float(old) * factor, float(MAX_WIDTH_NS))
    width = max(MIN_WIDTH_NS, min(limit, round(wanted)))
    t0 = at_ns - (at_ns - window.t0_ns) * width // old
    return Window(t0, t0 + width)


def pan(window: Window, delta_ns: int, first_ns: int, last_ns: int) -> Window:
    """Move the window; its middle stays within ``[first_ns, last_ns]``, so the data cannot be lost from
    sight.
    """
    half = window.width_ns // 2
    middle = min(max(window.t0_ns + half + delta_ns, first_ns), max(first_ns, last_ns))
    return Window(middle - half, middle - half + window.width_ns)


def fit(first_ns: int, last_ns: int, columns: int) -> Window:
    """The window that shows ``[first_ns, last_ns]`` whole, a column being a round figure of two digits."""
    wanted = max(last_ns - first_ns, MIN_WIDTH_NS, columns)
    step = -(-wanted // columns)
    unit = int(10 ** max(0, len(str(step)) - 2))
    width = clamp_width(-(-step // unit) * unit * columns)
    return Window(first_ns, first_ns + width)


def page_width(median_ns: int | None, columns: int) -> int:
    """Width of an automatic page: 2.5 proofs of the median duration (3 s before one has ended), rounded to
    the 1-2-5 column nearest by ratio whose page is no shorter than `SHORTEST_PAGE_NS`.
    """
    wanted = FIRST_PAGE_NS if median_ns is None else int(median_ns * PROOFS_A_PAGE)
    wanted = max(SHORTEST_PAGE_NS, wanted)
    above = round_step(-(-wanted // columns)) * columns
    below = _step_below(above // columns) * columns
    nearer = below * above >= wanted * wanted
    return clamp_width(below if nearer and below >= SHORTEST_PAGE_NS else above)


def first_page(first_ns: int, now_ns: int, width_ns: int, columns: int) -> Window:
    """Where a session is first seen: from its start, one step wider than `width_ns` if all so far is then on
    the page. What is longer than that has its page turned by `page`.
    """
    needed = int((now_ns - first_ns) / FLIP_AT) + 1
    if needed > width_ns:
        wider = round_step(width_ns // columns + 1) * columns
        width_ns = wider if needed <= wider else width_ns
    return Window(first_ns, first_ns + width_ns)


def on_page(window: Window, now_ns: int) -> bool:
    """Whether page mode leaves the window where it is: until `now_ns` is at 90 % of it."""
    return window.t0_ns <= now_ns <= window.t0_ns + int(window.width_ns * FLIP_AT)


def page(
    window: Window, now_ns: int, columns: int, proof_start_ns: int | None = None, auto_ns: int | None = None
) -> Window:
    """Page mode: the window stands still while `on_page`, then the page turns at once.

    `auto_ns` is the width of automatic pages (None: keep the window's). They follow the current proof: while
    the proof that began on this page still runs, the page is widened to the next round column instead of
    turned, so that a proof is seen whole.
    """
    if on_page(window, now_ns):
        return window
    width = window.width_ns if auto_ns is None else auto_ns
    if now_ns < window.t0_ns:
        return Window(now_ns - width // 10, now_ns - width // 10 + width)
    if auto_ns is not None and proof_start_ns is not None and window.t0_ns <= proof_start_ns <= now_ns:
        needed = int((now_ns - proof_start_ns) / FLIP_AT) + 1
        if 2 * needed > width:
            step = round_step(max(needed, window.width_ns + 1) // columns + 1)
            t0 = window.t0_ns if now_ns - window.t0_ns < step * columns * FLIP_AT else proof_start_ns
            return Window(t0, t0 + clamp_width(step * columns))
        return Window(proof_start_ns, proof_start_ns + width)
    t0 = now_ns - width // 10
    return Window(t0, t0 + width)


def follow(window: Window, now_ns: int, columns: int) -> Window:
    """Follow mode: scroll by whole columns so that `now_ns` stays at 90 %; rows then shift, not smear."""
    width = window.width_ns
    wanted = now_ns - int(width * FLIP_AT)
    if now_ns < window.t0_ns:
        return Window(wanted, wanted + width)
    if wanted <= window.t0_ns:
        return window
    shift = -(-(wanted - window.t0_ns) * columns // width)
    t0 = window.t0_ns + -(-shift * width // columns)
    return Window(t0, t0 + width)


def edges(window: Window, columns: int) -> Int64s:
    """Column edges, int64[columns + 1]: column c is ``[edges[c], edges[c + 1])``.

    Rounded up, which makes them agree exactly with `column_of` for whole nanoseconds.
    """
    steps = np.arange(columns + 1, dtype=np.int64)
    return window.t0_ns - (-(steps * window.width_ns) // columns)


def column_of(window: Window, columns: int, t_ns: int) -> int:
    """Column that holds `t_ns`; may lie outside ``range(columns)``."""
    return (t_ns - window.t0_ns) * columns // window.width_ns


def time_of(window: Window, columns: int, column: float) -> int:
    """Time of a (possibly fractional) column position."""
    return window.t0_ns + int(column * window.width_ns / columns)


def round_step(at_least_ns: int) -> int:
    """The smallest 1, 2 or 5 times a power of ten that is >= `at_least_ns`."""
    unit = 1
    while unit * 10 <= at_least_ns:
        unit *= 10
    for factor in (1, 2, 5):
        if unit * factor >= at_least_ns:
            return unit * factor
    return unit * 10


def _step_below(step_ns: int) -> int:
    """The 1, 2 or 5 times a power of ten before another; 1 has none and stays."""
    unit = 1
    while unit * 10 <= step_ns:
        unit *= 10
    return max(1, {1: unit // 2, 2: unit, 5: 2 * unit}[step_ns // unit])


class Axis(NamedTuple):
    """Ticks of a window: times relative to the session's origin are whole multiples of `step_ns`."""

    step_ns: int
    ticks_ns: tuple[int, ...]
    decimals: int


def origin_of(clock: Clock, first_ns: int, realtime_offset_ns: int | None) -> int:
    """Session time that a clock counts from; `realtime_offset_ns` is real time minus session time."""
    if clock == "monotonic":
        return 0
    if clock == "utc" and realtime_offset_ns is not None:
        return (first_ns + realtime_offset_ns) // _DAY_NS * _DAY_NS - realtime_offset_ns
    return first_ns


def axis(window: Window, columns: int, origin_ns: int, clock: Clock = "session") -> Axis:
    """Labelled ticks in 1-2-5 steps, as dense as their labels leave room for."""
    per_column = window.width_ns / columns
    gap = 5
    while True:
        step = round_step(max(1, math.ceil(per_column * gap)))
        decimals = max(0, 9 - (len(str(step)) - 1)) if step < 1_000_000_000 else 0
        farthest = max(window.t0_ns, window.t1_ns, key=lambda t: abs(t - origin_ns))
        label = len(tick_label(farthest, origin_ns, decimals, clock)) + 2
        if step / per_column >= label:
            break
        gap = max(gap + 1, label)
    first = -(-(window.t0_ns - origin_ns) // step)
    last = (window.t1_ns - 1 - origin_ns) // step
    return Axis(step, tuple(origin_ns + k * step for k in range(first, last + 1)), decimals)


def tick_label(t_ns: int, origin_ns: int, decimals: int, clock: Clock = "session") -> str:
    """A tick in seconds from the origin (the session's start says its unit), or as a time of day."""
    relative = t_ns - origin_ns
    if clock == "utc":
        unit = int(10 ** (9 - decimals))
        seconds, part = divmod(relative % _DAY_NS // unit, int(10**decimals))
        minutes, seconds = divmod(seconds, 60)
        words = f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
        return f"{words}.{part:0{decimals}d}" if decimals else words
    return "0s" if relative == 0 and clock == "session" else f"{relative / 1e9:.{decimals}f}"


_OFFSET = re.compile(r"^([+-]?\d+(?:\.\d+)?)\s*(h|m|min|s|ms|us|µs|ns)?$")
_UNITS = {"h": 3600e9, "m": 60e9, "min": 60e9, "s": 1e9, "ms": 1e6, "us": 1e3, "µs": 1e3, "ns": 1.0}
_CLOCK = re.compile(r"^(?:(\d{1,2}):)?(\d{1,4}):(\d{1,2}(?:\.\d+)?)$")
_DAY_NS = 86_400_000_000_000


def parse_time(text: str, origin_ns: int, realtime_offset_ns: int | None) -> int | None:
    """Session time that the user typed, or None if it is not one.

    ``12.5``, ``250ms`` and ``1:02.5`` (minutes) are offsets from `origin_ns`; ``14:03:05`` is a UTC wall
    clock on the session's day, which needs `realtime_offset_ns` (real time minus session time).
    """
    text = text.strip()
    if match := _OFFSET.match(text):
        return origin_ns + round(float(match[1]) * _UNITS[match[2] or "s"])
    if not (match := _CLOCK.match(text)):
        return None
    seconds = int(match[2]) * 60 + float(match[3])
    if match[1] is None:
        return origin_ns + round(seconds * 1e9)
    if realtime_offset_ns is None:
        return None
    of_day = round((int(match[1]) * 3600 + seconds) * 1e9)
    midnight = (origin_ns + realtime_offset_ns) // _DAY_NS * _DAY_NS
    at = midnight + of_day - realtime_offset_ns
    # A session that began before midnight and a clock after it: the next day is meant.
    return at if at >= origin_ns - _DAY_NS // 2 else at + _DAY_NS
