"""The time area: scale, axis, selection, lanes, counters, all under one axis."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from cuzk_top import figures, viewport
from cuzk_top.model import CounterData, Snapshot
from cuzk_top.screens.layout import DisplayRow, Layout
from cuzk_top.theme import Theme
from cuzk_top.viewport import ViewState
from cuzk_top.widgets.areas import Areas
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.looks import Looks, known_role
from cuzk_top.widgets.paint import Line
from cuzk_top.widgets.runs import Ground, blank_run, ground
from cuzk_top.widgets.tiles import Pieces, cut, strips_of, tile_edges


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
    """By row key and ``counter KEY``."""
    measured: tuple[str, ...]
    """Sources that measure, for the scale line."""


TILES = 8
"""Canvases of the time area. More of them would write fewer cells a frame, but each costs every frame."""
MODES = {"page": "page", "follow": "follow", "fit": "fit", "hold": "fixed"}


class Timeline(Widget):
    """Draws a `Scene`: labels, the tiles of the time area and numbers, side by side.

    A line is made again only if something that it shows changed.
    """

    def __init__(self, theme: Theme) -> None:
        super().__init__(id="timeline")
        self._theme = theme
        self._areas = Areas(theme)
        self._looks: Looks | None = None
        self._canvases = [
            Canvas(name) for name in ("labels", *(f"tile-{n}" for n in range(TILES)), "numbers")
        ]
        self._edges: tuple[int, ...] = ()
        """Screen columns where the canvases begin, and the end of the last."""
        self._made: dict[str, tuple[Hashable, Strip]] = {}
        self._whole: dict[str, tuple[Hashable, Pieces, list[Strip]]] = {}
        self._axis_kept: tuple[Hashable, viewport.Axis] = (None, viewport.Axis(1, (), 0))
        self._ground_kept: tuple[Hashable, Ground] = (None, Ground((), -1))

    def compose(self) -> ComposeResult:
        yield from self._canvases

    def render_lines(self, crop: Region) -> list[Strip]:
        """Nothing of its own: the canvases cover it."""
        return [Strip.blank(crop.width)] * crop.height

    @property
    def texts(self) -> list[str]:
        """The lines as they are shown, without their colours."""
        return ["".join(parts) for parts in zip(*(canvas.texts for canvas in self._canvases), strict=True)]

    def draw(self, scene: Scene) -> None:
        """Bring the picture up to date."""
        snapshot, view, layout = scene.snapshot, scene.view, scene.layout
        if self._looks is None:
            self._looks = Looks(snapshot.session)
        self._looks.renew(snapshot.session)
        key = (view.window, layout.columns, snapshot.first_ns)
        if self._axis_kept[0] != key:
            self._axis_kept = (key, viewport.axis(view.window, layout.columns, snapshot.first_ns))
        axis = self._axis_kept[1]
        head = viewport.column_of(view.window, layout.columns, snapshot.now_ns)
        ground_key = (key, head, view.selection)
        if self._ground_kept[0] != ground_key:
            made = ground(view.window, layout.columns, axis, view.selection, snapshot.now_ns)
            self._ground_kept = (ground_key, made)
        base = self._ground_kept[1]
        tiles = tile_edges(layout.columns, TILES)
        self._place((0, *(layout.label_width + edge for edge in tiles), layout.width))
        self._areas.begin(view.window, tiles, base)
        frame = (ground_key, layout.width, layout.compact)
        lines: list[list[Strip]] = []
        if not layout.compact:
            scale = (key, layout.width, view.mode, scene.measured)
            lines.append(self._across("scale", scale, lambda: self._scale(scene)))
        lines.append(self._across("axis", frame, lambda: self._axis(scene, axis, base)))
        if not layout.compact:
            lines.append(self._selection(scene, base, frame))
        lines += [self._lane(scene, row, row.key == view.cursor) for row in layout.rows]
        if not layout.compact and layout.counters:
            lines.append(self._across("counters", layout.width, lambda: self._counters_title(layout)))
        lines += [self._counter(scene, counter) for counter in layout.counters]
        self._show(lines)

    def say(self, lines: list[Line], width: int) -> None:
        """Show words alone, where there is no room for a picture."""
        self._place((0, *[width] * (TILES + 2)))
        self._show([[line.strip(), *[Strip([], 0)] * (TILES + 1)] for line in lines])

    def _place(self, edges: tuple[int, ...]) -> None:
        """Give the canvases their widths."""
        if edges != self._edges:
            self._edges = edges
            self._whole.clear()
            for canvas, low, high in zip(self._canvases, edges, edges[1:], strict=False):
                canvas.styles.width = high - low

    def _show(self, lines: list[list[Strip]]) -> None:
        for canvas, strips in zip(self._canvases, zip(*lines, strict=True), strict=True):
            canvas.show(list(strips))

    def _keep(self, name: str, key: Hashable, make: Callable[[], Line]) -> Strip:
        """The strip made last time if `key`, everything that the line shows, is the same."""
        found = self._made.get(name)
        if found is None or found[0] != key:
            found = self._made[name] = (key, make().strip())
        return found[1]

    def _across(self, name: str, key: Hashable, make: Callable[[], Line]) -> list[Strip]:
        """A line over all canvases; of one that is made again the pieces that came out equal are kept."""
        found = self._whole.get(name)
        if found is None or found[0] != key:
            pieces = cut(make().to(self._edges[-1]).segments, self._edges)
            strips = strips_of(pieces, self._edges, found[1:] if found is not None else None)
            found = self._whole[name] = (key, pieces, strips)
        return found[2]

    # one method a kind of line

    def _scale(self, scene: Scene) -> Line:
        theme, layout, view = self._theme, scene.layout, scene.view
        window = view.window
        column_ns = window.width_ns / layout.columns
        decimals = figures.clock_decimals(column_ns)
        origin = scene.snapshot.first_ns
        rule = " " if theme.surfaces else theme.glyphs.rule
        line = Line(theme, layout.width).put(f"{rule} ", "dim")
        line.put(figures.clock(window.t0_ns - origin, decimals)).put(" to ")
        line.put(figures.clock(window.t1_ns - origin, decimals))
        line.put(f" {rule} ", "dim").put("1 column = ", "dim").put(figures.spaced(round(column_ns)))
        line.put(f" {rule} ", "dim").put(MODES[view.mode]).put(" ")
        words = " ".join(scene.measured)
        start = layout.width - len(words) - 12
        if words and start > line.x + 3:
            line.to(start, "dim", rule).put(" measured ", "dim").put(words).put(" ")
        return line.to(layout.width, "dim", rule)

    def _bar(self, line: Line) -> None:
        """The upright rule between areas, or a blank where surfaces separate them."""
        line.put(" " if self._theme.surfaces else self._theme.glyphs.vertical, "dim")

    def _numbers_line(self, layout: Layout) -> Line:
        """A line that starts behind the time area."""
        line = Line(self._theme, layout.width, start=layout.label_width + layout.columns)
        self._bar(line)
        return line.to(layout.numbers_x)

    def _axis(self, scene: Scene, axis: viewport.Axis, base: Ground) -> Line:
        theme, layout = self._theme, scene.layout
        first_ns = scene.snapshot.first_ns
        text = [" "] * layout.columns
        now_at = max(0, min(base.now - 1, layout.columns - 3)) if base.now >= 0 else -9
        for tick in axis.ticks_ns:
            label = viewport.tick_label(tick, first_ns, axis.decimals)
            at = viewport.column_of(scene.view.window, layout.columns, tick)
            clear = at + len(label) < now_at or at > now_at + 3 or now_at < 0
            if clear and at + len(label) <= layout.columns:
                text[at : at + len(label)] = label
        line = Line(theme, layout.width)
        heading = "seconds" if not layout.compact else _per_column(scene)
        line.right(heading, layout.label_width - 1, "dim")
        self._bar(line)
        words = "".join(text)
        if now_at >= 0:
            line.put(words[:now_at], "dim").put("now", "ink", True).put(words[now_at + 3 :], "dim")
        else:
            line.put(words, "dim")
        self._bar(line)
        line.to(layout.numbers_x)
        if layout.compact:
            return line.right("s", layout.numbers_x + 4, "dim")
        return line.put("total s", "dim").right("last", layout.width, "dim")

    def _selection(self, scene: Scene, base: Ground, frame: Hashable) -> list[Strip]:
        """The selection's edges, its length, and the marks; most of the time a blank line."""
        view, layout = scene.view, scene.layout
        if view.selection is not None or view.marks or scene.snapshot.marks:
            marks = (view.marks, len(scene.snapshot.marks))
            return self._across("selection", (frame, marks), lambda: self._selection_line(scene, base))
        label = self._keep("selection left", layout.label_width, lambda: self._selection_label(layout))
        right = self._keep(
            "selection right", (layout.width, layout.numbers_x), lambda: self._numbers_line(layout)
        )
        return [label, *self._areas.words("selection", ""), right]

    def _selection_label(self, layout: Layout) -> Line:
        line = Line(self._theme, layout.label_width).put("  selection", "dim").to(layout.label_width - 1)
        self._bar(line)
        return line

    def _selection_line(self, scene: Scene, base: Ground) -> Line:
        theme, layout, view = self._theme, scene.layout, scene.view
        glyphs, columns = theme.glyphs, layout.columns
        text = [" "] * columns

        def put(t_ns: int, letter: str) -> None:
            at = viewport.column_of(view.window, columns, t_ns)
            if 0 <= at < columns:
                text[at] = letter

        for mark in scene.snapshot.marks:
            if mark.t_ns <= scene.snapshot.now_ns:
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
        line.extend(self._selection_label(layout).segments, layout.label_width)
        line.extend(blank_run("".join(text), 0, base, theme, "ink"), columns)
        line.extend(self._numbers_line(layout).segments, layout.numbers_x - line.x)
        if view.selection is not None:
            start = (view.selection[0] - scene.snapshot.first_ns) / 1e9
            length = figures.spaced(view.selection[1] - view.selection[0])
            forms = [f"{start:.{decimals}f} + {length}" for decimals in (3, 2, 1)]
            room = layout.width - layout.numbers_x
            line.put(next((form for form in forms if len(form) <= room), f"+ {length}"), "ink")
        return line

    def _lane(self, scene: Scene, row: DisplayRow, under_cursor: bool) -> list[Strip]:
        theme, layout = self._theme, scene.layout
        assert self._looks is not None
        if row.empty and row.missing:
            area = self._areas.words(row.key, row.missing)
        else:
            area = self._areas.lane(row, self._looks, scene.snapshot.now_ns, _runs(scene))
        numbers = scene.numbers.get(row.key, Numbers())
        size = (layout.width, layout.compact)

        def left() -> Line:
            line = Line(theme, layout.label_width, "row selection" if under_cursor else "page")
            letter = row.letter[:1].strip()
            if letter and not row.indent:
                line.put(letter, "label", True, known_role(row.role))
            else:
                line.put(" ")
            line.put(">" if under_cursor else " ", "ink", under_cursor)
            name = (" " * row.indent + row.label)[: layout.label_width - 3]
            line.put(name, "text" if not row.empty or under_cursor else "dim", under_cursor)
            line.to(layout.label_width - 1)
            self._bar(line)
            return line

        def right() -> Line:
            line = self._numbers_line(layout).right(numbers.value, layout.numbers_x + 4)
            if layout.compact:
                return line.right(numbers.note, layout.width, "dim").to(layout.width)
            line.right(numbers.note, layout.numbers_x + 9)
            return line.right(numbers.top, layout.width, "dim").to(layout.width)

        look = (size, under_cursor, row.label, row.letter, row.role, row.indent, row.empty)
        label = self._keep(f"{row.key} left", look, left)
        return [label, *area, self._keep(f"{row.key} right", (size, numbers), right)]

    def _counters_title(self, layout: Layout) -> Line:
        theme = self._theme
        rule = " " if theme.surfaces else theme.glyphs.rule
        line = Line(theme, layout.width).put("  counters ", "text")
        line.to(layout.label_width - 1, "dim", rule).put(" ")
        words = "same axis; gauges show a column's mean, rates its maximum "
        line.put(words[: layout.columns], "dim").to(layout.numbers_x - 1, "dim", rule).put(" ")
        return line.right("now", layout.numbers_x + 4, "dim").right("max", layout.numbers_x + 11, "dim")

    def _counter(self, scene: Scene, counter: CounterData) -> list[Strip]:
        theme, layout, now = self._theme, scene.layout, scene.snapshot.now_ns
        name = f"counter {counter.key}"
        if counter.missing is not None:
            area = self._areas.words(name, f"no data: {counter.missing}")
        else:
            area = self._areas.chart(counter, now, _runs(scene))
        numbers = scene.numbers.get(name, Numbers())

        size = (layout.width, layout.compact)

        def left() -> Line:
            line = Line(theme, layout.label_width).put("" if layout.compact else "  ").put(counter.label)
            line.to(layout.label_width - 1)
            self._bar(line)
            return line

        def right() -> Line:
            line = self._numbers_line(layout).right(numbers.value, layout.numbers_x + 4, "ink")
            line.right(numbers.top, layout.width if layout.compact else layout.numbers_x + 11)
            if not layout.compact and numbers.note:
                line.put(" ").put(numbers.note, "dim")
            return line.to(layout.width)

        label = self._keep(f"{name} left", (size, counter.label), left)
        return [label, *area, self._keep(f"{name} right", (size, numbers), right)]


def _runs(scene: Scene) -> bool:
    """Whether the next frame will show more; if not, this one must leave nothing out."""
    return not scene.snapshot.ended and not scene.view.paused


def _per_column(scene: Scene) -> str:
    """The scale of a narrow screen, where it has no line of its own."""
    value, unit = figures.duration(round(scene.view.window.width_ns / scene.layout.columns))
    forms = (f"{value} {unit}/col", f"{value}{unit}/col", f"{value}{unit}/c")
    return next((form for form in forms if len(form) < scene.layout.label_width), forms[-1])
