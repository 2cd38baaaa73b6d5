"""Plain ``cuzk-top``: the traced provers of this user; attaches at once when there is just one."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuzk_top import paths, provers, terminal
from cuzk_top.provers import Prover
from cuzk_top.sources.ring import SessionInfo, SessionList, remove_stale

if TYPE_CHECKING:
    from cuzk_top.screens.start import Choice, Running, Trace

RATE_OVER_S = 0.2  # a rate needs two looks this far apart
TRACES_LISTED = 8
OTHERS_EVERY_S = 5.0  # a look through /proc and NVML


def others(live: Sequence[SessionInfo]) -> list[Prover]:
    """Provers that are not traced, and processes that compute on a GPU."""
    traced = [info.pid for info in live]
    return provers.find(provers.on_gpus(), traced, time.clock_gettime_ns(time.CLOCK_BOOTTIME))


def _where(prover: Prover) -> str:
    return f"GPU {','.join(map(str, prover.gpus))}, not traced" if prover.gpus else "not traced"


def run(args: argparse.Namespace) -> int:
    """List, choose, watch."""
    remove_stale(time.time())
    sessions = SessionList(time.monotonic_ns)
    live = [info for info in sessions.refresh() if info.alive]
    if not terminal.interactive():
        time.sleep(RATE_OVER_S if live else 0)
        live = [info for info in sessions.refresh() if info.alive]
        print_list(live)
        print_others(others(live), provers.hidden())
        return 0
    if len(live) == 1:
        from cuzk_top.commands import attach  # noqa: PLC0415 - only what is chosen loads

        return attach.watch([live[0].path], args)
    return _open(_choose(sessions, args), args)


def _choose(sessions: SessionList, args: argparse.Namespace) -> Choice:
    from cuzk_top.app import StartApp  # noqa: PLC0415 - the screen's libraries load only where there is a screen
    from cuzk_top.screens.start import Choice  # noqa: PLC0415

    app = StartApp(FoundPlaces(sessions), terminal.skin(args), args.theme == "auto")
    return terminal.until_left(app) or Choice("quit")


def _open(choice: Choice, args: argparse.Namespace) -> int:
    from cuzk_top.commands import attach, demo, replay  # noqa: PLC0415 - only what is chosen loads

    if choice.kind == "attach":
        args.pid, args.detail, args.output, args.max_size = [choice.pid], None, None, None
        return attach.run(args)
    if choice.kind == "replay":
        args.file, args.view = choice.path, None
        return replay.run(args)
    if choice.kind == "demo":
        args.backend, args.trace = "auto", None
        return demo.run(args)
    return 0


class FoundPlaces:
    """What the start screen lists, read anew each time it asks."""

    def __init__(self, sessions: SessionList) -> None:
        self._sessions = sessions
        self._others: list[Prover] = []
        self._others_due = 0.0

    def running(self) -> Sequence[Running]:
        """Live traced processes."""
        from cuzk_top.screens.start import Running  # noqa: PLC0415

        found = [info for info in self._sessions.refresh() if info.alive]
        listed = [Running(info.pid, info.name, round(info.age_s * 1e9), info.rate) for info in found]
        if time.monotonic() >= self._others_due:
            self._others = others(found)
            self._others_due = time.monotonic() + OTHERS_EVERY_S
        return listed + [
            Running(prover.pid, prover.name, prover.age_ns, None, _where(prover)) for prover in self._others
        ]

    def traces(self) -> Sequence[Trace]:
        """Saved traces, newest first."""
        from cuzk_top.screens.start import Trace  # noqa: PLC0415

        listed = []
        for path in paths.recent_traces(paths.traces_folder())[:TRACES_LISTED]:
            facts = path.stat()
            listed.append(Trace(str(path), max(0, time.time_ns() - facts.st_mtime_ns), facts.st_size))
        return listed


def print_list(live: Sequence[SessionInfo]) -> None:
    """The list as text, and what to do next."""
    if live:
        print(f"{'pid':>8}  {'age':>8}  {'spans/s':>8}  name")
        for info in live:
            rate = "" if info.rate is None else f"{info.rate:,.0f}"
            print(f"{info.pid:>8}  {info.age_s:>6.0f} s  {rate:>8}  {info.name}")
        print("watch one: cuzk-top attach PID")
        return
    print("no traced prover runs here")
    print("  cuzk-top demo                     proves a real circuit and shows it")
    print("  cuzk-top prove KEY.zkey WITNESS.wtns -o PROOF.json --public PUBLIC.json")
    print("  in your own Python prover:        import cuzk_tracer; with cuzk_tracer.span('msm'): ...")
    for path in paths.recent_traces(paths.traces_folder())[:TRACES_LISTED]:
        print(f"  cuzk-top replay {path}")


def print_others(found: Sequence[Prover], hidden: str | None) -> None:
    """Provers that are not traced: what can be read of each, and how to read more."""
    for prover in found:
        unit = f"  {prover.unit}" if prover.unit else ""
        print()
        print(f"not traced: {prover.name}  pid {prover.pid}  user {prover.user}{unit}")
        print(f"  now   cuzk-top attach {prover.pid}: {provers.readable(prover)}")
        first, *rest = provers.remedy(prover)
        print(f"  more  {first}")
        for line in rest:
            print(f"        {line}")
    if hidden:
        print()
        print(hidden)
