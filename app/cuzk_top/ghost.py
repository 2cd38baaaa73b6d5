"""When the devices worked in the last proof, moved to where the present one began: a shadow to compare with.

Pure functions of a snapshot; numpy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cuzk_top.devicetime import union
from cuzk_top.model import Snapshot
from cuzk_top.proofs import Proof, proofs

Int64s = NDArray[np.int64]

WORK = ("synthesis", "ntt", "msm.")
"""Starts of the keys of lanes in which a CPU works on a proof; reading a key or waiting is none."""
LOOKED_AT = 100
"""Proofs among which the last finished one is looked for: more do not run at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Ghost:
    """The last proof on one device. Intervals are disjoint, in order, and moved to the present proof."""

    device: int | None
    """None where there is no GPU: the CPU's work in the lanes of synthesis, NTT and MSM, on any thread."""
    start_ns: Int64s
    end_ns: Int64s
    proof_ns: int
    """How long that proof took."""


def last_proof(snapshot: Snapshot) -> tuple[Ghost, ...]:
    """One ghost a device: of the proofs that began before the running (else the newest) one, the last to end.

    Empty while there are not two proofs to compare. Failed proofs are no measure.
    """
    pair = _pair(snapshot)
    if pair is None:
        return ()
    last, present = pair
    assert last.end_ns is not None
    shift, length = present.start_ns - last.start_ns, last.end_ns - last.start_ns
    if not snapshot.devices:
        start, end = _within(*_cpu(snapshot, last.start_ns, last.end_ns), last.start_ns, last.end_ns)
        return (Ghost(None, start + shift, end + shift, length),)
    ghosts = []
    for device in snapshot.devices:
        start, end = _within(*device.work.touching(last.start_ns, last.end_ns), last.start_ns, last.end_ns)
        ghosts.append(Ghost(device.index, start + shift, end + shift, length))
    return tuple(ghosts)


def _pair(snapshot: Snapshot) -> tuple[Proof, Proof] | None:
    """The last proof and the present one."""
    known = proofs(snapshot, LOOKED_AT)
    if not known:
        return None
    running = [proof for proof in known if proof.end_ns is None]
    present = running[-1] if running else known[-1]
    before = [
        proof
        for proof in known
        if proof.end_ns is not None and not proof.failed and proof.start_ns < present.start_ns
    ]
    if not before:
        return None
    return max(before, key=lambda proof: (proof.end_ns, proof.start_ns)), present


def _cpu(snapshot: Snapshot, low: int, high: int) -> tuple[Int64s, Int64s]:
    """When any thread worked on a proof, in spans that touch a stretch."""
    starts, ends = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for row in snapshot.rows:
        if row.lane.key.startswith(WORK) and len(row.columns):
            first = int(np.searchsorted(row.columns.end_ns, low, "right"))
            beyond = int(np.searchsorted(row.columns.start_ns, high, "left"))
            starts.append(row.columns.start_ns[first:beyond])
            ends.append(row.columns.end_ns[first:beyond])
    return union(np.concatenate(starts), np.concatenate(ends))


def _within(start: Int64s, end: Int64s, low: int, high: int) -> tuple[Int64s, Int64s]:
    """What of disjoint intervals in order lies in a stretch, cut to it."""
    first = int(np.searchsorted(end, low, "right"))
    beyond = int(np.searchsorted(start, high, "left"))
    return np.maximum(start[first:beyond], low), np.minimum(end[first:beyond], high)
