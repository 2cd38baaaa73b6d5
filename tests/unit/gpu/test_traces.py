"""Traces recorded on an H200 by `cuzk-top run` over unchanged programs: what those programs said they did."""

from collections import Counter

import numpy as np
import pytest
from gpu_cases import DATA

from cuzk_top import gpu_report
from cuzk_top.model import KIND_GPU_KERNEL, Snapshot
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store

MIB = 1 << 20


def opened(name: str) -> Snapshot:
    store = Store()
    store.append(TraceSource(DATA / "traces" / f"{name}.cuzk").poll())
    return store.snapshot()


def kernels(snapshot: Snapshot) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in snapshot.rows:
        if row.lane.key.startswith("gpu") and not row.lane.key.endswith(".busy"):
            for number in row.columns.name[row.columns.kind == KIND_GPU_KERNEL].tolist():
                found[snapshot.session.names[number].text] += 1
    return found


def test_kernels_copies_and_fills_of_a_cuda_program() -> None:
    snapshot = opened("cuda-mixed")  # tests/gpu/work.cu mixed, static runtime
    (device,) = gpu_report.facts(snapshot)
    assert (device["kernels"], device["fills"], snapshot.lost) == (30, 3, 0)
    assert kernels(snapshot) == {"add<1>": 10, "add<2>": 10, "spin": 10}
    assert {kind: (copy["count"], copy["bytes"]) for kind, copy in device["copies"].items()} == {
        "memcpy.h2d.pageable": (4, 32 * MIB), "memcpy.h2d.pinned": (4, 32 * MIB),
        "memcpy.d2h.pinned": (2, 16 * MIB), "memcpy.d2d": (2, 16 * MIB),
    }  # fmt: skip
    spins = [
        int(end - start)
        for row in snapshot.rows
        if row.lane.key == "gpu0.other"
        for start, end, name in zip(row.columns.start_ns, row.columns.end_ns, row.columns.name, strict=True)
        if snapshot.session.names[int(name)].text == "spin"
    ]
    assert all(500_000 <= length < 520_000 for length in spins)  # each spins for 500 µs of the device's clock


def test_ranges_of_nvtx_are_spans() -> None:
    snapshot = opened("cuda-mixed")
    names = Counter(
        snapshot.session.names[int(number)].text
        for row in snapshot.rows
        if row.lane.key == "other"
        for number in row.columns.name
    )
    assert names == {"load": 1, "round": 10, "job": 1}
    assert [mark.text for mark in snapshot.marks if not mark.text.startswith("GPU")] == ["half way"]


def test_launches_have_the_ranges_around_them_as_parents() -> None:
    snapshot = opened("cuda-parents")  # 50 ranges of 20 launches each, and 51 launches outside
    parents: Counter[str] = Counter()
    ranges = {
        int(identity): snapshot.session.names[int(name)].text
        for row in snapshot.rows
        if row.lane.key == "other"
        for identity, name in zip(row.columns.id, row.columns.name, strict=True)
    }
    for row in snapshot.rows:
        if row.lane.key == "gpu0.other":
            for parent in row.columns.parent.tolist():
                parents[ranges[parent] if parent else "none"] += 1
    assert parents == {"even": 500, "odd": 500, "none": 51}
    assert min(Counter(int(p) for row in snapshot.rows for p in row.columns.parent if p).values()) == 20


def test_what_pytorchs_own_profiler_counted() -> None:
    snapshot = opened("torch")
    (device,) = gpu_report.facts(snapshot)
    copies = device["copies"].values()
    assert (device["kernels"], sum(copy["count"] for copy in copies), device["fills"]) == (62, 23, 20)
    assert sum(copy["bytes"] for copy in copies) == 343_932_932
    # Its kernels took 7,171.6 and 7,181.4 µs in two runs.
    assert abs(device["kernel_ns"] - 7_175_000) < 150_000


def test_a_cupy_program() -> None:
    snapshot = opened("cupy")
    assert kernels(snapshot) == {"scale": 50}
    (device,) = gpu_report.facts(snapshot)
    assert sum(copy["bytes"] for copy in device["copies"].values()) == 2 * 4 * MIB


@pytest.mark.parametrize(("name", "count"), [("cuda-kill", 100), ("cuda-fork", 200)])
def test_killed_and_forked_programs(name: str, count: int) -> None:
    snapshot = opened(name)
    assert kernels(snapshot) == {"spin": count}
    assert bool([p for p in snapshot.problems if "killed" in p]) == (name == "cuda-kill")


@pytest.mark.parametrize("name", ["cuda-mixed", "cuda-parents", "torch", "cupy", "cuda-kill", "cuda-fork"])
def test_lines_never_overlap_and_device_time_adds_up(name: str) -> None:
    snapshot = opened(name)
    assert (DATA / "traces" / f"{name}.cuzk").stat().st_size <= 200_000
    for row in snapshot.rows:
        assert bool((row.columns.start_ns[1:] >= row.columns.end_ns[:-1]).all())
    for device in snapshot.devices:
        split = device.split(snapshot.first_ns, snapshot.last_ns)
        assert split.wall_ns == snapshot.last_ns - snapshot.first_ns
        spans = [
            row.columns
            for row in snapshot.rows
            if row.lane.key.startswith("gpu0.") and row.lane.key != "gpu0.busy"
        ]
        covered: set[int] = set()
        for columns in spans:
            kernel = columns.kind == KIND_GPU_KERNEL
            for start, end in zip(
                columns.start_ns[kernel].tolist(), columns.end_ns[kernel].tolist(), strict=True
            ):
                covered.update(range(start // 1000, end // 1000))
        assert abs(split.kernel_ns - len(covered) * 1000) <= 2000 * int(sum(len(c) for c in spans))
        assert int(np.sum([len(c) for c in spans])) > 0
