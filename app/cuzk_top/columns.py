"""Records as columns: which there are, their types, and how parts of them are taken and put together.

`Columns` holds one array a column. `Packed` holds the same in one block: what a source yields ten times a
second is small, so what it costs is calls, and a block is moved in one where its columns take fifteen.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cuzk_tracer import layout

KIND_SPAN = layout.KIND_SPAN
KIND_ASYNC = layout.KIND_ASYNC
KIND_INSTANT = layout.KIND_INSTANT
KIND_COUNTER = layout.KIND_COUNTER
KIND_GPU_KERNEL = layout.KIND_GPU_KERNEL
KIND_GPU_MEMCPY = layout.KIND_GPU_MEMCPY
KIND_GPU_MEMSET = layout.KIND_GPU_MEMSET
KIND_UVM = layout.KIND_UVM
KIND_OVERHEAD = layout.KIND_OVERHEAD
KIND_FLOW = layout.KIND_FLOW
KIND_ARGS = layout.KIND_ARGS
KIND_META = layout.KIND_META
KIND_GPU_SYNC = layout.KIND_GPU_SYNC

SPAN_KINDS = (
    KIND_SPAN,
    KIND_ASYNC,
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_GPU_MEMSET,
    KIND_UVM,
    KIND_OVERHEAD,
    KIND_GPU_SYNC,
)
"""Kinds that last: those are drawn as bars."""

DEVICE_KINDS = (KIND_GPU_KERNEL, KIND_GPU_MEMCPY, KIND_GPU_MEMSET)
"""What occupies a device. On tracks of kind "gpu", whose `tid` is the device."""
NO_DEVICE = layout.NO_DEVICE

BUSY_NAME = "gpu.busy"
"""Text of the name that the store gives the stretches in which a device worked, which it derives."""

FLAG_ERR = 1
FLAG_F64 = 2  # a0 holds a float64's bits
FLAG_TEXT = 4  # a1 is a key of the batch's strings
FLAG_FAULTS = 8  # minflt and majflt were measured
FLAG_OPEN = 16  # still open when recorded: end_ns is when it was last seen so
FLAG_UNBALANCED = 32  # closed by an enclosing span's end, not by its own
FLAG_F64_A1 = 64  # a1 holds a float64's bits

COLUMN_TYPES: dict[str, np.dtype[Any]] = {
    "start_ns": np.dtype(np.int64),
    "end_ns": np.dtype(np.int64),
    "kind": np.dtype(np.uint8),
    "flags": np.dtype(np.uint8),
    "depth": np.dtype(np.uint8),
    "track": np.dtype(np.uint32),
    "name": np.dtype(np.uint32),
    "id": np.dtype(np.uint64),
    "parent": np.dtype(np.uint64),
    "corr": np.dtype(np.uint32),
    "a0": np.dtype(np.int64),
    "a1": np.dtype(np.int64),
    "minflt": np.dtype(np.uint32),
    "majflt": np.dtype(np.uint32),
    "seq": np.dtype(np.uint64),
}
ROW_BYTES = sum(kind.itemsize for kind in COLUMN_TYPES.values())

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Records as equal-length arrays, dtypes as in COLUMN_TYPES.

    `id` and `parent` are unique in a session (0: none): the writing track in the high 32 bits, the writer's
    own number in the low. `depth` counts the spans of the same track that were open around this one. `a0` and
    `a1` are integers, or the bits of a float64 where flags say so. `seq` is the order of arrival.
    """

    start_ns: Int64s
    end_ns: Int64s
    kind: NDArray[np.uint8]
    flags: NDArray[np.uint8]
    depth: NDArray[np.uint8]
    track: NDArray[np.uint32]
    name: NDArray[np.uint32]
    id: NDArray[np.uint64]
    parent: NDArray[np.uint64]
    corr: NDArray[np.uint32]
    a0: Int64s
    a1: Int64s
    minflt: NDArray[np.uint32]
    majflt: NDArray[np.uint32]
    seq: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.start_ns)

    def arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Every column with its name, in order."""
        return zip(COLUMN_TYPES, _arrays(self), strict=True)

    def take(self, which: Any) -> "Columns":
        """The rows that an index array, a mask or a slice selects; a slice copies nothing."""
        return Columns(*[array[which] for array in _arrays(self)])

    def row(self, i: int) -> dict[str, Any]:
        """Row `i` by column, as Python's numbers."""
        return {name: array.item(i) for name, array in self.arrays()}

    def replace(self, **columns: NDArray[Any]) -> "Columns":
        """The same with some columns exchanged."""
        return Columns(**(dict(self.arrays()) | columns))

    @staticmethod
    def empty() -> "Columns":
        """No rows."""
        return _EMPTY

    @staticmethod
    def make(count: int, **columns: Any) -> "Columns":
        """`count` rows from the columns given (arrays or single values); the rest is zero."""
        made = {}
        for name, kind in COLUMN_TYPES.items():
            value = columns.pop(name, 0)
            if isinstance(value, (int, float, np.generic)):
                made[name] = array = np.zeros(count, kind)
                if value:
                    array[:] = value
                continue
            made[name] = array = np.asarray(value, kind)
            if len(array) != count:
                raise ValueError(f"column {name} has {len(array)} rows, not {count}")
        if columns:
            raise TypeError(f"no such columns: {', '.join(columns)}")
        return Columns(**made)

    @staticmethod
    def concat(parts: "Sequence[Columns]") -> "Columns":
        """The rows of all parts in order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return _EMPTY
        packed = [part for part in parts if isinstance(part, Packed)]
        if len(packed) == len(parts):
            return Packed.joined(packed)
        return Columns(*map(np.concatenate, zip(*map(_arrays, parts), strict=True)))


_arrays: Callable[[Columns], tuple[NDArray[Any], ...]] = attrgetter(*COLUMN_TYPES)
"""All columns at once: batches are many and small, so what each costs is calls, not rows."""
_EMPTY = Columns(*(np.empty(0, kind) for kind in COLUMN_TYPES.values()))


_FIELDS: dict[str, tuple[int, type[np.generic], int, int]] = {
    "start_ns": (0, np.int64, 0, 1),
    "end_ns": (1, np.int64, 0, 1),
    "a0": (2, np.int64, 0, 1),
    "a1": (3, np.int64, 0, 1),
    "id": (4, np.uint64, 0, 1),
    "parent": (5, np.uint64, 0, 1),
    "seq": (6, np.uint64, 0, 1),
    "name": (7, np.uint32, 0, 2),
    "track": (7, np.uint32, 1, 2),
    "corr": (8, np.uint32, 0, 2),
    "minflt": (8, np.uint32, 1, 2),
    "majflt": (9, np.uint32, 0, 2),
    "kind": (9, np.uint8, 4, 8),
    "flags": (9, np.uint8, 5, 8),
    "depth": (9, np.uint8, 6, 8),
}
"""Of each column of `Packed`: the row of the block, how that is read, the first value in it and the step."""
_set = object.__setattr__


class Packed(Columns):
    """Columns in one `block`, int64 of shape (10, rows): narrow columns share a row. Little-endian.

    A column is a view of the block, made when it is first asked for.
    """

    __slots__ = ("block",)

    WORDS: ClassVar = 10
    TIMES_AND_VALUE: ClassVar = slice(0, 3)
    """Of the block: start_ns, end_ns, a0."""

    block: Int64s

    def __init__(self, block: Int64s) -> None:
        _set(self, "block", block)

    def __len__(self) -> int:
        return int(self.block.shape[1])

    def __getattr__(self, name: str) -> NDArray[Any]:
        # Reached for columns whose slot is still empty. Two threads may both fill one, with the same.
        if name not in _FIELDS:
            raise AttributeError(name)
        row, kind, first, step = _FIELDS[name]
        values: NDArray[Any] = self.block[row].view(kind)[first::step]
        _set(self, name, values)
        return values

    @property
    def told(self) -> NDArray[np.uint32]:
        """kind, flags and depth in one word, from the lowest byte on."""
        words: NDArray[np.uint32] = self.block[9].view(np.uint32)[1::2]
        return words

    def take(self, which: Any) -> "Packed":
        """As `Columns.take`."""
        if isinstance(which, slice):
            if which.step is None:
                return Packed(self.block[:, which])
            which = np.arange(*which.indices(len(self)))
        which = np.asarray(which)
        if which.dtype == bool:
            (which,) = which.nonzero()
        return Packed(self.block.take(which, axis=1))

    def row(self, i: int) -> dict[str, Any]:
        """As `Columns.row`: in one look at the block, where fifteen columns take one each."""
        start, end, a0, a1, own, parent, seq, named, linked, told = self.block[:, i].tolist()
        return {
            "start_ns": start,
            "end_ns": end,
            "kind": told >> 32 & 0xFF,
            "flags": told >> 40 & 0xFF,
            "depth": told >> 48 & 0xFF,
            "track": named >> 32 & 0xFFFFFFFF,
            "name": named & 0xFFFFFFFF,
            "id": own & 0xFFFFFFFFFFFFFFFF,
            "parent": parent & 0xFFFFFFFFFFFFFFFF,
            "corr": linked & 0xFFFFFFFF,
            "a0": a0,
            "a1": a1,
            "minflt": linked >> 32 & 0xFFFFFFFF,
            "majflt": told & 0xFFFFFFFF,
            "seq": seq & 0xFFFFFFFFFFFFFFFF,
        }

    def replace(self, **columns: NDArray[Any]) -> "Packed":
        """As `Columns.replace`."""
        made = Packed(self.block.copy())
        for name, values in columns.items():
            getattr(made, name)[:] = values
        return made

    @staticmethod
    def zeros(count: int) -> "Packed":
        """Rows to be filled in: nobody else has seen their block."""
        return Packed(np.zeros((Packed.WORDS, count), np.int64))

    @staticmethod
    def room(count: int) -> "Packed":
        """The same with whatever lies in the memory."""
        return Packed(np.empty((Packed.WORDS, count), np.int64))

    @staticmethod
    def of(columns: Columns) -> "Packed":
        """Any columns, packed; those that are come back as they are."""
        if isinstance(columns, Packed):
            return columns
        made = Packed.zeros(len(columns))
        for name, values in columns.arrays():
            getattr(made, name)[:] = values
        return made

    @staticmethod
    def copied(parts: Sequence[Columns]) -> "Packed":
        """The rows of all parts in order, in memory of their own; there is at least one."""
        return Packed(np.concatenate([Packed.of(part).block for part in parts], axis=1))

    @staticmethod
    def joined(parts: "Sequence[Packed]") -> "Packed":
        """The rows of all parts in order; there is at least one."""
        if len(parts) == 1:
            return parts[0]
        return Packed(np.concatenate([part.block for part in parts], axis=1))


def samples(
    track: int,
    names: Sequence[int],
    start_ns: int | Sequence[int],
    end_ns: int | Sequence[int],
    values: Sequence[float],
) -> Columns:
    """Records of counters by their names' numbers, each with its value."""
    if not names:
        return _EMPTY
    made = Packed.zeros(len(names))
    made.start_ns[:] = start_ns
    made.end_ns[:] = end_ns
    made.a0.view(np.float64)[:] = values
    made.track[:] = track
    made.name[:] = names
    made.told[:] = KIND_COUNTER | FLAG_F64 << 8
    return made
