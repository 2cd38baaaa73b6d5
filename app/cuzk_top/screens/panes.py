"""What the panel shows: the lines of the open pane, and the words at the end of the tab line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from cuzk_top import figures, stats
from cuzk_top.model import Snapshot
from cuzk_top.screens import navigation
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.layout import Layout
from cuzk_top.screens.tables import Figures
from cuzk_top.theme import Theme
from cuzk_top.viewport import ViewState
from cuzk_top.widgets import inspector_lines, job_lines, stage_lines, stall_lines
from cuzk_top.widgets.header import JobNow
from cuzk_top.widgets.paint import Line
from cuzk_top.widgets.panel import Body

EVIDENCE_LINES = 2
"""Lines kept for the evidence of the selected finding, where the screen is not compact."""


LATE_SHARE = 0.05
"""Of the median: proofs differ by less from one to the next, and the word LATE should mean something."""


class Shown(NamedTuple):
    """Everything that a pane may show."""

    data: Snapshot
    view: ViewState
    tab: str
    insight: Insight
    figures: Figures
    log: Sequence[str]


def body(shown: Shown, layout: Layout, theme: Theme) -> Body:
    """The lines of the open pane."""
    width, room = layout.width, layout.panel_height
    if shown.tab == "stalls":
        view = ViewState(finding=shown.view.finding, order=shown.view.order, focus=shown.view.focus)
        return _stalls(shown.insight, view, (width, room, 0 if layout.compact else EVIDENCE_LINES), theme)
    if shown.tab == "stages":
        letters = {row.lane.key: row.lane.letter for row in shown.data.rows}
        past = shown.insight.past.stages if shown.insight.past is not None else {}
        head, make = stage_lines.stage_lines(
            shown.figures.table, letters, shown.insight.last, past, theme, width
        )
        return Body(
            [head],
            len(shown.figures.table),
            make,
            (),
            (shown.figures.table, letters, shown.insight.last, past),
        )
    if shown.tab == "jobs":
        heads, count, make = job_lines.job_lines(shown.insight.jobs, shown.data.now_ns, theme, width)
        return Body(heads, count, make)
    if shown.tab == "inspector":
        kin = shown.figures.kin
        facts = inspector_lines.inspector_lines(
            shown.data, shown.view, shown.insight, kin, theme, (width, room)
        )
        return Body([], len(facts), facts.__getitem__)
    lines = shown.log or ("no lines yet",)
    return Body([], len(lines), lambda i: Line(theme, width).put("  ").put(lines[i]))


@lru_cache(maxsize=1)
def _stalls(insight: Insight, view: ViewState, room: tuple[int, int, int], theme: Theme) -> Body:
    """The findings. Of the view only what picks and marks them; `room`: width, height, lines kept for the
    evidence. The same object as long as all these are the same: most of it is words that must be wrapped.
    """
    width, height, kept = room
    findings, make = stall_lines.stall_lines(insight, view, theme, width)
    if not findings:
        told = stall_lines.nothing_found(insight)
        return Body([], len(told), lambda i: Line(theme, width).to(3).put(told[i], "dim"), (), object())
    spare = height - 1 - len(findings)
    foot = stall_lines.evidence_lines(insight, view, theme, width, max(kept, spare))
    return Body([stall_lines.head_line(theme, width)], len(findings), make, foot, object())


def job_now(insight: Insight, now_ns: int) -> JobNow | None:
    """The job that runs, else the newest one, for the header."""
    if not insight.jobs:
        return None
    job = max(insight.jobs, key=lambda job: (job.end_ns is None, job.start_ns))
    done = f"{job.partitions.count('D')}/{len(job.partitions)}" if job.partitions else ""
    eta = figures.spaced(job.left_ns) if job.end_ns is None and job.left_ns is not None else ""
    median = insight.past.median_ns if insight.past is not None else None
    base = job.age_ns(now_ns) if median is None else median
    late = figures.spaced(job.late_ns) if (job.late_ns or 0) > LATE_SHARE * base and job.late_ns else ""
    against = f"median of {insight.past.proofs}: {figures.spaced(median)}" if insight.past and median else ""
    return JobNow(done, eta, late, against)


def counts(insight: Insight) -> dict[str, int]:
    """What stands behind the tabs' titles."""
    number = stall_lines.ranked(insight.analysis.findings)
    return {"stalls": number} if number else {}


AGED_NS = 5_000_000_000
"""What the analysis says is said to be of then if it is older than this."""


def status(shown: Shown, layout: Layout) -> list[str]:
    """Right end of the tab line, the longest form first: the selection, else what the open pane sums up, else
    what is hidden.
    """
    view = shown.view
    area = _area(shown, layout)
    if area:
        return area
    if shown.tab == "stalls" and not layout.compact:
        told = stall_lines.explained(shown.insight.analysis)
        part, first = shown.insight.part, shown.data.first_ns
        if part is not None:
            stretch = " to ".join(figures.clock(edge - first, 2) for edge in part)
            told = [f"{form}, {stretch}" for form in told] or [f"analysed: {stretch}"]
        elif told and shown.insight.at_ns is not None and shown.data.now_ns - shown.insight.at_ns > AGED_NS:
            until = figures.clock(shown.insight.at_ns - first, 2)
            told = [*(f"{form}, up to {until}" for form in told), *told]
        if told:
            return told
    words = []
    if layout.hidden:
        words.append(f"{layout.hidden} lane{'s' if layout.hidden > 1 else ''} hidden: z")
    elif view.show_all:
        words.append("all lanes shown: z folds")
    if view.hidden:
        words.append(f"{len(view.hidden)} by x: X")
    return [", ".join(words)]


def _area(shown: Shown, layout: Layout) -> list[str]:
    """Start, end, length, share and count of a stretch that the user selected; not of a selected gap."""
    view = shown.view
    if view.selection is None:
        return []
    finding = shown.insight.selected(view)
    if view.selected is None and finding is not None and view.selection in finding.intervals:
        return []
    begin, end = view.selection
    row = navigation.row_under_cursor(view, [row for row in layout.rows if row.sources])
    if row is None:
        return []
    now, first = shown.data.now_ns, shown.data.first_ns
    busy = stats.busy_ns(row.sources, begin, end, now)
    count = sum(stats.count_in(source, begin, end, now) for source in row.sources)
    share = figures.percent(busy, max(1, end - begin))
    spans = f"{figures.count(count)} span{'s' if count != 1 else ''}"
    length = figures.spaced(end - begin)
    decimals = 2 if end - begin >= 10_000_000 else 6
    stretch = f"{(begin - first) / 1e9:.{decimals}f} to {(end - first) / 1e9:.{decimals}f} s"
    return [
        f"{stretch}: {length}, {row.label} busy {share}, {spans}",
        f"{length}, {row.label} busy {share}, {spans}",
        f"{length}, busy {share}",
    ]
