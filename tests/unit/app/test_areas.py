"""Rows of the time area that come from names of a foreign process, and what a frame writes of them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "ui"))
import sessions as build

from cuzk_top.model import (
    FLAG_OPEN,
    KIND_GPU_KERNEL,
    KIND_SPAN,
    Batch,
    Columns,
    Name,
    Track,
)
from cuzk_top.screens.analysis import NO_INSIGHT
from cuzk_top.screens.lanes import Fold, display_rows
from cuzk_top.store import Store
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


def held(spans: list[tuple[int, int, int | None]]) -> str:
    """The lane of who holds GPU 0: (partition, start, end) in ms, no end: still held."""
    session, _ = build.session_of([])
    session.names += [Name("gpu.held", "device", "partition"), Name("kernel")]
    session.tracks[3] = Track(3, "gpu", "stream", 0)
    number = len(session.names) - 2
    now_ns = build.BASE_NS + 3_500 * build.MS

    def columns(which: list[tuple[int, int, int | None]], flags: int) -> Columns:
        start = [build.BASE_NS + at * build.MS for _, at, _ in which]
        end = [now_ns if at is None else build.BASE_NS + at * build.MS for _, _, at in which]
        partitions = [partition for partition, _, _ in which]
        return Columns.make(
            len(which),
            start_ns=start,
            end_ns=end,
            name=number,
            track=1,
            kind=KIND_SPAN,
            a1=partitions,
            flags=flags,
        )

    kernel = Columns.make(
        1, start_ns=build.BASE_NS, end_ns=build.BASE_NS + 1, name=number + 1, track=3, kind=KIND_GPU_KERNEL
    )
    store = Store()
    closed = columns([span for span in spans if span[2] is not None], 0)
    opened = columns([span for span in spans if span[2] is None], FLAG_OPEN)
    store.append(Batch(session, Columns.concat([closed, kernel]), opened, 0, now_ns))
    snapshot = store.snapshot()
    rows = display_rows(snapshot, ViewState(), NO_INSIGHT, Fold())
    row = next(row for row in rows if row.key == "gpu0.held")
    areas, line = Areas(ASCII, Pen(ASCII), Looks(snapshot.session)), CellLine(COLUMNS)
    areas.begin(WINDOW, COLUMNS, Axis(1, (), 0), None, now_ns)
    areas.lane(row, line, 0, now_ns)
    return line.text


def test_partitions_that_hold_a_gpu_are_numbered() -> None:
    """A column is 100 ms. A number stands where a blank fits behind it, one of one digit anywhere; now,
    3,500 ms, is in column 35, and its line behind that.
    """
    text = held([(0, 200, 600), (1, 600, 900), (12, 1_000, 1_200), (3, 1_500, 1_600), (10, 3_000, None)])
    #       0         1         2         3
    #       0123456789012345678901234567890123456789
    want = "  0...1.. ..   3              10... |"
    assert text == want.ljust(COLUMNS)
