"""Run a traced program in its own process, with rings in a folder of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuzk_tracer import reader


class Runtime:
    """A folder that stands in for XDG_RUNTIME_DIR, and the processes that use it."""

    def __init__(self, folder: Path, writer: str) -> None:
        self.folder = folder
        self.writer = writer
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CUZK_")}
        self.env |= {"XDG_RUNTIME_DIR": str(folder), "CUZK_TRACER": writer}
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


FULL_DISK = """
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
int posix_fallocate(int fd, off_t offset, off_t length)
{
    static int left = -1;
    if (left < 0)
        left = atoi(getenv("FALLOCATE_LEFT"));
    if (left == 0)
        return ENOSPC;
    left--;
    return ((int (*)(int, off_t, off_t))dlsym(RTLD_NEXT, "posix_fallocate"))(fd, offset, length);
}
int posix_fallocate64(int fd, off_t offset, off_t length) { return posix_fallocate(fd, offset, length); }
"""


@pytest.fixture
def full_disk(tmp_path: Path) -> Callable[[int], dict[str, str]]:
    """Environment in which allocating file space fails after so many times; needs a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = tmp_path / "full.c", tmp_path / "full.so"
    source.write_text(FULL_DISK)
    subprocess.run(
        [compiler, "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True, timeout=60
    )
    return lambda left: {"LD_PRELOAD": str(library), "FALLOCATE_LEFT": str(left)}


@pytest.fixture(params=["native", "python"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    """Everything is tested with both writers."""
    if request.param == "native":
        pytest.importorskip("cuzk_tracer._native", reason="the C extension was not built")
    # As in life the rings lie in memory: on a disk, writeback would add page faults of its own.
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shm)) if os.access(shm, os.W_OK) else tmp_path
    made = Runtime(folder, request.param)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    shutil.rmtree(folder)
