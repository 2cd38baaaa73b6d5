"""Each rule on a trace in which its stall was really provoked, and on one in which it must say nothing.

How each trace came about: the READMEs beside them. What is measured here was known beforehand or is told by
another program; findings span by span are compared in test_by_force.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cuzk_top import stalls, trace
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.stalls.finding import Analysis, Finding
from cuzk_top.store import Store

DATA = Path(__file__).parents[2] / "data"
PROVOKED = {
    "idle.host": ("gpu/golden/dense-20-b-g2-cpu", "gpu/traces/cuda-kill"),
    "idle.sync": ("gpu/traces/own-chain-65533-bn254", "gpu/golden/dense-20"),
    "idle.launch": ("gpu/traces/cuda-parents", "gpu/golden/dense-20"),
    "idle.unknown": ("gpu/traces/cupy", "gpu/golden/dense-20"),
    "copy.exposed": ("gpu/golden/dense-20-first-pageable", "gpu/golden/small-14"),
    "copy.slow": ("gpu/golden/dense-20-first-pageable", "gpu/golden/dense-20-first-pool"),
    "host.claim": ("gpu/golden/dense-20-b-g2-cpu", "gpu/golden/dense-20"),
    "fault.burst": ("stalls/squeezed", "traces/chain-65533-bls12381"),
    "alloc": ("stalls/pinned", "gpu/golden/dense-20"),
    "dealloc": ("stalls/given-back", "stalls/kept"),
    "lock.wait": ("stalls/locked", "stalls/lock-worked"),
    "clock.drop": ("stalls/edited-clock-drop", "gpu/golden/dense-20"),
    "tail.cpu": ("gpu/golden/dense-20-b-g2-cpu", "gpu/golden/dense-20"),
    "tail.gpu": ("gpu/golden/dense-20-bn254", "gpu/golden/dense-22"),
    "gpu.lost": ("stalls/edited-gpu-lost", "gpu/traces/own-chain-65533-bn254"),
    "hung": ("stalls/stopped", "traces/chain-65533-bls12381"),
    "stale.build": ("stalls/stale", "gpu/golden/dense-20"),
}
"""Of each ranked rule a trace with its stall and one without."""


@cache
def analysed(name: str) -> tuple[Analysis, Store]:
    store, source = Store(), TraceSource(DATA / f"{name}.cuzk")
    store.append(source.poll())
    source.close()
    return stalls.analyse(store.snapshot()), store


def told(name: str, rule: str) -> list[Finding]:
    """The ranked findings of a rule, wherever they hang."""
    every = [one for top in analysed(name)[0].findings for one in (top, *top.causes)]
    return [finding for finding in every if finding.rule == rule and finding.ranked]


@pytest.mark.parametrize("rule", PROVOKED)
def test_it_speaks_where_its_stall_is_and_only_there(rule: str) -> None:
    with_it, without = PROVOKED[rule]
    assert told(with_it, rule), f"{rule} says nothing of {with_it}"
    assert not told(without, rule), f"{rule} says something of {without}"


def test_a_prover_that_was_stopped_for_four_seconds() -> None:
    (found,) = told("stalls/stopped", "hung")
    (start, end) = found.intervals[0]
    assert 4.0e9 <= end - start < 4.3e9
    assert found.sentence.startswith("stood still for 4.10 s from ")


def test_a_prover_that_was_stopped_and_killed_four_seconds_later() -> None:
    (found,) = told("stalls/killed", "hung")
    (start, end) = found.intervals[0]
    assert 4.0e9 <= end - start < 4.3e9 and end == analysed("stalls/killed")[0].window[1]
    assert found.sentence.startswith("last evidence 4.11 s ago, at ")


def test_buffers_given_back_in_each_of_four_proofs() -> None:
    (found,) = told("stalls/given-back", "dealloc")
    assert found.count == 4 and dict(found.values)["GiB given back"] == pytest.approx(
        4 * 640 / 1024, rel=0.01
    )
    assert (
        found.sentence.startswith("2.5 GiB given back in ")
        and "inside wrapper, no child span" in found.sentence
    )


def test_records_lost_while_the_recorder_stood_still() -> None:
    """Of 20,000 spans the thread's ring of 16,384 records held 16,383: one place may be half overwritten."""
    analysis, store = analysed("stalls/flooded")
    (found,) = [one for one in analysis.findings if one.rule == "lost"]
    assert found.count == store.snapshot().lost == 20_000 - 16_383
    assert found.sentence == "3,617 records were lost: what looks idle may not have been"
    assert not [one for one in analysed("gpu/golden/dense-20")[0].findings if one.rule == "lost"]


def test_time_without_a_job_is_shown_and_never_ranked() -> None:
    analysis, _ = analysed("gpu/traces/cupy")
    (found,) = [one for one in analysis.findings if one.rule == "idle.nowork"]
    assert not found.ranked and found.cost_ns == analysis.nowork_ns > 0


