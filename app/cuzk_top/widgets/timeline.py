"""The time area: scale, axis, selection, lanes, counters, all under one axis."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from cuzk_top import viewport
from cuzk_top.model import Session, Snapshot
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.lanes import OF_SPANS, DisplayRow
from cuzk_top.screens.layout import Layout
from cuzk_top.theme import Theme
from cuzk_top.viewport import Int64s, ViewState
from cuzk_top.widgets import axis_lines, beside, special_rows
from cuzk_top.widgets.areas import Areas
from cuzk_top.widgets.beside import Marked, Numbers
from cuzk_top.widgets.brush import Brush
from cuzk_top.widgets.canvas import cropped, regions
from cuzk_top.widgets.cell_line import CellLine
from cuzk_top.widgets.looks import Looks
from cuzk_top.widgets.paint import Line, Pen
from cuzk_top.widgets.painted import Cells

__all__ = ["Numbers", "Scene", "Timeline"]


class Scene(NamedTuple):
    """Everything one frame of the time area shows."""

    snapshot: Snapshot
    view: ViewState
    layout: Layout
    numbers: Mapping[str, Numbers]
    """By row key and ``counter KEY``."""
    measured: tuple[str, ...]
    """Sources that measure, for the scale line."""
    insight: Insight


class Timeline(Widget):
    """Draws a `Scene`: labels, the cells under the axis and numbers, side by side in each line.

    A line is kept from frame to frame, and of it only what changed is written.
    """

    brush: Brush | None = None
    """Of a screen that writes its frames itself."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(id="timeline")
        self._theme = theme
        self._pen = Pen(theme)
        self._looks = Looks(Session())
        self._areas = Areas(theme, self._pen, self._looks)
        self._widths: tuple[int, int] = (0, 0)
        """Width of the lines, and of the labels before the cells."""
        self._lines: dict[str, CellLine] = {}
        self._made: dict[str, Hashable] = {}
        """What the words of a line were made from."""
        self._labelled: object = None
        """What all labels were made from."""
        self._numbers: Mapping[str, Numbers] = {}
        """The numbers that are shown."""
        self._shown: list[CellLine] = []
        self._axis_kept: tuple[Hashable, viewport.Axis] = (None, viewport.Axis(1, (), 0))
        self._ticks: list[tuple[int, str]] = []

    @property
    def texts(self) -> list[str]:
        """The lines as they are shown, without their colours."""
        return [line.text for line in self._shown]

    def render_lines(self, crop: Region) -> list[Strip]:
        """Without Textual's style cache: see `Canvas.render_lines`."""
        return cropped([line.strip() for line in self._shown[crop.y : crop.bottom]], crop)

    def draw(self, scene: Scene) -> None:
        """Bring the picture up to date."""
        snapshot, view, layout = scene.snapshot, scene.view, scene.layout
        self._looks.renew(snapshot.session, view.search)
        self._looks.see(snapshot)
        size = (layout.width, layout.label_width)
        if size != self._widths:
            self._widths = size
            self._lines.clear()
            self._made.clear()
        origin = axis_lines.origin_of(snapshot, view)
        key = (view.window, layout.columns, origin)
        if self._axis_kept[0] != key:
            made = viewport.axis(view.window, layout.columns, origin.ns, origin.clock)
            self._axis_kept = (key, made)
            self._ticks = axis_lines.tick_labels(view.window, layout.columns, made, origin)
        axis = self._axis_kept[1]
        self._areas.begin(view.window, layout.columns, axis, view.selection, snapshot.now_ns)
        lines: list[CellLine] = []
        if not layout.compact:
            scale = (key, layout.width, view.mode, scene.measured)
            lines.append(
                self._words(
                    "scale",
                    scale,
                    lambda: axis_lines.scale_line(view, layout, origin, scene.measured, self._theme),
                )
            )
        lines.append(self._axis(scene, origin, key))
        if not layout.compact:
            lines.append(self._selection(scene))
        labels = (layout.shape, view.cursor, view.focus, view.pinned)
        if labels != self._labelled:
            self._labelled = labels
            self._label(scene)
        # Most frames change no word: the numbers come twice a second, and few are others.
        elif scene.numbers is not self._numbers:
            self._number(layout, scene.numbers, self._numbers)
        self._numbers = scene.numbers
        lines += self._lanes(scene)
        if not layout.compact and layout.counters:
            lines.append(
                self._words("counters", layout.shape, lambda: axis_lines.counters_title(layout, self._theme))
            )
        lines += self._counters(scene)
        self._show(lines)

    def say(self, lines: list[Line], width: int) -> None:
        """Show words alone, where there is no room for a picture."""
        said = []
        for line in lines:
            cells = CellLine(width)
            cells.put(0, line.to(width).segments)
            said.append(cells)
        self._show(said)

    def _show(self, lines: list[CellLine]) -> None:
        """Write what is new of the lines, or have the compositor do it."""
        old, self._shown = self._shown, lines
        if len(old) != len(lines):
            self.refresh()
        else:
            changed = [y for y, line in enumerate(lines) if line.fresh or line is not old[y]]
            region, width = self.region, len(lines[0].glyphs)
            if changed and self.brush is not None and self.brush.paints(region, width, len(lines)):
                for y in changed:
                    line = lines[y]
                    self.brush.put(region.x, region.y + y, line.fresh if line is old[y] else line.runs())
            elif changed:
                self.refresh(*regions(changed, [width] * len(lines)))
        for line in lines:
            line.fresh.clear()

    def _line(self, name: str) -> CellLine:
        """The line of that name, the same one as long as the screen is as wide."""
        line = self._lines.get(name)
        if line is None:
            line = self._lines[name] = CellLine(self._widths[0])
        return line

    def _put(self, line: CellLine, name: str, key: Hashable, make: Callable[[], Line]) -> None:
        """Write words, unless they were made from the same `key` last time."""
        if self._made.get(name) != key:
            self._made[name] = key
            made = make()
            line.put(made.start, made.to(made.width).segments)

    def _words(self, name: str, key: Hashable, make: Callable[[], Line]) -> CellLine:
        """A line of words alone."""
        line = self._line(name)
        self._put(line, name, key, make)
        return line

    def _axis(self, scene: Scene, origin: axis_lines.Origin, key: Hashable) -> CellLine:
        """Labelled ticks, and where now is."""
        layout, theme = scene.layout, self._theme
        line, x = self._line("axis"), layout.label_width
        if self._made.get("axis") != (key, layout.compact):
            self._made["axis"] = (key, layout.compact)
            for end in axis_lines.axis_ends(scene.view, layout, origin, theme):
                line.put(end.start, end.to(end.width).segments)
        words, now = axis_lines.axis_words(self._ticks, layout.columns, self._areas.ground.now)
        dim = self._pen("dim")
        line.fill(x, words[: now if now >= 0 else len(words)], dim)
        if now >= 0:
            line.fill(x + now, words[now : now + 3], self._pen("ink", "page", True))
            line.fill(x + now + 3, words[now + 3 :], dim)
        return line

    def _selection(self, scene: Scene) -> CellLine:
        """The selection's edges, its length, and the marks; most of the time a blank line."""
        snapshot, view, layout, theme = scene.snapshot, scene.view, scene.layout, self._theme
        line = self._line("selection")
        self._put(line, "selection", layout.compact, lambda: axis_lines.selection_label(layout, theme))
        marks = (len(snapshot.marks), snapshot.now_ns) if snapshot.marks else ()
        self._areas.painted(
            "selection",
            line,
            layout.label_width,
            (view.selection, view.marks, marks),
            lambda _: axis_lines.selection_cells(snapshot, view, layout, theme),
        )
        self._put(
            line,
            "selection length",
            (view.selection, snapshot.first_ns, layout.numbers_x),
            lambda: axis_lines.selection_length(snapshot, view, layout, theme),
        )
        return line

    def _lanes(self, scene: Scene) -> list[CellLine]:
        """The lines of all rows, brought up to date."""
        insight, now = scene.insight, scene.snapshot.now_ns
        known, rests = self._lines, self._areas.rests
        lines: list[CellLine] = []
        for row in scene.layout.rows:
            line = known.get(row.key) or self._line(row.key)
            if not rests(row.key, line, row if row.kind in OF_SPANS else insight, now):
                self._cells(scene, row, line)
            lines.append(line)
        return lines

    def _cells(self, scene: Scene, row: DisplayRow, line: CellLine) -> None:
        """What is under the axis."""
        areas, now, x = self._areas, scene.snapshot.now_ns, scene.layout.label_width
        if row.missing and row.empty:
            areas.words(row.key, line, x, row, row.missing)
        elif row.kind == "spans":
            areas.lane(row, line, x, now)
        elif row.kind in OF_SPANS:
            theme, session = self._theme, scene.snapshot.session
            areas.folded(
                row,
                line,
                x,
                now,
                lambda at: (
                    special_rows.worker_cells(row.sources, at, now, theme)
                    if row.kind == "workers"
                    else special_rows.letter_cells(row.sources, session, at, now, theme)
                ),
            )
        else:
            areas.painted(row.key, line, x, scene.insight, lambda at: self._told(scene, row, at))

    def _told(self, scene: Scene, row: DisplayRow, edges: Int64s) -> Cells:
        """The cells of a row that the analysis gives."""
        insight, theme = scene.insight, self._theme
        if row.kind == "path":
            return special_rows.path_cells(insight, scene.snapshot.session.meta, edges, theme)
        if row.kind == "stalls":
            return special_rows.stall_cells(insight, row.device, edges, theme)
        if row.kind == "ghost":
            return special_rows.ghost_cells(insight, row.device, edges, theme)
        return special_rows.partition_cells(insight.jobs, len(edges) - 1)

    def _label(self, scene: Scene) -> None:
        """Write all labels and numbers."""
        layout, view, theme = scene.layout, scene.view, self._theme
        for row in layout.rows:
            under_cursor = row.key == view.cursor
            marked = Marked(under_cursor, under_cursor and view.focus == "lanes", row.base in view.pinned)
            self._write(row.key, beside.lane_label(row, marked, layout, theme))
        for counter in layout.counters:
            self._write(f"counter {counter.key}", beside.counter_label(counter, layout, theme))
        self._number(layout, scene.numbers, {})

    def _number(self, layout: Layout, numbers: Mapping[str, Numbers], before: Mapping[str, Numbers]) -> None:
        """Write the numbers that are not what they were before."""
        for names, make in (
            ([row.key for row in layout.rows], beside.lane_numbers),
            ([f"counter {counter.key}" for counter in layout.counters], beside.counter_numbers),
        ):
            for name in names:
                now = numbers.get(name, _NONE)
                if now != before.get(name):
                    self._write(name, make(now, layout, self._theme))

    def _write(self, name: str, words: Line) -> None:
        """Write words into the line of that name."""
        self._line(name).put(words.start, words.to(words.width).segments)

    def _counters(self, scene: Scene) -> list[CellLine]:
        """The lines of all counters, brought up to date."""
        x, now, areas = scene.layout.label_width, scene.snapshot.now_ns, self._areas
        lines: list[CellLine] = []
        for counter in scene.layout.counters:
            name = f"counter {counter.key}"
            line = self._line(name)
            if areas.rests(name, line, counter, now):
                pass
            elif counter.missing is not None:
                areas.words(name, line, x, counter, f"no data: {counter.missing}")
            else:
                areas.chart(counter, line, x, now)
            lines.append(line)
        return lines


_NONE = Numbers()
