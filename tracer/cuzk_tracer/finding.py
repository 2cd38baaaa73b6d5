"""Where a process's ring is, also in other mount and pid namespaces. For readers, not for the tracer."""

from __future__ import annotations

import os
from pathlib import Path

from cuzk_tracer import places
from cuzk_tracer.ring_input import RingError


def find(pid: int) -> str:
    """Path of the ring that a process writes. Raises RingError when it has none.

    Looks in all ring folders, then through the process's own open files and its own view of the file system,
    which works across mount and pid namespaces.
    """
    try:
        started = places.start_time(pid)
    except OSError as error:
        raise RingError(f"no process {pid}") from error
    for folder in places.folders():
        path = Path(folder) / f"{pid}.{started}.ring"
        if path.exists():
            return str(path)
    return _find_inside(pid, started) or _none(pid)


def _none(pid: int) -> str:
    raise RingError(f"process {pid} has no trace ring: it is not traced, or belongs to another user")


def _find_inside(pid: int, started: int) -> str | None:
    """The ring of a process as it sees it itself, by a path through /proc; None where there is none."""
    try:
        name = f"{_inner_pid(pid)}.{started}.ring"
        for entry in os.scandir(f"/proc/{pid}/fd"):
            if os.readlink(entry.path).removesuffix(" (deleted)").endswith(f"/{name}"):  # noqa: PTH115
                return entry.path
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        told = [os.fsdecode(value[16:]) for value in environment if value.startswith(b"XDG_RUNTIME_DIR=/")]
        root = Path(f"/proc/{pid}/root")
        folders = [root / folder.lstrip("/") / "cuzk" for folder in told]
        for folder in (*folders, *(root / "dev/shm").glob("cuzk-*")):
            if (folder / name).exists():
                return str(folder / name)
    except (OSError, ValueError):
        pass  # another user's process, or one that has just ended: its files are not ours to see
    return None


def _inner_pid(pid: int) -> int:
    """A process's number in its own pid namespace."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return pid


def in_other_namespaces() -> list[str]:
    """Rings of this user's processes that see another file system than we do, by paths through /proc."""
    found = []
    mine, user = os.readlink("/proc/self/ns/mnt"), os.getuid()  # noqa: PTH115
    for entry in os.scandir("/proc"):
        try:
            if not entry.name.isdigit() or entry.stat().st_uid != user:
                continue
            if os.readlink(f"{entry.path}/ns/mnt") == mine:  # noqa: PTH115
                continue
            path = _find_inside(int(entry.name), places.start_time(int(entry.name)))
        except OSError:
            continue
        if path is not None:
            found.append(path)
    return found
