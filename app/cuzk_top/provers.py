"""Provers on this machine that are not traced: known programs, and whatever computes on a GPU.

From /proc, of any user; nothing is attached to or asked. Beside each, what can be read of it now and the
exact way to read more. A service's answer is a systemd drop-in, anything else is started anew under `cuzk-top
run`.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuzk_tracer import gpu

KNOWN: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("cuzk", re.compile(r"^cuzk(-daemon|-server|d)?$")),
    ("curio", re.compile(r"^curio$")),
    ("lotus", re.compile(r"^lotus(-miner|-worker|-seal-worker|-provider|-bench)?$")),
    ("rapidsnark", re.compile(r"^rapidsnark$")),
)
"""Kind and the name of its executable."""
SCRIPTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("snarkjs", re.compile(r"(^|/)snarkjs(\.c?js)?$|/snarkjs/")),
)
"""Kind and an argument that tells it, of programs that an interpreter runs."""
INTERPRETERS = frozenset({"node", "nodejs", "bun", "deno"})
_UNIT = re.compile(r"/([^/]+\.service)(/|$)")


@dataclass(frozen=True, slots=True)
class Prover:
    """One process. `unit` is its systemd service, "" where it is none's; `gpus` those it computes on."""

    pid: int
    kind: str
    command: tuple[str, ...]
    uid: int
    age_ns: int
    unit: str = ""
    gpus: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """What to call it."""
        return self.kind or (Path(self.command[0]).name if self.command else "?")

    @property
    def user(self) -> str:
        """Who runs it."""
        try:
            return pwd.getpwuid(self.uid).pw_name
        except KeyError:
            return str(self.uid)


def find(
    on_gpu: Mapping[int, tuple[int, ...]],
    traced: Iterable[int],
    now_ns: int,
    root: Path = Path("/proc"),
) -> list[Prover]:
    """All untraced provers, those on a GPU first, then by pid.

    `on_gpu` is the GPUs of each process that computes on one (from NVML), `traced` the processes that have a
    ring, `now_ns` CLOCK_BOOTTIME, `root` /proc, elsewhere in tests.
    """
    known = set(traced) | {os.getpid()}
    found = []
    for entry in root.iterdir():
        if not entry.name.isdigit() or int(entry.name) in known:
            continue
        pid = int(entry.name)
        prover = _look(entry, pid, on_gpu.get(pid, ()), now_ns)
        if prover is not None:
            found.append(prover)
    return sorted(found, key=lambda prover: (not prover.gpus, prover.pid))


def one(
    pid: int, on_gpu: Mapping[int, tuple[int, ...]], now_ns: int, root: Path = Path("/proc")
) -> Prover | None:
    """Any process as one of these; None when it is gone."""
    return _look(root / str(pid), pid, on_gpu.get(pid, ()), now_ns, anything=True)


def _look(
    folder: Path, pid: int, gpus: tuple[int, ...], now_ns: int, *, anything: bool = False
) -> Prover | None:
    try:
        command = tuple(folder.joinpath("cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1])
        if not command:
            return None  # a kernel thread, or gone
        kind = kind_of(command)
        if not kind and not gpus and not anything:
            return None
        uid = folder.stat().st_uid
        stat = folder.joinpath("stat").read_text("utf-8", "replace")
        ticks = int(stat[stat.rindex(")") + 2 :].split()[19])  # field 22: when it began, since boot
    except (OSError, ValueError, IndexError):
        return None
    age = max(0, now_ns - ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK")))
    return Prover(pid, kind, command, uid, age, _unit(folder), gpus)


def kind_of(command: tuple[str, ...]) -> str:
    """Which known prover a command line is; "" for none."""
    program = Path(command[0]).name
    for kind, pattern in KNOWN:
        if pattern.match(program):
            return kind
    if program in INTERPRETERS:
        for kind, pattern in SCRIPTS:
            if any(pattern.search(argument) for argument in command[1:3]):
                return kind
    return ""


def _unit(folder: Path) -> str:
    try:
        found = _UNIT.findall(folder.joinpath("cgroup").read_text("utf-8", "replace"))
    except OSError:
        return ""
    units = [name for name, _ in found if not name.startswith("user@")]
    return units[-1] if units else ""


def readable(prover: Prover, uid: int | None = None) -> str:
    """What `attach` can show of it now. `uid`: of who asks, us if not given."""
    mine = os.geteuid() if uid is None else uid
    shown = "CPU, faults and threads, memory"
    if mine in (0, prover.uid):
        shown += ", disk"
    return shown + (f", GPU {', '.join(map(str, prover.gpus))}" if prover.gpus else "")


def remedy(prover: Prover, uid: int | None = None) -> list[str]:
    """How to read more: the lines to type. `uid`: of who asks, us if not given."""
    mine = os.geteuid() if uid is None else uid
    if prover.unit:
        return _drop_in(prover.unit, prover.user)
    command = shlex.join(prover.command)
    if mine in (0, prover.uid):
        return [f"stop it and start it with tracing: cuzk-top run -- {command}"]
    return [
        f"it belongs to {prover.user}; as that user: sudo -u {prover.user} cuzk-top run -- {command}",
    ]


def _drop_in(unit: str, user: str) -> list[str]:
    library = gpu.library()
    if library is None:
        return ["the capture library was not built: install cuzk-top where a C compiler is"]
    variables = {gpu.CUDA_VARIABLE: library, gpu.NVTX_VARIABLE: library, "CUZK_TRACE": "off"}
    if files := gpu.cupti_files():
        variables[gpu.CUPTI_VARIABLE] = ":".join(files)
    return [
        f"sudo systemctl edit {unit}",
        "[Service]",
        *(f"Environment={name}={value}" for name, value in variables.items()),
        f"sudo systemctl restart {unit}",
        f"sudo -u {user} cuzk-top attach --detail all PID   (dormant until then: CUZK_TRACE=off)",
    ]


def hidden(root: Path = Path("/proc")) -> str | None:
    """Why other users' processes are not all to be seen, and what to do; None when they are."""
    try:
        mounts = root.joinpath("mounts").read_text("utf-8", "replace")
    except OSError:
        return None
    mounted = [
        words for line in mounts.splitlines() if len(words := line.split()) > 3 and words[1] == "/proc"
    ]
    if not mounted or os.geteuid() == 0:
        return None
    # Of several mounts one over the other the last is seen.
    options = dict(option.partition("=")[::2] for option in mounted[-1][3].split(","))
    if options.get("hidepid", "0") in ("0", "off"):
        return None
    group = options.get("gid")
    if group is not None and group in map(str, (os.getegid(), *os.getgroups())):
        return None
    joined = f"join the group with gid {group}, or " if group else ""
    return f"other users' processes are hidden (hidepid={options['hidepid']}): {joined}use sudo cuzk-top"


def on_gpus() -> dict[int, tuple[int, ...]]:
    """GPUs of each process that computes on one, from NVML; none where there is no driver."""
    from cuzk_top.probes import nvml, nvml_readings  # noqa: PLC0415

    found: dict[int, tuple[int, ...]] = {}
    if not nvml.driver():
        return found
    try:
        import pynvml  # noqa: PLC0415

        pynvml.nvmlInit()
    except Exception:
        return found
    try:
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            for process in nvml_readings.processes(pynvml, handle):
                found[process.pid] = (*found.get(process.pid, ()), index)
    except pynvml.NVMLError:
        pass
    finally:
        pynvml.nvmlShutdown()
    return found
