"""stale.build: kernels that were not compiled from the sources as they are.

The prover says which it loaded (metadata ``kernels.fingerprint.UNIT``) and what the sources on its disk make
(``kernels.sources.UNIT``). A program that says neither is nobody's stale build: nothing is known of it.
"""

from __future__ import annotations

from cuzk_top.stalls.draft import Draft
from cuzk_top.stalls.finding import Finding
from cuzk_top.stalls.graph import Graph

LOADED = "kernels.fingerprint."
SOURCES = "kernels.sources."


def find(graph: Graph) -> list[Draft]:
    """One finding for all units that differ."""
    scene = graph.scene
    meta = scene.snapshot.session.meta
    units = sorted(key.removeprefix(LOADED) for key in meta if key.startswith(LOADED))
    stale = [unit for unit in units if meta.get(SOURCES + unit, meta[LOADED + unit]) != meta[LOADED + unit]]
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
                f"kernels of {', '.join(stale)} are not those of the sources on disk: build them again",
                "fires when the fingerprints differ",
                tuple(
                    f"{unit}: loaded {meta[LOADED + unit][:12]}, sources {meta[SOURCES + unit][:12]}"
                    for unit in stale
                ),
            )
        )
    ]
