"""From sorted spans and samples to the cells of one screen row: numpy only, no drawing.

A cell is at most two fills, left and right of a split counted in eighths, because that is what a terminal
cell can show with one glyph, one foreground and one background. A row costs O(log n + columns) whatever its
number of spans: everything goes through `searchsorted`, nothing looks at each span.

Who owns a cell: the span that covers its centre; if none does, the first or the last span in it, whichever
covers more (the first when equal). A span as wide as a cell therefore always owns one. Spans that own none
are not dropped but counted in the column where they start (`Cells.merged`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cuzk_top.viewport import Int64s

Float64s = NDArray[np.float64]

BLANK = -1
EIGHTHS = 8
LEVELS = 7
"""Chart steps; the free eighth keeps rows apart (palette: charts)."""
HALF = 0.5 + 1e-9
"""Half a chart step goes up, and so does what misses it by rounding: sums in another order look the same."""
SOURCE_SHIFT = 40
"""Cell codes are ``source << 40 | index``: a display row may draw several sources over each other."""


class Cells(NamedTuple):
    """One row of `columns` cells. Codes name spans (see `SOURCE_SHIFT`), `BLANK` is nothing."""

    left: Int64s
    right: Int64s
    split: NDArray[np.uint8]
    """1..8: the left fill ends after so many eighths. 8: the left fill has the whole cell."""
    merged: Int64s
    """Spans that begin in this column and are drawn nowhere."""


class Spans(NamedTuple):
    """Spans of one row up to `now_ns`: sorted, non-overlapping, the last one possibly open (index
    ``len(start_ns)``).
    """

    start_ns: Int64s
    end_ns: Int64s
    open_ns: int | None
    now_ns: int

    @classmethod
    def until(cls, start_ns: Int64s, end_ns: Int64s, open_ns: int | None, now_ns: int) -> Spans:
        """Clip to the play head: later spans vanish, a span across it ends at it. Views, no copies."""
        count = len(start_ns)
        if count and start_ns[-1] >= now_ns:
            count = int(np.searchsorted(start_ns, now_ns, "left"))
        return cls(
            start_ns[:count],
            end_ns[:count],
            open_ns if open_ns is not None and open_ns < now_ns else None,
            now_ns,
        )

    @property
    def total(self) -> int:
        return len(self.start_ns) + (self.open_ns is not None)

    def before(self, moments: Int64s) -> Int64s:
        """How many spans start before each of ascending moments."""
        low, high = self.start_ns.searchsorted(moments[[0, -1]]).tolist()
        found = low + self.start_ns[low:high].searchsorted(moments)
        if self.open_ns is not None:
            found += self.open_ns < moments
        return np.asarray(found, dtype=np.int64)

    def take(self, index: Int64s, starts: Int64s, ends: Int64s) -> None:
        """Starts and ends of the spans by number, written into `starts` and `ends`; the open one ends now.

        What is asked for behind the last or before the first gives one of these.
        """
        closed = len(self.start_ns)
        if closed:
            self.start_ns.take(index, out=starts, mode="clip")
            self.end_ns.take(index, out=ends, mode="clip")
        if self.open_ns is not None:
            beyond = index >= closed if closed else slice(None)
            starts[beyond], ends[beyond] = self.open_ns, self.now_ns

    def covering(self, moments: Int64s) -> Int64s:
        """Number of the span that covers each of ascending moments, or `BLANK`."""
        index = self.before(moments + 1) - 1
        now = np.array([[self.now_ns]], dtype=np.int64)
        _, ends = _both([self], np.maximum(index, 0)[None], now)
        covered = (index >= 0) & (moments < self.now_ns) & (ends[0] > moments)
        return np.where(covered, index, BLANK)


def blank(columns: int) -> Cells:
    """A row without spans."""
    nothing = np.full(columns, BLANK, dtype=np.int64)
    return Cells(
        nothing, nothing.copy(), np.full(columns, EIGHTHS, dtype=np.uint8), np.zeros(columns, dtype=np.int64)
    )


def cells(spans: Spans, edges: Int64s, source: int = 0, inner: bool = False) -> Cells:
    """The cells of one source. `edges` is int64[columns + 1] of nanoseconds, strictly increasing.

    `inner`: these are the last columns of a wider window, in whose other columns a span that reaches in here
    is drawn or counted already.
    """
    return stacked([(source, spans)], edges, inner)


def stacked(sources: Sequence[tuple[int, Spans]], edges: Int64s, inner: bool = False) -> Cells:
    """The cells of several sources, by number, each drawn over those before it; else as `cells`."""
    there = [(number, spans) for number, spans in sources if spans.total]
    if not there:
        return blank(len(edges) - 1)
    each = _each([spans for _, spans in there], edges, inner)
    offset = np.array([[number] for number, _ in there], dtype=np.int64) << SOURCE_SHIFT
    left = np.where(each.left >= 0, each.left + offset, BLANK)
    right = np.where(each.right >= 0, each.right + offset, BLANK)
    layers = [Cells(*layer) for layer in zip(left, right, each.split, each.merged, strict=True)]
    return reduce(overlay, layers)


def _each(sources: Sequence[Spans], edges: Int64s, inner: bool) -> Cells:
    """The cells of each of the sources, one a line: arrays of [sources, columns], codes without a source.

    All at once, since numpy's cost here is calls, not elements.
    """
    columns = len(edges) - 1
    begin, finish = edges[:-1], edges[1:]
    centre = begin + (finish - begin) // 2
    now = np.array([[spans.now_ns] for spans in sources], dtype=np.int64)
    # How many spans start before each edge and up to each centre, of which those after an edge come first.
    moments = np.empty(2 * columns + 1, dtype=np.int64)
    moments[0::2], moments[1::2] = edges, centre + 1
    started = np.array([spans.before(moments) for spans in sources])
    starting, middle = started[:, 0::2], started[:, 1::2] - 1

    starts, ends = _both(sources, np.concatenate([starting - 1, starting[:, :-1], middle], axis=1), now)
    last_starts, last_ends = starts[:, 1 : columns + 1], ends[:, 1 : columns + 1]
    next_starts, next_ends = starts[:, columns + 1 : 2 * columns + 1], ends[:, columns + 1 : 2 * columns + 1]
    # Of the spans that started before a column only the last one can reach into it.
    reaches_in = (starting[:, :-1] > 0) & (ends[:, :columns] > begin)
    first = starting[:, :-1] - reaches_in
    present = (starting[:, 1:] > first) & (begin < now)
    last = np.maximum(starting[:, 1:] - 1, first)
    first_starts = np.where(reaches_in, starts[:, :columns], next_starts)
    first_ends = np.where(reaches_in, ends[:, :columns], next_ends)
    at_centre = present & (middle >= 0) & (ends[:, 2 * columns + 1 :] > centre)
    first_cover = np.minimum(first_ends, finish) - np.maximum(first_starts, begin)
    last_cover = np.minimum(last_ends, finish) - np.maximum(last_starts, begin)
    owner = np.where(at_centre, middle, np.where(first_cover >= last_cover, first, last))

    starts, ends = _both(sources, np.concatenate([owner - 1, owner, owner + 1], axis=1), now)
    starts, ends = starts.reshape(-1, 3, columns), ends.reshape(-1, 3, columns)
    lows, highs = _eighths(starts, ends, begin, finish)
    before_low, low, after_low = lows[:, 0], lows[:, 1], lows[:, 2]
    before_high, high, after_high = highs[:, 0], highs[:, 1], highs[:, 2]
    ends_here = (low == 0) & (high < EIGHTHS)
    starts_here = (low > 0) & (high == EIGHTHS)
    within = (low > 0) & (high < EIGHTHS)
    # A neighbour shares the cell only if the two meet in it: a visible gap must stay a gap.
    next_fills = ends_here & (owner + 1 < starting[:, 1:]) & (after_low <= high) & (after_high == EIGHTHS)
    previous_fills = starts_here & (owner - 1 >= first) & (before_high >= low) & (before_low == 0)
    lean_right = within & (low > EIGHTHS - high)
    on_right = starts_here | lean_right

    # Of the span before the owner, the owner, and the one behind it: which fills each part of the cell.
    left = np.where(on_right, np.where(previous_fills, owner - 1, BLANK), owner)
    right = np.where(on_right, owner, np.where(next_fills, owner + 1, BLANK))
    split = np.where(
        starts_here, low, np.where(lean_right, EIGHTHS - (high - low), np.where(within, high - low, high))
    )
    left = np.where(present, left, BLANK)
    right = np.where(present, right, BLANK)
    split = np.where(present, split, EIGHTHS)
    merged = np.diff(starting, axis=1)
    if not inner:
        merged[:, 0] += present[:, 0] & reaches_in[:, 0]  # it began before the window
    left_starts = np.where(on_right, starts[:, 0], starts[:, 1])
    right_starts = np.where(on_right, starts[:, 1], starts[:, 2])
    drawn = np.stack([left, right], axis=2).reshape(len(sources), -1)
    merged -= _drawn(drawn, np.stack([left_starts, right_starts], axis=2).reshape(drawn.shape), edges, inner)
    return Cells(left, right, split.astype(np.uint8), merged)


def _both(sources: Sequence[Spans], index: Int64s, now_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Starts and ends of spans by number, a line a source; ends clipped to now.

    An empty span is given one nanosecond, so that it can be seen.
    """
    starts, ends = np.empty(index.shape, np.int64), np.empty(index.shape, np.int64)
    for line, spans in enumerate(sources):
        spans.take(index[line], starts[line], ends[line])
    return starts, np.maximum(np.minimum(ends, now_ns), starts + 1)


