"""Programs on a pseudo-terminal of 160x45, drained like a real one: shared by the benchmarks of viewers."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Sequence
from pathlib import Path

COLUMNS, LINES = 160, 45
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(task: int, process: int | None = None) -> float:
    """User and system time of a process, or with `process` of one of its threads."""
    place = f"/proc/{task}" if process is None else f"/proc/{process}/task/{task}"
    fields = Path(f"{place}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Program:
    """A command on a terminal of its own. `sent` counts the bytes it wrote there so far."""

    def __init__(self, command: Sequence[str], state: str) -> None:
        self.sent = 0
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", XDG_STATE_HOME=state)
            os.environ.pop("NO_COLOR", None)
            os.execvp(command[0], command)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))

    def read(self, seconds: float) -> bytes:
        """What it writes, at the first moment it does; empty when it writes nothing for so long, or ended."""
        if not select.select([self._terminal], [], [], max(0.0, seconds))[0]:
            return b""
        try:
            data = os.read(self._terminal, 1 << 16)
        except OSError:  # the other side is closed
            return b""
        self.sent += len(data)
        return data

    def drain(self, seconds: float) -> None:
        """Read what comes for so long."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self.read(left)

    def quiet(self, gap_s: float) -> float:
        """Read until nothing comes for `gap_s`; the moment of the last byte, 0 if there was none."""
        last = 0.0
        while self.read(gap_s):
            last = time.monotonic()
        return last

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self._terminal, keys)

    def cpu_s(self) -> float:
        """User and system time of the process, its children not included."""
        return cpu_seconds(self.pid)

    def threads_cpu_s(self) -> dict[str, float]:
        """The same of its threads by name, of which the first is ``main``; those of one name together."""
        found: dict[str, float] = {}
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            try:
                name = "main" if task.name == str(self.pid) else (task / "comm").read_text().strip()
                found[name] = found.get(name, 0.0) + cpu_seconds(int(task.name), self.pid)
            except OSError:  # ended meanwhile
                continue
        return found

    def resident_bytes(self) -> int:
        """Resident memory of the process."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def leave(self) -> None:
        """q, and Ctrl-C where something goes on without the screen."""
        self.press(b"q")
        self.drain(1.0)
        if os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            os.kill(self.pid, signal.SIGINT)
            self.drain(5.0)
            os.waitpid(self.pid, 0)
