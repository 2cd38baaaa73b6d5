"""``cuzk-top report``: the facts of a saved trace as text or JSON."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from cuzk_top import report
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store


def run(args: argparse.Namespace) -> int:
    """Print the report of one trace."""
    data = load(Path(args.file))
    print(json.dumps(data, indent=2) if args.json else report.text(data))
    return 0


def load(path: Path) -> dict[str, object]:
    """The facts of a trace file. Raises TraceError when it cannot be read."""
    store = Store()
    source = TraceSource(path)
    store.append(source.poll())
    source.close()
    return report.against_past(store.snapshot())
