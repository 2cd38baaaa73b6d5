"""Walking through lanes, spans and findings by keys: the actions of the table's group for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cuzk_top import figures, viewport
from cuzk_top.screens import gaps, lanes, navigation
from cuzk_top.screens.explain import explain_lines
from cuzk_top.screens.help import TextScreen
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.screens.matches import Matches
from cuzk_top.screens.pointer import PointedSession


class WalkedSession(PointedSession, inherit_bindings=False):
    """One method an action."""

    def __init__(self, *of: Any, **named: Any) -> None:
        super().__init__(*of, **named)
        self._matches = Matches()

    def action_lane_down(self) -> None:
        self.change(navigation.move_cursor(self.view, self.rows, 1), False)

    def action_lane_up(self) -> None:
        self.change(navigation.move_cursor(self.view, self.rows, -1), False)

    def action_next_span(self) -> None:
        self._step(1)

    def action_previous_span(self) -> None:
        self._step(-1)

    def _step(self, step: int) -> None:
        row = self.selected_row()
        if row is not None and row.kind == "stalls":
            self._step_gap(row, step)
            return
        if row is not None and row.kind == "path":
            self._step_path(row, step)
            return
        found = navigation.step_span(self.view, self.data, row, step) if row is not None else None
        if row is None or found is None:
            self.notice("no further span in this lane")
            return
        view = replace(self.view, cursor=row.key)
        self.change(navigation.select(view, self.data, *found))

    def _step_gap(self, row: DisplayRow, step: int) -> None:
        gap = gaps.neighbour(self.insight, self.view, row.device, step)
        if gap is None:
            self.notice("no further gap")
            return
        self.change(replace(gaps.select(self.view, *gap), focus="lanes"))

    def _step_path(self, row: DisplayRow, step: int) -> None:
        piece = gaps.beside(
            self.view, [(one.start_ns, one.end_ns) for one in self.insight.analysis.path], step
        )
        if piece is None:
            self.notice("no further piece of the path")
            return
        view = replace(self.view, cursor=row.key, selected=None, selection=piece, focus="lanes")
        self.change(gaps.in_sight(view, piece))

    def action_inspect(self) -> None:
        finding = self.insight.selected(self.view)
        if self.on_findings and finding is not None and self.frame is not None:
            self.change(gaps.zoom_to(self.view, finding, self.frame.columns))
            return
        row = self.selected_row()
        if row is not None and row.kind in ("letters", "workers"):
            self.action_unfold_lane()
            return
        view = replace(self.view, tab="inspector")
        if view.selected is None and row is not None:
            found = navigation.span_at(self.data, row, self.here(), self.view.window.width_ns // 2)
            if found is not None:
                view = navigation.select(replace(view, cursor=row.key), self.data, *found)
        self.panel.top = 0
        self.change(view)

    def action_edge_start(self) -> None:
        self._edge(True)

    def action_edge_end(self) -> None:
        self._edge(False)

    def _edge(self, start: bool) -> None:
        row = self.selected_row()
        if row is None:
            return
        moved = navigation.set_edge(self.view, self.data, row, start)
        if moved == self.view:
            self.notice("no further span edge in this lane")
            return
        self.change(replace(moved, cursor=row.key))

    def action_clear(self) -> None:
        self.change(navigation.clear(self.view))

    def action_search(self) -> None:
        self.prompt.ask("search", "search:", self.view.search)

    def action_next_hit(self) -> None:
        self._hit(1)

    def action_previous_hit(self) -> None:
        self._hit(-1)

    def _hit(self, step: int) -> None:
        """The next match while a search is active, else the next finding."""
        if self.view.search:
            self.go_to_match(step)
            return
        found = gaps.step(self.view, self.insight, step)
        if found is None:
            self.notice("no findings; / starts a search")
            return
        line, count, finding = found
        self.panel.show_line(line)
        self.change(replace(gaps.select(self.view, finding, gaps.worst(finding)), tab="stalls"))
        self.notice(f"finding {line + 1} of {count}: {finding.rule}")

    def action_order(self) -> None:
        at = viewport.ORDERS.index(self.view.order)
        order = viewport.ORDERS[(at + 1) % len(viewport.ORDERS)]
        self.change(replace(self.view, order=order))
        words = {"saved": "wall time saved", "lost": "GPU time lost", "time": "when they begin"}[order]
        self.notice(f"findings by {words}")

    def action_explain(self) -> None:
        lines = explain_lines(self.data, self.view, self.selected_row(), self.insight, self.on_findings)
        self.app.push_screen(TextScreen(self.skin, "Explain", lines))

    def go_to_match(self, step: int) -> None:
        """Select the next (1) or previous (-1) span that the search found."""
        found = self._matches.step(self.view, self.data, step)
        if found is None:
            self.notice(f"no span named like {self.view.search!r}")
            return
        view = navigation.select(self.view, self.data, found.row, found.record)
        assert view.selected is not None
        self.change(navigation.cursor_for(view, self.rows, view.selected))
        place = f"{figures.count(found.number)} of {figures.count(found.count)}"
        self.notice(f"match {place}: {found.record.name}")

    def action_mark(self) -> None:
        self.change(navigation.toggle_mark(self.view, self.data))

    def action_fold(self) -> None:
        self.change(replace(self.view, show_all=not self.view.show_all))

    def action_unfold_lane(self) -> None:
        row = self.selected_row()
        if row is None:
            return
        key = lanes.fold_key(row)
        device = f"{key}.busy" if row.device is not None and row.kind == "letters" else key
        self.change(replace(self.view, cursor=device, unfolded=self.view.unfolded ^ {key}, focus="lanes"))

    def action_pin(self) -> None:
        row = self.selected_row()
        if row is not None:
            self.change(replace(self.view, cursor=row.key, pinned=self.view.pinned ^ {row.base}))
            self.notice(
                f"{row.label} {'stays on the screen' if row.base in self.view.pinned else 'is not pinned'}"
            )

    def action_hide(self) -> None:
        row = self.selected_row()
        if row is None:
            return
        keys = [one.key for one in self.rows if one.base != row.base]
        at = next((i for i, one in enumerate(self.rows) if one.base == row.base), 0)
        cursor = keys[min(at, len(keys) - 1)] if keys else ""
        self.change(
            replace(
                self.view,
                cursor=cursor,
                hidden=self.view.hidden | {row.base},
                pinned=self.view.pinned - {row.base},
                focus="lanes",
            )
        )
        self.notice(f"{row.label} is hidden: X shows it again")

    def action_show_hidden(self) -> None:
        if self.view.hidden:
            self.change(replace(self.view, hidden=frozenset()))
        else:
            self.notice("no lane is hidden: x hides one")
