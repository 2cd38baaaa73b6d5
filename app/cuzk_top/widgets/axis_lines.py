"""The lines of the time area that are no rows: scale, axis, selection and the counters' title."""

from __future__ import annotations

from typing import NamedTuple

from cuzk_top import figures, viewport
from cuzk_top.model import Snapshot
from cuzk_top.screens.layout import Layout
from cuzk_top.theme import Theme
from cuzk_top.viewport import Clock, ViewState
from cuzk_top.widgets.paint import Line
from cuzk_top.widgets.painted import Cell, Cells

MODES = {"page": "page", "follow": "follow", "fit": "fit", "all": "all", "hold": "fixed"}
UNITS: dict[Clock, str] = {"session": "seconds", "monotonic": "monotonic s", "utc": "UTC"}


class Origin(NamedTuple):
    """What the axis counts from."""

    clock: Clock
    ns: int

    def moment(self, t_ns: int, decimals: int) -> str:
        """A moment as the scale line says it."""
        if self.clock == "session":
            return figures.clock(t_ns - self.ns, decimals)
        return viewport.tick_label(t_ns, self.ns, decimals, self.clock)


def origin_of(snapshot: Snapshot, view: ViewState) -> Origin:
    """The clock that the view asks for, or the session's where a trace does not know the time of day."""
    real = snapshot.session.realtime_ns(snapshot.first_ns)
    offset = real - snapshot.first_ns if real is not None else None
    clock: Clock = "session" if view.clock == "utc" and offset is None else view.clock
    return Origin(clock, viewport.origin_of(clock, snapshot.first_ns, offset))


def put_bar(line: Line, theme: Theme) -> None:
    """The upright rule between areas, or a blank where surfaces separate them."""
    line.put(" " if theme.surfaces else theme.glyphs.vertical, "dim")


def numbers_line(layout: Layout, theme: Theme) -> Line:
    """A line that starts behind the time area."""
    line = Line(theme, layout.width, start=layout.label_width + layout.columns)
    put_bar(line, theme)
    return line.to(layout.numbers_x)


def scale_line(
    view: ViewState, layout: Layout, origin: Origin, measured: tuple[str, ...], theme: Theme
) -> Line:
    """The window, what a column is, the mode, and which sources measure."""
    window = view.window
    column_ns = window.width_ns / layout.columns
    decimals = figures.clock_decimals(column_ns)
    rule = " " if theme.surfaces else theme.glyphs.rule
    line = Line(theme, layout.width).put(f"{rule} ", "dim")
    line.put(origin.moment(window.t0_ns, decimals)).put(" to ").put(origin.moment(window.t1_ns, decimals))
    line.put(f" {rule} ", "dim").put("1 column = ", "dim").put(figures.spaced(round(column_ns)))
    line.put(f" {rule} ", "dim").put(MODES[view.mode]).put(" ")
    words = " ".join(measured)
    start = layout.width - len(words) - 12
    if words and start > line.x + 3:
        line.to(start, "dim", rule).put(" measured ", "dim").put(words).put(" ")
    return line.to(layout.width, "dim", rule)


def axis_ends(view: ViewState, layout: Layout, origin: Origin, theme: Theme) -> tuple[Line, Line]:
    """What stands beside the ticks: their unit, and what the numbers are."""
    left = Line(theme, layout.label_width)
    heading = UNITS[origin.clock] if not layout.compact else _per_column(view, layout)
    left.right(heading, layout.label_width - 1, "dim")
    put_bar(left, theme)
    right = numbers_line(layout, theme)
    if layout.compact:
        right.right("s", layout.numbers_x + 4, "dim")
    else:
        right.put("total s", "dim").right("last", layout.width, "dim")
    return left, right


