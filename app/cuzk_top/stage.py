"""One row of the stage table, and what the figures of its columns are made of: numpy, no drawing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cuzk_top.model import Snapshot
from cuzk_top.stats import proof_rows

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stage:
    """One row of the stage table: all spans of one name, or all that a GPU did for one stage."""

    name: str
    lane: str
    role: str
    indent: int
    label: str
    count: int
    running: int
    total_ns: int
    self_ns: int
    median_ns: int | None
    p95_ns: int | None
    share: float | None
    """Of the proofs' total, 0..1, what lies inside of proofs; None where nothing does, as of set-up."""
    minflt: int | None
    majflt: int | None
    ns_per_point: float | None
    gb_per_s: float | None = None
    """Of copies: bytes over the time in which at least one ran."""


def proof_times(snapshot: Snapshot) -> list[tuple[Int64s, Int64s]]:
    """Starts and (clipped) ends of the proofs of each row that holds any."""
    now, found = snapshot.now_ns, []
    for starts, ends, running in proof_rows(snapshot):
        if running is not None:
            starts, ends = np.append(starts, running), np.append(ends, now)  # noqa: PLW2901
        found.append((starts, ends))
    return found


def inside(starts: Int64s, ends: Int64s, proofs: list[tuple[Int64s, Int64s]]) -> NDArray[np.bool_]:
    """Which spans lie inside of a proof, on whatever thread."""
    found = np.zeros(len(starts), dtype=bool)
    for begins, finishes in proofs:
        if len(begins):
            index = np.searchsorted(begins, starts, "right") - 1
            found |= (index >= 0) & (finishes[np.maximum(index, 0)] >= ends)
    return found


def quantile(ordered: Int64s, q: float) -> int:
    """Quantile of sorted values, linear between neighbours (numpy's default, without its 0.1 ms a call)."""
    at = q * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return int(ordered[low] + (at - low) * (ordered[high] - ordered[low]))
