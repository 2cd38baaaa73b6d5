"""Moving about: from a view and what is on the screen to the next view. Pure functions, no Textual."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cuzk_top import stats
from cuzk_top.model import RowData, Snapshot, SpanRecord
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.viewport import SpanRef, ViewState, Window


def row_under_cursor(view: ViewState, rows: Sequence[DisplayRow]) -> DisplayRow | None:
    """The row that the lane cursor is on; without one, the first that has spans."""
    for row in rows:
        if row.key == view.cursor:
            return row
    return next((row for row in rows if not row.empty), rows[0] if rows else None)


def move_cursor(view: ViewState, rows: Sequence[DisplayRow], step: int) -> ViewState:
    """The lane cursor `step` rows on; it stops at either end."""
    keys = [row.key for row in rows]
    if not keys:
        return view
    at = keys.index(view.cursor) + step if view.cursor in keys else (0 if step > 0 else len(keys) - 1)
    return replace(view, cursor=keys[max(0, min(at, len(keys) - 1))], focus="lanes")


def select(view: ViewState, snapshot: Snapshot, row: RowData, record: SpanRecord) -> ViewState:
    """Select a span: its time becomes the selection, and the window moves (never zooms) to show its start."""
    end = snapshot.now_ns if record.is_open else min(record.end_ns, snapshot.now_ns)
    view = replace(
        view,
        selected=stats.reference(record, row),
        selection=(record.start_ns, max(end, record.start_ns + 1)),
        focus="lanes",
    )
    window = view.window
    if window.t0_ns <= record.start_ns < window.t1_ns:
        return view
    t0 = record.start_ns - window.width_ns // 4
    return view.looking_at(Window(t0, t0 + window.width_ns), "hold")


def clear(view: ViewState) -> ViewState:
    return replace(view, selected=None, selection=None, search="")


def span_at(
    snapshot: Snapshot, row: DisplayRow, t_ns: int, reach_ns: int
) -> tuple[RowData, SpanRecord] | None:
    """The innermost span of a row at a moment, or the nearest that begins or ends within `reach_ns` of it."""
    if t_ns >= snapshot.now_ns + reach_ns:
        return None
    for source in reversed(row.sources):
        record = snapshot.at(source, min(t_ns, snapshot.now_ns - 1))
        if record is not None:
            return source, record
    best: tuple[int, RowData, SpanRecord] | None = None
    for source in row.sources:
        for t in _edges_near(source, t_ns, snapshot.now_ns):
            record = snapshot.at(source, t)
            if record is not None and (best is None or abs(t - t_ns) < best[0]):
                best = (abs(t - t_ns), source, record)
    return (best[1], best[2]) if best is not None and best[0] <= reach_ns else None


def _edges_near(source: RowData, t_ns: int, now_ns: int) -> Iterator[int]:
    """Moments inside the spans before and after `t_ns`."""
    spans = stats.clipped(source, now_ns)
    at = int(np.searchsorted(spans.start_ns, t_ns, "right"))
    if at:
        yield max(int(spans.start_ns[at - 1]), int(spans.end_ns[at - 1]) - 1)
    if at < len(spans.start_ns):
        yield int(spans.start_ns[at])
    if spans.open_ns is not None:
        yield spans.open_ns


def step_span(
    view: ViewState, snapshot: Snapshot, row: DisplayRow, step: int
) -> tuple[RowData, SpanRecord] | None:
    """The next (1) or previous (-1) span of a row by start, an enclosing span before what it encloses."""
    here = _position(view, row, snapshot.now_ns, step)
    best: tuple[tuple[int, int], RowData, int] | None = None
    for source in row.sources:
        spans = stats.clipped(source, snapshot.now_ns)
        starts = spans.start_ns
        # At equal starts the outer span comes first, so depth decides on which side of `here` a row begins.
        after = source.depth <= here[1] if step > 0 else source.depth < here[1]
        at = int(np.searchsorted(starts, here[0], "right" if after else "left")) - (step < 0)
        candidates = [at] if 0 <= at < len(starts) else []
        if spans.open_ns is not None:
            candidates.append(-1)
        for index in candidates:
            start = int(starts[index]) if index >= 0 else int(spans.open_ns or 0)
            order = (start, source.depth)
            if (order > here) if step > 0 else (order < here):
                better = best is None or ((order < best[0]) if step > 0 else (order > best[0]))
                if better:
                    best = (order, source, index)
    if best is None:
        return None
    _, source, index = best
    if index >= 0:
        return source, snapshot.record(source, index)
    return (source, source.open) if source.open is not None else None


def _position(view: ViewState, row: DisplayRow, now_ns: int, step: int) -> tuple[int, int]:
    """Start and depth of the selected span if it is in this row; else just outside the window's near end."""
    selected = view.selected
    if selected is not None:
        mine = (selected.lane, selected.track)
        if any((source.lane.key, source.track) == mine for source in row.sources):
            return selected.start_ns, selected.depth
    return (view.t0_ns, -1) if step > 0 else (min(view.t1_ns, now_ns), -1)


def set_edge(view: ViewState, snapshot: Snapshot, row: DisplayRow, start: bool) -> ViewState:
    """Move one end of the selection outwards to the next span edge of the row; begin one at the middle."""
    middle = min(view.t0_ns + view.window.width_ns // 2, snapshot.now_ns)
    low, high = view.selection or (middle, middle + 1)
    at = low if start else high
    edges: list[int] = []
    for source in row.sources:
        spans = stats.clipped(source, snapshot.now_ns)
        for values in (spans.start_ns, spans.end_ns):
            found = (
                int(np.searchsorted(values, at, "left")) - 1
                if start
                else int(np.searchsorted(values, at, "right"))
            )
            if 0 <= found < len(values):
                edges.append(int(values[found]))
        if spans.open_ns is not None:
            edges += [t for t in (spans.open_ns, snapshot.now_ns) if (t < at if start else t > at)]
    if not edges:
        return view
    edge = max(edges) if start else min(edges)
    return replace(view, selected=None, selection=(edge, high) if start else (low, max(edge, low + 1)))


def snap(row: DisplayRow, snapshot: Snapshot, t_ns: int, reach_ns: int) -> int:
    """The span edge of a row nearest to a moment, if one is within reach; else the moment itself."""
    best = t_ns
    away = reach_ns + 1
    for source in row.sources:
        spans = stats.clipped(source, snapshot.now_ns)
        for values in (spans.start_ns, spans.end_ns):
            index = int(np.searchsorted(values, t_ns, "left"))
            for edge in values[max(0, index - 1) : index + 1].tolist():
                if abs(edge - t_ns) < away:
                    best, away = edge, abs(edge - t_ns)
        if spans.open_ns is not None and abs(spans.open_ns - t_ns) < away:
            best, away = spans.open_ns, abs(spans.open_ns - t_ns)
    return best


def toggle_mark(view: ViewState, snapshot: Snapshot) -> ViewState:
    """Mark the selection's start, else now; a mark that is there already goes."""
    at = view.selection[0] if view.selection is not None else snapshot.now_ns
    marks = set(view.marks) ^ {at}
    return replace(view, marks=tuple(sorted(marks)))


def cursor_for(view: ViewState, rows: Sequence[DisplayRow], ref: SpanRef) -> ViewState:
    """Put the lane cursor on the row that shows a span, if it is on the screen."""
    for row in rows:
        if any(source.key == (ref.lane, ref.track, ref.depth) for source in row.sources):
            return replace(view, cursor=row.key)
    return view
