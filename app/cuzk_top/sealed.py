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
_WIDE = slice(2, 7)
_HALVES = slice(8, 10)
_PLACES = {"a0": 0, "a1": 1, "id": 2, "parent": 3, "seq": 4, "corr": 5, "minflt": 6, "majflt": 7}
"""Of the other columns in a block: first those of 64 bits, then those of 32."""
_TOLD = 8
_TOLD_BYTES = {"kind": 0, "flags": 1, "depth": 2}
"""Columns of a byte, which are kept together as one of 32 bits."""
_MOST_DISTINCT = 256


class _Narrow:
    """Values that are not all the same, `spread` the difference of the largest and the smallest."""

    __slots__ = ("_table", "_values")

    def __init__(self, values: NDArray[Any], low: int, spread: int) -> None:
        self._table: NDArray[Any] | None = None
        width = values.dtype.type
        if spread <= 0xFFFF:
            width = np.uint8 if spread <= 0xFF else np.uint16
        else:
            table, places = np.unique(values, return_inverse=True)
            if len(table) <= _MOST_DISTINCT:
                self._table, self._values = table, places.astype(np.uint8)
                return
            if spread <= 0xFFFFFFFF:
                width = np.uint32
        if np.dtype(width).itemsize == values.dtype.itemsize:
            low = 0
        self._values = (values - values.dtype.type(low)).astype(width)

    @property
    def size_bytes(self) -> int:
        return self._values.nbytes + (self._table.nbytes if self._table is not None else 0)

    def part(self, kind: np.dtype[Any], base: int, low: int, high: int) -> NDArray[Any]:
        """Some rows, as they were. `base` is the smallest value."""
        values = self._values[low:high]
        if self._table is not None:
            chosen: NDArray[Any] = self._table[values]
            return chosen
        if values.dtype.itemsize == kind.itemsize:
            return values.copy()
        wide: NDArray[Any] = values.astype(kind)
        wide += kind.type(base)
        return wide


class Sealed:
    """A block of `ROWS` records without times, names and tracks."""

    __slots__ = ("_lows", "_narrow", "size_bytes")

    def __init__(self, records: Packed) -> None:
        # The smallest and largest of all columns in two calls each: a session seals some blocks a second.
        wide = records.block[_WIDE]
        halves = records.block[_HALVES].view(np.uint32).reshape(2, -1, 2)
        self._lows = tuple(wide.min(axis=1).tolist() + halves.min(axis=1).reshape(-1).tolist())
        highs = wide.max(axis=1).tolist() + halves.max(axis=1).reshape(-1).tolist()
        values = [*wide, *(half[:, side] for half in halves for side in (0, 1))]
        self._narrow = {
            place: _Narrow(values[place], low, high - low)
            for place, (low, high) in enumerate(zip(self._lows, highs, strict=True))
            if low != high
        }
        self.size_bytes = sum(column.size_bytes for column in self._narrow.values())

    def part(self, name: str, low: int, high: int) -> NDArray[Any]:
        """Some rows of a column."""
        place = _PLACES.get(name, _TOLD)
        kind = np.dtype(np.int64 if place < _PLACES["corr"] else np.uint32)
        narrow = self._narrow.get(place)
        if narrow is None:
            values = np.full(high - low, self._lows[place], kind)
        else:
            values = narrow.part(kind, self._lows[place], low, high)
        if name in _TOLD_BYTES:
            return values.view(np.uint8)[_TOLD_BYTES[name] :: 4]
        return values.view(COLUMN_TYPES[name])


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
