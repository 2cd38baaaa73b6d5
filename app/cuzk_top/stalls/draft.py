"""A finding before it is ranked: what to take out of the graph to see what closing it saves, and its kin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cuzk_top import figures
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.records import Records, Table
from cuzk_top.stalls.scene import Scene
from cuzk_top.stalls.whatif import Cut

MOST_EVIDENCE = 12
"""Span ids that a finding names."""


@dataclass(frozen=True, slots=True)
class Draft:
    """`cut` None: closing it changes no proof that was recorded. A cause hangs under the effect that it
    overlaps most; without one it stands alone.
    """

    finding: Finding
    cut: Cut | None = None
    cause: bool = False


def share(part: float) -> str:
    """A threshold's share as the screen writes it: ``0.5 %``."""
    return f"{100 * part:g} %"


def times(count: int) -> str:
    """``, 31 times`` or nothing."""
    return f", {count:,} times" if count > 1 else ""


def partition(records: Records, table: Table, i: int) -> str:
    """``p8`` for a span with an argument called partition; "" without one."""
    names = records.session.names
    number = int(table.name[i])
    if number < len(names):
        for name, values in ((names[number].a0, table.a0), (names[number].a1, table.a1)):
            if name in ("partition", "part", "p"):
                return f"p{int(values[i])}"
    return ""


def described(records: Records, table: Table, i: int) -> str:
    """``abc.eval of p8``, a span by name and partition."""
    part = partition(records, table, i)
    name = records.text(int(table.name[i]))
    return f"{name} of {part}" if part else name


def when(scene: Scene, t_ns: int) -> str:
    """A moment from the session's first record on: ``0:36.5``."""
    return figures.clock(t_ns - scene.snapshot.first_ns, 3)


def evidence(records: Records, places: np.ndarray, weights: np.ndarray) -> tuple[int, ...]:
    """Ids of host spans, the heaviest first."""
    sums: dict[int, int] = {}
    for place, weight in zip(places.tolist(), weights.tolist(), strict=True):
        if place >= 0:
            sums[place] = sums.get(place, 0) + weight
    order = sorted(sums, key=lambda place: (-sums[place], int(records.host.start[place])))
    return tuple(int(records.host.id[place]) for place in order[:MOST_EVIDENCE])
