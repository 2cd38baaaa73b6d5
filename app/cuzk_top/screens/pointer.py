"""The mouse on the session screen: wheel pans, ctrl+wheel zooms, drag selects time, click selects a span."""

from __future__ import annotations

from dataclasses import replace

from textual import events

from cuzk_top import viewport
from cuzk_top.screens import gaps, navigation
from cuzk_top.screens.drawn import DrawnSession
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.viewport import ViewState

PAN_SHARE = 0.1


class PointedSession(DrawnSession, inherit_bindings=False):
    """Event handlers only; every gesture has a key."""

    _press: int | None = None
    """Column where the button went down."""

    def _column(self, event: events.MouseEvent) -> int | None:
        """Column of the time area under the pointer, or None outside it."""
        layout = self.frame
        if layout is None or not self.timeline.region.contains(event.screen_x, event.screen_y):
            return None
        column = event.screen_x - layout.label_width
        return column if 0 <= column < layout.columns else None

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self.on_wheel(event, 1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self.on_wheel(event, -1)

    def on_wheel(self, event: events.MouseEvent, direction: int) -> None:
        """Wheel: pan, or with ctrl zoom about the pointer; over the panel it scrolls."""
        if self.frame is None:
            return
        if self.panel.region.contains(event.screen_x, event.screen_y):
            self.panel.move(3 * direction)
            self.tick_words()
            return
        column = self._column(event)
        if not event.ctrl:
            self.pan(PAN_SHARE * direction)
        elif column is not None:
            at = viewport.time_of(self.view.window, self.frame.columns, column + 0.5)
            self.zoom(at, viewport.ZOOM_STEP if direction < 0 else 1 / viewport.ZOOM_STEP)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._press = self._column(event)
        if self._press is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        column = self._column(event)
        if self._press is not None and column is not None and column != self._press and event.button:
            self.change(replace(self.view, selected=None, selection=self._stretch(column)), False)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self.release_mouse()
        press, self._press = self._press, None
        layout = self.frame
        if layout is None:
            return
        if self.panel.region.contains(event.screen_x, event.screen_y):
            self._on_panel(event.screen_x, event.screen_y - self.panel.region.y)
            return
        line = event.screen_y - self.timeline.region.y - layout.first_row_y
        if not 0 <= line < len(layout.rows):
            return
        row = layout.rows[line]
        column = self._column(event)
        view = replace(self.view, cursor=row.key, focus="lanes")
        if press is not None and column == press:
            view = self._clicked(view, row, column)
        elif press is not None and view.selected is None and view.selection is not None:
            reach = self.view.window.width_ns // layout.columns
            low, high = (navigation.snap(row, self.data, edge, reach) for edge in view.selection)
            view = replace(view, selection=(low, max(high, low + 1)))
        self.change(view)

    def _on_panel(self, x: int, y: int) -> None:
        """A click on a tab's title opens it, one on a finding selects that."""
        tab = self.panel.tab_at(x) if y == 0 else None
        if tab is not None:
            self.open_tab(tab)
            return
        found = self.insight.in_order(self.view.order)
        line = y - self.panel.head + self.panel.top
        if self.tab == "stalls" and y >= self.panel.head and line < len(found):
            self.change(gaps.select(self.view, found[line], gaps.worst(found[line])))

    def _clicked(self, view: ViewState, row: DisplayRow, column: int) -> ViewState:
        """Select the span or gap under the pointer; where there is none, nothing is selected any more."""
        assert self.frame is not None
        per_column = self.view.window.width_ns // self.frame.columns
        at = viewport.time_of(self.view.window, self.frame.columns, column + 0.5)
        if row.kind == "stalls":
            gap = gaps.at(self.insight, row.device, at, per_column)
            return gaps.select(view, *gap) if gap is not None else navigation.clear(view)
        found = navigation.span_at(self.data, row, at, per_column)
        return navigation.select(view, self.data, *found) if found else navigation.clear(view)

    def _stretch(self, column: int) -> tuple[int, int]:
        assert self.frame is not None and self._press is not None
        low, high = sorted((self._press, column))
        window, columns = self.view.window, self.frame.columns
        return viewport.time_of(window, columns, low), viewport.time_of(window, columns, high + 1)
