"""``cuzk-top attach``: watch traced processes that run already; leaving does not disturb them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from cuzk_top import detail, report, saving, terminal
from cuzk_top.errors import RingError
from cuzk_top.live import LiveSession
from cuzk_top.progress import Progress
from cuzk_top.sources import Source
from cuzk_top.sources.absent import AbsentRing
from cuzk_top.sources.group import Group
from cuzk_top.sources.ring import RingSource, find
from cuzk_tracer import places

TICK_S = 0.1


def run(args: argparse.Namespace) -> int:
    """Attach by process id; one process without a ring shows the machine's side."""
    if len(args.pid) == 1 and args.detail is None and _untraced(args.pid[0]):
        return _watch_machine(args.pid[0], args)
    rings = [find(pid) for pid in args.pid]
    if args.detail is not None:
        for ring in rings:
            detail.set_level(ring, args.detail)
    return watch(rings, args, args.output, args.max_size)


def _untraced(pid: int) -> bool:
    """Whether there is such a process, and it writes no ring."""
    try:
        find(pid)
    except RingError:
        try:
            return places.alive(pid, places.start_time(pid))
        except (OSError, ValueError):
            return False
    return False


def _watch_machine(pid: int, args: argparse.Namespace) -> int:
    """A process that writes no ring: its CPU, faults, memory and GPU, and what would tell more."""
    from cuzk_top import provers  # noqa: PLC0415

    prover = provers.one(pid, provers.on_gpus(), time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    started = places.start_time(pid)
    hint = "; ".join(provers.remedy(prover)) if prover is not None else ""
    why = f"process {pid} is not traced: no spans, kernels or copies. To have them: {hint}"
    print(f"cuzk-top: {why}", file=sys.stderr)
    source = AbsentRing(pid, why, lambda: places.alive(pid, started), time.monotonic_ns)
    return _follow(source, pid, args, args.output, args.max_size)


def watch(
    rings: Sequence[str], args: argparse.Namespace, output: str | None = None, max_size: int | None = None
) -> int:
    """Watch rings on the screen, or in lines until their processes end or Ctrl-C; `output`: and record."""
    source, pid = _source(rings)
    return _follow(source, pid, args, output, max_size)


def _follow(
    source: Source, pid: int, args: argparse.Namespace, output: str | None, max_size: int | None
) -> int:
    clock = time.monotonic_ns
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
        print(report.text(report.against_past(session.store.snapshot())))
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
