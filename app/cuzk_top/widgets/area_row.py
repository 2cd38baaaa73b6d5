"""A row of the time area: columns with content up to a limit, the bare ground behind it.

Kept from frame to frame. A frame writes the columns whose content is new and those whose ground is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cuzk_top.viewport import Int64s, Window, column_of
from cuzk_top.widgets.cell_line import CellLine, Run
from cuzk_top.widgets.ground import Ground


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
    _bare: dict[tuple[int, int], list[Run]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.columns = len(self.edges) - 1

    def bare(self, low: int, high: int) -> list[Run]:
        """The ground of some columns; most rows ask for the same ones."""
        found = self._bare.get((low, high))
        if found is None:
            found = self._bare[low, high] = list(self.ground.runs(low, high))
        return found

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
        self._ground: Ground | None = None

    def write(self, frame: Frame, low: int) -> None:
        """Write the content of the columns from `low` up to `limit`; `low` is below it."""
        raise NotImplementedError

    def bring(self, frame: Frame, low: int, limit: int) -> None:
        """Bring the line up to date: content is new from column `low` on, and ends at `limit`."""
        old_limit, self.limit = self.limit, limit
        high = max(limit, old_limit) if low < frame.columns else 0
        ground, columns = frame.ground, frame.columns
        if self._ground is not ground:
            first, beyond = 0, columns
            if self._ground is not None and self._ground is frame.before:
                heads = sorted((self._ground.now, ground.now))
                if heads[0] >= 0:
                    first, beyond = heads[0], heads[1] + 1
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
