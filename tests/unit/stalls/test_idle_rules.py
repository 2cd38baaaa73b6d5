"""idle.*: small traces on which hand arithmetic gives the answer, and some on which a rule must be silent."""

from __future__ import annotations

from dataclasses import replace

from made import DEFAULTS, Trace, rules, silent, spots, the

from cuzk_top import stalls


def sums(of) -> tuple[int, int, int, int]:
    """Wall, idle, and what the findings say of idle time, all in us."""
    wall = (of.window[1] - of.window[0]) // 1000
    told = sum(f.cost_ns for f in of.findings if f.rule.startswith(("idle.", "gpu.lost"))) // 1000
    return wall, of.idle_ns // 1000, told, (of.explained_ns + of.unknown_ns + of.nowork_ns) // 1000


def starved(*, until: float = 6_000) -> Trace:
    """A kernel, 5 ms of synthesis, a kernel: 7.4 ms of proof."""
    trace = Trace()
    trace.span("prove", 0, 7_400)
    trace.span("synthesis", 900, until)
    stage = trace.span("msm.h", until, 7_400)
    first = trace.span("quotient", 0, 900)
    trace.work("ntt", 100, 1_000, first)
    trace.sync(900, 1_000)
    trace.work("accumulate", 6_000, 7_300, stage)
    trace.sync(6_050, 7_350)
    return trace


def test_a_gap_that_a_host_span_covers_is_its_own() -> None:
    found = the(starved().analyse(7_400), "idle.host", "synthesis")
    assert found.sentence == "waited 5.00 ms for synthesis"
    assert spots(found) == [(1_000, 6_000)]
    assert (found.cost_ns, found.count, found.device) == (5_000_000, 1, 0)
    assert found.threshold == "fires over 0.5 % of the proof (37.0 us)"
    assert found.lane == "synthesis" and len(found.spans) == 1


def test_closing_the_gap_saves_what_the_chain_behind_it_took() -> None:
    # nothing else runs meanwhile: the whole gap
    assert the(starved().analyse(7_400), "idle.host", "synthesis").saved_ns == 5_000_000


def test_sums_of_a_small_proof() -> None:
    of = starved().analyse(7_400)
    # kernels 900 + 1300; before the first 100 us, after the last 100 us idle
    assert of.kernel_ns == 2_200_000 and of.idle_ns == 5_200_000 and of.copy_only_ns == 0
    assert sums(of) == (7_400, 5_200, 5_200, 5_200)
    assert of.nowork_ns == 0 and of.no_device is None and not of.early


def test_a_span_that_covers_less_than_60_percent_explains_its_part() -> None:
    trace = Trace()
    trace.span("prove", 0, 7_400)
    trace.work("ntt", 100, 1_000, trace.span("quotient", 0, 1_000))
    trace.span("synthesis", 1_000, 3_990)
    trace.work("accumulate", 6_000, 7_400, trace.span("msm.h", 6_000, 7_400))
    of = trace.analyse(7_400)
    assert the(of, "idle.host", "synthesis").cost_ns == 2_990_000
    found = the(of, "idle.unknown")
    assert (found.cost_ns, of.unknown_ns) == (2_010_000, 2_010_000)
    assert found.sentence == "idle for 2.01 ms: nothing recorded says why"
    # 60.0 % are enough
    again = Trace()
    again.span("prove", 0, 7_400)
    again.work("ntt", 100, 1_000, again.span("quotient", 0, 1_000))
    again.span("synthesis", 1_000, 4_000)
    again.work("accumulate", 6_000, 7_400, again.span("msm.h", 6_000, 7_400))
    assert the(again.analyse(7_400), "idle.host", "synthesis").cost_ns == 5_000_000


