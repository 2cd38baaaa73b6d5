"""What the host claims of GPUs: spans of our prover and of others, open ones too, against brute force."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_cases import Runs
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_kernels import groth16
from cuzk_kernels.backend.pure import PureBackend
from cuzk_top import gpu_report, proofs, stagemap
from cuzk_top.model import (
    FLAG_OPEN,
    KIND_GPU_KERNEL,
    KIND_SPAN,
    ROW_BYTES,
    Batch,
    Columns,
    Name,
    Run,
    Session,
    Snapshot,
    Track,
)
from cuzk_top.store import Store

CASE = Path(__file__).parents[2] / "data" / "cases" / "multiplier-bn254"
NAMES = ["", "prove", "gpu.held", "accumulate", "gpu_prove", "lock.gpu2"]
NAMES += ["synthesis", "synthesis.abc", "msm.h", "finalize"]
PROVE, HELD, KERNEL, FOREIGN, NUMBERED, SYNTHESIS, STEP, MSM, FINALIZE = range(1, 10)


def session() -> Session:
    named = [Name(text, "device" if text == "gpu.held" else "") for text in NAMES]
    tracks = {1: Track(1, "thread", "main"), 2: Track(2, "thread", "worker")}
    tracks |= {10 + device: Track(10 + device, "gpu", f"GPU{device} stream 7", device) for device in range(3)}
    return Session(1, "prover", 0, {}, named, tracks)


def columns(name: int, spans: list[tuple[int, int]], **more: Any) -> Columns:
    start, end = zip(*spans, strict=True) if spans else ((), ())
    more = {"kind": KIND_SPAN, "track": 1, "depth": 1} | more
    return Columns.make(len(spans), start_ns=np.array(start), end_ns=np.array(end), name=name, **more)


def works(device: int, spans: list[tuple[int, int]]) -> Columns:
    return columns(KERNEL, spans, kind=KIND_GPU_KERNEL, track=10 + device, depth=0)


def stored(*parts: Columns, opened: Columns | None = None, now: int = 1000) -> Snapshot:
    store = Store()
    none = Columns.empty()
    store.append(Batch(session(), Columns.concat(parts), opened or none, 0, now))
    return store.snapshot()


def rows_of(snapshot: Snapshot, lane: str) -> list[tuple[int, int]]:
    return [
        (int(start), int(end))
        for row in snapshot.rows
        if row.lane.key == lane
        for start, end in zip(row.columns.start_ns, row.columns.end_ns, strict=True)
    ]


def test_each_claim_lies_in_the_lane_of_its_gpu() -> None:
    snapshot = stored(
        columns(HELD, [(0, 100), (200, 350)], a0=0), columns(HELD, [(20, 60)], a0=1, depth=2),
        works(0, [(10, 30), (210, 300)]), works(1, [(30, 50)]),
    )  # fmt: skip
    assert rows_of(snapshot, "gpu0.held") == [(0, 100), (200, 350)]
    assert rows_of(snapshot, "gpu1.held") == [(20, 60)]
    assert [device.held_ns(0, 1000) for device in snapshot.devices] == [250, 40]
    assert snapshot.devices[0].held_ns(50, 250) == 100
    (lane,) = {row.lane for row in snapshot.rows if row.lane.key == "gpu1.held"}
    assert (lane.label, lane.role) == ("1 held", "held")
    keys = [row.lane.key for row in snapshot.rows]
    assert keys.index("gpu0.held") + 1 == keys.index("gpu0.busy")


def test_a_claim_that_is_not_given_back_counts_up_to_now() -> None:
    opened = columns(HELD, [(800, 1000)], a0=0, flags=FLAG_OPEN)
    snapshot = stored(columns(HELD, [(0, 100)], a0=0), works(0, [(10, 20)]), opened=opened)
    assert snapshot.devices[0].held_ns(0, 1000) == 300
    (row,) = [row for row in snapshot.rows if row.lane.key == "gpu0.held"]
    assert row.open is not None and (row.open.name, row.open.a0) == ("gpu.held", 0)


def test_where_nobody_claims_it_is_not_zero_but_unknown() -> None:
    snapshot = stored(columns(PROVE, [(0, 100)]), works(0, [(10, 20)]))
    assert snapshot.devices[0].held_ns(0, 100) is None
    assert gpu_report.facts(snapshot)[0]["held_ns"] is None
    assert not [row for row in snapshot.rows if row.lane.key.endswith(".held")]


def test_the_report_says_how_long() -> None:
    snapshot = stored(columns(PROVE, [(0, 1000)]), columns(HELD, [(0, 560)], a0=0), works(0, [(10, 430)]))
    (device,) = gpu_report.facts(snapshot)
    assert (device["held_ns"], device["kernel_ns"], device["kernels"]) == (560, 420, 1)
    assert "held 560 ns (56%)" in gpu_report.text([device])[0]


def test_other_provers_claims_come_from_the_stage_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cuzk-top").mkdir()
    (tmp_path / "cuzk-top" / "stages.toml").write_text(
        "[[range]]\nmatch = '^lock[.]gpu(?P<device>[0-9]+)$'\nlane = 'held'\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    place = stagemap.load().range("lock.gpu2")
    assert place == stagemap.Place("held", "held", "stages", 2)
    snapshot = stored(
        columns(NUMBERED, [(5, 9)]),
        columns(FOREIGN, [(20, 40)], track=2),
        works(2, [(6, 7)]),
        works(0, [(21, 22)]),
    )
    assert rows_of(snapshot, "gpu2.held") == [(5, 9)]
    assert rows_of(snapshot, "gpu0.held") == [(20, 40)]  # nothing says which: the first


def test_a_user_s_range_also_places_ordinary_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cuzk-top").mkdir()
    (tmp_path / "cuzk-top" / "stages.toml").write_text("[[range]]\nmatch = '^lock'\nlane = 'waits'\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert rows_of(stored(columns(NUMBERED, [(5, 9)])), "waits") == [(5, 9)]


spans = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=12)


@settings(deadline=None, max_examples=80)
@given(claims=st.lists(st.tuples(st.integers(0, 2), spans), max_size=5), now=st.integers(0, 400))
def test_the_time_held_is_the_union_of_all_claims(
    claims: list[tuple[int, list[tuple[int, int]]]], now: int
) -> None:
    """Several threads may claim one GPU at once; batches and saved runs come to the same."""
    live, saved = Store(), Store()
    nothing = Columns.empty()
    runs = []
    covered: dict[int, set[int]] = {}
    for number, (device, lengths) in enumerate(claims):
        mine = sorted((start, start + length) for start, length in lengths)
        apart = [s for i, s in enumerate(mine) if i == 0 or s[0] >= max(e for _, e in mine[:i])]
        part = columns(HELD, apart, a0=device, track=100 + number)
        runs.append(Run(100 + number, 1, part))
        live.append(Batch(session(), part, nothing, 0, 1000))
        for start, end in apart:
            covered.setdefault(device, set()).update(range(start, end))
    for device in range(3):
        live.append(Batch(session(), works(device, [(0, 1)]), nothing, 0, 1000))
        runs.append(Run(10 + device, 0, works(device, [(0, 1)])))
    saved.append(
        Batch(session(), nothing, nothing, 0, 1000, runs=tuple(run for run in runs if len(run.columns)))
    )
    claimed = {device for device, lengths in claims if lengths}
    for store in (live, saved):
        for device in store.snapshot().devices:
            expected = len([t for t in covered.get(device.index, ()) if t < now])
            assert device.held_ns(0, now) == (expected if device.index in claimed else None)


def test_what_is_no_longer_kept_still_counts() -> None:
    """A long session: kernels of 4 every 10, claims of 9 every 10, of which the store keeps the newest."""
    store = Store(limit_bytes=300 * ROW_BYTES)
    for start in range(0, 10_000, 100):
        moments = range(start, start + 100, 10)
        part = Columns.concat(
            [works(0, [(t, t + 4) for t in moments]), columns(HELD, [(t, t + 9) for t in moments], a0=0)]
        )
        store.append(Batch(session(), part, Columns.empty(), 0, start + 100))
    snapshot = store.snapshot()
    assert sum(len(row.columns) for row in snapshot.rows) < 400
    assert (snapshot.first_ns, snapshot.spans) == (0, 2000)
    (device,) = snapshot.devices
    assert device.split(0, 10_000).kernel_ns == 4_000
    assert device.held_ns(0, 10_000) == 9_000
    assert device.split(9_900, 10_000).kernel_ns == 40


@pytest.mark.parametrize("running", [False, True])
def test_claims_do_not_hide_what_a_proof_consists_of(running: bool) -> None:
    """Two GPUs are claimed around two stages, of which one has a step; a third stage follows."""
    claimed = (10, 1000) if running else (10, 50)
    last = (30, 1000) if running else (30, 40)
    outer = [
        columns(PROVE, [(0, 1000)], depth=0), columns(HELD, [claimed], a0=0, depth=1),
        columns(HELD, [claimed], a0=1, depth=2), columns(MSM, [last], depth=3),
    ]  # fmt: skip
    done = [columns(SYNTHESIS, [(20, 30)], depth=3), columns(STEP, [(22, 25)], depth=4)]
    if running:
        opened = Columns.concat(outer)
        seen = stored(*done, opened=opened.replace(flags=np.full(4, FLAG_OPEN, np.uint8)))
        expected = {"synthesis": 10, "msm.h": 970}, {"msm.h"}
    else:
        seen = stored(*done, *outer, columns(FINALIZE, [(60, 70)], depth=1))
        expected = {"synthesis": 10, "msm.h": 10, "finalize": 10}, set()
    (proof,) = proofs.proofs(seen)
    assert proofs.parts(seen, proof) == expected


# Our prover


class Claiming(PureBackend):
    """Notes what it is asked for, and whether that was while it was held."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = False
        self.asked: list[tuple[str, bool]] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        self.is_held = True
        yield
        self.is_held = False


