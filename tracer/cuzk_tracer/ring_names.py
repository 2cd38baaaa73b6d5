"""The names, strings and metadata of a ring, as far as they were read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuzk_tracer import layout
from cuzk_tracer.ring_input import META, NAME, Changing, Input


@dataclass(frozen=True, slots=True)
class Name:
    """An entry of the name table."""

    text: str
    a0: str
    a1: str
    stage: bool
    faults: bool


class Names:
    """What is known of them. `head` is the file's header when it was opened: where things are, and how many
    there can be. `names` and `meta` only grow; a `meta` that was handed out stays as it is.
    """

    def __init__(self, file: Input, head: np.void) -> None:
        self.names: list[Name] = []
        self.meta: dict[str, str] = {}
        self._file = file
        self._strings = bytearray()
        self._strings_off, self._strings_most = int(head["strings_off"]), int(head["strings_bytes"])
        self._names_off, self._names_most = int(head["names_off"]), int(head["name_capacity"])
        self._metas_off, self._metas_most = int(head["metas_off"]), int(head["meta_capacity"])
        self._raw_meta = b""

    def look(self, now: Changing) -> None:
        """Read what is new."""
        have, used = len(self._strings), min(now.strings_used, self._strings_most)
        if used > have:
            self._strings += self._file.read(used - have, self._strings_off + have)
        known, count = len(self.names), min(now.names_count, self._names_most)
        if count > known:
            self._add(known, count)
        # A value may be exchanged for another that is among the strings already.
        raw = self._file.read(min(now.metas_count, self._metas_most) * layout.META_BYTES, self._metas_off)
        if raw != self._raw_meta:
            self._raw_meta = raw
            entries = np.frombuffer(raw[: len(raw) // layout.META_BYTES * layout.META_BYTES], META)
            text = self.text
            self.meta = {text(int(entry["key"])): text(int(entry["value"])) for entry in entries}

    def _add(self, known: int, count: int) -> None:
        text = self.text
        for entry in self._file.table(NAME, count - known, self._names_off + known * layout.NAME_BYTES):
            flags = int(entry["flags"])
            self.names.append(
                Name(
                    text(int(entry["text"])),
                    text(int(entry["a0"])),
                    text(int(entry["a1"])),
                    bool(flags & layout.NAME_STAGE),
                    bool(flags & layout.NAME_FAULTS),
                )
            )

    def text(self, number: int) -> str:
        """A string by id; "?" when the id is not that of a whole string."""
        if number == 0:
            return ""
        length = int.from_bytes(self._strings[number : number + 4], "little")
        text = self._strings[number + 4 : number + 4 + length]
        if number + 4 > len(self._strings) or len(text) != length:
            return "?"
        return text.decode("utf-8", "replace")
