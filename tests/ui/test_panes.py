"""The lines of the panes, the explanations, and gaps as things to select: by the example's figures."""

from __future__ import annotations

from dataclasses import replace

import example
import pytest
import sessions
from sessions import BASE_NS, MS

from cuzk_top import figures
from cuzk_top.jobs import Job
from cuzk_top.screens import gaps, panes
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.explain import explain_lines
from cuzk_top.screens.explain_counters import source
from cuzk_top.screens.help import laid_out
from cuzk_top.screens.lanes import Fold, display_rows
from cuzk_top.screens.layout import arrange
from cuzk_top.screens.numbers import NumbersColumn
from cuzk_top.screens.tables import NO_FIGURES
from cuzk_top.stage_table import stage_table
from cuzk_top.theme import Theme
from cuzk_top.viewport import ViewState
from cuzk_top.widgets import beside, job_lines, stage_lines, stall_lines
from cuzk_top.widgets.inspector_lines import inspector_lines
from cuzk_top.widgets.paint import Line

THEME = Theme()
SAID = example.insight()
SNAP = example.snapshot()
VIEW = ViewState(BASE_NS, BASE_NS + 44_000 * MS)


def text(line: Line) -> str:
    return line.strip().text.rstrip()


def rows_of(view: ViewState, size: tuple[int, int], devices: int = 1) -> list[str]:
    layout = arrange(example.snapshot(devices), view, *size, example.insight(devices))
    assert layout is not None
    return [row.key for row in layout.rows]


def test_findings_are_a_table_with_causes_behind_their_effects() -> None:
    found, make = stall_lines.stall_lines(SAID, VIEW, THEME, 120)
    lines = [text(make(i)) for i in range(len(found))]
    assert lines[0] == (
        " > 1 idle.host        2.10 s    1      2.10 s  "
        "waited for abc.eval of p8 < fault.burst: 3.05 M faults, first touch"
    )
    assert lines[2].startswith("   3 idle.host       10.50 s    1      hidden  pipeline fill")
    narrow = stall_lines.stall_lines(SAID, VIEW, THEME, 60)[1]
    assert text(narrow(0)).startswith(" > 1   2.10 s  2.10 s  waited for abc.eval of p8 < 3.05 M")


def test_what_costs_is_vermillion_and_what_is_hidden_is_not() -> None:
    _, make = stall_lines.stall_lines(SAID, VIEW, THEME, 120)
    cost = THEME.paint("cost", "page").fg
    for number, finding in enumerate(example.FINDINGS):
        line = make(number).strip()
        coloured = any(
            segment.style is not None and segment.style.color is not None and segment.style.color.name == cost
            for segment in line
        )
        assert coloured == bool(finding.saved_ns)


def test_ranks_of_two_digits_stay_in_their_column() -> None:
    many = tuple(
        example.finding("idle.host", str(number), (100, 0), "waited", (float(number), number + 0.5))
        for number in range(12)
    )
    insight = Insight(replace(SAID.analysis, findings=many))
    _, make = stall_lines.stall_lines(insight, VIEW, THEME, 120)
    assert text(make(0))[:14] == " > 1 idle.host" and text(make(11))[:14] == "  12 idle.host"


def test_times_of_findings() -> None:
    shown = [stall_lines.finding_time(ns) for ns in (0, 2_104_000_000, 100_000_000, 99_900_000, 41_230, 12)]
    assert shown == [
        ("0.00", "s"),
        ("2.10", "s"),
        ("0.10", "s"),
        ("99.9", "ms"),
        ("41.2", "us"),
        ("12", "ns"),
    ]


def test_evidence_and_arithmetic_of_the_selected_finding() -> None:
    lines = [text(line) for line in stall_lines.evidence_lines(SAID, VIEW, THEME, 120, 9)]
    assert lines[0] == " 1   fault.burst: faults/s 744k, GiB in 4 KiB pages 12"
    whole = " ".join(line.strip() for line in lines[1:])
    for part in (
        "cost = GPU idle 36.5 to 38.6",
        "saved = path with p8 at 36.5",
        "fires over 0.5 %",
        "median of 9",
    ):
        assert part in whole
    assert len(stall_lines.evidence_lines(SAID, VIEW, THEME, 120, 1)) == 1


