"""Read a ring from another process. Needs numpy; never imported by the tracer itself.

Everything is copied with pread (see `ring_input`). Nothing is ever written, no lock taken. All sizes are
checked before anything is allocated.
"""

from __future__ import annotations

import os
import select
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np

from cuzk_tracer import layout, places, ring_slots
from cuzk_tracer.finding import find, in_other_namespaces
from cuzk_tracer.ring_input import ANCHOR, HEADER, RECORD, Changing, Input, RingError, Rows
from cuzk_tracer.ring_names import Name, Names
from cuzk_tracer.ring_slots import IS_GPU, Known, Thread
from cuzk_tracer.ticks import Ticks

__all__ = [
    "HEADER",
    "IS_GPU",
    "RECORD",
    "Name",
    "Poll",
    "Ring",
    "RingError",
    "Rows",
    "Thread",
    "find",
    "in_other_namespaces",
]

MOST_NAMES = 1 << 20
MOST_SLOTS = 1 << 16
MOST_STRING_BYTES = 1 << 26
MOST_ANCHORS = 1 << 16


@dataclass(frozen=True, slots=True)
class Poll:
    """What is new. `records` are pairs of a thread and its new RECORD rows in order; `open` pairs of a thread
    and the OPEN rows on its stack now, outermost first, the same list as before where nothing opened or
    closed; `lost` counts all records lost so far, overwritten before they were read or of threads without a
    slot; `skipped` those that were overwritten before the first poll; `alive` is false when the owner had
    ended before this poll began: there is nothing more to come."""

    records: list[tuple[Thread, Rows]]
    open: list[tuple[Thread, Rows]]
    lost: int
    skipped: int
    alive: bool


