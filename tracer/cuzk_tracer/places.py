"""Where rings live, and who their owner is: the few facts that writer and readers must agree on."""

import os

PARENT_VARIABLE = "CUZK_TRACE_PARENT"
"""Environment variable by which an exec'ed child learns its parent's session: `UUID_HEX:PID`."""


def folders() -> list[str]:
    """Ring folders in order of preference.

    A service has no XDG_RUNTIME_DIR while the operator's shell has one: writers take the first that works,
    readers look in all.
    """
    found = []
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isabs(runtime):  # noqa: PTH117 (pathlib is too slow to import here)
        found.append(f"{runtime}/cuzk")
    found.append(f"/dev/shm/cuzk-{os.getuid()}")
    return found


def stat_fields(pid: int) -> list[bytes]:
    """Fields of /proc/PID/stat from the third (the state) on. Raises OSError when nothing has that pid."""
    fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = os.read(fd, 4096)
    finally:
        os.close(fd)
    # The second field is the command in brackets and may hold blanks and brackets itself.
    return text[text.rindex(b")") + 2 :].split()


def start_time(pid: int) -> int:
    """When a process started, in clock ticks since boot. Raises OSError when there is no such process."""
    return int(stat_fields(pid)[19])


def alive(pid: int, started: int) -> bool:
    """True while the process that began at `started` runs; a zombie or a later owner of the pid does not."""
    try:
        fields = stat_fields(pid)
        return int(fields[19]) == started and fields[0] not in (b"Z", b"X", b"x")
    except (OSError, ValueError, IndexError):
        return False


def boot_id() -> bytes:
    """The kernel's boot id as 16 bytes; zeros where /proc does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123
            return bytes.fromhex(file.read().strip().replace("-", ""))[:16].ljust(16, b"\0")
    except (OSError, ValueError):
        return bytes(16)
