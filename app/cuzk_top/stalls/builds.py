"""stale.build: kernels that were not compiled from the sources as they are.

What the prover says of them is in its metadata (see `fingerprints`). Of a program that says nothing, nothing
is known, and so nothing is said.
"""

from __future__ import annotations

from cuzk_top import fingerprints
from cuzk_top.fingerprints import LOADED, SOURCES
from cuzk_top.stalls.draft import Draft
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.graph import Graph


def find(graph: Graph) -> list[Draft]:
    """One finding for all units that differ."""
    scene = graph.scene
    meta = scene.snapshot.session.meta
    stale = fingerprints.stale(meta)
    if not stale:
        return []
    return [
        Draft(
            Finding(
                "stale.build",
                " ".join(stale),
                ((scene.low, scene.high),) if scene.high > scene.low else (),
                None,
                "other",
                0,
                None,
                len(stale),
                f"stale kernels: {stale[0]}" + (f" and {len(stale) - 1} more" if stale[1:] else ""),
                "fires when kernels are not built from the sources on disk; to end it, build them again",
                tuple(
                    f"{unit}: loaded {meta[LOADED + unit][:12]}, sources {meta[SOURCES + unit][:12]}"
                    for unit in stale
                ),
            )
        )
    ]
