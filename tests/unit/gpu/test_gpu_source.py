"""From a ring with a device's records to lanes, device time and saved traces."""

import time
from collections import Counter
from pathlib import Path

import pytest
from gpu_cases import Runs, capture, manifest, stub_file

from cuzk_top.collector import Collector
from cuzk_top.model import KIND_GPU_KERNEL, Snapshot
from cuzk_top.recording import Recorder
from cuzk_top.sources.ring import RingSource
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store


def watched(runs: Runs, name: str, records: list[dict[str, object]], trace: Path | None = None) -> Snapshot:
    stub_file(runs.folder / "records", records)
    runs.driver(100, STUB_CUPTI_FILE=str(runs.folder / "records"))
    (ring,) = runs.rings()
    store = Store()
    recorder = Recorder(trace, {}) if trace is not None else None
    collector = Collector(RingSource(ring.path, time.monotonic_ns), [], store, recorder, time.monotonic_ns)
    collector.start()
    assert collector.join(20)
    return store.snapshot()


def lanes(snapshot: Snapshot) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in snapshot.rows:
        if len(row.columns):
            found[row.lane.key] += len(row.columns)
    return found


@pytest.mark.parametrize("name", ["sppark-g1", "icicle", "torch"])
def test_a_capture_has_lanes_and_device_time(runs: Runs, tmp_path: Path, name: str) -> None:
    records = capture(name)
    figures = manifest()[name]
    trace = tmp_path / "saved.cuzk"
    live = watched(runs, name, records, trace)
    kinds = Counter(record["kind"] for record in records)
    found = lanes(live)
    kernel_lane = "gpu0.other" if name == "torch" else "gpu0.msm"
    h2d = sum(record["kind"] == "memcpy" and record["copy"] == 1 for record in records)
    assert found["gpu0.h2d"] == h2d
    assert found["gpu0.d2h"] == kinds["memcpy"] - h2d
    assert sum(found[lane] for lane in {kernel_lane, "gpu0.other"}) == kinds["kernel"] + kinds["memset"]
    assert found["waits"] == kinds["sync"]
    assert found["overhead"] == kinds["overhead"]
    (device,) = live.devices
    works = [record for record in records if record["kind"] in {"kernel", "memcpy", "memset"}]
    first = min(record["start"] for record in works)
    begins = min(int(row.columns.start_ns[0]) for row in live.rows if row.lane.key.startswith("gpu"))
    split = device.split(begins, begins + figures["wall_ns"])
    assert (split.kernel_ns, split.copy_only_ns, split.idle_ns) == (
        figures["kernel_ns"], figures["copy_only_ns"], figures["idle_ns"],
    )  # fmt: skip
    for row in live.rows:  # what is drawn in one line never overlaps
        assert bool((row.columns.start_ns[1:] >= row.columns.end_ns[:-1]).all())
    busy = next(row for row in live.rows if row.lane.key == "gpu0.busy")
    assert int((busy.columns.end_ns - busy.columns.start_ns).sum()) <= split.kernel_ns + split.copy_only_ns
    assert {track.kind for track in live.session.tracks.values()} >= {"gpu"}
    streams = {(record["device"], record["stream"]) for record in works}
    labels = {track.label for track in live.session.tracks.values() if track.kind == "gpu"}
    assert {f"GPU{device} stream {stream}" for device, stream in streams} <= labels
    assert first > 0

    store = Store()
    store.append(TraceSource(trace).poll())
    saved = store.snapshot()
    assert lanes(saved) == found
    assert saved.devices[0].split(begins, begins + figures["wall_ns"]) == split
    assert saved.spans == live.spans == len(records)


