"""A program started with tracing on, and what of it must not get lost on the way through us: its output, its
terminal, the signals meant for it, and its exit code.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import selectors
import shutil
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuzk_top import blas
from cuzk_top.errors import CuzkTopError
from cuzk_tracer import gpu, places

if TYPE_CHECKING:
    from types import FrameType

FORWARDED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
SI_KERNEL = 0x80
"""`si_code` of signals that no process sent, such as those of a terminal's keys."""
CHUNK = 1 << 16
LINES_KEPT = 500
LAST_WORDS_S = 0.5


class NotStartedError(CuzkTopError):
    """The program could not be started; exit codes as shells have them."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def executable(command: str) -> str:
    """The file that a command names. Raises NotStartedError (127 not found, 126 not executable)."""
    path = shutil.which(command)
    if path is not None:
        return path
    if os.path.exists(command):  # noqa: PTH110 (a path or a plain word)
        raise NotStartedError(f"{command}: not an executable file", 126)
    raise NotStartedError(f"{command}: no such command", 127)


class Program:
    """A running command. Raises NotStartedError.

    Not `captured`, it inherits standard input, output and error, and the terminal with them. `captured`
    leaves the terminal to a screen: input is empty, output is kept, as lines for a log and in full until
    `release`.
    It stays in our process group, so that keys of the terminal and job control reach it as they would without
    us; other signals are for `forward`.
    """

    failure = ""

    def __init__(self, command: Sequence[str], level: str, *, captured: bool) -> None:
        self.session = os.urandom(16).hex()
        """The tracing session that the program believes to be its parent's: its rings name it."""
        self._status: int | None = None
        self._waiting = threading.Lock()
        self._lines: deque[dict[str, object]] = deque(maxlen=LINES_KEPT)
        path = executable(command[0])
        parent = f"{self.session}:{os.getpid()}"
        users = blas.users_environment()
        injected, self.not_captured = gpu.environment(users)
        env = users | injected | {"CUZK_TRACE": level, places.PARENT_VARIABLE: parent}
        actions: list[tuple[object, ...]] = []
        pipes = [os.pipe() for _ in range(2)] if captured else []
        if captured:
            actions.append((os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0))
            actions += [(os.POSIX_SPAWN_DUP2, writing, 1 + place) for place, (_, writing) in enumerate(pipes)]
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            self.pid = os.posix_spawn(
                path,
                list(command),
                env,
                file_actions=actions,
                setsigmask=mask - set(FORWARDED),
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # which Python ignores
            )
        except OSError as error:
            raise NotStartedError(f"{command[0]}: {error.strerror}", 126) from error
        self._reader: threading.Thread | None = None
        if captured:
            for _, writing in pipes:
                os.close(writing)
            self._output = _Output([reading for reading, _ in pipes], self._lines)
            self._reader = threading.Thread(target=self._output.read, name="output", daemon=True)
            self._reader.start()

    def running(self) -> bool:
        """Whether it has not ended yet."""
        with self._waiting:
            if self._status is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
        return self._status is None

    @property
    def exit_code(self) -> int:
        """Its exit code, as a shell would have it: 128 + N when signal N ended it. Only after its end."""
        assert self._status is not None
        return self._status if self._status >= 0 else 128 - self._status

    def send(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.running():
            os.kill(self.pid, number)

    def stop(self) -> None:
        """What a screen does on Ctrl-C."""
        self.send(signal.SIGINT)

    def events(self) -> list[dict[str, object]]:
        """Lines of captured output since the last call."""
        taken = []
        while self._lines:
            taken.append(self._lines.popleft())
        return taken

    def release(self) -> None:
        """Print what was captured, each part where it belongs, and from now on at once."""
        if self._reader is not None:
            self._output.release()

    def finish(self) -> None:
        """After its end: wait for what it still has in the pipes (not for children that hold them open)."""
        if self._reader is not None:
            self._reader.join(LAST_WORDS_S)


class _Output:
    """Reads a program's two pipes; keeps what came in a file until it may be printed.

    Each stream's order is kept, and between the two the order in which we got to read them.
    """

    def __init__(self, pipes: list[int], lines: deque[dict[str, object]]) -> None:
        self._pipes = pipes
        self._lines = lines
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in pipes]
        self._partial = [""] * len(pipes)
        self._lock = threading.Lock()
        self._kept = tempfile.TemporaryFile()  # noqa: SIM115 (closed by release)
        self._parts: list[tuple[int, int]] = []  # which pipe, bytes
        self._released = False

    def read(self) -> None:
        with selectors.DefaultSelector() as selector:
            for place, pipe in enumerate(self._pipes):
                selector.register(pipe, selectors.EVENT_READ, place)
            while selector.get_map():
                for key, _ in selector.select():
                    data = os.read(key.fd, CHUNK)
                    if not data:
                        selector.unregister(key.fd)
                        os.close(key.fd)
                    self._take(int(key.data), data)

    def _take(self, place: int, data: bytes) -> None:
        with self._lock:
            if self._released:
                _write(place, data)
                return
            self._kept.write(data)
            if self._parts and self._parts[-1][0] == place:
                self._parts[-1] = (place, self._parts[-1][1] + len(data))
            else:
                self._parts.append((place, len(data)))
        text = self._partial[place] + self._decoders[place].decode(data, final=not data)
        *whole, self._partial[place] = text.split("\n")
        if not data and self._partial[place]:
            whole.append(self._partial[place])
        self._lines.extend({"text": line.rstrip("\r")} for line in whole)

    def release(self) -> None:
        with self._lock:
            self._released = True
            self._kept.seek(0)
            for place, size in self._parts:
                left = size
                while left:
                    data = self._kept.read(min(left, CHUNK))
                    _write(place, data)
                    left -= len(data)
            self._parts = []
            self._kept.close()


def _write(place: int, data: bytes) -> None:
    """To our own standard output or error; a reader that went away is no reason to stop."""
    stream = sys.stderr if place else sys.stdout
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
        view = memoryview(data)
        while view:
            view = view[os.write(stream.fileno(), view) :]


class Signals:
    """Takes the signals that are meant for a program, and hands them on. Used where there is no screen.

    A key of the terminal (Ctrl-C, say) signals the program by itself, since it is in our process group: only
    what a process sent to us alone is passed on. To tell the two apart signals are blocked and asked for; so
    this is to be entered before libraries start threads, which could take them unasked.
    """

    def __init__(self) -> None:
        # What was ignored when we came (nohup, a shell's background) stays so, for the program too.
        self._numbers = [n for n in FORWARDED if signal.getsignal(n) is not signal.SIG_IGN]
        self._unasked: list[int] = []

    def __enter__(self) -> Signals:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers)
        self._handlers = {number: signal.signal(number, self._took) for number in self._numbers}
        return self

    def __exit__(self, *_: object) -> None:
        while signal.sigtimedwait(self._numbers, 0):  # came too late: the program has ended
            pass
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _took(self, number: int, _: FrameType | None) -> None:
        """A thread from before took it, and Python tells us here, without saying who sent it."""
        keys = (signal.SIGINT, signal.SIGQUIT)
        if number not in keys or not os.isatty(0):
            self._unasked.append(number)

    def wait(self, seconds: float, program: Program) -> None:
        """Let some time pass, less when a signal comes."""
        came = signal.sigtimedwait(self._numbers, seconds)
        # We were stopped meanwhile, and went on after the time was up: Python then gives what was never set.
        if came is not None and came.si_signo not in self._numbers:
            came = None
        if came is not None and came.si_code != SI_KERNEL:
            program.send(came.si_signo)
        while self._unasked:
            program.send(self._unasked.pop(0))
