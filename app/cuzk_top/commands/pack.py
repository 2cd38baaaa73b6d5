"""``cuzk-top pack``: the sorted file of a trace in place of its stream, compressed on request."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuzk_top import packing, trace
from cuzk_top.errors import InputError


def run(args: argparse.Namespace) -> int:
    """Pack one trace where it lies."""
    path = Path(args.file)
    segments = trace.segments(path)
    try:
        before = sum(part.stat().st_size for part in (*segments, path))
        opened = packing.pack(path, path, zstd=args.zstd)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    for segment in segments:
        segment.unlink(missing_ok=True)
    for problem in opened.problems:
        print(problem)
    print(f"{path}: {len(opened):,} records, {before:,} bytes before, {path.stat().st_size:,} now")
    return 0
