"""The drawing half of the session screen: frames, figures and the view they show."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from textual.app import ComposeResult
from textual.screen import Screen

from cuzk_top import figures, stats, viewport
from cuzk_top.controls import SessionControls
from cuzk_top.model import Snapshot
from cuzk_top.screens import navigation
from cuzk_top.screens.layout import MIN_HEIGHT, MIN_WIDTH, DisplayRow, Layout, arrange
from cuzk_top.screens.pace import Pace
from cuzk_top.screens.tables import NO_FIGURES, Figures, compute
from cuzk_top.theme import Theme
from cuzk_top.viewport import Mode, ViewState, Window
from cuzk_top.widgets.header import Header, Title
from cuzk_top.widgets.inspector_lines import inspector_lines
from cuzk_top.widgets.keys_bar import KeysBar, Prompt
from cuzk_top.widgets.paint import Line
from cuzk_top.widgets.panel import Body, Panel
from cuzk_top.widgets.stage_lines import stage_lines
from cuzk_top.widgets.timeline import Scene, Timeline

FRAME_S = 0.1
TEXT_NS = 500_000_000
"""Figures and tables change at most twice a second."""
TABLE_NS = 1_000_000_000
"""The stage table while a session runs; it is many lines of figures."""
NOTICE_NS = 5_000_000_000
NEVER_NS = 1 << 62
UNDO_DEPTH = 100
INLINE_SPANS = 50_000
"""Figures of more spans are computed in a thread: they would take longer than a frame may."""
FIGURES_REST = 20
"""While live, the thread rests so many times as long as it worked."""


class DrawnSession(Screen[None], inherit_bindings=False):
    """Draws the session ten times a second while something changes, and nothing otherwise."""

    AUTO_FOCUS = ""
    """Nothing has the focus, so that every key is the screen's; the prompt takes it while it asks."""

    def __init__(
        self,
        controls: SessionControls,
        theme: Theme,
        clock: Callable[[], int],
        view: ViewState | None = None,
    ) -> None:
        super().__init__()
        self.controls = controls
        self.skin = theme
        self.view = view or ViewState(mode="page" if controls.mode == "live" else "fit")
        self.frame: Layout | None = None
        self.data: Snapshot = controls.snapshot()
        self._clock = clock
        self.undo: list[ViewState] = []
        self._drawn: object = None
        self._said: object = None
        self._sized: Layout | None = None
        self._text_due_ns = 0
        self._facts = controls.facts()
        self._figures = NO_FIGURES
        self._figured: tuple[object, ...] | None = None
        self._figures_due_ns = 0
        self._table_due_ns = 0
        self._computing = False
        self._notice = ("", NEVER_NS)
        self.spans_at_pause = 0
        self._placed = view is not None
        self._pace = Pace()
        self._fitted = False
        """A live session that has ended is fitted once; then the user has the window."""
        self.header = Header(theme)
        self.timeline = Timeline(theme)
        self.panel = Panel(theme)
        self.keys = KeysBar(theme)
        self.prompt = Prompt(theme)

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.timeline
        yield self.panel
        yield self.keys
        yield self.prompt

    def on_mount(self) -> None:
        self.set_interval(FRAME_S, self._frame)
        self.tick(True)

    def on_resize(self) -> None:
        self.tick(True)

    def on_screen_resume(self) -> None:
        self._drawn = None
        self.tick(True)

    # drawing

    def _frame(self) -> None:
        """The timer's tick. Keys do not wait for it. Without a terminal no time is worth saving."""
        if self.app.is_headless or self._pace.due(time.thread_time()):
            self.tick()

    def tick(self, force: bool = False) -> None:
        """One frame, or nothing if nothing changed. `force` also renews the figures."""
        if not self.is_current or not self.size.width:
            return
        if not self.view.paused:
            self.data = self.controls.snapshot()
        width, height = self.size
        layout = arrange(self.data, self.view, width, height)
        if layout is None:
            self._too_small(width, height)
            return
        self._place(layout)
        now = self._clock()
        due = force or now >= self._text_due_ns
        if now >= self._notice[1]:
            self._notice = ("", NEVER_NS)
        state = (self.data.revision, self.data.now_ns, self.view, width, height, self.controls.playback())
        words = (state, self._notice, self.controls.snapshot().spans, len(self.controls.lines()))
        if state == self._drawn and (not due or (words == self._said and not force)):
            return
        self._drawn = state
        self.frame = layout
        if self._sized != layout:
            self._resize(layout)
        if due:
            self._text_due_ns = now + TEXT_NS
            self._facts = self.controls.facts()
            self._compute_figures(layout, now)
        numbers, measured = self._figures.numbers, self._facts.measured
        self.timeline.draw(Scene(self.data, self.view, layout, numbers, measured))
        if due:
            self._said = words
            self._words(layout)

    def _compute_figures(self, layout: Layout, now: int) -> None:
        """Renew the figures if they are of another moment or window; those of large traces in a thread."""
        moment = (self.data.revision, self.data.now_ns)
        key = (moment, self.view.window, layout.rows, layout.counters, layout.compact)
        if key == self._figured:
            return
        same = self._figured is not None and self._figured[0] == moment
        running = self.controls.mode == "live" and not self.data.ended
        table = self._figures.table if same or (running and now < self._table_due_ns) else None
        if table is None:
            self._table_due_ns = now + TABLE_NS
        if self.data.spans <= INLINE_SPANS:
            self._figured, self._figures = key, compute(self.data, self.view, layout, table)
        elif not self._computing and now >= self._figures_due_ns:
            self._computing = True
            data, view = self.data, self.view

            def work() -> None:
                figures = compute(data, view, layout, table)
                self.app.call_from_thread(arrive, figures)

            def arrive(figures: Figures) -> None:
                self._computing = False
                self._figured, self._figures = key, figures
                done = self._clock()
                resting = self.controls.mode == "live"
                self._figures_due_ns = done + FIGURES_REST * (done - now) if resting else done
                self._drawn, self._text_due_ns = None, 0

            self.run_worker(work, thread=True, group="figures")

    def _resize(self, layout: Layout) -> None:
        """Give the widgets their heights; only when they change, since that lays the screen out again."""
        old = self._sized
        self._sized = layout
        self.set_class(False, "tiny")
        if old is None or old.timeline_height != layout.timeline_height:
            self.timeline.styles.height = layout.timeline_height

    def _too_small(self, width: int, height: int) -> None:
        self.frame, self._sized, self._drawn = None, None, None
        self.set_class(True, "tiny")
        self.timeline.styles.height = height
        words = f"needs {MIN_WIDTH}x{MIN_HEIGHT}, has {width}x{height}"
        first = Line(self.skin, width).put("cuzk-top " if width > 30 else "").put(words, "ink")
        second = Line(self.skin, width).put("q quit", "dim")
        rest = [Line(self.skin, width) for _ in range(max(0, height - 2))]
        self.timeline.say([first, second, *rest][:height], width)

    def _place(self, layout: Layout) -> None:
        """Move the window along with now, as the view's mode asks; live data is followed from its start."""
        view, data = self.view, self.data
        columns = layout.columns
        first = data.first_ns or data.now_ns
        if not self._placed:
            self._placed = any(len(row.columns) or row.open is not None for row in data.rows)
            window = viewport.first_page(first, data.now_ns, self._page_ns(columns), columns)
            view = view.looking_at(window)
        if view.paused:
            self.view = view
            return
        ended = self.controls.mode == "live" and data.ended
        if ended and view.mode == "page" and view.auto_width and not self._fitted:
            self._fitted = True
            view = replace(view, mode="fit")
        if view.mode == "fit":
            last = data.last_ns if self.controls.mode == "replay" else max(data.last_ns, data.now_ns)
            view = view.looking_at(viewport.fit(first, max(first, last), columns))
        elif view.mode == "page" and not ended and not viewport.on_page(view.window, data.now_ns):
            running = stats.running_proof(data) if view.auto_width else None
            width = self._page_ns(columns) if view.auto_width else None
            view = view.looking_at(viewport.page(view.window, data.now_ns, columns, running, width))
        elif view.mode == "follow":
            view = view.looking_at(viewport.follow(view.window, data.now_ns, columns))
        self.view = view

    def _page_ns(self, columns: int) -> int:
        """Width of an automatic page, by the proofs that have ended."""
        durations = stats.proofs(self.data)[1]
        return viewport.page_width(int(statistics.median(durations)) if durations else None, columns)

    def _words(self, layout: Layout) -> None:
        """Header, panel and keys: everything that is read rather than watched."""
        width = self.size.width
        self.header.draw(self.data, self._title(), width)
        room = layout.panel_height
        self.panel.draw(self.view.tab, self._status(layout), self._body(width, room), (width, room + 1))
        self.keys.draw(self.controls.mode, (), width)

    def _body(self, width: int, room: int) -> Body:
        if self.view.tab == "stages":
            letters = {row.lane.key: row.lane.letter for row in self.data.rows}
            table = self._figures.table
            head, make = stage_lines(table, letters, self.skin, width)
            return Body([head], len(table), make)
        if self.view.tab == "inspector":
            facts = inspector_lines(self.data, self.view.selected, self.skin, width, room)
            return Body([], len(facts), facts.__getitem__)
        lines = self.controls.lines() or ("no lines yet",)
        return Body([], len(lines), lambda i: Line(self.skin, width).put("  ").put(lines[i]))

    def _status(self, layout: Layout) -> str:
        """Right end of the tab line: the selection, else what is hidden."""
        if self.view.selection is not None and not layout.compact:
            begin, end = self.view.selection
            row = navigation.row_under_cursor(self.view, layout.rows)
            if row is not None:
                now = self.data.now_ns
                busy = stats.busy_ns(row.sources, begin, end, now)
                count = sum(stats.count_in(source, begin, end, now) for source in row.sources)
                share = figures.percent(busy, max(1, end - begin))
                spans = f"{figures.count(count)} span{'s' if count != 1 else ''}"
                return f"selection {figures.spaced(end - begin)}, {row.label} busy {share}, {spans}"
        if layout.hidden:
            return f"{layout.hidden} lane{'s' if layout.hidden > 1 else ''} hidden: z"
        return "all lanes shown: z folds" if self.view.show_all else ""

    def _title(self) -> Title:
        facts = self._facts
        badge, strong = self._badge()
        text = self._notice[0]
        if self.view.paused and not text:
            since = self.controls.snapshot().spans - self.spans_at_pause
            text = f"+{figures.count(since)} spans since" if since > 0 else ""
        frames = "5 frames/s" if self._pace.halved else ""
        return Title(badge, strong, facts.job, facts.backend, facts.gpu, facts.tracing, text, frames)

    def _badge(self) -> tuple[str, bool]:
        playback = self.controls.playback()
        if playback is not None:
            if playback.at_end:
                return "ENDED", False
            return (f"REPLAY {playback.speed:g}x", True) if playback.playing else ("PAUSED", False)
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
                self.undo = [*self.undo[-UNDO_DEPTH:], self.view]
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
        self.change(replace(self.view, tab=tab), False)

    def tick_words(self) -> None:
        """Draw the panel again where only its scroll position changed."""
        if self.frame is not None:
            self._words(self.frame)

    def selected_row(self) -> DisplayRow | None:
        return navigation.row_under_cursor(self.view, self.rows)
