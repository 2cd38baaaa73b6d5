"""A saved trace as a batch, and the pace of its replay.

A replay loads the whole file into the store at once; what is seen of it is decided by the play head alone
(`Snapshot.now_ns`), so seeking costs nothing and live and replayed sessions are drawn by the same code.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cuzk_top import trace
from cuzk_top.model import FLAG_OPEN, Batch, Columns, Snapshot

SLOWEST = 0.1
FASTEST = math.inf
"""At this speed the play head is at the end at once."""


class TraceSource:
    """A saved trace that is over: one batch with everything. Raises TraceError when it cannot be read."""

    def __init__(self, path: str | Path) -> None:
        self.trace = trace.open(path)
        self._told = False

    def poll(self) -> Batch:
        """Everything, the first time."""
        opened = self.trace
        open_, runs = [], []
        for run in opened.runs:
            if run.flags is None or run.flags & FLAG_OPEN:
                still = run.columns.flags & FLAG_OPEN != 0
                if still.any():
                    open_.append(run.columns.take(still))
                    run = replace(run, columns=run.columns.take(~still))  # noqa: PLW2901
            if len(run.columns):
                runs.append(run)
        told, self._told = self._told, True
        return Batch(
            opened.session,
            Columns.empty(),
            Columns.concat(open_),
            opened.lost,
            opened.now_ns,
            ended=True,
            problems=opened.problems,
            runs=() if told else tuple(runs),
        )

    def close(self) -> None:
        """Nothing to let go of."""


class Replay:
    """The play head of a replay from `first_ns` to `last_ns`. `clock` is any monotonic clock in ns."""

    def __init__(self, clock: Callable[[], int], first_ns: int, last_ns: int) -> None:
        self._clock = clock
        self.first_ns = first_ns
        self.last_ns = max(first_ns, last_ns)
        self.speed = 1.0
        self.playing = False
        self._head_ns = first_ns
        self._since_ns = 0
        self._seen: tuple[Snapshot, Snapshot] | None = None

    def now_ns(self) -> int:
        """Where the play head is; at the end it stops."""
        if not self.playing:
            return self._head_ns
        passed = math.inf if self.speed == FASTEST else (self._clock() - self._since_ns) * self.speed
        if passed < self.last_ns - self._head_ns:
            return self._head_ns + round(passed)
        self.playing, self._head_ns = False, self.last_ns
        return self.last_ns

    @property
    def at_end(self) -> bool:
        """True when there is nothing more to play."""
        return self.now_ns() >= self.last_ns

    def play(self) -> None:
        """Go on; from the beginning when the end was reached."""
        self.seek(self.first_ns if self.at_end else self.now_ns())
        self.playing = True

    def pause(self) -> None:
        """Stop where the head is."""
        self.seek(self.now_ns())
        self.playing = False

    def set_speed(self, speed: float) -> None:
        """Seconds of trace a second, 0.1 to FASTEST; others are brought into the range."""
        self.seek(self.now_ns())
        self.speed = speed if speed > SLOWEST else SLOWEST

    def seek(self, t_ns: int) -> None:
        """Put the head somewhere within the trace; playing goes on from there."""
        self._head_ns = min(max(t_ns, self.first_ns), self.last_ns)
        self._since_ns = self._clock()

    def view(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot as of the play head; the same object while nothing moved."""
        now = self.now_ns()
        if self._seen is None or self._seen[0] is not snapshot or self._seen[1].now_ns != now:
            self._seen = (snapshot, replace(snapshot, now_ns=now))
        return self._seen[1]
