"""Records of a session that runs, kept for long: each column as narrow as its values allow.

A record takes 80 bytes in `Packed`. Most columns of a row of the screen are one value for thousands of
records, or numbers near each other: in blocks of `ROWS` they are kept as differences from the smallest, or as
places in a short table. Times, names and tracks, which every frame looks at, stay as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top.columns import COLUMN_TYPES, Packed
from cuzk_top.lazy import LazyColumns

ROWS = 512
"""Of a block."""
SEEN = [0, 1, 7]
"""Rows of `Packed.block` that are kept as they are: start, end, and name and track."""
_NARROW = tuple(COLUMN_TYPES.keys() - {"start_ns", "end_ns", "name", "track"})
_WIDTHS = (np.uint8, np.uint16, np.uint32)
_MOST_DISTINCT = 256


class _Narrow:
    """One column of a block."""

    __slots__ = ("_base", "_kind", "_table", "_values")

    def __init__(self, values: NDArray[Any]) -> None:
        self._kind = values.dtype
        self._table: NDArray[Any] | None = None
        self._values: NDArray[Any] | None = None
        self._base = int(values.min())
        spread = int(values.max()) - self._base
        width = next((width for width in _WIDTHS if spread <= np.iinfo(width).max), None)
        if spread == 0:
            return
        if width is np.uint8:
            self._values = (values - self._kind.type(self._base)).astype(width)
            return
        table, places = np.unique(values, return_inverse=True)
        if len(table) <= _MOST_DISTINCT:
            self._table, self._values = table, places.astype(np.uint8)
        elif width is not None and np.dtype(width).itemsize < self._kind.itemsize:
            self._values = (values - self._kind.type(self._base)).astype(width)
        else:
            self._base, self._values = 0, values.copy()

    @property
    def size_bytes(self) -> int:
        arrays = (self._table, self._values)
        return sum(array.nbytes for array in arrays if array is not None)

    def part(self, low: int, high: int) -> NDArray[Any]:
        """Some rows, as they were."""
        if self._values is None:
            return np.full(high - low, self._base, self._kind)
        values = self._values[low:high]
        if self._table is not None:
            chosen: NDArray[Any] = self._table[values]
            return chosen
        wide: NDArray[Any] = values.astype(self._kind)
        wide += self._kind.type(self._base)
        return wide


class Sealed:
    """A block of `ROWS` records without times, names and tracks."""

    __slots__ = ("_columns", "size_bytes")

    def __init__(self, records: Packed) -> None:
        self._columns = {name: _Narrow(getattr(records, name)) for name in _NARROW}
        self.size_bytes = sum(column.size_bytes for column in self._columns.values())

    def part(self, name: str, low: int, high: int) -> NDArray[Any]:
        """Some rows of a column."""
        return self._columns[name].part(low, high)


def columns(seen: NDArray[np.int64], blocks: tuple[Sealed, ...], skip: int, rest: Packed) -> LazyColumns:
    """Records as columns: `seen` are the rows SEEN of all of them, `blocks` hold the others of the first
    (without `skip` at their front), `rest` is the remaining records.
    """
    start, end, named = seen
    whole: dict[str, NDArray[Any]] = {
        "start_ns": start,
        "end_ns": end,
        "name": named.view(np.uint32)[::2],
        "track": named.view(np.uint32)[1::2],
    }
    sealed = len(blocks) * ROWS

    def load(name: str, low: int, high: int) -> NDArray[Any]:
        values = whole.get(name)
        if values is not None:
            return values[low:high]
        low, high = low + skip, max(low, high) + skip
        parts = [
            blocks[place].part(name, max(0, low - place * ROWS), min(ROWS, high - place * ROWS))
            for place in range(low // ROWS, -(-min(high, sealed) // ROWS))
        ]
        if high > sealed or not parts:
            parts.append(getattr(rest, name)[max(0, low - sealed) : max(0, high - sealed)])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    return LazyColumns(load, 0, len(start))
