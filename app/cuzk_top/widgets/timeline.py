"""The time area: scale, axis, selection, lanes, counters, all under one axis."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from textual.app import ComposeResult
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from cuzk_top import viewport
from cuzk_top.model import CounterData, Snapshot
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.screens.layout import Layout
from cuzk_top.theme import Theme
from cuzk_top.viewport import ViewState
from cuzk_top.widgets import axis_lines, special_rows
from cuzk_top.widgets.areas import Areas
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.looks import Looks, known_role
from cuzk_top.widgets.paint import Line
from cuzk_top.widgets.runs import Ground, ground
from cuzk_top.widgets.tiles import Pieces, cut, strips_of, tile_edges


class Numbers(NamedTuple):
    """The right-hand column of one row: a value, and words beside it."""

    value: str = ""
    note: str = ""
    top: str = ""
    words: str = ""
    """In place of all of them, from the left."""


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


TILES = 8
"""Canvases of the time area. More of them would write fewer cells a frame, but each costs every frame."""


class Timeline(Widget):
    """Draws a `Scene`: labels, the tiles of the time area and numbers, side by side.

    A line is made again only if something that it shows changed.
    """

    def __init__(self, theme: Theme) -> None:
        super().__init__(id="timeline")
        self._theme = theme
        self._areas = Areas(theme)
        self._looks: Looks | None = None
        self.canvases = [Canvas(name) for name in ("labels", *(f"tile-{n}" for n in range(TILES)), "numbers")]
        self._edges: tuple[int, ...] = ()
        """Screen columns where the canvases begin, and the end of the last."""
        self._made: dict[str, tuple[Hashable, Strip]] = {}
        self._whole: dict[str, tuple[Hashable, Pieces, list[Strip]]] = {}
        self._axis_kept: tuple[Hashable, viewport.Axis] = (None, viewport.Axis(1, (), 0))
        self._ground_kept: tuple[Hashable, Ground] = (None, Ground((), -1))

    def compose(self) -> ComposeResult:
        yield from self.canvases

    def render_lines(self, crop: Region) -> list[Strip]:
        """Nothing of its own: the canvases cover it."""
        return [Strip.blank(crop.width)] * crop.height

    @property
    def texts(self) -> list[str]:
        """The lines as they are shown, without their colours."""
        return ["".join(parts) for parts in zip(*(canvas.texts for canvas in self.canvases), strict=True)]

    def draw(self, scene: Scene) -> None:
        """Bring the picture up to date."""
        snapshot, view, layout = scene.snapshot, scene.view, scene.layout
        if self._looks is None:
            self._looks = Looks(snapshot.session)
        self._looks.renew(snapshot.session, view.search)
        origin = axis_lines.origin_of(snapshot, view)
        key = (view.window, layout.columns, origin)
        if self._axis_kept[0] != key:
            self._axis_kept = (key, viewport.axis(view.window, layout.columns, origin.ns, origin.clock))
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
            lines.append(
                self._across(
                    "scale",
                    scale,
                    lambda: axis_lines.scale_line(view, layout, origin, scene.measured, self._theme),
                )
            )
        lines.append(
            self._across(
                "axis", frame, lambda: axis_lines.axis_line(view, layout, axis, origin, base, self._theme)
            )
        )
        if not layout.compact:
            lines.append(self._selection(scene, base, frame))
        lines += [self._lane(scene, row) for row in layout.rows]
        if not layout.compact and layout.counters:
            lines.append(
                self._across("counters", layout.width, lambda: axis_lines.counters_title(layout, self._theme))
            )
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
            for canvas, low, high in zip(self.canvases, edges, edges[1:], strict=False):
                canvas.styles.width = high - low

    def _show(self, lines: list[list[Strip]]) -> None:
        for canvas, strips in zip(self.canvases, zip(*lines, strict=True), strict=True):
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

    def _selection(self, scene: Scene, base: Ground, frame: Hashable) -> list[Strip]:
        """The selection's edges, its length, and the marks; most of the time a blank line."""
        view, layout, theme = scene.view, scene.layout, self._theme
        if view.selection is not None or view.marks or scene.snapshot.marks:
            key = (frame, view.marks, len(scene.snapshot.marks))
            return self._across(
                "selection", key, lambda: axis_lines.selection_line(scene.snapshot, view, layout, base, theme)
            )
        label = self._keep(
            "selection left", layout.label_width, lambda: axis_lines.selection_label(layout, theme)
        )
        right = self._keep(
            "selection right",
            (layout.width, layout.numbers_x),
            lambda: axis_lines.numbers_line(layout, theme),
        )
        return [label, *self._areas.words("selection", ""), right]

    def _special(self, scene: Scene, row: DisplayRow) -> list[Strip]:
        """The cells of a row that is not one of bars."""
        insight, theme, snapshot = scene.insight, self._theme, scene.snapshot
        name, device = row.key, row.device
        if row.kind == "path":
            return self._areas.painted(
                name, insight, lambda at: special_rows.path_cells(insight, snapshot.session.meta, at, theme)
            )
        if row.kind == "stalls":
            return self._areas.painted(
                name, insight, lambda at: special_rows.stall_cells(insight, device, at, theme)
            )
        if row.kind == "ghost":
            return self._areas.painted(
                name, insight, lambda at: special_rows.ghost_cells(insight, device, at, theme)
            )
        if row.kind == "partitions":
            return self._areas.painted(
                name, insight, lambda at: special_rows.partition_cells(insight.jobs, len(at) - 1)
            )
        now, session = snapshot.now_ns, snapshot.session
        state = self._areas.state_of(row, now)
        if row.kind == "workers":
            return self._areas.painted(
                name, state, lambda at: special_rows.worker_cells(row.sources, at, now, theme)
            )
        return self._areas.painted(
            name, state, lambda at: special_rows.letter_cells(row.sources, session, at, now, theme)
        )

    def _lane(self, scene: Scene, row: DisplayRow) -> list[Strip]:
        theme, layout, view = self._theme, scene.layout, scene.view
        under_cursor = row.key == view.cursor
        focused = under_cursor and view.focus == "lanes"
        pinned = row.base in view.pinned
        assert self._looks is not None
        if row.empty and row.missing:
            area = self._areas.words(row.key, row.missing)
        elif row.kind != "spans":
            area = self._special(scene, row)
        else:
            area = self._areas.lane(row, self._looks, scene.snapshot.now_ns, _runs(scene))
        numbers = scene.numbers.get(row.key, Numbers())
        size = (layout.width, layout.compact)

        def left() -> Line:
            line = Line(
                theme, layout.label_width, "row selection" if focused else "bar" if under_cursor else "page"
            )
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

        def right() -> Line:
            line = axis_lines.numbers_line(layout, theme)
            if numbers.words:
                return line.put(numbers.words).to(layout.width)
            line.right(numbers.value, layout.numbers_x + 4)
            if layout.compact:
                return line.right(numbers.note, layout.width, "dim").to(layout.width)
            line.right(numbers.note, layout.numbers_x + 9)
            return line.right(numbers.top, layout.width, "dim").to(layout.width)

        look = (size, under_cursor, focused, pinned, row.label, row.letter, row.role, row.indent, row.empty)
        label = self._keep(f"{row.key} left", look, left)
        return [label, *area, self._keep(f"{row.key} right", (size, numbers), right)]

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
            axis_lines.put_bar(line, theme)
            return line

        def right() -> Line:
            line = axis_lines.numbers_line(layout, theme)
            line.right(numbers.value, layout.numbers_x + 4, "ink")
            line.right(numbers.top, layout.width if layout.compact else layout.numbers_x + 11)
            if not layout.compact and numbers.note:
                line.put(" ").put(numbers.note, "dim")
            return line.to(layout.width)

        label = self._keep(f"{name} left", (size, counter.label), left)
        return [label, *area, self._keep(f"{name} right", (size, numbers), right)]


def _runs(scene: Scene) -> bool:
    """Whether the next frame will show more; if not, this one must leave nothing out."""
    return not scene.snapshot.ended and not scene.view.paused


def _put_letter(line: Line, letter: str, row: DisplayRow) -> None:
    """The lane's letter on its fill; the path's star is no fill."""
    if row.kind == "path":
        line.put(letter, "path", True)
    else:
        line.put(letter, "label", True, known_role(row.role))
