"""The rows that are no bars: which cell shows what, by hand where it is short, else by brute force."""

from __future__ import annotations

from dataclasses import replace

import example
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sessions import BASE_NS, MS

from cuzk_top.ghost import Ghost
from cuzk_top.jobs import Job
from cuzk_top.model import KIND_GPU_KERNEL, KIND_GPU_MEMCPY, KIND_SPAN, Columns, Name, RowData, Session
from cuzk_top.screens.analysis import Insight
from cuzk_top.stages import Lane
from cuzk_top.stalls.finding import Analysis, Finding, Step
from cuzk_top.theme import Theme
from cuzk_top.viewport import Axis, Window
from cuzk_top.widgets import special_rows
from cuzk_top.widgets.area_row import Frame
from cuzk_top.widgets.cell_line import CellLine
from cuzk_top.widgets.ground import Grounds
from cuzk_top.widgets.paint import Pen
from cuzk_top.widgets.painted import Cells, PaintedRow

UNICODE, ASCII = Theme(), Theme("mono", "mono", ascii=True)
EDGES = np.arange(0, 41 * 10, 10, dtype=np.int64)
"""Forty columns of 10 ns."""


def text(cells: Cells) -> str:
    return "".join(" " if cell is None else cell.glyph for cell in cells).rstrip()


def found(rule: str, saved: int | None, *gaps: tuple[int, int], **more: object) -> Finding:
    made = Finding(rule, str(gaps), gaps, 0, "synthesis", 1, saved, len(gaps), "", "", ())
    return replace(made, **more)  # type: ignore[arg-type]


def insight(*findings: Finding, path: tuple[Step, ...] = ()) -> Insight:
    return Insight(Analysis((0, 400), findings, path, 0, 0, 0, 0, 0, 0))


def test_gaps_carry_the_rank_of_their_finding() -> None:
    said = insight(
        found("idle.host", 50, (100, 150), (200, 210)),
        found("copy.exposed", 0, (20, 60)),
        found("idle.sync", None, (300, 340), incomplete=True),
        found("idle.nowork", None, (0, 20), ranked=False),
    )
    cells = special_rows.stall_cells(said, None, EDGES, ASCII)
    assert text(cells) == "  2!!!    1////     1         3???"
    roles = {at: (cell.fg, cell.bg) for at, cell in enumerate(cells) if cell is not None}
    assert roles[10] == ("label", "cost") and roles[11] == ("cost", "cost ground")
    assert roles[2] == ("label", "idle") and roles[3] == roles[31] == ("idle", "idle ground")
    assert text(special_rows.stall_cells(said, None, EDGES, UNICODE)).count("╱") == 4


def test_where_gaps_meet_the_better_rank_is_seen() -> None:
    said = insight(found("idle.host", 5, (104, 106)), found("idle.sync", 5, (90, 130)))
    assert text(special_rows.stall_cells(said, None, EDGES, ASCII)) == "         21//"


def test_stalls_of_one_gpu_only() -> None:
    said = insight(found("idle.host", 5, (0, 30)), found("idle.host", 4, (50, 70), device=1))
    assert text(special_rows.stall_cells(said, 1, EDGES, ASCII)) == "     2/"


def test_a_rank_of_two_digits_needs_two_cells() -> None:
    many = [found("idle.host", 5, (10 * at, 10 * at + 1)) for at in range(9)]
    said = insight(*many, found("idle.sync", 5, (200, 230)), found("idle.unknown", 5, (300, 310)))
    assert text(special_rows.stall_cells(said, None, EDGES, ASCII)) == "123456789           10/       /"


