"""The last columns of a row, in plain Python: what a frame adds to the one before.

The same cells as `rows.cells` gives, column by column. For the few columns and spans that are new between two
frames this takes a tenth of the time that some fifty calls of numpy take; for whole rows numpy is quicker.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from cuzk_top import rows
from cuzk_top.growth import Seen
from cuzk_top.rows import BLANK, EIGHTHS, SOURCE_SHIFT, Cells, Float64s
from cuzk_top.viewport import Int64s

MOST_COLUMNS = 24
"""Of more columns numpy computes the cells, unless only a few spans touch them."""
FEW_SPANS = 32
"""The loop goes from one begin or end to the next."""
MOST_SPANS = 1_500
"""Where more spans touch few columns numpy computes these too: only a few of a column's are looked at."""
MOST_SAMPLES = 64
"""The same of a counter's samples, which all count."""


Series = tuple[Int64s, Int64s, Float64s]
"""Start, end and value of a counter's samples."""
Of = Callable[[list[tuple[int, float]]], float]


class Lists(NamedTuple):
    """`rows.Cells` as lists."""

    left: list[int]
    right: list[int]
    split: list[int]
    merged: list[int]

    @classmethod
    def of(cls, cells: Cells) -> Lists:
        """Numpy's cells as lists."""
        return cls(*(part.tolist() for part in cells))

    @classmethod
    def blank(cls, columns: int) -> Lists:
        """Columns without spans."""
        return cls([BLANK] * columns, [BLANK] * columns, [EIGHTHS] * columns, [0] * columns)

    def cells(self) -> Cells:
        """The same as numpy's cells."""
        left, right, merged = (np.array(part, np.int64) for part in (self.left, self.right, self.merged))
        return Cells(left, right, np.array(self.split, np.uint8), merged)

    def change(self, low: int, other: Lists) -> None:
        """Exchange all columns from the `low`-th on; blank ones are put where there are fewer."""
        missing = low - len(self.left)
        if missing > 0:
            self.change(low - missing, Lists.blank(missing))
        self.left[low:], self.right[low:], self.split[low:], self.merged[low:] = other


def cells(sources: Sequence[Seen], edges: list[int], inner: bool) -> Lists:
    """The cells of a row: its sources drawn over each other. `edges` are those of the columns, one more than
    there are; `inner` as in `rows.cells`.
    """
    columns = len(edges) - 1
    if columns <= 0:
        return Lists.blank(0)
    most = MOST_SPANS if columns <= MOST_COLUMNS else FEW_SPANS
    parts: list[Touching] = []
    for source in sources:
        part = touching(source, edges[0], edges[-1], most)
        if part is None:
            break
        parts.append(part)
    else:
        under: Lists | None = None
        for number, part in enumerate(parts):
            if part.starts:
                over = _few(part, edges, number << SOURCE_SHIFT, inner)
                under = over if under is None else _overlay(under, over)
        return Lists.blank(columns) if under is None else under
    spans = [(number, source.spans()) for number, source in enumerate(sources)]
    return Lists.of(rows.stacked(spans, np.array(edges, np.int64), inner))


class Touching(NamedTuple):
    """The spans that touch some columns, the open one last."""

    first: int
    """Index of the first one."""
    starts: list[int]
    ends: list[int]
    """As recorded; the open one's is now."""
    now_ns: int

    def shown(self, i: int) -> tuple[int, int]:
        """Start and end of one, clipped to now; an empty span has one nanosecond."""
        start, end = self.starts[i], self.ends[i]
        end = min(end, self.now_ns)
        return start, end if end > start else start + 1

    def eighths(self, i: int, begin: int, finish: int) -> tuple[int, int]:
        """First and last eighth of a cell that one covers, to the nearest, at least one wide."""
        start, end = self.shown(i)
        width = finish - begin
        low, high = 0, EIGHTHS
        if start >= finish:
            low = EIGHTHS - 1
        elif start > begin:
            low = ((start - begin) * (2 * EIGHTHS) + width) // (2 * width)
            if low == EIGHTHS:
                low -= 1
        if end <= begin:
            high = 0
        elif end < finish:
            high = ((end - begin) * (2 * EIGHTHS) + width) // (2 * width)
        return low, high if high > low else low + 1


def touching(source: Seen, begin_ns: int, finish_ns: int, most: int = MOST_SPANS) -> Touching | None:
    """The spans that touch ``[begin_ns, finish_ns)`` up to now; None if they are more than `most`."""
    start_ns, end_ns, now = source.start_ns, source.end_ns, source.now_ns
    low = len(end_ns)
    starts: list[int] = []
    ends: list[int] = []
    if low and (end_ns.item(low - 1) > begin_ns or start_ns.item(low - 1) >= begin_ns):
        low = int(end_ns.searchsorted(begin_ns, "right"))
        if low and start_ns.item(low - 1) == begin_ns:
            low = int(start_ns.searchsorted(begin_ns, "left"))  # empty ones, where the columns begin
        high = low + int(start_ns[low:].searchsorted(min(finish_ns, now), "left"))
        if high - low > most:
            return None
        starts, ends = start_ns[low:high].tolist(), end_ns[low:high].tolist()
    if source.open_ns is not None and source.open_ns < min(finish_ns, now):
        starts.append(source.open_ns)
        ends.append(now)
    return Touching(low, starts, ends, now)