def test_the_title_says_how_much_is_explained() -> None:
    # 4.3 s copies + 18.7 s idle, of which 18.6 s explained
    assert stall_lines.explained(SAID.analysis) == [
        "23.0 s without a kernel: 22.9 explained, 0.1 unknown",
        "22.9 of 23.0 s without a kernel explained",
        "22.9 of 23.0 s explained",
    ]
    idle = replace(SAID.analysis, explained_ns=8_600 * MS, nowork_ns=10_000 * MS)
    told = stall_lines.explained(idle)
    assert (
        told[0].endswith("12.9 explained, 0.1 unknown, 10.0 no job") and told[2] == "12.9 of 13.0 s explained"
    )
    assert stall_lines.explained(replace(idle, kernel_ns=0, copy_only_ns=0, idle_ns=0)) == []


def test_jobs_say_who_holds_what_and_how_late() -> None:
    heads, count, make = job_lines.job_lines(example.JOBS, SNAP.now_ns, THEME, 140)
    assert count == 2 and text(heads[0]).split() == (
        ["job", "kind", "state", "age", "stage", "partitions", "holds", "left", "late", "slack"]
    )
    running = text(make(0)).split()
    # it holds GPU 0 since 38.6 s and it is 39.5 s; expected to end at 41.0, 2.1 s late, due 20 s after that
    assert " ".join(running) == (
        "porep-1000-7 porep-32g running 39.5 s msm.h DDDDDDDDMD GPU0 900 ms 1.50 s +2.10 s +20.0 s"
    )
    assert " ".join(text(make(1)).split()) == "porep-1000-6 porep-32g done 38.9 s DDDDDDDDDD - 0 s -"
    narrow = job_lines.job_lines(example.JOBS, SNAP.now_ns, THEME, 60)[0][0]
    assert text(narrow).split() == ["job", "age", "stage", "left", "late"]
    long = replace(example.JOBS[0], kind="chain-20-bls12381-of-many-words")
    assert long.kind in text(job_lines.job_lines([long], SNAP.now_ns, THEME, 160)[2](0))
    failed = replace(example.JOBS[0], state="failed")
    assert "failed" in text(job_lines.job_lines([failed], SNAP.now_ns, THEME, 140)[2](0))
    assert job_lines.job_lines([], SNAP.now_ns, THEME, 120)[1] == 1


def test_the_stage_table_against_the_past() -> None:
    table = stage_table(SNAP)
    assert SAID.past is not None
    letters = {row.lane.key: row.lane.letter for row in SNAP.rows}
    head, make = stage_lines.stage_lines(table, letters, SAID.last, SAID.past.stages, THEME, 200)
    assert text(head).split()[-6:] == ["last", "past", "against", "minflt", "majflt", "rate"]
    line = next(text(make(i)) for i, stage in enumerate(table) if stage.name == "synthesis.abc.eval")
    assert "40.1 s 36.0 s +11%" in " ".join(line.split())  # (40.1 - 36.0) / 36.0
    witness = next(text(make(i)) for i, stage in enumerate(table) if stage.name == "synthesis.witness")
    assert "+1%" in witness
    plain = stage_lines.stage_lines(table, letters, {}, {}, THEME, 200)[0]
    assert not {"last", "past", "against"} & set(text(plain).split())


@pytest.mark.parametrize("width", [60, 80, 96, 100, 120, 160, 200])
def test_tables_fit_their_width(width: int) -> None:
    for last, past in ((True, True), (False, True), (True, False), (False, False)):
        name, columns = stage_lines.columns_for(width, last, past)
        assert name + sum(size for _, size in columns) + 6 <= width + 5
        assert {"n", "total", "share"} <= {column for column, _ in columns}
    assert sum(size for _, size in job_lines.columns_for(example.JOBS, width)) + 2 <= width


def test_a_gap_is_explained_by_what_stands_around_it_and_happened_in_it() -> None:
    view = gaps.select(VIEW, example.FINDINGS[0], example.FINDINGS[0].intervals[0])
    shown = "\n".join(text(line) for line in inspector_lines(SNAP, view, SAID, None, THEME, (120, 20)))
    assert "idle.host, rank 1" in shown and "2.10 s, gap 1 of 1" in shown
    assert "36.500000 s, 38.600000 s" in shown
    assert "G1_multiexp, 1.50 s" in shown  # p9's, from 35.0 to 36.5 s
    assert "memcpy.h2d.pinned, 500 ms" in shown  # p8's, which began the work again
    assert "8.0k highest" in shown and "30 mean" in shown  # faults and CPU of 36.5 to 38.6 s


