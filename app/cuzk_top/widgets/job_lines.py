"""The jobs as a table: how old, where, who holds which GPU since when, late or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cuzk_top import figures
from cuzk_top.theme import Theme
from cuzk_top.widgets.paint import Line
from cuzk_top.widgets.special_rows import PARTITION_FILLS

if TYPE_CHECKING:
    from cuzk_top.jobs import Job

NONE = "no job yet: one is a span named prove, or what a stage map calls a proof"
WIDTHS = (
    ("job", 18), ("kind", 16), ("state", 8), ("age", 9), ("stage", 18), ("partitions", 12), ("holds", 13),
    ("left", 9), ("late", 9), ("slack", 9),
)  # fmt: skip
DROPPED = ("slack", "kind", "partitions", "holds", "state")
"""Left out one after the other where there is no room."""
FIGURES = ("age", "left", "late", "slack")


def columns_for(jobs: Sequence[Job], width: int) -> list[tuple[str, int]]:
    """The columns that fit; ones that no job has anything for go first."""
    shown = list(WIDTHS)
    empty = [
        name
        for name, has in (
            ("slack", any(job.slack_ns is not None for job in jobs)),
            ("partitions", any(job.partitions for job in jobs)),
            ("holds", any(job.holds for job in jobs)),
        )
        if not has
    ]
    shown = [column for column in shown if column[0] not in empty]
    for name in DROPPED:
        if sum(size for _, size in shown) + 3 <= width:
            break
        shown = [column for column in shown if column[0] != name]
    spare = width - 3 - sum(size for _, size in shown)
    sizes = dict(shown)
    if "kind" in sizes:  # a name of a circuit that is cut says little: it comes first
        longest = 1 + max((len(job.kind) for job in jobs), default=0)
        wanted = max(0, longest - sizes["kind"])
        sizes["kind"] += min(wanted, max(0, spare))
        spare -= min(wanted, max(0, spare))
    sizes["stage"] += max(-8, min(16, spare))
    return list(sizes.items())


def job_lines(
    jobs: Sequence[Job], now_ns: int, theme: Theme, width: int
) -> tuple[list[Line], int, Callable[[int], Line]]:
    """The head, how many lines there are, and what makes line i: running ones first, then the newest."""
    if not jobs:
        return [], 1, lambda _: Line(theme, width).to(2).put(NONE, "dim")
    ordered = sorted(jobs, key=lambda job: (job.end_ns is not None, -job.start_ns))
    columns = columns_for(jobs, width)
    head = Line(theme, width).to(2)
    for name, size in columns:
        end = head.x + size
        if name in FIGURES:
            head.right(name, end - 3, "dim").to(end)
        else:
            head.put(name, "dim").to(end)

    def make(i: int) -> Line:
        job = ordered[i]
        line = Line(theme, width).to(2)
        for name, size in columns:
            _put(line, job, name, size, now_ns)
        return line

    return [head], len(ordered), make


def _put(line: Line, job: Job, name: str, size: int, now_ns: int) -> None:
    end = line.x + size
    runs = job.end_ns is None
    if name == "age":
        _time(line, job.age_ns(now_ns), end, "ink", True)
    elif name == "left":
        _time(line, job.left_ns if runs else None, end)
    elif name == "late":
        late = job.late_ns
        costs = runs and late is not None and late > 0
        _time(line, late, end, "cost" if costs else "text", costs, sign=True)
    elif name == "slack":
        missed = runs and job.slack_ns is not None and job.slack_ns < 0
        _time(line, job.slack_ns, end, "cost" if missed else "text", missed, sign=True)
    elif name == "holds":
        held = ", ".join(f"GPU{device} {figures.spaced(now_ns - since)}" for device, since in job.holds)
        line.put(held[: size - 1])
    elif name == "partitions":
        _partitions(line, job.partitions, size)
    else:
        text = {"job": job.id, "kind": job.kind, "state": job.state, "stage": job.stage}[name]
        role = "cost" if text == "failed" else "ink" if name == "job" else "text"
        line.put(text[: size - 1], role, text == "failed" or (name == "job" and runs))
    line.to(end)


def _time(
    line: Line, ns: int | None, end: int, role: str = "text", bold: bool = False, sign: bool = False
) -> None:
    """A duration right-aligned by its digits; the unit stands in the last two cells."""
    if ns is None:
        line.right("-", end - 3, "dim")
        return
    value, unit = figures.duration(ns) if ns else ("0", "s")
    value = f"+{value}" if sign and ns > 0 else value
    line.right(value, end - 3, role, bold).put(f" {unit}", "dim")


def _partitions(line: Line, letters: str, size: int) -> None:
    """A letter a partition; of more than there is room for, how many are done."""
    if len(letters) >= size:
        line.put(f"{letters.count('D')} of {len(letters)}")
        return
    for letter in letters:
        role = PARTITION_FILLS.get(letter, "line")
        if role == "line":
            line.put(letter, "text", False, "line")
        else:
            line.put(letter, "label", True, role)
