"""The ring file of this process: creation, strings, names, metadata, slots and clock anchors.

Everything here is off the hot path; `fallback` writes the records. Space is allocated before it is mapped, so
that a full file system is an error now and not a SIGBUS inside a span, and mapped with MAP_POPULATE, so that
the ring's own page faults do not land in the prover's counts.

Native libraries of this process may write the same file (see `layout`): it is joined where it is there already,
everything cold happens under its lock, and every count is read from it.
"""

from __future__ import annotations

import _thread
import errno
import fcntl
import mmap
import os
import resource
import stat
import struct
import sys
import time

from cuzk_tracer import layout, places

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 3 ms that importing typing takes
if TYPE_CHECKING:
    from typing import Any

MAIN_RECORDS = 65_536  # 4 MiB: lossless at 20 polls a second up to 1.3 M spans a second
THREAD_RECORDS = 16_384  # 1 MiB
SLOTS = 128
NAMES = 1024
METAS = 128
ANCHORS = 64
STRING_BYTES = 256 * 1024
LONGEST_STRING = 4096  # bytes of UTF-8; longer ones are cut
REST_NS = 1_000_000_000  # a dead thread's slot is not reused before this: readers poll 20 times a second
LOCK_NS = 1_000_000_000  # nobody has a reason to hold the file's lock this long
FINISHED_KEPT = 4
FINISHED_NS = 60_000_000_000

_ANCHORS_OFF = layout.HEADER_BYTES
_METAS_OFF = _ANCHORS_OFF + ANCHORS * layout.ANCHOR_BYTES
_SLOTS_OFF = 2 * layout.PAGE_BYTES
_THREADS_OFF = _SLOTS_OFF + SLOTS * layout.SLOT_BYTES
_NAMES_OFF = _THREADS_OFF + SLOTS * layout.THREAD_BYTES
_STRINGS_OFF = _NAMES_OFF + NAMES * layout.NAME_BYTES
_STACKS_OFF = _STRINGS_OFF + STRING_BYTES
_STACK_BYTES = layout.STACK_ENTRIES * layout.OPEN_BYTES
CONTROL_BYTES = _STACKS_OFF + SLOTS * _STACK_BYTES
FILE_BYTES = CONTROL_BYTES + (MAIN_RECORDS + (SLOTS - 1) * THREAD_RECORDS) * layout.RECORD_BYTES

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
        self.next_anchor = 0
        self.path = _mapped(name)
        if self.path:
            self.fd = _reopen(self.path)
        else:
            self.path = folder + name
            _private_folder(folder)
            remove_finished(folder)
            self.fd = _new_or_joined(self.path, name)
        try:
            self.new = os.fstat(self.fd).st_size == 0
            if self.new:
                os.ftruncate(self.fd, FILE_BYTES)
                os.posix_fallocate(self.fd, 0, CONTROL_BYTES)
            size = CONTROL_BYTES if self.new else _control_bytes(self.fd)
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
            "threads_off": _THREADS_OFF,
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
        _ANCHOR.pack_into(self.control, _ANCHORS_OFF, monotonic, monotonic, time.time_ns(), 0)
        for number in range(SLOTS):
            records = THREAD_RECORDS if number else MAIN_RECORDS
            before = MAIN_RECORDS + (number - 1) * THREAD_RECORDS if number else 0
            at = _SLOTS_OFF + number * layout.SLOT_BYTES
            for field, size in (
                ("mask", records - 1),
                ("ring_off", CONTROL_BYTES + before * layout.RECORD_BYTES),
                ("stack_off", _STACKS_OFF + number * _STACK_BYTES),
            ):
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
            _lock_file(self.fd)
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
                layout.PROBLEM_NAMES, "the ring's name table is full: the rest of the names appear as <overflow>"
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
            before = resource.getrusage(resource.RUSAGE_THREAD)
            with self:
                number = self._claim()
            slot = Slot(self, number)
            after = resource.getrusage(resource.RUSAGE_THREAD)
            # What this took is not to appear in spans that other libraries have open here.
            slot.add_faults(before.ru_minflt - after.ru_minflt, before.ru_majflt - after.ru_majflt)
            return slot
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
        tid, handle = _thread.get_native_id(), _thread.get_ident()
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
            elif (
                self.slot_field(number, "tid") == tid and self._thread_field(number, "handle") == handle
            ):  # claimed by another library
                self._store_thread(number, "users", self._thread_field(number, "users") + 1)
                return number
        dead.sort()
        if not (fresh or dead):
            self._no_room(layout.PROBLEM_SLOTS, f"more than {count} threads at once: the rest are not recorded")
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
        for field, value in (("users", 1), ("handle", handle), ("minflt", 0), ("majflt", 0), ("top", 0)):
            self._store_thread(number, field, value)
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
                self._dropped += slot.words[0]
            return
        users = self._thread_field(slot.number, "users") - 1
        self._store_thread(slot.number, "users", users)
        if users == 0:
            self._store_slot(slot.number, "depth", 0)
            self._store_thread(slot.number, "died_ns", time.monotonic_ns())
            self._store_slot(slot.number, "state", layout.SLOT_DEAD)

    # Clocks.

    def _anchor_at(self, index: int) -> int:
        return int(self.load("anchors_off")) + index % int(self.load("anchor_capacity")) * layout.ANCHOR_BYTES

    def anchors(self) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
        """The two latest clock anchors, older first; twice the same while there is one only."""
        count = self.load("anchors_count")
        older = _ANCHOR.unpack_from(self.control, self._anchor_at(max(count - 2, 0)))
        return older, _ANCHOR.unpack_from(self.control, self._anchor_at(count - 1))  # type: ignore[return-value]

    def anchor(self, now: int, ticks_per_ns: float = 1.0) -> None:
        """Write a clock anchor and the heartbeat, once a second at most; skipped while another does.

        `now`: in the file's ticks, which the caller converts monotonic nanoseconds to.
        """
        if now < self.next_anchor or not self._thread_lock.acquire(blocking=False):
            return
        try:
            self.next_anchor = now + int(1_000_000_000 * ticks_per_ns)
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                self._anchor()
            finally:
                self._unlock_file()
        except OSError:  # another library is at it
            pass
        finally:
            self._thread_lock.release()

    def _anchor(self) -> None:
        self.store("dropped_plain", self._dropped + sum(slot.words[0] for slot in self._void))
        _, (_, last_monotonic, last_realtime, segment) = self.anchors()
        before = time.monotonic_ns()
        realtime = time.time_ns()
        monotonic = (before + time.monotonic_ns()) // 2
        # A library that can read the ticks writes better anchors of them; where none does for a while, there are
        # no new ticks to convert either.
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