def test_a_gap_of_several_spans_is_cut_between_them() -> None:
    trace = Trace()
    trace.span("prove", 0, 10_000)
    trace.work("ntt", 0, 1_000, trace.span("msm", 0, 1_000))
    trace.span("horner", 1_000, 3_000)
    trace.span("finalize", 3_000, 6_000)
    trace.span("finalize.inner", 3_100, 6_000)
    trace.span("verify", 6_500, 10_000)
    of = trace.analyse(10_000)
    told = {f.sentence: (spots(f), f.saved_ns) for f in of.findings}
    # none covers 60 % of the 9 ms; each waited for its own, and nothing says what was from 6 to 6.5 ms
    assert told == {
        "waited 3.50 ms for verify": ([(6_500, 10_000)], 3_500_000),
        "waited 3.00 ms for finalize.inner": ([(3_000, 6_000)], 3_000_000),
        "waited 2.00 ms for horner": ([(1_000, 3_000)], 2_000_000),
        "idle for 500 us: nothing recorded says why": ([(6_000, 6_500)], 500_000),
    }
    assert sums(of) == (10_000, 9_000, 9_000, 9_000)


def test_the_deepest_span_that_covers_enough_is_named() -> None:
    trace = starved()
    trace.span("synthesis.abc.eval", 1_000, 5_900)
    found = the(trace.analyse(7_400), "idle.host", "synthesis")
    assert found.sentence == "waited 5.00 ms for synthesis.abc.eval"


def test_groups_that_waited_for_the_same_are_told_apart_in_few_words() -> None:
    """Six gaps for `load`, with other work around each, and a kernel that `load` itself gave after one."""
    trace = Trace()
    trace.span("prove", 0, 10_000)
    for number, name in enumerate(("a", "b", "b", "c", "a", "load", "load")):
        stage = trace.span(name, 1_000 * number, 1_000 * number + 100)
        trace.work(name, 1_000 * number, 1_000 * number + 100, stage)
        trace.span("load", 1_000 * number + 100, 1_000 * number + 1_000)
    found = [f.sentence for f in trace.analyse(7_000).findings if f.rule == "idle.host"]
    # a > b, b > b, b > c, c > a, a > load, load > load and the last to the job's open end
    assert sorted(found) == [
        "waited 900 us for load after a, before b",
        "waited 900 us for load after a, before load",
        "waited 900 us for load before a",
        "waited 900 us for load before c",
        "waited 900 us for load before the window's end",
        "waited 900 us for load between its own work",
        "waited 900 us for load within b",
    ]


def test_of_several_gpus_each_sentence_says_which() -> None:
    trace = Trace()
    trace.span("prove", 0, 1_000)
    stage = trace.span("msm", 0, 10)
    trace.span("synthesis", 10, 900)
    for device in (0, 1):
        trace.work("kernel", 10, 100 * (device + 1), stage, device=device)
        trace.work("kernel", 900, 1_000, stage, device=device)
    found = [f for f in trace.analyse(1_000).findings if f.rule == "idle.host"]
    said = {f.sentence for f in found if "synthesis" in f.sentence}
    assert said == {"GPU 0: waited 800 us for synthesis", "GPU 1: waited 700 us for synthesis"}


def test_partitions_are_named_with_their_share() -> None:
    trace = Trace(arguments={"synthesis": ("partition", "")})
    trace.span("prove", 0, 10_000)
    at = 0.0
    for part, length in ((4, 3_500.0), (9, 2_650.0)):
        trace.span("synthesis", at, at + length, a0=part)
        stage = trace.span("msm.h", at + length, at + length + 400)
        trace.work("accumulate", at + length, at + length + 400, stage)
        at += length + 400
    trace.span("verify", at, 10_000)
    of = trace.analyse(10_000)
    host = {f.key: f for f in of.findings if f.rule == "idle.host" and "synthesis" in f.key}
    # the first begins the job, the second comes after a kernel: two groups
    assert [f.sentence for f in host.values()] == [
        "waited 3.50 ms for synthesis of p4 after the job's start",
        "waited 2.65 ms for synthesis of p9 within msm.h",
    ]


def drained(count: int, gap: float = 200) -> Trace:
    """In one stage: kernel, synchronise, and again, `gap` us apart."""
    trace = Trace()
    length = count * (100 + gap)
    trace.span("prove", 0, length)
    stage = trace.span("quotient", 0, length)
    for i in range(count):
        start = i * (100 + gap)
        trace.work("ntt", start, start + 100, stage)
        trace.sync(start + 10, start + 105)
    return trace


