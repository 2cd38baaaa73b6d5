"""``cuzk-top run``: start any program with tracing on, watch it, and pass all of it through.

Without a screen the program has our standard input, output and error; what we say goes to standard error. On
a screen its input is empty, its output goes to the log pane, and is printed, each stream to where it belongs,
when the screen is left; the command ends with the program.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cuzk_top import paths, saving, terminal
from cuzk_top.errors import InputError
from cuzk_top.program import Program, Signals

if TYPE_CHECKING:
    from types import FrameType

    from cuzk_top.live import LiveSession

TICK_S = 0.05


def run(args: argparse.Namespace) -> int:
    """Run the program to its end; its exit code is ours."""
    command = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not command:
        raise InputError("run: which program? cuzk-top run [-o FILE] -- CMD …")
    path = saving.place(args.output, Path(command[0]).name)
    # A recording nobody asked for must not fill the disk.
    limit = args.max_size or (None if args.output else paths.TRACES_BYTES)
    if terminal.interactive() and not args.no_screen:
        program = Program(command, args.detail, captured=True)
        return _watch(program, command[0], path, limit, args)
    with Signals() as signals:
        program = Program(command, args.detail, captured=False)
        return _watch(program, command[0], path, limit, signals)


def _watch(
    program: Program, command: str, path: Path | None, limit: int | None, way: argparse.Namespace | Signals
) -> int:
    """On a screen (`way`: its options), or without one (`way`: the signals to hand on)."""
    # numpy and pyarrow load while the program starts, on another core.
    from cuzk_top.live import LiveSession  # noqa: PLC0415
    from cuzk_top.recording import remove  # noqa: PLC0415
    from cuzk_top.sources.group import Descendants, Group  # noqa: PLC0415

    clock = time.monotonic_ns
    name = Path(command).name
    group = Group(Descendants(program.session), clock, program.running, f"{name} has not traced anything yet")
    recorder = saving.begin(path, limit)
    session = LiveSession(group, program.pid, clock, recorder, program)
    try:
        if isinstance(way, Signals):
            _follow(session, program, way, quiet=False)
        else:
            _show(session, program, way)
    finally:
        session.collector.stop()
        if recorder is not None and path is not None and not group.rings:
            remove(path)
    program.finish()
    if not group.rings:
        _say(f"cuzk-top: {name} was not traced: neither it nor what it started uses cuzk_tracer")
    else:
        _conclude(session, path if recorder is not None else None, with_report=isinstance(way, Signals))
    return program.exit_code


def _show(session: LiveSession, program: Program, args: argparse.Namespace) -> None:
    """The screen, and after it what is left of the program."""

    def hand_on(number: int, _: FrameType | None) -> None:
        program.send(number)
        sys.exit(128 + number)

    before = {number: signal.signal(number, hand_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        terminal.show(session, args)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        program.release()
    with Signals() as signals:
        _follow(session, program, signals, quiet=True)


def _follow(session: LiveSession, program: Program, signals: Signals, *, quiet: bool) -> None:
    """Tell of stages as they end, until the program has."""
    from cuzk_top.progress import Progress  # noqa: PLC0415

    progress = Progress(_say)
    if quiet:
        progress.skip(session.store.snapshot())
    while program.running():
        signals.wait(TICK_S, program)
        progress.update(session.store.snapshot())
    session.collector.join()
    progress.update(session.store.snapshot())


def _conclude(session: LiveSession, trace: Path | None, *, with_report: bool) -> None:
    from cuzk_top import report  # noqa: PLC0415

    snapshot = session.store.snapshot()
    if with_report:
        _say("")
        _say(report.text(report.facts(snapshot)))
    if trace is not None and trace.exists():
        _say(f"trace     {trace}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
