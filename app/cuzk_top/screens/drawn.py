"""The drawing half of the session screen: frames, figures and the view they show."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from textual.app import ComposeResult
from textual.geometry import Size
from textual.screen import Screen

from cuzk_top import figures, viewport
from cuzk_top.controls import SessionControls
from cuzk_top.model import Snapshot
from cuzk_top.screens import gaps, navigation, panes, placing
from cuzk_top.screens.analysis import NO_INSIGHT, Analyse, Analyst, Insight
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.screens.layout import MIN_HEIGHT, MIN_WIDTH, Arranger, Layout
from cuzk_top.screens.pace import Beat, Pace
from cuzk_top.screens.tables import Picture, Tables
from cuzk_top.theme import Theme
from cuzk_top.viewport import Mode, ViewState, Window
from cuzk_top.widgets.brush import Brush
from cuzk_top.widgets.header import Header, Title
from cuzk_top.widgets.keys_bar import KeysBar, Prompt
from cuzk_top.widgets.paint import Line
from cuzk_top.widgets.panel import Panel
from cuzk_top.widgets.timeline import Scene, Timeline

TEXT_NS = 500_000_000
"""Figures and tables change at most twice a second."""
NOTICE_NS = 5_000_000_000
NEVER_NS = 1 << 62
UNDO_DEPTH = 100


class DrawnSession(Screen[None], inherit_bindings=False):
    """Draws the session ten times a second while something changes, and nothing otherwise."""

    AUTO_FOCUS = ""
    """Nothing has the focus, so that every key is the screen's; the prompt takes it while it asks."""

    def __init__(
        self,
        controls: SessionControls,
        theme: Theme,
        clock: Callable[[], int],
        analyse: Analyse,
        view: ViewState | None = None,
    ) -> None:
        super().__init__()
        self.controls = controls
        self.skin = theme
        self.view = view or ViewState(mode="page" if controls.mode == "live" else "fit")
        self.insight = NO_INSIGHT
        self.analyst = Analyst(analyse, clock)
        self._first_tab = "stages"
        self.frame: Layout | None = None
        self._arranger = Arranger()
        self.data: Snapshot = controls.snapshot()
        self._clock = clock
        self.undo: list[tuple[ViewState, int]] = []
        """Earlier views, and in a replay where the play head was."""
        self._drawn: object = None
        self._size = Size()
        """What the last frame was drawn for."""
        self._said: object = None
        self._sized: int | None = None
        """Height that the time area was given."""
        self._text_due_ns = 0
        self._facts = controls.facts()
        self._tables = Tables(clock)
        self._notice = ("", NEVER_NS)
        self.spans_at_pause = 0
        self._placed = view is not None
        self._pace = Pace()
        self._beat: Beat | None = None
        self._fitted = False
        """A live session that has ended is fitted once; then the user has the window."""
        self.header = Header(theme)
        self.timeline = Timeline(theme)
        self.panel = Panel(theme)
        self.keys = KeysBar(theme)
        self.prompt = Prompt(theme)
        self._brush = Brush(self)
        for canvas in (self.header, self.timeline, self.panel, self.keys):
            canvas.brush = self._brush

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.timeline
        yield self.panel
        yield self.keys
        yield self.prompt

    def on_mount(self) -> None:
        self._beat = Beat(self._frame)

    def on_unmount(self) -> None:
        if self._beat is not None:
            self._beat.stop()

    def on_resize(self) -> None:
        if self.size != self._size:  # at the start it comes with the size that was drawn for
            self.tick(True)

    def on_screen_resume(self) -> None:
        self._drawn = None
        self.tick(True)

    # drawing

    def _frame(self) -> None:
        """The timer's tick. Keys do not wait for it. Without a terminal no time is worth saving."""
        if self._closing:
            return
        try:
            if self.app.is_headless or self._pace.due(time.thread_time()):
                self.tick()
        except Exception as error:  # as Textual does with those of its own timers: it ends, and says why
            self.app._handle_exception(error)

    def tick(self, force: bool = False) -> None:
        """One frame, or nothing if nothing changed. `force` also renews the figures."""
        if not self.is_current or not self.size.width:
            return
        if getattr(self.app._driver, "behind", False):
            # More would only come late: the next tick draws all of it.
            self._drawn, self._text_due_ns = None, 0
            return
        newest = self.controls.snapshot()
        if not self.view.paused:
            self.data = newest
        playback = self.controls.playback()
        moving = not self.data.ended if playback is None else playback.playing
        insight = self.insight
        if self._drawn is not None:  # the first picture does not share its time with the first analysis
            insight = self.analyst.look(self.data, self.view.window, moving)
            if insight is not self.insight:
                self._learn(insight)
        self._size = self.size
        width, height = self.size
        layout = self._arranger.arrange(self.data, self.view, width, height, insight)
        if layout is None:
            self._too_small(width, height)
            return
        self._place(layout)
        now = self._clock()
        due = force or now >= self._text_due_ns
        if now >= self._notice[1]:
            self._notice = ("", NEVER_NS)
        state = (self.data.revision, self.data.now_ns, self.view, width, height, playback, insight)
        words = (state, self._notice, newest.spans, len(self.controls.lines())) if due else None
        if state == self._drawn and (not due or (words == self._said and not force)):
            return
        self._drawn = state
        self.frame = layout
        if self._sized != layout.timeline_height:
            self._resize(layout)
        if due:
            self._text_due_ns = now + TEXT_NS
            self._facts = self.controls.facts()
            self._renew_figures(layout)
        numbers, measured = self._tables.figures.numbers, self._facts.measured
        self._brush.take()
        self.timeline.draw(Scene(self.data, self.view, layout, numbers, measured, insight))
        if due:
            self._said = words
            self._words(layout)
        self._brush.lay_down()

    def _renew_figures(self, layout: Layout) -> None:
        """Those of this moment; of large traces they come later."""
        inspected = self.view.selected if self.tab == "inspector" else None
        picture = Picture(self.data, self.view, layout, self.insight, inspected)
        work = self._tables.renew(picture, self.controls.mode == "live", self.tab == "stages")
        if work is not None:
            self.run_worker(
                lambda: self.app.call_from_thread(self._figures_came, work()), thread=True, group="figures"
            )

    def _figures_came(self, arrive: Callable[[], bool]) -> None:
        """The numbers are in the next frame; the words wait for their time, unless the stage table is new."""
        self._drawn = None
        if arrive():
            self._text_due_ns = 0
        if self.controls.mode != "live" or self.data.ended:  # else ten frames a second come anyway
            self.tick()

    def _resize(self, layout: Layout) -> None:
        """Give the widgets their heights; only when they change, since that lays the screen out again."""
        self._sized = layout.timeline_height
        self.set_class(False, "tiny")
        self.timeline.styles.height = layout.timeline_height

    def _too_small(self, width: int, height: int) -> None:
        self.frame, self._sized, self._drawn = None, None, None
        self.set_class(True, "tiny")
        self.timeline.styles.height = height
        needs, has = f"needs {MIN_WIDTH}x{MIN_HEIGHT}", f"has {width}x{height}"
        if len(needs) + len(has) + 2 <= width:
            needs, has = f"{'cuzk-top ' if width > 30 else ''}{needs}, {has}", ""
        lines = [Line(self.skin, width).put(words, "ink") for words in (needs, has) if words]
        lines.append(Line(self.skin, width).put("q quit", "dim"))
        lines += [Line(self.skin, width) for _ in range(max(0, height - len(lines)))]
        self.timeline.say(lines[:height], width)

    def _place(self, layout: Layout) -> None:
        """Move the window along with now; live data is followed from its start."""
        data = self.data
        if not self._placed:
            self._placed = any(len(row.columns) or row.open is not None for row in data.rows)
            self.view = placing.first_window(self.view, data, layout.columns)
        if self.view.paused:
            return
        live = self.controls.mode == "live"
        if live and data.ended and not self._fitted and self.view.mode == "page" and self.view.auto_width:
            self._fitted = True
            self.view = replace(self.view, mode="fit")
        self.view = placing.moved_along(self.view, data, layout.columns, live)

    def _words(self, layout: Layout) -> None:
        """Header, panel and keys: everything that is read rather than watched."""
        width = self.size.width
        self.header.draw(self.data, self._title(), width)
        shown = panes.Shown(
            self.data, self.view, self.tab, self.insight, self._tables.figures, self.controls.lines()
        )
        words, lines = panes.status(shown, layout), panes.body(shown, layout, self.skin)
        size = (width, layout.panel_height + 1)
        self.panel.draw(self.tab, panes.counts(self.insight), words, lines, size)
        self.keys.draw(self.controls.mode, self.on_findings, width)

    @property
    def tab(self) -> str:
        """The open pane. Until the user opens one: the stalls as soon as there is a device or a finding."""
        return self.view.tab or self._first_tab

    @property
    def placed_view(self) -> ViewState | None:
        """The view, once its window was found."""
        return self.view if self._placed else None

    @property
    def on_findings(self) -> bool:
        """Whether Enter acts on the selected finding."""
        return self.tab == "stalls" and self.view.focus == "panel" and bool(self.insight.analysis.findings)

    def _learn(self, insight: Insight) -> None:
        """Take a newer insight; in a replay the first one selects the worst finding."""
        first, self.insight = self.insight is NO_INSIGHT, insight
        if first or self.data.ended:
            self._text_due_ns = 0
        if self.data.devices or insight.analysis.findings:
            self._first_tab = "stalls"
        found = insight.in_order(self.view.order)
        fresh = self.view.finding is None and self.view.selection is None
        if first and fresh and found and found[0].ranked and self.controls.mode == "replay":
            self.view = gaps.select(self.view, found[0], gaps.worst(found[0]), move=False)

    def _title(self) -> Title:
        facts = self._facts
        badge, strong = self._badge()
        text = self._notice[0]
        if self.view.paused and not text:
            since = self.controls.snapshot().spans - self.spans_at_pause
            text = f"+{figures.count(since)} spans since" if since > 0 else ""
        frames = "5 frames/s" if self._pace.halved else ""
        job = panes.job_now(self.insight, self.data.now_ns)
        return Title(badge, strong, facts.job, facts.backend, facts.gpu, facts.tracing, text, frames, job)

    def _badge(self) -> tuple[str, bool]:
        playback = self.controls.playback()
        if playback is not None:
            if playback.at_end and not playback.playing:
                return "REPLAY", False
            return (f"REPLAY {speed_words(playback.speed)}", True) if playback.playing else ("PAUSED", False)
        if self.view.paused:
            return "PAUSED", False
        return ("ENDED", False) if self.data.ended else ("LIVE", True)

    def notice(self, text: str) -> None:
        """Tell the user something at the end of the first line, for five seconds."""
        self._notice = (text, self._clock() + NOTICE_NS)
        self.tick(True)

    # changing the view

    def change(self, view: ViewState, undoable: bool = True) -> None:
        """Take a new view and draw it."""
        if view != self.view:
            if undoable:
                self.undo = [*self.undo[-UNDO_DEPTH:], (self.view, self.data.now_ns)]
                self._notice = ("", NEVER_NS)  # it was about the view before
            self.view = view
        self.tick(True)

    def look(self, window: Window, mode: Mode = "hold") -> None:
        """Show another window; a window that the user chose stands still."""
        self.change(replace(self.view.looking_at(window, mode), auto_width=False))

    @property
    def rows(self) -> tuple[DisplayRow, ...]:
        return self.frame.rows if self.frame is not None else ()

    def here(self) -> int:
        """The time that a key press is about: the selection's middle if it is on the screen, else the
        window's.
        """
        window = self.view.window
        if self.view.selection is not None:
            middle = (self.view.selection[0] + self.view.selection[1]) // 2
            if window.t0_ns <= middle < window.t1_ns:
                return middle
        return window.t0_ns + window.width_ns // 2

    def zoom(self, at_ns: int, factor: float) -> None:
        span = max(self.data.last_ns, self.data.now_ns) - self.data.first_ns
        widest = max(4 * span, viewport.FIRST_PAGE_NS, self.view.window.width_ns)
        self.look(viewport.zoom(self.view.window, at_ns, factor, widest))

    def pan(self, share: float) -> None:
        window = self.view.window
        last = max(self.data.last_ns, self.data.now_ns)
        self.look(viewport.pan(window, round(window.width_ns * share), self.data.first_ns, last))

    def open_tab(self, tab: str) -> None:
        """Bring a tab of the panel to the front."""
        self.panel.top = 0
        self.change(replace(self.view, tab=tab, focus="panel" if tab == "stalls" else "lanes"), False)

    def tick_words(self) -> None:
        """Draw the panel again where only its scroll position changed."""
        if self.frame is not None:
            self._words(self.frame)

    def selected_row(self) -> DisplayRow | None:
        return navigation.row_under_cursor(self.view, self.rows)


def speed_words(speed: float) -> str:
    """A pace of replay: ``2x``, or ``max``."""
    return "max" if math.isinf(speed) else f"{speed:g}x"
