"""A row of the time area: columns with content up to a limit, the bare ground behind it.

Kept from frame to frame. A frame writes the columns whose content is new and those whose ground is. Most rows
have nothing new: they rest, and only the play head moves over their bare end, the same cells in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rich.style import Style

from cuzk_top import growth
from cuzk_top.viewport import Int64s, Window, column_of
from cuzk_top.widgets.cell_line import CellLine, Run
from cuzk_top.widgets.ground import Ground


class Patch(NamedTuple):
    """Bare cells of a line from cell `x` on."""

    x: int
    glyphs: list[str]
    styles: list[Style]
    runs: list[Run]


@dataclass(eq=False)
class Frame:
    """What all rows of a frame share."""

    window: Window
    edges: Int64s
    """int64[columns + 1]: the columns' edges in ns."""
    times: list[int]
    """The same as a list."""
    ground: Ground
    before: Ground | None = None
    """The ground of the last frame, where only the play head has moved since."""

    columns: int = field(init=False)
    moved: tuple[int, int] | None = field(init=False)
    """The columns that the play head has left, crossed and come to, as first and beyond; None where it was or
    is out of sight, or more has changed."""
    _bare: dict[tuple[int, int], list[Run]] = field(default_factory=dict)
    _patch: Patch | None = None

    def __post_init__(self) -> None:
        self.columns = len(self.edges) - 1
        self.moved = None
        if self.before is not None:
            low, high = sorted((self.before.now, self.ground.now))
            self.moved = (low, high + 1) if low >= 0 else None

    def bare(self, low: int, high: int) -> list[Run]:
        """The ground of some columns; most rows ask for the same ones."""
        found = self._bare.get((low, high))
        if found is None:
            found = self._bare[low, high] = list(self.ground.runs(low, high))
        return found

    def patch(self, x: int) -> Patch:
        """The ground of the columns that were `moved`, for lines whose column 0 is cell `x`."""
        assert self.moved is not None
        low, high = self.moved
        if self._patch is None or self._patch.x != x + low:
            runs = [(x + at, text, style) for at, text, style in self.bare(low, high)]
            ground = self.ground
            self._patch = Patch(x + low, list(ground.glyphs[low:high]), ground.styles[low:high], runs)
        return self._patch

    def reach(self, last_ns: int) -> int:
        """How many columns there are up to the one that holds `last_ns`."""
        return max(0, min(self.columns, column_of(self.window, self.columns, last_ns) + 1))


class AreaRow:
    """Draws into the cells of `line` from `x` on."""

    def __init__(self, line: CellLine, x: int) -> None:
        self.line = line
        self.x = x
        self.limit = 0
        """Columns with content."""
        self.place: object = None
        """Another object when all is to be drawn anew."""
        self.source: object = None
        """What the content is of; as long as it is the same object, the content is."""
        self.settled_ns = growth.ALL_NS
        """From this moment on: before it, time itself changes the content."""
        self._ground: Ground | None = None

    def write(self, frame: Frame, low: int) -> None:
        """Write the content of the columns from `low` up to `limit`; `low` is below it."""
        raise NotImplementedError

    def rest(self, frame: Frame) -> None:
        """Bring the line up to date where nothing but the ground may be another."""
        if self._ground is frame.ground:
            return
        if self._ground is frame.before and frame.moved is not None and self.limit <= frame.moved[0]:
            self._ground = frame.ground
            self.line.patch(*frame.patch(self.x))
        else:
            self.bring(frame, frame.columns, self.limit)

    def bring(self, frame: Frame, low: int, limit: int) -> None:
        """Bring the line up to date: content is new from column `low` on, and ends at `limit`."""
        old_limit, self.limit = self.limit, limit
        high = max(limit, old_limit) if low < frame.columns else 0
        ground, columns = frame.ground, frame.columns
        if self._ground is not ground:
            first, beyond = 0, columns
            if frame.moved is not None and self._ground is frame.before:
                first, beyond = frame.moved
            self._ground = ground
            low, high = min(low, first), max(high, beyond)
        if low < limit:
            self.write(frame, low)
        self.write_bare(frame, max(low, limit), high)

    def write_bare(self, frame: Frame, low: int, high: int) -> None:
        """Write the ground of the columns from `low` up to `high`."""
        if low < high:
            line, x = self.line, self.x
            for at, text, style in frame.bare(low, high):
                line.fill(x + at, text, style)