class Slot:
    """One thread's place in the ring file, and the writer's private state for it.

    `ring` and `control` are what records and open spans are packed into; `words` is the slot header as u64:
    word 0 is the head, word 3 holds the depth (low half) and the newest span id (high half). `line` is the thread
    line as u64. Number -1: a thread without a slot, whose records are only counted.
    """

    __slots__ = ("control", "entries", "file", "line", "mask", "number", "ring", "stack", "stack_off", "words")

    def __init__(self, file: RingFile, number: int) -> None:
        self.file = file
        self.number = number
        self.ring: mmap.mmap | bytearray
        self.control: mmap.mmap | bytearray
        if number < 0:
            self.ring = bytearray(layout.RECORD_BYTES)
            self.control = bytearray(layout.SLOT_BYTES + layout.THREAD_BYTES)
            header, line = 0, layout.SLOT_BYTES
            self.mask = self.stack_off = self.entries = 0
        else:
            self.ring = file.ring(number)
            self.control = file.control
            header = file.load("slots_off") + number * layout.SLOT_BYTES
            line = file.load("threads_off") + number * layout.THREAD_BYTES
            self.mask = file.slot_field(number, "mask")
            self.stack_off = file.slot_field(number, "stack_off")
            self.entries = layout.STACK_ENTRIES
        self.words = memoryview(self.control)[header : header + layout.SLOT_BYTES].cast("Q")
        self.line = memoryview(self.control)[line : line + layout.THREAD_BYTES].cast("Q")
        # Entries: the span, its id, its depth, its start, and its thread's faults then.
        self.stack: list[tuple[Any, int, int, int, int, int]] = []

    def add_faults(self, minor: int, major: int) -> None:
        """Add to what getrusage says of this thread from now on."""
        self.line[2] = (self.line[2] + minor) & 0xFFFF_FFFF_FFFF_FFFF
        self.line[3] = (self.line[3] + major) & 0xFFFF_FFFF_FFFF_FFFF


