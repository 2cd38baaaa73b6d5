"""Where the window goes by itself: with now, a page at a time, or over all there is. Pure functions."""

from __future__ import annotations

import statistics

from cuzk_top import stats, viewport
from cuzk_top.model import Snapshot
from cuzk_top.viewport import ViewState

MARGIN = 50
"""Of the spans' length so many-th part is shown before and after them."""


def first_window(view: ViewState, snapshot: Snapshot, columns: int) -> ViewState:
    """Where a session is first seen."""
    first = snapshot.first_ns or snapshot.now_ns
    return view.looking_at(viewport.first_page(first, snapshot.now_ns, _page_ns(snapshot, columns), columns))


def moved_along(view: ViewState, snapshot: Snapshot, columns: int, live: bool) -> ViewState:
    """The view after time has passed, as its mode asks. What ended live needs no page turned any more."""
    now, first = snapshot.now_ns, snapshot.first_ns or snapshot.now_ns
    if view.mode in ("fit", "all"):
        last = max(snapshot.last_ns, now) if live else snapshot.last_ns
        if view.mode == "fit":
            first, last = _spans_within(snapshot, first, last)
        return view.looking_at(viewport.fit(first, max(first, last), columns))
    if view.mode == "page" and not (live and snapshot.ended) and not viewport.on_page(view.window, now):
        running = stats.running_proof(snapshot) if view.auto_width else None
        width = _page_ns(snapshot, columns) if view.auto_width else None
        return view.looking_at(viewport.page(view.window, now, columns, running, width))
    if view.mode == "follow":
        return view.looking_at(viewport.follow(view.window, now, columns))
    return view


def _spans_within(snapshot: Snapshot, first: int, last: int) -> tuple[int, int]:
    """Of all there is the stretch with spans, and a little around it; all where there are none.

    Probes go on while nothing is proved: a minute of their samples would leave the proofs a few columns.
    """
    firsts = [row.columns.start_ns.item(0) for row in snapshot.rows if len(row.columns)]
    lasts = [row.columns.end_ns.item(-1) for row in snapshot.rows if len(row.columns)]
    opened = [row.open.start_ns for row in snapshot.rows if row.open is not None]
    if not firsts and not opened:
        return first, last
    begin, end = min(firsts + opened), last if opened else max(lasts)
    margin = (end - begin) // MARGIN
    return max(first, begin - margin), min(last, end + margin)


def _page_ns(snapshot: Snapshot, columns: int) -> int:
    """Width of an automatic page, by the proofs that have ended."""
    durations = stats.proofs(snapshot)[1]
    return viewport.page_width(int(statistics.median(durations)) if durations else None, columns)
