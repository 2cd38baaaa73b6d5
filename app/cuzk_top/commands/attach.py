"""``cuzk-top attach``: watch a traced process that runs already; leaving does not disturb it."""

from __future__ import annotations

import argparse
import sys
import time

from cuzk_top import report, terminal
from cuzk_top.live import LiveSession
from cuzk_top.progress import Progress
from cuzk_top.sources.ring import RingSource, find

TICK_S = 0.1


def run(args: argparse.Namespace) -> int:
    """Attach by process id."""
    return watch(find(args.pid), args)


def watch(path: str, args: argparse.Namespace) -> int:
    """Watch one ring on the screen, or in lines until its process ends or Ctrl-C."""
    source = RingSource(path, time.monotonic_ns)
    session = LiveSession(source, source.ring.pid, time.monotonic_ns)
    try:
        if terminal.interactive():
            terminal.show(session, args)
            return 0
        progress = Progress(lambda line: print(line, flush=True))
        while not session.collector.join(TICK_S):
            progress.update(session.store.snapshot())
        progress.update(session.store.snapshot())
        print()
        print(report.text(report.facts(session.store.snapshot())))
    except KeyboardInterrupt:
        print("cuzk-top: detached; the process goes on", file=sys.stderr)
        return 130
    finally:
        session.collector.stop()
    return 0
