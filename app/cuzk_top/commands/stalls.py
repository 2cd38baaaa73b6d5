"""``cuzk-top stalls``: what a saved trace waited for, ranked, as text or JSON.

Exit code 1 when closing the ranked findings would save more than ``--fail-over`` of the proof (see
`cuzk_top.stalls.told`, which also documents the JSON).
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from cuzk_top import stalls, terminal
from cuzk_top.errors import InputError
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.stalls import told
from cuzk_top.stalls.limits import DEFAULTS, Limits
from cuzk_top.store import Store


def run(args: argparse.Namespace) -> int:
    """Print what is found in one trace."""
    limits = limits_of(args.limit)
    store = Store()
    source = TraceSource(Path(args.file))
    store.append(source.poll())
    source.close()
    snapshot = store.snapshot()
    analysis = stalls.analyse(snapshot, limits=limits)
    data = told.facts(snapshot, analysis, limits)
    try:
        print(json.dumps(data, indent=2) if args.json else told.text(data, Path(args.file).name), flush=True)
    except BrokenPipeError:  # the exit code is an answer too
        terminal.close_output()
    return int(args.fail_over is not None and told.share(analysis) > args.fail_over)


MOST_RECORDS = 4_000_000
"""A command may take longer than a screen's analysis: some 20 s, 2 GB."""


def limits_of(given: Sequence[str]) -> Limits:
    """The defaults with some limits changed, each ``NAME=VALUE``. Raises InputError for anything else."""
    start = replace(DEFAULTS, most_records=MOST_RECORDS)
    known = {field.name: type(getattr(DEFAULTS, field.name)) for field in fields(Limits)}
    changes: dict[str, float] = {}
    for text in given:
        name, _, value = text.partition("=")
        if name not in known:
            raise InputError(f"--limit {text}: no such limit; there are {', '.join(known)}")
        try:
            changes[name] = known[name](value)
        except ValueError:
            kind = "a whole number" if known[name] is int else "a number"
            raise InputError(f"--limit {text}: {value!r} is not {kind}") from None
        if not 0 <= changes[name] < math.inf:
            raise InputError(f"--limit {text}: a limit is a number from 0 on")
    return replace(start, **changes)  # type: ignore[arg-type]
