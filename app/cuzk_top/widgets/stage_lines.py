"""The stage table as lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cuzk_top import figures
from cuzk_top.stage_table import Stage
from cuzk_top.theme import Theme
from cuzk_top.widgets.looks import known_role
from cuzk_top.widgets.paint import Line

TIME_WIDTH = 9
HEADS = (("total", 9), ("self", 9), ("median", 9), ("p95", 9), ("share", 7), ("minflt", 9), ("majflt", 8))


def stage_lines(
    stages: Sequence[Stage], letters: dict[str, str], theme: Theme, width: int
) -> tuple[Line, Callable[[int], Line]]:
    """The head, and what makes the line of stage i. Below 96 columns the minor columns are left out."""
    narrow = width < 96
    start = 2 if narrow else 5
    heads = [head for head in HEADS if not narrow or head[0] not in ("self", "p95", "majflt")]
    per_point = not narrow
    fixed = 6 + sum(size for _, size in heads) + (10 if per_point else 0)
    name_width = min(max(14, width - start - fixed - 1), 30)
    line = Line(theme, width).to(start).put("stage", "dim").right("n", start + name_width + 5, "dim")
    for head, size in heads:
        unit = 3 if size == TIME_WIDTH and head not in ("minflt",) else 0
        line.right(head, line.x + size - unit, "dim").to(line.x + unit)
    if per_point:
        line.right("ns/point", line.x + 10, "dim")

    def make(i: int) -> Line:
        stage = stages[i]
        letter = letters.get(stage.lane, "").strip()[:1]
        row = Line(theme, width).to(start - 2)
        if letter:
            row.put(letter, "label", True, known_role(stage.role))
        row.to(start)
        row.put(("  " * stage.indent + stage.label)[: name_width - 1], "ink" if stage.indent == 0 else "text")
        row.right(figures.si(stage.count + stage.running), start + name_width + 5)
        values: dict[str, int | None] = {
            "total": stage.total_ns, "self": stage.self_ns, "median": stage.median_ns, "p95": stage.p95_ns,
        }  # fmt: skip
        for head, size in heads:
            if head in values:
                put_time(row, values[head], size)
            elif head == "share":
                row.right("-" if stage.share is None else figures.percent(stage.share, 1.0), row.x + size)
            else:
                faults = stage.minflt if head == "minflt" else stage.majflt
                row.right("-" if faults is None else figures.si(faults), row.x + size)
        if per_point:
            cost = stage.ns_per_point
            row.right("" if cost is None else figures.plain(cost), row.x + 10)
        if stage.running:
            row.put("  running", "dim")
        return row

    return line, make


def put_time(line: Line, ns: int | None, size: int) -> None:
    """A duration right-aligned by its digits; the unit stands dim in the last two cells."""
    end = line.x + size
    if ns is None:
        line.right("-", end - 3, "dim").to(end)
        return
    value, unit = figures.duration(ns)
    line.right(value, end - 3).put(f" {unit}", "dim").to(end)
