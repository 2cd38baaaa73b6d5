"""Facts about this machine for a trace's metadata: a regression hunt has to see when one of them moved."""

import os
import platform
import resource
import socket
from pathlib import Path


def facts() -> dict[str, str]:
    """Host, boot, CPU, kernel and limits as strings; what cannot be read is left out."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    found = {
        "host": socket.gethostname(),
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count() or ""),
        "kernel": platform.release(),
        "thp": _chosen(_read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "memlock_bytes": "unlimited" if limit == resource.RLIM_INFINITY else str(limit),
        "python": platform.python_version(),
    }
    return {f"machine.{key}": value for key, value in found.items() if value}


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _cpu_model() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _chosen(text: str) -> str:
    """The word in brackets of "always [madvise] never"."""
    return text.partition("[")[2].partition("]")[0]
