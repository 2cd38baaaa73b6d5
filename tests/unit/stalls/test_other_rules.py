"""The rules beside idle time: each on a small trace with an answer by hand, and on one where it is silent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made import DEFAULTS, Trace, ns, silent, spots, the

from cuzk_top.model import FLAG_ERR
from cuzk_top.stalls.graph import is_wait
from cuzk_top.stalls.memory import kind_of

MB = 1_000_000
S = 1_000_000  # microseconds


# -- copies -------------------------------------------------------------------------------------------------


def copying(kind: str = "pinned") -> Trace:
    """10 ms of proof; 3 ms of copies of which a kernel hides 1 ms."""
    trace = Trace()
    stage = trace.span("prove", 0, 10_000)
    trace.work(f"memcpy.h2d.{kind}", 0, 2_000, stage, size=100 * MB)
    trace.work(f"memcpy.h2d.{kind}", 4_000, 5_000, stage, size=50 * MB)
    trace.work("kernel", 4_000, 10_000, stage, stream=1)
    trace.work("kernel", 2_000, 4_000, stage)
    trace.sync(9_000, 10_000)
    return trace


def test_copies_that_no_kernel_hides() -> None:
    of = copying().analyse(10_000)
    found = the(of, "copy.exposed")
    assert found.cost_ns == 2_000_000 and of.copy_only_ns == 2_000_000
    assert found.sentence == "2.00 ms of 3.00 ms of memcpy.h2d.pinned exposed: no kernel runs meanwhile"
    assert found.threshold == "fires over 1 % of the proof (100 us)"
    assert spots(found) == [(0, 2_000)] and found.count == 1
    assert dict(found.values) == {"GB/s": 50.0, "bytes": 150.0 * MB}
    # the kernel behind it on its stream begins 2 ms earlier; the other, launched at no known time, does not
    assert found.saved_ns == 0


def test_copies_under_kernels_cost_nothing() -> None:
    trace = Trace()
    stage = trace.span("prove", 0, 10_000)
    trace.work("kernel", 0, 10_000, stage, stream=1)
    trace.work("memcpy.h2d.pinned", 100, 9_000, stage, size=100 * MB)
    assert silent(trace.analyse(10_000), "copy.exposed")


def test_an_exposed_copy_on_the_path_saves_its_length() -> None:
    trace = Trace()
    trace.span("prove", 0, 4_000)
    first, second = trace.span("load", 0, 10), trace.span("msm", 10, 20)
    trace.work("memcpy.h2d.pinned", 10, 2_010, first, size=100 * MB)
    trace.work("kernel", 2_011, 3_900, second)
    trace.span("wait for it", 20, 4_000)
    trace.sync(20, 3_910)
    found = the(trace.analyse(4_000), "copy.exposed")
    assert found.cost_ns == 2_000_000
    # the kernel was launched at 20 us, and would begin then instead of at 2,011
    assert found.saved_ns == 1_991_000


def test_two_copies_at_once_share_their_time() -> None:
    trace = Trace()
    stage = trace.span("prove", 0, 1_000)
    trace.work("memcpy.h2d.pinned", 0, 600, stage, size=MB)
    trace.work("memcpy.d2h.pinned", 400, 1_000, stage, stream=1, size=MB)
    of = trace.analyse(1_000)
    costs = {f.key: f.cost_ns for f in of.findings if f.rule == "copy.exposed"}
    assert costs == {"gpu0 memcpy.h2d.pinned": 600_000, "gpu0 memcpy.d2h.pinned": 400_000}


def slow(rate: float) -> Trace:
    trace = Trace()
    stage = trace.span("prove", 0, 40_000)
    trace.work("memcpy.h2d.pinned", 0, 1_000, stage, size=50 * MB)  # 50 GB/s
    trace.work("memcpy.h2d.pageable", 1_000, 1_000 + 160 * 1_000 / rate, stage, size=160 * MB)
    trace.work("memcpy.h2d.pageable", 39_000, 39_900, stage, size=MB)  # small ones tell nothing
    return trace


def test_a_copy_far_below_the_links_best() -> None:
    of = slow(8.0).analyse(40_000)
    found = the(of, "copy.slow")
    assert found.sentence == "memcpy.h2d.pageable at 8.00 of 50.0 GB/s: 160MB took 16.8 ms longer"
    assert found.cost_ns == 0 and found.count == 1 and spots(found) == [(1_000, 21_000)]
    # it hangs under the exposed copies, which own the cost
    effect = the(of, "copy.exposed", "pageable")
    assert found in effect.causes and effect.cost_ns == 20_900_000


def test_at_half_of_the_best_a_copy_is_not_slow() -> None:
    assert silent(slow(25.0).analyse(40_000), "copy.slow")
    assert not silent(slow(24.9).analyse(40_000), "copy.slow")


def test_where_no_copy_is_fast_the_link_itself_is_the_measure() -> None:
    trace = Trace(meta={"top.gpu.0.pcie_in": "63.0"})
    stage = trace.span("prove", 0, 40_000)
    trace.work("memcpy.h2d.pageable", 0, 20_000, stage, size=160 * MB)
    assert "at 8.00 of 63.0 GB/s" in the(trace.analyse(40_000), "copy.slow").sentence
    trace.meta["top.gpu.0.pcie_in"] = "16.0"  # half of that is what it reached
    assert silent(trace.analyse(40_000), "copy.slow")


def test_copies_inside_the_device_are_no_link() -> None:
    trace = slow(8.0)
    trace.work("memcpy.d2d", 30_000, 30_010, size=500 * MB)
    assert the(trace.analyse(40_000), "copy.slow").sentence.endswith("160MB took 16.8 ms longer")


# -- page faults --------------------------------------------------------------------------------------------


def faulting(slow_faults: int, *, length: float = 7_800, major: int = 0) -> Trace:
    """Nine evaluations of 3.7 ms with 300 faults, and one that is slower."""
    trace = Trace(arguments={"abc.eval": ("partition", "")})
    trace.span("prove", 0, 50_000)
    for part in range(9):
        at = part * 4_000
        trace.span("abc.eval", at, at + 3_700, a0=part, faults=300)
    trace.span("abc.eval", 36_000, 36_000 + length, a0=9, faults=slow_faults, major=major)
    # 300 faults in 3.7 ms are 81,081 a second; the samples say 9,000
    trace.counter("host.minflt", *((i * 10_000, i * 10_000 + 10_000, 9_000.0) for i in range(5)))
    return trace


def test_a_span_that_its_faults_made_slower_than_its_siblings() -> None:
    of = faulting(30_500).analyse(50_000)
    found = the(of, "fault.burst")
    assert found.sentence == "30k minor faults in abc.eval of p9: first touch, 4.10 ms longer"
    assert (found.cost_ns, found.count, found.device) == (0, 1, None)
    assert spots(found) == [(36_000, 43_800)]
    # 7.8 less 3.7 ms, on the only thread
    assert found.saved_ns == 4_100_000
    assert found.arithmetic[1] == "excess = 7.80 ms less its siblings' median (3.70 ms): 4.10 ms"
    assert dict(found.values)["faults/s"] == pytest.approx(30_500 / 7.8e-3)


def test_faults_that_cost_no_time_are_no_burst() -> None:
    assert silent(faulting(30_500, length=3_900).analyse(50_000), "fault.burst")


def test_a_slow_span_with_the_usual_faults_is_no_burst() -> None:
    assert silent(faulting(301).analyse(50_000), "fault.burst")


def test_few_faults_are_no_burst_whatever_their_rate() -> None:
    assert silent(faulting(999).analyse(50_000), "fault.burst")
    assert not silent(faulting(1_000).analyse(50_000), "fault.burst")


def test_one_major_fault_is_enough_for_a_slow_span() -> None:
    found = the(faulting(301, major=2).analyse(50_000), "fault.burst")
    assert found.sentence == "2 major faults in abc.eval of p9: pages read from a disk, 4.10 ms longer"


def test_one_major_fault_does_not_explain_a_second() -> None:
    # 4.1 ms are within reach of one seek; 20 ms and a bit are not
    assert silent(faulting(301, length=24_000, major=1).analyse(60_000), "fault.burst")
    assert not silent(faulting(301, length=23_000, major=1).analyse(60_000), "fault.burst")


def test_workers_faults_are_told_of_with_their_stage() -> None:
    trace = faulting(30_500)
    for i in range(3):
        trace.span("abc.eval.worker", i * 4_000, i * 4_000 + 1_000, thread=2, faults=10)
    trace.span("abc.eval.worker", 36_000, 43_000, thread=2, faults=30_000)
    assert the(trace.analyse(50_000), "fault.burst").key == "abc.eval"


def test_the_innermost_of_nested_spans_is_named() -> None:
    trace = faulting(30_500)
    trace.span("load", 36_000, 43_000, faults=30_000)
    trace.span("load", 0, 500, faults=10)
    trace.span("load", 4_000, 4_500, faults=10)
    assert the(trace.analyse(50_000), "fault.burst").key == "load"


def test_a_burst_hangs_under_the_idle_time_it_made() -> None:
    trace = faulting(30_500)
    stage = trace.span("msm", 43_800, 50_000)
    trace.work("ntt", 35_000, 36_000, stage)
    trace.work("msm", 43_800, 50_000, stage)
    of = trace.analyse(50_000)
    effect = the(of, "idle.host", "abc.eval: msm > msm")
    assert effect.cost_ns == 7_800_000
    assert [cause.rule for cause in effect.causes] == ["fault.burst"]


# -- memory -------------------------------------------------------------------------------------------------


def test_memory_given_back_at_once() -> None:
    trace = Trace()
    trace.span("prove", 0, 20 * S)
    trace.span("wrapper", 2 * S, 18 * S)
    trace.span("cuda", 2 * S, 6 * S)
    samples = [(1, 40.0), (6, 40.0), (7, 39.0), (16.1, 10.0), (17, 10.0), (18, 12.0)]
    trace.counter("host.rss", *((t * S - 1, t * S, value) for t, value in samples))
    found = the(trace.analyse(20 * S), "dealloc")
    assert found.sentence == "30 GiB given back in 10.1 s inside wrapper, no child span"
    assert spots(found) == [(6 * S, 16_100_000)] and found.saved_ns == 10_100_000_000
    assert found.lane == "other" and dict(found.values)["GiB given back"] == 30.0


def test_falls_in_spans_of_a_name_are_one_finding() -> None:
    """Two of 30 GiB inside `wrapper`, of 2 and 3 s, and one of 20 GiB in a second outside of it."""
    trace = Trace()
    trace.span("prove", 0, 40 * S)
    trace.span("wrapper", 1 * S, 9 * S)
    trace.span("wrapper", 11 * S, 19 * S)
    values = [(2, 40.0), (4, 10.0), (5, 40.0), (12, 40.0), (15, 10.0), (16, 40.0), (30, 40.0), (31, 20.0)]
    trace.counter("host.rss", *((t * S - 1, t * S, value) for t, value in values))
    of = trace.analyse(40 * S)
    found = the(of, "dealloc", "wrapper")
    assert found.sentence == "60 GiB given back in 5.00 s inside wrapper, no child span, 2 times"
    assert spots(found) == [(2 * S, 4 * S), (12 * S, 15 * S)] and found.saved_ns == 5_000_000_000
    # the longest first: both have the same weight per time
    assert len(found.spans) == 2 and found.arithmetic[0].startswith("the most, 30 GiB, from 0:02.000 to")
    assert the(of, "dealloc", "prove").sentence == "20 GiB given back in 1.00 s inside prove, no child span"


@pytest.mark.parametrize("low", [31.0, 39.9])
def test_a_small_fall_is_none(low: float) -> None:
    trace = Trace()
    trace.span("prove", 0, 20 * S)
    trace.counter("host.rss", (0, 1 * S, 40.0), (1 * S, 2 * S, low), (2 * S, 3 * S, low))
    assert silent(trace.analyse(20 * S), "dealloc")


def test_a_fall_of_less_than_256_mib_is_none() -> None:
    trace = Trace()
    trace.span("prove", 0, 20 * S)
    trace.counter("host.rss", (0, 1 * S, 0.3), (1 * S, 2 * S, 0.0501))
    assert silent(trace.analyse(20 * S), "dealloc")


def test_what_a_process_gives_back_at_its_end_is_none() -> None:
    trace = Trace()
    trace.span("prove", 0, 1 * S)
    trace.counter("host.rss", (0, 1 * S, 40.0), (1 * S, 2 * S, 0.1))
    assert silent(trace.analyse(2 * S), "dealloc")


def test_calls_that_allocate() -> None:
    trace = Trace()
    trace.span("prove", 0, 10_000)
    trace.span("cudaHostRegister", 0, 80)
    trace.span("cudaHostRegister", 1_000, 1_030)
    trace.span("cudaFree", 2_000, 2_100)  # 1 % and no more
    of = trace.analyse(10_000)
    found = the(of, "alloc")
    assert found.sentence == "110 us in cudaHostRegister, 2 times" and found.saved_ns == 110_000
    assert silent(of, "dealloc")
    trace.span("munmap", 3_000, 3_001)
    of = trace.analyse(10_000)
    freed = {f.key: f.sentence for f in of.findings if f.rule == "dealloc"}
    assert freed == {"cudaFree": "100 us in cudaFree", "munmap": "1.00 us in munmap"}


def test_names_of_calls() -> None:
    allocate = (
        "cudaMalloc",
        "cuMemAlloc_v2",
        "host_alloc",
        "pin_srs",
        "cudaHostRegister",
        "mlock",
        "d_b_alloc",
    )
    free = (
        "cudaFreeAsync",
        "dealloc",
        "async_dealloc",
        "munmap",
        "malloc_trim",
        "cudaHostUnregister",
        "free",
    )
    none = (
        "pippenger",
        "ntt.alloted",
        "msm.h",
        "freedom",
        "registering",
        "synthesis.witness.load",
        "spin",
        "drops",
    )
    assert [kind_of(name) for name in allocate] == ["alloc"] * len(allocate)
    assert [kind_of(name) for name in free] == ["dealloc"] * len(free)
    assert [kind_of(name) for name in none] == [""] * len(none)


def test_names_of_waits() -> None:
    waits = (
        "gpu.wait",
        "mutex_wait",
        "lock",
        "barrier_wait",
        "GpuLock",
        "queue.acquire",
        "wait for partition",
    )
    none = ("await", "unlocked door", "blocked", "verify", "waiter2", "block")
    assert all(is_wait(name) for name in waits)
    assert not any(is_wait(name) for name in none)


# -- claims and locks ---------------------------------------------------------------------------------------


def claiming(covered: float) -> Trace:
    """A claim of 6.5 ms of which kernels cover some."""
    trace = Trace()
    trace.span("prove", 0, 10_000)
    trace.span("gpu.held", 1_000, 7_500)
    stage = trace.span("prove_partition", 1_000, 7_500)
    trace.work("kernel", 1_000, 1_000 + covered, stage)
    trace.sync(1_010, 1_000 + covered)
    return trace


def test_a_claim_that_device_work_covers_too_little_of() -> None:
    of = claiming(3_300).analyse(10_000)
    found = the(of, "host.claim")
    assert found.sentence == "gpu.held claims 6.50 ms of GPU 0, its work covers 3.30 ms"
    assert (found.cost_ns, found.device, found.lane) == (0, 0, "gpu0.held")
    assert spots(found) == [(4_300, 7_500)]
    # given back meanwhile, the GPU would serve others: what this thread did then, it would do all the same
    assert found.saved_ns == 0 and "saves nothing here" in found.arithmetic[-1]
    # a claim is no work: the device waited for what the thread did meanwhile, and the claim hangs under that
    effect = the(of, "idle.host", "prove_partition: prove_partition")
    assert found in effect.causes and effect.cost_ns == 3_200_000


def test_a_claim_that_is_used() -> None:
    assert silent(claiming(4_550).analyse(10_000), "host.claim")  # 70 %
    assert not silent(claiming(4_549).analyse(10_000), "host.claim")


def locked(idle: float) -> Trace:
    """One thread waits 4 ms for a GPU; its holder leaves it idle at the end of that time."""
    trace = Trace(arguments={"gpu.held": ("device", "")})
    trace.span("prove", 0, 10_000, thread=1)
    trace.span("prove", 0, 6_000, thread=2)
    trace.span("gpu.held", 0, 5_000, thread=2)
    stage = trace.span("partition", 0, 5_000, thread=2)
    trace.work("kernel", 0, 5_000 - idle, stage)
    trace.span("gpu.wait", 1_000, 5_000, thread=1)
    trace.span("gpu.held", 5_000, 9_000, thread=1)
    trace.work("kernel", 5_000, 9_000, trace.span("partition", 5_000, 9_000, thread=1))
    return trace


def test_a_wait_for_a_gpu_that_its_holder_leaves_idle() -> None:
    of = locked(2_000).analyse(10_000)
    found = the(of, "lock.wait")
    assert found.sentence == "waited 2.00 ms for an idle GPU 0: held by thread 2 since 0:00.000"
    assert spots(found) == [(3_000, 5_000)] and found.device == 0
    # let go of 2 ms earlier, the other proof would end so much earlier; the holder's own would not
    assert found.saved_ns == 2_000_000
    assert found.threshold.startswith("fires over 0.5 % of the proof (50.0 us) of waits")


@pytest.mark.parametrize(("stream", "saved"), [(1, 3_000_000), (0, 10_000)])
def test_what_a_held_gpu_costs_the_one_who_waits(stream: int, saved: int) -> None:
    """The holder gives the GPU 1 ms of work, waits 3 ms for the CPU, and gives it 1 ms more. On a stream of
    its own the other's work could begin 3 ms sooner; behind the holder's on one stream only by the 10 us that
    its launch took.
    """
    trace = Trace(arguments={"gpu.held": ("device", "")})
    trace.span("prove", 0, 9_000, thread=1)
    trace.span("prove", 0, 5_000, thread=2)
    trace.span("gpu.held", 0, 5_000, thread=2)
    for start, name in ((0, "first"), (4_000, "tail")):
        trace.work("kernel", start, start + 1_000, trace.span(name, start, start + 1_000, thread=2))
    trace.span("prep", 1_000, 4_000, thread=2)
    trace.span("gpu.wait", 500, 5_000)
    trace.span("gpu.held", 5_000, 9_000)
    stage = trace.span("partition", 5_000, 5_010)
    trace.work("kernel", 5_010, 8_990, stage, stream=stream)
    finish = trace.span("finish", 5_010, 9_000)
    trace.sync(5_010, 8_990, "event")
    trace.rows[-1]["parent"] = finish
    found = the(trace.analyse(9_000), "lock.wait")
    assert spots(found) == [(1_000, 4_000)] and found.saved_ns == saved


def test_gaps_between_kernels_are_not_the_holders_idling() -> None:
    """Of the 4 ms of the wait 2 ms are gaps of 40 us, in which the next kernel was on its way."""
    trace = locked(5_000)
    for at in range(0, 5_000, 80):
        trace.work("kernel", at, at + 40)
    assert silent(trace.analyse(10_000), "lock.wait")


def test_a_wait_for_a_gpu_that_works_is_no_stall() -> None:
    assert silent(locked(50).analyse(10_000), "lock.wait")
    assert not silent(locked(51).analyse(10_000), "lock.wait")


# -- clocks -------------------------------------------------------------------------------------------------


def clocked(low: float, samples: int, busy: bool = True) -> Trace:
    trace = Trace()
    stage = trace.span("prove", 0, 3 * S)
    trace.work("kernel", 0, 3 * S if busy else 1_000, stage)
    trace.sync(1_000, 3 * S)
    for i in range(15):
        value = low if 5 <= i < 5 + samples else 1980.0
        trace.counter("gpu.0.clock", (i * 200_000, i * 200_000 + 200_000, value))
    return trace


def test_a_busy_device_below_its_clock() -> None:
    trace = clocked(990.0, 3)
    trace.mark(1.0 * S, "GPU 0 throttled: power cap")
    of = trace.analyse(3 * S)
    found = the(of, "clock.drop")
    assert found.sentence == "GPU 0 throttled: power cap, 990 of 1980 MHz for 600 ms"
    assert spots(found) == [(1 * S, 1.6 * S)]
    # half the clock for 0.6 s of kernels
    assert found.cost_ns == 300_000_000 and found.saved_ns == 300_000_000


def test_a_clock_just_above_the_limit_or_too_short_a_drop() -> None:
    assert silent(clocked(1_684.0, 3).analyse(3 * S), "clock.drop")  # 85.05 %
    assert not silent(clocked(1_682.0, 3).analyse(3 * S), "clock.drop")
    limits = replace(DEFAULTS, clock_drop_ns=200_000_001)
    assert silent(clocked(990.0, 1).analyse(3 * S, limits=limits), "clock.drop")
    assert not silent(clocked(990.0, 1).analyse(3 * S), "clock.drop")


def test_an_idle_device_may_clock_down() -> None:
    assert silent(clocked(345.0, 10, busy=False).analyse(3 * S), "clock.drop")


# -- tails --------------------------------------------------------------------------------------------------


def test_the_proof_waits_for_one_multiplication_on_the_cpu() -> None:
    trace = Trace()
    trace.span("prove", 0, 10_000)
    stage = trace.span("quotient", 0, 500)
    trace.work("msm", 500, 6_000, stage)
    trace.span("msm.b_g2", 500, 9_000)
    trace.span("verify", 9_000, 10_000)
    of = trace.analyse(10_000)
    found = the(of, "tail.cpu")
    assert found.sentence == "the proof waits 3.00 ms for msm.b_g2 alone"
    assert spots(found) == [(6_000, 9_000)] and found.saved_ns == 3_000_000 and found.cost_ns == 0
    # the device's idle time is the effect
    assert found in the(of, "idle.host", "msm.b_g2").causes


def test_the_wait_for_a_multiplication_is_not_one() -> None:
    trace = Trace()
    trace.span("prove", 0, 10_000)
    trace.work("msm", 100, 6_000, trace.span("quotient", 0, 500))
    trace.span("msm.b_g2", 500, 9_000, thread=2)
    trace.span("msm.b_g2.wait", 6_000, 9_010)
    trace.span("verify", 9_010, 10_000)
    assert spots(the(trace.analyse(10_000), "tail.cpu")) == [(6_000, 9_000)]


def test_a_multiplication_in_steps_with_workers_is_one() -> None:
    """Its steps follow one another, its workers are part of it: from 6,000 on nothing else runs."""
    trace = Trace()
    trace.span("prove", 0, 10_000)
    trace.work("msm", 100, 6_000, trace.span("quotient", 0, 500))
    for name, start, end in (("digits", 500, 5_000), ("accumulate", 5_010, 8_000), ("reduce", 8_010, 9_000)):
        trace.span(f"msm.b_g2.{name}", start, end, thread=2)
        trace.span(f"msm.b_g2.{name}.worker", start + 5, end - 100, thread=3)
    trace.span("msm.b_g2.wait", 6_000, 9_010)
    trace.span("verify", 9_010, 10_000)
    of = trace.analyse(10_000)
    found = the(of, "tail.cpu")
    assert spots(found) == [(6_000, 8_000), (8_010, 9_000)]
    assert found.sentence == "the proof waits 2.99 ms for msm.b_g2.accumulate alone" and found.count == 1
    # a worker of another multiplication is other work
    trace.span("msm.a.worker", 6_000, 8_600, thread=4)
    assert silent(trace.analyse(10_000), "tail.cpu")


def test_a_multiplication_of_which_a_device_did_some_is_no_cpus() -> None:
    trace = Trace()
    trace.span("prove", 0, 10_000)
    trace.work("msm", 100, 6_000, trace.span("msm.b_g2", 0, 500))
    trace.span("msm.b_g2.horner", 6_000, 9_000)
    assert silent(trace.analyse(10_000), "tail.cpu")


def test_multiplications_one_after_another_are_no_tail() -> None:
    trace = Trace()
    trace.span("prove", 0, 10_000)
    trace.span("msm.a", 0, 4_000)
    trace.span("msm.b_g2", 4_000, 9_900)
    assert silent(trace.analyse(10_000), "tail.cpu")


def test_workers_that_end_together_are_no_tail() -> None:
    trace = Trace()
    trace.span("prove", 0, 10_000)
    trace.span("msm.b_g2", 0, 9_900)
    trace.span("msm.b_g2", 0, 9_500, thread=2)
    assert silent(trace.analyse(10_000), "tail.cpu")
    trace.rows[2]["end_ns"] = ns(9_399)
    assert the(trace.analyse(10_000), "tail.cpu").saved_ns == 501_000


def test_one_stream_alone_at_the_end() -> None:
    trace = Trace()
    stage = trace.span("prove", 0, 10_000)
    trace.work("msm_g1", 0, 8_000, stage, stream=1)
    trace.work("msm_g2", 0, 9_900, stage, stream=2)
    trace.sync(100, 9_990, "context")
    found = the(trace.analyse(10_000), "tail.gpu")
    assert found.sentence == "one stream alone at the end for 1.90 ms, mostly msm_g2"
    assert spots(found) == [(8_000, 9_900)] and found.saved_ns == 1_900_000


def test_streams_one_after_another_are_no_tail() -> None:
    trace = Trace()
    stage = trace.span("prove", 0, 10_000)
    trace.work("ntt", 0, 4_000, stage, stream=1)
    trace.work("msm", 4_100, 9_900, stage, stream=2)
    assert silent(trace.analyse(10_000), "tail.gpu")


def test_a_stream_that_only_prepares_leaves_nobody_alone() -> None:
    """Sorting has 900 of 10,000 us of kernel time on a stream of its own: less than a tenth."""
    trace = Trace()
    stage = trace.span("prove", 0, 10_000)
    trace.work("sort", 0, 900, stage, stream=1)
    trace.work("accumulate", 500, 9_600, stage, stream=2)
    trace.sync(100, 9_990, "context")
    assert silent(trace.analyse(10_000), "tail.gpu")


# -- lost and silent GPUs, hangs, builds --------------------------------------------------------------------


def test_a_gpu_that_fell_off_the_bus_owns_its_idle_time() -> None:
    trace = Trace()
    stage = trace.span("prove", 0, 10 * S)
    trace.work("kernel", 0, 4 * S, stage)
    trace.mark(6 * S, "GPU 0 fell off the bus")
    of = trace.analyse(10 * S)
    found = the(of, "gpu.lost")
    assert found.sentence == "GPU 0 fell off the bus at 0:06.000"
    assert found.cost_ns == 4_000_000_000 and spots(found) == [(6 * S, 10 * S)]
    assert of.explained_ns + of.unknown_ns == of.idle_ns == 6_000_000_000


def test_a_gpu_lost_outside_of_jobs_is_told_of_too() -> None:
    trace = Trace()
    trace.work("kernel", 0, 1 * S, trace.span("prove", 0, 1 * S))
    trace.mark(2 * S, "GPU 0 fell off the bus")
    found = the(trace.analyse(3 * S), "gpu.lost")
    assert found.cost_ns == 0 and found.intervals == ()


def test_nvml_that_falls_silent_while_a_proof_runs() -> None:
    trace = Trace()
    trace.work("kernel", 0, 9 * S, trace.span("prove", 0, 10 * S))
    trace.counter("gpu.0.util", *((i * 200_000, i * 200_000 + 200_000, 99.0) for i in range(20)))
    found = the(trace.analyse(10 * S), "gpu.lost")
    assert found.sentence == "NVML told nothing of GPU 0 for 6.00 s from 0:04.000 on"
    trace.counter("gpu.0.util", (4 * S, 5.9 * S, 99.0), (5.9 * S, 7.8 * S, 99.0), (7.8 * S, 9.7 * S, 9.0))
    assert silent(trace.analyse(10 * S), "gpu.lost")


def test_a_recorder_that_stood_still_is_not_nvmls_silence() -> None:
    """From 4 to 10 s nobody asked: the host's figures are missing too."""
    trace = Trace()
    trace.work("kernel", 0, 9 * S, trace.span("prove", 0, 10 * S))
    trace.counter("gpu.0.util", *((i * 200_000, i * 200_000 + 200_000, 99.0) for i in range(20)))
    trace.counter("host.cpu", *((i * 100_000, i * 100_000 + 100_000, 9.0) for i in range(41)))
    trace.counter("host.cpu", (4.1 * S, 10 * S, 9.0))
    assert silent(trace.analyse(10 * S), "gpu.lost")
    trace.counter("host.cpu", *((i * 1.0 * S, (i + 1) * 1.0 * S, 9.0) for i in range(4, 10)))
    assert not silent(trace.analyse(10 * S), "gpu.lost")