class Ring:
    """An open ring file. Raises RingError when it is not one, is damaged or of another major version."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._file = Input(path)
        try:
            self._read_header()
        except BaseException:
            self._file.close()
            raise
        self._names = Names(self._file, self._head)
        self.anchors: list[tuple[int, int]] = []
        self.problems: list[str] = []
        self._slots: dict[int, Known] = {}
        self._headers = b""
        """Of all slots as they were at the last poll, where that read all there was."""
        self._open: list[tuple[Thread, Rows]] = []
        self._anchors_seen = 0
        self._lost = 0
        self._skipped: int | None = None
        self._ended = select.poll()
        self._pidfd = self._open_owner()

    @property
    def names(self) -> list[Name]:
        """The names known so far; the list only grows."""
        return self._names.names

    @property
    def meta(self) -> dict[str, str]:
        """The metadata known so far."""
        return self._names.meta

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read_header(self) -> None:
        size = os.fstat(self._file.fd).st_size
        data = self._file.read(layout.HEADER_BYTES, 0)
        if len(data) < layout.HEADER_BYTES or data[:8] != layout.MAGIC:
            raise RingError(f"{self.path}: not a trace ring")
        head = np.frombuffer(data, HEADER)[0]
        major, minor = int(head["major"]), int(head["minor"])
        if major != layout.VERSION_MAJOR:
            raise RingError(
                f"{self.path}: ring version {major}.{minor}; this reader knows version {layout.VERSION_MAJOR}"
            )
        if int(head["clock_kind"]) not in {layout.CLOCK_MONOTONIC, layout.CLOCK_TSC}:
            raise RingError(f"{self.path}: unknown clock kind {int(head['clock_kind'])}")
        areas = (
            ("anchors", "anchors_off", "anchor_capacity", layout.ANCHOR_BYTES, MOST_ANCHORS),
            ("metadata", "metas_off", "meta_capacity", layout.META_BYTES, MOST_NAMES),
            ("slots", "slots_off", "slot_count", layout.SLOT_BYTES, MOST_SLOTS),
            ("names", "names_off", "name_capacity", layout.NAME_BYTES, MOST_NAMES),
            ("strings", "strings_off", "strings_bytes", 1, MOST_STRING_BYTES),
        )
        for name, offset, count, each, most in areas:
            number = int(head[count])
            if number > most or int(head[offset]) + number * each > size:
                raise RingError(f"{self.path}: damaged: the {name} area lies outside the file")
        if int(head["file_bytes"]) > size:
            raise RingError(f"{self.path}: cut off at {size:,} of {int(head['file_bytes']):,} bytes")
        self._size = size
        self._head = head
        self._slots_off, self._slot_count = int(head["slots_off"]), int(head["slot_count"])
        self._anchors_off, self._anchor_capacity = int(head["anchors_off"]), int(head["anchor_capacity"])
        self._ticks = Ticks() if int(head["clock_kind"]) == layout.CLOCK_TSC else None
        # A path through /proc names the process as we see it; in its own namespace it may have another pid.
        seen = self.path.split("/", 3)[:3]
        self.pid = int(seen[2]) if seen[:2] == ["", "proc"] and seen[2].isdigit() else int(head["pid"])
        self.start_time = int(head["start_time"])
        self.parent_pid = int(head["parent_pid"])
        self.opened_ns = int(head["opened_ns"])
        self.uuid = bytes(head["uuid"]).hex()
        self.parent_uuid = bytes(head["parent_uuid"]).hex()
        self.boot_id = bytes(head["boot_id"]).hex()
        self.ended_ns = int(head["ended_ns"])
        self.heartbeat_ns = int(head["heartbeat_ns"])

    def _open_owner(self) -> int | None:
        """A pid file descriptor of the owner; None when it is gone (or the kernel has no such thing)."""
        if not self._same_boot():
            return None
        try:
            pidfd = os.pidfd_open(self.pid)
        except (OSError, OverflowError):  # the latter from a damaged pid
            return None
        if places.alive(self.pid, self.start_time):
            self._ended.register(pidfd, select.POLLIN)
            return pidfd
        os.close(pidfd)
        return None

    def _same_boot(self) -> bool:
        return bytes(self._head["boot_id"]) == places.boot_id()

    def alive(self) -> bool:
        """True while the owner runs."""
        if self._pidfd is None:
            return self._same_boot() and places.alive(self.pid, self.start_time)
        return not self._ended.poll(0)

    def replaced(self) -> bool:
        """Whether the file has no name any more: its process has begun another session (exec), or it was
        removed."""
        return os.fstat(self._file.fd).st_nlink == 0

    def header(self, field: str) -> int:
        """A number of the header as it is now, by its name in layout.HEADER. Raises RingError."""
        head = self._file.table(HEADER, 1, 0)
        if not len(head):
            raise RingError(f"{self.path}: the ring was cut off")
        return int(head[0][field])

    def written(self) -> int:
        """Records written so far, by all threads."""
        data = self._headers_now(self._file.changing())
        return sum(ring_slots.header(data, at).head for at in range(0, len(data), layout.SLOT_BYTES))

    def position(self) -> dict[int, int]:
        """Of each slot, the index of the next record to be read: where another reader can go on."""
        return {number: slot.next for number, slot in self._slots.items()}

    def resume(self, position: dict[int, int]) -> None:
        """Go on where another reader was, before the first poll: what is missing since then is lost."""
        for number, index in position.items():
            self._slots[number] = Known(next=max(0, index))
        self._skipped = 0

    def poll(self) -> Poll:
        """Everything new since the last poll. Raises RingError when the file can no longer be read."""
        alive = self.alive()
        data = self._headers_now(self._file.changing())
        records: list[tuple[Thread, Rows]] = []
        read = self._read_slots(data, records) if data != self._headers or self._stacks_moved() else []
        self._headers = data if all(known.raw for known in read) else b""
        if self._skipped is None:
            self._skipped, self._lost = self._lost, 0
        # Names and anchors last: all that the records are about were there before them.
        now = self._file.changing()
        self.ended_ns, self.heartbeat_ns = now.ended_ns, now.heartbeat_ns
        self._names.look(now)
        new_anchors = self._read_anchors(now)
        if read:
            if self._ticks is not None:
                records = ring_slots.in_ns(
                    records, [known for known in read if known.open is not None], self._ticks
                )
            self._open = [known.open for known in self._slots.values() if known.open is not None]
        if new_anchors:  # the times of what is open are to be told anew
            self._headers = b""
            for known in self._slots.values():
                known.raw = known.raw if known.open is None else b""
        lost = self._lost + now.dropped + now.dropped_plain
        return Poll(records, self._open, lost, self._skipped, alive)

    def _headers_now(self, now: Changing) -> bytes:
        """The headers of all slots in use."""
        size = layout.SLOT_BYTES
        data = self._file.read(min(now.slots_used, self._slot_count) * size, self._slots_off)
        return data[: len(data) // size * size]

    def _stacks_moved(self) -> bool:
        """Whether another span is open than at the last poll, in slots whose headers are the same."""
        return any(
            known.stack and self._file.read(len(known.stack), known.stack_off) != known.stack
            for known in self._slots.values()
        )

    def _read_slots(self, data: bytes, records: list[tuple[Thread, Rows]]) -> list[Known]:
        """Read the slots in which something has changed; what is known of those."""
        size = layout.SLOT_BYTES
        read = []
        for number in range(len(data) // size):
            raw = data[number * size : (number + 1) * size]
            known = self._slots.get(number)
            if known is None:
                known = self._slots[number] = Known()
            if known.raw != raw or (
                known.stack and self._file.read(len(known.stack), known.stack_off) != known.stack
            ):
                self._read_slot(number, ring_slots.header(raw), known, records)
                read.append(known)
        return read

    def _read_anchors(self, now: Changing) -> bool:
        """Read the new anchors; whether there were some."""
        capacity = self._anchor_capacity
        for _ in range(3):
            count = now.anchors_count
            if count == self._anchors_seen or capacity == 0:
                return False
            table = self._file.table(ANCHOR, capacity, self._anchors_off)
            again = self._file.changing()
            if now.anchor_seq % 2 or again.anchor_seq != now.anchor_seq or len(table) < capacity:
                now = again
                continue
            for i in range(max(self._anchors_seen, count - capacity), count):
                entry = table[i % capacity]
                self.anchors.append((int(entry["monotonic_ns"]), int(entry["realtime_ns"])))
                if self._ticks is not None:
                    self._ticks.add(int(entry["ticks"]), int(entry["monotonic_ns"]), int(entry["segment"]))
            self._anchors_seen = count
            return True
        return False

    def _read_slot(
        self, number: int, slot: ring_slots.Header, known: Known, records: list[tuple[Thread, Rows]]
    ) -> None:
        known.open, known.stack, known.raw = None, b"", slot.raw()
        if slot.state == layout.SLOT_FREE:
            return
        if not ring_slots.usable(slot, known, self._size):
            if not known.bad:
                self.problems.append(f"slot {number} of the ring is damaged: its thread is not shown")
            known.bad = True
            return
        before = known.thread
        if before is None or before.generation != slot.generation:
            known.thread = Thread(number, slot.generation, slot.tid, self._text(slot.name))
            if before is None or before.generation + 1 != slot.generation:
                before = Thread(number, slot.generation - 1, 0, "ended thread")
        thread = known.thread
        assert thread is not None
        offset = self._slots_off + number * layout.SLOT_BYTES
        # The stack first, then the head: a span that ends in between shows up in both, never in neither.
        stack, raw_stack, after = ring_slots.open_spans(self._file, slot, offset)
        rows, index, lost = ring_slots.new_records(self._file, known, after, offset)
        self._lost += lost
        earlier = int(index.searchsorted(after.base)) if before is not thread else 0
        if earlier and before is not None:
            records.append((before, rows[:earlier]))
            rows = rows[earlier:]
        if len(rows):
            records.append((thread, rows))
        if len(stack):
            stack = ring_slots.still_open(stack, rows)
        if len(stack) and after.generation == slot.generation:
            known.open = (thread, stack)
        # Where it moved while it was read, it is to be read again.
        known.raw = slot.raw() if after == slot and len(stack) == slot.depth else b""
        known.stack, known.stack_off = raw_stack, slot.stack_off

    def _text(self, number: int) -> str:
        """A string that may be newer than the last look at the names."""
        if number:
            self._names.look(self._file.changing())
        return self._names.text(number)