def test_evidence_spans_are_named_with_their_faults() -> None:
    # the record of p8's evaluation: the last one on the first worker's thread
    row = next(row for row in SNAP.rows if row.lane.key == "synthesis")
    number = int(row.columns.id[-1])
    finding = replace(example.FINDINGS[0], spans=(number,))
    insight = replace(SAID, analysis=replace(SAID.analysis, findings=(finding,)))
    view = gaps.select(VIEW, finding, finding.intervals[0])
    shown = "\n".join(text(line) for line in inspector_lines(SNAP, view, insight, None, THEME, (200, 20)))
    assert "synthesis.abc.eval 8.10 s" in shown


def test_a_host_span_tells_what_the_gpus_did_meanwhile() -> None:
    layout = arrange(SNAP, VIEW, 120, 40, SAID)
    assert layout is not None
    rows = {row.key: row for row in layout.rows}
    from cuzk_top.screens import navigation

    found = navigation.span_at(SNAP, rows["synthesis"], BASE_NS + 32_000 * MS, MS)
    assert found is not None
    view = navigation.select(VIEW, SNAP, *found)
    shown = "\n".join(text(line) for line in inspector_lines(SNAP, view, SAID, None, THEME, (120, 40)))
    # from 30.5 to 38.6 s: M to 31.5, then H 34.0-34.5, N 34.5-35.0, M 35.0-36.5: 3.0 of 8.1 s kernels
    assert "kernel 37 copy 6 idle 57 %, 3.00 s of kernels" in shown


def test_stepping_and_zooming_to_gaps() -> None:
    view = VIEW
    keys = []
    for _ in range(6):
        step = gaps.step(view, SAID, 1)
        assert step is not None
        view = gaps.select(view, step[2], gaps.worst(step[2]))
        keys.append(step[2].key)
    assert keys == ["abc.eval p8", "h2d", "fill", "waves", "p5", "abc.eval p8"]
    waves = example.FINDINGS[3]
    assert gaps.worst(waves) == (BASE_NS + 18_500 * MS, BASE_NS + 22_000 * MS)  # 3.5 of 3.5 and 2.5 s
    first = gaps.zoom_to(VIEW, waves, 88)
    assert first.selection == waves.intervals[0] and first.t0_ns < waves.intervals[0][0]
    second = gaps.zoom_to(first, waves, 88)
    assert second.selection == waves.intervals[1]
    assert gaps.zoom_to(second, waves, 88).selection == waves.intervals[0]
    far = replace(VIEW, t1_ns=BASE_NS + 1_000 * MS)
    moved = gaps.select(far, waves, waves.intervals[0])
    assert moved.window.width_ns == 1_000 * MS and moved.t0_ns <= waves.intervals[0][0] < moved.t1_ns
    assert gaps.step(VIEW, Insight(), 1) is None


def test_gaps_of_a_lane_by_time_and_by_pointer() -> None:
    found = gaps.at(SAID, None, BASE_NS + 20_000 * MS, 0)
    assert found is not None and found[0].key == "waves"
    assert gaps.at(SAID, 1, BASE_NS + 20_000 * MS, 0) is None
    assert gaps.at(SAID, None, BASE_NS + 26_500 * MS, 100 * MS) is None
    near = gaps.at(SAID, None, BASE_NS + 25_650 * MS, 100 * MS)
    assert near is not None and near[0].key == "p5"
    view = replace(VIEW, selection=(BASE_NS + 18_500 * MS, BASE_NS + 22_000 * MS))
    after, before = gaps.neighbour(SAID, view, None, 1), gaps.neighbour(SAID, view, None, -1)
    assert after is not None and after[1][0] == BASE_NS + 22_000 * MS  # the exposed copy
    assert before is not None and before[1][0] == BASE_NS + 16_500 * MS


def test_device_time_is_explained_with_its_inputs() -> None:
    entries = explain_lines(SNAP, VIEW, None, SAID, False)
    told = {entry.name: entry.text for entry in entries}
    device = SNAP.devices[0].split(SNAP.first_ns, SNAP.now_ns)
    whole = (device.kernel_ns, device.copy_only_ns, device.idle_ns, 39_500 * MS)
    assert sum(whole[:3]) == whole[3]
    assert told["GPU 0"] == "{} + {} + {} = {} ns".format(*map(figures.count, whole))
    assert told["idle"].startswith("explained 18,600,000,000 + unknown 100,000,000 + no job 0")
    assert all(line.width == 60 for line in laid_out(entries, THEME, 60))


