"""Arrays that grow at the end and shrink at the front, while views of them never change."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top.columns import Columns, Packed

TAKEN_OVER = 65_536
"""Rows from which on a first part is used as it is: so a saved trace is not copied when it is opened."""
_LEAST = 16


class Growing:
    """Arrays of equal length that grow at the end and shrink at the front; views of them never change."""

    def __init__(self, types: dict[str, np.dtype[Any]]) -> None:
        self._types = types
        self._arrays = {name: np.empty(_LEAST, kind) for name, kind in types.items()}
        self._low = 0
        self._high = 0
        self.changes = 0

    def __len__(self) -> int:
        return self._high - self._low

    def __getitem__(self, name: str) -> NDArray[Any]:
        view = self._arrays[name][self._low : self._high]
        view.flags.writeable = False
        return view

    def append(self, parts: dict[str, NDArray[Any]]) -> None:
        """Append rows, one array a column. A large first part is taken over uncopied and must not change."""
        self.changes += 1
        count = len(next(iter(parts.values())))
        if self._high == 0 and count >= TAKEN_OVER:
            self._arrays = {name: parts[name].view() for name in self._types}
            self._high = count
            return
        if self._high + count > len(next(iter(self._arrays.values()))):
            self._move(2 * (len(self) + count))
        for name, array in self._arrays.items():
            array[self._high : self._high + count] = parts[name]
        self._high += count

    def cut(self, count: int) -> None:
        """Keep the first rows alone; what is appended then does not overwrite the rest, as views need it."""
        self.changes += 1
        self._high = self._low + count
        self._move(2 * max(_LEAST, count))

    def drop(self, count: int) -> None:
        """Forget the first rows; the room is given back at the next growth, or now when it is most of it."""
        self.changes += 1
        self._low += count
        if self._low > self._high // 2:
            self._move(max(_LEAST, len(self) * 5 // 4))

    def _move(self, capacity: int) -> None:
        length = len(self)
        for name, kind in self._types.items():
            larger = np.empty(capacity, kind)
            larger[:length] = self[name]
            self._arrays[name] = larger
        self._low, self._high = 0, length


class GrowingColumns:
    """Records that grow in the same way. Records once appended must not change."""

    __slots__ = ("_block", "_capacity", "_first", "_high", "_low", "_readable", "_view")

    def __init__(self) -> None:
        self._block = self._readable = _NOTHING
        self._capacity = 0
        self._low = 0
        self._high = 0
        self._first: Columns | None = None  # a large first part, as it came
        self._view: Columns | None = Columns.empty()

    def __len__(self) -> int:
        return self._high - self._low if self._first is None else len(self._first)

    def columns(self) -> Columns:
        """All of them; the same object as long as nothing changes."""
        if self._view is None:
            self._view = self._first if self._first is not None else self._kept()
        return self._view

    def append(self, new: Columns) -> None:
        """Append records. A large first part is taken over uncopied."""
        if len(new) >= TAKEN_OVER and not len(self):
            self._first, self._view = new, None
            return
        if self._first is not None:
            first, self._first = self._first, None
            self._low = self._high = 0
            self.append_packed(Packed.of(first), 0, len(first))
        self.append_packed(Packed.of(new), 0, len(new))

    def append_packed(self, new: Packed, first: int, last: int) -> None:
        """Copy the records from `first` to below `last` of some behind those that are there."""
        self._view = None
        low, high = self._high, self._high + last - first
        if high > self._capacity:
            self._move(2 * (high - self._low))
            low, high = self._high, self._high + last - first
        self._block[:, low:high] = new.block[:, first:last]
        self._high = high

    def drop(self, count: int) -> None:
        """Forget the first records; their room is given back at the next growth, or now when it is most."""
        self._view = None
        if self._first is not None:
            self._first = self._first.take(slice(count, None))
            return
        self._low += count
        if self._low > self._high // 2:
            self._move(max(_LEAST, len(self) * 5 // 4))

    def _kept(self) -> Packed:
        return Packed(self._readable[:, self._low : self._high])

    def _move(self, capacity: int) -> None:
        length, larger = len(self), Packed.room(capacity).block
        larger[:, :length] = self._block[:, self._low : self._high]
        self._block, self._capacity = larger, capacity
        self._readable = larger.view()
        self._readable.flags.writeable = False
        self._low, self._high = 0, length


_NOTHING = Packed.zeros(0).block
