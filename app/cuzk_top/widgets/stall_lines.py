"""The findings as a table, and the evidence and arithmetic of the selected one."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cuzk_top import figures
from cuzk_top.screens.analysis import NO_INSIGHT, Insight, identity
from cuzk_top.stalls.finding import Analysis, Finding
from cuzk_top.theme import Theme
from cuzk_top.viewport import ViewState
from cuzk_top.widgets.paint import Line

NARROW = 80
"""Below this width rule and count are left out."""


class Columns(NamedTuple):
    """Right ends of the figures, and where words begin."""

    rule: int
    lost: int
    number: int
    saved: int
    what: int


WIDE = Columns(5, 28, 33, 45, 47)
COMPACT = Columns(0, 13, 0, 21, 23)


def places(width: int) -> Columns:
    return COMPACT if width < NARROW else WIDE


def finding_time(ns: int) -> tuple[str, str]:
    """Findings in 0.01 s; below 0.1 s in ms or less."""
    return (f"{ns / 1e9:.2f}", "s") if abs(ns) >= 100_000_000 or not ns else figures.duration(ns)


def what(finding: Finding) -> str:
    """The sentence, and the causes that hang under it."""
    causes = [f"{cause.rule}: {cause.sentence}" for cause in finding.causes]
    return " < ".join([finding.sentence, *causes])


def short_what(finding: Finding) -> str:
    """The same for a narrow screen, without the rules' names."""
    return " < ".join([finding.sentence, *(cause.sentence for cause in finding.causes)])


def nothing_found(insight: Insight) -> tuple[str, ...]:
    """Why the table is empty."""
    analysis = insight.analysis
    if insight is NO_INSIGHT:
        return ("looking for stalls ...",)
    if insight.problem:
        return (insight.problem,)
    told = [analysis.no_device] if analysis.no_device else []
    if analysis.early:
        return (*told, "too early to tell: no proof has gone far enough for the thresholds to mean something")
    return (*told, "no stalls: nothing passed the thresholds")


def head_line(theme: Theme, width: int) -> Line:
    at = places(width)
    line = Line(theme, width).to(3).put("#", "dim")
    if at.rule:
        line.to(at.rule).put("rule", "dim")
    line.right("GPU lost", at.lost, "dim")
    if at.number:
        line.right("n", at.number, "dim")
    line.right("wall saved" if at.rule else "saves", at.saved, "dim")
    return line.to(at.what).put("what", "dim")


def stall_lines(
    insight: Insight, view: ViewState, theme: Theme, width: int
) -> tuple[list[Finding], Callable[[int], Line]]:
    """The findings in the view's order, and what makes the line of each."""
    findings = insight.in_order(view.order)
    ranks = insight.ranks
    chosen = insight.selected(view)
    at = places(width)

    def make(i: int) -> Line:
        finding = findings[i]
        here = chosen is not None and identity(finding) == identity(chosen)
        strong = here and view.focus == "panel"
        line = Line(theme, width, "row selection" if strong else "bar" if here else "page")
        line.put(" >" if here else "  ", "ink", strong)
        put_rank(line, finding, ranks.get(identity(finding)), 4)
        if at.rule:
            line.to(at.rule).put(finding.rule, "ink" if strong else "text", strong)
        put_time(line, finding.cost_ns, at.lost, "text")
        if at.number:
            line.right(figures.count(finding.count), at.number)
        if finding.saved_ns is None:
            line.right("-", at.saved, "dim")
        elif finding.saved_ns:
            put_time(line, finding.saved_ns, at.saved, "cost", True)
        else:
            line.right("hidden", at.saved, "dim")
        words = what(finding) if at.rule else short_what(finding)
        if finding.incomplete:
            words = f"incomplete (records lost): {words}"
        return line.to(at.what).put(words, "ink" if strong else "text")

    return findings, make


def put_rank(line: Line, finding: Finding, rank: int | None, end: int) -> None:
    """The rank on its fill, as in the lane: what costs wall time, or what is hidden."""
    if rank is not None:
        text = str(rank)
        line.to(end - len(text)).put(text, "label", True, "cost" if finding.saved_ns else "idle")


def put_time(line: Line, ns: int, end: int, role: str, bold: bool = False) -> None:
    """Right-aligned by its digits; of figures that do not cost, the unit is dim."""
    value, unit = finding_time(ns)
    unit = f" {unit:<2}" if unit != "s" else " s"
    line.right(value, end - len(unit), role, bold).put(unit.rstrip(), role if bold else "dim", bold)
    line.to(end)


def evidence_lines(insight: Insight, view: ViewState, theme: Theme, width: int, room: int) -> list[Line]:
    """What speaks for the selected finding, then how its figures were computed; `room` lines at most."""
    finding = insight.selected(view)
    if finding is None or room <= 0:
        return []
    start = 5
    told: list[tuple[str, str]] = []
    for role, text in (("text", evidence(finding)), ("dim", arithmetic(finding))):
        told += [(role, part) for part in textwrap.wrap(text, max(20, width - start - 1))]
    lines = []
    for number, (role, text) in enumerate(told[:room]):
        line = Line(theme, width, "well").to(1)
        if number == 0:
            put_rank(line, finding, insight.ranks.get(identity(finding)), 2)
        lines.append(line.to(start).put(text, role))
    return lines


def evidence(finding: Finding) -> str:
    """The readings behind a finding and its causes."""
    words = []
    for one in (finding, *finding.causes):
        readings = ", ".join(f"{name} {figures.si(value)}" for name, value in one.values)
        if readings:
            words.append(readings if one is finding else f"{one.rule}: {readings}")
    return "; ".join(words)


def arithmetic(finding: Finding) -> str:
    """Cost, saving and threshold, of its causes too."""
    parts: list[str] = [*finding.arithmetic, finding.threshold]
    for cause in finding.causes:
        parts += [*cause.arithmetic, cause.threshold]
    return "; ".join(part for part in parts if part)


def explained(analysis: Analysis) -> list[str]:
    """How much of the time without a kernel is explained, for the panel's title: the longest form first."""
    without = analysis.copy_only_ns + analysis.idle_ns
    if not analysis.kernel_ns + without:
        return []
    unit, size = next(
        ((unit, size) for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)) if without >= size), ("s", 1e9)
    )
    parts = [
        (analysis.copy_only_ns + analysis.explained_ns, "explained"),
        (analysis.unknown_ns, "unknown"),
        (analysis.nowork_ns, "no job"),
    ]
    shown = [f"{_short(ns / size)} {word}" for ns, word in parts if ns or word != "no job"]
    whole = f"{figures.three(without / size)} {unit}"
    in_jobs = without - analysis.nowork_ns
    told = f"{_short(parts[0][0] / size)} of {figures.three(in_jobs / size)} {unit}"
    return [
        f"{whole} without a kernel: {', '.join(shown)}",
        f"{told} without a kernel explained",
        f"{told} explained",
    ]


def _short(value: float) -> str:
    """A part of a figure of three digits: no digit beyond its tenths."""
    if not value or value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 0.1 else figures.three(value)


def ranked(findings: Sequence[Finding]) -> int:
    """How many count as stalls."""
    return sum(finding.ranked for finding in findings)
