"""What the store makes of devices' records, however they came, against counting every moment."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_top import gpu_rows
from cuzk_top.model import (
    BUSY_NAME,
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_GPU_SYNC,
    Batch,
    Columns,
    Name,
    Session,
    Snapshot,
    Track,
)
from cuzk_top.store import Store

NAMES = [Name(text) for text in ("", "accumulate", "memcpy.h2d.pinned", "sync.stream", BUSY_NAME)]
KINDS = {1: KIND_GPU_KERNEL, 2: KIND_GPU_MEMCPY, 3: KIND_GPU_SYNC}
TRACKS = {  # two streams of one GPU, one of another
    number: Track(number, "gpu", f"stream {number}", device) for number, device in ((1, 0), (2, 0), (3, 1))
}

Record = tuple[int, int, int, int]
"""Start, end, name, track."""
records = st.lists(
    st.tuples(
        st.integers(0, 200), st.integers(0, 30), st.sampled_from([1, 1, 1, 2, 3]), st.integers(1, 3)
    ).map(lambda one: (one[0], one[0] + one[1], one[2], one[3])),
    max_size=25,
)


@pytest.fixture(autouse=True)
def _hold_back_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with ten thousand stretches: here, two are many, and three are held back."""
    monkeypatch.setattr(gpu_rows, "MANY", 2)
    monkeypatch.setattr(gpu_rows, "HELD_BACK", 3)


def columns(batch: list[Record]) -> Columns:
    table = np.array(batch, np.int64).reshape(-1, 4)
    return Columns.make(
        len(table),
        start_ns=table[:, 0],
        end_ns=table[:, 1],
        kind=[KINDS[name] for name in table[:, 2].tolist()],
        name=table[:, 2],
        track=table[:, 3],
    )


def fed(batches: list[list[Record]], *, ended: bool) -> tuple[Store, list[Snapshot]]:
    """A store that was given batches, and what it showed after each."""
    store, seen = Store(), []
    session = Session(names=list(NAMES), tracks=dict(TRACKS))
    for batch in batches:
        store.append(Batch(session, columns(batch), Columns.empty(), 0, 300))
        seen.append(store.snapshot())
    if ended:
        store.append(Batch(session, Columns.empty(), Columns.empty(), 0, 300, ended=True))
        seen.append(store.snapshot())
    return store, seen


def moments(of: list[Record], device: int, names: tuple[int, ...]) -> set[int]:
    return {
        moment
        for start, end, name, track in of
        if name in names and TRACKS[track].tid == device
        for moment in range(start, end)
    }


def stretches(found: set[int]) -> list[tuple[int, int]]:
    ordered = sorted(found)
    edges = [i for i, (a, b) in enumerate(pairwise(ordered)) if b > a + 1]
    lows = [ordered[0], *(ordered[i + 1] for i in edges)] if ordered else []
    return list(zip(lows, [*(ordered[i] + 1 for i in edges), *[t + 1 for t in ordered[-1:]]], strict=True))


def summary(snapshot: Snapshot) -> object:
    """All that there is to see of devices, as values."""
    rows = [
        (row.key, row.columns.start_ns.tolist(), row.columns.end_ns.tolist(), row.columns.name.tolist())
        for row in snapshot.rows
    ]
    counters = [(c.key, c.start_ns.tolist(), c.t_ns.tolist(), c.value.tolist()) for c in snapshot.counters]
    return rows, counters, [device.split(0, 300) for device in snapshot.devices]


@settings(deadline=None, max_examples=150)
@given(st.lists(records, min_size=1, max_size=6))
def test_device_time_is_exact_after_every_batch(batches: list[list[Record]]) -> None:
    _, seen = fed(batches, ended=False)
    kept = [summary(snapshot) for snapshot in seen]
    so_far: list[Record] = []
    for batch, snapshot in zip(batches, seen, strict=True):
        so_far += batch
        for device in snapshot.devices:
            kernel, work = (moments(so_far, device.index, names) for names in ((1,), (1, 2)))
            split = device.split(0, 300)
            assert (split.kernel_ns, split.copy_only_ns) == (len(kernel), len(work - kernel))
            for window in ((0, 50), (37, 120), (90, 300)):
                low, high = device.work.touching(*window)
                inside = {t for a, b in zip(low, high, strict=True) for t in range(a, b)}
                assert inside >= {t for t in work if window[0] <= t < window[1]} and inside <= work
    assert [summary(snapshot) for snapshot in seen] == kept, "what was shown stays as it was"


