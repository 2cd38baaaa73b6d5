"""Read Arrow IPC, as much of it as a trace needs: messages, schema, and columns as numpy arrays.

Arrow's own reader decodes all columns of a batch at once and allocates what a file claims. This one looks at
nothing but the messages until a column is asked for; a plain column is a view of the mapped file, a
compressed one is decompressed alone. Every offset and length is checked against the file before it is used,
so a damaged file is an error and never a large allocation.

Format: https://arrow.apache.org/docs/format/Columnar.html and the flatbuffers schemas beside it (Message.fbs,
Schema.fbs). A stream and the body of a file are the same sequence of messages.
"""

import itertools
import mmap
import os
import struct
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top.flatbuffers import ArrowError, Table

FILE_MAGIC = b"ARROW1"
CONTINUATION = b"\xff\xff\xff\xff"

_SCHEMA = 1
_DICTIONARY = 2
_RECORD_BATCH = 3

_INT = 2
_FLOAT = 3
_BUFFERS = {_INT: 2, _FLOAT: 2, 4: 3, 5: 3, 6: 2}  # Binary, Utf8: with offsets; Bool
_UTF8 = 5

_CODECS = {0: "lz4", 1: "zstd"}
MOST_ROWS_A_BYTE = 64
"""No trace compresses below this; a file that claims more rows is damaged, or made to fill the memory."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name, numpy type (None where it is no number) and the place of its first buffer."""

    name: str
    type: np.dtype[Any] | None
    buffer: int
    is_text: bool


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns by name, and the metadata."""

    fields: dict[str, Field]
    metadata: dict[str, str]


class Batch:
    """One record batch: `rows` and its columns on demand."""

    __slots__ = ("_codec", "_kept", "_schema", "buffers", "data", "rows")

    def __init__(
        self, schema: Schema, data: memoryview, rows: int, buffers: NDArray[np.int64], codec: int | None
    ) -> None:
        self._schema = schema
        self.data = data
        self.rows = rows
        self.buffers = buffers
        self._codec = codec
        self._kept: dict[str, NDArray[Any]] = {}

    @property
    def compressed(self) -> bool:
        """Whether a look at a column costs its decompression."""
        return self._codec is not None

    def column(self, name: str) -> NDArray[Any] | None:
        """A column of numbers, read-only; None where the batch has none of that name."""
        field = self._schema.fields.get(name)
        if field is None:
            return None
        if field.type is None:
            raise ArrowError(f"column {name} holds no integers")
        kept = self._kept.get(name)
        if kept is not None:
            return kept
        values = self._values(field.buffer + 1, field.type, self.rows)
        if self._codec is not None:
            self._kept[name] = values
        return values

    def check(self) -> None:
        """See that every column is there in its full length. Raises ArrowError."""
        for field in self._schema.fields.values():
            if field.type is not None:
                need = self.rows * field.type.itemsize
                size = self._bytes_of(field.buffer + 1)
                if size < need or (self._codec is not None and size > need + 64):
                    raise ArrowError(f"column {field.name} has {size:,} bytes instead of {need:,}")

    def decompress(self, keep: Collection[str]) -> None:
        """Decompress each column once, so that no surprise is left; some of them to be kept."""
        for field in self._schema.fields.values():
            if field.name in keep:
                self.column(field.name)
            elif field.type is not None:
                self._values(field.buffer + 1, field.type, self.rows)

    def texts(self, name: str, count: int) -> list[str]:
        """The first texts of a column; empty ones where there is no such column."""
        field = self._schema.fields.get(name)
        if field is None or not field.is_text:
            return [""] * count
        ends = self._values(field.buffer + 1, np.dtype("<i4"), self.rows + 1)[: count + 1].tolist()
        size = self._bytes_of(field.buffer + 2)
        content = bytes(self._values(field.buffer + 2, np.dtype("u1"), size)[: max(0, ends[-1])])
        found = []
        for low, high in itertools.pairwise(ends):
            if not 0 <= low <= high <= len(content):
                raise ArrowError("a text lies outside its column")
            found.append(content[low:high].decode("utf-8", "replace"))
        return found

    def _place(self, number: int) -> tuple[int, int]:
        if number >= len(self.buffers):
            raise ArrowError("a batch lacks a column")
        offset, length = self.buffers[number].tolist()
        if offset < 0 or length < 0 or offset + length > len(self.data):
            raise ArrowError("a column lies outside its batch")
        return offset, length

    def _bytes_of(self, number: int) -> int:
        """Size of a buffer when it is decompressed."""
        offset, length = self._place(number)
        if self._codec is None or length == 0:
            return length
        (size,) = struct.unpack_from("<q", self.data, offset) if length >= 8 else (0,)
        return length - 8 if size == -1 else int(size)

    def _values(self, number: int, kind: np.dtype[Any], count: int) -> NDArray[Any]:
        offset, length = self._place(number)
        need = count * kind.itemsize
        if need == 0:
            return np.empty(0, kind)
        if self._codec is None:
            if need > length:
                raise ArrowError("a column is shorter than its batch")
            return np.frombuffer(self.data, kind, count, offset)
        (size,) = struct.unpack_from("<q", self.data, offset) if length >= 8 else (0,)
        packed = self.data[offset + 8 : offset + length]
        if size == -1:
            content: Any = packed
        else:
            if size > MOST_ROWS_A_BYTE * 8 * (len(self.data) + 1024):
                raise ArrowError(f"a column claims {size:,} bytes")
            import pyarrow as pa  # noqa: PLC0415 (40 MB and 0.1 s that plain traces do without)

            try:
                content = pa.Codec(_CODECS[self._codec]).decompress(packed, size)
            except (pa.ArrowException, OSError) as error:
                raise ArrowError(str(error)) from None
        if len(content) < need:
            raise ArrowError("a column is shorter than its batch")
        return np.frombuffer(content, kind, count)


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds: `whole` is false when it was cut off, `damage` says where something is wrong; the
    batches are those before. `schema` is None when not even that is there."""

    schema: Schema | None
    batches: list[Batch]
    whole: bool
    damage: str = ""


