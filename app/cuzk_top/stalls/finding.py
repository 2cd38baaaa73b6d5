"""What the analysis of stalls says, as values: findings, the critical path, and how the time adds up.

Times are nanoseconds of CLOCK_MONOTONIC. Everything is immutable and equal for equal traces.
"""

from __future__ import annotations

from dataclasses import dataclass

Interval = tuple[int, int]
"""``[start_ns, end_ns)``."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One stall: a group of gaps or spans with one cause. An effect owns the cost; causes hang under it."""

    rule: str
    """Id of the rule, such as ``idle.host``."""
    key: str
    """What was grouped, without times: with `rule` it identifies the finding from analysis to analysis."""
    intervals: tuple[Interval, ...]
    """Disjoint, in order: where it is drawn."""
    device: int | None
    """GPU whose time was lost; None where it is no GPU's."""
    lane: str
    """Key of the lane whose span caused it; of a GPU's lane where no host span is known."""
    cost_ns: int
    """GPU time lost, summed over devices; 0 where none was. The costs of effects never overlap."""
    saved_ns: int | None
    """Wall time that closing this alone would save, through the critical path; 0: hidden; None: no proof to
    measure it by. Proofs that failed do not count."""
    count: int
    """Gaps, spans or copies in the group."""
    sentence: str
    threshold: str
    """The rule's condition with its figures, such as ``fires over 0.5 % of the proof (205 ms)``."""
    arithmetic: tuple[str, ...]
    """How cost and saving were computed, in lines."""
    spans: tuple[int, ...] = ()
    """Ids of the spans that are the evidence, the most telling first."""
    values: tuple[tuple[str, float], ...] = ()
    """Counter readings and rates that are the evidence, by name."""
    causes: tuple[Finding, ...] = ()
    """What made it, where another rule knows; their `cost_ns` is 0."""
    incomplete: bool = False
    """Records were lost inside it: what looks idle may not have been."""
    ranked: bool = True
    """False for what is shown but is no stall (``idle.nowork``, ``lost``) or too small to be one: the groups
    of gaps below their limit, told of together, so that every idle nanosecond is in one finding."""

    @property
    def hidden(self) -> bool:
        """True when closing it alone saves nothing."""
        return self.saved_ns == 0


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch of the critical path: the span that the proof waited for then."""

    start_ns: int
    end_ns: int
    span: int
    """Its id, of device work that of the span that launched it; 0 for a stretch that no recorded span
    explains."""
    name: str
    lane: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything that is said about one window of one trace.

    ``kernel_ns + copy_only_ns + idle_ns`` is the window's length times the number of devices;
    ``explained_ns + unknown_ns + nowork_ns == idle_ns``.
    """

    window: Interval
    findings: tuple[Finding, ...]
    """Effects, the best first: by wall time saved, then by GPU time lost; then what is not ranked."""
    path: tuple[Step, ...]
    """The critical path of the last proof in the window, from its start to its end, without gaps."""
    kernel_ns: int
    copy_only_ns: int
    idle_ns: int
    explained_ns: int
    unknown_ns: int
    nowork_ns: int
    proof_ns: int = 0
    """The time within the window in which a job was open."""
    early: bool = False
    """Too early to tell: no proof has gone far enough for thresholds to mean something."""
    no_device: str | None = None
    """Why nothing can be said about a GPU (``no device data: …``)."""


NOTHING = Analysis((0, 0), (), (), 0, 0, 0, 0, 0, 0, early=True)
