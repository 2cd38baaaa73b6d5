"""``cuzk-top replay``: a saved trace in the same screen, from a saved view on if there is one.

Without a terminal, its report.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cuzk_top import terminal
from cuzk_top.errors import InputError

if TYPE_CHECKING:
    from cuzk_top.viewport import ViewState


def run(args: argparse.Namespace) -> int:
    """Replay one trace."""
    path, view = _chosen(args.file, args.view)
    if not terminal.interactive():
        from cuzk_top import report  # noqa: PLC0415 - the screen does without it
        from cuzk_top.commands.report import load  # noqa: PLC0415

        print(report.text(load(path)))
        return 0
    from cuzk_top.replayed import ReplaySession  # noqa: PLC0415

    left = terminal.show(ReplaySession(path, time.monotonic_ns), args, view)
    return 130 if left == "stop" else 0


def _chosen(file: str, saved: str | None) -> tuple[Path, ViewState | None]:
    """The trace and the view of it; a view alone names its trace."""
    alone = saved is None and file.endswith(".json")
    if saved is None and not alone:
        return Path(file), None
    from cuzk_top import view_file  # noqa: PLC0415

    view, trace = view_file.load(Path(file if saved is None else saved))
    if alone and trace is None:
        raise InputError(f"{file}: its session was not recorded: cuzk-top replay FILE.cuzk --view {file}")
    # What moved with a live session stands still where it was.
    still = replace(
        view, mode=view.mode if view.mode in ("fit", "all") else "hold", auto_width=False, paused=False
    )
    return trace if alone and trace is not None else Path(file), still
