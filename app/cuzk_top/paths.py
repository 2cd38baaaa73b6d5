"""Where things are kept, and how much of it."""

import os
from collections.abc import Mapping
from pathlib import Path

TRACES_KEPT = 20
TRACES_BYTES = 1 << 30


def traces_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Saved traces: $XDG_STATE_HOME/cuzk-top/traces."""
    return _base(env, "XDG_STATE_HOME", ".local/state") / "traces"


def history_folder(env: Mapping[str, str] = os.environ) -> Path:
    """How long past proofs took: $XDG_STATE_HOME/cuzk-top/history."""
    return _base(env, "XDG_STATE_HOME", ".local/state") / "history"


def cache_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Demo circuits and keys, cubins: $XDG_CACHE_HOME/cuzk-top."""
    return _base(env, "XDG_CACHE_HOME", ".cache")


def _base(env: Mapping[str, str], variable: str, default: str) -> Path:
    value = env.get(variable, "")
    # The specification: a relative path is to be ignored.
    root = Path(value) if value and Path(value).is_absolute() else Path(env.get("HOME", "/")) / default
    return root / "cuzk-top"


def recent_traces(folder: Path) -> list[Path]:
    """Saved traces, newest first."""
    found = []
    for path in folder.glob("*.cuzk"):
        try:
            found.append((path.stat().st_mtime_ns, path))
        except OSError:
            continue  # removed by somebody else since it was listed
    return [path for _, path in sorted(found, reverse=True)]


def new_trace(folder: Path, job: str, stamp: str) -> Path:
    """A path for a new trace, `STAMP-JOB.cuzk`; makes the folder (0700) and room in it. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    prune(folder, keep=TRACES_KEPT - 1)
    safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in job).strip("-")[:60] or "trace"
    path = folder / f"{stamp}-{safe}.cuzk"
    number = 2
    while path.exists():
        path = folder / f"{stamp}-{safe}-{number}.cuzk"
        number += 1
    return path


def prune(folder: Path, keep: int = TRACES_KEPT, limit_bytes: int = TRACES_BYTES) -> None:
    """Remove the oldest traces beyond `keep` files or `limit_bytes` in all; the newest always stays."""
    total = 0
    for place, path in enumerate(recent_traces(folder)):
        try:
            total += path.stat().st_size
            if place and (place >= keep or total > limit_bytes):
                path.unlink()
        except OSError:
            continue