def test_gaps_that_open_at_a_synchronise_in_one_stage() -> None:
    of = drained(31).analyse(31 * 300)
    found = the(of, "idle.sync")
    # 31 kernels: 30 gaps between them, and after the last the stage itself is waited for
    assert found.sentence == "queue drained by stream synchronise in quotient, 30 times"
    assert found.cost_ns == 30 * 200_000 and found.count == 30
    assert the(of, "idle.host").cost_ns == 200_000


def test_without_the_synchronise_the_stage_is_waited_for() -> None:
    trace = drained(31)
    trace.rows = [
        row for row in trace.rows if not row["corr" if "corr" in row else "seq"] or row["kind"] != 13
    ]
    of = trace.analyse(31 * 300)
    assert silent(of, "idle.sync")
    assert sum(f.cost_ns for f in of.findings if f.rule == "idle.host") == 31 * 200_000


def test_a_synchronise_late_in_the_gap_did_not_open_it() -> None:
    trace = Trace()
    trace.span("prove", 0, 1_300)
    stage = trace.span("quotient", 0, 1_300)
    trace.work("ntt", 0, 100, stage)
    trace.sync(300, 305)  # the gap is 1,000 us: up to 100 us would do
    trace.work("ntt", 1_100, 1_300, stage)
    of = trace.analyse(1_300)
    assert silent(of, "idle.sync") and the(of, "idle.host").cost_ns == 1_000_000


def launches(count: int, gap: float) -> Trace:
    trace = Trace()
    length = count * (10 + gap)
    trace.span("prove", 0, length)
    stage = trace.span("quotient", 0, length)
    for i in range(count):
        trace.work("ntt", i * (10 + gap), i * (10 + gap) + 10, stage)
    return trace


def test_a_thousand_launch_gaps_count_as_one_long() -> None:
    found = the(launches(1_001, 20).analyse(1_001 * 30), "idle.launch")
    # the last gap, of 20 us, is no launch gap: nothing came after it
    assert found.sentence == "1,000 launch gaps, 20.0 ms: batch or graph them"
    assert found.cost_ns == 1_000 * 20_000
    assert found.threshold == "fires over 2 % of the window (601 us), gaps under 50.0 us"
    assert len(found.intervals) == 1_000


def test_few_launch_gaps_are_told_of_without_rank() -> None:
    of = launches(101, 0.1).analyse(101 * 10.1)
    assert silent(of, "idle.launch")
    small = next(f for f in of.findings if f.rule == "idle.launch")
    assert not small.ranked and small.cost_ns == 100 * 100 and small.count == 100


def test_gaps_of_50_us_are_no_launch_gaps() -> None:
    of = launches(101, 50).analyse(101 * 60)
    assert silent(of, "idle.launch")
    assert sum(f.cost_ns for f in of.findings if f.rule == "idle.host") == 101 * 50_000


def test_the_limit_is_a_limit() -> None:
    of = launches(101, 50).analyse(101 * 60, limits=replace(DEFAULTS, launch_ns=50_001))
    assert the(of, "idle.launch").cost_ns == 100 * 50_000


def test_outside_of_jobs_nothing_is_a_stall() -> None:
    trace = starved()
    trace.span("prove", 20_000, 21_000)
    trace.work("ntt", 20_000, 21_000, trace.span("quotient", 20_000, 21_000))
    of = trace.analyse(22_000)
    nowork = next(f for f in of.findings if f.rule == "idle.nowork")
    assert spots(nowork) == [(7_400, 20_000), (21_000, 22_000)]
    assert not nowork.ranked and nowork.cost_ns == of.nowork_ns == 13_600_000
    assert "idle.nowork" not in rules(of)
    assert sums(of)[1:] == (18_800, 18_800, 18_800)


