"""Write an Arrow IPC stream of plain columns: integers, and one of texts at the end.

Arrow's own library does that too, and takes 28 MB of memory and a thread for it, which a viewer that records
would hold all the time.

Format: https://arrow.apache.org/docs/format/Columnar.html and the flatbuffers schemas beside it (Message.fbs,
Schema.fbs).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top import flatbuffers

_VERSION_5 = 4
_SCHEMA, _RECORD_BATCH = 1, 3
_INT, _UTF8 = 2, 5
_BEGIN = b"\xff\xff\xff\xff"
_END = _BEGIN + bytes(4)


class StreamBatch:
    """A batch to be filled in: `columns` by name, `rows` long each, with whatever lies in the memory."""

    def __init__(self, types: Mapping[str, np.dtype[Any]], rows: int, texts: list[bytes]) -> None:
        """`texts` are those of the first rows; the others' are empty."""
        self.rows = rows
        content = b"".join(texts)
        sizes = [rows * kind.itemsize for kind in types.values()] + [4 * (rows + 1), len(content)]
        padded = [size + -size % 8 for size in sizes]
        starts = np.cumsum([0, *padded])
        self.body = np.empty(int(starts[-1]), np.uint8)
        places = starts[:-1].tolist()
        parts = [self.body[at : at + size] for at, size in zip(places, sizes, strict=True)]
        for at, size, room in zip(places, sizes, padded, strict=True):
            self.body[at + size : at + room] = 0
        self.columns: dict[str, NDArray[Any]] = {
            name: part.view(kind) for (name, kind), part in zip(types.items(), parts, strict=False)
        }
        ends = parts[-2].view(np.int32)
        ends[0] = 0
        ends[1 : len(texts) + 1] = np.cumsum([len(each) for each in texts])
        ends[len(texts) + 1 :] = len(content)
        parts[-1][:] = np.frombuffer(content, np.uint8)
        # Each column has a buffer that says what is null, which is empty; the texts have their ends besides.
        self.buffers = np.zeros((2 * len(types) + 3, 2), np.int64)
        filled = [*range(1, 2 * len(types), 2), 2 * len(types) + 1, 2 * len(types) + 2]
        self.buffers[filled] = np.column_stack([places, sizes])

    def message(self) -> bytes:
        """What lies before the body."""
        nodes = np.zeros((len(self.columns) + 1, 2), np.int64)
        nodes[:, 0] = self.rows
        batch = flatbuffers.table(("q", self.rows), flatbuffers.pairs(nodes), flatbuffers.pairs(self.buffers))
        return _framed(_RECORD_BATCH, batch, len(self.body))


class StreamWriter:
    """Writes a stream into a new file that only its owner may read. Raises OSError.

    `types` are the columns of integers, `text` is the name of the column of texts; `tell` is how many bytes
    were written.
    """

    def __init__(
        self, path: Path, types: Mapping[str, np.dtype[Any]], text: str, metadata: Mapping[str, str]
    ) -> None:
        self._types = types
        self.tell = 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            self._put(_framed(_SCHEMA, _schema(types, text, metadata), 0))
        except BaseException:
            os.close(self._fd)
            raise

    def batch(self, rows: int, texts: list[bytes]) -> StreamBatch:
        """A batch to be filled in and then written."""
        return StreamBatch(self._types, rows, texts)

    def write(self, batch: StreamBatch) -> None:
        """Write a batch."""
        self._put(batch.message())
        self._put(batch.body.data)

    def close(self) -> None:
        """Say that this is the end, and close the file."""
        try:
            self._put(_END)
        finally:
            os.close(self._fd)

    def _put(self, data: bytes | memoryview) -> None:
        left = memoryview(data)
        while left:
            written = os.write(self._fd, left)
            self.tell += written
            left = left[written:]


def _framed(kind: int, header: flatbuffers.Child, body_bytes: int) -> bytes:
    """A message with its length before it."""
    content = flatbuffers.message(
        flatbuffers.table(("h", _VERSION_5), ("B", kind), header, ("q", body_bytes))
    )
    return _BEGIN + struct.pack("<i", len(content)) + content


def _schema(types: Mapping[str, np.dtype[Any]], text: str, metadata: Mapping[str, str]) -> flatbuffers.Child:
    fields = [
        _field(name, _INT, flatbuffers.table(("i", 8 * kind.itemsize), ("B", kind.kind == "i")))
        for name, kind in types.items()
    ]
    fields.append(_field(text, _UTF8, flatbuffers.table()))
    about = [
        flatbuffers.table(flatbuffers.text(key), flatbuffers.text(value)) for key, value in metadata.items()
    ]
    return flatbuffers.table(("h", 0), flatbuffers.tables(fields), flatbuffers.tables(about))


def _field(name: str, kind: int, about: flatbuffers.Child) -> flatbuffers.Child:
    """A column that is never null."""
    return flatbuffers.table(
        flatbuffers.text(name), ("B", 0), ("B", kind), about, None, flatbuffers.tables([])
    )
