"""Cells of the rows that the analysis gives: critical path, stalls, the last proof; and of folded rows.

All of them cost O(columns) with binary searches, whatever the number of spans. Who owns a cell is decided as
for bars of spans (see `rows`), in whole cells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cuzk_top import rows, stages
from cuzk_top.model import RowData, Session
from cuzk_top.rows import BLANK, Spans
from cuzk_top.screens.analysis import Insight, identity
from cuzk_top.stalls.finding import Finding, Interval, Step
from cuzk_top.stats import clipped
from cuzk_top.theme import Theme
from cuzk_top.viewport import Int64s
from cuzk_top.widgets.looks import known_role, path_names
from cuzk_top.widgets.painted import Cell, Cells, fill

if TYPE_CHECKING:
    from cuzk_top.jobs import Job

NAMED = 4
"""Cells that a step of the path needs for a name that tells anything."""
SAMPLES = 8
"""Moments of a column at which is asked what a GPU does; the commonest answer is its letter."""
WORKER_FILLS = ("eval", "half", "three quarters", "witness")
"""Quarters of the workers that there are, the fewest first."""
PARTITION_FILLS = {
    "S": "witness", "H": "h pinned", "P": "p pageable", "N": "ntt", "M": "msm", "D": "line", ".": "line",
}  # fmt: skip


def spans_of(intervals: Sequence[Interval], end_ns: int) -> Spans:
    """Disjoint intervals in order, as spans of a row."""
    edges = np.array(intervals, dtype=np.int64).reshape(-1, 2)
    return Spans.until(np.ascontiguousarray(edges[:, 0]), np.ascontiguousarray(edges[:, 1]), None, end_ns)


def owners(spans: Spans, edges: Int64s) -> Int64s:
    """Index of the span that owns each cell, or BLANK."""
    return rows.whole(rows.cells(spans, edges)).left


def _runs(owner: Int64s) -> list[tuple[int, int, int]]:
    """Stretches of equal owners as (first column, beyond, owner), blank ones left out."""
    changes = [0, *(np.flatnonzero(owner[1:] != owner[:-1]) + 1).tolist(), len(owner)]
    return [
        (low, high, int(owner[low])) for low, high in pairwise(changes) if low < high and owner[low] != BLANK
    ]


@lru_cache(maxsize=8)
def ranked_spans(insight: Insight, device: int | None) -> list[tuple[int, Finding, Spans]]:
    """The findings of one row of stalls with their ranks, the best last; `device` None: of all."""
    end = insight.analysis.window[1]
    ranks = insight.ranks
    found = [
        (ranks[identity(finding)], finding, spans_of(finding.intervals, end))
        for finding in insight.analysis.findings
        if finding.ranked and (device is None or finding.device == device)
    ]
    return sorted(found, key=lambda entry: -entry[0])


@lru_cache(maxsize=8)
def path_spans(insight: Insight, by_lane: bool) -> tuple[list[Step], Spans]:
    """The critical path's steps; `by_lane`: those in a row of one lane as one."""
    path: list[Step] = []
    for step in insight.analysis.path:
        if by_lane and path and path[-1].lane == step.lane:
            path[-1] = replace(path[-1], end_ns=step.end_ns)
        else:
            path.append(step)
    return path, spans_of([(step.start_ns, step.end_ns) for step in path], path[-1].end_ns if path else 0)


def _lane_names(step: Step, meta: Mapping[str, str]) -> tuple[str, ...]:
    try:
        lane = stages.lane(step.lane, meta)
    except KeyError:
        return path_names(step.name)
    letter = lane.letter.strip()[:1]
    return (lane.label, letter) if letter else (lane.label,)


def stall_cells(insight: Insight, device: int | None, edges: Int64s, theme: Theme) -> Cells:
    """Hatch over every gap, the rank of its finding at its start; where two meet the better rank is seen."""
    cells: Cells = [None] * (len(edges) - 1)
    for rank, finding, spans in ranked_spans(insight, device):
        costs = bool(finding.saved_ns)
        role = "cost" if costs else "idle"
        glyph = theme.glyph("idle")
        if finding.incomplete:
            glyph = "?"
        elif finding.rule.startswith("copy."):
            glyph = "!"
        hatch = Cell(glyph, role, f"{role} ground", glyph == "!")
        number = str(rank)
        for low, high, _ in _runs(owners(spans, edges)):
            text = number if len(number) <= high - low else ""
            for at in range(low, high):
                letter = text[at - low : at - low + 1]
                cells[at] = Cell(letter, "label", role, True) if letter else hatch
    return cells


def path_cells(insight: Insight, meta: Mapping[str, str], edges: Int64s, theme: Theme) -> Cells:
    """The names of the critical path's steps, joined by rules; where most have no room, of their lanes."""
    cells: Cells = [None] * (len(edges) - 1)
    rule = theme.glyph("path")
    steps, spans = path_spans(insight, False)
    found = _runs(owners(spans, edges))
    narrow = 2 * sum(high - low < NAMED for low, high, _ in found) > len(found)
    if narrow:
        steps, spans = path_spans(insight, True)
        found = _runs(owners(spans, edges))
    for number, (low, high, index) in enumerate(found):
        follows = number + 1 < len(found) and found[number + 1][0] == high
        room = high - low - follows
        step = steps[index]
        names = _lane_names(step, meta) if narrow else path_names(step.name)
        name = next((name for name in names if len(name) < room), names[-1][: max(1, room)])
        text = name.ljust(high - low, rule)
        if follows and high - low > len(name):
            text = text[:-1] + theme.glyphs.join
        for at in range(low, high):
            cells[at] = Cell(text[at - low], "path", None, True)
    return cells


