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
    from cuzk_top.model import Batch, Snapshot
    from cuzk_top.recording import Recorder

LATE_NS = 1_000_000_000


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


class LateRecorder:
    """A `recording.Recorder` that is made a second after the first batch came: what writes a trace takes as
    long to load as a tenth of what is done until the first frame. Raises OSError at once where the file
    cannot be made.

    Until then the ring alone has what came, from which `recover` reads it.
    """

    def __init__(self, path: Path, facts: dict[str, str]) -> None:
        self.path = path
        self._facts = facts
        self._waiting: list[Batch] = []
        self._recorder: Recorder | None = None
        path.unlink(missing_ok=True)  # a viewer may have the old one mapped
        path.touch(0o600)

    def append(self, batch: Batch) -> None:
        """Take a batch in. Raises OSError (a full disk, say)."""
        if self._recorder is not None:
            self._recorder.append(batch)
            return
        self._waiting.append(batch)
        if batch.ended or batch.now_ns - self._waiting[0].now_ns >= LATE_NS:
            self._begin()

    def close(self) -> None:
        """Finish the recording (see `recording.Recorder.close`)."""
        (self._recorder or self._begin()).close()

    def _begin(self) -> Recorder:
        from cuzk_top import recording  # noqa: PLC0415

        self._recorder = recording.Recorder(self.path, self._facts)
        for batch in self._waiting:
            self._recorder.append(batch)
        self._waiting.clear()
        return self._recorder


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
