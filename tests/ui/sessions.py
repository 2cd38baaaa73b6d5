"""Sessions made from a short list of spans, controls over them, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from textual.pilot import Pilot

from cuzk_top.app import CuzkTop
from cuzk_top.model import (
    FLAG_FAULTS,
    FLAG_OPEN,
    KIND_COUNTER,
    KIND_SPAN,
    Batch,
    Columns,
    Name,
    Session,
    Snapshot,
    Track,
)
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.session import Facts, Playback, SessionScreen
from cuzk_top.store import Store
from cuzk_top.theme import Theme
from cuzk_top.viewport import ViewState

MS = 1_000_000
BASE_NS = 1_000 * 1_000_000_000
"""Session time of the builder's zero: monotonic clocks do not begin at zero either."""
REALTIME_NS = 1_796_133_540 * 1_000_000_000
"""2026-12-01 13:59:00 UTC, the wall clock at zero."""

SpanSpec = tuple[str, float, float | None]
"""Name, start and end in ms; no end: still open. Nesting follows from the times."""

ARGUMENTS = {f"msm.{kind}": ("points", "window_bits") for kind in ("h", "l", "a", "b_g1", "b_g2")}

JOB = "chain-2^16"
SCALE = 40.0


def _msm(kind: str, *edges: float) -> list[SpanSpec]:
    """One multiexponentiation and its steps, one after another between the edges."""
    steps = ("digits", "accumulate", "reduce", "horner")
    inside = [(f"msm.{kind}.{step}", *pair) for step, pair in zip(steps, pairwise(edges[:-1]), strict=False)]
    return [(f"msm.{kind}", edges[0], edges[-1]), *inside]


PROOF: tuple[SpanSpec, ...] = (
    ("key.load", 0, 18),
    ("check.points", 18, 60),
    ("prove", 60, 980),
    ("synthesis", 62, 300),
    ("synthesis.witness.load", 64, 190),
    ("synthesis.abc.eval", 190, 298),
    ("quotient", 300, 520),
    ("quotient.intt.a", 300, 340),
    ("quotient.intt.b", 340, 380),
    ("quotient.intt.c", 380, 420),
    ("quotient.coset", 420, 430),
    ("quotient.ntt.a", 430, 460),
    ("quotient.ntt.b", 460, 490),
    ("quotient.ntt.c", 490, 515),
    ("quotient.pointwise", 515, 519),
    *_msm("h", 520, 530, 680, 698, 699.5, 700),
    *_msm("l", 700, 705, 750, 759, 760),
    *_msm("a", 760, 764, 802, 809, 810),
    *_msm("b_g1", 810, 814, 852, 859, 860),
    *_msm("b_g2", 860, 864, 952, 969, 970),
    ("finalize", 970, 978),
    ("verify", 982, 1000),
)
"""One proof in a thousandth of its real length; `proofs` scales and repeats it."""


def proofs(count: int, scale: float = SCALE, until_ms: float | None = None) -> list[SpanSpec]:
    """`count` proofs one after another, each a little slower; cut at `until_ms`, where spans stay open."""
    made: list[SpanSpec] = []
    at = 0.0
    for number in range(count):
        factor = scale / 10 * (1 + 0.04 * number)
        for name, start, end in PROOF:
            if number and name in ("key.load", "check.points"):
                continue
            assert end is not None
            made.append((name, at + start * factor, at + end * factor))
        at += 1000 * factor
    if until_ms is None:
        return made
    return [(n, s, e if e is not None and e <= until_ms else None) for n, s, e in made if s < until_ms]


def columns_of(spans: Sequence[SpanSpec], names: dict[str, int], now_ms: float, is_open: bool) -> Columns:
    """Spans of one thread as records; ids in order of start, parents and depths from nesting."""
    # Of spans with the same times the one with the shorter path is the outer one; `prove` is around all.
    ordered = sorted(
        enumerate(spans),
        key=lambda item: (item[1][1], -(item[1][2] or 1e18), item[1][0] != "prove", item[1][0].count(".")),
    )
    stack: list[tuple[int, float]] = []
    rows: list[dict[str, int]] = []
    for number, (name, start, end) in ordered:
        finish = now_ms if end is None else end
        while stack and stack[-1][1] <= start:
            stack.pop()
        identity = (1 << 32) | (number + 1)
        if (end is None) == is_open:
            faults = int((finish - start) * 3) if name.count(".") < 2 else 0
            rows.append(
                {
                    "start_ns": BASE_NS + round(start * MS),
                    "end_ns": BASE_NS + round(finish * MS),
                    "kind": KIND_SPAN,
                    "flags": (FLAG_OPEN if end is None else 0) | (FLAG_FAULTS if faults else 0),
                    "depth": len(stack),
                    "track": 1,
                    "name": names[name],
                    "id": identity,
                    "parent": stack[-1][0] if stack else 0,
                    "a0": 65_536 if name in ARGUMENTS else 0,
                    "a1": 13 if name in ARGUMENTS else 0,
                    "minflt": faults,
                    "seq": number,
                }
            )
        stack.append((identity, 1e18 if end is None else end))
    rows.sort(key=lambda row: row["end_ns"])
    keys = rows[0].keys() if rows else ()
    return Columns.make(len(rows), **{key: np.array([row[key] for row in rows]) for key in keys})


