"""From the cells of a row to runs of segments on the ground they lie on."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.segment import Segment

from cuzk_top import rows
from cuzk_top.rows import BLANK, EIGHTHS, LEVELS, Cells
from cuzk_top.theme import Theme
from cuzk_top.viewport import Axis, Int64s, Window, column_of
from cuzk_top.widgets.paint import segment


class Ground(NamedTuple):
    """What blank cells show, the same for every row of a frame. Hashable: it is part of the cache keys."""

    surfaces: tuple[str, ...]
    now: int
    """Column of the play head's line, or -1."""

    def part(self, low: int, high: int) -> Hashable:
        """Everything that the columns from `low` up to `high` show of it."""
        return (self.surfaces[low:high], self.now if low <= self.now < high else -1)


def ground(
    window: Window, columns: int, axis: Axis, selection: tuple[int, int] | None, now_ns: int
) -> Ground:
    """Well, ticks, the time selection and the time not reached; ticks give way to all else."""
    surfaces = ["well"] * columns
    for tick in axis.ticks_ns:
        surfaces[column_of(window, columns, tick)] = "tick"
    head = column_of(window, columns, now_ns) + 1
    for column in range(max(0, head), columns):
        surfaces[column] = "future"
    if selection is not None:
        low = column_of(window, columns, selection[0])
        high = column_of(window, columns, max(selection[0], selection[1] - 1))
        for column in range(max(0, low), min(columns, high + 1)):
            surfaces[column] = "time selection"
    return Ground(tuple(surfaces), head if 0 <= head < columns else -1)


class Labels(NamedTuple):
    """How a row's spans look: the role and the possible labels (longest first) of a cell code."""

    role: Callable[[int], str]
    texts: Callable[[int], tuple[str, ...]]


def blank_run(text: str, start: int, ground: Ground, theme: Theme, role: str = "text") -> list[Segment]:
    """Text (or blanks) on the ground from column `start`; the play head shows where the text is blank."""
    out: list[Segment] = []
    surfaces, x, end = ground.surfaces, start, start + len(text)
    while x < end:
        surface = surfaces[x]
        if x == ground.now and text[x - start] == " ":
            out.append(segment(theme.glyphs.now, theme.paint("now", surface)))
            x += 1
            continue
        stop = x + 1
        while stop < end and surfaces[stop] == surface and stop != ground.now:
            stop += 1
        out.append(segment(text[x - start : stop - start], theme.paint(role, surface)))
        x = stop
    return out


def span_runs(cells: Cells, labels: Labels, ground: Ground, theme: Theme) -> list[Segment]:
    """One row of spans. Letters and labels stand in the first whole cells of a span, ``+n`` where n are
    merged.
    """
    columns = len(cells.left)
    if not columns:
        return []
    if theme.whole_cells:
        cells = rows.whole(cells)
    merged = cells.merged > 0
    change = (
        (cells.left[1:] != cells.left[:-1])
        | (cells.right[1:] != cells.right[:-1])
        | (cells.split[1:] != cells.split[:-1])
        | (merged[1:] != merged[:-1])
    )
    starts = [0, *(np.flatnonzero(change) + 1).tolist(), columns]
    counts = _merged_texts(cells.merged)
    out: list[Segment] = []
    named: set[int] = set()
    lefts, rights, splits = cells.left.tolist(), cells.right.tolist(), cells.split.tolist()
    for begin, end in pairwise(starts):
        left, right, split = lefts[begin], rights[begin], splits[begin]
        width = end - begin
        counted = begin in counts  # and with it the whole run
        if left == right == BLANK:
            text = "".join(counts[x] for x in range(begin, end)) if counted else " " * width
            out += blank_run(text, begin, ground, theme, "ink")
        elif counted:
            fill = labels.role(left if left != BLANK else right)
            paint = theme.paint("label", fill, True)
            filler = " " if paint.reverse else theme.pattern(fill)
            text = "".join(counts.get(x, filler) for x in range(begin, end))
            out.append(segment(text, paint))
        elif split == EIGHTHS:
            text = "" if left in named else _fitting(labels.texts(left), width)
            named.add(left)
            _full_run(text, width, labels.role(left), theme, out)
        else:
            under = ground.surfaces[begin]
            front = labels.role(left) if left != BLANK else under
            back = labels.role(right) if right != BLANK else under
            out.append(_shared_cell(front, back, split, under, theme))
    return out


def _shared_cell(front: str, back: str, split: int, under: str, theme: Theme) -> Segment:
    """A cell of two fills, or of one and the ground `under`."""
    for role in (front, back):
        pattern = theme.pattern(role) if role != under else " "
        if pattern != " ":  # a fill without a colour of its own has no partial block: it keeps the cell
            return segment(pattern, theme.paint(role, under))
    return segment(theme.glyphs.eighths[split], theme.paint(front, back))


def _full_run(text: str, width: int, role: str, theme: Theme, out: list[Segment]) -> None:
    pattern = theme.pattern(role)
    if pattern == " ":
        out.append(segment(text.ljust(width), theme.paint("label", role, True)))
        return
    if text:
        out.append(segment(text, theme.paint("label", role, True)))
    if width > len(text):
        out.append(segment(pattern * (width - len(text)), theme.paint("text", role)))


def _fitting(texts: tuple[str, ...], width: int) -> str:
    """The longest label that leaves a blank after it, else a single letter."""
    for text in texts:
        if len(text) < width or len(text) == 1:
            return text
    return ""


def _merged_texts(merged: Int64s) -> dict[int, str]:
    """Characters that tell how many spans are merged: ``+n`` over each stretch of such cells, ``+`` in one
    cell.
    """
    texts: dict[int, str] = {}
    where = np.flatnonzero(merged > 0).tolist()
    at = 0
    while at < len(where):
        stop = at
        while stop + 1 < len(where) and where[stop + 1] == where[stop] + 1:
            stop += 1
        length = stop - at + 1
        text = f"+{int(merged[where[at] : where[stop] + 1].sum())}"
        text = text if len(text) <= length else "+"
        texts.update((where[at] + i, letter) for i, letter in enumerate(text))
        at = stop + 1
    return texts


def chart_runs(heights: NDArray[np.int8], role: str, ground: Ground, theme: Theme) -> list[Segment]:
    """One row of a chart: ``▁`` to ``▇`` in the family's hue; zero and unknown draw nothing."""
    glyphs = theme.glyphs.charts
    out: list[Segment] = []
    values = heights.tolist()
    begin, columns = 0, len(values)
    while begin < columns:
        height = values[begin]
        surface = ground.surfaces[begin]
        end = begin + 1
        if height <= 0:
            while end < columns and values[end] <= 0:
                end += 1
            out += blank_run(" " * (end - begin), begin, ground, theme)
        else:
            while end < columns and values[end] == height and ground.surfaces[end] == surface:
                end += 1
            out.append(segment(glyphs[min(height, LEVELS)] * (end - begin), theme.paint(role, surface)))
        begin = end
    return out
