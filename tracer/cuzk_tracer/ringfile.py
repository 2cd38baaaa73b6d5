"""The ring file of this process: creation, strings, names, metadata, slots and clock anchors.

Everything here is off the hot path; `fallback` writes the records. Space is allocated before it is mapped, so
that a full file system is an error now and not a SIGBUS inside a span, and mapped with MAP_POPULATE, so that
the ring's own page faults do not land in the prover's counts.

Native libraries of this process may write the same file (see `layout`): it is joined where it is there
already, everything cold happens under its lock, and every count is read from it.
"""

from __future__ import annotations

import _thread
import fcntl
import mmap
import os
import struct
import sys
import time

from cuzk_tracer import layout, new_ring, opening, places
from cuzk_tracer.slots import Slot
from cuzk_tracer.sweep import sweep

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 3 ms that importing typing takes
if TYPE_CHECKING:
    from typing import Any

LONGEST_STRING = 4096  # bytes of UTF-8; longer ones are cut
REST_NS = 1_000_000_000  # a dead thread's slot is not reused before this: readers poll 20 times a second

_HEADER = {name: (offset, struct.Struct("<" + code)) for name, offset, code in layout.HEADER}
_SLOT = {name: (offset, struct.Struct("<" + code)) for name, offset, code in layout.SLOT}
_THREAD = {name: (offset, struct.Struct("<" + code)) for name, offset, code in layout.THREAD}
_ANCHOR = struct.Struct("<QqqQ")
_PAIR = struct.Struct("<II")
_NAME = struct.Struct("<IIII")
_U32 = struct.Struct("<I")


