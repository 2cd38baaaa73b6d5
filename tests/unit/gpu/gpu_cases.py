"""The capture library built for tests, a stub libcupti, and programs that load it as the CUDA driver would."""
# ruff: noqa: E501

import contextlib
import gzip
import json
import os
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuzk_top.model import Snapshot
from cuzk_top.sources.ring import RingSource
from cuzk_top.store import Store
from cuzk_tracer import reader

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "tracer/cuzk_tracer"
DATA = ROOT / "tests/data/gpu"
CAPTURES = DATA / "captures"

Record = dict[str, Any]


def capture(name: str) -> list[Record]:
    """The records of a capture, as its file has them."""
    with gzip.open(CAPTURES / f"{name}.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def manifest() -> dict[str, dict[str, int]]:
    """The captures' figures, by name."""
    files = json.loads((CAPTURES / "manifest.json").read_text())["files"]
    return {entry["file"].removesuffix(".jsonl.gz"): entry for entry in files}


def cupti_record(record: Record, base: int, major: int) -> tuple[bytes, bytes]:
    """One record as CUPTI of this major version lays it out (cupti_activity.h), and a kernel's name."""
    start, end = record["start"] - base, record["end"] - base
    where = (record.get("device", 0), record.get("context", 0), record.get("stream", 0))
    kind = record["kind"]
    corr = record.get("corr", 0)
    if kind == "kernel":
        body = struct.pack("<IBBH8xQQQ", 10, 0, 0, record.get("regs", 0), start, end, end)
        body += struct.pack("<III3i3iii", *where, *record["grid"], *record["block"], 0, 0)
        body += struct.pack("<IIIq", 0, 0, corr, 0)
        return body.ljust(216 if major >= 13 else 208, b"\0"), record["name"].encode()
    if kind == "memcpy":
        body = struct.pack(
            "<IBBBBQQQ", 1, record["copy"], record["src"], record["dst"], 0, record["bytes"], start, end
        )
        return (body + struct.pack("<IIII", *where, corr)).ljust(96 if major >= 13 else 88, b"\0"), b""
    if kind == "memset":
        body = struct.pack("<IIQQQ", 2, record.get("value", 0), record["bytes"], start, end)
        return (body + struct.pack("<IIII", *where, corr)).ljust(88, b"\0"), b""
    if kind == "overhead":
        body = struct.pack("<II16xQQ", 17, record["what"], start, end)
        return body.ljust(56 if major >= 13 else 40, b"\0"), b""
    assert kind == "sync"
    body = struct.pack("<IIQQIII", 38, record["type"], start, end, corr, *where[1:])
    return body.ljust(56 if major >= 13 else 40, b"\0"), b""


def stub_file(path: Path, records: Sequence[Record], version: int = 130001) -> None:
    """What the stub delivers; times count from the first record's start."""
    base = min(record["start"] for record in records) - 1000  # a time of 0 means "none"
    with path.open("wb") as file:
        file.write(struct.pack("<II", version, len(records)))
        for record in records:
            body, name = cupti_record(record, base, 13 if version > 100 else 12)
            file.write(struct.pack("<II", len(body), len(name)) + body + name)


class Bench:
    """Builds once, runs programs with rings in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inject = folder / "capture.so"
        self.driver = folder / "driver"
        self.stub = folder / "stub" / "libcupti.so.13"
        self.stub.parent.mkdir()
        sources = sorted((SOURCES / "gpu_capture").glob("*.c"))
        self._cc(
            *sources, f"-I{SOURCES / 'include'}", "-shared", "-fPIC", "-fvisibility=hidden",
            '-DCUZK_GPU__TOOLKIT="/nowhere"', '-DCUZK_GPU__SONAME="libnowhere.so."', "-Wall", "-Wextra", "-Werror", "-o", self.inject,
        )  # fmt: skip
        self._cc(DATA / "stub_cupti.c", "-shared", "-fPIC", "-w", "-o", self.stub)
        self._cc(DATA / "driver.c", "-o", self.driver)

    def _cc(self, *arguments: str | Path) -> None:
        made = subprocess.run(
            ["cc", "-O1", "-pthread", *map(str, arguments), "-ldl"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert made.returncode == 0, made.stderr

    def compile(self, source: str, *arguments: str) -> Path:
        """A program of one C file."""
        path = self.folder / "program.c"
        path.write_text(source)
        self._cc(path, *arguments, "-o", path.with_suffix(""))
        return path.with_suffix("")


class Runs:
    """Programs of one test."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self.folder = folder
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("CUZK_", "STUB_", "CUDA_"))}
        self.env |= {
            "XDG_RUNTIME_DIR": str(folder),
            "CUDA_INJECTION64_PATH": str(bench.inject),
            "NVTX_INJECTION64_PATH": str(bench.inject),
            "CUZK_CUPTI": str(bench.stub),
            "STUB_CUPTI_LOG": str(folder / "calls"),
        }

    def driver(self, *arguments: str | int, **env: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.bench.driver, *arguments, **env)

    def run(self, *command: str | int | Path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            list(map(str, command)),
            capture_output=True,
            text=True,
            env=self.env | env,
            timeout=60,
            check=False,
        )

    def rings(self) -> list[reader.Ring]:
        """All rings there are, by name."""
        found = []
        for path in sorted((self.folder / "cuzk").glob("*.ring")):
            with contextlib.suppress(reader.RingError):  # just being made
                found.append(reader.Ring(path))
        return found

    def watched(self, program: str, **env: str) -> Snapshot:
        """What a store holds of a Python program once it has said "here" and waits for a line."""
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.env | env,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            (ring,) = self.rings()
            store = Store()
            store.append(RingSource(ring.path, time.monotonic_ns).poll())
            return store.snapshot()
        finally:
            process.kill()
            process.communicate()

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().split() if path.exists() else []