def test_a_gpu_without_work_counts_as_idle() -> None:
    trace = starved()
    trace.meta |= {"gpu.0.name": "NVIDIA H200", "gpu.1.name": "NVIDIA H200"}
    of = trace.analyse(7_400)
    assert of.kernel_ns + of.copy_only_ns + of.idle_ns == 2 * 7_400_000
    assert of.nowork_ns == 7_400_000
    assert [f.sentence for f in of.findings if f.rule == "idle.nowork"] == [
        "GPU 1 was given no work: 7.40 ms"
    ]


def test_two_streams_are_one_device() -> None:
    trace = starved()
    trace.work("ntt", 900, 6_100, stream=1)
    of = trace.analyse(7_400)
    assert not [f for f in of.findings if "synthesis" in f.key] and of.idle_ns == 200_000


def test_devices_have_their_own_gaps() -> None:
    trace = starved()
    other = trace.span("msm.a", 0, 7_400, thread=2)
    trace.work("accumulate", 0, 7_400, other, device=1)
    of = trace.analyse(7_400)
    assert the(of, "idle.host", "synthesis").device == 0
    assert of.idle_ns == 5_200_000 and of.kernel_ns == 9_600_000


def test_what_follows_a_lost_record_is_marked() -> None:
    trace = starved()
    trace.lost = 3
    of = trace.analyse(7_400)
    assert the(of, "idle.host", "synthesis").incomplete
    lost = next(f for f in of.findings if f.rule == "lost")
    assert lost.count == 3 and not lost.ranked and lost.sentence.startswith("3 records were lost")
    assert silent(starved().analyse(7_400), "lost")


def test_a_program_without_named_jobs_is_one_from_its_first_work_on() -> None:
    trace = Trace()
    trace.span("setup", 0, 1_000)
    step = trace.span("step", 1_000, 9_000)
    trace.work("gemm", 2_000, 3_000, step)
    trace.work("gemm", 8_000, 9_000, step)
    of = trace.analyse(10_000)
    assert the(of, "idle.host").sentence == "waited 5.00 ms for step"
    assert the(of, "idle.host").saved_ns is None
    assert of.path == () and of.nowork_ns == 3_000_000


def test_too_early_to_tell() -> None:
    trace = Trace()
    trace.span("prove", 0, None)
    trace.span("synthesis", 0, None)
    assert trace.analyse(999_000, ended=False).early
    assert not trace.analyse(1_000_000, ended=False).early
    assert not trace.analyse(999_000, ended=True).early
    assert Trace().analyse(0).early


def test_while_it_runs_the_last_moments_are_not_yet_known() -> None:
    trace = Trace()
    trace.span("prove", 0, None)
    stage = trace.span("quotient", 0, None)
    trace.work("ntt", 0, 1_000_000, stage)
    trace.work("ntt", 1_200_000, 1_300_000, stage)
    of = trace.analyse(1_400_000, ended=False)
    # 100 ms ago: what the device did since may still be on its way
    assert (of.window[1] - of.window[0], of.idle_ns) == (1_300_000_000, 200_000_000)
    assert trace.analyse(1_400_000, ended=True).idle_ns == 300_000_000
    later = trace.analyse(1_600_000, ended=False)
    assert later.window[1] - later.window[0] == 1_450_000_000


def test_a_play_head_hides_what_comes_after() -> None:
    trace = starved()
    snapshot = trace.snapshot(7_400)
    at = snapshot.first_ns + 5_000_000
    of = stalls.analyse(replace(snapshot, now_ns=at))
    assert of.window[1] == at
    # the gap so far: nothing came after it yet, and the synthesis is open
    found = the(of, "idle.host", "synthesis")
    assert found.cost_ns == 4_000_000 and found.arithmetic[1] == "between quotient and the window's end"
    assert of.kernel_ns == 900_000


def test_a_window_counts_only_what_lies_in_it() -> None:
    of = starved().analyse(7_400, (2_000, 4_000))
    assert (of.kernel_ns, of.idle_ns) == (0, 2_000_000)
    assert the(of, "idle.host").cost_ns == 2_000_000
    # the path is the whole proof's
    assert (of.path[0].start_ns, of.path[-1].end_ns) == (5_000_000_000, 5_007_400_000)
