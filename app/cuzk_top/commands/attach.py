"""``cuzk-top attach``: watch traced processes that run already; leaving does not disturb them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from cuzk_top import detail, report, saving, terminal
from cuzk_top.live import LiveSession
from cuzk_top.progress import Progress
from cuzk_top.sources import Source
from cuzk_top.sources.group import Group
from cuzk_top.sources.ring import RingSource, find

TICK_S = 0.1


def run(args: argparse.Namespace) -> int:
    """Attach by process id."""
    rings = [find(pid) for pid in args.pid]
    if args.detail is not None:
        for ring in rings:
            detail.set_level(ring, args.detail)
    return watch(rings, args, args.output, args.max_size)


def watch(
    rings: Sequence[str], args: argparse.Namespace, output: str | None = None, max_size: int | None = None
) -> int:
    """Watch rings on the screen, or in lines until their processes end or Ctrl-C; `output`: and record."""
    clock = time.monotonic_ns
    source, pid = _source(rings)
    path = saving.place(output, "") if output is not None else None
    recorder = saving.begin(path, max_size)
    session = LiveSession(source, pid, clock, recorder)
    code = 0
    try:
        if terminal.interactive() and not getattr(args, "no_screen", False):
            terminal.show(session, args)
            return 0
        progress = Progress(lambda line: print(f"{line}\n", end="", flush=True))  # whole lines, Ctrl-C or not
        while not session.collector.join(TICK_S):
            progress.update(session.store.snapshot())
        progress.update(session.store.snapshot())
        print()
        print(report.text(report.facts(session.store.snapshot())))
    except KeyboardInterrupt:
        print("cuzk-top: detached; the process goes on", file=sys.stderr)
        code = 130
    finally:
        session.collector.stop()
        if recorder is not None:
            print(f"trace     {path}")
    return code


def _source(rings: Sequence[str]) -> tuple[Source, int]:
    """One ring as it is, several as one; and the process whose CPU and memory are shown."""
    if len(rings) == 1:
        source = RingSource(rings[0], time.monotonic_ns)
        return source, source.ring.pid
    waiting = list(rings)

    def once() -> list[str]:
        found, waiting[:] = list(waiting), []
        return found

    first = RingSource(rings[0], time.monotonic_ns)
    first.close()
    return Group(once, time.monotonic_ns), first.ring.pid
