"""The time area: scale, axis, selection, lanes, counters, all under one axis."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

import numpy as np
from rich.segment import Segment
from textual.strip import Strip

from cuzk_top import figures, rows, stats, viewport
from cuzk_top.model import CounterData, Snapshot
from cuzk_top.rows import Cells
from cuzk_top.screens.layout import DisplayRow, Layout
from cuzk_top.theme import Theme
from cuzk_top.viewport import ViewState, Window
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.looks import Looks, known_role
from cuzk_top.widgets.paint import Line
from cuzk_top.widgets.runs import Ground, blank_run, chart_runs, ground, span_runs


class Numbers(NamedTuple):
    """The right-hand column of one row: a value, and words beside it."""

    value: str = ""
    note: str = ""
    top: str = ""


class Scene(NamedTuple):
    """Everything one frame of the time area shows."""

    snapshot: Snapshot
    view: ViewState
    layout: Layout
    numbers: Mapping[str, Numbers]
    """By row key and counter key."""
    measured: tuple[str, ...]
    """Sources that measure, for the scale line."""


class Timeline(Canvas):
    """Draws a `Scene`. Cells of a row, and its finished strip, are kept as long as nothing they show
    changes.
    """

    def __init__(self, theme: Theme) -> None:
        super().__init__("timeline")
        self._theme = theme
        self._looks: Looks | None = None
        self._runs: dict[str, tuple[Hashable, list[Segment]]] = {}
        self._made: dict[str, tuple[Hashable, Strip]] = {}
        self._edges: tuple[Hashable, viewport.Int64s] = (None, np.empty(0, np.int64))

    def draw(self, scene: Scene) -> None:
        """Bring the picture up to date."""
        snapshot, view, layout = scene.snapshot, scene.view, scene.layout
        if self._looks is None:
            self._looks = Looks(snapshot.session)
        self._looks.renew(snapshot.session)
        window = view.window
        axis = viewport.axis(window, layout.columns, snapshot.first_ns)
        base = ground(window, layout.columns, axis, view.selection, snapshot.now_ns)
        key = (window, layout.columns)
        if self._edges[0] != key:
            self._edges = (key, viewport.edges(window, layout.columns))
        strips = []
        if not layout.compact:
            strips.append(self._scale(scene))
        strips.append(self._axis(scene, axis, base))
        if not layout.compact:
            strips.append(self._selection(scene, base))
        cursor = view.cursor if any(row.key == view.cursor for row in layout.rows) else ""
        for row in layout.rows:
            strips.append(self._lane(scene, row, base, row.key == cursor))
        if not layout.compact and layout.counters:
            strips.append(self._counters_title(layout))
        strips += [self._counter(scene, counter, base) for counter in layout.counters]
        self.show(strips)

    # one method a kind of line

    def _keep(self, name: str, line: Line) -> Strip:
        """The strip made last time if its line would be the same."""
        content = tuple(line.segments)
        found = self._made.get(name)
        if found is not None and found[0] == content:
            return found[1]
        strip = line.strip()
        self._made[name] = (content, strip)
        return strip

    def _scale(self, scene: Scene) -> Strip:
        theme, layout, view = self._theme, scene.layout, scene.view
        window = view.window
        column_ns = window.width_ns / layout.columns
        decimals = figures.clock_decimals(column_ns)
        origin = scene.snapshot.first_ns
        rule = " " if theme.surfaces else theme.glyphs.rule
        line = Line(theme, layout.width).put(f"{rule} " if rule != " " else "  ", "dim")
        line.put(figures.clock(window.t0_ns - origin, decimals)).put(" to ")
        line.put(figures.clock(window.t1_ns - origin, decimals))
        line.put(f" {rule} ", "dim").put("1 column = ", "dim").put(figures.spaced(round(column_ns)))
        mode = {"page": "page", "follow": "follow", "fit": "fit", "hold": "fixed"}[view.mode]
        line.put(f" {rule} ", "dim").put(mode)
        if scene.measured:
            words = " ".join(scene.measured)
            start = layout.width - len(words) - 12
            if start > line.x + 3:
                line.put(" ").to(start, "dim", rule).put(" measured ", "dim").put(words).put(" ")
        else:
            line.put(" ")
        line.to(layout.width, "dim", rule)
        return self._keep("scale", line)

    def _bar(self, line: Line) -> None:
        """The upright rule between areas, or a blank where surfaces separate them."""
        line.put(" " if self._theme.surfaces else self._theme.glyphs.vertical, "dim")

    def _time_area(self, line: Line, layout: Layout, segments: list[Segment]) -> None:
        line.to(layout.label_width - 1)
        self._bar(line)
        line.extend(segments, layout.columns)
        self._bar(line)
        line.to(layout.numbers_x)

    def _axis(self, scene: Scene, axis: viewport.Axis, base: Ground) -> Strip:
        theme, layout = self._theme, scene.layout
        snapshot = scene.snapshot
        text = [" "] * layout.columns
        now_at = (base.now - 1) if base.now >= 0 else -9
        now_at = max(0, min(now_at, layout.columns - 3)) if base.now >= 0 else -9
        for tick in axis.ticks_ns:
            label = viewport.tick_label(tick, snapshot.first_ns, axis.decimals)
            at = viewport.column_of(scene.view.window, layout.columns, tick)
            clear = at + len(label) < now_at or at > now_at + 3 or now_at < 0
            if clear and at + len(label) <= layout.columns:
                text[at : at + len(label)] = label
        line = Line(theme, layout.width)
        line.right("seconds" if not layout.compact else _per_column(scene), layout.label_width - 1, "dim")
        self._bar(line)
        words = "".join(text)
        if now_at >= 0:
            line.put(words[:now_at], "dim").put("now", "ink", True).put(words[now_at + 3 :], "dim")
        else:
            line.put(words, "dim")
        self._bar(line)
        line.to(layout.numbers_x)
        if layout.compact:
            line.right("s", layout.numbers_x + 4, "dim").right("share", layout.width, "dim")
        else:
            line.put("total s", "dim").right("last", layout.width, "dim")
        return self._keep("axis", line)

    def _selection(self, scene: Scene, base: Ground) -> Strip:
        theme, layout, view = self._theme, scene.layout, scene.view
        glyphs = theme.glyphs
        columns, window = layout.columns, view.window
        text = [" "] * columns
        for mark in scene.snapshot.marks:
            at = viewport.column_of(window, columns, mark.t_ns)
            if 0 <= at < columns and mark.t_ns <= scene.snapshot.now_ns:
                text[at] = "'"
        if view.selection is not None:
            low = viewport.column_of(window, columns, view.selection[0])
            high = viewport.column_of(window, columns, max(view.selection[0], view.selection[1] - 1))
            for at in range(max(0, low), min(columns, high + 1)):
                text[at] = glyphs.select_fill
            if 0 <= low < columns:
                text[low] = glyphs.select_open
            if 0 <= high < columns and high > low:
                text[high] = glyphs.select_close
        for number, mark_ns in enumerate(view.marks, 1):
            at = viewport.column_of(window, columns, mark_ns)
            if 0 <= at < columns:
                text[at] = str(number % 10)
        segments = blank_run("".join(text), 0, base, theme, "ink")
        line = Line(theme, layout.width).put("  selection", "dim")
        self._time_area(line, layout, segments)
        if view.selection is not None:
            start = (view.selection[0] - scene.snapshot.first_ns) / 1e9
            length = figures.spaced(view.selection[1] - view.selection[0])
            room = layout.width - layout.numbers_x
            words = next(
                (w for d in (3, 2, 1) if len(w := f"{start:.{d}f} + {length}") <= room), f"+ {length}"
            )
            line.put(words, "ink")
        return self._keep("selection", line)

    def _lane(self, scene: Scene, row: DisplayRow, base: Ground, under_cursor: bool) -> Strip:
        theme, layout = self._theme, scene.layout
        surface = "row selection" if under_cursor else "page"
        line = Line(theme, layout.width, surface)
        letter = row.letter[:1].strip()
        if letter and not row.indent:
            line.put(letter, "label", True, known_role(row.role))
        else:
            line.put(" ")
        line.put(">" if under_cursor else " ", "ink", under_cursor)
        name = " " * row.indent + row.label
        room = layout.label_width - 3
        line.put(name[:room], "text" if not row.empty or under_cursor else "dim", under_cursor)
        line.to(layout.label_width - 1)
        self._bar(line)
        line = Line(theme, layout.width).extend(line.segments, line.x)
        line.extend(self._cells(scene, row, base), layout.columns)
        self._bar(line)
        line.to(layout.numbers_x)
        numbers = scene.numbers.get(row.key, Numbers())
        line.right(numbers.value, layout.numbers_x + 4, "text")
        if layout.compact:
            line.right(numbers.note, layout.width, "dim")
        else:
            line.right(numbers.note, layout.numbers_x + 9, "text").right(numbers.top, layout.width, "dim")
        return self._keep(row.key, line)

    def _cells(self, scene: Scene, row: DisplayRow, base: Ground) -> list[Segment]:
        """Runs of a lane, computed again only if a span that is drawn began, grew by an eighth or ended."""
        now = scene.snapshot.now_ns
        window, columns = scene.view.window, scene.layout.columns
        if row.empty and row.missing:
            key: Hashable = (row.missing, base)
        else:
            clipped = [stats.clipped(source, now) for source in row.sources]
            key = (base, window, tuple(_signature(spans, window, columns) for spans in clipped))
        found = self._runs.get(row.key)
        if found is not None and found[0] == key:
            return found[1]
        if row.empty and row.missing:
            segments = blank_run(row.missing[:columns].ljust(columns), 0, base, self._theme, "dim")
        else:
            cells: Cells | None = None
            for number, spans in enumerate(clipped):
                if spans.total or cells is None:
                    own = rows.cells(spans, self._edges[1], number)
                    cells = own if cells is None else rows.overlay(cells, own)
            assert cells is not None and self._looks is not None
            segments = span_runs(cells, self._looks.labels(row), base, self._theme)
        self._runs[row.key] = (key, segments)
        return segments

    def _counters_title(self, layout: Layout) -> Strip:
        theme = self._theme
        rule = " " if theme.surfaces else theme.glyphs.rule
        line = Line(theme, layout.width).put("  counters ", "text")
        line.to(layout.label_width - 1, "dim", rule).put(" ")
        words = "same axis; gauges show a column's mean, rates its maximum "
        line.put(words[: layout.columns], "dim").to(layout.numbers_x - 1, "dim", rule).put(" ")
        line.right("now", layout.numbers_x + 4, "dim").right("max", layout.numbers_x + 11, "dim")
        return self._keep("counters", line)

    def _counter(self, scene: Scene, counter: CounterData, base: Ground) -> Strip:
        theme, layout, now = self._theme, scene.layout, scene.snapshot.now_ns
        columns = layout.columns
        if counter.missing is not None:
            words = f"no data: {counter.missing}"[:columns].ljust(columns)
            segments = blank_run(words, 0, base, theme, "dim")
        else:
            per_column = rows.gauge_columns if counter.kind == "gauge" else rows.rate_columns
            values = per_column(counter.start_ns, counter.t_ns, counter.value, self._edges[1], now)
            top = rows.chart_top(highest(counter, now), counter.top)
            segments = chart_runs(rows.levels(values, top), known_role(counter.role), base, theme)
        line = Line(theme, layout.width).put("" if layout.compact else "  ").put(counter.label)
        self._time_area(line, layout, segments)
        numbers = scene.numbers.get(f"counter {counter.key}", Numbers())
        line.right(numbers.value, layout.numbers_x + 4, "ink")
        line.right(numbers.top, layout.width if layout.compact else layout.numbers_x + 11)
        if not layout.compact and numbers.note:
            line.put(" ").put(numbers.note, "dim")
        return self._keep(f"counter {counter.key}", line)


def _per_column(scene: Scene) -> str:
    """The scale of a narrow screen, where it has no line of its own."""
    value, unit = figures.duration(round(scene.view.window.width_ns / scene.layout.columns))
    forms = (f"{value} {unit}/col", f"{value}{unit}/col", f"{value}{unit}/c")
    return next((form for form in forms if len(form) < scene.layout.label_width), forms[-1])


def highest(counter: CounterData, now_ns: int) -> float:
    """Highest finite sample up to the play head; 0 without one."""
    values = counter.value[: int(np.searchsorted(counter.start_ns, now_ns, "left"))]
    values = values[np.isfinite(values)]
    return float(values.max()) if len(values) else 0.0


def _signature(spans: rows.Spans, window: Window, columns: int) -> Hashable:
    """What must change for a row's cells to change, as long as window and ground stay."""
    count = len(spans.start_ns)
    first = int(spans.start_ns[0]) if count else 0
    last = int(spans.end_ns[-1]) if count else 0
    growing = spans.open_ns is not None or last > spans.now_ns
    eighth = viewport.column_of(window, columns * rows.EIGHTHS * 2, spans.now_ns) if growing else 0
    return (count, first, last, spans.open_ns, eighth)
