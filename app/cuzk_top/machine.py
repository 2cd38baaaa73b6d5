"""Facts about this machine for a trace's metadata: a regression hunt has to see when one of them moved."""

import os
import resource
import sys
from pathlib import Path


def facts() -> dict[str, str]:
    """Host, boot, CPU, kernel and limits as strings; what cannot be read is left out."""
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    system = os.uname()  # the modules `platform` and `socket` would cost each start 10 ms
    found = {
        "host": system.nodename,
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
        "cpu": _cpu_model(),
        "cores": str(os.cpu_count() or ""),
        "kernel": system.release,
        "thp": _chosen(_read("/sys/kernel/mm/transparent_hugepage/enabled")),
        "memlock_bytes": "unlimited" if limit == resource.RLIM_INFINITY else str(limit),
        "python": sys.version.split(" ")[0],
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
    return os.uname().machine


def _chosen(text: str) -> str:
    """The word in brackets of "always [madvise] never"."""
    return text.partition("[")[2].partition("]")[0]
