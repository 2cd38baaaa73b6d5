"""A row of bars: spans of several sources over each other, with their names and the number of merged ones.

Between two frames of a session that runs only the last columns change. From these on cells are computed
anew, and drawn from where the first run of equal cells among them begins, since a bar that grows may come to
have room for its name.
"""

from __future__ import annotations

from typing import NamedTuple

from rich.style import Style

from cuzk_top import growth, rows, tail
from cuzk_top.growth import Seen
from cuzk_top.model import RowData
from cuzk_top.rows import BLANK, EIGHTHS
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.tail import Lists
from cuzk_top.theme import Theme
from cuzk_top.widgets.area_row import AreaRow, Frame
from cuzk_top.widgets.cell_line import CellLine
from cuzk_top.widgets.looks import RowLabels, fitting, merged_text
from cuzk_top.widgets.paint import Pen


class Fill(NamedTuple):
    """How the cells of one role are filled."""

    label: Style
    pattern: str
    rest: Style
    """Of the pattern, behind the label."""
    merged: str
    """What fills a cell with merged spans beside their number."""


class LaneRow(AreaRow):
    """The cells of one row of spans, as they stand on the screen."""

    def __init__(self, line: CellLine, x: int, theme: Theme, pen: Pen, labels: RowLabels) -> None:
        super().__init__(line, x)
        self._theme, self._pen, self._labels = theme, pen, labels
        self._sources: tuple[RowData, ...] = ()
        self._seen: list[Seen] = []
        self._fills: dict[str, Fill] = {}
        self._shares: dict[tuple[str, str, str, int], tuple[str, Style]] = {}
        """How a cell of two fills looks, by both, the ground, and where they meet."""
        self._cells = Lists.blank(0)
        self._kept = 0
        """Columns whose runs are known: those before hold the cells of the last frame."""
        self._begins: list[int] = []
        """A column: where its run of equal cells begins."""
        self._named: dict[int, int] = {}
        """Cell code -> the column of its first whole run, which has its name."""
        self._texts: dict[int, str] = {}
        """Column where a run or a stretch of merged spans begins -> what stands there."""

    def draw(self, frame: Frame, row: DisplayRow, place: object, now_ns: int) -> None:
        """Bring the line up to date. `place` is another object when all is to be drawn anew."""
        from_ns = growth.ALL_NS
        seen = [Seen.of_row(source, now_ns) for source in row.sources]
        if place is self.place and same_rows(self._sources, row.sources):
            from_ns = min(map(growth.changed_from, self._seen, seen), default=growth.ALL_NS)
        self.place, self.source, self._sources, self._seen = place, row, row.sources, seen
        self._labels.of(row.sources)
        self.settled_ns = growth.settled(seen)
        low = frame.columns
        if from_ns != growth.NOTHING_NS:
            low = self._compute(frame, from_ns)
        self.bring(frame, low, len(self._cells.left))

    def _compute(self, frame: Frame, from_ns: int) -> int:
        """The cells of the columns that may have changed; the first of them."""
        lasts = [last for last in (one.last_ns() for one in self._seen) if last is not None]
        limit = frame.reach(max(lasts)) if lasts else 0
        # Whether a span is drawn anywhere is known one column after the one in which it begins.
        low = min(max(0, frame.reach(from_ns) - 2), limit)
        if self._theme.whole_cells:
            low = 0
        self._kept = min(self._kept, low, len(self._cells.left))
        fresh = tail.cells(self._seen, frame.times[low : limit + 1], low > 0)
        if self._theme.whole_cells and limit:
            fresh = Lists.of(rows.whole(fresh.cells()))
        self._cells.change(low, fresh)
        return low

    def write(self, frame: Frame, low: int) -> None:
        """The runs of cells from the one that may have grown on."""
        left, right, split, merged = self._cells
        limit = self.limit
        low = begin = self._resume(frame, min(low, self._kept))
        if low:
            begin = self._begins[low - 1]
        del self._begins[begin:]
        while self._named:
            code, column = self._named.popitem()
            if column < begin:
                self._named[code] = column
                break
        numbered = stretch_end = 0
        stretch, text = 0, ""
        while begin < limit:
            end = max(low, begin + 1)
            code, other, part, many = left[begin], right[begin], split[begin], merged[begin] > 0
            while (
                end < limit
                and left[end] == code
                and right[end] == other
                and split[end] == part
                and (merged[end] > 0) == many
            ):
                end += 1
            self._begins += [begin] * (end - begin)
            if many and begin >= stretch_end:
                stretch, stretch_end, text = self._stretch(begin)
                self._texts[stretch] = text
                numbered = stretch + len(text)
            at = max(begin, low)
            if many and begin < numbered:
                self._merged(frame, at, end, text[at - stretch :])
            elif code == other == BLANK:
                self.write_bare(frame, at, end)
            elif part == EIGHTHS:
                self._bar(begin, end, low)
            else:
                self._shared(frame, begin)
            begin = end
        self._kept = limit

    def _resume(self, frame: Frame, low: int) -> int:
        """Where to begin to write so that all from column `low` on is right: there, unless the number of the
        merged spans around it takes more or fewer cells than before.
        """
        if not low or self._cells.merged[low - 1] <= 0:
            return low
        stretch, _, text = self._stretch(low - 1)
        before = self._texts.get(stretch, "")
        if len(before) != len(text):
            return stretch
        if before != text:
            self._texts[stretch] = text
            for at in range(stretch, min(stretch + len(text), low)):
                self._merged(frame, at, at + 1, text[at - stretch])
        return low

    def _bar(self, begin: int, end: int, low: int) -> None:
        """Whole cells of one span. Those before `low` stand there already, unless the name changes."""
        code = self._cells.left[begin]
        width = end - begin
        text = "" if code in self._named else fitting(self._labels.texts(code), width)
        self._named.setdefault(code, begin)
        if begin < low and self._texts.get(begin) != text:
            low = begin
        self._texts[begin] = text
        fill = self._fill(code)
        x, named = self.x, begin + len(text)
        if low < named:
            self.line.fill(x + begin, text, fill.label)
        at = max(low, named)
        if at < end:
            self.line.fill(x + at, fill.pattern * (end - at), fill.rest)

    def _fill(self, code: int) -> Fill:
        """How the cells of a span are filled."""
        role = self._labels.role(code)
        found = self._fills.get(role)
        if found is None:
            pattern, label = self._theme.pattern(role), self._pen("label", role, True)
            rest = label if pattern == " " else self._pen("text", role)
            merged = " " if self._theme.paint("label", role, True).reverse else pattern
            found = self._fills[role] = Fill(label, pattern, rest, merged)
        return found

    def _shared(self, frame: Frame, column: int) -> None:
        """A cell of two fills, or of one and the ground."""
        left, right, split, _ = self._cells
        under = frame.ground.surfaces[column]
        front = self._labels.role(left[column]) if left[column] != BLANK else under
        back = self._labels.role(right[column]) if right[column] != BLANK else under
        key = (front, back, under, split[column])
        found = self._shares.get(key)
        if found is None:
            found = self._shares[key] = self._share(*key)
        self.line.fill(self.x + column, *found)

    def _share(self, front: str, back: str, under: str, split: int) -> tuple[str, Style]:
        """The character and the style of a cell of two fills, of which `under` is none."""
        for role in (front, back):
            pattern = self._theme.pattern(role) if role != under else " "
            if pattern != " ":  # a fill without a colour of its own has no partial block: it keeps the cell
                return pattern, self._pen(role, under)
        return self._theme.glyphs.eighths[split], self._pen(front, back)

    def _stretch(self, column: int) -> tuple[int, int, str]:
        """Where the merged spans around a column begin and end, and what is written over them."""
        merged = self._cells.merged
        low, high, limit = column, column + 1, len(merged)
        while low and merged[low - 1] > 0:
            low -= 1
        while high < limit and merged[high] > 0:
            high += 1
        return low, high, merged_text(sum(merged[low:high]), high - low)

    def _merged(self, frame: Frame, begin: int, end: int, text: str) -> None:
        """Equal cells with merged spans, from the letters of `text` that belong there on."""
        code = self._cells.left[begin]
        code = self._cells.right[begin] if code == BLANK else code
        if code == BLANK:
            style, filler = self._pen("ink", frame.ground.surfaces[begin]), " "
        else:
            fill = self._fill(code)
            style, filler = fill.label, fill.merged
        width = end - begin
        self.line.fill(self.x + begin, text[:width].ljust(width, filler), style)


def same_rows(before: tuple[RowData, ...], after: tuple[RowData, ...]) -> bool:
    """Whether these are the same rows, whatever has come into them."""
    if len(before) != len(after):
        return False
    for old, new in zip(before, after, strict=True):
        if old.lane is not new.lane or old.track != new.track or old.depth != new.depth:
            return False
    return True