def _eighths(starts: Int64s, ends: Int64s, begin: Int64s, finish: Int64s) -> tuple[Int64s, Int64s]:
    """First and last eighth of the cell that the span covers, to the nearest, at least one wide."""
    width = finish - begin
    double = 2 * width
    low = (np.minimum(np.maximum(starts - begin, 0), width) * (2 * EIGHTHS) + width) // double
    high = (np.minimum(np.maximum(ends - begin, 0), width) * (2 * EIGHTHS) + width) // double
    low = np.minimum(low, EIGHTHS - 1)
    return low, np.maximum(high, low + 1)


def _drawn(codes: Int64s, starts: Int64s, edges: Int64s, inner: bool) -> Int64s:
    """Of each source how many of the drawn spans begin in each column.

    `codes` are what the columns' parts show, from left to right, which is in the order of time; `starts` when
    these begin.
    """
    columns = len(edges) - 1
    seen = np.maximum.accumulate(codes, axis=1)
    fresh = codes > np.concatenate([np.full((len(codes), 1), BLANK), seen[:, :-1]], axis=1)
    at = np.searchsorted(edges, starts[fresh], "right") - 1
    place = np.nonzero(fresh)[0] * columns + np.minimum(np.maximum(at, 0), columns - 1)
    if inner:
        place = place[at >= 0]
    counts = np.bincount(place, minlength=len(codes) * columns)
    return counts.reshape(len(codes), columns).astype(np.int64, copy=False)


