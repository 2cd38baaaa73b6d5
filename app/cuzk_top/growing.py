"""Arrays that grow at the end and shrink at the front, while views of them never change."""

import numpy as np
from numpy.typing import NDArray

from cuzk_top import sealed
from cuzk_top.columns import ROW_BYTES, Columns, Packed
from cuzk_top.sealed import Sealed

TAKEN_OVER = 65_536
"""Rows from which on a first part is used as it is: so a saved trace is not copied when it is opened."""
_LEAST = 16
MANY = 8192
"""Rows from which on the room grows by a quarter and is not doubled."""


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
            needed = high - self._low
            self._move(needed * 2 if needed < MANY else needed * 5 // 4)
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
    """Records that grow in the same way. Records once appended must not change.

    `sealing`: all but the newest are kept narrow (see `sealed`).
    """

    __slots__ = ("_blocks", "_first", "_rows", "_sealing", "_seen", "_skip", "_view")

    def __init__(self, *, sealing: bool = False) -> None:
        self._rows = Growing(Packed.WORDS)
        self._first: Columns | None = None  # a large first part, as it came
        self._view: Columns | None = Columns.empty()
        self._sealing = sealing
        self._blocks: tuple[Sealed, ...] = ()  # of records before those in `_rows`
        self._skip = 0  # records of the first block that were dropped
        self._seen = Growing(len(sealed.SEEN))  # of all records, once some are sealed

    def __len__(self) -> int:
        if self._first is not None:
            return len(self._first)
        return len(self._rows) + len(self._blocks) * sealed.ROWS - self._skip

    @property
    def size_bytes(self) -> int:
        """What the records take, without room for more."""
        narrow = sum(block.size_bytes for block in self._blocks)
        return narrow + self._seen.block.nbytes + len(self._rows) * ROW_BYTES

    def columns(self) -> Columns:
        """All of them; the same object as long as nothing changes."""
        if self._view is None:
            if self._first is not None:
                self._view = self._first
            elif self._blocks:
                rest = Packed(self._rows.block)
                self._view = sealed.columns(self._seen.block, self._blocks, self._skip, rest)
            else:
                self._view = Packed(self._rows.block)
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
        if self._blocks:
            self._seen.append(new[sealed.SEEN])
        if self._sealing and len(self._rows) >= 2 * sealed.ROWS:
            self._seal()

    def _seal(self) -> None:
        block = self._rows.block
        if not self._blocks:
            self._seen.append(block[sealed.SEEN])
        whole = len(self._rows) // sealed.ROWS - 1
        made = [
            Sealed(Packed(block[:, place * sealed.ROWS : (place + 1) * sealed.ROWS]))
            for place in range(whole)
        ]
        self._blocks = (*self._blocks, *made)
        self._rows.drop(whole * sealed.ROWS)

    def drop(self, count: int) -> None:
        """Forget the first records; their room is given back at the next growth, or now when it is most."""
        self._view = None
        if self._first is not None:
            self._first = self._first.take(slice(count, None))
            return
        if not self._blocks:
            self._rows.drop(count)
            return
        self._seen.drop(count)
        gone, held = self._skip + count, len(self._blocks) * sealed.ROWS
        self._blocks = self._blocks[gone // sealed.ROWS :]
        self._skip = gone % sealed.ROWS if self._blocks else 0
        if not self._blocks:
            self._rows.drop(gone - held)
            self._seen = Growing(len(sealed.SEEN))