def hanging(cpu: float, *, until: float | None = None) -> Trace:
    """Four multiplications of a second; the fifth is open, and nothing has happened for a while."""
    trace = Trace()
    trace.span("prove", 0, until)
    for i in range(4):
        trace.span("msm.h", i * S, (i + 1) * S)
    trace.span("msm.h", 4 * S, until)
    for i in range(46):
        trace.counter("host.cpu", (i * S, (i + 1) * S, 90.0 if i < 4 else cpu))
    return trace


def test_a_span_in_which_nothing_moves_any_more() -> None:
    found = the(hanging(0.0).analyse(44 * S, ended=False), "hung")
    assert found.sentence == "last evidence 40.0 s ago, at 0:04.000 in msm.h"
    assert spots(found) == [(4 * S, 44 * S)]
    assert "open over 5 x its median (1.00 s)" in found.threshold


def test_a_span_that_computes_does_not_hang() -> None:
    assert silent(hanging(50.0).analyse(44 * S, ended=False), "hung")


def test_where_the_recorder_stood_still_nobody_knows_of_a_hang() -> None:
    trace = hanging(0.0, until=40 * S)
    trace.rows = [row for row in trace.rows if not (ns(5 * S) < row["end_ns"] < ns(39 * S))]
    assert silent(trace.analyse(41 * S), "hung")


