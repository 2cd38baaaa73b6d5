"""The stage map: which lane a span falls into, by the dotted prefix of its name, and what the counters are.

Roles are keys of the theme's palette. A lane's role is that of its bars; `role_of` refines it by span.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from cuzk_top import stagemap


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
    Lane("waits", "waits", "", "held"),
    Lane("overhead", "tracing", "", "held"),
)
"""In screen order, which is the order of a proof; the lanes of GPUs come before `other`.

`waits` are the host's for a device, `overhead` what recording device activity took from the program."""

GPU_LANES: tuple[Lane, ...] = (
    Lane("held", "held", "", "held"),
    Lane("busy", "busy", "", "busy"),
    Lane("h2d", "copy in", "H", "h pinned"),
    Lane("ntt", "ntt", "N", "ntt"),
    Lane("msm", "msm", "M", "msm"),
    Lane("hash", "hash", "#", "witness"),
    Lane("d2h", "copy out", "D", "copy out"),
    Lane("other", "other", "", "busy"),
)
"""Of each GPU, in screen order. `held` are the host's claims, `busy` is when anything ran on it; `other` has
kernels without a stage, fills and copies inside the device."""

GPU_BASE = 1_000
GPU_STEP = 16
_LAST = 1 << 21  # above the lanes of 65,536 GPUs

HELD = "held"
"""What `lane_of` says of a claim: it belongs to the lane of this key of the GPU that it claims."""
HELD_PLACE = _LAST - 1
"""Stands for a place until it is known which GPU that is."""

ORDER = {lane.key: place if place < len(LANES) - 3 else _LAST + place for place, lane in enumerate(LANES)}
"""Place of each lane that a session has once; `place_of` and `lane_at` know those of GPUs too."""

_BY_PLACE = {place: lane for lane, place in zip(LANES, ORDER.values(), strict=True)}
_GPU_ORDER = {lane.key: number for number, lane in enumerate(GPU_LANES)}
FIXED = frozenset(ORDER) - {"key", "verify", "other", "waits", "overhead"}
"""Lanes that a proof always has: drawn from its beginning, so that rows do not jump when a stage starts."""

