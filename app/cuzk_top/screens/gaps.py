"""Moving between findings and their gaps: from a view to the next one. Pure functions, no Textual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cuzk_top import viewport
from cuzk_top.screens.analysis import Insight, identity
from cuzk_top.stalls.finding import Finding, Interval
from cuzk_top.viewport import ViewState, Window

AROUND = 2
"""A gap is shown with half its length on either side: 1 / AROUND."""


def worst(finding: Finding) -> Interval | None:
    """Its longest gap."""
    return max(finding.intervals, key=lambda gap: gap[1] - gap[0], default=None)


def select(view: ViewState, finding: Finding, gap: Interval | None, move: bool = True) -> ViewState:
    """Select a finding and one of its gaps; the window moves (never zooms) to show where it begins."""
    view = replace(view, finding=identity(finding), selected=None, focus="panel")
    if gap is None:
        return view
    view = replace(view, selection=gap)
    return in_sight(view, gap) if move else view


def in_sight(view: ViewState, gap: Interval) -> ViewState:
    """Move the window, never zoom it, to show where a stretch of time begins."""
    if view.t0_ns <= gap[0] < view.t1_ns:
        return view
    t0 = gap[0] - view.window.width_ns // 4
    return view.looking_at(Window(t0, t0 + view.window.width_ns), "hold")


def step(view: ViewState, insight: Insight, by: int) -> tuple[int, int, Finding] | None:
    """The next (1) or previous (-1) finding of the table, round its ends: its line, how many, itself.

    The first step selects the one that is shown as selected, which is the first.
    """
    found = insight.in_order(view.order)
    if not found:
        return None
    names = [identity(finding) for finding in found]
    if view.finding not in names:
        at = 0 if by > 0 else len(found) - 1
    else:
        at = (names.index(view.finding) + by) % len(found)
    return at, len(found), found[at]


def zoom_to(view: ViewState, finding: Finding, columns: int) -> ViewState:
    """Show the selected gap of a finding and its surroundings; if it is shown so already, its next gap."""
    gaps = finding.intervals
    if not gaps:
        return replace(view, finding=identity(finding))
    gap = view.selection if view.selection in gaps else worst(finding)
    assert gap is not None
    window = around(gap, columns)
    if view.window == window and view.selection == gap:
        gap = gaps[(gaps.index(gap) + 1) % len(gaps)]
        window = around(gap, columns)
    view = replace(view, finding=identity(finding), selected=None, selection=gap, auto_width=False)
    return view.looking_at(window, "hold")


def around(gap: Interval, columns: int) -> Window:
    """A window that shows a gap and what came before and after it."""
    margin = max(1, (gap[1] - gap[0]) // AROUND)
    return viewport.fit(gap[0] - margin, gap[1] + margin, columns)


def at(insight: Insight, device: int | None, t_ns: int, reach_ns: int) -> tuple[Finding, Interval] | None:
    """The gap of a row of stalls that covers a moment, else one within reach; the better rank first."""
    best: tuple[int, Finding, Interval] | None = None
    for finding in insight.analysis.findings:
        if not finding.ranked or (device is not None and finding.device != device):
            continue
        for gap in finding.intervals:
            away = max(gap[0] - t_ns, t_ns - gap[1] + 1, 0)
            if away <= reach_ns and (best is None or away < best[0]):
                best = (away, finding, gap)
    return (best[1], best[2]) if best is not None else None


def neighbour(
    insight: Insight, view: ViewState, device: int | None, by: int
) -> tuple[Finding, Interval] | None:
    """The next or previous gap in time of a row of stalls."""
    gaps = sorted(
        (
            (gap, number, finding)
            for number, finding in enumerate(insight.analysis.findings)
            if finding.ranked and (device is None or finding.device == device)
            for gap in finding.intervals
        ),
        key=lambda entry: entry[:2],
    )
    here = _from(view, by)
    after = [entry for entry in gaps if (entry[0][0] > here if by > 0 else entry[0][0] < here)]
    if not after:
        return None
    gap, _, finding = after[0] if by > 0 else after[-1]
    return finding, gap


def beside(view: ViewState, stretches: Sequence[Interval], by: int) -> Interval | None:
    """The next (1) or previous (-1) of stretches of time in order."""
    here = _from(view, by)
    after = [one for one in stretches if (one[0] > here if by > 0 else one[0] < here)]
    return (after[0] if by > 0 else after[-1]) if after else None


def _from(view: ViewState, by: int) -> int:
    """What is selected begins here; without it, the near end of the window."""
    if view.selection is not None:
        return view.selection[0]
    return view.t0_ns - 1 if by > 0 else view.t1_ns
