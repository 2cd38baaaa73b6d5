"""Where a recording goes that the command line asks for; and what is kept in memory, as a trace."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cuzk_top import paths
from cuzk_top.errors import InputError

if TYPE_CHECKING:
    from cuzk_top.model import Snapshot
    from cuzk_top.recording import Recorder


def place(output: str | None, job: str) -> Path | None:
    """The file that was asked for, or a new one in the traces folder; None (and a line) where that fails.

    Raises InputError when the file that was asked for cannot be written: before anything was started.
    """
    if output is not None:
        path = Path(output)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        return path
    try:
        return paths.new_trace(paths.traces_folder(), job, time.strftime("%Y%m%d-%H%M%S"))
    except OSError as error:
        _no_trace(error, paths.traces_folder())
        return None


def begin(path: Path | None, max_bytes: int | None) -> Recorder | None:
    """The recording itself; None (and a line) where it cannot be made: then the work goes on without."""
    if path is None:
        return None
    from cuzk_top import machine, recording  # noqa: PLC0415 (what is traced starts while these load)

    try:
        return recording.Recorder(path, machine.facts(), max_bytes)
    except OSError as error:
        _no_trace(error, path)
        return None


def buffer(snapshot: Snapshot) -> Path:
    """Write what a snapshot holds as a packed trace into the traces folder, named by the time in UTC.

    May be called from any thread while the session goes on. Raises InputError when it cannot be written.
    """
    from cuzk_top import kept, packing  # noqa: PLC0415 (pyarrow: only whoever saves waits for it)

    folder = paths.traces_folder()
    job = snapshot.session.meta.get("job", snapshot.session.name)
    try:
        path = paths.new_trace(folder, job, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
        packing.write(kept.trace(snapshot), path)
    except OSError as error:
        raise InputError(f"{error.filename or folder}: {error.strerror or error}") from error
    return path


def _no_trace(error: OSError, path: Path) -> None:
    print(f"cuzk-top: no trace is saved: {error.filename or path}: {error.strerror}", file=sys.stderr)