COUNTERS: dict[str, tuple[float, ...]] = {
    "host.minflt": (200, 12_000, 90_000, 744_000, 30_000, 8_000, 0, 100, 400, 9_000),
    "host.majflt": (0, 0, 3, 0, 0, 0, 0, 0, 0, 0),
    "host.cpu": (50, 55, 100, 97, 96, 88, 60, 50, 99, 100),
    "host.rss": (0.2, 0.4, 0.9, 1.2, 1.4, 1.4, 1.3, 1.1, 1.0, 1.2),
}
MISSING = {"missing.gpu.0.util": "NVML library not found", "missing.gpu.0.memory": "NVML library not found"}


def session_of(spans: Sequence[SpanSpec]) -> tuple[Session, dict[str, int]]:
    texts = [*dict.fromkeys(name for name, _, _ in spans), *COUNTERS]
    names = [Name("")] + [
        Name(text, *ARGUMENTS.get(text, ("", "")), stage=True, faults=True) for text in texts
    ]
    meta = {"job": JOB, "backend": "native", "curve": "bn254", **MISSING}
    tracks = {1: Track(1, "thread", "MainThread", 41207), 2: Track(2, "probe", "proc", 0)}
    session = Session(41207, JOB, BASE_NS, meta, names, tracks, [(BASE_NS, REALTIME_NS)])
    return session, {text: number for number, text in enumerate(texts, 1)}


def snapshot_of(
    spans: Sequence[SpanSpec],
    now_ms: float,
    *,
    lost: int = 0,
    ended: bool = False,
    counters: bool = True,
    job: str = "chain-2^16",
) -> Snapshot:
    """A snapshot through the real store."""
    session, names = session_of(spans)
    parts = [columns_of(spans, names, now_ms, False)]
    if counters:
        step = now_ms / 60
        for key, values in COUNTERS.items():
            ends = np.arange(1, 61) * step * MS
            value = np.array([values[i * len(values) // 60] for i in range(60)], dtype=np.float64)
            stops = BASE_NS + ends.astype(np.int64)
            parts.append(
                Columns.make(
                    60, start_ns=stops - round(step * MS), end_ns=stops, kind=KIND_COUNTER, flags=2, track=2,
                    name=names[key], a0=value.view(np.int64),
                )
            )  # fmt: skip
    store = Store()
    opened = columns_of(spans, names, now_ms, True)
    store.viewer_cpu = 3.0
    store.append(Batch(session, Columns.concat(parts), opened, lost, BASE_NS + round(now_ms * MS), ended))
    return store.snapshot()


ON_CPU = Facts(
    JOB, "CPU native, 2 threads", "no device data (NVML library not found)", ("tracer", "proc"), "+0.4%"
)


@dataclass
class FakeControls:
    """A session that stands still until a test moves it; records what the screen asks for."""

    snap: Snapshot
    mode: Literal["live", "replay"] = "live"
    state: Playback | None = None
    asked: list[str] = field(default_factory=list)
    told: Facts = ON_CPU
    deadlines: Mapping[str, int] = field(default_factory=dict)
    log: list[str] = field(
        default_factory=lambda: ["key chain-2^16.zkey: 65,536 constraints", "proof 1 verified in 9.21 s"]
    )

    def snapshot(self) -> Snapshot:
        return self.snap

    def facts(self) -> Facts:
        return self.told

    def playback(self) -> Playback | None:
        return self.state

    def _set(self, **changes: object) -> None:
        if self.state is not None:
            self.state = replace(self.state, **changes)  # type: ignore[arg-type]

    def play(self) -> None:
        self.asked.append("play")
        self._set(playing=True, at_end=False)

    def pause(self) -> None:
        self.asked.append("pause")
        self._set(playing=False)

    def set_speed(self, speed: float) -> None:
        self.asked.append(f"speed {speed:g}")
        self._set(speed=speed)

    def seek(self, t_ns: int) -> None:
        self.asked.append(f"seek {(t_ns - BASE_NS) / MS:g}")
        self.snap = replace(self.snap, now_ns=t_ns)

    def lines(self) -> Sequence[str]:
        return self.log

    def save_buffer(self) -> Path:
        self.asked.append("save")
        return Path("traces") / "saved.cuzk"

    def trace_path(self) -> Path | None:
        return Path("traces") / "chain.cuzk"

    def stop(self) -> None:
        self.asked.append("stop")


@dataclass
class FakeClock:
    """Monotonic nanoseconds that only a test advances."""

    now_ns: int = 0

    def __call__(self) -> int:
        return self.now_ns


def live_controls(**changes: object) -> FakeControls:
    """Two proofs done, the third in its first MSM."""
    return FakeControls(snapshot_of(proofs(3, until_ms=10_300), 10_300, **changes))  # type: ignore[arg-type]


def replay_controls(head_ms: float = 6_000, playing: bool = False) -> FakeControls:
    """A finished trace of three proofs with the play head at `head_ms`."""
    snap = snapshot_of(proofs(3), 12_480, ended=True)
    snap = replace(snap, now_ns=BASE_NS + round(head_ms * MS))
    return FakeControls(snap, "replay", Playback(playing, 2.0))


def app_of(
    controls: FakeControls,
    theme: Theme | None = None,
    clock: FakeClock | None = None,
    insight: Insight | None = None,
    view: ViewState | None = None,
) -> CuzkTop:
    """The application; its analysis always says `insight` (by default: that there is nothing)."""
    said = insight or Insight()
    return CuzkTop(controls, theme or Theme(), clock or FakeClock(), view, lambda _, part: said)


async def settled(pilot: Pilot[str]) -> SessionScreen:
    """The session screen when the analysis of what it shows has come and is drawn."""
    await pilot.pause()
    screen = pilot.app.screen_stack[1]
    assert isinstance(screen, SessionScreen)
    for _ in range(2):
        screen.tick(True)
        screen.analyst.wait()
    screen.tick(True)
    await pilot.pause()
    return screen