def test_a_hang_that_is_over() -> None:
    found = the(hanging(0.0, until=40 * S).analyse(41 * S), "hung")
    assert found.sentence == "stood still for 36.0 s from 0:04.000 on, in msm.h"
    assert found.saved_ns == 36_000_000_000


def test_two_hangs_of_a_name_have_keys_of_their_own() -> None:
    trace = hanging(0.0, until=20 * S)
    trace.span("prove", 21 * S, 45 * S)
    trace.span("msm.h", 22 * S, 44 * S)
    of = trace.analyse(45 * S)
    assert sorted(f.key for f in of.findings) == ["msm.h", "msm.h 2"]
    assert next(f for f in of.findings if f.key == "msm.h").intervals[0][0] == ns(4 * S)


def test_a_device_that_works_is_no_hang() -> None:
    trace = hanging(0.0, until=40 * S)
    trace.work("kernel", 4 * S + 1, 40 * S - 1)
    assert silent(trace.analyse(41 * S), "hung")


def test_five_times_the_median_is_the_limit_where_nothing_is_known_of_the_cpu() -> None:
    trace = Trace()
    trace.span("prove", 0, None)
    trace.span("msm.h", 0, 1 * S)
    trace.span("msm.h", 1 * S, None)
    assert silent(trace.analyse(6 * S, ended=False), "hung")
    found = the(trace.analyse(6.1 * S, ended=False), "hung")
    assert "CPU time was not sampled" in found.arithmetic[0]


