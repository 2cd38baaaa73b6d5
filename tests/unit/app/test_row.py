"""What a row sends, interpreted by a small terminal, against Rich's own rendering of its segments."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from cuzk_top.widgets.row import Row

Cell = tuple[str, tuple[str, ...]]
console = Console(force_terminal=True, color_system="truecolor")
colours = st.sampled_from([None, "default", "#112233", "#445566", "color(9)", "cyan"])
styles = st.builds(
    lambda fg, bg, bold, dim, reverse: Style(
        color=fg, bgcolor=bg, bold=bold or None, dim=dim or None, reverse=reverse or None
    ),
    colours, colours, st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
runs = st.lists(st.tuples(st.text("ab ", min_size=1, max_size=3), st.one_of(st.none(), styles)), max_size=8)


def shown(sequence: str) -> list[Cell]:
    """Cells as a terminal shows them; of a blank that is not reversed only the background."""
    state = {"fg": "39", "bg": "49", "bold": "", "dim": "", "reverse": ""}
    cells: list[Cell] = []
    for codes, letter in re.findall(r"\x1b\[([\d;]*)m|(.)", sequence):
        if letter:
            looks = ["bg"] if letter == " " and not state["reverse"] else list(state)
            cells.append((letter, tuple(state[look] for look in looks)))
            continue
        numbers = codes.split(";")
        while numbers:
            code = numbers.pop(0)
            if code == "0":
                state.update(fg="39", bg="49", bold="", dim="", reverse="")
            elif code in ("38", "48"):
                count = 4 if numbers[0] == "2" else 2
                state["fg" if code == "38" else "bg"] = ";".join([code, *numbers[:count]])
                del numbers[:count]
            elif code == "22":
                state.update(bold="", dim="")
            elif code in ("1", "2", "7", "27"):
                name = {"1": "bold", "2": "dim", "7": "reverse", "27": "reverse"}[code]
                state[name] = "" if code == "27" else "on"
            else:
                state["bg" if code.startswith(("4", "10")) else "fg"] = code
    assert all(state[look] == empty for look, empty in (("fg", "39"), ("bg", "49"), ("bold", "")))
    return cells


@given(runs)
def test_a_row_looks_like_its_segments(parts: list[tuple[str, Style | None]]) -> None:
    segments = [Segment(text, style) for text, style in parts]
    assert shown(Row(segments).render(console)) == shown(Strip(segments).render(console))


def test_only_changes_are_sent() -> None:
    ink, words = Style(color="#112233", bgcolor="#445566"), Style(color="#aabbcc", bgcolor="#445566")
    row = Row([Segment("a", ink), Segment("  ", words), Segment("b", words)])
    assert row.render(console) == "\x1b[38;2;17;34;51;48;2;68;85;102ma  \x1b[38;2;170;187;204mb\x1b[0m"