def test_two_gpus_have_lanes_of_their_own(runs: Runs) -> None:
    records = capture("sppark-g1")
    for place, record in enumerate(records):
        if "device" in record:
            record["device"] = place % 2
    snapshot = watched(runs, "two", records)
    assert [device.index for device in snapshot.devices] == [0, 1]
    order = list(dict.fromkeys(row.lane.key for row in snapshot.rows))
    assert (
        order.index("gpu0.busy") < order.index("gpu0.msm") < order.index("gpu1.busy") < order.index("waits")
    )
    kernels = [record for record in records if record["kind"] == "kernel"]
    for device in (0, 1):
        shown = sum(len(row.columns) for row in snapshot.rows if row.lane.key == f"gpu{device}.msm")
        assert shown == sum(record["device"] == device for record in kernels)


def test_names_are_demangled_and_tell_their_arguments(runs: Runs) -> None:
    snapshot = watched(runs, "torch", capture("torch"))
    rows = [row for row in snapshot.rows if row.lane.key == "gpu0.other"]
    records = [snapshot.record(row, i) for row in rows for i in range(len(row.columns))]
    kernel = next(r for r in records if r.kind == KIND_GPU_KERNEL and r.name.startswith("at::native"))
    assert "vectorized_elementwise_kernel<4," in kernel.name
    assert dict(kernel.arguments()).keys() == {"blocks", "threads"}
    assert (kernel.minflt, kernel.majflt, kernel.has_faults) == (0, 0, False)


def test_many_streams_share_few_rows(runs: Runs) -> None:
    base = next(record for record in capture("torch") if record["kind"] == "kernel")
    records = [
        dict(base, stream=7 + i % 40, start=10_000 + i * 100, end=10_000 + i * 100 + 250, corr=i + 1)
        for i in range(4000)
    ]
    snapshot = watched(runs, "streams", records)
    rows = [row for row in snapshot.rows if row.lane.key == "gpu0.other"]
    assert sum(len(row.columns) for row in rows) == 4000
    assert len(rows) == 3  # at any moment three of them run
    streams = {snapshot.session.tracks[int(t)].label for row in rows for t in row.columns.track}
    assert len(streams) == 40


@pytest.mark.parametrize("name", ["sppark-g1", "icicle"])
def test_the_kernel_counter_is_exact(runs: Runs, name: str) -> None:
    snapshot = watched(runs, name, capture(name))
    (counter,) = [counter for counter in snapshot.counters if counter.key == "gpu.0.kernel"]
    length = counter.t_ns - counter.start_ns
    assert bool((length >= 0).all())
    assert bool((counter.start_ns[1:] == counter.t_ns[:-1]).all())
    busy = int(length[counter.value == 100].sum())
    last = snapshot.devices[0].kernels.last
    assert last is not None
    assert busy + last[1] - last[0] == manifest()[name]["kernel_ns"]


def test_the_inspector_tells_of_a_kernel_how_to_profile_it(runs: Runs) -> None:
    from cuzk_top.widgets import kernel_facts

    records = capture("sppark-g1")
    snapshot = watched(runs, "sppark-g1", records)
    rows = [row for row in snapshot.rows if row.lane.key == "gpu0.msm"]
    spans = [snapshot.record(row, i) for row in rows for i in range(len(row.columns))]
    sorts = sorted((span for span in spans if span.name == "sort"), key=lambda span: span.corr)
    facts = dict(kernel_facts.lines(snapshot, sorts[41]))
    assert facts["stage"] == "msm.sort (sppark)"
    assert facts["stream"].startswith("GPU0 stream ")
    assert (
        f"--kernel-name regex:^sort$ --launch-skip 41 --launch-count 1 {runs.bench.driver} 100"
        in facts["profile"]
    )
    copies = [row for row in snapshot.rows if row.lane.key == "gpu0.h2d"]
    copy = max((copies[0] for _ in (0,)), key=lambda row: 0)
    biggest = int(copy.columns.a0.argmax())
    span = snapshot.record(copy, biggest)
    rate = span.a0 / span.duration_ns
    assert abs(float(dict(kernel_facts.lines(snapshot, span))["rate"].split()[0]) - rate) < rate / 100
