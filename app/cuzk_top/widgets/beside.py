"""What stands beside the cells of a row: its label on the left, its numbers on the right."""

from __future__ import annotations

from typing import NamedTuple

from cuzk_top.model import CounterData
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.screens.layout import Layout
from cuzk_top.theme import Theme
from cuzk_top.widgets import axis_lines
from cuzk_top.widgets.looks import known_role
from cuzk_top.widgets.paint import Line


class Numbers(NamedTuple):
    """The right-hand column of one row: a value, and words beside it."""

    value: str = ""
    note: str = ""
    top: str = ""
    words: str = ""
    """In place of all of them, from the left."""


class Marked(NamedTuple):
    """How the user has marked a row."""

    under_cursor: bool
    focused: bool
    pinned: bool


def lane_label(row: DisplayRow, marked: Marked, layout: Layout, theme: Theme) -> Line:
    """The number of its GPU or its letter, and its name."""
    under_cursor, focused, pinned = marked
    line = Line(theme, layout.label_width, "row selection" if focused else "bar" if under_cursor else "page")
    letter = row.letter[:1].strip()
    name = row.label
    of_device = row.device is not None and name.startswith(f"{row.device} ")
    number = str(row.device) if of_device and row.device is not None and row.device < 10 else ""
    if number:
        line.put(number, "dim")
        name = name[2:]
    elif letter and not row.indent:
        _put_letter(line, letter, row)
    else:
        line.put(" ")
    line.put(">" if under_cursor else "^" if pinned else " ", "ink", focused)
    if number and letter and not row.indent:
        _put_letter(line, letter, row)
        line.put(" ")
    name = (" " * row.indent + name)[: layout.label_width - 1 - line.x]
    strong = focused or row.base.endswith(".busy")
    dull = (row.empty or row.kind == "ghost") and not under_cursor
    line.put(name, "ink" if strong else "dim" if dull else "text", strong)
    line.to(layout.label_width - 1)
    axis_lines.put_bar(line, theme)
    return line


def _put_letter(line: Line, letter: str, row: DisplayRow) -> None:
    """The lane's letter on its fill; the path's star is no fill."""
    if row.kind == "path":
        line.put(letter, "path", True)
    else:
        line.put(letter, "label", True, known_role(row.role))


def lane_numbers(numbers: Numbers, layout: Layout, theme: Theme) -> Line:
    """The time, its share and the last duration."""
    line = axis_lines.numbers_line(layout, theme)
    if numbers.words:
        return line.put(numbers.words).to(layout.width)
    line.right(numbers.value, layout.numbers_x + 4)
    if layout.compact:
        return line.right(numbers.note, layout.width, "dim").to(layout.width)
    line.right(numbers.note, layout.numbers_x + 9)
    return line.right(numbers.top, layout.width, "dim").to(layout.width)


def counter_label(counter: CounterData, layout: Layout, theme: Theme) -> Line:
    """Its name and unit."""
    line = Line(theme, layout.label_width).put("" if layout.compact else "  ").put(counter.label)
    line.to(layout.label_width - 1)
    axis_lines.put_bar(line, theme)
    return line


def counter_numbers(numbers: Numbers, layout: Layout, theme: Theme) -> Line:
    """The value now, the highest, and of how much."""
    line = axis_lines.numbers_line(layout, theme)
    line.right(numbers.value, layout.numbers_x + 4, "ink")
    line.right(numbers.top, layout.width if layout.compact else layout.numbers_x + 11)
    if not layout.compact and numbers.note:
        line.put(" ").put(numbers.note, "dim")
    return line.to(layout.width)
