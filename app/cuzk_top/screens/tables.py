"""The figures of a screen: the right-hand numbers of lanes and counters, and the stage table. When they are
renewed, and where: those of large traces in a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cuzk_top import stats
from cuzk_top.model import Snapshot
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.layout import Layout
from cuzk_top.screens.numbers import NumbersColumn
from cuzk_top.stage_table import Stage, stage_table
from cuzk_top.stats import Kin
from cuzk_top.viewport import SpanRef, ViewState
from cuzk_top.widgets.timeline import Numbers

TABLE_NS = 2_000_000_000
"""The stage table while a session runs; it is many lines of figures."""
INLINE_SPANS = 50_000
"""Figures of more spans are computed in a thread: they would take longer than a frame may."""
FIGURES_REST = 20
"""While live, the thread rests so many times as long as it worked."""
TABLE_REST = 100
"""The same of a stage table, in a thread or not: a hundredth of a core."""


class Figures(NamedTuple):
    """What is computed at most twice a second."""

    numbers: dict[str, Numbers]
    table: Sequence[Stage]
    kin: Kin | None
    """Of the span that the inspector shows; None where it shows none."""


NO_FIGURES = Figures({}, (), None)


class Picture(NamedTuple):
    """What the figures are of."""

    data: Snapshot
    view: ViewState
    layout: Layout
    insight: Insight
    inspected: SpanRef | None
    """What the inspector shows."""

    @property
    def moment(self) -> tuple[int, int]:
        """What a stage table is of."""
        return self.data.revision, self.data.now_ns

    @property
    def key(self) -> tuple[object, ...]:
        """Another one whenever the figures may be."""
        layout = self.layout
        of_layout = (layout.rows, layout.counters, layout.compact)
        return self.moment, self.view.window, of_layout, self.insight, self.inspected


class Tables:
    """Keeps the figures of one screen. `clock` gives monotonic nanoseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.figures = NO_FIGURES
        self._clock = clock
        self._numbers = NumbersColumn()
        self._key: tuple[object, ...] | None = None
        self._due_ns = 0
        self._table_of: tuple[int, int] | None = None
        self._table_due_ns = 0
        self._computing = False

    def renew(
        self, picture: Picture, live: bool, stages_shown: bool
    ) -> Callable[[], Callable[[], bool]] | None:
        """Renew the figures if they are of another moment or window. Where that takes long, what a thread is
        to do is given instead; what comes of it is to be called where this was: it takes the figures in, and
        says whether the stage table is a new one.
        """
        now, running = self._clock(), live and not picture.data.ended
        # While a session runs, a table that is not on the screen is left as it is.
        rests = running and (not stages_shown or now < self._table_due_ns)
        holds = self._table_of is not None and (rests or self._table_of == picture.moment)
        if picture.key == self._key and holds:
            return None
        if picture.data.spans <= INLINE_SPANS:
            self._take(picture, self._compute(picture, self.figures, holds), now, holds)
            return None
        if self._computing or now < self._due_ns:
            return None
        self._computing = True
        # Taken out when used: a worker that is done waits for the garbage collector, and what it could still
        # reach, all columns of that moment, with it.
        given = [(picture, self.figures)]

        def work() -> Callable[[], bool]:
            of, before = given.pop()
            made = [(of, self._compute(of, before, holds))]

            def arrive() -> bool:
                self._computing = False
                self._take(*made.pop(), now, holds)
                done = self._clock()
                # The table has a rest of its own; the other figures need not wait for that.
                self._due_ns = done + FIGURES_REST * (done - now) if live and holds else done
                return not holds

            return arrive

        return work

    def _compute(self, picture: Picture, before: Figures, holds: bool) -> Figures:
        """All figures of a moment; `holds`: the stage table of `before` is kept. One thread at a time."""
        data, view, layout, insight, inspected = picture
        table = before.table if holds else stage_table(data)
        return Figures(
            self._numbers.at(data, view, layout, insight), table, _kin(data, inspected, before.kin)
        )

    def _take(self, picture: Picture, figures: Figures, began_ns: int, held: bool) -> None:
        """Exchange the figures; of a new stage table also remember its moment, and when the next is due."""
        self._key, self.figures = picture.key, figures
        if not held:
            done = self._clock()
            rest = done + TABLE_REST * (done - began_ns)
            self._table_of, self._table_due_ns = picture.moment, max(began_ns + TABLE_NS, rest)


def _kin(snapshot: Snapshot, inspected: SpanRef | None, before: Kin | None) -> Kin | None:
    """What the inspector compares its span with."""
    record = stats.find(snapshot, inspected) if inspected is not None else None
    if record is None:
        return None
    moment = (snapshot.revision, snapshot.now_ns)
    same = before is not None and (before.name, before.moment) == (record.name, moment)
    return before if same else stats.kin(snapshot, record.name)
