"""The example that the design draws: ten partitions, four synthesis workers, one GPU. Invented."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import sessions
from sessions import BASE_NS, MS

from cuzk_top.controls import Facts
from cuzk_top.ghost import Ghost
from cuzk_top.history import Past
from cuzk_top.jobs import Job
from cuzk_top.model import (
    FLAG_OPEN,
    KIND_COUNTER,
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_SPAN,
    Batch,
    Columns,
    Name,
    Session,
    Snapshot,
    Track,
)
from cuzk_top.screens.analysis import Insight
from cuzk_top.stalls.finding import Analysis, Finding, Step
from cuzk_top.store import Store

NOW_MS = 39_500
NAMES = (
    "prove", "synthesis.witness", "synthesis.abc.eval", "G1_multiexp", "radix_fft", "memcpy.h2d.pinned",
    "memcpy.h2d.pageable", "host.minflt", "host.majflt", "host.rss", "host.cpu",
)  # fmt: skip
GPU_TRACK = 20
WORKERS = (
    ((0, 7.0, 10.5), (10.5, 18.0, 21.5), (21.5, 30.5, 38.6)),
    ((0, 7.5, 11.0), (11.0, 18.5, 22.0), (22.0, 30.5, 34.0)),
    ((0, 7.5, 11.5), (11.5, 19.0, 22.5)),
    ((0, 8.0, 12.0), (12.0, 19.5, 23.0)),
)
"""Begin, end of the witness, end of the evaluation, in seconds: partitions 0, 4, 8; 1, 5, 9; 2, 6; 3, 7."""
COPIES = (10.5, 12.5, 14.5, 16.5, 22.0, 24.0, 27.0, 29.0, 34.0, 38.6)
"""When each partition's copy begins; an NTT of 0.5 s and an MSM follow."""
ENDS = (12.5, 14.5, 16.5, 18.5, 24.0, 27.0, 29.0, 31.5, 36.5, 39.5)
SLOW = 5
"""Number of the copy that comes from pageable memory."""


@dataclass
class Rows:
    """Records as lists, on their way to columns."""

    rows: list[dict[str, int]] = field(default_factory=list)

    def add(
        self, name: str, start_s: float, end_s: float, track: int, kind: int = KIND_SPAN, **more: int
    ) -> None:
        start, end = (BASE_NS + round(t * 1000) * MS for t in (start_s, end_s))
        fields = {
            "start_ns": start,
            "end_ns": end,
            "name": (*NAMES, "gpu.held").index(name) + 1,
            "track": track,
            "kind": kind,
        }
        self.rows.append({**fields, "id": len(self.rows) + 1, "flags": 0, "a0": 0, "a1": 0, **more})

    def columns(self) -> Columns:
        rows = sorted(self.rows, key=lambda row: row["end_ns"])
        return Columns.make(len(rows), **{key: np.array([row[key] for row in rows]) for key in rows[0]})


def device(rows: Rows, number: int, shift_s: float = 0.0) -> None:
    """What one GPU does."""
    track = GPU_TRACK + number
    for place, (start, end) in enumerate(zip(COPIES, ENDS, strict=True)):
        begin, stop = start + shift_s, min(end + shift_s, NOW_MS / 1000)
        copied = begin + (1.6 if place == SLOW else 0.5)
        name = "memcpy.h2d.pageable" if place == SLOW else "memcpy.h2d.pinned"
        rows.add(name, begin, min(copied, stop), track, KIND_GPU_MEMCPY, a0=12_500_000_000)
        if copied < stop:
            rows.add("radix_fft", copied, min(copied + 0.5, stop), track, KIND_GPU_KERNEL)
        if copied + 0.5 < stop:
            rows.add("G1_multiexp", copied + 0.5, stop, track, KIND_GPU_KERNEL)


