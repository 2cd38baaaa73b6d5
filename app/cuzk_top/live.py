"""A session that runs now: source, probes, store, collector and recording behind the screen's controls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

from cuzk_top import history, machine, saving
from cuzk_top.collector import Collector, Recorder
from cuzk_top.facts import Facts, Playback, describe
from cuzk_top.model import Snapshot
from cuzk_top.probes.host import HostProbe
from cuzk_top.probes.memory import MemoryProbe
from cuzk_top.probes.nvml import NvmlProbe
from cuzk_top.probes.threads import ThreadProbe
from cuzk_top.sources import Probe, Source
from cuzk_top.store import Store

LINES_KEPT = 500
LIMIT_BYTES = 12 << 20
"""Of what is held in memory for a screen: 220,000 records beside a GPU, some 55 bytes each with all that is
derived. A recording has them all, and the viewer is to stay below 150 MB.
"""


class Owned(Protocol):
    """What was started to be watched: `events` are its news, `failure` its one last line."""

    @property
    def failure(self) -> str: ...

    def events(self) -> Sequence[Mapping[str, object]]: ...

    def stop(self) -> None: ...


class LiveSession:
    """One traced process being watched. With a `prover` of our own, `stop` ends it; else it is left alone.

    When the collection ends, its finished proofs are added to the past ones of their kind (see `history`).
    """

    mode: Literal["live", "replay"] = "live"

    def __init__(
        self,
        source: Source,
        pid: int,
        clock: Callable[[], int],
        recorder: Recorder | None = None,
        prover: Owned | None = None,
    ) -> None:
        self.store = Store(live=True)
        self.prover = prover
        self.deadlines: Mapping[str, int] = {}
        self._trace = recorder.path if recorder is not None else None
        probes: list[Probe] = [
            HostProbe(pid, clock),
            ThreadProbe(pid, clock),
            MemoryProbe(pid, clock),
            NvmlProbe(clock),
        ]
        self.collector = Collector(
            source, probes, self.store, recorder, clock, machine.facts(), self._remember
        )
        self._lines: deque[str] = deque(maxlen=LINES_KEPT)
        self.failure = ""
        self.proofs = 0
        self.verdict = "nothing was proved"
        self._shown: tuple[Snapshot, Snapshot] | None = None
        self.collector.start()

    def snapshot(self) -> Snapshot:
        """The store's newest snapshot, with the prover's own last word among the problems.

        It is a screen that asks: from now on less is kept than a report of the whole session needs.
        """
        self.store.limit_bytes = LIMIT_BYTES
        self.take_events()
        snapshot = self.store.snapshot()
        if not self.failure:
            return snapshot
        if self._shown is None or self._shown[0] is not snapshot:
            self._shown = (snapshot, replace(snapshot, problems=(*snapshot.problems, self.failure)))
        return self._shown[1]

    def take_events(self) -> list[str]:
        """Turn what the prover told since the last call into log lines, and return the new ones."""
        if self.prover is None:
            return []
        new = []
        for event in self.prover.events():
            new.append(event_line(event))
            if event.get("event") == "proof":
                self.proofs += 1
                self.verdict = f"verified  {new[-1]}"
        if self.prover.failure and self.prover.failure != self.failure:
            self.failure = self.prover.failure
            new.append(self.failure)
        self._lines.extend(new)
        return new

    def facts(self) -> Facts:
        """What to show in the header beside the trace."""
        return replace(describe(self.store.snapshot()), deadlines=self.deadlines)

    def playback(self) -> Playback | None:
        """A live session is not played."""
        return None

    def play(self) -> None:
        """Nothing to do live."""

    def pause(self) -> None:
        """Nothing to do live: pausing the picture is the screen's affair, the intake goes on."""

    def set_speed(self, speed: float) -> None:
        """Nothing to do live."""

    def seek(self, t_ns: int) -> None:
        """Nothing to do live."""

    def lines(self) -> Sequence[str]:
        """What the prover told, oldest first."""
        return tuple(self._lines)

    def save_buffer(self) -> Path:
        """Write all that is kept, as a trace of its own (see `saving.buffer`)."""
        path = saving.buffer(self.store.snapshot())
        if self._trace is None:
            self._trace = path
        self._remember()
        return path

    def trace_path(self) -> Path | None:
        """The recording; without one, what was first saved of the buffer."""
        return self._trace

    def _remember(self) -> None:
        """Have the past know this session's proofs; each counts once, however often this is called."""
        problem = history.note(self.store.snapshot())
        if problem and problem not in self._lines:
            self._lines.append(problem)

    def stop(self) -> None:
        """End the prover if it is ours. A process that was attached to is never touched."""
        if self.prover is not None:
            self.prover.stop()


def event_line(event: Mapping[str, object]) -> str:
    """One event of the prover as a line for people."""
    if event.get("event") == "proof":
        where = f"{event['proof']}  " if event.get("proof") else ""
        seconds = float(str(event["seconds"]))
        return f"proof {event['number']}  {where}{seconds:.3f} s  checked with {event['verifier']}"
    return str(event.get("text", event))
