"""What a traced process has one of: the ring file, the table of names, the level; and each thread's slot.

Names are known before there is a file, and a native library of this process may have made that with names of
its own: so a name has a place here, and its number in the file only once that is open.

Everything here is off the hot path. Nothing raises into the program: what goes wrong becomes `problem`.
"""

from __future__ import annotations

import _thread
import atexit
import os

from cuzk_tracer import layout, places, ringfile
from cuzk_tracer.slots import Slot

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 3 ms that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_PLAIN = 4096

_UUID_AT = next(offset for name, offset, _ in layout.HEADER if name == "uuid")

LEVELS = {"off": layout.LEVEL_OFF, "coarse": layout.LEVEL_COARSE, "all": layout.LEVEL_ALL}


class State:
    """What the process has one of."""

    level = LEVELS.get(os.environ.get("CUZK_TRACE", "all"), layout.LEVEL_ALL)
    file: ringfile.RingFile | None = None
    problem = ""
    failed = False
    parent_pid = 0
    parent_uuid = bytes(16)


lock = _thread.RLock()
tls: Any = _thread._local()
"""`tls.slot` is this thread's slot, once it has one."""
names: list[tuple[str, str, str, int, float]] = []
"""All names, by place: text, names of the arguments, flags, and the share of the table they may fill."""
numbers: list[int] = []
"""Their numbers in the file, by place."""
level_changed: list[Callable[[], None]] = []
"""Called when the level is another, or tracing has stopped for good."""
opened: list[Callable[[ringfile.RingFile], None]] = []
"""Called when there is a file, and all numbers are new."""
_plain: dict[str, int] = {}  # counters, marks and flows: places by text
_metas: dict[str, str] = {}


class _Guard:
    """Lives in a thread's local storage: dies with the thread and releases its slot."""

    __slots__ = ("slot",)

    def __init__(self, slot: Slot) -> None:
        self.slot = slot

    def __del__(self) -> None:
        try:
            if self.slot.file is State.file:
                self.slot.file.release(self.slot)
        except Exception:  # at interpreter exit anything may be gone already
            pass


def claim() -> Slot | None:
    """This thread's slot, its first time; None where there is no ring."""
    try:
        with lock:
            file = State.file or _open()
            if file is None:
                return None
            slot = file.claim()
        tls.slot = slot
        tls.guard = _Guard(slot)
        return slot
    except Exception as error:
        fail(f"cannot trace: {error}")
        return None


def slot() -> Slot | None:
    """This thread's slot; None where there is no ring."""
    try:
        known: Slot = tls.slot
        return known
    except AttributeError:
        return claim()


def _open() -> ringfile.RingFile | None:
    """Make the ring file, or join that of a native library. The caller holds the lock."""
    if State.failed or State.level == layout.LEVEL_OFF:
        return None
    reasons = []
    for folder in places.folders():
        parent = (State.parent_pid, State.parent_uuid) if State.parent_pid else _inherited(folder)
        try:
            file = ringfile.RingFile(folder, *parent, State.level)
            break
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            reasons.append(f"{folder}: {why}")
    else:
        fail("cannot write a trace ring in " + "; ".join(reasons))
        return None
    with file:
        numbers[:] = [file.name(*name) for name in names]
        if file.new:
            file.meta("command", " ".join(_command_line()))
        for key, value in _metas.items():
            file.meta(key, value)
    os.environ[places.PARENT_VARIABLE] = f"{file.uuid.hex()}:{file.pid}"
    State.file = file
    if not file.new:
        State.level = file.level[0]
    for tell in opened:
        tell(file)
    return file


def _inherited(folder: str) -> tuple[int, bytes]:
    """Pid and session of the tracing process that started this one; zeros where there is none.

    Its parent's by its ring in the same folder, else what an ancestor left in the environment.
    """
    try:
        pid = os.getppid()
        with open(f"{folder}/{pid}.{places.start_time(pid)}.ring", "rb", buffering=0) as file:  # noqa: PTH123
            head = file.read(layout.HEADER_BYTES)
        if len(head) == layout.HEADER_BYTES and head[:8] == layout.MAGIC:
            return pid, head[_UUID_AT : _UUID_AT + 16]
    except OSError:
        pass  # not traced
    try:
        uuid, _, ancestor = os.environ.get(places.PARENT_VARIABLE, "").partition(":")
        return int(ancestor), bytes.fromhex(uuid)[:16].ljust(16, b"\0")
    except ValueError:
        return 0, bytes(16)


def _command_line() -> list[str]:
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
            return [part.decode("utf-8", "replace") for part in file.read(4096).split(b"\0") if part]
    except OSError:
        return []


def fail(reason: str) -> None:
    """Stop tracing for good, and remember why."""
    State.problem = State.problem or reason
    State.failed = True
    for tell in level_changed:
        tell()


def look(file: ringfile.RingFile) -> None:
    """Take over the level in the file, which a viewer may have changed."""
    if file.level[0] != State.level:
        State.level = file.level[0]
        for tell in level_changed:
            tell()


def define(text: str, a0: str, a1: str, flags: int, most: float = 1.0) -> int:
    """Register a name and return its place. The caller holds the lock."""
    names.append((text, a0, a1, flags, most))
    if State.file is not None:
        number = layout.NAME_OVERFLOW
        try:
            with State.file:
                number = State.file.name(*names[-1])
        except OSError as error:
            State.problem = State.problem or f"a name could not be added: {error}"
        numbers.append(number)
    return len(names) - 1


def number(place: int) -> int:
    """What to write for the name at this place; 0 while there is no file."""
    return 0 if State.file is None else numbers[place]


def plain_number(text: str, most: float) -> int:
    """Number of a counter's, mark's or flow's name, which may fill that share of the table."""
    text = str(text)
    place = _plain.get(text)
    if place is None:
        if len(_plain) >= MOST_PLAIN:
            return layout.NAME_OVERFLOW
        with lock:
            place = _plain[text] = define(text, "", "", 0, most)
    return number(place)


def meta(**values: object) -> None:
    """Say something about this session: `meta(job="porep-7")`. A key's later value replaces the earlier."""
    with lock:
        for key, value in values.items():
            try:
                text = _metas[key] = str(value)
            except Exception:  # the program's own __str__
                continue
            if State.file is not None:
                try:
                    with State.file:
                        State.file.meta(key, text)
                except OSError as error:
                    State.problem = State.problem or f"metadata could not be written: {error}"


def open_ring() -> str | None:
    """Make the ring now instead of at the first span, and return its path (see `ring_path`)."""
    slot()
    return ring_path()


def ring_path() -> str | None:
    """Path of this process's ring; None before the first span, when off, or when it could not be written."""
    return State.file.path if State.file is not None else None


def problem() -> str | None:
    """Why there is no ring, or what in it is incomplete; None when all is well."""
    return State.problem or (State.file.problem if State.file is not None else "") or None


def _after_fork() -> None:
    """In a forked child: leave the parent's ring alone and begin a session of its own when it traces."""
    global lock  # noqa: PLW0603 (it may be in any state: the fork came in the middle of the parent)
    lock = _thread.RLock()
    parent = State.file
    State.file = None
    if hasattr(tls, "slot"):
        del tls.slot, tls.guard
    if parent is not None:
        State.parent_pid = parent.pid
        State.parent_uuid = parent.uuid
        os.close(parent.fd)


def _at_exit() -> None:
    if State.file is not None:
        try:  # noqa: SIM105 (contextlib takes 2 ms to import)
            State.file.end()
        except OSError:
            pass  # a thread that is gone holds the lock


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