for _method in ("point_check", "eval_ab", "intt", "ntt", "msm"):

    def _noted(self: Claiming, *arguments: Any, _name: str = _method) -> Any:
        self.asked.append((_name, self.is_held))
        return getattr(PureBackend, _name)(self, *arguments)

    setattr(Claiming, _method, _noted)


def test_a_proof_holds_the_device_from_its_key_to_its_last_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = Claiming()
    check = groth16._self_check
    verified: list[bool] = []
    monkeypatch.setattr(
        groth16, "_self_check", lambda *arguments: verified.append(backend.is_held) or check(*arguments)
    )
    groth16.prove(CASE / "circuit.zkey", CASE / "witness.wtns", backend=backend)
    assert backend.asked[0] == ("point_check", True)
    assert {name for name, _ in backend.asked} == {"point_check", "eval_ab", "intt", "ntt", "msm"}
    assert all(is_held for _, is_held in backend.asked)
    assert verified == [False]


PROGRAM = """
    import sys
    sys.path.insert(0, FOLDER)
    import cuzk_tracer, time
    from pathlib import Path
    from emulated_gpu import EmulatedDevice
    from cuzk_kernels.backend.cuda import CudaBackend
    from cuzk_kernels.backend.pure import PureBackend
    from cuzk_tracer import gpu
    devices = [EmulatedDevice(Path("/nowhere")) for _ in range(2)]
    devices[1].index = 1
    backend = CudaBackend(devices, PureBackend(), h2d="pageable")
    KERNEL = cuzk_tracer.span("accumulate")
    with cuzk_tracer.span("prove"), backend.held():
        with cuzk_tracer.span("synthesis"):
            now = time.monotonic_ns()
            gpu.record(KERNEL, gpu.KERNEL, now - 10, now, device=0, stream=1, launcher=gpu.launcher())
        print("here", flush=True)
        sys.stdin.readline()
"""


@pytest.mark.parametrize("writer", ["native", "python"])
def test_each_device_of_the_back_end_is_held_as_a_span(runs: Runs, writer: str) -> None:
    folder = str(Path(__file__).parents[1] / "kernels")
    snapshot = runs.watched(PROGRAM.replace("FOLDER", repr(folder)), CUZK_TRACER=writer, CUZK_TRACE="all")
    opened = {row.lane.key: row.open for row in snapshot.rows if row.open is not None}
    assert set(opened) == {"proof", "gpu0.held", "gpu1.held"}
    proof, first, second = opened["proof"], opened["gpu0.held"], opened["gpu1.held"]
    assert (first.a0, second.a0, first.stage) == (0, 1, True)
    assert (first.parent, second.parent) == (proof.id, first.id)
    (device,) = snapshot.devices
    assert device.held_ns(first.start_ns, snapshot.now_ns) == snapshot.now_ns - first.start_ns