def _few(spans: Touching, edges: list[int], offset: int, inner: bool) -> Lists:
    """`rows.cells` by a loop over columns; see there for who owns a cell."""
    starts, base = spans.starts, spans.first + offset
    columns = len(edges) - 1
    cells = Lists.blank(columns)
    left, right, split, merged = cells
    drawn: set[int] = set()
    started = bisect_left(starts, edges[0])
    ends, now_ns = spans.ends, spans.now_ns
    following = 0
    while following < columns:
        column = following
        begin, finish = edges[column], edges[column + 1]
        first = min(bisect_right(ends, begin), started)
        before, started = started, bisect_left(starts, finish, started)
        merged[column] = started - before
        if begin >= now_ns:
            break
        following += 1
        if started <= first:  # on to where the next one begins
            following = columns if started == len(starts) else bisect_right(edges, starts[started]) - 1
            continue
        if not column and not inner and first < before:
            merged[0] += 1  # it began before the window
        owner = _owner(spans, first, started - 1, begin, finish)
        low, high = spans.eighths(owner, begin, finish)
        if low == 0 and high == EIGHTHS:
            # So it has the columns up to the one in which it ends.
            following = max(following, bisect_right(edges, spans.shown(owner)[1]) - 1)
            left[column:following] = [owner + base] * (following - column)
        elif low == 0:
            left[column], split[column] = owner + base, high
            if owner + 1 < started:
                after = spans.eighths(owner + 1, begin, finish)
                if after[0] <= high and after[1] == EIGHTHS:
                    right[column] = owner + 1 + base
                    drawn.add(owner + 1)
        elif high == EIGHTHS:
            right[column], split[column] = owner + base, low
            if owner - 1 >= first:
                previous = spans.eighths(owner - 1, begin, finish)
                if previous[1] >= low and previous[0] == 0:
                    left[column] = owner - 1 + base
                    drawn.add(owner - 1)
        elif low > EIGHTHS - high:
            right[column], split[column] = owner + base, EIGHTHS - (high - low)
        else:
            left[column], split[column] = owner + base, high - low
        drawn.add(owner)
    for index in drawn:
        at = bisect_right(edges, starts[index]) - 1
        if at >= 0 or not inner:
            merged[max(at, 0)] -= 1
    return cells


def _owner(spans: Touching, first: int, last: int, begin: int, finish: int) -> int:
    """Of the spans from `first` to `last` the one that owns the cell."""
    if first == last:
        return first
    centre = begin + (finish - begin) // 2
    middle = bisect_right(spans.starts, centre) - 1
    if middle >= 0 and spans.shown(middle)[1] > centre:
        return middle
    # The first reaches in from the left and the last out to the right, if anything does.
    start, end = spans.shown(first)
    cover = end - (start if start > begin else begin)
    start, end = spans.shown(last)
    return first if cover >= (end if end < finish else finish) - start else last


def _overlay(under: Lists, over: Lists) -> Lists:
    """`rows.overlay` by a loop over columns."""
    for at, (left, right, split) in enumerate(zip(over.left, over.right, over.split, strict=True)):
        under.merged[at] += over.merged[at]
        if left == right == BLANK:
            continue
        beneath = under.left[at], under.right[at], under.split[at]
        if left == BLANK:
            left = beneath[0]  # noqa: PLW2901
            if left == BLANK and beneath[2] <= split // 2:
                left = beneath[1]  # noqa: PLW2901
        if split == EIGHTHS:
            right = BLANK  # noqa: PLW2901
        elif right == BLANK:
            right = beneath[0] if beneath[2] == EIGHTHS else beneath[1]  # noqa: PLW2901
        under.left[at], under.right[at], under.split[at] = left, right, split
    return under


def heights(series: Series, kind: str, top: float, edges: list[int], now_ns: int) -> list[int]:
    """Chart heights as `rows.levels` gives them of `rows.gauge_columns` or, where `kind` is ``rate``, of
    `rows.rate_columns`. `edges` as of `cells`.
    """
    starts, ends, values = series
    if len(edges) - 1 <= MOST_COLUMNS:
        low = int(ends.searchsorted(edges[0], "right"))
        high = int(starts.searchsorted(min(edges[-1], now_ns), "left"))
        if high - low <= MOST_SAMPLES:
            part = (starts[low:high].tolist(), ends[low:high].tolist(), values[low:high].tolist())
            of = _highest if kind == "rate" else _mean
            scale = rows.LEVELS / top if top > 0 else 0.0
            return [_height(value, scale) for value in _columns(part, of, edges, now_ns)]
    per_column = rows.rate_columns if kind == "rate" else rows.gauge_columns
    return [
        int(height) for height in rows.levels(per_column(*series, np.array(edges, np.int64), now_ns), top)
    ]


def _columns(
    samples: tuple[list[int], list[int], list[float]], of: Of, edges: list[int], now_ns: int
) -> list[float]:
    """What `of` says of the samples that touch each column, given the nanoseconds that each has of it."""
    found: list[float] = []
    measured = [
        (start, end, value)
        for start, end, value in zip(*samples, strict=True)
        if end > start and math.isfinite(value)
    ]
    at = 0
    for begin, edge in pairwise(edges):
        finish = min(edge, now_ns)
        if finish <= begin:
            found.append(math.nan)
            continue
        while at < len(measured) and measured[at][1] <= begin:
            at += 1
        if at < len(measured) and measured[at][0] <= begin and measured[at][1] >= finish:
            found.append(measured[at][2])
            continue
        inside: list[tuple[int, float]] = []
        for start, end, value in measured[at:]:
            if start >= finish:
                break
            inside.append((min(end, finish) - max(start, begin), value))
        found.append(of(inside) if inside else math.nan)
    return found


def _mean(inside: list[tuple[int, float]]) -> float:
    return sum(length * value for length, value in inside) / sum(length for length, _ in inside)


def _highest(inside: list[tuple[int, float]]) -> float:
    return max(value for _, value in inside)


def _height(value: float, scale: float) -> int:
    if math.isnan(value):
        return -1
    return max(1, min(math.floor(value * scale + rows.HALF), rows.LEVELS)) if value > 0 else 0