def ghost_cells(insight: Insight, device: int | None, edges: Int64s, theme: Theme) -> Cells:
    """Half-height bars where the last proof worked; they go on beyond now."""
    ghost = next((one for one in insight.ghosts if one.device == device), None)
    if ghost is None or not len(ghost.end_ns):
        return []
    cell = Cell(theme.glyph("last proof"), "last proof")
    owner = owners(Spans(ghost.start_ns, ghost.end_ns, None, int(ghost.end_ns[-1])), edges)
    return [None if at == BLANK else cell for at in owner.tolist()]


def worker_cells(sources: Sequence[RowData], edges: Int64s, now_ns: int, theme: Theme) -> Cells:
    """How many workers are busy, by shade in quarters of them; the number stands at each change."""
    middle = edges[:-1] + (edges[1:] - edges[:-1]) // 2
    busy: NDArray[np.int64] = np.zeros(len(middle), np.int64)
    for source in sources:
        busy += clipped(source, now_ns).covering(middle) >= 0
    cells: Cells = []
    before = 0
    for count in busy.tolist():
        if not count:
            cells.append(None)
        else:
            role = WORKER_FILLS[min(4, -(-4 * count // len(sources))) - 1]
            digit = str(count) if count < 10 else "+"
            shown = digit if count != before or theme.whole_cells else ""
            cells.append(fill(theme, role, shown))
        before = count
    return cells


def letter_cells(
    sources: Sequence[RowData], session: Session, edges: Int64s, now_ns: int, theme: Theme
) -> Cells:
    """What a GPU does, a letter a stretch: in each column the kind that is found at most moments of it."""
    columns = len(edges) - 1
    kinds: dict[tuple[str, str], NDArray[np.int64]] = {}
    width = edges[1:] - edges[:-1]
    times = (edges[:-1, None] + width[:, None] * (2 * np.arange(SAMPLES) + 1) // (2 * SAMPLES)).reshape(-1)
    for source in sources:
        spans = clipped(source, now_ns)
        if not spans.total:
            continue
        covered = spans.covering(times)
        found = (covered >= 0).reshape(columns, SAMPLES).sum(axis=1)
        # Spans that fall between all moments are still seen where nothing else is.
        starts = spans.before(edges)
        found = np.where(found > 0, found * 2, np.minimum(starts[1:] - starts[:-1], 1))
        for kind, share in _by_kind(source, session, covered.reshape(columns, SAMPLES), found):
            kinds[kind] = kinds.get(kind, 0) + share
    if not kinds:
        return []
    table = np.stack(list(kinds.values()))
    best = np.where(table.max(axis=0) > 0, table.argmax(axis=0), BLANK)
    names = list(kinds)
    cells: Cells = [None] * columns
    for low, high, number in _runs(best):
        letter, role = names[number]
        for at in range(low, high):
            cells[at] = fill(theme, role, letter if at == low or theme.whole_cells else "")
    return cells


def _by_kind(
    source: RowData, session: Session, covered: Int64s, found: Int64s
) -> list[tuple[tuple[str, str], Int64s]]:
    """The row's kind with how much of each column it has; pageable copies are another."""
    lane = source.lane
    letter, role = lane.letter.strip()[:1], known_role(lane.role)
    if role != "h pinned" or not len(source.columns):
        return [((letter, role), found)]
    pageable = [i for i, name in enumerate(session.names) if name.text.endswith(".pageable")]
    of = source.columns.name.take(np.clip(covered, 0, len(source.columns) - 1))
    slow = (np.isin(of, pageable) & (covered >= 0)).any(axis=1)
    return [(("P", "p pageable"), np.where(slow, found, 0)), ((letter, role), np.where(slow, 0, found))]


def partition_cells(jobs: Sequence[Job], columns: int) -> Cells:
    """The jobs that have partitions, the newest first, as words: a letter a partition."""
    cells: Cells = []
    for job in sorted(jobs, key=lambda job: (job.state != "running", -job.start_ns)):
        if not job.partitions:
            continue
        done = job.partitions.count("D")
        words = f" {done} of {len(job.partitions)}   "
        if cells and len(cells) + len(job.id) + len(job.partitions) + len(words) + 1 > columns:
            break
        cells += [Cell(letter, "ink") for letter in f"{job.id} "]
        for letter in job.partitions:
            role = PARTITION_FILLS.get(letter, "line")
            cells.append(
                Cell(letter, "text", "line") if role == "line" else Cell(letter, "label", role, True)
            )
        cells += [Cell(letter, "dim") for letter in words]
    return [cell if cell is None or cell.glyph != " " else None for cell in cells[:columns]]
