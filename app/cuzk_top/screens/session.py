"""The session screen: live and replay, one class, told apart only by what its controls offer."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from cuzk_top import actions, figures, viewport
from cuzk_top.controls import Facts, Playback, SessionControls
from cuzk_top.screens import navigation
from cuzk_top.screens.commands import ActionCommands
from cuzk_top.screens.help import HelpScreen
from cuzk_top.screens.pointer import PointedSession
from cuzk_top.viewport import Mode, Window
from cuzk_top.widgets.keys_bar import Prompt
from cuzk_top.widgets.panel import TABS

__all__ = ["Facts", "Playback", "SessionControls", "SessionScreen"]

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0)


class SessionScreen(PointedSession, inherit_bindings=False):
    """What the action table names, one method an action."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(",".join(action.keys), action.id, action.label, show=False, id=action.id)
        for action in actions.ACTIONS
    ]
    COMMANDS = {ActionCommands}  # noqa: RUF012

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Only what makes sense in this mode."""
        known = next((entry for entry in actions.ACTIONS if entry.id == action), None)
        return known is None or self.controls.mode in known.modes

    def on_prompt_answered(self, message: Prompt.Answered) -> None:
        if message.purpose == "search":
            self.change(replace(self.view, search=message.text))
            if message.text:
                self.action_next_match()
            return
        real = self.data.session.realtime_ns(self.data.first_ns)
        offset = real - self.data.first_ns if real is not None else None
        at = viewport.parse_time(message.text, self.data.first_ns, offset)
        if at is None:
            self.notice(f"not a time: {message.text!r}; try 12.5, 250ms, 1:02.5 or 14:03:05")
            return
        if self.controls.mode == "replay":
            self.controls.seek(at)
        width = self.view.window.width_ns
        self.look(Window(at - width // 2, at - width // 2 + width))

    def on_prompt_left(self) -> None:
        self.tick(True)

    # actions, in the order of the table

    def action_zoom_in(self) -> None:
        self.zoom(self.here(), viewport.ZOOM_STEP)

    def action_zoom_out(self) -> None:
        self.zoom(self.here(), 1 / viewport.ZOOM_STEP)

    def action_pan_left(self) -> None:
        self.pan(-0.2)

    def action_pan_right(self) -> None:
        self.pan(0.2)

    def action_fit_all(self) -> None:
        self.change(replace(self.view, mode="fit", auto_width=False))

    def action_fit_selection(self) -> None:
        if self.view.selection is None or self.frame is None:
            self.notice("nothing is selected: . or Enter selects a span")
            return
        begin, end = self.view.selection
        margin = (end - begin) // 20
        self.look(viewport.fit(begin - margin, end + margin, self.frame.columns))

    def action_go_start(self) -> None:
        if self.controls.mode == "replay":
            self.controls.seek(self.data.first_ns)
        self.look(Window(self.data.first_ns, self.data.first_ns + self.view.window.width_ns))

    def action_go_end(self) -> None:
        if self.controls.mode == "replay":
            self.controls.seek(self.data.last_ns)
            end = self.data.last_ns + self.view.window.width_ns // 20
            self.look(Window(end - self.view.window.width_ns, end))
            return
        self.change(replace(self.view, mode="page", paused=False))

    def action_go_to(self) -> None:
        self.prompt.ask("time", "go to:")

    def action_toggle_scroll(self) -> None:
        mode: Mode = "follow" if self.view.mode == "page" else "page"
        self.change(replace(self.view, mode=mode, paused=False))

    def action_undo(self) -> None:
        if self.undo:
            self.view = self.undo.pop()
            self.tick(True)
        else:
            self.notice("nothing to take back")

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
        found = navigation.step_span(self.view, self.data, row, step) if row is not None else None
        if row is None or found is None:
            self.notice("no further span in this lane")
            return
        view = replace(self.view, cursor=row.key)
        self.change(navigation.select(view, self.data, *found))

    def action_inspect(self) -> None:
        row = self.selected_row()
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
        if row is not None:
            view = replace(self.view, cursor=row.key)
            self.change(navigation.set_edge(view, self.data, row, start))

    def action_clear(self) -> None:
        self.change(navigation.clear(self.view))

    def action_search(self) -> None:
        self.prompt.ask("search", "search:", self.view.search)

    def action_next_match(self) -> None:
        self._match(1)

    def action_previous_match(self) -> None:
        self._match(-1)

    def _match(self, step: int) -> None:
        if not self.view.search:
            self.notice("no search yet: / starts one")
            return
        found = navigation.step_match(self.view, self.data, step)
        if found is None:
            self.notice(f"no span named like {self.view.search!r}")
            return
        number, count, row, record = found
        view = navigation.select(self.view, self.data, row, record)
        assert view.selected is not None
        self.change(navigation.cursor_for(view, self.rows, view.selected))
        self.notice(f"match {figures.count(number)} of {figures.count(count)}: {record.name}")

    def action_mark(self) -> None:
        self.change(navigation.toggle_mark(self.view, self.data))

    def action_fold(self) -> None:
        self.change(replace(self.view, show_all=not self.view.show_all))

    def action_unfold_lane(self) -> None:
        row = self.selected_row()
        if row is None:
            return
        lane = row.key.split("#")[0].split("/")[0]
        self.change(replace(self.view, cursor=lane, unfolded=self.view.unfolded ^ {lane}))

    def action_toggle_pause(self) -> None:
        if self.view.paused or self.view.mode == "hold":
            self.change(replace(self.view, paused=False, mode="page"))
            return
        self.spans_at_pause = self.data.spans
        self.change(replace(self.view, paused=True))

    def action_toggle_play(self) -> None:
        playback = self.controls.playback()
        if playback is None:
            return
        if playback.at_end:
            self.controls.seek(self.data.first_ns)
            self.controls.play()
        elif playback.playing:
            self.controls.pause()
        else:
            self.controls.play()
        self.tick(True)

    def action_slower(self) -> None:
        self._speed(-1)

    def action_faster(self) -> None:
        self._speed(1)

    def _speed(self, step: int) -> None:
        playback = self.controls.playback()
        if playback is not None:
            nearest = min(range(len(SPEEDS)), key=lambda i: abs(SPEEDS[i] - playback.speed))
            speed = SPEEDS[max(0, min(nearest + step, len(SPEEDS) - 1))]
            self.controls.set_speed(speed)
            self.notice(f"speed {speed:g}x")

    def action_seek_here(self) -> None:
        self.controls.seek(self.view.selection[0] if self.view.selection is not None else self.here())
        self.tick(True)

    def action_next_tab(self) -> None:
        keys = [key for key, _ in TABS]
        self.open_tab(keys[(keys.index(self.view.tab) + 1) % len(keys)])

    def action_tab_stages(self) -> None:
        self.open_tab("stages")

    def action_tab_inspector(self) -> None:
        self.open_tab("inspector")

    def action_tab_log(self) -> None:
        self.open_tab("log")

    def action_panel_down(self) -> None:
        self.panel.move(5)
        self.tick_words()

    def action_panel_up(self) -> None:
        self.panel.move(-5)
        self.tick_words()

    def action_screenshot(self) -> None:
        name = f"cuzk-top-{self.data.session.pid or 'trace'}-{self.data.revision}.svg"
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "cuzk-top"
        for folder in (Path.cwd(), state):
            try:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(self.app.export_screenshot(), encoding="utf-8")
            except OSError as error:
                problem = error
                continue
            self.notice(f"wrote {folder / name}")
            return
        self.notice(f"no screenshot: {problem}")

    def action_help(self) -> None:
        self.app.push_screen(HelpScreen(self.skin, self.controls.mode))

    def action_suspend(self) -> None:
        self.app.action_suspend_process()

    def action_stop(self) -> None:
        self.controls.stop()
        self.app.exit("stop")

    def action_quit(self) -> None:
        self.app.exit("quit")