def read(path: Path, keep: Collection[str] = ()) -> tuple[bytes, Content]:
    """The first 8 bytes of a file, and every whole batch in it up to where it was cut off or damaged.

    Compressed columns are tried; those named in `keep` stay in memory. Raises OSError, or ArrowError when the
    damage is before the first batch.
    """
    with path.open("rb") as file:
        start = file.read(8)
        file.seek(0, 2)
        size = file.tell()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
    data = memoryview(mapped)
    if start.startswith(FILE_MAGIC):
        content = _messages(data, 8)
        index = bytes(data[-len(FILE_MAGIC) :]) == FILE_MAGIC  # at the very end, after a list of the batches
        return start, _tried(replace(content, whole=content.whole and index), keep)
    if start[:4] == CONTINUATION[: len(start[:4])]:
        return start, _tried(_messages(data, 0), keep)
    return start, Content(None, [], False)


def _tried(content: Content, keep: Collection[str]) -> Content:
    """Decompress what is compressed, on all cores: its damage would show late otherwise."""
    packed = [batch for batch in content.batches if batch.compressed]
    if not packed:
        return content
    import pyarrow  # noqa: F401, PLC0415 (once, not in each thread)

    def attempt(batch: Batch) -> str:
        try:
            batch.decompress(keep)
        except ArrowError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
        for place, problem in enumerate(threads.map(attempt, packed)):
            if problem:
                good = content.batches.index(packed[place])
                if not good:
                    raise ArrowError(problem)
                return Content(content.schema, content.batches[:good], False, problem)
    return content


def _messages(data: memoryview, at: int) -> Content:
    schema: Schema | None = None
    batches: list[Batch] = []
    most = MOST_ROWS_A_BYTE * len(data)
    while True:
        prefix = data[at : at + 8]
        if len(prefix) < 8:
            return Content(schema, batches, False)
        (length,) = struct.unpack_from("<i", prefix, 4)
        if prefix[:4] == CONTINUATION and length == 0:
            return Content(schema, batches, True)
        body = at + 8 + length
        head = data[at + 8 : body]
        try:
            if prefix[:4] != CONTINUATION or length < 0:
                raise ArrowError("no message")
            if len(head) < length:
                return Content(schema, batches, False)
            message = Table(head, struct.unpack_from("<I", head)[0])
            kind, size = message.number(1, "B"), message.number(3, "q")
            header = message.table(2)
            if size < 0 or header is None:
                raise ArrowError("a message without content")
            if body + size > len(data):
                return Content(schema, batches, False)
            if kind == _SCHEMA and schema is None:
                schema = _read_schema(header)
            elif kind == _RECORD_BATCH and schema is not None:
                batches.append(_read_batch(schema, header, data[body : body + size], most))
                most -= batches[-1].rows
            elif kind != _DICTIONARY:
                raise ArrowError("a message of an unknown kind")
        except (struct.error, IndexError, ValueError) as error:
            damage = f"{error} (message at byte {at:,})"
            if not batches:
                raise ArrowError(damage) from None
            return Content(schema, batches, False, damage)
        at = body + size


def _read_schema(table: Table) -> Schema:
    if table.number(0, "h") != 0:
        raise ArrowError("big-endian")
    fields: dict[str, Field] = {}
    buffer = 0
    for column in table.tables(1):
        name = column.text(0).decode("utf-8", "replace")
        kind = column.number(2, "B")
        if kind not in _BUFFERS:
            raise ArrowError(f"column {name!r} is of a type that traces do not have")
        encoding = column.table(4)
        what = column.table(3) if encoding is None else encoding.table(1)
        number: np.dtype[Any] | None = None
        if encoding is not None or kind == _INT:
            bits, signed = (what.number(0, "i"), what.number(1, "B")) if what is not None else (32, 1)
            if bits not in (8, 16, 32, 64):
                raise ArrowError(f"column {name!r} has integers of {bits} bits")
            number = np.dtype(f"<{'i' if signed else 'u'}{bits // 8}")
        text = kind == _UTF8 and encoding is None
        fields[name] = Field(name, number, buffer, text)
        buffer += 2 if encoding is not None else _BUFFERS[kind]
    metadata = {
        pair.text(0).decode("utf-8", "replace"): pair.text(1).decode("utf-8", "replace")
        for pair in table.tables(2)
    }
    return Schema(fields, metadata)


def _read_batch(schema: Schema, table: Table, body: memoryview, most: int) -> Batch:
    rows = table.number(0, "q")
    if not 0 <= rows <= most:
        raise ArrowError(f"a batch that claims {rows:,} rows")
    compression = table.table(3)
    codec = None if compression is None else compression.number(0, "b")
    if codec is not None and codec not in _CODECS:
        raise ArrowError(f"unknown compression {codec}")
    batch = Batch(schema, body, rows, table.pairs(2), codec)
    batch.check()
    return batch
