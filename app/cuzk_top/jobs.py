"""Jobs of a session, read from its spans: what is proved, how far it is, and who holds which GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Job:
    """One proof, or one job of a proving daemon. Times in nanoseconds; None where it is not known."""

    id: str
    """The job's own name, or ``proof 3``."""
    kind: str
    """Circuit or type of proof, such as ``porep-32g``; jobs of a kind are compared with each other."""
    state: str
    """``running``, ``waiting``, ``done`` or ``failed``."""
    start_ns: int
    end_ns: int | None
    stage: str
    """Innermost stage that runs now; "" when none."""
    partitions: str
    """A letter a partition in their order: ``.`` waiting, ``S`` synthesis, ``H N M`` on the GPU, ``D`` done;
    "" for a proof in one piece."""
    holds: tuple[tuple[int, int], ...]
    """``(device, since_ns)`` of each GPU it holds now."""
    left_ns: int | None
    """Expected time to its end: the median of past ones of its kind less its age; never below 0."""
    late_ns: int | None
    """How far it is, or will be, beyond the median of its kind; negative when it is ahead."""
    slack_ns: int | None
    """Time from its expected end to its deadline; negative when it will miss it."""

    def age_ns(self, now_ns: int) -> int:
        """Time since it began, or that it took."""
        return (self.end_ns if self.end_ns is not None else now_ns) - self.start_ns
