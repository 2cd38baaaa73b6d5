"""Checks of the host: what proves on the CPU, what traces, places, the terminal, permissions."""

from __future__ import annotations

import importlib
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from cuzk_top import environment, paths, provers, theme
from cuzk_top.doctor import Check
from cuzk_tracer import gpu, places
from cuzk_tracer.opening import private_folder

RING_BYTES = 64 << 20
"""Room that a prover of many threads needs: a MiB a thread and 8 for each GPU."""
TRACE_BYTES = 100 << 20
LEAST_COLUMNS, LEAST_ROWS = 60, 16
"""Below this the screen says what it needs."""
INSTALL_AGAIN = "install a C++ compiler (sudo apt install g++), then: pip install --force-reinstall cuzk-top"


def checks(env: Mapping[str, str] | None = None, root: Path = Path("/")) -> list[Check]:
    """All of them. `env`: by default that of the user. `root` is /, elsewhere in tests."""
    env = environment.as_given() if env is None else env
    return [
        _pairings(),
        _host_library(),
        _compiler(env),
        _tracer(),
        _capture(),
        _ring_folder(),
        _traces_folder(env),
        _terminal(env),
        _memlock(),
        _events(root),
        _others(root),
    ]


def _pairings() -> Check:
    key, title = "host.pairing", "pairing libraries"
    try:
        from cuzk_kernels import curves, pairing  # noqa: PLC0415 (compiled libraries: they may not load)

        chosen = [(curve, pairing.choose(curve)) for curve in (curves.BN254, curves.BLS12_381)]
    except Exception as error:
        cost = "no proof can be verified, and none is given out unverified"
        why = f"none loads: {error}"
        return Check(
            key, title, "missing", why, cost, "pip install py_ecc zksnake py_arkworks_bls12381", True
        )
    found = ", ".join(f"{each.name} for {curve.label}" for curve, each in chosen)
    slow = [curve.label for curve, each in chosen if each.slow]
    if not slow:
        return Check(key, title, "ok", found, needed=True)
    cost = f"a second more a proof over {' and '.join(slow)}"
    return Check(key, title, "limited", found, cost, "pip install zksnake py_arkworks_bls12381", needed=True)


def _host_library() -> Check:
    from cuzk_kernels.backend import native_library  # noqa: PLC0415 (a shared library)

    key, title = "host.library", "host library"
    why = native_library.available()
    if why is not None:
        cost = "proofs are made in pure Python: of small circuits only"
        return Check(key, title, "missing", why, cost, INSTALL_AGAIN)
    level = native_library.cpu_level()
    threads = native_library.library().threads()
    names = {"ifma": "AVX-512 IFMA", "adx": "MULX and ADX", "portable": "portable C++"}
    found = f"{names[level]}, {threads} thread{'s' if threads > 1 else ''}"
    if level != "portable":
        return Check(key, title, "ok", found)
    cost = "2.2 s instead of 0.74 with AVX-512 IFMA, for 65,533 constraints over BN254 on 2 cores"
    return Check(key, title, "limited", found, cost, "use a processor with BMI2 and ADX (since 2015)")


def _compiler(env: Mapping[str, str]) -> Check:
    key, title = "host.compiler", "C++ compiler"
    for name in (env.get("CXX", ""), "c++", "g++", "clang++"):
        found = shutil.which(name) if name else None
        if found:
            return Check(key, title, "ok", found)
    cost = "nothing now; when cuzk-top is installed again, its libraries are not built"
    return Check(key, title, "missing", "none found", cost, "sudo apt install g++")


def _tracer() -> Check:
    key, title = "tracer.writer", "tracer"
    try:
        importlib.import_module("cuzk_tracer._native")
    except ImportError as error:
        cost = "spans of a Python prover cost several times as much"
        return Check(key, title, "limited", f"the pure-Python writer: {error}", cost, INSTALL_AGAIN)
    if os.environ.get("CUZK_TRACER") == "python":
        cost = "spans of a Python prover cost several times as much"
        return Check(key, title, "limited", "CUZK_TRACER=python", cost, "unset CUZK_TRACER")
    return Check(key, title, "ok", "C extension")


