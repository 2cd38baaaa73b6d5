"""What `demo` and `prove` share: a prover in its own process, watched on a screen or in lines, and saved."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from cuzk_top import prover_process, terminal
from cuzk_top.prover_process import Outcome, ProverProcess

if TYPE_CHECKING:
    from cuzk_top.collector import Recorder
    from cuzk_top.live import LiveSession
    from cuzk_top.progress import Progress
    from cuzk_top.sources.ring import RingSource

STOPPED = 130
TICK_S = 0.05
SCREEN_AFTER_S = 0.25  # from its start; bad input ends sooner than this: its one line then needs no screen


def run(prover_arguments: list[str], args: argparse.Namespace, job: str, *, quit_stops: bool) -> int:
    """Start the prover, watch it to its end, and return the exit code.

    quit_stops: leaving the screen ends the prover (a demo, made to be watched) or lets it go on in lines.
    """
    prover = ProverProcess(prover_arguments)
    screen_at = time.monotonic() + SCREEN_AFTER_S
    try:
        return _watch(prover, args, job, quit_stops, screen_at)
    except KeyboardInterrupt:  # before there was anything to watch
        prover.stop()
        print(f"cuzk-top: {prover.wait().text}", file=sys.stderr)
        return 130
    finally:
        prover.stop()
        prover.wait()


def _watch(
    prover: ProverProcess, args: argparse.Namespace, job: str, quit_stops: bool, screen_at: float
) -> int:
    # These and numpy load while the prover starts, on another core.
    from cuzk_top.live import LiveSession  # noqa: PLC0415
    from cuzk_top.sources.absent import AbsentRing  # noqa: PLC0415
    from cuzk_top.sources.ring import RingSource  # noqa: PLC0415

    clock = time.monotonic_ns
    source = _ring(prover)
    recorder, trace = _recorder(args, job) if isinstance(source, RingSource) else (None, None)
    absent = AbsentRing(prover.pid, source, prover.running, clock) if isinstance(source, str) else source
    session = LiveSession(absent, prover.pid, clock, recorder, prover)
    prover.when_over(session.collector.hurry)
    on_screen = terminal.interactive() and _still_running_at(prover, screen_at, terminal.load)
    left = ""
    try:
        if on_screen:
            left = terminal.show(session, args)
            if left == "stop" or quit_stops:
                session.stop()
        outcome = _follow(session, prover, quiet_start=on_screen)
        if left == "quit" and quit_stops and outcome.exit_code == STOPPED:
            outcome = Outcome(0, "")  # a demo ends so
    finally:
        prover.stop()
        session.collector.stop()
        if isinstance(source, RingSource):
            source.discard()
    return _conclude(session, outcome, trace, with_report=not on_screen)


def _ring(prover: ProverProcess) -> RingSource | str:
    """The prover's ring, or why there is none."""
    from cuzk_top.errors import CuzkTopError  # noqa: PLC0415
    from cuzk_top.sources.ring import FROM_START, RingSource  # noqa: PLC0415

    path = prover.wait_for_ring()
    if path is None:
        return prover.ring_problem or "the prover told of no trace ring"
    try:
        return RingSource(path, time.monotonic_ns, resume=FROM_START)
    except CuzkTopError as error:
        return str(error)


def _recorder(args: argparse.Namespace, job: str) -> tuple[Recorder | None, Path | None]:
    """The recording and its place; without one, a line says why and proving goes on."""
    from cuzk_top import machine, paths, recording  # noqa: PLC0415

    stamp = time.strftime("%Y%m%d-%H%M%S")
    try:
        trace = Path(args.trace) if args.trace else paths.new_trace(paths.traces_folder(), job, stamp)
        return recording.Recorder(trace, machine.facts()), trace
    except OSError as error:
        where = error.filename or args.trace or paths.traces_folder()
        print(f"cuzk-top: no trace is saved: {where}: {error.strerror}", file=sys.stderr)
        return None, None


def _still_running_at(prover: ProverProcess, deadline: float, meanwhile: Callable[[], None]) -> bool:
    meanwhile()
    while prover.running() and time.monotonic() < deadline:
        time.sleep(0.01)
    return prover.running()


def _follow(session: LiveSession, prover: ProverProcess, *, quiet_start: bool) -> Outcome:
    """Print progress until the prover has ended and everything it traced was read; Ctrl-C stops it."""
    from cuzk_top.progress import Progress  # noqa: PLC0415

    progress = Progress(_print)
    if quiet_start:
        progress.skip(session.store.snapshot())
        session.take_events()
    try:
        while not session.collector.join(TICK_S):
            _print_news(session, progress)
    except KeyboardInterrupt:
        prover.stop()
    outcome = prover.wait()
    session.collector.join(prover_process.KILL_AFTER_S)
    _print_news(session, progress)
    return outcome


def _print_news(session: LiveSession, progress: Progress) -> None:
    progress.update(session.store.snapshot())
    for line in session.take_events():
        if line != session.failure:  # that one is the command's last word, on standard error
            _print(line)


def _print(line: str) -> None:
    terminal.say(line)


def _conclude(session: LiveSession, outcome: Outcome, trace: Path | None, *, with_report: bool) -> int:
    """The report, where the trace is, and the one line that says how it went. A prover that failed before its
    first span, on bad input say, leaves no trace.
    """
    from cuzk_top import recording, report  # noqa: PLC0415

    snapshot = session.store.snapshot()
    if with_report and outcome.exit_code == 0:
        _print("")
        _print(report.text(report.against_past(snapshot)))
    if trace is not None and trace.exists():
        traced = snapshot.spans or any(row.open is not None for row in snapshot.rows)
        if outcome.exit_code and not traced:
            recording.remove(trace)
        else:
            _print(f"trace     {trace}")
    if outcome.exit_code:
        when = f"after {session.proofs} finished proofs" if session.proofs else "before a proof was finished"
        said = f"stopped {when}" if outcome.exit_code == STOPPED else outcome.text
        print(f"cuzk-top: {said}", file=sys.stderr)
        return outcome.exit_code
    _print(session.verdict)
    return 0