def test_counters_are_explained_with_what_was_read_and_how_often() -> None:
    told = {entry.name: entry.text for entry in explain_lines(SNAP, VIEW, None, SAID, False)}
    # 744,000 a second from 31 to 35 s and 8,000 else, a sample each half of 39.5 s
    assert told["minflt/s"] == (
        "rate: page faults without a disk that the kernel counts in /proc/PID/stat, pinning included; "
        "79 samples, each of 500 ms; last 8,000, highest 744,000 /s"
    )
    assert told["majflt/s"].endswith("last 0, highest 0 /s")
    assert told["RSS GiB"].startswith("gauge: resident memory in /proc/PID/stat; ")
    assert told["GPU kern %"].startswith("gauge: time with at least one kernel / time")


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("gpu.3.pcie_in", "(field value 198)"),
        ("gpu.0.queue", "written by the program itself"),
        ("thread.rayon.minflt", "/proc/PID/task/TID/stat"),
        ("pressure.io", "/proc/pressure"),
        ("queue.depth", "written by the program itself"),
    ],
)
def test_what_a_counter_was_read_from(key: str, said: str) -> None:
    assert source(key).endswith(said)


def test_two_gpus_fold_their_work_into_letters_until_they_are_unfolded() -> None:
    keys = rows_of(VIEW, (120, 36), devices=2)
    for device in (0, 1):
        assert {f"gpu{device}.{lane}" for lane in ("busy", "work", "stalls")} <= set(keys)
    assert "gpu0.ntt" not in keys
    unfolded = rows_of(replace(VIEW, unfolded=frozenset({"gpu0"})), (120, 50), devices=2)
    assert {"gpu0.h2d", "gpu0.ntt", "gpu0.msm", "gpu1.work"} <= set(unfolded) and "gpu0.work" not in unfolded


def test_a_narrow_screen_keeps_workers_letters_and_stalls() -> None:
    assert rows_of(VIEW, (60, 16)) == ["synthesis", "gpu0.busy", "stalls"]
    assert "gpu0.h2d" in rows_of(replace(VIEW, pinned=frozenset({"gpu0.h2d"})), (100, 24))
    assert rows_of(replace(VIEW, pinned=frozenset({"path"})), (60, 16)) == ["path", "synthesis", "gpu0.busy"]


def test_hidden_lanes_are_nowhere() -> None:
    view = replace(VIEW, hidden=frozenset({"synthesis", "gpu0.busy"}))
    keys = [row.key for row in display_rows(SNAP, view, SAID, Fold())]
    assert not any(key.startswith(("synthesis", "gpu0.busy")) for key in keys) and "gpu0.ntt" in keys
    layout = arrange(SNAP, view, 120, 50, SAID)
    assert layout is not None
    shown = panes.Shown(SNAP, replace(view, tab="log"), "log", SAID, NO_FIGURES, ())
    assert panes.status(shown, layout) == ["2 by x: X"]


def test_a_stretch_of_time_has_its_figures() -> None:
    """Start, end, length, share and count of the lane under the cursor; a selected gap is no stretch."""
    view = replace(VIEW, cursor="gpu0.msm", selection=(BASE_NS + 10_000 * MS, BASE_NS + 20_000 * MS))
    layout = arrange(SNAP, view, 120, 40, SAID)
    assert layout is not None
    shown = panes.Shown(SNAP, view, "stalls", SAID, NO_FIGURES, ())
    # four MSMs of a second each between 10 and 20 s
    assert panes.status(shown, layout)[0] == "10.00 to 20.00 s: 10.0 s, 0 msm busy 40%, 4 spans"
    gap = replace(view, selection=example.FINDINGS[0].intervals[0])
    assert "without a kernel" in panes.status(shown._replace(view=gap), layout)[0]


@pytest.mark.parametrize(
    ("job", "late", "said"),
    [
        (example.JOBS[1], 2_100, "2.10 s"),
        (example.JOBS[1], 1_900, ""),  # below 5 % of 38.9 s
        (replace(example.JOBS[1], late_ns=None), None, ""),
    ],
)
def test_late_is_a_word_with_a_meaning(job: Job, late: int | None, said: str) -> None:
    insight = replace(SAID, jobs=(replace(job, late_ns=None if late is None else late * MS),))
    now = panes.job_now(insight, SNAP.now_ns)
    assert now is not None and now.late == said and now.done == "9/10" and now.eta == "1.50 s"
    assert now.against == "median of 9: 38.9 s"


