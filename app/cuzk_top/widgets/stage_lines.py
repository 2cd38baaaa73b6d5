"""The stage table as lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cuzk_top import figures
from cuzk_top.stage_table import Stage
from cuzk_top.theme import Theme
from cuzk_top.widgets.looks import known_role
from cuzk_top.widgets.paint import Line

WIDTHS = (
    ("n", 5), ("total", 9), ("self", 9), ("median", 9), ("p95", 9), ("share", 7), ("last", 9), ("past", 9),
    ("against", 8), ("minflt", 9), ("majflt", 8), ("rate", 12),
)  # fmt: skip
DROPPED = ("majflt", "p95", "self", "past", "minflt", "median", "last", "rate", "against")
"""Left out one after the other where there is no room."""
TIMES = ("total", "self", "median", "p95", "last", "past")
NAME_WIDTH, WIDEST_NAME = 20, 30


def columns_for(width: int, last: bool, past: bool) -> tuple[int, list[tuple[str, int]]]:
    """Width of the names, and the columns that fit; ones without any figure are not shown."""
    absent = [] if past else ["past", "against"]
    absent += [] if last else ["last", "against"]
    shown = [column for column in WIDTHS if column[0] not in absent]
    start = 2 if width < 96 else 5
    name = 14 if width < 80 else NAME_WIDTH
    for drop in DROPPED:
        if start + name + 1 + sum(size for _, size in shown) <= width:
            break
        shown = [column for column in shown if column[0] != drop]
    return min(WIDEST_NAME, max(name, width - start - 1 - sum(size for _, size in shown))), shown


def stage_lines(
    stages: Sequence[Stage],
    letters: Mapping[str, str],
    last: Mapping[str, int],
    past: Mapping[str, int],
    theme: Theme,
    width: int,
) -> tuple[Line, Callable[[int], Line]]:
    """The head, and what makes the line of stage i.

    `last` is each stage's time in the last finished proof, `past` its median in past proofs, other
    sessions' too, both in ns by name; `against` is how much the last one took more.
    """
    start = 2 if width < 96 else 5
    name_width, columns = columns_for(width, bool(last), bool(past))
    line = Line(theme, width).to(start).put("stage", "dim").to(start + name_width)
    for head, size in columns:
        end = line.x + size
        line.right(head, end - (3 if head in TIMES else 0), "dim").to(end)

    def make(i: int) -> Line:
        stage = stages[i]
        letter = letters.get(stage.lane, "").strip()[:1]
        row = Line(theme, width).to(start - 2)
        if letter:
            row.put(letter, "label", True, known_role(stage.role))
        row.to(start)
        row.put(("  " * stage.indent + stage.label)[: name_width - 1], "ink" if stage.indent == 0 else "text")
        row.to(start + name_width)
        times: dict[str, int | None] = {
            "total": stage.total_ns, "self": stage.self_ns, "median": stage.median_ns, "p95": stage.p95_ns,
            "last": last.get(stage.name), "past": past.get(stage.name),
        }  # fmt: skip
        for head, size in columns:
            if head in times:
                put_time(row, times[head], size)
            else:
                row.right(_figure(stage, head, times), row.x + size)
        if stage.running:
            row.put("  running", "dim")
        return row

    return line, make


def _figure(stage: Stage, head: str, times: Mapping[str, int | None]) -> str:
    if head == "n":
        return figures.si(stage.count + stage.running)
    if head == "share":
        return "-" if stage.share is None else figures.percent(stage.share, 1.0)
    if head == "against":
        last, past = times["last"], times["past"]
        return "-" if last is None or not past else f"{100 * (last - past) / past:+.0f}%"
    if head == "rate":
        if stage.gb_per_s is not None:
            return f"{figures.three(stage.gb_per_s)} GB/s"
        return "" if stage.ns_per_point is None else f"{figures.plain(stage.ns_per_point)} ns/pt"
    faults = stage.minflt if head == "minflt" else stage.majflt
    return "-" if faults is None else figures.si(faults)


def put_time(line: Line, ns: int | None, size: int) -> None:
    """A duration right-aligned by its digits; the unit stands dim in the last two cells."""
    end = line.x + size
    if ns is None:
        line.right("-", end - 3, "dim").to(end)
        return
    value, unit = figures.duration(ns)
    line.right(value, end - 3).put(f" {unit}", "dim").to(end)
