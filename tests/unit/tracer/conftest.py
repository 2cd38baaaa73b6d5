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

import cuzk_tracer
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

    def execute(self, *command: str | Path, **env: str) -> str:
        """Run a program to its end and return what it printed; errors fail the test."""
        done = subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            env=self.env | env,
            timeout=120,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

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
def full_disk(compiler: "Compiler") -> Callable[[int], dict[str, str]]:
    """Environment in which allocating file space fails after so many times."""
    library = compiler(FULL_DISK, "-D_GNU_SOURCE", shared=True)
    return lambda left: {"LD_PRELOAD": str(library), "FALLOCATE_LEFT": str(left)}


class Compiler:
    """Compiles once a session; skips the test where this machine cannot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._made: dict[tuple[str, ...], Path] = {}

    def __call__(self, source: str | Path, *options: str, language: str = "c", shared: bool = False) -> Path:
        """The program (or shared object) of a source file or text, in C or C++ ("c++")."""
        key = (str(source), *options, language, str(shared))
        if key not in self._made:
            tool = shutil.which({"c": "cc", "c++": "c++"}[language])
            if tool is None:
                pytest.skip(f"no {language} compiler")
            made = self.folder / f"made{len(self._made)}{'.so' if shared else ''}"
            if isinstance(source, str):
                text = source
                source = self.folder / f"source{len(self._made)}.{'c' if language == 'c' else 'cpp'}"
                source.write_text(text)
            command = [tool, f"-I{cuzk_tracer.header()}", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"]
            command += ["-shared", "-fPIC"] if shared else []
            done = subprocess.run(
                [*command, *options, "-o", str(made), str(source), "-ldl"],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            self._made[key] = made
        return self._made[key]


@pytest.fixture(scope="session")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(tmp_path_factory.mktemp("compiled"))


def _runtime(writer: str, tmp_path: Path) -> Iterator[Runtime]:
    # As in life the rings lie in memory: on a disk, writeback would add page faults of its own.
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shm)) if os.access(shm, os.W_OK) else tmp_path
    made = Runtime(folder, writer)
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    shutil.rmtree(folder)


@pytest.fixture(params=["native", "python"])
def runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Runtime]:
    """Everything is tested with both writers."""
    if request.param == "native":
        pytest.importorskip("cuzk_tracer._native", reason="the C extension was not built")
    yield from _runtime(request.param, tmp_path)


@pytest.fixture
def bare_runtime(tmp_path: Path) -> Iterator[Runtime]:
    """For programs that are not written in Python, and for tests that name their writer."""
    yield from _runtime("native", tmp_path)