async def test_the_header_ends_with_late() -> None:
    for size in ((120, 36), (60, 16)):
        async with sessions.app_of(example.controls(), insight=SAID).run_test(size=size) as pilot:
            screen = await sessions.settled(pilot)
            assert (
                screen.header.texts[0].endswith(" LATE 2.10 s  ") and "eta 1.50 s" in screen.header.texts[0]
            )
            screen.notice("said")
            assert screen.header.texts[0].rstrip().endswith("said   LATE 2.10 s")


async def test_matches_stand_out_and_all_else_is_dull() -> None:
    async with sessions.app_of(example.controls(), insight=SAID).run_test(size=(120, 40)) as pilot:
        screen = await sessions.settled(pilot)
        at = next(i for i, line in enumerate(screen.timeline.texts) if line.startswith("S synth 0"))
        assert "witness" in screen.timeline.texts[at] and "eval" in screen.timeline.texts[at]
        await pilot.press("slash", *"abc.eval", "enter")
        line = screen.timeline.texts[at]
        assert "eval" in line and "witness" not in line.removeprefix("S synth 0")
        await pilot.press("escape")
        assert "witness" in screen.timeline.texts[at]


async def test_clicks_select_gaps_and_findings_and_drags_snap() -> None:
    async with sessions.app_of(example.controls(), insight=SAID).run_test(size=(120, 40)) as pilot:
        screen = await sessions.settled(pilot)
        layout = screen.frame
        assert layout is not None
        rows = [row.key for row in layout.rows]
        y = 2 + layout.first_row_y + rows.index("stalls")
        await pilot.click(offset=(layout.label_width + 40, y))  # 20 s: the finding "waves"
        assert screen.view.finding == ("idle.host", "waves") and screen.view.focus == "panel"
        await pilot.click(offset=(20, screen.panel.region.y + 3))
        assert screen.view.finding == ("copy.exposed", "h2d")
        y = 2 + layout.first_row_y + rows.index("gpu0.msm")
        await pilot.mouse_down(offset=(layout.label_width + 23, y))  # 11.5 s: where an MSM begins
        await pilot.hover(offset=(layout.label_width + 28, y))
        await pilot.mouse_up(offset=(layout.label_width + 28, y))
        assert screen.view.selection == (BASE_NS + 11_500 * MS, BASE_NS + 14_500 * MS)


@pytest.mark.parametrize("width", [80, 100, 120, 160, 200])
def test_of_how_much_a_counter_is_fits_its_column(width: int) -> None:
    layout = arrange(SNAP, VIEW, width, 45, SAID)
    assert layout is not None and not layout.compact
    counter = replace(SNAP.counters[0], unit="GiB", top=141e9, missing=None)
    numbers = NumbersColumn().at(SNAP, VIEW, replace(layout, counters=(counter,)), SAID)
    line = beside.counter_numbers(numbers[f"counter {counter.key}"], layout, THEME)
    assert text(line).endswith(" /141G")


@pytest.mark.parametrize(("ago_s", "said"), [(5.0, ""), (5.1, ", up to 0:"), (60.0, ", up to 0:")])
def test_an_analysis_that_is_not_of_now_says_of_when(ago_s: float, said: str) -> None:
    layout = arrange(SNAP, VIEW, 160, 45, SAID)
    assert layout is not None
    at = SNAP.now_ns - round(1e9 * ago_s)
    shown = panes.Shown(
        SNAP, replace(VIEW, selection=None), "stalls", replace(SAID, at_ns=at), NO_FIGURES, ()
    )
    until = figures.clock(at - SNAP.first_ns, 2) if said else ""
    plain = panes.status(shown._replace(insight=SAID), layout)
    assert panes.status(shown, layout)[0] == plain[0] + (f", up to {until}" if said else "")


def test_the_path_is_stepped_through_by_its_pieces() -> None:
    pieces = [(step.start_ns, step.end_ns) for step in SAID.analysis.path]
    view = replace(VIEW, selection=None)
    seen = []
    for _ in range(len(pieces)):
        piece = gaps.beside(view, pieces, 1)
        if piece is None:
            break
        seen.append(piece)
        view = replace(view, selection=piece)
    assert seen == [piece for piece in pieces if piece[0] >= VIEW.t0_ns]
    assert gaps.beside(view, pieces, 1) is None
    assert gaps.beside(view, pieces, -1) == pieces[-2]
