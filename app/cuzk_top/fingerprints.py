"""Whether the kernels that ran are the sources on disk, by what the prover says in the metadata.

``kernels.fingerprint.UNIT`` is read from the loaded module, ``kernels.sources.UNIT`` is what its sources on
the prover's disk make now. A program that says neither is not known to be fresh.
"""

from __future__ import annotations

from collections.abc import Mapping

LOADED = "kernels.fingerprint."
SOURCES = "kernels.sources."


def stale(meta: Mapping[str, str]) -> list[str] | None:
    """Units whose sources are not what was loaded, in order; None where nothing is known of any."""
    units = sorted(key.removeprefix(LOADED) for key in meta if key.startswith(LOADED))
    if not units:
        return None
    return [unit for unit in units if meta.get(SOURCES + unit, meta[LOADED + unit]) != meta[LOADED + unit]]
