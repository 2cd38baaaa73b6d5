"""Flatbuffers, as much as Arrow's messages need: tables, their fields, vectors. Every place that is read is
checked.

Format: https://flatbuffers.dev/internals/. Errors are ArrowError or struct.error.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray


class ArrowError(ValueError):
    """The bytes are not what they claim to be."""


class Table:
    """A flatbuffers table; a field that is absent gives the default."""

    __slots__ = ("_data", "_size", "_vtable", "at")

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self.at = at
        self._vtable = at - self._unpack("<i", at)
        self._size = self._unpack("<H", self._vtable)

    def _unpack(self, form: str, at: int) -> int:
        if at < 0:
            raise ArrowError("an offset points before the message")
        value: int = struct.unpack_from(form, self._data, at)[0]
        return value

    def _place(self, field: int) -> int:
        entry = 4 + 2 * field
        if entry + 2 > self._size:
            return 0
        offset = self._unpack("<H", self._vtable + entry)
        return self.at + offset if offset else 0

    def number(self, field: int, form: str, default: int = 0) -> int:
        """A number; `form` is its `struct` code."""
        place = self._place(field)
        return self._unpack("<" + form, place) if place else default

    def table(self, field: int) -> Table | None:
        """A table."""
        place = self._place(field)
        return Table(self._data, place + self._unpack("<I", place)) if place else None

    def _vector(self, field: int, each: int) -> tuple[int, int]:
        """Place and length of a vector; its elements are checked to lie within the message."""
        place = self._place(field)
        if not place:
            return 0, 0
        start = place + self._unpack("<I", place)
        count = self._unpack("<I", start)
        if start + 4 + count * each > len(self._data):
            raise ArrowError("a list is longer than its message")
        return start + 4, count

    def tables(self, field: int) -> Iterator[Table]:
        """A vector of tables."""
        start, count = self._vector(field, 4)
        for place in range(start, start + 4 * count, 4):
            yield Table(self._data, place + self._unpack("<I", place))

    def pairs(self, field: int) -> NDArray[np.int64]:
        """A vector of structs of two int64."""
        start, count = self._vector(field, 16)
        return np.frombuffer(self._data, "<i8", 2 * count, start).reshape(count, 2)

    def text(self, field: int) -> bytes:
        """A string's or vector of bytes' bytes."""
        start, count = self._vector(field, 1)
        return bytes(self._data[start : start + count])


Child = Callable[[bytearray], int]
"""Appends itself to a message and gives back its place."""
Slot = tuple[str, int] | Child | None
"""A field of a table to be written: a number with its `struct` code, something with a place of its own, or
nothing."""


def message(root: Child) -> bytes:
    """A whole buffer, a multiple of 8 bytes."""
    out = bytearray(4)
    struct.pack_into("<I", out, 0, root(out))
    return bytes(out + bytes(-len(out) % 8))


def table(*slots: Slot) -> Child:
    """A table with its fields in their order."""

    def append(out: bytearray) -> int:
        codes = [("I", 0) if callable(slot) else slot for slot in slots]
        places = [0] * len(slots)
        size = 4
        # The widest come first: so each lies at a multiple of its own size.
        present = [i for i, code in enumerate(codes) if code is not None]
        for i in sorted(present, key=lambda i: -struct.calcsize(codes[i][0])):  # type: ignore[index]
            places[i] = size
            size += struct.calcsize(codes[i][0])  # type: ignore[index]
        vtable = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), size, *places)
        out += bytes(-(len(out) + len(vtable) + 4) % 8)
        at = len(out) + len(vtable)
        out += vtable
        out += struct.pack("<i", len(vtable)) + bytes(size - 4)
        for place, code in zip(places, codes, strict=True):
            if code is not None:
                struct.pack_into("<" + code[0], out, at + place, code[1])
        for place, slot in zip(places, slots, strict=True):
            if callable(slot):
                struct.pack_into("<I", out, at + place, slot(out) - (at + place))
        return at

    return append


def tables(children: Sequence[Child]) -> Child:
    """A vector of tables."""

    def append(out: bytearray) -> int:
        out += bytes(-len(out) % 4)
        at = len(out)
        out += struct.pack("<I", len(children)) + bytes(4 * len(children))
        for place, child in enumerate(children):
            here = at + 4 + 4 * place
            struct.pack_into("<I", out, here, child(out) - here)
        return at

    return append


def pairs(values: NDArray[np.int64]) -> Child:
    """A vector of structs of two int64, from shape (count, 2)."""

    def append(out: bytearray) -> int:
        out += bytes(-(len(out) + 4) % 8)
        at = len(out)
        out += struct.pack("<I", len(values)) + values.astype("<i8").tobytes()
        return at

    return append


def text(content: str) -> Child:
    """A string."""

    def append(out: bytearray) -> int:
        out += bytes(-len(out) % 4)
        at = len(out)
        data = content.encode()
        out += struct.pack("<I", len(data)) + data + b"\0"
        return at

    return append
