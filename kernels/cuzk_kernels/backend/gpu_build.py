"""Compiles the kernels with nvcc, once: cubins are kept under a fingerprint of everything that went in.

The fingerprint covers every source and header (the list is the compiler's own, -M), the flags, the
compiler's version and the target. It is embedded in the module as `cuzk_fingerprint`. Sources are hashed
before and after compiling, and compiled again if they changed meanwhile.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from cuzk_kernels.backend.gpu_kernels import unit_source
from cuzk_kernels.errors import MissingError

SOURCES = Path(__file__).resolve().parent.parent / "cuda"
FLAGS = ("-std=c++17", "-O3")


class Built(NamedTuple):
    """A compiled unit. reused: whether the cache had it; why: the reason where not; record: what it is of."""

    path: Path
    fingerprint: str
    reused: bool
    why: str
    record: dict[str, Any]


def cache_directory() -> Path:
    """CUZK_KERNEL_CACHE, else cuzk-top/kernels under the user's cache directory."""
    own = os.environ.get("CUZK_KERNEL_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "cuzk-top" / "kernels"


def build(unit: str, capability: tuple[int, ...]) -> Built:
    """The compiled unit for a compute capability, from the cache where it is current.

    Raises MissingError without nvcc where the cache has nothing current, or when compiling fails.
    """
    target = f"sm_{capability[0]}{capability[1]}"
    record_path = cache_directory() / f"{unit}-{target}.json"
    nvcc = find_nvcc()
    version = _version(nvcc) if nvcc else None
    record = _read(record_path)
    why = _stale(record, record_path, version)
    if record is not None and why is None:
        return Built(record_path.with_name(record["file"]), record["fingerprint"], True, "", record)
    if nvcc is None or version is None:
        raise MissingError(
            f"the GPU kernels must be compiled ({why}) and nvcc is missing: install the CUDA toolkit, or set "
            "CUZK_NVCC to its nvcc"
        )
    return _compile(unit, target, record_path, nvcc, version, why or "")


class Sources:
    """The sources of a compiled unit as they are on disk now, hashed again only when one was touched."""

    def __init__(self, record: dict[str, Any]) -> None:
        self._record = record
        self._seen: object = None
        self._now = ""

    def fingerprint(self) -> str:
        """What compiling them now would carry; "gone" where one is no longer there."""
        try:
            seen = [
                (stat.st_mtime_ns, stat.st_size, stat.st_ino)
                for stat in ((SOURCES / name).stat() for name in self._record["sources"])
            ]
            if seen != self._seen:
                record = self._record
                self._now = fingerprint(
                    record["sources"], record["flags"], record["compiler"], record["target"]
                )
                self._seen = seen
        except OSError:
            return "gone"
        return self._now


def cached() -> list[tuple[str, str | None]]:
    """What the cache holds, as ``UNIT-TARGET``, each with the reason why it cannot be used or None."""
    found = []
    for path in sorted(cache_directory().glob("*-sm_*.json")):
        try:
            why = _stale(json.loads(path.read_text()), path, None)
        except (OSError, ValueError, KeyError, TypeError):
            why = "its record is damaged"
        found.append((path.stem, why))
    return found


def find_nvcc() -> str | None:
    """The compiler: CUZK_NVCC, else the one in PATH, else the toolkit's in its usual place."""
    own = os.environ.get("CUZK_NVCC")
    if own:
        return own
    return shutil.which("nvcc") or next(
        (str(p) for p in (Path("/usr/local/cuda/bin/nvcc"),) if p.exists()), None
    )


def _version(nvcc: str) -> str:
    try:
        text = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise MissingError(f"{nvcc} does not run: {error}") from None
    found = re.search(r"V(\d+\.\d+\.\d+)", text)
    return found[1] if found else text.strip()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def _stale(record: dict[str, Any] | None, path: Path, version: str | None) -> str | None:
    """Why a record cannot be used, or None."""
    if record is None:
        return "none are cached"
    if version is not None and record["compiler"] != version:
        return f"the compiler is now {version}"
    try:
        now = fingerprint(record["sources"], record["flags"], record["compiler"], record["target"])
    except OSError:
        return "a source is gone"
    if now != record["fingerprint"]:
        return "the sources changed"
    return None if path.with_name(record["file"]).exists() else "the cached file is gone"


def fingerprint(sources: list[str], flags: list[str], compiler: str, target: str) -> str:
    """Over the bytes of every source (names relative to cuda/), the flags, the compiler and the target."""
    total = hashlib.sha256(json.dumps([flags, compiler, target]).encode())
    for name in sources:
        total.update(name.encode() + b"\0" + hashlib.sha256((SOURCES / name).read_bytes()).digest())
    return total.hexdigest()[:32]


def _compile(unit: str, target: str, record_path: Path, nvcc: str, version: str, why: str) -> Built:
    source, definitions = unit_source(unit)
    flags = [*FLAGS, *definitions]
    command = [nvcc, *flags, f"-I{SOURCES}"]
    mode = ["-cubin", f"-arch={target}"]
    if not knows(nvcc, target):
        mode = ["-ptx", f"-arch={_nearest(nvcc, target)}"]  # the driver compiles the rest
    record_path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(3):
        sources = _dependencies([*command, *mode[1:], "-M", str(SOURCES / source)])
        before = fingerprint(sources, flags, version, target)
        with tempfile.TemporaryDirectory(dir=record_path.parent) as folder:
            out = Path(folder) / "kernels"
            embedded = f'-DCUZK_FINGERPRINT="{before}"'
            _run([*command, *mode, embedded, "-o", str(out), str(SOURCES / source)])
            if fingerprint(sources, flags, version, target) != before:
                continue
            file = record_path.with_name(f"{unit}-{target}-{before}.cubin")
            out.replace(file)
        record = {
            "fingerprint": before, "file": file.name, "sources": sources, "flags": flags,
            "compiler": version, "target": target,
        }  # fmt: skip
        partial = record_path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps(record, indent=1))
        partial.replace(record_path)
        return Built(file, before, False, why, record)
    raise MissingError(f"{source} kept changing while it was compiled")


def knows(nvcc: str, target: str) -> bool:
    """Whether nvcc makes machine code for a target such as "sm_90"."""
    return target in _run([nvcc, "--list-gpu-code"]).split()


def _nearest(nvcc: str, target: str) -> str:
    """The newest virtual architecture of nvcc that a GPU of the target runs."""
    most = int(target.removeprefix("sm_"))
    known = [int(name) for name in re.findall(r"compute_(\d+)", _run([nvcc, "--list-gpu-arch"]))]
    usable = [number for number in known if number <= most]
    if not usable:
        raise MissingError(f"{nvcc} makes no code that {target} runs: install a CUDA toolkit for it")
    return f"compute_{max(usable)}"


def _dependencies(command: list[str]) -> list[str]:
    """The sources a unit is made of, below cuda/; those of the toolkit go with the compiler's version."""
    words = _run(command).replace("\\\n", " ").split(":", 1)[1].split()
    paths = {Path(word).resolve() for word in words}
    return sorted(str(p.relative_to(SOURCES)) for p in paths if p.is_relative_to(SOURCES))


def _run(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if "error" in line.lower()] or ["no message"]
        raise MissingError(f"nvcc failed: {lines[0]}")
    return result.stdout
