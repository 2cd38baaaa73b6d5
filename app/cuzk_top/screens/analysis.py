"""What the screen knows beyond the trace itself: findings, jobs, past proofs and the last one, from a thread.

A frame never waits for it: it takes what is there. While a session runs or plays, the thread rests so long
that it uses no more than a hundredth of one core.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from cuzk_top import heap
from cuzk_top.model import Snapshot
from cuzk_top.stalls.finding import NOTHING, Analysis, Finding, Interval
from cuzk_top.viewport import Order, ViewState, Window

if TYPE_CHECKING:
    from cuzk_top.ghost import Ghost
    from cuzk_top.history import Past
    from cuzk_top.jobs import Job
    from cuzk_top.proofs import Parts

EVERY_NS = 2_000_000_000
"""While a session runs or plays, at most once in so long: what it says is read, not watched."""
REST = 100
"""Pause after a run, in CPU times of that run: a hundredth of a core, however long a run takes."""
LOOK_BACK_NS = 900 * 1_000_000_000
"""A session that runs longer is analysed over its last 15 minutes."""
MOST_SPANS = 250_000
"""Of a trace with more, a part is analysed: what takes half a second leaves keys quick meanwhile."""
LIVE_SPANS = 100_000
"""The same of a session that runs: its analysis takes half a second of CPU and 30 MB, once a minute."""
STILL_NS = 300_000_000
"""That part follows the window on the screen once it has not moved for so long."""


@dataclass(frozen=True, slots=True, eq=False)
class Insight:
    """One moment's conclusions; exchanged whole."""

    analysis: Analysis = NOTHING
    jobs: tuple[Job, ...] = ()
    ghosts: tuple[Ghost, ...] = ()
    past: Past | None = None
    last: Mapping[str, int] = field(default_factory=dict)
    """Time of each stage in the last finished proof, by name."""
    part: Interval | None = None
    """The stretch that was analysed; None: all there is."""
    at_ns: int | None = None
    """Up to when there was something to analyse: beside a busy GPU that is up to a minute ago."""
    problem: str = ""
    """Why there is none."""

    @property
    def ranks(self) -> dict[tuple[str, str], int]:
        """Number of each ranked finding, from 1, by its rule and key."""
        ranked = [finding for finding in self.analysis.findings if finding.ranked]
        return {identity(finding): number for number, finding in enumerate(ranked, 1)}

    def in_order(self, order: Order) -> list[Finding]:
        """The findings as the pane lists them; what is not ranked comes last."""
        found = list(self.analysis.findings)
        if order == "lost":
            found.sort(key=lambda finding: (not finding.ranked, -finding.cost_ns))
        elif order == "time":
            found.sort(key=lambda finding: (not finding.ranked, finding.intervals[:1]))
        return found

    def selected(self, view: ViewState) -> Finding | None:
        """The finding that the view names, else the first."""
        found = self.in_order(view.order)
        return next((one for one in found if identity(one) == view.finding), found[0] if found else None)


NO_INSIGHT = Insight()

Analyse = Callable[[Snapshot, Interval | None], Insight]
"""Of a snapshot and the stretch to analyse (None: all of it)."""


def identity(finding: Finding) -> tuple[str, str]:
    """What stays the same of a finding from analysis to analysis."""
    return finding.rule, finding.key


def part_of(snapshot: Snapshot, window: Window) -> Interval | None:
    """What is analysed of a snapshot that is seen in a window; None: all of it.

    Of a session that runs its last 15 minutes; of more than `MOST_SPANS` what is on the screen, and of more
    than that on the screen, or than `LIVE_SPANS` in those minutes, so much of its end, in halves.
    """
    low, high = snapshot.first_ns, snapshot.now_ns
    most = MOST_SPANS if snapshot.ended else LIVE_SPANS
    if not snapshot.ended:
        low = max(low, high - LOOK_BACK_NS)
    elif snapshot.spans > MOST_SPANS:
        low, high = max(low, window.t0_ns), min(high, window.t1_ns)
        if low >= high:
            low, high = snapshot.first_ns, snapshot.now_ns
    while snapshot.spans > most and high - low > 1 and _spans_in(snapshot, low, high) > most:
        low = high - (high - low) // 2
    return None if (low, high) == (snapshot.first_ns, snapshot.now_ns) else (low, high)


