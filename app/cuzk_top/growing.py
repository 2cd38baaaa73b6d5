"""Arrays that grow at the end and shrink at the front, while views of them never change."""

import numpy as np
from numpy.typing import NDArray

from cuzk_top.columns import Columns, Packed

TAKEN_OVER = 65_536
"""Rows from which on a first part is used as it is: so a saved trace is not copied when it is opened."""
_LEAST = 16


class Growing:
    """A block of int64 of shape (words, rows): columns, or pairs of narrow ones, that grow together."""

    __slots__ = ("_block", "_capacity", "_high", "_low", "_readable", "changes")

    def __init__(self, words: int) -> None:
        self._block = self._readable = np.empty((words, 0), np.int64)
        self._capacity = 0
        self._low = 0
        self._high = 0
        self.changes = 0

    def __len__(self) -> int:
        return self._high - self._low

    @property
    def block(self) -> NDArray[np.int64]:
        """All rows, read-only."""
        return self._readable[:, self._low : self._high]

    def append(self, part: NDArray[np.int64]) -> None:
        """Append rows. A large first part is taken over uncopied and must not change."""
        self.changes += 1
        count = part.shape[1]
        if count >= TAKEN_OVER and self._high == self._low:
            self._use(part, count)
            self._low, self._high = 0, count
            return
        low, high = self._high, self._high + count
        if high > self._capacity:
            self._move(2 * (high - self._low))
            low, high = self._high, self._high + count
        self._block[:, low:high] = part
        self._high = high

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
        length, larger = len(self), np.empty((len(self._block), max(_LEAST, capacity)), np.int64)
        larger[:, :length] = self._block[:, self._low : self._high]
        self._use(larger, larger.shape[1])
        self._low, self._high = 0, length

    def _use(self, block: NDArray[np.int64], capacity: int) -> None:
        self._block, self._capacity = block, capacity
        self._readable = block.view()
        self._readable.flags.writeable = False


class GrowingColumns:
    """Records that grow in the same way. Records once appended must not change."""

    __slots__ = ("_first", "_rows", "_view")

    def __init__(self) -> None:
        self._rows = Growing(Packed.WORDS)
        self._first: Columns | None = None  # a large first part, as it came
        self._view: Columns | None = Columns.empty()

    def __len__(self) -> int:
        return len(self._rows) if self._first is None else len(self._first)

    def columns(self) -> Columns:
        """All of them; the same object as long as nothing changes."""
        if self._view is None:
            self._view = self._first if self._first is not None else Packed(self._rows.block)
        return self._view

    def append(self, new: Columns) -> None:
        """Append records. A large first part is taken over uncopied."""
        if len(new) >= TAKEN_OVER and not len(self):
            self._first, self._view = new, None
            return
        if self._first is not None:
            first, self._first = self._first, None
            self._rows.append(Packed.of(first).block)
        self.append_block(Packed.of(new).block)

    def append_block(self, new: NDArray[np.int64]) -> None:
        """Copy records, as `Packed.block` has them, behind those that are there."""
        self._view = None
        self._rows.append(new)

    def drop(self, count: int) -> None:
        """Forget the first records; their room is given back at the next growth, or now when it is most."""
        self._view = None
        if self._first is not None:
            self._first = self._first.take(slice(count, None))
            return
        self._rows.drop(count)
