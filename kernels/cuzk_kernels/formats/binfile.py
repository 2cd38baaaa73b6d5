"""The container of .zkey, .wtns and .r1cs files.

Magic (4 bytes), u32 version, u32 number of sections, then for each section u32 id, u64 length, and that many
bytes; little-endian, sections in any order (iden3's binfileutils; snarkjs after a contribution and circom
write different orders). The file stays memory-mapped: privately and writable (ACCESS_COPY), so that native
code can be given addresses inside it; nothing is copied and nothing is sized by what a header claims.
"""

import mmap
import os
import struct
from collections.abc import Iterable, Mapping

from cuzk_kernels.errors import InputError
from cuzk_kernels.formats import files

_HEAD = struct.Struct("<4sII")
_SECTION = struct.Struct("<IQ")
U32 = struct.Struct("<I")

Path = str | os.PathLike[str]


class BinFile:
    """A mapped file and the place of each of its sections.

    path: as given; size: of the file in bytes; names: what each known section holds, for messages.
    """

    def __init__(self, path: Path, magic: bytes, version: int, names: Mapping[int, str]) -> None:
        self.path = os.fspath(path)
        self.names = names
        self._kind = magic.decode()
        self._article = "an" if self._kind == "r1cs" else "a"
        with files.open_regular(path) as file:
            self.size = os.fstat(file.fileno()).st_size
            if self.size == 0:
                raise self.error(
                    f"the file is empty, not {self._article} {self._kind} file; download or make it again"
                )
            head = file.read(64)
            if head[:4] != magic:
                raise self.error(self._not_this_kind(head))
            if self.size < _HEAD.size:
                raise self.error(
                    f"the file ends inside its header: {_HEAD.size} bytes needed, {self.size} there"
                )
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._view = memoryview(self._map)
        _, found, count = _HEAD.unpack_from(self._view, 0)
        if found != version:
            raise self.error(f"{self._kind} version {found} is not supported, version {version} is")
        self._sections = self._find_sections(count)

    def _not_this_kind(self, head: bytes) -> str:
        known = files.recognise(head)
        if known and known.startswith("this is JSON"):
            return f"this is JSON text; a binary .{self._kind} file is needed"
        if known and known.startswith("it looks"):
            return f"not {self._article} {self._kind} file: {known}"
        if known:
            return f"{known} ({self._article} {self._kind} file is needed)"
        return (
            f"not {self._article} {self._kind} file: it begins with {head[:4]!r}, not {self._kind.encode()!r}"
        )

    def _find_sections(self, count: int) -> dict[int, tuple[int, int]]:
        sections: dict[int, tuple[int, int]] = {}
        at = _HEAD.size
        for found in range(count):
            if self.size - at < _SECTION.size:
                raise self.error(
                    f"the file ends before the sections it announces: {count} announced, {found} there; "
                    "likely an incomplete download or copy"
                )
            section, length = _SECTION.unpack_from(self._view, at)
            at += _SECTION.size
            if length > self.size - at:
                raise self.error(
                    f"the file ends inside {self.label(section)}: {length} bytes needed, "
                    f"{self.size - at} there; likely an incomplete download or copy"
                )
            if section in sections:
                raise self.error(f"{self.label(section)} appears more than once; the file is damaged")
            if section in self.names:  # others are skipped, as snarkjs does
                sections[section] = at, length
            at += length
        return sections

    def label(self, section: int) -> str:
        name = self.names.get(section)
        return f"section {section} ({name})" if name else f"section {section}"

    def error(self, text: str) -> InputError:
        """An InputError about this file."""
        return InputError(f"{self.path}: {text}")

    def has(self, section: int) -> bool:
        return section in self._sections

    def section(self, section: int) -> memoryview:
        """The bytes of a section, without a copy."""
        if section not in self._sections:
            raise self.error(f"{self.label(section)} is missing; the file is damaged or of another kind")
        at, length = self._sections[section]
        return self._view[at : at + length]

    def exact(self, section: int, count: int, unit_bytes: int, what: str) -> memoryview:
        """The bytes of a section that must hold exactly `count` records of `unit_bytes`."""
        data = self.section(section)
        if len(data) != count * unit_bytes:
            each = f" of {unit_bytes} bytes ({count * unit_bytes} bytes)"
            holds = len(data) // unit_bytes
            amount = f", that is {holds}" if len(data) == holds * unit_bytes else ""
            raise self.error(
                f"{self.label(section)} should hold {what}{each}, it holds {len(data)} bytes{amount}"
            )
        return data


class Reader:
    """Reads a section's header field by field, refusing to run past its end."""

    def __init__(self, file: BinFile, section: int) -> None:
        self._file = file
        self._section = section
        self._data = file.section(section)
        self._at = 0

    def take(self, count: int) -> memoryview:
        if count > len(self._data) - self._at:
            raise self._file.error(
                f"{self._file.label(self._section)} is too short: {self._at + count} bytes needed, "
                f"{len(self._data)} there"
            )
        self._at += count
        return self._data[self._at - count : self._at]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def prime(self) -> int:
        """A u32 length in bytes and that many bytes."""
        return int.from_bytes(self.take(self.u32()), "little")

    def done(self) -> None:
        if self._at != len(self._data):
            raise self._file.error(
                f"{self._file.label(self._section)} is too long: {self._at} bytes needed, "
                f"{len(self._data)} there"
            )


def u32(value: int) -> bytes:
    return U32.pack(value)


def prime(value: int, size: int) -> bytes:
    return u32(size) + value.to_bytes(size, "little")


def write(path: Path, magic: bytes, version: int, sections: Iterable[tuple[int, list[bytes]]]) -> None:
    """Write a whole container atomically; each section is an id and its bytes in pieces."""
    sections = list(sections)
    chunks = [_HEAD.pack(magic, version, len(sections))]
    for section, pieces in sections:
        chunks.append(_SECTION.pack(section, sum(map(len, pieces))))
        chunks.extend(pieces)
    files.write_atomically(path, chunks)