PREFIXES: dict[str, str] = {
    "gpu.held": HELD,
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
    """Key of a host span's lane: by prefix, else by the stage maps, the user's first; else `other`. HELD for
    what claims a GPU.
    """
    found = _longest_prefix(name, PREFIXES)
    if found is None:
        place = stagemap.ranges().range(name)
        found = place.lane if place is not None else "other"
    return found


def place_of(name: str) -> int:
    """Place of a host span's lane, HELD_PLACE for what claims a GPU."""
    lane = lane_of(name)
    return HELD_PLACE if lane == HELD else ORDER[lane]


def gpu_place(device: int, lane: str) -> int:
    """Place of a GPU's lane, by a key of GPU_LANES."""
    return GPU_BASE + device * GPU_STEP + _GPU_ORDER[lane]


def gpu_device(place: int) -> int:
    """The device whose lane is at a place."""
    return (place - GPU_BASE) // GPU_STEP


def is_claim(place: int) -> bool:
    """Whether a place is that of a GPU's `held` lane."""
    return GPU_BASE <= place < HELD_PLACE and (place - GPU_BASE) % GPU_STEP == _GPU_ORDER[HELD]


@cache
def lane_at(place: int) -> Lane:
    """The lane at a place. Raises KeyError or IndexError where there is none."""
    if GPU_BASE <= place < HELD_PLACE:
        device, number = gpu_device(place), (place - GPU_BASE) % GPU_STEP
        base = GPU_LANES[number]
        return Lane(f"gpu{device}.{base.key}", f"{device} {base.label}", base.letter, base.role)
    return _BY_PLACE[place]


def _gpu_lane(key: str) -> Lane:
    device, _, lane = key.removeprefix("gpu").partition(".")
    if not key.startswith("gpu") or not device.isdigit() or lane not in _GPU_ORDER:
        raise KeyError(key)
    return lane_at(gpu_place(int(device), lane))


def on_cpu(meta: Mapping[str, str]) -> bool:
    """True when the session says that a CPU back end does the work."""
    return meta.get("backend", "").split("-")[0] in ("cpu", "native", "python")


def lane(key: str, meta: Mapping[str, str]) -> Lane:
    """The lane with this key, as this session's back end has it. Raises KeyError for an unknown key."""
    found = _BY_PLACE[ORDER[key]] if key in ORDER else _gpu_lane(key)
    if found.role == "msm" and on_cpu(meta):
        return Lane(found.key, found.label, "m", "cpu msm")
    return found


def missing(key: str, meta: Mapping[str, str]) -> str | None:
    """Why a lane has nothing to show and never will; None when something may still come."""
    if key == "transfer" and on_cpu(meta):
        return "none: CPU back end"
    return None


def has_work(lane: Lane) -> bool:
    """Whether a lane holds what a device did: not what is derived of it, and not the host's claims."""
    return lane.key.startswith("gpu") and lane.key.partition(".")[2] not in (HELD, "busy")


def is_derived(lane: Lane) -> bool:
    """Whether a lane holds no records: a GPU's `busy`."""
    return lane.key.startswith("gpu") and lane.key.endswith(".busy")


def gpu_role(lane: Lane, name: str) -> str | None:
    """Palette role of a bar in a lane of devices; None for any other lane."""
    if lane.key.startswith("gpu"):
        return "p pageable" if lane.role == "h pinned" and name.endswith(".pageable") else lane.role
    return lane.role if lane.key in ("waits", "overhead") else None


def short_kernel(name: str) -> str:
    """A kernel's own name: no namespaces, no template arguments."""
    if name.startswith(("memcpy.", "gpu.")):
        return ""
    plain = name.partition("<")[0]
    return plain.rpartition("::")[2] or name


def role_of(name: str, meta: Mapping[str, str]) -> str:
    """Palette role of one span's bar."""
    found = lane_of(name)
    return _longest_prefix(name, _SPAN_ROLES) or (HELD if found == HELD else lane(found, meta).role)


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
    Counter("host.pinned", "pinned GiB", "GiB", "gauge", "memory"),
    Counter("host.locked", "locked GiB", "GiB", "gauge", "memory"),
    Counter("host.swap", "swap GiB", "GiB", "gauge", "memory"),
    Counter("host.disk_read", "read GB/s", "GB/s", "rate", "h pinned"),
    Counter("host.disk_write", "write GB/s", "GB/s", "rate", "copy out"),
    Counter("gpu.0.kernel", "GPU kern %", "%", "gauge", "busy", 100.0),
    Counter("gpu.0.util", "GPU %", "%", "gauge", "busy", 100.0),
    Counter("gpu.0.memory", "VRAM GiB", "GiB", "gauge", "memory"),
    Counter("gpu.0.pcie_in", "GPU in GB/s", "GB/s", "rate", "h pinned"),
    Counter("gpu.0.pcie_out", "GPU out GB/s", "GB/s", "rate", "copy out"),
    Counter("gpu.0.power", "GPU W", "W", "gauge", "power"),
    Counter("gpu.0.clock", "GPU MHz", "MHz", "gauge", "power"),
    Counter("gpu.0.temperature", "GPU °C", "°C", "gauge", "power"),
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
    if parts[0] == "thread" and len(parts) >= 3:
        group = ".".join(parts[1:-1])
        if parts[-1] == "cpu":
            return Counter(key, f"{group} CPU %", "%", "gauge", "cpu")
        return Counter(key, f"{group} {parts[-1]}", "/s", "rate", "faults")
    if parts[0] == "pressure":
        return Counter(key, f"{parts[-1]} wait %", "%", "rate", "cpu", 100.0)
    return Counter(key, key, "", "gauge", "cpu")