def tick_labels(
    window: viewport.Window, columns: int, axis: viewport.Axis, origin: Origin
) -> list[tuple[int, str]]:
    """The labels of the ticks, with the columns where they begin."""
    labels = [
        (
            viewport.column_of(window, columns, tick),
            viewport.tick_label(tick, origin.ns, axis.decimals, origin.clock),
        )
        for tick in axis.ticks_ns
    ]
    return [(at, label) for at, label in labels if at + len(label) <= columns]


def axis_words(labels: list[tuple[int, str]], columns: int, now: int) -> tuple[str, int]:
    """The line of ticks, and the column where the word for now stands in it (-1: nowhere); labels that it
    would touch are left out. `now`: column of the play head, or -1.
    """
    text = [" "] * columns
    at_now = max(0, min(now - 1, columns - 3)) if now >= 0 else -1
    for at, label in labels:
        if at_now < 0 or at + len(label) < at_now or at > at_now + 3:
            text[at : at + len(label)] = label
    if at_now >= 0:
        text[at_now : at_now + 3] = "now"
    return "".join(text), at_now


def _per_column(view: ViewState, layout: Layout) -> str:
    """The scale of a narrow screen, where it has no line of its own."""
    value, unit = figures.duration(round(view.window.width_ns / layout.columns))
    forms = (f"{value} {unit}/col", f"{value}{unit}/col", f"{value}{unit}/c")
    return next((form for form in forms if len(form) < layout.label_width), forms[-1])


def selection_label(layout: Layout, theme: Theme) -> Line:
    """The left end of the selection's line."""
    line = Line(theme, layout.label_width).put("  selection", "dim").to(layout.label_width - 1)
    put_bar(line, theme)
    return line


def selection_cells(snapshot: Snapshot, view: ViewState, layout: Layout, theme: Theme) -> Cells:
    """The selection's edges, and the marks."""
    glyphs, columns = theme.glyphs, layout.columns
    cells: Cells = [None] * columns

    def put(t_ns: int, letter: str) -> None:
        at = viewport.column_of(view.window, columns, t_ns)
        if 0 <= at < columns:
            cells[at] = Cell(letter, "ink")

    for mark in snapshot.marks:
        if mark.t_ns <= snapshot.now_ns:
            put(mark.t_ns, "'")
    if view.selection is not None:
        begin, end = view.selection[0], max(view.selection[0], view.selection[1] - 1)
        low = viewport.column_of(view.window, columns, begin)
        high = viewport.column_of(view.window, columns, end)
        for at in range(max(0, low), min(columns, high + 1)):
            cells[at] = Cell(glyphs.select_fill, "ink")
        put(end, glyphs.select_close)
        put(begin, glyphs.select_open)
    for number, mark_ns in enumerate(view.marks, 1):
        put(mark_ns, str(number % 10))
    return cells


def selection_length(snapshot: Snapshot, view: ViewState, layout: Layout, theme: Theme) -> Line:
    """Where the selection begins and how long it is, behind its line."""
    line = numbers_line(layout, theme)
    if view.selection is not None:
        start = (view.selection[0] - snapshot.first_ns) / 1e9
        length = figures.spaced(view.selection[1] - view.selection[0])
        forms = [f"{start:.{decimals}f} + {length}" for decimals in (3, 2, 1)]
        room = layout.width - layout.numbers_x
        line.put(next((form for form in forms if len(form) <= room), f"+ {length}"), "ink")
    return line


def counters_title(layout: Layout, theme: Theme) -> Line:
    """What the counters show, over them."""
    rule = " " if theme.surfaces else theme.glyphs.rule
    line = Line(theme, layout.width).put("  counters ", "text")
    line.to(layout.label_width - 1, "dim", rule).put(" ")
    words = "same axis; gauges show a column's mean, rates its maximum "
    line.put(words[: layout.columns], "dim").to(layout.numbers_x - 1, "dim", rule).put(" ")
    return line.right("now", layout.numbers_x + 4, "dim").right("max", layout.numbers_x + 11, "dim")
