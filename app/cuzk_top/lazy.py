"""Columns that are made when they are first looked at, one by one.

A trace of ten million spans has 15 columns; a picture of it needs three, and one span's details need one row
of each. So a run of a saved trace is a promise: `load(name, low, high)` gives a column's rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top.model import COLUMN_TYPES, Columns

Load = Callable[[str, int, int], NDArray[Any]]
"""A column's rows from `low` to below `high`, dtype as in COLUMN_TYPES."""


class LazyColumns(Columns):
    """Rows `low` to `high` of what `load` gives; a column that was loaded whole is kept."""

    __slots__ = ("_high", "_load", "_low")

    _load: Load
    _low: int
    _high: int

    def __init__(self, load: Load, low: int, high: int) -> None:
        for name, value in (("_load", load), ("_low", low), ("_high", high)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return self._high - self._low

    def __getattr__(self, name: str) -> NDArray[Any]:
        # Reached for columns whose slot is still empty. Two threads may both load one: the same values.
        if name.startswith("_"):
            raise AttributeError(name)
        values = self._load(name, self._low, self._high)
        object.__setattr__(self, name, values)
        return values

    def part(self, name: str, low: int, high: int) -> NDArray[Any]:
        """Some rows of one column, without loading the rest of it."""
        return self._load(name, self._low + low, self._low + high)

    def row(self, i: int) -> dict[str, Any]:
        """As `Columns.row`; only this row is loaded."""
        return {name: self.part(name, i, i + 1)[0].item() for name in COLUMN_TYPES}

    def take(self, which: Any) -> Columns:
        """As `Columns.take`; nothing is loaded for it."""
        if isinstance(which, slice):
            low, high, step = which.indices(len(self))
            if step == 1:
                return LazyColumns(self._load, self._low + low, self._low + max(low, high))
            which = np.arange(low, high, step)
        index = np.asarray(which)
        if index.dtype == bool:
            index = np.flatnonzero(index)
        if len(index) and bool((index[1:] >= index[:-1]).all()) and index[0] >= 0:
            return LazyColumns(_Picked(self, index), 0, len(index))
        return Columns(*(array[index] for _, array in self.arrays()))


class _Picked:
    """Rows of lazy columns by a rising index."""

    __slots__ = ("_index", "_of")

    def __init__(self, of: LazyColumns, index: NDArray[np.int64]) -> None:
        self._of = of
        self._index = index

    def __call__(self, name: str, low: int, high: int) -> NDArray[Any]:
        index = self._index[low:high]
        if not len(index):
            return self._of.part(name, 0, 0)
        first = int(index[0])
        return self._of.part(name, first, int(index[-1]) + 1)[index - first]


class Pieces:
    """One column source made of several in a row. Each piece is a `load` with its first row and its last."""

    __slots__ = ("_ends", "_pieces")

    def __init__(self, pieces: list[tuple[Load, int, int]]) -> None:
        self._pieces = pieces
        self._ends = np.cumsum([high - low for _, low, high in pieces])

    def __call__(self, name: str, low: int, high: int) -> NDArray[Any]:
        first = int(np.searchsorted(self._ends, low, side="right"))
        parts: list[NDArray[Any]] = []
        for place in range(min(first, len(self._pieces) - 1), len(self._pieces)):
            load, start, end = self._pieces[place]
            begins = int(self._ends[place]) - (end - start)
            if begins >= high and parts:
                break
            parts.append(
                load(name, start + max(0, low - begins), start + max(0, min(end - start, high - begins)))
            )
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def columns(self) -> LazyColumns:
        """All rows."""
        if len(self._pieces) == 1:
            load, low, high = self._pieces[0]
            return LazyColumns(load, low, high)
        return LazyColumns(self, 0, int(self._ends[-1]))
