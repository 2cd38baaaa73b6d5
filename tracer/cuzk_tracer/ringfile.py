"""The ring file of this process: creation, strings, names, metadata, slots and clock anchors.

Everything here is off the hot path; `fallback` writes the records. Space is allocated before it is mapped, so
that a full file system is an error now and not a SIGBUS inside a span, and mapped with MAP_POPULATE, so that
the ring's own page faults do not land in the prover's counts.
"""

from __future__ import annotations

import _thread
import mmap
import os
import stat
import struct
import sys
import time

from cuzk_tracer import layout, places
from cuzk_tracer.slots import Slot
from cuzk_tracer.sweep import sweep

MAIN_RECORDS = 65_536  # 4 MiB: lossless at 20 polls a second up to 1.3 M spans a second
THREAD_RECORDS = 16_384  # 1 MiB
SLOTS = 128
NAMES = 1024
METAS = 128
ANCHORS = 64
STRING_BYTES = 256 * 1024
LONGEST_STRING = 4096  # bytes of UTF-8; longer ones are cut
REST_NS = 1_000_000_000  # a dead thread's slot is not reused before this: readers poll 20 times a second

_ANCHORS_OFF = layout.HEADER_BYTES
_METAS_OFF = _ANCHORS_OFF + ANCHORS * layout.ANCHOR_BYTES
_SLOTS_OFF = 2 * layout.PAGE_BYTES
_NAMES_OFF = _SLOTS_OFF + SLOTS * layout.SLOT_BYTES
_STRINGS_OFF = _NAMES_OFF + NAMES * layout.NAME_BYTES
_STACKS_OFF = _STRINGS_OFF + STRING_BYTES
_STACK_BYTES = layout.STACK_ENTRIES * layout.OPEN_BYTES
CONTROL_BYTES = _STACKS_OFF + SLOTS * _STACK_BYTES
FILE_BYTES = CONTROL_BYTES + (MAIN_RECORDS + (SLOTS - 1) * THREAD_RECORDS) * layout.RECORD_BYTES

_AT = {name: (offset, struct.Struct("<" + code)) for name, offset, code in layout.HEADER}
_SLOT_AT = {name: (offset, struct.Struct("<" + code)) for name, offset, code in layout.SLOT}
_ANCHOR = struct.Struct("<QqqQ")
_PAIR = struct.Struct("<II")
_NAME = struct.Struct("<IIII")


