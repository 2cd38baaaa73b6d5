"""The critical path and what closing something saves: by hand, and against programs that are run again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import US, ZERO, Trace, ns
from programs import Instruction, Run, programs, traced

from cuzk_top.devicetime import union
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.stalls import scene
from cuzk_top.stalls.critical import Paths
from cuzk_top.stalls.graph import Graph
from cuzk_top.stalls.limits import DEFAULTS
from cuzk_top.stalls.whatif import Cut, WhatIf
from cuzk_top.store import Store


def whatif(trace: Trace, now: float) -> WhatIf:
    return WhatIf(Paths(Graph(scene.make(trace.snapshot(now), None, DEFAULTS))), 10**9)


def path(trace: Trace, now: float) -> list[tuple[str, float, float]]:
    return [((s.name), (s.start_ns - ZERO) / US, (s.end_ns - ZERO) / US) for s in trace.analyse(now).path]


def test_through_a_launch_a_stream_and_a_synchronise() -> None:
    trace = Trace()
    trace.span("prove", 0, 1_000)
    trace.span("parse", 0, 300)
    stage = trace.span("msm", 300, 900)
    trace.work("first", 310, 500, stage)
    trace.work("second", 502, 880, stage)
    trace.sync(330, 890)
    trace.span("verify", 900, 1_000)
    assert path(trace, 1_000) == [
        ("parse", 0, 300),
        ("msm", 300, 310),
        ("first", 310, 500),
        ("", 500, 502),  # the second was launched by then: the stream went on 2 us later
        ("second", 502, 880),
        ("msm", 880, 900),  # the synchronise returns
        ("verify", 900, 1_000),
    ]


def test_a_step_of_device_work_names_the_span_that_launched_it() -> None:
    trace = Trace()
    proof = trace.span("prove", 0, 100)
    stage = trace.span("msm", 0, 100)
    trace.work("kernel", 10, 90, stage)
    trace.sync(12, 95)
    steps = trace.analyse(100).path
    assert [(step.name, step.span, step.lane) for step in steps] == [
        ("msm", stage, "other"),
        ("kernel", stage, "gpu0.other"),
        ("msm", stage, "other"),
    ]
    assert proof not in {step.span for step in steps}


def test_back_to_back_spans_are_all_on_the_path() -> None:
    trace = Trace()
    trace.span("prove", 0, 400)
    for i, name in enumerate(("a", "b", "c", "d")):
        trace.span(name, 100 * i, 100 * i + 100)
    assert path(trace, 400) == [("a", 0, 100), ("b", 100, 200), ("c", 200, 300), ("d", 300, 400)]


def test_back_to_back_kernels_and_synchronises_are_all_on_the_path() -> None:
    trace = Trace()
    trace.span("prove", 0, 400)
    for i, name in enumerate(("a", "b", "c", "d")):
        stage = trace.span(f"stage {name}", 100 * i, 100 * i + 100)
        trace.work(name, 100 * i, 100 * i + 100, stage)
        trace.sync(100 * i, 100 * i + 100)
    assert path(trace, 400) == [("a", 0, 100), ("b", 100, 200), ("c", 200, 300), ("d", 300, 400)]


def copying(size: int, *, other: str = "", kind: str = "h2d") -> list[int]:
    """What taking 500 us off a copy of 600 us saves, in ns; `other` happens 300 us into it."""
    trace = Trace()
    trace.span("prove", 0, 1_000)
    stage = trace.span("load", 0, 620)
    trace.work(f"memcpy.{kind}.pageable", 10, 610, stage, size=size)
    if other == "span":
        trace.span("load.next", 300, 400)
    if other == "kernel":
        trace.work("kernel", 300, 400, trace.span("msm", 620, 630), stream=1)
    if other == "sync":
        trace.sync(300, 301, "event")
    what = whatif(trace, 1_000)
    return what.saved([Cut(work=np.array([0]), shorter=np.array([500 * US]))])


def test_a_pageable_copy_holds_up_the_thread_that_called_for_it() -> None:
    assert copying(100_000) == [500 * US]
    assert copying(100, kind="d2h") == [500 * US]


@pytest.mark.parametrize("other", ["span", "kernel", "sync"])
def test_a_thread_that_goes_on_meanwhile_was_not_held_up(other: str) -> None:
    """It began a span, called for a kernel on another stream, or for a wait that was over at once."""
    assert copying(100_000, other=other) == [0]


def test_a_small_copy_to_a_device_may_be_under_way_when_its_call_returns() -> None:
    assert copying(64 << 10) == [0] and copying((64 << 10) + 1) == [500 * US]


def streams(told: bool) -> tuple[list[int], int]:
    """A synchronise of stream 1 returns just after the work of stream 2 did: what cutting each saves."""
    trace = Trace()
    if told:
        trace.arguments["sync.stream"] = ("stream", "")
    trace.span("prove", 0, 1_000)
    stage = trace.span("msm", 0, 30)
    trace.work("one", 10, 500, stage, stream=1)
    trace.work("two", 20, 502, stage, stream=2)
    trace.sync(30, 505)
    trace.rows[-1]["a0"] = 1
    what = whatif(trace, 1_000)
    cuts = [Cut(work=np.array([i]), shorter=np.array([300 * US])) for i in (0, 1)]
    return what.saved(cuts), what.graph.scene.proofs[0].end


def test_a_stream_s_synchronise_waits_for_that_stream() -> None:
    # of the first 300 us; of the second nothing: nobody waited for it
    assert streams(told=True) == ([300 * US, 0], ns(1_000))


def test_where_the_stream_is_not_told_it_is_the_work_that_ended_last() -> None:
    assert streams(told=False) == ([0, 300 * US], ns(1_000))


def test_a_stream_whose_track_is_not_told_is_nobodys() -> None:
    """As a damaged trace may have it."""
    trace = Trace(arguments={"sync.stream": ("stream", "")})
    trace.span("prove", 0, 1_000)
    trace.work("one", 10, 500, trace.span("msm", 0, 30), stream=1)
    trace.sync(30, 505)
    trace.rows[-1]["a0"] = 1
    del trace.tracks[101]
    what = whatif(trace, 1_000)
    assert [what.end(proof) - proof.end for proof in what.proofs] == [0]


def test_two_threads_that_wait_for_one_device_are_told_apart_by_their_spans() -> None:
    """Both launch, so that only the span that a synchronise was called from says whose it is."""
    trace = Trace()
    trace.span("prove", 0, 1_000)
    one, other = trace.span("a", 0, 30), trace.span("b", 0, 900, thread=2)
    trace.work("kernel", 10, 500, one, stream=1)
    trace.work("kernel", 20, 800, other, stream=2)
    trace.sync(30, 510, "event")
    waiting = trace.span("a.finish", 30, 520)
    assert whatif(trace, 1_000).saved([Cut(work=np.array([0]), shorter=np.array([100 * US]))]) == [0]
    trace.rows[-2]["parent"] = waiting
    assert whatif(trace, 1_000).saved([Cut(work=np.array([0]), shorter=np.array([100 * US]))]) == [100 * US]


def test_a_synchronise_that_did_not_wait_turns_nothing() -> None:
    trace = Trace()
    trace.span("prove", 0, 500)
    stage = trace.span("msm", 0, 100)
    trace.work("kernel", 10, 60, stage)
    trace.span("host", 100, 500)
    trace.sync(300, 301)
    assert path(trace, 500) == [("msm", 0, 100), ("host", 100, 500)]


def test_a_hand_over_between_threads() -> None:
    trace = Trace()
    trace.span("prove", 0, 1_000)
    trace.span("synthesis", 0, 700, thread=2)
    trace.flow(9, 700, 2, arrives=False)
    trace.span("queue.wait", 100, 720)
    trace.flow(9, 720, 1, arrives=True)
    trace.span("msm", 720, 1_000)
    assert path(trace, 1_000) == [
        ("synthesis", 0, 700),
        ("queue.wait", 700, 720),
        ("msm", 720, 1_000),
    ]


def test_without_the_arrow_the_wait_is_all_that_is_known() -> None:
    trace = Trace()
    trace.span("prove", 0, 1_000)
    trace.span("synthesis", 0, 700, thread=2)
    trace.span("queue.wait", 100, 720)
    trace.span("msm", 720, 1_000)
    assert path(trace, 1_000) == [("prove", 0, 100), ("queue.wait", 100, 720), ("msm", 720, 1_000)]


def test_a_worker_that_was_idle_until_work_arrived() -> None:
    trace = Trace()
    job = trace.job("prove", 0, 1_000)
    trace.span("synthesis", 0, 400, thread=1, parent=job)
    trace.flow(3, 400, 1, arrives=False)
    trace.span("other proof", 0, 100, thread=2)
    trace.span("gpu", 410, 1_000, thread=2, parent=job)
    trace.flow(3, 412, 2, arrives=True)
    assert path(trace, 1_000) == [("synthesis", 0, 400), ("", 400, 410), ("gpu", 410, 1_000)]


def test_a_thread_of_its_own_for_one_call() -> None:
    trace = Trace()
    trace.span("prove", 0, 1_000)
    trace.span("parse", 0, 200)
    trace.flow(1, 200, 1, arrives=False)
    trace.flow(1, 230, 2, arrives=True)  # in no span: the thread has just begun
    trace.span("msm.b_g2", 250, 800, thread=2)
    trace.flow(2, 810, 2, arrives=False)
    trace.span("msm.b_g2.wait", 300, 820)
    trace.flow(2, 820, 1, arrives=True)
    assert path(trace, 1_000) == [
        ("parse", 0, 200),
        ("", 200, 250),
        ("msm.b_g2", 250, 800),
        ("", 800, 810),
        ("msm.b_g2.wait", 810, 820),
        ("prove", 820, 1_000),
    ]
    what = whatif(trace, 1_000)
    cut = Cut({2: (np.array([ns(250)]), np.array([ns(800)]))})
    # without the call the wait would begin at 300 and be over at once
    assert what.saved([cut]) == [(820 - 300 - 0) * US]


def test_an_async_job_is_driven_by_its_children() -> None:
    trace = Trace()
    job = trace.job("prove", 0, 1_000)
    trace.span("p0", 0, 300, thread=1, parent=job)
    trace.span("p2", 300, 900, thread=1, parent=job)
    trace.span("p1", 0, 500, thread=2, parent=job)
    trace.span("p3", 500, 800, thread=2, parent=job)
    assert path(trace, 1_000) == [("p0", 0, 300), ("p2", 300, 900), ("", 900, 1_000)]
    what = whatif(trace, 1_000)
    proof = what.graph.scene.proofs[0]
    assert what.end(proof) == proof.end
    # without p2 its 600 us: then p3 ends last, at 800
    cut = Cut({1: (np.array([ns(300)]), np.array([ns(900)]))})
    assert what.saved([cut]) == [100 * US]


def test_a_wait_for_a_gpu_leads_to_its_holder() -> None:
    trace = Trace()
    trace.span("prove", 0, 1_000, thread=1)
    trace.span("prove", 0, 800, thread=2)
    trace.span("gpu.held", 100, 600, thread=2)
    trace.span("gpu.wait", 200, 610, thread=1)
    trace.span("gpu.held", 610, 900, thread=1)
    assert path(trace, 1_000) == [
        ("prove", 0, 600),  # of the other thread
        ("gpu.wait", 600, 610),
        ("prove", 610, 1_000),
    ]


@settings(deadline=None)
@given(programs())
def test_the_path_has_no_gap_and_nothing_changed_changes_nothing(
    program: tuple[list[Instruction], list[Instruction]],
) -> None:
    trace, end, _ = traced(*program)
    what = whatif(trace, end)
    proof = what.graph.scene.proofs[0]
    assert what.end(proof) == proof.end == ns(end)
    steps = what.paths.steps(what.stretches(proof))
    assert steps[0].start_ns == proof.start and steps[-1].end_ns == proof.end
    assert all(one.end_ns == other.start_ns for one, other in pairwise(steps))
    assert all(step.end_ns > step.start_ns for step in steps)


@settings(deadline=None, max_examples=300)
@given(programs(), st.data())
def test_what_closing_saves_is_what_the_program_saves(
    program: tuple[list[Instruction], list[Instruction]], data: st.DataObject
) -> None:
    """Take parts of up to three instructions away, let the program run again, and compare."""
    first, second = program
    trace, end, run = traced(first, second)
    chosen = data.draw(st.lists(st.sampled_from(sorted(run.ids)), min_size=1, max_size=3, unique=True))
    shorter = {
        which: 10 * data.draw(st.integers(0, (run.ids[which][1] - run.ids[which][0]) // 10))
        for which in chosen
    }
    what = whatif(trace, end)
    calls = what.graph.records.ops.corr.tolist()
    threads: dict[int, list[tuple[int, int]]] = {}
    work: dict[int, int] = {}
    for (thread, number), less in shorter.items():
        if thread == 1 and first[number][0] in ("launch", "copy"):
            work[calls.index(_call(first, number))] = less * US
        elif less:
            start = run.ids[thread, number][0]
            threads.setdefault(thread, []).append((ns(start), ns(start + less)))
    cut = Cut(
        {thread: union(*np.array(sorted(parts)).T) for thread, parts in threads.items()},
        work=np.array(list(work), np.int64),
        shorter=np.array(list(work.values()), np.int64),
    )
    assert what.saved([cut]) == [(end - Run(first, second, shorter).run()) * US]


def _call(first: list[Instruction], number: int) -> int:
    """Correlation id of an instruction: launches, copies and synchronises are counted."""
    return sum(one[0] in ("launch", "copy", "sync") for one in first[: number + 1])


RECORDED = sorted((Path(__file__).parents[2] / "data").rglob("*.cuzk"))


@pytest.mark.parametrize("file", RECORDED, ids=[file.stem for file in RECORDED])
def test_recorded_proofs(file: Path) -> None:
    """Nothing changed gives the recorded end, to the nanosecond, and the path has no gap."""
    store, source = Store(), TraceSource(file)
    store.append(source.poll())
    what = WhatIf(Paths(Graph(scene.make(store.snapshot(), None, DEFAULTS))), 10**9)
    for proof in what.proofs:
        assert what.end(proof) == proof.end
        stretches = what.stretches(proof)
        assert (stretches[0].start, stretches[-1].end) == (proof.start, proof.end)
        assert all(one.end == other.start for one, other in pairwise(stretches))


def test_work_of_one_stream_that_overlaps_and_spans_that_are_their_own_parents() -> None:
    """Damaged traces hold what cannot be: nothing is learnt from it, and nothing breaks."""
    trace = Trace()
    trace.span("prove", 0, 1_000)
    stage = trace.span("msm", 0, 900)
    trace.work("long", 10, 800, stage)
    trace.work("short", 20, 100, stage)
    trace.sync(30, 120)
    job = trace.job("prove", 0, 500)
    trace.rows[-1]["parent"] = job
    what = whatif(trace, 1_000)
    assert [what.end(proof) - proof.end for proof in what.proofs] == [0, 0]
    assert trace.analyse(1_000).findings
