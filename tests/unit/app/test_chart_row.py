"""A chart brought up to date is the chart drawn afresh, whatever comes of its samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_top import growth
from cuzk_top.model import CounterData, Session
from cuzk_top.theme import Theme
from cuzk_top.viewport import Axis, Window
from cuzk_top.widgets import chart_row
from cuzk_top.widgets.areas import Areas
from cuzk_top.widgets.cell_line import CellLine
from cuzk_top.widgets.looks import Looks
from cuzk_top.widgets.paint import Pen

COLUMNS, COLUMN_NS = 30, 100
ROOM = 200


@dataclass
class Series:
    """Samples as the store hands them out: views of arrays that grow, others once some were taken back."""

    kind: str
    starts: np.ndarray = field(default_factory=lambda: np.zeros(ROOM, np.int64))
    ends: np.ndarray = field(default_factory=lambda: np.zeros(ROOM, np.int64))
    values: np.ndarray = field(default_factory=lambda: np.zeros(ROOM))
    count: int = 0

    def add(self, length: int, value: float) -> None:
        """One more, behind the last."""
        start = int(self.ends[self.count - 1]) if self.count else 0
        self.starts[self.count], self.ends[self.count] = start, start + length
        self.values[self.count] = value
        self.count += 1

    def take_back(self, count: int) -> None:
        """The newest ones."""
        self.count = max(0, self.count - count)
        self.starts, self.ends, self.values = self.starts.copy(), self.ends.copy(), self.values.copy()

    def counter(self) -> CounterData:
        n = self.count
        return CounterData(
            "made", "made", "%", self.kind, "cpu msm", self.ends[:n], self.starts[:n], self.values[:n]
        )


class Drawn:
    """A line with one chart in it."""

    def __init__(self) -> None:
        theme = Theme()
        self.areas = Areas(theme, Pen(theme), Looks(Session()))
        self.line = CellLine(COLUMNS)

    def draw(self, counter: CounterData, t0_ns: int, now_ns: int) -> tuple[str, list[int]]:
        """Characters, and the styles' identities."""
        window = Window(t0_ns, t0_ns + COLUMNS * COLUMN_NS)
        self.areas.begin(window, COLUMNS, Axis(1, (), 0), None, now_ns)
        if not self.areas.rests("counter made", self.line, counter, now_ns):
            self.areas.chart(counter, self.line, 0, now_ns)
        return self.line.text, [id(style) for style in self.line.styles]


@settings(max_examples=200, deadline=None)
@given(st.data())
@pytest.mark.parametrize("kind", ["gauge", "rate"])
def test_a_chart_that_goes_on_is_the_chart_afresh(kind: str, data: st.DataObject) -> None:
    """Samples come, end a moment after now, or are taken back for others; a page turns."""
    series, kept, now, t0 = Series(kind), Drawn(), 0, 0
    counter = series.counter()
    for _ in range(data.draw(st.integers(2, 14))):
        what = data.draw(st.sampled_from(["add", "add", "add", "wait", "replace", "page"]))
        if what == "replace":
            series.take_back(data.draw(st.integers(1, 3)))
        if what in ("add", "replace"):
            for _ in range(data.draw(st.integers(1, 4))):
                length = data.draw(st.sampled_from([1, 30, 90, 100, 250]))
                series.add(length, data.draw(st.sampled_from([0.0, 1.0, 40.0, 47.0, 100.0, float("nan")])))
            counter = series.counter()
        if what == "page":
            t0 = max(0, now - data.draw(st.integers(0, 500)))
        last = int(counter.t_ns[-1]) if len(counter.t_ns) else 0
        # a probe is read after the prover: the last sample may end behind now
        now = max(now, last - data.draw(st.sampled_from([0, 0, 1, 15, 60, 130])))
        now += data.draw(st.sampled_from([0, 0, 5, 70, 300])) if what == "wait" else 0
        assert kept.draw(counter, t0, now) == Drawn().draw(counter, t0, now)


def test_of_newest_samples_that_were_replaced_the_rest_is_kept() -> None:
    """Ten samples of 100 ns, the last three replaced: drawn anew from 700 ns on, and no earlier."""
    series = Series("gauge")
    for _ in range(10):
        series.add(100, 40.0)
    before = series.counter()
    series.take_back(3)
    for _ in range(4):
        series.add(100, 100.0)
    after = series.counter()
    differ: Callable[..., int] = chart_row._differ_from
    assert differ(before, after, 0) == differ(before, after, 350) == 700
    assert differ(before, before, 0) == growth.NOTHING_NS
    assert differ(before, after, 900) == growth.ALL_NS  # nothing that is seen is known to be the same