def test_b_g2_on_the_cpu_is_what_the_proof_waits_for() -> None:
    """What the switch is worth was measured: 322 and 389 ms a proof (gpu/results.md)."""
    (found,) = told("gpu/golden/dense-20-b-g2-cpu", "tail.cpu")
    assert found.lane == "msm.b_g2" and found.count == 2
    assert 300e6 < (found.saved_ns or 0) / 2 < 400e6


def pairs(name: str) -> list[tuple[int, int]]:
    """Lengths of the proofs of each pair of a trace of hidden.py: with the stall and without."""
    opened = trace.open(DATA / f"{name}.cuzk")
    columns = opened.columns
    names = [place for place, text in enumerate(opened.session.names) if text.text == "prove"]
    proofs = columns.take(np.flatnonzero(np.isin(columns.name, names)))
    ns = dict(
        zip(
            zip(proofs.a0.tolist(), proofs.a1.tolist(), strict=True),
            (proofs.end_ns - proofs.start_ns).tolist(),
            strict=True,
        )
    )
    return [(ns[pair, 0], ns[pair, 1]) for pair in sorted({pair for pair, _ in ns})]


def removed(name: str) -> tuple[int, int]:
    """Between what removing the stall gave: of 40 differences the 14th smallest and largest, which hold the
    median with 96 % (1 - 2 P(X <= 13) of a binomial of 40 and 1/2).
    """
    gains = sorted(stalled - flipped for stalled, flipped in pairs(name))
    return gains[13], gains[26]


def test_a_stall_beside_a_longer_sum_is_hidden_and_its_removal_gave_nothing() -> None:
    low, high = removed("stalls/hidden")
    assert low < 0 < high
    for rule in ("alloc", "dealloc"):
        (found,) = told("stalls/hidden", rule)
        assert found.hidden and found.count >= 40
        assert found.arithmetic[-1] == "hidden: without it something else takes as long"
        assert sum(end - start for start, end in found.intervals) > 40 * 4_000_000  # 4 and 40 ms a proof


def test_the_same_stall_before_the_sum_is_worth_what_its_removal_gave() -> None:
    low, high = removed("stalls/worth")
    assert 40_000_000 < low < high < 60_000_000
    said = sum(found.saved_ns or 0 for rule in ("alloc", "dealloc") for found in told("stalls/worth", rule))
    assert low < said / 40 < high


def removed_of_six(name: str) -> tuple[int, int]:
    """The same of six pairs: the smallest and the largest hold the median with 97 % (1 - 2 / 2^6)."""
    gains = sorted(stalled - flipped for stalled, flipped in pairs(name))
    assert len(gains) == 6
    return gains[0], gains[-1]


def slow_copies(name: str) -> Finding:
    """The second thread's; the other ones are of the points, before the first proof."""
    (found,) = [one for one in told(name, "copy.slow") if "h2d" in one.sentence]
    assert found.count >= 6
    return found


def test_copies_beside_a_longer_sum_are_hidden_and_faster_ones_gave_nothing() -> None:
    low, high = removed_of_six("stalls/copy-beside")
    assert -500_000 < low < 0 < high < 500_000
    found = slow_copies("stalls/copy-beside")
    assert found.hidden and sum(end - start for start, end in found.intervals) > 6 * 25_000_000


def test_copies_before_the_sum_are_worth_what_faster_ones_gave() -> None:
    low, high = removed_of_six("stalls/copy-before")
    assert 25_000_000 < low <= (slow_copies("stalls/copy-before").saved_ns or 0) / 6 <= high < 35_000_000


def test_copies_that_hold_up_launches_are_worth_something_too() -> None:
    """While pageable memory is copied, another thread's cuFuncSetBlockShape stands still in the driver."""
    low, high = removed_of_six("stalls/copy-launching")
    found = slow_copies("stalls/copy-launching")
    assert 15_000_000 < low <= (found.saved_ns or 0) / 6 <= high
    opened = trace.open(DATA / "stalls/copy-launching.cuzk")
    held = [place for place, text in enumerate(opened.session.names) if text.text.startswith("sync.cu")]
    waits = opened.columns.take(np.flatnonzero(np.isin(opened.columns.name, held)))
    assert len(waits) >= 5 and int((waits.end_ns - waits.start_ns).min()) > 200_000


def test_a_recorder_that_was_stopped_is_neither_a_lost_gpu_nor_a_hang() -> None:
    """For 4 s within one job nothing of the GPU or the host was asked."""
    _, store = analysed("stalls/suspended")
    util = next(counter for counter in store.snapshot().counters if counter.key == "gpu.0.util")
    assert 3.5e9 < max((util.t_ns[1:] - util.t_ns[:-1]).tolist()) < 5e9
    assert not told("stalls/suspended", "gpu.lost") and not told("stalls/suspended", "hung")


@pytest.mark.parametrize("name", ["stalls/locked", "stalls/lock-worked", "gpu/golden/dense-20-b-g2-cpu"])
def test_proofs_that_wait_together_save_the_time_once(name: str) -> None:
    """No finding takes more off the wall clock than it lasted, however many proofs waited meanwhile."""
    for top in analysed(name)[0].findings:
        for one in (top, *top.causes):
            assert (one.saved_ns or 0) <= sum(end - start for start, end in one.intervals)
