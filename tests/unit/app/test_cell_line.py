"""Which cells of a line are written, and lines of words on a terminal that is painted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.segment import Segment
from rich.style import Style
from test_brush import Terminal, made
from textual.geometry import Region
from textual.strip import Strip

from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.cell_line import CellLine

INK, DIM = Style(color="#ffffff"), Style(color="#888888")
fills = st.lists(
    st.tuples(st.integers(0, 9), st.text("ab", min_size=1, max_size=9), st.sampled_from([INK, DIM])),
    max_size=8,
)


@given(fills)
def test_the_runs_written_are_the_cells_that_differ(parts: list[tuple[int, str, Style]]) -> None:
    line = CellLine(20)
    cells = list(zip(line.glyphs, line.styles, strict=True))
    for x, text, style in parts:
        before = list(cells)
        cells[x : x + len(text)] = [(letter, style) for letter in text]
        line.fresh.clear()
        line.fill(x, text, style)
        told = dict(enumerate(before))
        for at, written, look in line.fresh:
            told.update({at + i: (letter, look) for i, letter in enumerate(written)})
            # a run begins and ends with a cell that was another before
            assert before[at] != told[at] and before[at + len(written) - 1] != told[at + len(written) - 1]
        assert list(told.values()) == cells == list(zip(line.glyphs, line.styles, strict=True))
    assert "".join(text for _, text, _ in line.runs()) == line.text == "".join(letter for letter, _ in cells)
    assert line.strip().text == line.text


def test_a_character_of_two_cells_stands_in_both() -> None:
    line = CellLine(6)
    line.put(0, [Segment("a\u4e2d", INK), Segment("b", DIM)])
    assert (line.glyphs, line.text) == (["a", "\u4e2d", "", "b", " ", " "], "a\u4e2db  ")
    line.fresh.clear()
    line.put(0, [Segment("a\u4e2d", INK), Segment("c", DIM)])
    assert line.fresh == [(3, "c", DIM)]
    line.fresh.clear()
    line.put(0, [Segment("abc", INK)])
    assert line.fresh == [(1, "bc", INK)]
    assert line.strip().cell_length == 6


class Placed(Canvas):
    """Without an application around it."""

    left = 0

    @property
    def region(self) -> Region:
        return Region(4, 1, 3, 2)

    def refresh(self, *_: object, **__: object) -> Placed:  # type: ignore[override]
        self.left += 1
        return self


def test_of_lines_of_words_only_other_cells_are_written() -> None:
    canvas, terminal = Placed("words"), Terminal()
    canvas.brush = made(terminal)
    strips = [Strip([Segment(text, INK)]) for text in ("abc", "def")]
    canvas.brush.take()
    canvas.show(strips)
    assert canvas.left == 1  # the first picture is Textual's
    canvas.show([strips[0], Strip([Segment("dxf", INK)])])
    canvas.show([strips[0], Strip([Segment("dxy", INK)])])
    canvas.brush.lay_down()
    assert terminal.written[1] == "\x1b[38;2;255;255;255m\x1b[3;6Hx\x1b[3;7Hy\x1b[0m"
    # what Textual draws is not taken for painted
    canvas.show([strips[0], strips[1]])
    canvas.brush.take()
    canvas.show([strips[0], Strip([Segment("dxf", INK)])])
    canvas.brush.lay_down()
    assert canvas.left == 2 and "\x1b[3;6Hx" in terminal.written[4]