@given(
    st.lists(st.tuples(st.integers(0, 399), st.integers(1, 60)), max_size=12),
    st.lists(st.tuples(st.integers(0, 399), st.integers(1, 60)), max_size=12),
)
def test_a_gap_that_covers_a_cell_is_seen_there(
    one: list[tuple[int, int]], two: list[tuple[int, int]]
) -> None:
    """Nanosecond by nanosecond: covered cells show the better finding, cells without any gap show nothing."""

    def disjoint(pairs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        gaps: list[tuple[int, int]] = []
        for start, length in sorted(pairs):
            if not gaps or start > gaps[-1][1]:
                gaps.append((start, min(400, start + length)))
        return tuple(gaps)

    gaps = [disjoint(one), disjoint(two)]
    said = insight(
        *(
            found(rule, saved, *mine)
            for rule, saved, mine in zip(("idle.host", "idle.sync"), (9, 0), gaps, strict=True)
            if mine
        )
    )
    cells = special_rows.stall_cells(said, None, EDGES, ASCII)
    for column in range(40):
        inside = [
            sum(any(a <= t < b for a, b in mine) for t in range(10 * column, 10 * column + 10))
            for mine in gaps
        ]
        cell = cells[column]
        if not any(inside):
            assert cell is None
        elif inside[0] == 10:
            assert cell is not None and "cost" in (cell.fg, cell.bg)
        elif inside[1] == 10 and not inside[0]:
            assert cell is not None and "idle" in (cell.fg, cell.bg)


def step(start: int, end: int, name: str, lane: str = "synthesis") -> Step:
    return Step(start, end, 1, name, lane)


def test_the_path_names_its_steps_along_a_rule() -> None:
    path = (
        step(0, 120, "synthesis.witness.load"), step(120, 180, "synthesis.abc.eval"), step(180, 240, ""),
        step(240, 400, "void msm::accumulate<int>(int*)", "gpu0.msm"),
    )  # fmt: skip
    cells = special_rows.path_cells(insight(path=path), {}, EDGES, ASCII)
    assert text(cells) == "witness----+eval-+?----+accumulate-------"[:40]
    assert text(special_rows.path_cells(insight(path=path), {}, EDGES, UNICODE))[11] == "┳"


def test_a_path_of_steps_without_room_names_their_lanes() -> None:
    small = [step(at, at + 10, f"msm.h.step{at}", "msm.h") for at in range(0, 120, 10)]
    path = (*small, step(120, 200, "quotient.ntt.a", "ntt"), step(200, 210, "finalize", "finalize"))
    assert text(special_rows.path_cells(insight(path=path), {}, EDGES, ASCII)) == "msm h------+ntt----+F"


def test_the_ghost_goes_on_beyond_now() -> None:
    ghost = Ghost(0, np.array([0, 300], np.int64), np.array([50, 400], np.int64), 400)
    said = replace(insight(), ghosts=(ghost,))
    assert text(special_rows.ghost_cells(said, 0, EDGES, ASCII)) == "_____" + " " * 25 + "_" * 10
    assert text(special_rows.ghost_cells(said, 0, EDGES, UNICODE))[0] == "▄"
    assert special_rows.ghost_cells(said, 1, EDGES, ASCII) == []


def row(lane: Lane, *spans: tuple[int, int, int], kind: int = KIND_SPAN) -> RowData:
    """Spans as (start, end, name)."""
    starts, ends, names = (np.array(column, np.int64) for column in zip(*spans, strict=True))
    columns = Columns.make(
        len(spans), start_ns=starts, end_ns=ends, name=names, kind=kind, id=np.arange(len(spans)) + 1
    )
    return RowData(lane, 0, 0, columns)


SYNTH = Lane("synthesis", "synth", "S", "witness")


def test_busy_workers_are_counted_in_quarters() -> None:
    workers = [row(SYNTH, (0, end, 0)) for end in (100, 200, 300, 400)]
    cells = special_rows.worker_cells(workers, EDGES, 400, ASCII)
    assert text(cells) == "4" * 10 + "3" * 10 + "2" * 10 + "1" * 10
    cells = special_rows.worker_cells(workers, EDGES, 350, UNICODE)
    assert text(cells) == "4".ljust(10) + "3".ljust(10) + "2".ljust(10) + "1"
    roles = [cell.bg for cell in cells if cell is not None]
    assert [roles[0], roles[10], roles[20], roles[30]] == ["witness", "three quarters", "half", "eval"]
    assert cells[35] is None


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 380), st.integers(1, 60)), min_size=1, max_size=6), min_size=1,
             max_size=5),
    st.integers(1, 400),
)  # fmt: skip
def test_workers_at_the_middle_of_each_column(spans: list[list[tuple[int, int]]], now: int) -> None:
    sources = []
    for mine in spans:
        made: list[tuple[int, int, int]] = []
        for start, length in sorted(mine):
            if not made or start >= made[-1][1]:
                made.append((start, start + length, 0))
        sources.append(row(SYNTH, *made))
    cells = special_rows.worker_cells(sources, EDGES, now, ASCII)
    for column, cell in enumerate(cells):
        middle = 10 * column + 5
        busy = sum(
            any(
                a <= middle < min(b, now)
                for a, b in zip(one.columns.start_ns, one.columns.end_ns, strict=True)
            )
            for one in sources
        )
        assert (cell is None) if not busy else (cell is not None and cell.glyph == str(busy))


