"""Textual's driver for terminals as they are: they go away, stop reading, and answer when asked.

A terminal that is gone is no error: the screen is left as by ``q``. One that reads slowly gets fewer pictures
instead of late ones. What the terminal answers to our own questions never reaches the keys. This reaches into
Textual, whose version is pinned.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import selectors
import termios
import threading
import time
import tty
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Protocol

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from cuzk_top import background

if TYPE_CHECKING:
    from cuzk_top.background import Background

CHECK, CHECKED = "\x1b[5n", "\x1b[0n"
"""Device status report (ECMA-48, 8.3.35): a terminal answers when it has come so far in what it was sent."""
CHECK_EVERY = 6_000
"""Characters between two such questions."""
UNREAD_MOST = 16_000
"""Characters on their way to the terminal beyond which no picture is added: at 20 kB/s they take 0.8 s, and
with a round trip of 200 ms they still let 80 kB/s pass."""
BLOCKED_S = 0.05
"""A write that takes longer shows that the terminal does not keep up."""
FORGET_S = 3.0
"""A question that is not answered for so long was lost: pictures go on without."""
LAST_ANSWER_S = 2.0
"""Before the terminal is given back: how long an answer may take that would else be typed into the shell.
What the terminal still has to read stands before its restoring anyway."""
POLL_S = 0.1

_ANSWERS = re.compile(f"{re.escape(CHECKED)}|{background.ANSWER.pattern}")
_BEGUN = re.compile(r"\x1b(?:\[0?|\](?:1(?:1(?:;[^\x07\x1b]*\x1b?)?)?)?)$")
"""The end of what was read may be the begin of an answer."""


class Host(Protocol):
    """What the driver tells its application, in the application's thread."""

    def terminal_gone(self) -> None: ...

    def background_told(self, background: Background) -> None: ...


class Outlet:
    """The terminal as the file of Textual's writer thread: never raises, and knows when it is stuck."""

    def __init__(self, file: IO[str], gone: Callable[[], None]) -> None:
        self._file = file
        self._gone = gone
        self._lost = False
        self._since: float | None = None

    @property
    def stuck(self) -> bool:
        """Whether something is waiting to be taken, and has been for a while."""
        since = self._since
        return since is not None and time.monotonic() - since > BLOCKED_S

    def write(self, text: str) -> None:
        """Write, or drop it where there is no terminal any more."""
        if self._since is None:
            self._since = time.monotonic()
        self._try(lambda: self._file.write(text))

    def flush(self) -> None:
        """The writer thread calls this when it has nothing more."""
        self._try(self._file.flush)
        self._since = None

    def fileno(self) -> int:
        return self._file.fileno()

    def _try(self, do: Callable[[], object]) -> None:
        if self._lost:
            return
        try:
            do()
        except (OSError, ValueError):  # hung up, or closed
            self._lost = True
            self._gone()


