"""The lines of the time area that are no rows: scale, axis, selection and the counters' title."""

from __future__ import annotations

from typing import NamedTuple

from rich.segment import Segment

from cuzk_top import figures, viewport
from cuzk_top.model import Snapshot
from cuzk_top.screens.layout import Layout
from cuzk_top.theme import Theme
from cuzk_top.viewport import Clock, ViewState
from cuzk_top.widgets.paint import Line
from cuzk_top.widgets.runs import Ground, blank_run

MODES = {"page": "page", "follow": "follow", "fit": "fit", "hold": "fixed"}
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


def axis_line(
    view: ViewState, layout: Layout, axis: viewport.Axis, origin: Origin, base: Ground, theme: Theme
) -> Line:
    """Labelled ticks, and where now is."""
    text = [" "] * layout.columns
    now_at = max(0, min(base.now - 1, layout.columns - 3)) if base.now >= 0 else -9
    for tick in axis.ticks_ns:
        label = viewport.tick_label(tick, origin.ns, axis.decimals, origin.clock)
        at = viewport.column_of(view.window, layout.columns, tick)
        clear = at + len(label) < now_at or at > now_at + 3 or now_at < 0
        if clear and at + len(label) <= layout.columns:
            text[at : at + len(label)] = label
    line = Line(theme, layout.width)
    heading = UNITS[origin.clock] if not layout.compact else _per_column(view, layout)
    line.right(heading, layout.label_width - 1, "dim")
    put_bar(line, theme)
    words = "".join(text)
    if now_at >= 0:
        line.put(words[:now_at], "dim").put("now", "ink", True).put(words[now_at + 3 :], "dim")
    else:
        line.put(words, "dim")
    put_bar(line, theme)
    line.to(layout.numbers_x)
    if layout.compact:
        return line.right("s", layout.numbers_x + 4, "dim")
    return line.put("total s", "dim").right("last", layout.width, "dim")


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


def selection_line(snapshot: Snapshot, view: ViewState, layout: Layout, base: Ground, theme: Theme) -> Line:
    """The selection's edges, its length, and the marks."""
    glyphs, columns = theme.glyphs, layout.columns
    text = [" "] * columns

    def put(t_ns: int, letter: str) -> None:
        at = viewport.column_of(view.window, columns, t_ns)
        if 0 <= at < columns:
            text[at] = letter

    for mark in snapshot.marks:
        if mark.t_ns <= snapshot.now_ns:
            put(mark.t_ns, "'")
    if view.selection is not None:
        begin, end = view.selection[0], max(view.selection[0], view.selection[1] - 1)
        low = viewport.column_of(view.window, columns, begin)
        high = viewport.column_of(view.window, columns, end)
        for at in range(max(0, low), min(columns, high + 1)):
            text[at] = glyphs.select_fill
        put(end, glyphs.select_close)
        put(begin, glyphs.select_open)
    for number, mark_ns in enumerate(view.marks, 1):
        put(mark_ns, str(number % 10))
    line = Line(theme, layout.width)
    line.extend(selection_label(layout, theme).segments, layout.label_width)
    ends: list[Segment] = numbers_line(layout, theme).segments
    line.extend(blank_run("".join(text), 0, base, theme, "ink"), columns)
    line.extend(ends, layout.numbers_x - line.x)
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
