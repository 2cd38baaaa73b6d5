"""Saved traces in other programs' formats: the suffix chooses, every module has ``write(trace, path)``."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

from cuzk_top.errors import InputError
from cuzk_top.model import Columns, Run
from cuzk_top.trace import Trace

FORMATS = {
    ".pftrace": "perfetto",
    ".json": "chrome",
    ".parquet": "parquet",
    ".csv": "csv",
    ".cuzk": "cuzk",
}
"""Suffix -> module of this package."""

MANY = {".pftrace": 3_000_000, ".json": 1_000_000}
"""Records above which the programs that read a format have a hard time."""


def check(path: Path) -> None:
    """Raises InputError when nothing is known of this suffix."""
    if path.suffix not in FORMATS:
        raise InputError(f"{path}: which format? The suffix says: {' '.join(FORMATS)}")


def write(trace: Trace, path: Path) -> str:
    """Write the trace; a sentence when there is something to say about it, else "".

    Raises InputError when the suffix is unknown, OSError when the file cannot be written.
    """
    check(path)
    importlib.import_module(f"cuzk_top.exports.{FORMATS[path.suffix]}").write(trace, path)
    if len(trace) > MANY.get(path.suffix, len(trace)):
        return f"{len(trace):,} records are much for who reads {path.suffix}: --from and --to export a part"
    return ""


def trim(trace: Trace, begin_ns: int | None, end_ns: int | None) -> Trace:
    """The records that touch a stretch of time (monotonic nanoseconds), as they are: nothing is cut short."""
    if begin_ns is None and end_ns is None:
        return trace
    runs = []
    for run in trace.runs:
        columns: Columns = run.columns
        touches = columns.end_ns >= (begin_ns if begin_ns is not None else -(2**63))
        if end_ns is not None:
            touches &= columns.start_ns <= end_ns
        if touches.any():
            runs.append(Run(run.track, run.depth, columns.take(touches)))
    first, last = ("" if t is None else str(t - trace.session.started_ns) for t in (begin_ns, end_ns))
    session = trace.session.copy()
    session.meta["trimmed_ns"] = f"{first}..{last}"  # from the session's start
    return replace(trace, session=session, runs=tuple(runs))


def first_ns(trace: Trace) -> int:
    """When the first record began, which is where the screen's clock starts; 0 in an empty trace."""
    starts = [int(run.columns.start_ns.min()) for run in trace.runs if len(run.columns)]
    return min(starts, default=0)