NAMES = Session(names=[Name(""), Name("memcpy.h2d.pinned"), Name("memcpy.h2d.pageable"), Name("radix_fft")])


def test_a_folded_gpu_says_in_letters_what_it_does() -> None:
    copies = row(
        Lane("gpu0.h2d", "0 copy in", "H", "h pinned"), (0, 30, 1), (100, 150, 2), kind=KIND_GPU_MEMCPY
    )
    ntt = row(Lane("gpu0.ntt", "0 ntt", "N", "ntt"), (30, 60, 3), (202, 203, 3), kind=KIND_GPU_KERNEL)
    msm = row(
        Lane("gpu0.msm", "0 msm", "M", "msm"), (55, 90, 3), (311, 314, 3), (316, 319, 3), kind=KIND_GPU_KERNEL
    )
    other = row(Lane("gpu0.ntt", "0 ntt", "N", "ntt"), (310, 311, 3), kind=KIND_GPU_KERNEL)
    sources = [copies, ntt, msm, other]
    cells = special_rows.letter_cells(sources, NAMES, EDGES, 400, ASCII)
    # at 310 the MSM runs for 6 of 10 ns, the NTT for one; the NTT of 1 ns at 202 is seen all the same
    assert text(cells) == "HHHNNNMMM PPPPP     N          M"
    cells = special_rows.letter_cells(sources, NAMES, EDGES, 400, UNICODE)
    assert text(cells) == "H  N  M   P         N          M"
    assert cells[10] is not None and cells[10].bg == "p pageable"
    assert text(special_rows.letter_cells(sources, NAMES, EDGES, 120, ASCII)) == "HHHNNNMMM PP"
    assert special_rows.letter_cells([], NAMES, EDGES, 400, ASCII) == []


def test_partitions_are_words_with_a_letter_each() -> None:
    jobs = example.JOBS
    assert text(special_rows.partition_cells(jobs, 40)) == "porep-1000-7 DDDDDDDDMD 9 of 10"
    assert "porep-1000-6" in text(special_rows.partition_cells(jobs, 90))
    assert special_rows.partition_cells([replace(jobs[0], partitions="")], 90) == []


def drawn(cells: Cells, theme: Theme, columns: int, now: int) -> CellLine:
    """A line of `columns` cells on a well of 1 ns a column."""
    pen, line = Pen(theme), CellLine(columns)
    ground, _ = Grounds(theme, pen).at(Window(0, columns), columns, Axis(1, (), 0), None, now)
    edges = np.arange(columns + 1, dtype=np.int64)
    frame = Frame(Window(0, columns), edges, edges.tolist(), ground)
    PaintedRow(line, 0, pen).draw(frame, 0, None, lambda _: list(cells))
    return line


def test_runs_are_as_few_as_looks() -> None:
    """No more is written of a row than stretches that look alike."""
    said = insight(found("idle.host", 5, (100, 200)))
    line = drawn(special_rows.stall_cells(said, None, EDGES, UNICODE), UNICODE, 40, 100)
    assert line.text == " " * 10 + "1" + "╱" * 9 + " " * 20
    assert [run[:2] for run in line.fresh] == [(0, " " * 10), (10, "1"), (11, "╱" * 9), (20, " " * 20)]


@pytest.mark.parametrize("theme", [UNICODE, ASCII, Theme("light"), Theme("dark", "16"), Theme("dark", "256")])
def test_every_look_draws_the_example(theme: Theme) -> None:
    edges = np.linspace(BASE_NS, BASE_NS + 44_000 * MS, 89).astype(np.int64)
    snapshot, said = example.snapshot(), example.insight()
    rows = [row for row in snapshot.rows if row.lane.key.startswith("gpu0")]
    jobs: tuple[Job, ...] = example.JOBS
    for cells in (
        special_rows.path_cells(said, snapshot.session.meta, edges, theme),
        special_rows.stall_cells(said, None, edges, theme),
        special_rows.ghost_cells(said, 0, edges, theme),
        special_rows.letter_cells(rows, snapshot.session, edges, snapshot.now_ns, theme),
        special_rows.partition_cells(jobs, 88),
    ):
        line = drawn(cells, theme, 88, 88)
        assert len(cells) > 40 and line.text.rstrip() == text(cells)
        assert not theme.ascii or line.text.isascii()