class Flow:
    """How much of what was written the terminal has come to, by the questions in between."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._written = 0
        self._asked: list[tuple[int, float]] = []
        """Of each question still open: characters written before it, and when."""
        self._reached = 0
        self._answering = False
        self._deaf = False
        """The last question was lost: none is asked until an answer comes."""
        self.idle = threading.Event()
        """Set while no question is open."""
        self.idle.set()

    def wrote(self, count: int) -> bool:
        """Count characters; whether to ask now."""
        self._written += count
        last = self._asked[-1][0] if self._asked else self._reached
        return not self._deaf and self._written - last >= CHECK_EVERY

    def ask(self) -> None:
        """A question was written."""
        self._asked.append((self._written, self._clock()))
        self.idle.clear()

    def answered(self) -> None:
        """An answer came, to the oldest question."""
        self._answering, self._deaf = True, False
        if self._asked:
            self._reached, _ = self._asked.pop(0)
        if not self._asked:
            self.idle.set()

    @property
    def full(self) -> bool:
        """Whether the terminal has more before it than it should; one that never answered has not."""
        if self._asked and self._clock() - self._asked[0][1] > FORGET_S:
            self._asked.clear()
            self._reached, self._answering, self._deaf = self._written, False, True
            self.idle.set()
        return self._answering and self._written - self._reached > UNREAD_MOST


class TerminalDriver(LinuxDriver):
    """See the module. The application is a `Host`."""

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        self._host: Host = app
        self._loop = asyncio.get_running_loop()
        self._flow = Flow()
        self._told_gone = False
        self._leaving = True
        """The terminal is not ours: before the start, behind the end, and while suspended."""
        stream = self._file
        assert stream is not None
        # With PYTHONUNBUFFERED the stream itself forgets the rest of a write that a signal cut short.
        file = open(  # noqa: SIM115 (the writer thread's, to the end of the process)
            stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors, closefd=False
        )
        self._outlet = outlet = Outlet(file, self.gone)
        self._file = outlet  # type: ignore[assignment]

    @property
    def behind(self) -> bool:
        """Whether another picture would only come late."""
        return self._outlet.stuck or self._flow.full

    def gone(self) -> None:
        """There is no terminal any more; any thread may find out."""
        if not self._told_gone:
            self._told_gone = True
            self._flow.idle.set()
            self._app.call_later(self._host.terminal_gone)

    def write(self, data: str) -> None:
        super().write(data)
        if self._flow.wrote(len(data)) and not (self._told_gone or self._leaving):
            self._check()

    def _check(self) -> None:
        self._flow.ask()
        super().write(CHECK)

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._writer_thread is None or not self._writer_thread.is_alive():
            return  # stopped again at once: in the background of a shell
        if background.asks(os.environ):
            super().write(background.QUESTION)
        self._leaving = False
        self._check()  # its answer comes behind those to all questions of the start

    def stop_application_mode(self) -> None:
        self._leaving = True
        if not self._told_gone:
            self._flow.idle.wait(LAST_ANSWER_S)
        super().stop_application_mode()

    def _sigcont_application(self, *_: object) -> None:
        """Continued. Textual takes that for the end of its own suspension, and would start its threads twice;
        but SIGCONT also comes with SIGHUP, and from who stopped us with SIGSTOP.
        """
        if self._leaving:
            super()._sigcont_application()
        else:
            # Not here, where a signal's handler may stand within a write, or the loop between two messages.
            self._loop.call_soon_threadsafe(self._app.call_later, self._take_back)

    def _take_back(self) -> None:
        if not self._leaving and self._taken_over():
            self.suspend_application_mode()
            self._must_signal_resume = True
            self.resume_application_mode()

    def _taken_over(self) -> bool:
        """Whether a shell has made the terminal its own meanwhile: lines instead of keys."""
        try:
            return bool(termios.tcgetattr(self.fileno)[tty.LFLAG] & termios.ICANON)
        except termios.error:  # hung up
            return False

    def _run_input_thread(self) -> None:
        try:
            super()._run_input_thread()
        finally:
            self._flow.idle.set()

    def run_input_thread(self) -> None:
        """Read keys, as Textual's does; without a terminal it ends instead of asking on and on."""
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        kept = ""
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(POLL_S):
                    try:
                        data = os.read(self.fileno, 4096)
                    except OSError:
                        data = b""
                    if not data:
                        self.gone()
                        break
                    kept, text = self._heard(kept + decode(data))
                else:
                    kept, text = "", kept  # it was a key after all
                for event in parser.feed(text) if text else ():
                    self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
        try:
            for _ in parser.feed(""):
                pass
        except (EOFError, ParseError):
            pass

    def _heard(self, text: str) -> tuple[str, str]:
        """Take the answers out of what was typed: what may be the begin of one, and the keys."""
        for found in _ANSWERS.finditer(text):
            if found[1] is None:
                self._flow.answered()
                continue
            colour = background.told(found[1])
            if colour is not None:
                self._app.call_later(self._host.background_told, colour)
        text = _ANSWERS.sub("", text)
        begun = _BEGUN.search(text)
        at = begun.start() if begun else len(text)
        return text[at:], text[:at]