def overlay(under: Cells, over: Cells) -> Cells:
    """Draw `over` on `under`; where `over` leaves part of a cell free, that part shows `under`."""
    nothing = (over.left == BLANK) & (over.right == BLANK)
    beneath_left = np.where(
        under.left != BLANK, under.left, np.where(under.split <= over.split // 2, under.right, BLANK)
    )
    beneath_right = np.where(
        under.split == EIGHTHS, under.left, np.where(under.right != BLANK, under.right, BLANK)
    )
    left = np.where(over.left != BLANK, over.left, beneath_left)
    whole = over.split == EIGHTHS
    right = np.where(whole, BLANK, np.where(over.right != BLANK, over.right, beneath_right))
    return Cells(
        np.where(nothing, under.left, left),
        np.where(nothing, under.right, right),
        np.where(nothing, under.split, over.split).astype(np.uint8),
        under.merged + over.merged,
    )


def gauge_columns(start_ns: Int64s, end_ns: Int64s, values: Float64s, edges: Int64s, now_ns: int) -> Float64s:
    """Time-weighted mean of the samples in each column, float64[columns]; NaN where there is no sample.

    A sample holds over its interval ``[start_ns, end_ns)``; intervals are sorted and do not overlap. Samples
    that are NaN, and time after `now_ns`, count as not measured.
    """
    columns = len(edges) - 1
    known = _known(start_ns, end_ns, values, edges, now_ns)
    if known is None:
        return np.full(columns, np.nan)
    starts, ends, held = known
    points = np.minimum(edges, now_ns)
    lengths = (ends - starts).astype(np.float64)
    time_before = np.concatenate([[0.0], np.cumsum(lengths)])
    area_before = np.concatenate([[0.0], np.cumsum(lengths * held)])
    index = np.searchsorted(starts, points, "right") - 1
    inside = np.clip(points - starts[index], 0, ends[index] - starts[index]).astype(np.float64)
    inside = np.where(index >= 0, inside, 0.0)
    index = np.maximum(index, 0)
    time = time_before[index] + inside
    area = area_before[index] + inside * held[index]
    covered = np.diff(time)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(covered > 0, np.diff(area) / covered, np.nan)


def rate_columns(start_ns: Int64s, end_ns: Int64s, values: Float64s, edges: Int64s, now_ns: int) -> Float64s:
    """Maximum of the samples whose interval touches each column, float64[columns]; NaN where there is
    none.
    """
    columns = len(edges) - 1
    known = _known(start_ns, end_ns, values, edges, now_ns)
    if known is None:
        return np.full(columns, np.nan)
    starts, ends, held = known
    begin, finish = edges[:-1], np.minimum(edges[1:], now_ns)
    first = np.searchsorted(ends, begin, "right")
    beyond = np.searchsorted(starts, finish, "left")
    present = (beyond > first) & (begin < now_ns)
    pairs = np.empty(2 * columns, dtype=np.int64)
    pairs[0::2], pairs[1::2] = first, np.maximum(beyond, first)
    padded = np.append(held, -np.inf)  # reduceat wants every index inside
    return np.where(present, np.maximum.reduceat(padded, np.minimum(pairs, len(held)))[0::2], np.nan)


def _known(
    start_ns: Int64s, end_ns: Int64s, values: Float64s, edges: Int64s, now_ns: int
) -> tuple[Int64s, Int64s, Float64s] | None:
    """The measured samples that touch the window."""
    low = int(np.searchsorted(end_ns, edges[0], "right"))
    high = int(np.searchsorted(start_ns, min(int(edges[-1]), now_ns), "left"))
    if high <= low:
        return None
    starts, ends, held = start_ns[low:high], end_ns[low:high], values[low:high]
    valid = np.isfinite(held) & (ends > starts)
    if not valid.all():
        starts, ends, held = starts[valid], ends[valid], held[valid]
    return (starts, ends, held) if len(starts) else None


def levels(values: Float64s, top: float) -> NDArray[np.int8]:
    """Chart heights: -1 no data, 0 zero (draws nothing), 1..7 the rest; anything above zero is at least 1."""
    known = np.isfinite(values)
    scaled = np.where(known, values, 0.0) * (LEVELS / top if top > 0 else 0.0)
    height = np.clip(np.floor(scaled + HALF), 1, LEVELS)
    height = np.where(np.where(known, values, 0.0) > 0, height, 0)
    return np.where(known, height, -1).astype(np.int8)


def chart_top(highest: float, limit: float | None) -> float:
    """Top of a chart: the natural limit, or the next 1-2-5 step at or above the highest value seen."""
    if limit is not None and limit > 0:
        return max(limit, highest)
    if not np.isfinite(highest) or highest <= 0:
        return 1.0
    unit = 10.0 ** np.floor(np.log10(highest))
    for factor in (1.0, 2.0, 5.0, 10.0):
        if unit * factor >= highest * (1 - 1e-12):
            return float(unit * factor)
    return float(unit * 10)


def whole(cells: Cells) -> Cells:
    """Rounded to whole cells, for terminals without partial blocks: half a cell or more is a cell.

    A span that has no other cell keeps the one it has, so that rounding hides nothing.
    """
    left, right, split = cells.left, cells.right, cells.split
    before = np.concatenate([[BLANK], np.where(split[:-1] < EIGHTHS, right[:-1], left[:-1])])
    after = np.concatenate([left[1:], [BLANK]])
    more_left = (split * 2 >= EIGHTHS) | (left != before)
    more_right = (split * 2 <= EIGHTHS) | (right != after)
    partial = split < EIGHTHS
    only_left = np.where(more_left, left, BLANK)
    only_right = np.where(more_right, right, BLANK)
    both = np.where(split * 2 >= EIGHTHS, left, right)
    chosen = np.where(right == BLANK, only_left, np.where(left == BLANK, only_right, both))
    owner = np.where(partial, chosen, left)
    return Cells(owner, np.full_like(owner, BLANK), np.full_like(split, EIGHTHS), cells.merged)
