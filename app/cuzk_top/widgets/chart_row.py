"""A row of a chart: a counter on the time axis. Only the columns of new samples are computed."""

from __future__ import annotations

import math

import numpy as np

from cuzk_top import growth, rows, tail
from cuzk_top.growth import Seen
from cuzk_top.model import CounterData
from cuzk_top.rows import LEVELS
from cuzk_top.theme import Theme
from cuzk_top.widgets.area_row import AreaRow, Frame
from cuzk_top.widgets.cell_line import CellLine
from cuzk_top.widgets.looks import known_role
from cuzk_top.widgets.paint import Pen

FEW = 16
"""So many samples are gone through more quickly without numpy."""


class ChartRow(AreaRow):
    """``▁`` to ``▇`` in the family's hue; zero and unknown draw nothing."""

    def __init__(self, line: CellLine, x: int, theme: Theme, pen: Pen) -> None:
        super().__init__(line, x)
        self._glyphs = theme.glyphs.charts
        self._pen = pen
        self._counter: CounterData | None = None
        self._seen: Seen | None = None
        self._highest = 0.0
        self._scale: object = None
        """What the top was chosen from."""
        self._top = 0.0
        self._role = ""
        self._heights: list[int] = []

    def draw(self, frame: Frame, counter: CounterData, place: object, now_ns: int) -> None:
        """Bring the line up to date. `place` is another object when all is to be drawn anew."""
        count = int(counter.start_ns.searchsorted(now_ns, "left"))
        seen = Seen(counter.start_ns[:count], counter.t_ns, None, now_ns)
        from_ns = growth.ALL_NS
        known = 0
        if self._seen is not None and self._counter is not None and place is self.place:
            from_ns = growth.changed_from(self._seen, seen)
            known = len(self._seen.start_ns) if from_ns != growth.ALL_NS else 0
            if from_ns == growth.ALL_NS and now_ns >= self._seen.now_ns:
                from_ns = min(_differ_from(self._counter, counter, frame.times[0]), self._seen.now_ns)
        self.place, self.source, self._counter, self._seen = place, counter, counter, seen
        last = counter.t_ns.item(-1) if len(counter.t_ns) else growth.ALL_NS
        self.settled_ns = last if last <= now_ns else growth.NOTHING_NS
        if from_ns == growth.NOTHING_NS:
            self.rest(frame)
            return
        self._highest = max(self._highest if known else 0.0, highest(counter.value[known:count]))
        scale = (self._highest, counter.top, counter.role)
        if scale != self._scale:
            self._scale = scale
            top, role = rows.chart_top(self._highest, counter.top), known_role(counter.role)
            if (top, role) != (self._top, self._role):
                self._top, self._role, from_ns = top, role, growth.ALL_NS
        limit = frame.reach(min(counter.t_ns.item(count - 1), now_ns)) if count else 0
        low = min(max(0, frame.reach(from_ns) - 1), len(self._heights), limit)
        del self._heights[low:]
        if low < limit:
            series = (counter.start_ns, counter.t_ns, counter.value)
            edges = frame.times[low : limit + 1]
            self._heights += tail.heights(series, counter.kind, self._top, edges, now_ns)
            if now_ns < last and count == len(counter.t_ns) and limit == frame.reach(last):
                self.settled_ns = now_ns if self._ends_as_it_is(frame, counter, now_ns) else growth.NOTHING_NS
        self.bring(frame, low, limit)

    def _ends_as_it_is(self, frame: Frame, counter: CounterData, now_ns: int) -> bool:
        """Whether what is still to come of the last sample, all in the last column, changes nothing there.

        Probes are read a moment after the prover, so their samples end a moment after now. The column's
        height goes from what it is to what it will be: where these are the same it stays.
        """
        edges = frame.times[len(self._heights) - 1 : len(self._heights) + 1]
        if counter.start_ns.item(-1) <= edges[0] < now_ns:
            return True  # it has the column for itself
        series = (counter.start_ns, counter.t_ns, counter.value)
        at_end = tail.heights(series, counter.kind, self._top, edges, counter.t_ns.item(-1))
        return at_end == self._heights[-1:]

    def write(self, frame: Frame, low: int) -> None:
        """Columns of one height together."""
        heights, surfaces = self._heights, frame.ground.surfaces
        begin = low
        while begin < self.limit:
            height, surface = heights[begin], surfaces[begin]
            end = begin + 1
            if height <= 0:
                while end < self.limit and heights[end] <= 0:
                    end += 1
                self.write_bare(frame, begin, end)
            else:
                while end < self.limit and heights[end] == height and surfaces[end] == surface:
                    end += 1
                glyphs = self._glyphs[min(height, LEVELS)] * (end - begin)
                self.line.fill(self.x + begin, glyphs, self._pen(self._role, surface))
            begin = end


def highest(values: rows.Float64s) -> float:
    """Highest finite one of some values; 0 without one."""
    if len(values) < FEW:
        return max((value for value in values.tolist() if math.isfinite(value)), default=0.0)
    values = values[np.isfinite(values)]
    return float(values.max()) if len(values) else 0.0


def _differ_from(before: CounterData, after: CounterData, begin_ns: int) -> int:
    """The moment from which on two counters differ, as far as can be seen behind `begin_ns`: of some the
    newest samples are taken back for better ones.
    """
    # The last sample that ends before it too: where that is the same, all before it end before it in both.
    low = max(0, int(before.t_ns.searchsorted(begin_ns, "right")) - 1)
    high = min(len(before.t_ns), len(after.t_ns))
    if low >= high:
        return growth.ALL_NS
    same = (before.start_ns[low:high] == after.start_ns[low:high]) & (
        before.t_ns[low:high] == after.t_ns[low:high]
    )
    same &= before.value[low:high] == after.value[low:high]
    first = high if same.all() else low + int(same.argmin())
    if first == low:
        return growth.ALL_NS
    starts = [one.start_ns.item(first) for one in (before, after) if first < len(one.start_ns)]
    return min(starts, default=growth.NOTHING_NS)
