"""A ring file as something to read from: pread, the tables' types, and the part of the header that changes.

Nothing is mapped, so a file that shrinks or lies cannot crash the reader, and no page of a sparse file comes
into being because somebody looked.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cuzk_tracer import layout

_NUMPY = {"B": "u1", "H": "<u2", "I": "<u4", "Q": "<u8", "q": "<i8", "8s": "V8", "16s": "V16"}


def _dtype(fields: tuple[layout.Field, ...], size: int) -> np.dtype[Any]:
    return np.dtype(
        {
            "names": [name for name, _, _ in fields],
            "formats": [_NUMPY[code] for _, _, code in fields],
            "offsets": [offset for _, offset, _ in fields],
            "itemsize": size,
        }
    )


HEADER = _dtype(layout.HEADER, layout.HEADER_BYTES)
ANCHOR = _dtype(layout.ANCHOR, layout.ANCHOR_BYTES)
META = _dtype(layout.META_ENTRY, layout.META_BYTES)
NAME = _dtype(layout.NAME, layout.NAME_BYTES)
SLOT = _dtype(layout.SLOT, layout.SLOT_BYTES)
OPEN = _dtype(layout.OPEN, layout.OPEN_BYTES)
RECORD = _dtype(layout.RECORD, layout.RECORD_BYTES)

Rows = NDArray[np.void]


class RingError(Exception):
    """The file cannot be read as a ring; `str` says which file and why."""


class Changing(NamedTuple):
    """The fields of the header that change while the process runs, as layout.HEADER has them."""

    heartbeat_ns: int
    ended_ns: int
    names_count: int
    metas_count: int
    strings_used: int
    slots_used: int
    dropped: int
    dropped_plain: int
    anchor_seq: int
    anchors_count: int


_PLACES = {name: (offset, code) for name, offset, code in layout.HEADER}
_CHANGING = struct.Struct("<" + "".join(_PLACES[name][1] for name in Changing._fields))
_CHANGING_OFF = _PLACES[Changing._fields[0]][0]
assert [_PLACES[name][0] - _CHANGING_OFF for name in Changing._fields] == [*range(0, 80, 8)]


class Input:
    """An open file. Raises RingError when it cannot be opened or read."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        try:
            self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise RingError(f"{path}: {error.strerror}") from error

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.fd)

    def read(self, count: int, offset: int) -> bytes:
        """Up to `count` bytes; fewer at the end of the file."""
        try:
            data = os.pread(self.fd, count, offset)
            while len(data) < count:
                more = os.pread(self.fd, count - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data
        except OSError as error:
            raise RingError(f"{self.path}: {error.strerror}") from error

    def table(self, dtype: np.dtype[Any], count: int, offset: int) -> Rows:
        """Up to `count` rows; fewer at the end of the file."""
        data = self.read(count * dtype.itemsize, offset)
        rows: Rows = np.frombuffer(data[: len(data) // dtype.itemsize * dtype.itemsize], dtype)
        return rows

    def changing(self) -> Changing:
        """The header as it is now. Raises RingError when the file has become too short for one."""
        data = self.read(_CHANGING.size, _CHANGING_OFF)
        if len(data) < _CHANGING.size:
            raise RingError(f"{self.path}: the ring was cut off")
        return Changing._make(_CHANGING.unpack(data))
