"""A recorded proof played back, again and again: ``python tests/benchmarks/player.py TRACE.cuzk [--rate N]``.

Takes the last whole proof of a trace (such as tests/data/gpu/golden/dense-20.cuzk) and writes its host spans
and its devices' records into this process's own ring, through cuzk_tracer's public functions, at the times
they had: spans as they open and close, records of devices 20 times a second, as CUPTI hands them over. It is
a recorded load for a viewer to watch and no prover: it proves nothing, and no time it takes is a GPU's.
Prints ``playing`` once there is something to see.
"""

from __future__ import annotations

import argparse
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cuzk_tracer
from cuzk_top import trace
from cuzk_top.model import FLAG_F64, FLAG_F64_A1, KIND_SPAN, Columns, Name
from cuzk_tracer import gpu

HAND_OVER_S = 0.05
NEAR_NS = 200_000
"""Events nearer than this are not waited for one by one: sleeping costs more than they do."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A record of a device; times from the proof's start."""

    span: cuzk_tracer.Span
    kind: int
    start_ns: int
    end_ns: int
    device: int
    stream: int
    parent: int
    a0: int
    a1: int
    corr: int


@dataclass(frozen=True, slots=True)
class Event:
    """A span of the host that opens (`entering`) or closes; `id` is the trace's."""

    at_ns: int
    entering: bool
    id: int
    span: cuzk_tracer.Span
    a0: float
    a1: float


@dataclass(frozen=True, slots=True)
class Proof:
    """What is played: events in order of time, launches in order of their ends."""

    events: list[Event]
    launches: list[Launch]
    length_ns: int
    corrs: int
    """So many correlation ids a proof takes."""


def load(path: Path) -> Proof:
    """The last whole proof of a trace. Raises SystemExit where there is none, or its spans overlap."""
    opened = trace.open(path)
    columns = Columns.concat([run.columns for run in opened.runs if len(run.columns)])
    names, tracks = opened.session.names, opened.session.tracks
    prove = [number for number, name in enumerate(names) if name.text == "prove"]
    proofs = np.flatnonzero(np.isin(columns.name, prove) & (columns.kind == KIND_SPAN))
    if not len(proofs):
        raise SystemExit(f"{path}: no proof in it")
    last = int(proofs[np.argmax(columns.end_ns[proofs])])
    low, high, thread = int(columns.start_ns[last]), int(columns.end_ns[last]), int(columns.track[last])
    inside = columns.take((columns.start_ns >= low) & (columns.end_ns <= high))
    host = inside.take((inside.kind == KIND_SPAN) & (inside.track == thread))
    on_gpu = [number for number, track in tracks.items() if track.kind == "gpu"]
    device = inside.take(np.isin(inside.track, on_gpu))
    spans = [_span(name) for name in names]
    events: list[Event] = []
    # Outer spans open first and close last, also where they share the moment.
    opening = np.lexsort((host.depth, host.start_ns)).tolist()
    closing = np.lexsort((-host.depth.astype(int), host.end_ns)).tolist()
    for order, entering in ((closing, False), (opening, True)):
        for i in order:
            at = int(host.start_ns[i] if entering else host.end_ns[i]) - low
            a0, a1 = (
                _argument(host.a0[i], host.flags[i] & FLAG_F64),
                _argument(host.a1[i], host.flags[i] & FLAG_F64_A1),
            )
            events.append(Event(at, entering, int(host.id[i]), spans[host.name[i]], a0, a1))
    events.sort(key=lambda event: event.at_ns)  # stable: what closes at a moment does so before what opens
    launches = []
    first = int(device.corr[device.corr > 0].min(initial=1 << 31))
    for i in np.argsort(device.end_ns, kind="stable").tolist():
        stream = tracks[int(device.track[i])].label.rpartition(" ")[2]  # "GPU0 stream 7"; "driver" is none
        launches.append(
            Launch(
                spans[device.name[i]],
                int(device.kind[i]),
                int(device.start_ns[i]) - low,
                int(device.end_ns[i]) - low,
                tracks[int(device.track[i])].tid,
                int(stream) if stream.isdecimal() else 0,
                int(device.parent[i]),
                int(device.a0[i]),
                int(device.a1[i]),
                int(device.corr[i]) - first + 1 if device.corr[i] else 0,
            )
        )
    return Proof(events, launches, high - low, max((one.corr for one in launches), default=0))


def _span(name: Name) -> cuzk_tracer.Span:
    return cuzk_tracer.span(name.text, a0=name.a0, a1=name.a1, stage=name.stage, faults=name.faults)


def _argument(value: np.int64, floating: int) -> float:
    return float(value.view(np.float64)) if floating else int(value)


class Player:
    """Plays one proof after another, `rate` a second (a proof that takes longer delays the next)."""

    def __init__(self, proof: Proof, rate: float) -> None:
        self._proof = proof
        self._period_ns = round(1e9 / rate)
        self._lock = threading.Lock()
        self._played: list[tuple[int, int, dict[int, int]]] = []  # start, number of it, launchers by span

    def play(self) -> None:
        """For ever."""
        threading.Thread(target=self._hand_over, name="gpu capture", daemon=True).start()
        started, number = time.monotonic_ns(), 0
        while True:
            self._host(started, number)
            number += 1
            started = max(started + self._period_ns, time.monotonic_ns())
            _until(started)

    def _host(self, started: int, number: int) -> None:
        launchers: dict[int, int] = {}
        entered: list[Any] = []
        with self._lock:
            self._played.append((started, number, launchers))
        for event in self._proof.events:
            _until(started + event.at_ns)
            if event.entering:
                entered.append(event.span(event.a0, event.a1))
                entered[-1].__enter__()
                launchers[event.id] = gpu.launcher() or 0
            else:
                entered.pop().__exit__(None, None, None)

    def _hand_over(self) -> None:
        """Record what devices have done by now, as the thread of a capture does."""
        done = 0  # of the oldest proof's launches
        while True:
            time.sleep(HAND_OVER_S)
            now = time.monotonic_ns()
            with self._lock:
                played = list(self._played)
            for started, number, launchers in played:
                launches = self._proof.launches
                while done < len(launches) and started + launches[done].end_ns <= now:
                    self._record(launches[done], started, number, launchers)
                    done += 1
                if done < len(launches):
                    break
                done = 0
                with self._lock:
                    self._played.pop(0)

    def _record(self, launch: Launch, started: int, number: int, launchers: dict[int, int]) -> None:
        gpu.record(
            launch.span,
            launch.kind,
            started + launch.start_ns,
            started + launch.end_ns,
            device=launch.device,
            stream=launch.stream,
            launcher=launchers.get(launch.parent, 0),
            a0=launch.a0,
            a1=launch.a1,
            corr=launch.corr + number * self._proof.corrs if launch.corr else 0,
        )


def _until(moment_ns: int) -> None:
    left = moment_ns - time.monotonic_ns()
    if left > NEAR_NS:
        time.sleep(left / 1e9)


def main() -> None:
    """Play until somebody ends it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("--rate", type=float, default=16.0, help="proofs a second")
    args = parser.parse_args()
    meta = trace.open(args.trace).session.meta
    told = ("job", "backend", "curve", "gpu", "threads", "domain")
    cuzk_tracer.meta(**{key: meta[key] for key in told if key in meta}, played=args.trace.name)
    player = Player(load(args.trace), args.rate)
    cuzk_tracer.open()
    print("playing", flush=True)
    player.play()


if __name__ == "__main__":
    main()