def _spans_in(snapshot: Snapshot, low: int, high: int) -> int:
    """Spans that begin in a stretch."""
    edges = np.array((low, high), np.int64)
    return sum(int(np.subtract(*row.columns.start_ns.searchsorted(edges)[::-1])) for row in snapshot.rows)


class Analyst:
    """Runs one analysis at a time on a thread of its own.

    `clock` is monotonic nanoseconds, `cpu` those for which the asking thread has computed: beside a prover
    that takes all cores a run lasts many times as long as it costs.
    """

    def __init__(
        self, analyse: Analyse, clock: Callable[[], int], cpu: Callable[[], int] = time.thread_time_ns
    ) -> None:
        self.insight = NO_INSIGHT
        self._analyse = analyse
        self._clock = clock
        self._cpu = cpu
        self._thread: threading.Thread | None = None
        self._began_ns = 0
        self._ended_ns = 0
        self._worked_ns = 0
        self._due_ns = 0
        self._key: object = None
        self._seen: tuple[object, int] = (None, 0)
        """What was asked for last, and since when."""
        self._tried: object = None
        """What was looked at already: finding what part to analyse takes a look at each row."""
        self._came: Insight | None = None

    def look(self, snapshot: Snapshot, window: Window, resting: bool) -> Insight:
        """The newest insight; begins another run if the moment is another and (`resting`) it is time.

        `window` is what the screen shows.
        """
        now = self._clock()
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._due_ns = max(self._began_ns + EVERY_NS, self._ended_ns + REST * self._worked_ns)
            if self._came is not None:
                self.insight, self._came = self._came, None
        moment = (snapshot.revision, snapshot.now_ns, window)
        if moment != self._seen[0]:
            self._seen = (moment, now)
        still = now >= self._seen[1] + STILL_NS
        if self._thread is not None or (resting and now < self._due_ns) or (moment, still) == self._tried:
            return self.insight
        self._tried = (moment, still)
        if not (resting or still) and snapshot.spans > MOST_SPANS:
            return self.insight  # the part follows the window, which moves
        part = part_of(snapshot, window)
        key = (snapshot.revision, snapshot.now_ns, part)
        if key != self._key and (resting or still or part is None):
            self._key, self._began_ns = key, now
            self._thread = threading.Thread(target=self._run, args=(snapshot, part), name="analysis")
            self._thread.start()
        return self.insight

    def _run(self, snapshot: Snapshot, part: Interval | None) -> None:
        began = self._cpu()
        try:
            self._came = self._analyse(snapshot, part)
        except Exception as error:  # whatever it is, it must not take the screen down
            self._came = Insight(problem=f"the analysis failed: {type(error).__name__}: {error}")
        self._worked_ns = self._cpu() - began
        self._ended_ns = self._clock()

    def wait(self) -> None:
        """Until the run in progress has ended."""
        if self._thread is not None:
            self._thread.join()


class Analysing:
    """The analyses themselves, with what need not be read from disk twice."""

    def __init__(self, deadlines: Mapping[str, int]) -> None:
        self._deadlines = deadlines
        self._past: tuple[Mapping[str, str], Past] | None = None
        self._parts: Parts | None = None

    def __call__(self, snapshot: Snapshot, part: Interval | None) -> Insight:
        from cuzk_top import ghost, history, jobs, proofs, stalls  # noqa: PLC0415 - after the first frame

        if self._parts is None:
            self._parts = proofs.Parts()
        meta = snapshot.session.meta
        if self._past is None or self._past[0] != meta:
            self._past = (meta, history.read(meta))
        past = self._past[1]
        finished = [
            proof for proof in proofs.proofs(snapshot, 100) if proof.end_ns is not None and not proof.failed
        ]
        insight = Insight(
            stalls.analyse(snapshot, part),
            tuple(jobs.jobs(snapshot, past, self._deadlines, self._parts)),
            ghost.last_proof(snapshot),
            past,
            history.totals(snapshot, finished[-1:])[0] if finished else {},
            part,
            snapshot.now_ns,
        )
        if not snapshot.ended:
            gc.collect()  # what ran beside the screen is in cycles, and holds columns of moments long past
            heap.trim()
        return insight