def test_kernels_of_other_sources() -> None:
    trace = Trace(meta={"kernels.fingerprint.msm": "a" * 64, "kernels.sources.msm": "b" * 64})
    trace.meta |= {"kernels.fingerprint.ntt": "c" * 64, "kernels.sources.ntt": "c" * 64}
    trace.meta |= {"kernels.fingerprint.points": "d" * 64}
    trace.span("prove", 0, 100)
    found = the(trace.analyse(100), "stale.build")
    assert found.sentence == "stale kernels: msm"
    assert found.arithmetic[0] == "msm: loaded aaaaaaaaaaaa, sources bbbbbbbbbbbb"
    trace.meta["kernels.sources.points"] = trace.meta["kernels.sources.ntt"] = "e" * 64
    found = the(trace.analyse(100), "stale.build")
    assert found.sentence == "stale kernels: msm and 2 more"
    assert [line.partition(":")[0] for line in found.arithmetic[:3]] == ["msm", "ntt", "points"]
    del trace.meta["kernels.sources.points"]
    trace.meta["kernels.sources.ntt"] = "c" * 64
    trace.meta["kernels.sources.msm"] = "a" * 64
    assert silent(trace.analyse(100), "stale.build")


# -- a CPU's proof -------------------------------------------------------------------------------------------


