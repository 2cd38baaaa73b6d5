"""The session screen: live and replay, one class, told apart only by what its controls offer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from cuzk_top import actions, viewport
from cuzk_top.controls import Facts, Playback, SessionControls
from cuzk_top.screens import files
from cuzk_top.screens.commands import ActionCommands
from cuzk_top.screens.drawn import speed_words
from cuzk_top.screens.help import TextScreen, help_lines
from cuzk_top.screens.walking import WalkedSession
from cuzk_top.viewport import Mode, Window
from cuzk_top.widgets.keys_bar import Prompt
from cuzk_top.widgets.panel import TABS

__all__ = ["Facts", "Playback", "SessionControls", "SessionScreen"]

SPEEDS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, math.inf)
"""Of a replay; at the last one the play head is at the end at once."""


class SessionScreen(WalkedSession, inherit_bindings=False):
    """What the action table names, one method an action: those of lanes and spans are in `walking`."""

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
                self.go_to_match(1)
            return
        if message.purpose == "export":
            files.export(self, message.text)
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
        self.change(replace(self.view, mode="all", auto_width=False))

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
            self.view, head = self.undo.pop()
            playback = self.controls.playback()
            if playback is not None and not playback.playing:
                self.controls.seek(head)
            self.tick(True)
        else:
            self.notice("nothing to take back")

    def action_clock(self) -> None:
        at = viewport.CLOCKS.index(self.view.clock)
        clock = viewport.CLOCKS[(at + 1) % len(viewport.CLOCKS)]
        self.change(replace(self.view, clock=clock))
        known = clock != "utc" or self.data.session.anchors
        words = {"session": "the session's start", "monotonic": "CLOCK_MONOTONIC", "utc": "UTC"}[clock]
        self.notice(f"axis: {words}" if known else "this trace does not know the time of day")

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
            nearest = min(
                range(len(SPEEDS)), key=lambda i: abs(math.atan(SPEEDS[i]) - math.atan(playback.speed))
            )
            speed = SPEEDS[max(0, min(nearest + step, len(SPEEDS) - 1))]
            self.controls.set_speed(speed)
            self.notice(f"speed {speed_words(speed)}")

    def action_seek_here(self) -> None:
        self.controls.seek(self.view.selection[0] if self.view.selection is not None else self.here())
        self.tick(True)

    def action_next_tab(self) -> None:
        keys = [key for key, _, _ in TABS]
        self.open_tab(keys[(keys.index(self.tab) + 1) % len(keys)])

    def action_tab_stalls(self) -> None:
        self.open_tab("stalls")

    def action_tab_stages(self) -> None:
        self.open_tab("stages")

    def action_tab_jobs(self) -> None:
        self.open_tab("jobs")

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

    def action_save(self) -> None:
        files.save(self)

    def action_export(self) -> None:
        self.prompt.ask("export", "export to:", files.suggested(self.controls))

    def action_screenshot(self) -> None:
        files.screenshot(self)

    def action_help(self) -> None:
        mode = self.controls.mode
        self.app.push_screen(TextScreen(self.skin, f"Keys   {mode}", help_lines(mode)))

    def action_palette(self) -> None:
        if self.app.use_command_palette:
            self.app.action_command_palette()
        else:
            self.notice("no list to search in ASCII: ? shows the keys")

    def action_suspend(self) -> None:
        self.app.action_suspend_process()

    def action_stop(self) -> None:
        self.controls.stop()
        self.app.exit("stop")

    def action_quit(self) -> None:
        self.app.exit("quit")
