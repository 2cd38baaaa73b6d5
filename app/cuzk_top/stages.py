"""The stage map: which lane a span falls into, by the dotted prefix of its name, and what the counters are.

Roles are keys of the theme's palette. A lane's role is that of its bars; `role_of` refines it by span.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lane:
    """A group of rows for one kind of work, with a letter and a palette role that identify it."""

    key: str
    label: str
    letter: str
    role: str


LANES: tuple[Lane, ...] = (
    Lane("proof", "proof", "", "held"),
    Lane("key", "key", "K", "held"),
    Lane("synthesis", "synth", "S", "witness"),
    Lane("transfer", "copy in", "H", "h pinned"),
    Lane("ntt", "ntt", "N", "ntt"),
    Lane("msm.h", "msm h", "M", "msm"),
    Lane("msm.l", "msm l", "M", "msm"),
    Lane("msm.a", "msm a", "M", "msm"),
    Lane("msm.b_g1", "msm b_g1", "M", "msm"),
    Lane("msm.b_g2", "msm b_g2", "M", "msm"),
    Lane("finalize", "finalize", "F", "held"),
    Lane("verify", "verify", "V", "held"),
    Lane("other", "other", "", "busy"),
)
"""In screen order, which is the order of a proof."""

ORDER = {lane.key: place for place, lane in enumerate(LANES)}
FIXED = frozenset(ORDER) - {"key", "verify", "other"}
"""Lanes that a proof always has: drawn from its beginning, so that rows do not jump when a stage starts."""

PREFIXES: dict[str, str] = {
    "prove": "proof",
    "key": "key",
    "check": "key",
    "setup": "key",
    "synthesis": "synthesis",
    "transfer": "transfer",
    "quotient": "ntt",
    "msm.h": "msm.h",
    "msm.l": "msm.l",
    "msm.a": "msm.a",
    "msm.b_g1": "msm.b_g1",
    "msm.b_g2": "msm.b_g2",
    "finalize": "finalize",
    "verify": "verify",
}

_SPAN_ROLES: dict[str, str] = {
    "synthesis.abc": "eval",
    "transfer.pageable": "p pageable",
}


def _longest_prefix(name: str, table: Mapping[str, str]) -> str | None:
    while name:
        found = table.get(name)
        if found is not None:
            return found
        name = name.rpartition(".")[0]
    return None


def lane_of(name: str) -> str:
    """Key of a span's lane; `other` when no prefix is known."""
    return _longest_prefix(name, PREFIXES) or "other"


def on_cpu(meta: Mapping[str, str]) -> bool:
    """True when the session says that a CPU back end does the work."""
    return meta.get("backend", "").split("-")[0] in ("cpu", "native", "python")


def lane(key: str, meta: Mapping[str, str]) -> Lane:
    """The lane with this key, as this session's back end has it. Raises KeyError for an unknown key."""
    found = LANES[ORDER[key]]
    if found.role == "msm" and on_cpu(meta):
        return Lane(found.key, found.label, "m", "cpu msm")
    return found


def missing(key: str, meta: Mapping[str, str]) -> str | None:
    """Why a lane has nothing to show and never will; None when something may still come."""
    if key == "transfer" and on_cpu(meta):
        return "none: CPU back end"
    return None


def role_of(name: str, meta: Mapping[str, str]) -> str:
    """Palette role of one span's bar."""
    return _longest_prefix(name, _SPAN_ROLES) or lane(lane_of(name), meta).role


@dataclass(frozen=True, slots=True)
class Counter:
    """How one counter is shown. `kind`: a gauge is drawn as a column's mean, a rate as its maximum."""

    key: str
    label: str
    unit: str
    kind: str
    role: str
    top: float | None = None


COUNTERS: tuple[Counter, ...] = (
    Counter("host.minflt", "minflt/s", "/s", "rate", "faults"),
    Counter("host.majflt", "majflt/s", "/s", "rate", "faults"),
    Counter("host.cpu", "CPU %", "%", "gauge", "cpu", 100.0),
    Counter("host.rss", "RSS GiB", "GiB", "gauge", "memory"),
    Counter("gpu.0.util", "GPU %", "%", "gauge", "busy", 100.0),
    Counter("gpu.0.memory", "VRAM GiB", "GiB", "gauge", "memory"),
)
"""In screen order. Their keys are the names of the records; the metadata key `missing.KEY` says why one has
no samples, `top.KEY` gives a natural limit that depends on the machine."""

COUNTER_ORDER = {counter.key: place for place, counter in enumerate(COUNTERS)}


def counter(key: str) -> Counter:
    """How a counter is shown; one that the table lacks is a plain gauge under its own name."""
    place = COUNTER_ORDER.get(key)
    if place is not None:
        return COUNTERS[place]
    parts = key.split(".")
    if len(parts) == 3 and parts[0] == "gpu":
        like = COUNTER_ORDER.get(f"gpu.0.{parts[2]}")
        if like is not None:
            base = COUNTERS[like]
            label = base.label.replace("GPU", f"GPU{parts[1]}").replace("VRAM", f"VRAM{parts[1]}")
            return Counter(key, label, base.unit, base.kind, base.role, base.top)
    return Counter(key, key, "", "gauge", "cpu")