def test_without_a_gpu_there_is_a_path_and_no_device() -> None:
    trace = Trace(meta={"missing.gpu.0.util": "no NVIDIA driver: libnvidia-ml.so.1 not found"})
    trace.span("prove", 0, 1_000)
    trace.span("msm.h", 100, 900)
    of = trace.analyse(1_000)
    assert of.no_device == "no device data: no NVIDIA driver: libnvidia-ml.so.1 not found"
    assert [(step.name, step.end_ns - step.start_ns) for step in of.path] == [
        ("prove", 100_000),
        ("msm.h", 800_000),
        ("prove", 100_000),
    ]
    assert of.findings == () and of.idle_ns == 0


# -- proofs that failed -------------------------------------------------------------------------------------


def proving(trace: Trace, at: int, *, failed: bool = False) -> None:
    """A proof of 10 ms whose GPU waits 4 ms for the host."""
    trace.span("prove", at, at + 10_000)
    if failed:
        trace.rows[-1]["flags"] |= FLAG_ERR
    for name, start, end in (("msm.l", at, at + 2_000), ("msm.h", at + 6_000, at + 10_000)):
        stage = trace.span(name, start, end)
        trace.work("kernel", start, end, stage)
        trace.sync(start + 10, end)
    trace.span("synthesis", at + 2_000, at + 6_000)