def _lock_file(fd: int) -> None:
    """flock, given up after a second with OSError."""
    until = time.monotonic_ns() + LOCK_NS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic_ns() > until:
                raise
            time.sleep(0.0001)


def _mapped(name: str) -> str:
    """Path of this process's ring when some library has mapped it; else ''."""
    try:
        with open("/proc/self/maps", "rb", buffering=0) as file:  # noqa: PTH123
            text = file.readall()
    except OSError:
        return ""
    at = text.find(name.encode())
    if at < 0:
        return ""
    line = text.rfind(b"\n", 0, at) + 1
    return os.fsdecode(text[text.index(b"/", line) : at]) + name


def _reopen(path: str) -> int:
    """Open this process's ring, made by another library, and lock it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        for entry in os.scandir("/proc/self/fd"):  # somebody removed it: through its maker's descriptor
            if os.readlink(entry.path).startswith(path):  # noqa: PTH115
                fd = os.open(entry.path, os.O_RDWR | os.O_CLOEXEC)
                break
        else:
            raise
    _lock_file(fd)
    return fd


def _new_or_joined(path: str, name: str) -> int:
    """A new, empty, locked file; or the one that another library has made in the meantime, locked."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    for attempt in range(100):
        mine = True
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            mine = False
            try:
                fd = os.open(path, flags)
            except FileNotFoundError:
                continue
        try:
            _lock_file(fd)
            size = os.fstat(fd).st_size
            if _mapped(name) or (mine and size == 0):
                return fd
            # Left by this process from before an exec: pid and start time stay. Open readers keep what they have.
            if size or mine or attempt > 50:
                os.unlink(path)  # noqa: PTH108
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        time.sleep(0.0001)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def _control_bytes(fd: int) -> int:
    """Size of everything before the rings. Raises ValueError for a file of another version."""
    head = os.pread(fd, layout.HEADER_BYTES, 0)
    if head[:8] != layout.MAGIC or head[8:10] != bytes((layout.VERSION_MAJOR, 0)) or head[10] < 1:
        raise ValueError("this process's ring was made by a library of another version")
    slots, form = _HEADER["slots_off"]
    at, code = _SLOT["ring_off"]
    return int(code.unpack(os.pread(fd, 8, form.unpack_from(head, slots)[0] + at))[0])


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


def remove_finished(folder: str) -> None:
    """Remove rings whose process left in good order: all but the newest 4 that ended within the last minute.

    So they do not pile up where nobody watches, and a viewer started together with a short proof still has
    time to open its ring (an open ring stays readable after its removal). Rings of crashed processes are left
    to the viewer. Never raises.
    """
    ended_at, form = _HEADER["ended_ns"]
    finished = []
    try:  # noqa: SIM105 (contextlib takes 2 ms to import)
        for entry in os.scandir(folder):
            if not entry.name.endswith(".ring") or not entry.is_file(follow_symlinks=False):
                continue
            with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123
                head = file.read(layout.HEADER_BYTES)
            if len(head) == layout.HEADER_BYTES and head[:8] == layout.MAGIC:
                (ended,) = form.unpack_from(head, ended_at)
                pid, started = entry.name.split(".")[:2]
                if ended and not places.alive(int(pid), int(started)):
                    finished.append((ended, entry.path))
        now = time.monotonic_ns()
        for place, (ended, path) in enumerate(sorted(finished, reverse=True)):
            if place >= FINISHED_KEPT or ended + FINISHED_NS < now:
                os.unlink(path)  # noqa: PTH108
    except (OSError, ValueError):
        pass  # somebody else's clean-up was faster, or a file is not ours: nothing depends on this