class RingFile:
    """A file this process writes. Raises OSError on creation when the folder cannot be used."""

    def __init__(self, folder: str, parent_pid: int, parent_uuid: bytes, level: int) -> None:
        self.pid = os.getpid()
        started = places.start_time(self.pid)
        self.path = f"{folder}/{self.pid}.{started}.ring"
        self.uuid = os.urandom(16)
        self.problem = ""
        _private_folder(folder)
        sweep(folder)
        self.fd = _new_file(self.path)
        try:
            os.ftruncate(self.fd, FILE_BYTES)
            os.posix_fallocate(self.fd, 0, CONTROL_BYTES)
            self.control = mmap.mmap(self.fd, CONTROL_BYTES, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        except BaseException:
            os.close(self.fd)
            os.unlink(self.path)  # noqa: PTH108
            raise
        self._strings: dict[str, int] = {}
        self._strings_used = 8
        self._metas: dict[str, int] = {}
        self._names = 0
        self._slots_used = 0
        self._dead: list[tuple[int, Slot]] = []
        self._lock = _thread.allocate_lock()
        self._anchors = 0
        self._offset_ns: int | None = None
        self._segment = 0
        self.next_anchor_ns = 0
        self._dropped = 0
        self._live: list[Slot] = []
        self._write_header(started, parent_pid, parent_uuid, level)
        self.anchor(time.monotonic_ns())

    def _write_header(self, started: int, parent_pid: int, parent_uuid: bytes, level: int) -> None:
        values: dict[str, int | bytes] = {
            "major": layout.VERSION_MAJOR,
            "minor": layout.VERSION_MINOR,
            "header_bytes": layout.HEADER_BYTES,
            "file_bytes": FILE_BYTES,
            "anchors_off": _ANCHORS_OFF,
            "anchor_capacity": ANCHORS,
            "name_capacity": NAMES,
            "names_off": _NAMES_OFF,
            "metas_off": _METAS_OFF,
            "meta_capacity": METAS,
            "slot_count": SLOTS,
            "strings_off": _STRINGS_OFF,
            "strings_bytes": STRING_BYTES,
            "slots_off": _SLOTS_OFF,
            "pid": self.pid,
            "parent_pid": parent_pid,
            "start_time": started,
            "opened_ns": time.monotonic_ns(),
            "clock_kind": layout.CLOCK_MONOTONIC,
            "enabled": level,
            "uuid": self.uuid,
            "parent_uuid": parent_uuid,
            "boot_id": places.boot_id(),
            "strings_used": self._strings_used,
        }
        for name, value in values.items():
            self.store(name, value)
        self.store("magic", layout.MAGIC)  # last: without it a reader waits

    def store(self, field: str, value: int | bytes) -> None:
        """Set one header field."""
        offset, form = _AT[field]
        form.pack_into(self.control, offset, value)

    # Strings, names and metadata: written once, then the count that publishes them. Callers hold the
    # tracer's lock.

    def string(self, text: str) -> int:
        """Id of a string, adding it when new; 0 when the area is full."""
        known = self._strings.get(text)
        if known is not None:
            return known
        data = text.encode("utf-8", "replace")[:LONGEST_STRING]
        at = self._strings_used
        end = at + 4 + (len(data) + 3 & ~3)
        if end > STRING_BYTES:
            self.problem = self.problem or "the ring's string area is full: some names and labels are missing"
            return 0
        struct.pack_into("<I", self.control, _STRINGS_OFF + at, len(data))
        start = _STRINGS_OFF + at + 4
        self.control[start : start + len(data)] = data
        self._strings_used = end
        self.store("strings_used", end)
        self._strings[text] = at
        return at

    def name(self, text: str, a0: str, a1: str, flags: int) -> None:
        """Append to the name table; ids count from 0 in the order of the calls, at most NAMES of them."""
        offset = _NAMES_OFF + self._names * layout.NAME_BYTES
        a0_id = self.string(a0) if a0 else 0
        a1_id = self.string(a1) if a1 else 0
        _NAME.pack_into(self.control, offset, self.string(text), a0_id, a1_id, flags)
        self._names += 1
        self.store("names_count", self._names)

    def meta(self, key: str, value: str) -> None:
        """Set one metadata string; a key's later value replaces the earlier one."""
        at = self._metas.get(key)
        if at is None:
            if len(self._metas) >= METAS:
                self.problem = self.problem or f"more than {METAS} metadata keys: the rest are missing"
                return
            at = self._metas[key] = len(self._metas)
            _PAIR.pack_into(self.control, _METAS_OFF + at * layout.META_BYTES, self.string(key), 0)
        offset = _METAS_OFF + at * layout.META_BYTES + 4
        struct.pack_into("<I", self.control, offset, self.string(value))
        self.store("metas_count", len(self._metas))

    # Slots.

    def claim(self) -> Slot:
        """A slot for the calling thread; one that only counts where there is no room. Never raises."""
        with self._lock:
            try:
                return self._claim()
            except (OSError, ValueError) as error:
                self.problem = self.problem or f"no room for another thread's ring in {self.path}: {error}"
                slot = Slot(
                    self, -1, bytearray(layout.RECORD_BYTES), 0, 0, bytearray(layout.SLOT_BYTES), 0, 0
                )
                self._live.append(slot)
                return slot

    def _claim(self) -> Slot:
        main = _thread.get_native_id() == self.pid
        now = time.monotonic_ns()
        if main and self._slots_used == 0:
            slot = self._new_slot(0)
            self._slots_used = 1
        elif self._dead and self._dead[0][0] + REST_NS <= now:
            slot = self._again(self._dead.pop(0)[1])
        elif max(self._slots_used, 1) < SLOTS:
            index = max(self._slots_used, 1)  # slot 0 has the main thread's larger ring
            slot = self._new_slot(index)
            self._slots_used = index + 1
        elif self._dead:
            slot = self._again(self._dead.pop(0)[1])
        else:
            raise ValueError(f"{SLOTS} threads are traced already")
        at = _SLOTS_OFF + slot.number * layout.SLOT_BYTES
        for field, value in (
            ("mask", slot.mask),
            ("tid", _thread.get_native_id()),
            ("name", self.string(_thread_name())),
            ("ring_off", _ring_off(slot.number)),
            ("stack_off", slot.stack_off),
            ("base", slot.head),
            ("generation", slot.generation),
            ("state", layout.SLOT_LIVE),
        ):
            offset, form = _SLOT_AT[field]
            form.pack_into(self.control, at + offset, value)
        self.store("slots_used", self._slots_used)
        self._live.append(slot)
        return slot

    def _new_slot(self, number: int) -> Slot:
        records = MAIN_RECORDS if number == 0 else THREAD_RECORDS
        size = records * layout.RECORD_BYTES
        offset = _ring_off(number)
        os.posix_fallocate(self.fd, offset, size)
        ring = mmap.mmap(self.fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, offset=offset)
        header = _SLOTS_OFF + number * layout.SLOT_BYTES
        stack = _STACKS_OFF + number * _STACK_BYTES
        return Slot(self, number, ring, records - 1, header, self.control, stack, layout.STACK_ENTRIES)

    def _again(self, old: Slot) -> Slot:
        slot = Slot(
            self,
            old.number,
            old.ring,
            old.mask,
            old.header,
            self.control,
            old.stack_off,
            layout.STACK_ENTRIES,
        )
        slot.head = old.head
        slot.generation = old.generation + 1
        return slot

    def release(self, slot: Slot) -> None:
        """The slot's thread has ended: what it wrote stays readable until the slot is needed again."""
        with self._lock:
            self._live.remove(slot)
            if slot.number < 0:
                self._dropped += slot.head
                return
            slot.depth_word[0] = 0
            offset, form = _SLOT_AT["state"]
            form.pack_into(self.control, slot.header + offset, layout.SLOT_DEAD)
            self._dead.append((time.monotonic_ns(), slot))

    # Clocks.

    def anchor(self, now: int) -> None:
        """Write a clock anchor and the heartbeat, once a second at most; skipped while another does."""
        if now < self.next_anchor_ns or not self._lock.acquire(blocking=False):
            return
        try:
            self.next_anchor_ns = now + 1_000_000_000
            before = time.monotonic_ns()
            realtime = time.time_ns()
            monotonic = (before + time.monotonic_ns()) // 2
            offset = realtime - monotonic
            # A step of the wall clock (over 10 ms in what may be seconds) begins a new segment.
            if self._offset_ns is not None and abs(offset - self._offset_ns) > 10_000_000:
                self._segment += 1
            self._offset_ns = offset
            at = _ANCHORS_OFF + self._anchors % ANCHORS * layout.ANCHOR_BYTES
            self._anchors += 1
            self.store("anchor_seq", 2 * self._anchors - 1)
            _ANCHOR.pack_into(self.control, at, monotonic, monotonic, realtime, self._segment)
            self.store("anchors_count", self._anchors)
            self.store("anchor_seq", 2 * self._anchors)
            self.store("heartbeat_ns", monotonic)
            self.store("dropped", self._dropped + sum(slot.head for slot in self._live if slot.number < 0))
            for slot in self._live:
                slot.next_anchor_ns = self.next_anchor_ns
                if slot.last_id > 0xF000_0000:  # an id has 32 bits; the rest lasts for more than a second
                    slot.last_id = 0
        finally:
            self._lock.release()

    def end(self) -> None:
        """The process leaves in good order."""
        self.next_anchor_ns = 0
        self.anchor(time.monotonic_ns())
        self.store("ended_ns", time.monotonic_ns())


def _ring_off(number: int) -> int:
    if number == 0:
        return CONTROL_BYTES
    return CONTROL_BYTES + (MAIN_RECORDS + (number - 1) * THREAD_RECORDS) * layout.RECORD_BYTES


def _thread_name() -> str:
    threading = sys.modules.get(
        "threading"
    )  # not imported here: a program without threads does not pay for it
    if threading is None or _thread.get_native_id() == os.getpid():
        return "main"
    return str(threading.current_thread().name)


def _private_folder(folder: str) -> None:
    """Make sure of a folder that only this user can enter: /dev/shm is open to everyone."""
    try:  # noqa: SIM105 (contextlib takes 2 ms to import)
        os.mkdir(folder, 0o700)  # noqa: PTH102
    except FileExistsError:  # as it should be after the first time
        pass
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise PermissionError(f"{folder} is not a private folder of this user")


def _new_file(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileExistsError:
        # The same process before an exec: pid and start time stay. Its open readers keep what they have.
        os.unlink(path)  # noqa: PTH108
        return os.open(path, flags, 0o600)
