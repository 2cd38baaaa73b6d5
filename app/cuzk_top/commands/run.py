"""``cuzk-top run``: start any program with tracing on, watch it, and pass all of it through.

Without a screen the program has our standard input, output and error; what we say goes to standard error. On
a screen its input is empty, its output goes to the log pane, and is printed, each stream to where it belongs,
when the screen is left; the command ends with the program.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cuzk_top import paths, saving, terminal
from cuzk_top.errors import InputError
from cuzk_top.program import NotStartedError, Program, Signals, executable
from cuzk_top.progress import Progress

if TYPE_CHECKING:
    from cuzk_top.live import LiveSession

TICK_S = 0.05


def run(args: argparse.Namespace) -> int:
    """Run the program to its end; its exit code is ours."""
    command = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not command:
        raise InputError("run: which program? cuzk-top run [-o FILE] -- CMD …")
    executable(command[0])  # before a file is made for it
    if terminal.interactive() and not args.no_screen:
        return _watch(command, args, None)
    with Signals() as signals:
        return _watch(command, args, signals)


def _watch(command: list[str], args: argparse.Namespace, signals: Signals | None) -> int:
    """Without a screen: with signals to hand on. The program starts when all is ready for its first span."""
    # Not before the signals are taken: numpy may start threads.
    from cuzk_top.live import LiveSession  # noqa: PLC0415
    from cuzk_top.recording import remove  # noqa: PLC0415
    from cuzk_top.sources.group import Descendants, Group  # noqa: PLC0415

    name = Path(command[0]).name
    path = saving.place(args.output, name)
    # A recording nobody asked for must not fill the disk.
    limit = args.max_size or (None if args.output else paths.TRACES_BYTES)
    recorder = saving.begin(path, limit)
    try:
        program = Program(command, args.detail, captured=signals is None)
    except NotStartedError:
        if path is not None:
            remove(path)
        raise
    clock = time.monotonic_ns
    silent = f"{name} has not traced anything yet"
    group = Group(Descendants(program.session), clock, program.running, silent, from_start=True)
    session = LiveSession(group, program.pid, clock, recorder, program)
    try:
        if signals is None:
            _show(session, program, args)
        else:
            _follow(session, program, signals, quiet=False)
    finally:
        session.collector.stop()
        if path is not None and not group.rings:
            remove(path)
    program.finish()
    if program.not_captured:
        _say(f"cuzk-top: {program.not_captured}")
    if not group.rings:
        _say(
            f"cuzk-top: {name} was not traced: neither it nor what it started uses CUDA, NVTX or cuzk_tracer"
        )
    else:
        _conclude(session, path if recorder is not None else None, with_report=signals is not None)
    return program.exit_code


def _show(session: LiveSession, program: Program, args: argparse.Namespace) -> None:
    """The screen, and after it what is left of the program, which gets the signals that end the screen."""
    try:
        terminal.show(session, args, hand_on=program.send)
    finally:
        program.release()
    with Signals() as signals:
        _follow(session, program, signals, quiet=True)


def _follow(session: LiveSession, program: Program, signals: Signals, *, quiet: bool) -> None:
    """Tell of stages as they end, until the program has."""
    progress = Progress(_say)
    if quiet:
        progress.skip(session.store.snapshot())
    while program.running():
        signals.wait(TICK_S, program)
        progress.update(session.store.snapshot())
    session.collector.hurry()
    session.collector.join()
    progress.update(session.store.snapshot())


def _conclude(session: LiveSession, trace: Path | None, *, with_report: bool) -> None:
    from cuzk_top import report  # noqa: PLC0415

    snapshot = session.store.snapshot()
    if with_report:
        _say("")
        _say(report.text(report.against_past(snapshot)))
    if trace is not None and trace.exists():
        _say(f"trace     {trace}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
