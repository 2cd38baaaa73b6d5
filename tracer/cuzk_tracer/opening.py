"""Get hold of the one ring file of this process: a new one, or that of another library."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import time

from cuzk_tracer import layout

LOCK_NS = 1_000_000_000  # nobody has a reason to hold the file's lock this long

_HEADER_AT = {name: offset for name, offset, _ in layout.HEADER}
_RING_OFF = next(offset for name, offset, _ in layout.SLOT if name == "ring_off")


def private_folder(folder: str) -> None:
    """Make sure of a folder that only this user can enter: /dev/shm is open to everyone."""
    try:  # noqa: SIM105 (contextlib takes 2 ms to import)
        os.mkdir(folder, 0o700)  # noqa: PTH102
    except FileExistsError:  # as it should be after the first time
        pass
    facts = os.lstat(folder)
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise PermissionError(f"{folder} is not a private folder of this user")


def lock(fd: int) -> None:
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


def mapped(name: str) -> str:
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


def reopen(path: str) -> int:
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
    lock(fd)
    return fd


def new_or_joined(path: str, name: str) -> int:
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
            lock(fd)
            size = os.fstat(fd).st_size
            if mapped(name) or (mine and size == 0):
                return fd
            # Left by this process from before an exec: pid and start time stay. Open readers keep theirs.
            if size or mine or attempt > 50:
                os.unlink(path)  # noqa: PTH108
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        time.sleep(0.0001)
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)


def control_bytes(fd: int) -> int:
    """Size of everything before the rings. Raises ValueError for a file of another version."""
    head = os.pread(fd, layout.HEADER_BYTES, 0)
    if head[:8] != layout.MAGIC or head[8:10] != bytes((layout.VERSION_MAJOR, 0)) or head[10] < 1:
        raise ValueError("this process's ring was made by a library of another version")
    (slots_off,) = struct.unpack_from("<Q", head, _HEADER_AT["slots_off"])
    return int.from_bytes(os.pread(fd, 8, slots_off + _RING_OFF), "little")
