"""Start the prover as its own process and read what it tells on standard output (see cuzk_kernels.runner)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any

from cuzk_top import blas

KILL_AFTER_S = 3.0  # a prover that ignores SIGTERM for this long (a wedged driver, say) is killed


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the prover ended: its exit code by the command line's rules, and the one line to show (or "")."""

    exit_code: int
    text: str


@dataclass
class ProverProcess:
    """A running ``cuzk_kernels.runner``; its events come on a thread and wait for ``events()``."""

    arguments: list[str]
    stopping: bool = False
    _events: deque[dict[str, Any]] = field(default_factory=deque)
    _stderr: deque[str] = field(default_factory=lambda: deque(maxlen=200))
    _error: dict[str, Any] | None = None
    _ring_known: threading.Event = field(default_factory=threading.Event)
    _said_all: threading.Event = field(default_factory=threading.Event)
    _when_over: Callable[[], None] | None = None
    ring_path: str | None = None
    ring_problem: str | None = None

    def __post_init__(self) -> None:
        command = [sys.executable, "-m", "cuzk_kernels.runner", "--die-with-parent", *self.arguments]
        # A session of its own: the terminal's Ctrl-C reaches the viewer alone, which then ends the prover.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**blas.users_environment(), "CUZK_TRACE": os.environ.get("CUZK_TRACE", "all")},
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read_events, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The prover's process id."""
        return self._process.pid

    def running(self) -> bool:
        """Whether the prover still runs."""
        return self._process.poll() is None

    def wait_for_ring(self, timeout_s: float = 10.0) -> str | None:
        """Block until the prover named its ring file (or ended without); returns the path or None."""
        self._ring_known.wait(timeout_s)
        return self.ring_path

    def when_over(self, call: Callable[[], None]) -> None:
        """Have this called, on a thread, once the prover has said its last word and is about to end."""
        self._when_over = call
        if self._said_all.is_set():
            call()

    @property
    def failure(self) -> str:
        """The one line to show when the prover failed, as soon as it is known; "" as long as all is well."""
        if self._error is not None:
            return str(self._error["text"])
        code = self._process.poll()
        return self._outcome(code).text if code else ""

    def events(self) -> list[dict[str, Any]]:
        """Take the events that came since the last call, oldest first."""
        taken = []
        while self._events:
            taken.append(self._events.popleft())
        return taken

    def stop(self) -> None:
        """Ask the prover to end. It writes its files in one rename each, so none is ever half there."""
        self.stopping = True
        if self.running():
            self._process.terminate()

    def wait(self) -> Outcome:
        """Wait for the end and say how it went; a stop we asked for counts as Ctrl-C (130)."""
        try:
            code = self._process.wait(KILL_AFTER_S if self.stopping else None)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        for thread in self._threads:
            thread.join(timeout=KILL_AFTER_S)
        return self._outcome(code)

    def _outcome(self, code: int) -> Outcome:
        if self.stopping and code != 0:
            return Outcome(130, "stopped")
        if self._error is not None:
            return Outcome(int(self._error["exit"]), str(self._error["text"]))
        if code == 0:
            return Outcome(0, "")
        if code == -signal.SIGKILL:
            return Outcome(3, "the prover was killed (signal 9): most often the machine ran out of memory")
        if any("bad_alloc" in line for line in self._stderr):
            return Outcome(3, "not enough memory for this key: free some, or use a machine with more")
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        last = self._stderr[-1].strip() if self._stderr else "it said nothing on standard error"
        return Outcome(3, f"the prover ended with {cause}: {last}")

    def _read_events(self, stream: IO[str]) -> None:
        for line in stream:
            try:
                event = json.loads(line)
            except ValueError:
                self._stderr.append(line.rstrip("\n"))  # a library printed to stdout: keep it as log text
                continue
            if event.get("event") == "ring":
                self.ring_path, self.ring_problem = event.get("path"), event.get("problem")
                self._ring_known.set()
            elif event.get("event") == "error":
                self._error = event
            else:
                self._events.append(event)
        self._ring_known.set()
        self._said_all.set()
        if self._when_over is not None:
            self._when_over()

    def _read_stderr(self, stream: IO[str]) -> None:
        for line in stream:
            self._stderr.append(line.rstrip("\n"))
