"""The spans that a search finds, stepped through by start. Numpy only, no Textual."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cuzk_top import stats
from cuzk_top.model import Columns, RowData, Session, Snapshot, SpanRecord
from cuzk_top.viewport import Int64s, ViewState

Place = tuple[int, int]
"""Start of a span, and the number of its row: the order of all matches."""


@dataclass(frozen=True, slots=True)
class Match:
    """One of them: its number from 1, how many there are, its row and itself."""

    number: int
    count: int
    row: RowData
    record: SpanRecord


@dataclass(frozen=True, slots=True)
class _Hits:
    """Those of one row that have begun."""

    row: RowData
    starts: Int64s
    """Of all its closed spans."""
    found: Int64s | None
    """Indices of those that match; None: all of them."""
    closed: int
    """So many of these have begun."""
    open_ns: int | None
    """Start of the open span, if it matches."""

    @property
    def count(self) -> int:
        return self.closed + (self.open_ns is not None)

    def before(self, t_ns: int, side: Literal["left", "right"]) -> int:
        """How many begin before a moment (`side` left) or at it too (right)."""
        at = int(self.starts.searchsorted(t_ns, side))
        if self.found is not None:
            at = int(self.found.searchsorted(at))
        opened = self.open_ns is not None and (
            self.open_ns < t_ns or (side == "right" and self.open_ns == t_ns)
        )
        return min(at, self.closed) + opened

    def index(self, number: int) -> int:
        """Index of one in its row."""
        return number if self.found is None else int(self.found[number])

    def start(self, number: int) -> int:
        if number < self.closed:
            return int(self.starts[self.index(number)])
        assert self.open_ns is not None
        return self.open_ns


class Matches:
    """Looks through the names of each row once for a text, and again only where the row has grown."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._found: dict[tuple[str, int, int], tuple[Columns, Int64s | None]] = {}

    def step(self, view: ViewState, snapshot: Snapshot, step: int) -> Match | None:
        """The next (1) or previous (-1) span whose name contains the searched text (case ignored), by start,
        then by row; past the last comes the first. None if there is none.
        """
        wanted = view.search.casefold()
        rows = list(self._hits(snapshot, wanted)) if wanted else []
        total = sum(hits.count for hits in rows)
        if not total:
            return None
        here = _search_from(view, snapshot, step)
        firsts = [hits.before(here[0], _side(place, here[1], step)) for place, hits in enumerate(rows)]
        number = sum(firsts) - (step < 0)
        if not 0 <= number < total:
            number %= total
            firsts = [0 if step > 0 else hits.count for hits in rows]
        chosen = [
            (hits.start(at), place, at)
            for place, (hits, first) in enumerate(zip(rows, firsts, strict=True))
            if 0 <= (at := first - (step < 0)) < hits.count
        ]
        _, place, at = min(chosen) if step > 0 else max(chosen)
        hits = rows[place]
        record = snapshot.record(hits.row, hits.index(at)) if at < hits.closed else hits.row.open
        assert record is not None
        return Match(number + 1, total, hits.row, record)

    def _hits(self, snapshot: Snapshot, wanted: str) -> Iterator[_Hits]:
        numbers = _numbers(snapshot.session, wanted)
        if numbers != self._numbers:
            self._numbers = numbers
            self._found.clear()
        for row in snapshot.rows:
            spans = stats.clipped(row, snapshot.now_ns)
            known = self._found.get(row.key)
            if known is None or known[0] is not row.columns:
                mine = stats.named(row.columns.name, numbers)
                known = (row.columns, None if mine.all() else np.flatnonzero(mine))
                self._found[row.key] = known
            closed = len(spans.start_ns)
            if known[1] is not None:
                closed = int(known[1].searchsorted(closed))
            opened = spans.open_ns if row.open is not None and wanted in row.open.name.casefold() else None
            yield _Hits(row, row.columns.start_ns, known[1], closed, opened)


def _numbers(session: Session, wanted: str) -> list[int]:
    """Numbers of the names that contain a text."""
    return [number for number, name in enumerate(session.names) if wanted in name.text.casefold()]


def _side(place: int, here: int, step: int) -> Literal["left", "right"]:
    """Whether of a row what begins at the moment of the search is before it, seen from another row."""
    return "right" if place < here or (place == here and step > 0) else "left"


def _search_from(view: ViewState, snapshot: Snapshot, step: int) -> Place:
    """Start and place of the selected span, else the near end of the window."""
    selected = view.selected
    if selected is None:
        return (view.t0_ns, -1) if step > 0 else (view.t1_ns, len(snapshot.rows))
    key = (selected.lane, selected.track, selected.depth)
    places = [place for place, row in enumerate(snapshot.rows) if row.key == key]
    return selected.start_ns, places[0] if places else -1
