"""Device time: the captures' figures to the nanosecond, and unions against counting every moment."""

import numpy as np
import pytest
from gpu_cases import capture, manifest
from hypothesis import given
from hypothesis import strategies as st

from cuzk_top.devicetime import Covered, Device, Intervals, Split, covered, together, union

Pairs = list[tuple[int, int]]
PAIRS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])), max_size=30
)


def arrays(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    return np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64)


def moments(pairs: Pairs) -> set[int]:
    return {t for a, b in pairs for t in range(a, b)}


@given(PAIRS)
def test_union_covers_the_same_moments_disjointly(pairs: Pairs) -> None:
    start, end = union(*arrays(pairs))
    found = list(zip(start.tolist(), end.tolist(), strict=True))
    assert moments(found) == moments(pairs)
    assert all(a < b for a, b in found)
    assert all(found[i][1] < found[i + 1][0] for i in range(len(found) - 1))


@given(PAIRS, st.integers(-5, 80), st.integers(-5, 80))
def test_covered_counts_the_moments_of_a_window(pairs: Pairs, low: int, high: int) -> None:
    assert covered(*union(*arrays(pairs)), low, high) == len({t for t in moments(pairs) if low <= t < high})


@given(st.lists(PAIRS, max_size=6), st.integers(0, 70), st.integers(0, 70))
def test_a_union_that_grows_equals_one_made_at_once(batches: list[Pairs], low: int, high: int) -> None:
    grown = Intervals()
    frozen: list[tuple[Covered, int]] = []
    so_far: set[int] = set()
    for pairs in batches:
        grown.add(*arrays(pairs))
        so_far |= moments(pairs)
        now = grown.covered()
        assert now.within(low, high) == len({t for t in so_far if low <= t < high})
        frozen.append((now, len(so_far)))
    assert [view.within(-1, 200) for view, _ in frozen] == [count for _, count in frozen]


@given(st.lists(st.tuples(PAIRS, st.integers(0, 4)), max_size=6))
def test_what_reaches_back_leaves_the_first_closed_ones(batches: list[tuple[Pairs, int]]) -> None:
    """However many are held back: closed ones and the tail are the union, and what was handed out stays."""
    grown = Intervals()
    so_far: set[int] = set()
    handed: list[tuple[Covered, set[int]]] = []
    for pairs, hold in batches:
        before = [view.tolist() for view in grown.closed]
        late = grown.add(*arrays(pairs), hold)
        so_far |= moments(pairs)
        now = grown.covered()
        after = [view.tolist() for view in grown.closed]
        keep = len(before[0]) if late is None else late
        assert [ends[:keep] for ends in after] == [ends[:keep] for ends in before]
        assert not pairs or (now.tail is not None and len(now.tail[0]) <= hold + 1)
        handed.append((now, set(so_far)))
    for view, wanted in handed:
        assert view.tail is not None
        start, end = np.append(view.start, view.tail[0]), np.append(view.end, view.tail[1])
        assert moments(list(zip(start.tolist(), end.tolist(), strict=True))) == wanted
        assert bool((start[1:] > end[:-1]).all()), "disjoint, in order, and none touches the next"


@given(PAIRS, PAIRS, st.integers(0, 70), st.integers(0, 70))
def test_kernel_copy_only_and_idle_add_up(kernels: Pairs, copies: Pairs, low: int, high: int) -> None:
    ran, worked = Intervals(), Intervals()
    ran.add(*arrays(kernels))
    worked.add(*arrays(kernels + copies))
    split = Device(0, ran.covered(), worked.covered()).split(low, high)
    window = set(range(low, high))
    kernel = moments(kernels) & window
    copy = (moments(copies) & window) - kernel
    assert (split.kernel_ns, split.copy_only_ns) == (len(kernel), len(copy))
    assert split.wall_ns == len(window)
    assert sum(split.percent()) == (100 if window else 0)


@pytest.mark.parametrize("name", ["sppark-g1", "icicle", "torch"])
def test_captures_have_the_manifests_figures(name: str) -> None:
    figures = manifest()[name]
    ran, worked = Intervals(), Intervals()
    works = [record for record in capture(name) if record["kind"] in {"kernel", "memcpy", "memset"}]
    for low in range(0, len(works), 100):  # as it comes: in parts, in order of arrival
        part = [(record["start"], record["end"]) for record in works[low : low + 100]]
        worked.add(*arrays(part))
        ran.add(*arrays([(r["start"], r["end"]) for r in works[low : low + 100] if r["kind"] == "kernel"]))
    first, last = min(r["start"] for r in works), max(r["end"] for r in works)
    split = Device(0, ran.covered(), worked.covered()).split(first, last)
    assert split == Split(figures["kernel_ns"], figures["copy_only_ns"], figures["idle_ns"])
    assert split.wall_ns == figures["wall_ns"]


def test_devices_without_records_were_idle() -> None:
    busy = Intervals()
    busy.add(*arrays([(0, 50)]))
    device = Device(1, busy.covered(), busy.covered())
    assert together([device], 4, 0, 100) == Split(50, 0, 350)
    assert together([], 1, 0, 100).percent() == (0, 0, 100)
    assert Split(0, 0, 0).percent() == (0, 0, 0)
    assert Split(1, 1, 1).percent() == (34, 33, 33)


def test_what_was_dropped_still_counts_in_the_whole() -> None:
    grown = Intervals()
    grown.add(*arrays([(0, 10), (20, 30), (40, 50), (60, 70)]))
    before = grown.covered()
    grown.forget(35)
    assert grown.covered().within(0, 100) == before.within(0, 100) == 40
    assert grown.covered().within(35, 100) == 20
    assert grown.covered().within(15, 100) == 20  # where in there it was is no longer known
    assert before.within(15, 100) == 30
    assert len(grown.covered().start) == 1


@given(st.lists(st.tuples(PAIRS, st.integers(0, 70)), max_size=6), PAIRS)
def test_a_session_s_device_time_does_not_depend_on_what_is_kept(
    batches: list[tuple[Pairs, int]], more: Pairs
) -> None:
    """Batches in order of time, each after what was dropped before it."""
    kept, whole, at = Intervals(), Intervals(), 0
    for pairs, drop in batches:
        moved = [(at + a, at + b) for a, b in pairs]
        kept.add(*arrays(moved))
        whole.add(*arrays(moved))
        kept.forget(at + drop)
        at += 80
    moved = [(at + a, at + b) for a, b in more]
    assert kept.covered(moved).within(0, at + 100) == whole.covered(moved).within(0, at + 100)
    assert kept.covered().within(-5, 10_000) == whole.covered().within(-5, 10_000)
