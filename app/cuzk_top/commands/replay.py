"""``cuzk-top replay``: a saved trace in the same screen; without a terminal, its report."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from cuzk_top import report, terminal
from cuzk_top.commands.report import load
from cuzk_top.replayed import ReplaySession


def run(args: argparse.Namespace) -> int:
    """Replay one trace."""
    if not terminal.interactive():
        print(report.text(load(Path(args.file))))
        return 0
    terminal.show(ReplaySession(Path(args.file), time.monotonic_ns), args)
    return 0