@settings(deadline=None, max_examples=150)
@given(st.lists(records, min_size=1, max_size=6))
def test_rows_and_counters_end_as_if_all_had_come_at_once(batches: list[list[Record]]) -> None:
    everything = [record for batch in batches for record in batch]
    snapshot = fed(batches, ended=True)[1][-1]
    for device in snapshot.devices:
        work, kernel = (stretches(moments(everything, device.index, names)) for names in ((1, 2), (1,)))
        busy = [row.columns for row in snapshot.rows if row.lane.key == f"gpu{device.index}.busy"]
        shown = [one for at in busy for one in zip(at.start_ns.tolist(), at.end_ns.tolist(), strict=True)]
        assert shown == work[:-1], "the last stretch may still become longer"
        charts = [c for c in snapshot.counters if c.key == f"gpu.{device.index}.kernel"]
        drawn = [
            (start, end)
            for chart in charts
            for start, end, value in zip(chart.start_ns, chart.t_ns, chart.value, strict=True)
            if value == 100
        ]
        assert drawn == kernel[:-1]
        for chart in charts:
            assert bool((chart.start_ns[1:] == chart.t_ns[:-1]).all()), "gaps are samples too"


@settings(deadline=None, max_examples=150)
@given(st.lists(records, min_size=1, max_size=6))
def test_no_record_is_lost_and_no_row_overlaps(batches: list[list[Record]]) -> None:
    snapshot = fed(batches, ended=True)[1][-1]
    found = []
    for row in snapshot.rows:
        if row.lane.key.endswith(".busy"):
            continue
        start, end = row.columns.start_ns, row.columns.end_ns
        assert bool((start[1:] >= end[:-1]).all())
        named, track = row.columns.name.tolist(), row.columns.track.tolist()
        found += zip(start.tolist(), end.tolist(), named, track, strict=True)
    assert sorted(found) == sorted(record for batch in batches for record in batch)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=40), st.integers(0, 3))
def test_each_span_lies_at_the_first_depth_with_room(pairs: list[tuple[int, int]], known: int) -> None:
    ordered = sorted((start, start + length) for start, length in pairs)
    free = [10 * depth for depth in range(known)]
    found = gpu_rows.depths([a for a, _ in ordered], [b for _, b in ordered], free)
    for i, ((start, _), depth) in enumerate(zip(ordered, found, strict=True)):
        taken = {
            d
            for (_, end), d in zip(ordered[:i], found[:i], strict=True)
            if end > start and d < gpu_rows.MOST_DEPTHS
        } | {d for d, until in enumerate(free) if until > start}
        assert depth == min(set(range(gpu_rows.MOST_DEPTHS + 1)) - taken)


def test_what_is_held_back_is_shown_once_nothing_more_comes() -> None:
    store, seen = fed([[(10 * i, 10 * i + 5, 1, 1) for i in range(8)]], ended=False)
    store.append(Batch(Session(names=list(NAMES), tracks=dict(TRACKS)),
                       columns([(200, 210, 1, 1)]), Columns.empty(), 0, 300))  # fmt: skip
    [held] = [row for row in store.snapshot().rows if row.lane.key == "gpu0.busy"]
    assert len(held.columns) == 7, "the newest three, and the last, could still become longer"
    store.append(
        Batch(Session(names=list(NAMES), tracks=dict(TRACKS)), Columns.empty(), Columns.empty(), 0, 300)
    )
    [row] = [row for row in store.snapshot().rows if row.lane.key == "gpu0.busy"]
    assert row.columns.start_ns.tolist() == [10 * i for i in range(8)]
    assert set(row.columns.kind.tolist()) == {KIND_GPU_KERNEL}
    assert {NAMES[number].text for number in row.columns.name.tolist()} == {BUSY_NAME}
    assert [len(snapshot.devices) for snapshot in seen] == [1]
