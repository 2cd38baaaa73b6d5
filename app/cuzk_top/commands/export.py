"""``cuzk-top export``: a trace, or a stretch of it, in the format that the suffix names."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuzk_top import exports, trace, viewport
from cuzk_top.errors import InputError


def run(args: argparse.Namespace) -> int:
    """Open, trim, write."""
    output = Path(args.output)
    exports.check(output)
    opened = trace.open(args.file)
    origin = exports.first_ns(opened)
    offset = opened.session.realtime_ns(origin)
    begin, end = (None if text is None else moment(text, origin, offset) for text in (args.begin, args.end))
    chosen = exports.trim(opened, begin, end)
    try:
        note = exports.write(chosen, output)
    except OSError as error:
        raise InputError(f"{output}: {error.strerror or error}") from error
    for problem in chosen.problems:
        print(problem)
    if note:
        print(note)
    print(f"{output}: {len(chosen):,} of {len(opened):,} records, {output.stat().st_size:,} bytes")
    return 0


def moment(text: str, origin_ns: int, realtime_ns: int | None) -> int:
    """A time as the screen's `:` takes it, in monotonic nanoseconds. Raises InputError."""
    found = viewport.parse_time(text, origin_ns, None if realtime_ns is None else realtime_ns - origin_ns)
    if found is None:
        raise InputError(f"not a time: {text!r}; try 12.5, 250ms, 1:02.5 or 14:03:05")
    return found
