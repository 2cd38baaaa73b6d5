"""Run a traced program in its own process, with rings in a folder of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuzk_tracer import reader


class Runtime:
    """A folder that stands in for XDG_RUNTIME_DIR, and the processes that use it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CUZK_")}
        self.env["XDG_RUNTIME_DIR"] = str(folder)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, code: str, **env: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env | env,
        )
        self.started.append(process)
        return process

    def run(self, code: str, **env: str) -> str:
        """Run to the end and return what was printed; errors fail the test."""
        process = self.start(code, **env)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        return out

    def rings(self) -> list[Path]:
        return sorted((self.folder / "cuzk").glob("*.ring"))

    def ring(self) -> reader.Ring:
        (path,) = self.rings()
        return reader.Ring(path)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    # As in life the rings lie in memory: on a disk, writeback would add page faults of its own.
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shm)) if os.access(shm, os.W_OK) else tmp_path
    made = Runtime(folder)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    shutil.rmtree(folder)