class RingFile:
    """The file this process writes. Raises OSError or ValueError when the folder cannot be used."""

    def __init__(self, folder: str, parent_pid: int, parent_uuid: bytes, level: int) -> None:
        self.pid = os.getpid()
        started = places.start_time(self.pid)
        name = f"/{self.pid}.{started}.ring"
        self.problem = ""
        self._thread_lock = _thread.allocate_lock()
        self._rings: dict[int, mmap.mmap] = {}
        self._void: list[Slot] = []
        self._dropped = 0
        self.path = opening.mapped(name)
        if self.path:
            self.fd = opening.reopen(self.path)
        else:
            self.path = folder + name
            opening.private_folder(folder)
            sweep(folder)
            self.fd = opening.new_or_joined(self.path, name)
        try:
            self.new = os.fstat(self.fd).st_size == 0
            if self.new:
                os.ftruncate(self.fd, new_ring.FILE_BYTES)
                os.posix_fallocate(self.fd, 0, new_ring.CONTROL_BYTES)
            size = new_ring.CONTROL_BYTES if self.new else opening.control_bytes(self.fd)
            self.control = mmap.mmap(self.fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
            if self.new:
                self._write_header(started, parent_pid, parent_uuid, level)
            self._slots_off, self._threads_off = self.load("slots_off"), self.load("threads_off")
            self.uuid: bytes = self.load("uuid")
            at = _HEADER["enabled"][0]
            self.level = memoryview(self.control)[at : at + 4].cast("I")
            self.tsc = self.load("clock_kind") == layout.CLOCK_TSC
            self.store("writers", self.load("writers") + 1)
            self.store("ended_ns", 0)
            self._unlock_file()
        except BaseException:
            if self.new:
                os.unlink(self.path)  # noqa: PTH108
            os.close(self.fd)
            raise

    def _write_header(self, started: int, parent_pid: int, parent_uuid: bytes, level: int) -> None:
        monotonic = time.monotonic_ns()
        values: dict[str, int | bytes] = {
            "major": layout.VERSION_MAJOR,
            "minor": layout.VERSION_MINOR,
            "header_bytes": layout.HEADER_BYTES,
            **new_ring.HEADER_FIELDS,
            "pid": self.pid,
            "parent_pid": parent_pid,
            "start_time": started,
            "opened_ns": monotonic,
            "clock_kind": layout.CLOCK_MONOTONIC,
            "enabled": level,
            "uuid": os.urandom(16),
            "parent_uuid": parent_uuid,
            "boot_id": places.boot_id(),
            "strings_used": 8,
            "fd": self.fd,
            "anchors_count": 1,
            "anchor_seq": 2,
            "heartbeat_ns": monotonic,
        }
        for name, value in values.items():
            self.store(name, value)
        _ANCHOR.pack_into(self.control, new_ring.ANCHORS_OFF, monotonic, monotonic, time.time_ns(), 0)
        for number, fields in enumerate(new_ring.slot_fields()):
            at = new_ring.SLOTS_OFF + number * layout.SLOT_BYTES
            for field, size in fields.items():
                offset, form = _SLOT[field]
                form.pack_into(self.control, at + offset, size)
        self.name("", "", "", 0)
        self.name("<overflow>", "", "", 0)
        self.store("magic", layout.MAGIC)  # last: without it a reader waits

    def store(self, field: str, value: int | bytes) -> None:
        """Set one header field."""
        offset, form = _HEADER[field]
        form.pack_into(self.control, offset, value)

    def load(self, field: str) -> Any:
        """One header field."""
        offset, form = _HEADER[field]
        return form.unpack_from(self.control, offset)[0]

    # The lock: of this object among threads, and of the file among libraries.

    def __enter__(self) -> None:
        """Take it. Raises OSError when it cannot be had within a second."""
        self._thread_lock.acquire()
        try:
            opening.lock(self.fd)
        except BaseException:
            self._thread_lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._unlock_file()
        self._thread_lock.release()

    def _unlock_file(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def _no_room(self, bit: int, problem: str) -> None:
        self.store("problems", self.load("problems") | bit)
        self.problem = self.problem or problem

    # Strings, names and metadata: written once, then the count that publishes them. Callers hold the lock.

    def string(self, text: str, most: float = 1.0) -> int:
        """Id of a string; 0 when it is empty or that share of the area is full."""
        data = text.encode("utf-8", "replace")[:LONGEST_STRING]
        if not data:
            return 0
        area, size = self.load("strings_off"), self.load("strings_bytes")
        used = self.load("strings_used")
        whole = len(data).to_bytes(4, "little") + data + bytes(-len(data) % 4)
        at = self.control.find(whole, area + 8, area + used)
        while at >= 0 and (at - area) % 4:
            at = self.control.find(whole, at + 1, area + used)
        if at >= 0:  # inside a longer string it would serve as well
            return int(at - area)
        if used + len(whole) > size * most:
            if most == 1:
                self._no_room(
                    layout.PROBLEM_STRINGS,
                    "the ring's string area is full: some names and labels are missing",
                )
            return 0
        self.control[area + used : area + used + len(whole)] = whole
        self.store("strings_used", used + len(whole))
        return int(used)

    def name(self, text: str, a0: str, a1: str, flags: int, most: float = 1.0) -> int:
        """Append to the name table and return the id: that of "<overflow>" when that share of it is full."""
        number = int(self.load("names_count"))
        if number >= self.load("name_capacity") * most:
            self.store("names_lost", self.load("names_lost") + 1)
            self._no_room(
                layout.PROBLEM_NAMES,
                "the ring's name table is full: the rest of the names appear as <overflow>",
            )
            return layout.NAME_OVERFLOW
        offset = self.load("names_off") + number * layout.NAME_BYTES
        _NAME.pack_into(self.control, offset, self.string(text), self.string(a0), self.string(a1), flags)
        self.store("names_count", number + 1)
        return number

    def meta(self, key: str, value: str) -> None:
        """Set one metadata string; a key's later value replaces the earlier one."""
        wanted = self.string(key)
        area, count = self.load("metas_off"), self.load("metas_count")
        for at in range(area, area + count * layout.META_BYTES, layout.META_BYTES):
            if _U32.unpack_from(self.control, at)[0] == wanted:
                _U32.pack_into(self.control, at + 4, self.string(value))
                return
        if count >= self.load("meta_capacity"):
            self._no_room(layout.PROBLEM_METAS, "too many metadata keys: the rest are missing")
            return
        _PAIR.pack_into(self.control, area + count * layout.META_BYTES, wanted, self.string(value))
        self.store("metas_count", count + 1)

    # Slots.

    def claim(self) -> Slot:
        """A slot for the calling thread; one that only counts where there is no room. Never raises."""
        try:
            with self:
                number = self._claim()
            return Slot(self, number)
        except (OSError, ValueError) as error:
            self.problem = self.problem or f"no room for another thread's ring in {self.path}: {error}"
            slot = Slot(self, -1)
            self._void.append(slot)
            return slot

    def slot_field(self, number: int, field: str) -> int:
        """One field of a slot header."""
        offset, form = _SLOT[field]
        return int(form.unpack_from(self.control, self._slots_off + number * layout.SLOT_BYTES + offset)[0])

    def _store_slot(self, number: int, field: str, value: int) -> None:
        offset, form = _SLOT[field]
        form.pack_into(self.control, self._slots_off + number * layout.SLOT_BYTES + offset, value)

    def _thread_field(self, number: int, field: str) -> int:
        offset, form = _THREAD[field]
        return int(
            form.unpack_from(self.control, self._threads_off + number * layout.THREAD_BYTES + offset)[0]
        )

    def _store_thread(self, number: int, field: str, value: int) -> None:
        offset, form = _THREAD[field]
        form.pack_into(self.control, self._threads_off + number * layout.THREAD_BYTES + offset, value)

    def _claim(self) -> int:
        """Number of a slot that is this thread's from now on. Raises OSError or ValueError without room."""
        tid = _thread.get_native_id()
        count, used = self.load("slot_count"), self.load("slots_used")
        dead: list[tuple[int, int]] = []
        fresh: list[int] = []
        for number in range(count):
            state = self.slot_field(number, "state")
            if state == layout.SLOT_FREE:
                if number or tid == self.pid:  # slot 0 has the main thread's larger ring
                    fresh.append(number)
            elif state == layout.SLOT_DEAD:
                dead.append((self._thread_field(number, "died_ns"), number))
        dead.sort()
        if not (fresh or dead):
            self._no_room(
                layout.PROBLEM_SLOTS, f"more than {count} threads at once: the rest are not recorded"
            )
            raise ValueError(f"{count} threads are traced already")
        if fresh and (fresh[0] == 0 or not dead or dead[0][0] + REST_NS > time.monotonic_ns()):
            number = fresh[0]
            try:
                size = (self.slot_field(number, "mask") + 1) * layout.RECORD_BYTES
                os.posix_fallocate(self.fd, self.slot_field(number, "ring_off"), size)
            except OSError:
                self._no_room(layout.PROBLEM_SPACE, "")
                if not dead:
                    raise
                number = dead[0][1]
        else:
            number = dead[0][1]
        again = self.slot_field(number, "state") == layout.SLOT_DEAD
        self._store_slot(number, "tid", tid)
        self._store_slot(number, "name", self.string(_thread_name(), 0.5))
        self._store_slot(number, "depth", 0)
        self._store_slot(number, "base", self.slot_field(number, "head"))
        self._store_slot(number, "generation", self.slot_field(number, "generation") + again)
        self._store_thread(number, "users", 1)
        self._store_thread(
            number, "handle", 0
        )  # what this thread has open is known here: nobody can share it
        self._store_slot(number, "state", layout.SLOT_LIVE)
        if number >= used:
            self.store("slots_used", number + 1)
        return number

    def ring(self, number: int) -> mmap.mmap:
        """The mapped ring of a slot, its pages there. Raises OSError."""
        ring = self._rings.get(number)
        if ring is None:
            size = (self.slot_field(number, "mask") + 1) * layout.RECORD_BYTES
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            offset = self.slot_field(number, "ring_off")
            ring = self._rings[number] = mmap.mmap(self.fd, size, flags=flags, offset=offset)
        return ring

    def release(self, slot: Slot) -> None:
        """The slot's thread has ended: what it wrote stays readable until the slot is needed again."""
        if slot.number < 0:
            with self._thread_lock:
                self._void.remove(slot)
                self._dropped += slot.head
            return
        slot.depth_word[0] = 0
        self._store_thread(slot.number, "died_ns", time.monotonic_ns())
        self._store_slot(slot.number, "state", layout.SLOT_DEAD)

    # Clocks.

    def _anchor_at(self, index: int) -> int:
        return int(self.load("anchors_off")) + index % int(self.load("anchor_capacity")) * layout.ANCHOR_BYTES

    def anchors(self) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
        """The two latest clock anchors, older first; twice the same while there is one only."""
        count = self.load("anchors_count")
        older = _ANCHOR.unpack_from(self.control, self._anchor_at(max(count - 2, 0)))
        return older, _ANCHOR.unpack_from(self.control, self._anchor_at(count - 1))

    def anchor(self) -> None:
        """Write a clock anchor and the heartbeat when one is due; skipped while somebody else is at it."""
        if not self._thread_lock.acquire(blocking=False):
            return
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                self._anchor()
            finally:
                self._unlock_file()
        except OSError:
            pass
        finally:
            self._thread_lock.release()

    def _anchor(self) -> None:
        self.store("dropped_plain", self._dropped + sum(slot.head for slot in self._void))
        _, (_, last_monotonic, last_realtime, segment) = self.anchors()
        before = time.monotonic_ns()
        realtime = time.time_ns()
        monotonic = (before + time.monotonic_ns()) // 2
        # Anchors of ticks come from a library that can read them; where none writes there are no ticks.
        if self.tsc or monotonic - last_monotonic < 900_000_000:
            return
        # A step of the wall clock (over 10 ms in what may be seconds) begins a new segment.
        if abs(realtime - monotonic - (last_realtime - last_monotonic)) > 10_000_000:
            segment += 1
        count = self.load("anchors_count")
        self.store("anchor_seq", 2 * count + 1)
        _ANCHOR.pack_into(self.control, self._anchor_at(count), monotonic, monotonic, realtime, segment)
        self.store("anchors_count", count + 1)
        self.store("anchor_seq", 2 * count + 2)
        self.store("heartbeat_ns", monotonic)

    def end(self) -> None:
        """The process leaves in good order."""
        with self:
            self._anchor()
            writers = self.load("writers") - 1
            self.store("writers", writers)
            if not writers:
                self.store("ended_ns", time.monotonic_ns())


def _thread_name() -> str:
    threading = sys.modules.get(
        "threading"
    )  # not imported here: a program without threads does not pay for it
    if threading is None or _thread.get_native_id() == os.getpid():
        return "main"
    return str(threading.current_thread().name)
