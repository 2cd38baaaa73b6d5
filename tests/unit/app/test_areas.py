"""What a frame takes in while a session runs, and what waits for the next one."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "ui"))
import sessions as build

from cuzk_top.screens.analysis import NO_INSIGHT
from cuzk_top.screens.lanes import Fold, display_rows
from cuzk_top.theme import Theme
from cuzk_top.viewport import ViewState, Window
from cuzk_top.widgets.areas import Areas
from cuzk_top.widgets.looks import Looks
from cuzk_top.widgets.runs import Ground

COLUMNS = 40
WINDOW = Window(build.BASE_NS, build.BASE_NS + 4_000 * build.MS)
"""One column: 100 ms."""
ASCII = Theme("mono", "mono", ascii=True)


def drawn(areas: Areas, spans: list[build.SpanSpec], now_ms: float, runs: bool) -> str:
    snapshot = build.snapshot_of(spans, now_ms, counters=False)
    row = next(row for row in display_rows(snapshot, ViewState(), NO_INSIGHT, Fold()) if row.key == "ntt")
    areas.begin(WINDOW, (0, COLUMNS), Ground(("well",) * COLUMNS, -1))
    strips = areas.lane(row, Looks(snapshot.session), snapshot.now_ns, runs)
    return "".join(strip.text for strip in strips).rstrip()


def test_a_running_span_grows_every_frame_and_others_come_every_other() -> None:
    areas = Areas(ASCII)
    one: list[build.SpanSpec] = [("quotient", 0, None)]
    assert len(drawn(areas, one, 1_000, True)) == 10
    assert len(drawn(areas, one, 1_100, True)) == 11
    ended: list[build.SpanSpec] = [("quotient", 0, 1_150)]
    two: list[build.SpanSpec] = [*ended, ("quotient", 1_200, None)]
    assert len(drawn(areas, ended, 1_160, True)) == 12
    # a second span has begun: 140 ms after the last change it waits, 200 ms after it is taken in
    assert len(drawn(areas, two, 1_300, True)) == 12
    assert len(drawn(areas, two, 1_360, True)) == 14
    # a third one waits again, unless this is the last frame
    three: list[build.SpanSpec] = [*ended, ("quotient", 1_200, 1_370), ("quotient", 1_380, None)]
    assert len(drawn(areas, three, 1_460, True)) == 14
    assert len(drawn(areas, three, 1_460, False)) == 15


def test_names_cannot_steer_the_terminal() -> None:
    areas = Areas(ASCII)
    text = drawn(areas, [("quotient", 0, 3_000), ("quotient.\x1b[2J\u4e2d", 0, 3_000)], 3_500, False)
    assert text.isascii() and text.isprintable() and len(text) == 30