def test_what_a_proof_that_failed_waited_for_saves_nothing() -> None:
    both, one, none = Trace(), Trace(), Trace()
    for trace, failures in ((both, (False, False)), (one, (False, True)), (none, (True, True))):
        for number, failed in enumerate(failures):
            proving(trace, 10_000 * number, failed=failed)
    found = [the(trace.analyse(20_000), "idle.host") for trace in (both, one, none)]
    assert [finding.cost_ns for finding in found] == [8_000_000] * 3, "the GPU idled all the same"
    assert [finding.saved_ns for finding in found] == [8_000_000, 4_000_000, None]
    assert [finding.arithmetic[-1] for finding in found] == [
        "saved = 8.00 ms: the proof's end without it, over the recorded edges",
        "saved = 4.00 ms: the proof's end without it, over the recorded edges; without 1 that failed",
        "no saving counts: all 2 of its proofs failed",
    ]


def test_the_path_of_a_proof_that_failed_is_told_all_the_same() -> None:
    trace = Trace()
    proving(trace, 0, failed=True)
    of = trace.analyse(10_000)
    told = [(step.name, step.end_ns - step.start_ns) for step in of.path]
    assert told == [("kernel", 2_000_000), ("synthesis", 4_000_000), ("kernel", 4_000_000)]
    assert the(of, "idle.host").arithmetic[-1] == "no saving counts: its proof failed"
