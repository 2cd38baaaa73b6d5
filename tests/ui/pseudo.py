"""A program on a pseudo-terminal of its own, with a `vt.Terminal` at the other end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from vt import Terminal

PATIENCE_S = 30.0
"""How long anything may take on a machine that is busy with other things."""


class OnTerminal:
    """Starts `command` as the leader of a session whose terminal this is. Use it as a context."""

    def __init__(
        self,
        command: Sequence[str],
        size: tuple[int, int] = (120, 36),
        env: Mapping[str, str] | None = None,
        answering: bool = True,
        keep: Sequence[int] = (),
        ignored: Sequence[int] = (),
    ) -> None:
        """`size`: columns, rows. `keep`: descriptors that it inherits. `ignored`: signals, as by nohup."""
        self.terminal = Terminal(*size, answering)
        self.terminal.modes.add(7)  # terminals wrap until they are told not to
        self.raw = b""
        """All that the program wrote."""
        self.status: int | None = None
        window = struct.pack("HHHH", size[1], size[0], 0, 0)
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, window)
                for descriptor in keep:
                    os.set_inheritable(descriptor, True)
                for number in ignored:
                    signal.signal(number, signal.SIG_IGN)
                os.execvpe(command[0], list(command), dict(env if env is not None else os.environ))
            finally:
                os._exit(127)
        os.set_blocking(self.master, False)

    def __enter__(self) -> OnTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.hang_up()

    # what it writes

    def read(self, seconds: float = 0.0, most: int = 1 << 16) -> bytes:
        """What it wrote, waiting so long for the first of it; the terminal has it and has answered."""
        if self.master < 0 or not select.select([self.master], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self.master, most)
        except (BlockingIOError, OSError):  # EIO: nobody has the other end open
            return b""
        self.raw += data
        self.terminal.feed(data)
        if self.terminal.answers:
            self.send(self.terminal.answers)
            self.terminal.answers = b""
        return data

    def read_until(self, true: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
        """Read until something has come true."""
        ends = time.monotonic() + seconds
        while not true():
            self.read(0.05)
            if time.monotonic() > ends:
                lines = "\n".join(self.terminal.texts)
                raise AssertionError(f"not in {seconds:g} s: {what}; on the terminal:\n{lines}")

    def shows(self, *words: str) -> None:
        """Read until all these stand on the terminal."""
        self.read_until(
            lambda: all(any(word in line for line in self.terminal.texts) for word in words), str(words)
        )

    # what is done to it

    def send(self, data: bytes) -> None:
        """Type."""
        os.write(self.master, data)

    def resize(self, width: int, height: int) -> None:
        """Another window size; the kernel tells the program."""
        while self.read():
            pass
        self.terminal.resize(width, height)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def hang_up(self) -> None:
        """Close the terminal, as an emulator that is killed or a connection that breaks."""
        if self.master >= 0:
            os.close(self.master)
            self.master = -1

    def kill(self, number: int) -> None:
        """Send the program a signal."""
        os.kill(self.pid, number)

    # how it ends

    def running(self) -> bool:
        """Whether it has not ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is None

    def ends(self, seconds: float = PATIENCE_S) -> int:
        """Its exit code (-N: signal N), once it has ended."""
        self.read_until(lambda: not self.running(), "the end", seconds)
        while self.read():
            pass
        assert self.status is not None
        return self.status

    def cpu_s(self) -> float:
        """CPU time that it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
