"""Rows of the time area that come from names of a foreign process, and what a frame writes of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "ui"))
import sessions as build

from cuzk_top.screens.analysis import NO_INSIGHT
from cuzk_top.screens.lanes import Fold, display_rows
from cuzk_top.theme import Theme
from cuzk_top.viewport import Axis, ViewState, Window
from cuzk_top.widgets.areas import Areas
from cuzk_top.widgets.cell_line import CellLine
from cuzk_top.widgets.looks import Looks
from cuzk_top.widgets.paint import Pen

COLUMNS = 40
WINDOW = Window(build.BASE_NS, build.BASE_NS + 4_000 * build.MS)
"""One column: 100 ms."""
ASCII = Theme("mono", "mono", ascii=True)


class Drawn:
    """The lane of NTTs, frame by frame."""

    def __init__(self) -> None:
        self.looks = Looks(build.session_of([])[0])
        self.areas = Areas(ASCII, Pen(ASCII), self.looks)
        self.line = CellLine(COLUMNS)

    def draw(self, spans: list[build.SpanSpec], now_ms: float) -> str:
        snapshot = build.snapshot_of(spans, now_ms, counters=False)
        rows = display_rows(snapshot, ViewState(), NO_INSIGHT, Fold())
        row = next(row for row in rows if row.key == "ntt")
        self.looks.renew(snapshot.session)
        self.areas.begin(WINDOW, COLUMNS, Axis(1, (), 0), None, snapshot.now_ns)
        self.line.fresh.clear()
        self.areas.lane(row, self.line, 0, snapshot.now_ns)
        return self.line.text.rstrip("| ")


def test_every_frame_takes_in_what_has_begun_and_ended() -> None:
    drawn = Drawn()
    one: list[build.SpanSpec] = [("quotient", 0, None)]
    assert len(drawn.draw(one, 1_000)) == 10
    assert len(drawn.draw(one, 1_100)) == 11
    ended: list[build.SpanSpec] = [("quotient", 0, 1_150)]
    assert len(drawn.draw([*ended, ("quotient", 1_200, None)], 1_300)) == 13
    assert len(drawn.draw([*ended, ("quotient", 1_200, 1_370), ("quotient", 1_380, None)], 1_460)) == 15


def test_only_cells_that_differ_are_written() -> None:
    drawn = Drawn()
    one: list[build.SpanSpec] = [("quotient", 0, None)]
    drawn.draw(one, 1_000)
    drawn.draw(one, 1_200)
    # two cells of the span, one of them where the play head's line was; that is at 13 now, behind cell 12
    assert sorted(x for x, text, _ in drawn.line.fresh for x in range(x, x + len(text))) == [10, 11, 13]
    drawn.draw(one, 1_200)
    assert drawn.line.fresh == []


def test_names_cannot_steer_the_terminal() -> None:
    text = Drawn().draw([("quotient", 0, 3_000), ("quotient.\x1b[2J\u4e2d", 0, 3_000)], 3_500)
    assert text.isascii() and text.isprintable() and len(text) == 30
