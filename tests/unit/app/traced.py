"""Traced programs for tests of the viewer: each in its own process, its ring in a folder of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path


class Traced:
    """A program that runs `code` after its ring exists; `ring` is its path."""

    def __init__(self, folder: Path, code: str) -> None:
        env = {key: value for key, value in os.environ.items() if not key.startswith("CUZK_")}
        head = "import cuzk_tracer, sys\nprint(cuzk_tracer.open(), flush=True)\n"
        self.process = subprocess.Popen(
            [sys.executable, "-c", head + textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env | {"XDG_RUNTIME_DIR": str(folder)},
        )
        assert self.process.stdout is not None
        self.ring = self.process.stdout.readline().strip()

    def say(self, line: str = "") -> None:
        """Send a line to the program's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self) -> str:
        """The next line it prints."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def wait(self) -> None:
        """Until it has ended in good order."""
        assert self.process.wait(timeout=30) == 0

    def kill(self) -> None:
        """End it the hard way."""
        self.process.kill()
        self.process.communicate()