def counters(rows: Rows) -> None:
    for half in range(NOW_MS // 500):
        t = half / 2
        minor = 744_000 if 31 <= t < 35 else 8_000
        busy = 100 if any(start <= t < end for start, end in zip(COPIES, ENDS, strict=True)) else 30
        for name, value in (
            ("host.minflt", minor),
            ("host.majflt", 0),
            ("host.rss", 60 + 2 * (half % 44)),
            ("host.cpu", busy),
        ):
            bits = int(np.array([value], np.float64).view(np.int64)[0])
            rows.add(name, t, t + 0.5, 9, KIND_COUNTER, a0=bits, flags=2)


def snapshot(devices: int = 1, held: bool = False) -> Snapshot:
    """Through the real store; with `held` the host says which partition holds the GPU."""
    tracks = {9: Track(9, "probe", "proc", 0), 1: Track(1, "thread", "main", 41207)}
    rows = Rows()
    for number, spans in enumerate(WORKERS):
        tracks[2 + number] = Track(2 + number, "thread", f"synth-{number}", 41210 + number)
        for start, middle, end in spans:
            rows.add("synthesis.witness", start, middle, 2 + number)
            rows.add("synthesis.abc.eval", middle, end, 2 + number)
    for number in range(devices):
        tracks[GPU_TRACK + number] = Track(GPU_TRACK + number, "gpu", f"GPU {number} stream 7", number)
        device(rows, number, 0.4 * number)
    counters(rows)
    names = [Name(""), *(Name(text, stage=True) for text in NAMES), Name("gpu.held", "device", "partition")]
    if held:
        for partition, (start, end) in enumerate(zip(COPIES, ENDS, strict=True)):
            rows.add("gpu.held", start, end, 6, depth=0, a1=partition)
    now = BASE_NS + NOW_MS * MS
    opened = Columns.make(
        1, start_ns=BASE_NS, end_ns=now, kind=KIND_SPAN, flags=FLAG_OPEN, track=1, name=1, id=9_999
    )
    meta = {"job": "porep-1000-7", "backend": "gpu-cuda", "gpu.0.name": "NVIDIA H200"}
    session = Session(41207, "c2-bench", BASE_NS, meta, names, tracks, [(BASE_NS, sessions.REALTIME_NS)])
    store = Store()
    store.viewer_cpu = 3.0
    store.append(Batch(session, rows.columns(), opened, 0, now))
    return store.snapshot()


def _at(*pairs: tuple[float, float]) -> tuple[tuple[int, int], ...]:
    return tuple((BASE_NS + round(a * 1000) * MS, BASE_NS + round(b * 1000) * MS) for a, b in pairs)


def finding(
    rule: str,
    key: str,
    costs: tuple[int, int | None],
    sentence: str,
    *gaps: tuple[float, float],
    threshold: str = "",
    **more: object,
) -> Finding:
    """`costs`: GPU time lost and wall time saved in ms; `gaps` in seconds."""
    lost, saved = costs
    made = Finding(
        rule, key, _at(*gaps), 0, "synthesis", lost * MS, None if saved is None else saved * MS, len(gaps),
        sentence, threshold, (),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


BURST = finding(
    "fault.burst",
    "abc.eval p8",
    (0, None),
    "3.05 M faults, first touch",
    (31.0, 35.1),
    device=None,
    arithmetic=("eval p8 8.1 s, median of 9 is 3.5",),
    threshold="fires over 5x the median (9k/s)",
    values=(("faults/s", 744_000.0), ("GiB in 4 KiB pages", 11.6)),
)
FINDINGS = (
    finding(
        "idle.host",
        "abc.eval p8",
        (2_100, 2_100),
        "waited for abc.eval of p8",
        (36.5, 38.6),
        causes=(BURST,),
        arithmetic=("cost = GPU idle 36.5 to 38.6, only this span running", "saved = path with p8 at 36.5"),
        threshold="fires over 0.5 % of the proof (198 ms)",
    ),
    finding(
        "copy.exposed",
        "h2d",
        (2_300, 230),
        "no copy runs under a kernel: one GPU worker, one stream",
        *((start, start + 0.5) for start in COPIES if start != 24.0),
    ),
    finding("idle.host", "fill", (10_500, 0), "pipeline fill: first partition ready at 10.5 s", (0.0, 10.5)),
    finding(
        "idle.host",
        "waves",
        (6_000, 0),
        "waited for synthesis of p4 (3.50) and p9 (2.50): workers finish in waves",
        (18.5, 22.0),
        (31.5, 34.0),
    ),
    finding(
        "copy.slow",
        "p5",
        (1_350, 0),
        "p5: 12.5 GB at 7.9 of 55 GB/s, pageable; counts once the queue is full",
        (24.0, 25.6),
    ),
)


def step(start_s: float, end_s: float, name: str, lane: str = "synthesis") -> Step:
    ((start, end),) = _at((start_s, end_s))
    return Step(start, end, 1, name, lane)


PATH = (
    step(0, 7, "synthesis.witness"), step(7, 10.5, "synthesis.abc.eval"),
    step(10.5, 18, "synthesis.witness"), step(18, 21.5, "synthesis.abc.eval"),
    step(21.5, 30.5, "synthesis.witness"), step(30.5, 38.6, "synthesis.abc.eval"),
    step(38.6, 39.5, "G1_multiexp", "gpu0.msm"),
)  # fmt: skip
ANALYSIS = Analysis(
    _at((0, 39.5))[0], FINDINGS, PATH, 16_500 * MS, 4_300 * MS, 18_700 * MS, 18_600 * MS, 100 * MS, 0
)
JOBS = (
    Job(
        "porep-1000-6", "porep-32g", "done", BASE_NS - 41_000 * MS, BASE_NS - 2_100 * MS, "", "D" * 10, (),
        None, 0, None,
    ),
    Job(
        "porep-1000-7", "porep-32g", "running", BASE_NS, None, "msm.h", "DDDDDDDDMD",
        ((0, BASE_NS + 38_600 * MS),), 1_500 * MS, 2_100 * MS, 20_000 * MS,
    ),
)  # fmt: skip


def insight(devices: int = 1) -> Insight:
    """What the analysis of the example says."""
    worked = _at((10.5, 18.5), (22.0, 30.0), (34.0, 38.0))
    edges = np.array(worked, np.int64)
    ghosts = tuple(Ghost(number, edges[:, 0], edges[:, 1], 38_900 * MS) for number in range(devices))
    past = Past(
        "porep-32g", 9, 38_900 * MS, {"synthesis.witness": 75_000 * MS, "synthesis.abc.eval": 36_000 * MS}
    )
    last = {"synthesis.witness": 76_000 * MS, "synthesis.abc.eval": 40_100 * MS, "prove": 41_000 * MS}
    return Insight(ANALYSIS, JOBS, ghosts, past, last)


def controls(devices: int = 1, held: bool = False) -> sessions.FakeControls:
    """The example, live."""
    told = Facts("porep-1000-7", "cuzk", "", ("cupti", "nvtx", "proc", "nvml"), "+0.4%")
    return sessions.FakeControls(snapshot(devices, held), told=told)