def _capture() -> Check:
    key, title = "tracer.capture", "capture library"
    library = gpu.library()
    if library is not None:
        return Check(key, title, "ok", library)
    cost = "no kernels, copies and NVTX ranges of any program"
    return Check(key, title, "missing", "not built", cost, INSTALL_AGAIN)


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _writable(folder: Path) -> str | None:
    """Why nothing can be written into a folder (or into the nearest above it that exists); None if it can."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return f"{folder}: {error.strerror}"


def _free(folder: Path) -> int:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    facts = os.statvfs(folder)
    return facts.f_bavail * facts.f_frsize


def _ring_folder() -> Check:
    key, title = "places.rings", "ring folder"
    cost = "proofs are made, but none of it is seen"
    reasons = []
    for folder in map(Path, places.folders()):
        try:
            private_folder(str(folder))
            why = _writable(folder)
        except OSError as error:
            why = f"{folder}: {error.strerror or error}"
        if why is not None:
            reasons.append(why)
            continue
        free = _free(folder)
        if free >= RING_BYTES:
            return Check(key, title, "ok", f"{folder}, {_gib(free)} free")
        remedy = f"sudo mount -o remount,size=1G {_mount(folder)}   (in a container: --shm-size=1g)"
        return Check(key, title, "limited", f"{folder}, only {free >> 20} MiB free", cost, remedy)
    remedy = "export XDG_RUNTIME_DIR=/run/user/$(id -u), or make /dev/shm writable"
    return Check(key, title, "missing", "; ".join(reasons), cost, remedy)


def _mount(folder: Path) -> Path:
    while not folder.is_mount() and folder != folder.parent:
        folder = folder.parent
    return folder


def _traces_folder(env: Mapping[str, str]) -> Check:
    key, title = "places.traces", "traces folder"
    folder = paths.traces_folder(env)
    why = _writable(folder)
    if why is not None:
        cost = "traces and medians of past proofs are not kept"
        return Check(key, title, "missing", why, cost, "export XDG_STATE_HOME=/a/folder/of/yours")
    free = _free(folder)
    if free < TRACE_BYTES:
        cost = "recordings stop when it is full"
        return Check(
            key, title, "limited", f"{folder}, only {free >> 20} MiB free", cost, f"rm {folder}/*.cuzk"
        )
    return Check(key, title, "ok", f"{folder}, {_gib(free)} free")


def _terminal(env: Mapping[str, str]) -> Check:
    key, title = "terminal", "terminal"
    skin = theme.choose(None, False, env)
    depths = {"true": "24-bit colour", "256": "256 colours", "16": "16 colours", "mono": "no colours"}
    found = [depths[skin.depth], "ASCII only" if skin.ascii else "UTF-8"]
    problems, remedies = [], []
    if skin.depth in ("256", "16") and not env.get("NO_COLOR"):
        problems.append("nearby hues look alike")
        remedies.append("export COLORTERM=truecolor   (if the terminal can)")
    if skin.ascii:
        problems.append("coarser bars")
        plain = env.get("TERM", "").startswith(theme.PLAIN_TERMS)
        remedies.append("a terminal emulator instead" if plain else "export LC_ALL=C.UTF-8")
    if not sys.stdout.isatty():
        found.append("standard output is none")
    else:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        found.append(f"{columns}x{rows}")
        if columns < LEAST_COLUMNS or rows < LEAST_ROWS:
            problems.append("too small for the screen")
            remedies.append(f"make it at least {LEAST_COLUMNS}x{LEAST_ROWS}")
    state = "limited" if problems else "ok"
    return Check(key, title, state, ", ".join(found), "; ".join(problems), "; ".join(remedies))  # type: ignore[arg-type]


def _memlock() -> Check:
    key, title = "limits.memlock", "locked memory"
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    if limit == resource.RLIM_INFINITY:
        return Check(key, title, "ok", "no limit")
    found = f"at most {limit / (1 << 20):,.0f} MiB a process"
    cost = "a prover that locks more with mlock (keys, buffers) fails or goes on with memory that may page"
    remedy = "ulimit -l unlimited as root; of a service: LimitMEMLOCK=infinity"
    return Check(key, title, "limited", found, cost, remedy)


def _events(root: Path) -> Check:
    """Nothing here uses perf or attaches with ptrace: said, because other tools need it."""
    found = []
    for name, place in (
        ("ptrace_scope", "yama/ptrace_scope"),
        ("perf_event_paranoid", "perf_event_paranoid"),
    ):
        base = "proc/sys/kernel"
        try:
            found.append(f"{name} {root.joinpath(base, place).read_text().strip()}")
        except OSError:
            found.append(f"{name} not set")
    return Check("permissions.kernel", "perf and ptrace", "ok", f"{', '.join(found)}: cuzk-top needs neither")


def _others(root: Path) -> Check:
    key, title = "permissions.others", "other users' provers"
    hidden = provers.hidden(root / "proc")
    if hidden is not None:
        why, _, remedy = hidden.partition(": ")
        return Check(key, title, "limited", why, "their processes are not listed", remedy)
    if os.geteuid() == 0:
        return Check(key, title, "ok", "root: the rings of all can be read")
    cost = "of other users' provers only what /proc tells: no spans, kernels or copies"
    remedy = "sudo cuzk-top, or as that user: sudo -u USER cuzk-top attach PID"
    return Check(key, title, "limited", "rings are private to their user", cost, remedy)
