"""Everything about the selected span, as labelled facts that flow into columns."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from cuzk_top import figures, rows, stats
from cuzk_top.model import FLAG_UNBALANCED, RowData, Snapshot, SpanRecord
from cuzk_top.screens.analysis import Insight
from cuzk_top.stats import Kin
from cuzk_top.theme import Theme
from cuzk_top.viewport import SpanRef, ViewState
from cuzk_top.widgets import kernel_facts
from cuzk_top.widgets.gap_facts import gap_facts
from cuzk_top.widgets.looks import Looks
from cuzk_top.widgets.paint import Line

LABEL_WIDTH = 11
COLUMN_WIDTH = 58
NOTHING = "no span selected: . and , step through a lane, Enter or a click selects one; n selects a gap"


@dataclass(frozen=True, slots=True)
class Fact:
    """One line: what, and its value; `chart` draws the value with the role `chart` instead of as text."""

    label: str
    value: str
    strong: bool = False
    chart: str = ""
    mark: int = -1
    """Cell of a chart to show in ink."""


def inspector_lines(
    snapshot: Snapshot,
    view: ViewState,
    insight: Insight,
    kin: Kin | None,
    theme: Theme,
    size: tuple[int, int],
) -> list[Line]:
    """The facts in as many columns as fit; more lines than fit `size`, width and height, if they don't.

    `kin`: what the span is compared with, once that is known.
    """
    width, height = size
    columns = max(1, min(4, width // COLUMN_WIDTH))
    ref, gap = view.selected, view.selection
    record = stats.find(snapshot, ref) if ref is not None else None
    finding = insight.selected(view)
    if ref is not None and record is not None:
        facts = span_facts(snapshot, ref, record, kin, theme)
    elif ref is None and finding is not None and gap is not None and gap in finding.intervals:
        room = (width - 2) // columns - LABEL_WIDTH - 2
        told = gap_facts(snapshot, insight, finding, gap, room)
        facts = [Fact(label, text, label == "gap") for label, text in told]
    else:
        words = "the selected span is no longer kept" if ref is not None else NOTHING
        return [Line(theme, width).to(2).put(words, "dim")]
    per_column = max(-(-len(facts) // columns), min(height, len(facts)))
    lines = []
    for y in range(per_column):
        line = Line(theme, width)
        for column in range(columns):
            line.to(2 + column * ((width - 2) // columns))
            index = column * per_column + y
            if index < len(facts):
                _put(line, facts[index], 2 + (column + 1) * ((width - 2) // columns) - 2)
        lines.append(line)
    return lines


def _put(line: Line, fact: Fact, end: int) -> None:
    line.put(fact.label.ljust(LABEL_WIDTH), "dim")
    room = max(0, end - line.x)
    if not fact.chart:
        line.put(fact.value[:room], "ink" if fact.strong else "text", fact.strong)
        return
    for cell, letter in enumerate(fact.value[:room]):
        line.put(letter, "ink" if cell == fact.mark else fact.chart)


def span_facts(
    snapshot: Snapshot, ref: SpanRef, record: SpanRecord, kin: Kin | None, theme: Theme
) -> list[Fact]:
    """All facts in reading order."""
    now = snapshot.now_ns
    running = record.is_open or record.end_ns > now
    end = now if running else record.end_ns
    duration = end - record.start_ns
    row = next(row for row in snapshot.rows if row.key == (ref.lane, ref.track, ref.depth))
    parent = snapshot.parent(record)
    facts = [
        Fact("span", record.name, True),
        Fact("duration", figures.spaced(duration) + (", running" if running else "") + _zero(duration), True),
        Fact("start", f"{(record.start_ns - snapshot.first_ns) / 1e9:.6f} s"),
        Fact("UTC", _utc(snapshot, record.start_ns)),
    ]
    if parent is not None:
        whole = (now if parent.is_open else min(parent.end_ns, now)) - parent.start_ns
        facts.append(Fact("of parent", f"{figures.percent(duration, whole)} of {parent.name}"))
    proof = _proof_around(snapshot, record)
    if proof is not None:
        whole = (now if proof.is_open else min(proof.end_ns, now)) - proof.start_ns
        facts.append(Fact("of proof", f"{figures.percent(duration, whole)} of {figures.spaced(whole)}"))
    for name, value in record.arguments():
        shown = figures.count(value) if isinstance(value, int) else figures.three(value)
        cost = f", {figures.plain(duration / value)} ns each" if name == "points" and value else ""
        facts.append(Fact(name[: LABEL_WIDTH - 1], shown + cost))
    device = kernel_facts.lines(snapshot, record)
    facts += [Fact(label, text) for label, text in device]
    if not device:
        facts.append(Fact("faults", _faults(record)))
        facts += [
            Fact("GPUs then", text) for text in kernel_facts.device_time(snapshot, record.start_ns, end)
        ]
    facts += _relatives(snapshot, record, parent, now)
    facts += _siblings(snapshot, record, duration, kin, theme)
    facts += _neighbours(snapshot, row, record, end)
    track = snapshot.session.tracks.get(record.track)
    thread = (
        f"{track.label} (tid {track.tid})"
        if track is not None and track.tid
        else track.label
        if track
        else "?"
    )
    if not device:
        facts.append(Fact("thread", f"{thread}, track {record.track}"))
    facts += [
        Fact("lane", f"{row.lane.label}, depth {record.depth}"),
        Fact("ids", f"id {record.id:#x} parent {record.parent:#x} seq {record.seq}"),
        Fact("flags", _flags(record, running)),
    ]
    return facts


def _zero(duration: int) -> str:
    return "  (zero length: closed at once?)" if duration == 0 else ""


def _utc(snapshot: Snapshot, t_ns: int) -> str:
    real = snapshot.session.realtime_ns(t_ns)
    if real is None:
        return "unknown: no clock anchor"
    moment = datetime.fromtimestamp(real // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{real % 1_000_000_000 // 1000:06d}"


def _faults(record: SpanRecord) -> str:
    if record.is_open:
        return "known when the span ends"
    if not record.has_faults:
        return "not measured for this span"
    return f"{figures.count(record.minflt)} minor, {figures.count(record.majflt)} major"


def _flags(record: SpanRecord, running: bool) -> str:
    words = []
    if running:
        words.append("open")
    if record.failed:
        words.append("left by an exception")
    if record.flags & FLAG_UNBALANCED:
        words.append("closed by an enclosing span")
    if record.stage:
        words.append("stage")
    return ", ".join(words) or "none"


def _proof_around(snapshot: Snapshot, record: SpanRecord) -> SpanRecord | None:
    """The proof whose span covers this one's start on any track."""
    for row in snapshot.rows:
        if row.lane.key == "proof":
            found = snapshot.at(row, record.start_ns)
            if found is not None and found.name == stats.PROOF and found.id != record.id:
                return found
    return None


def _relatives(snapshot: Snapshot, record: SpanRecord, parent: SpanRecord | None, now: int) -> list[Fact]:
    facts = [Fact("parent", parent.name if parent is not None else "none")]
    sums: dict[str, int] = {}
    children = [child for child in snapshot.children(record) if child.start_ns < now]
    for child in children:
        length = (now if child.is_open else min(child.end_ns, now)) - child.start_ns
        sums[child.name] = sums.get(child.name, 0) + length
    if not sums:
        return [*facts, Fact("children", "none")]
    longest = sorted(sums.items(), key=lambda item: -item[1])
    words = [f"{name.rpartition('.')[2]} {figures.spaced(ns)}" for name, ns in longest]
    facts.append(Fact("children", f"{figures.count(len(children))}: " + ", ".join(words[:2])))
    facts += [Fact("", ", ".join(words[i : i + 3])) for i in range(2, min(len(words), 8), 3)]
    return facts


def _siblings(
    snapshot: Snapshot, record: SpanRecord, duration: int, kin: Kin | None, theme: Theme
) -> list[Fact]:
    if kin is None or kin.name != record.name:
        return [Fact("siblings", "being counted"), Fact("median", ""), Fact("fast..slow", "")]
    found = stats.siblings(kin.durations, duration)
    if found is None:
        return [Fact("siblings", "none finished yet")]
    if found.count == 1:
        return [Fact("siblings", "the only one of its name")]
    spread = f"{figures.spaced(found.fastest_ns)} to {figures.spaced(found.slowest_ns)}"
    facts = [
        Fact(
            "siblings",
            f"{figures.count(found.count)} of its name, rank {figures.count(found.rank)} (1 slowest)",
        ),
        Fact("median", f"{figures.spaced(found.median_ns)}, {spread}"),
    ]
    counts = np.array(found.histogram, dtype=np.float64)
    bars = "".join(theme.glyphs.charts[level] for level in rows.levels(counts, counts.max()).tolist())
    role = Looks(snapshot.session).role(record.name)
    return [*facts, Fact("fast..slow", bars, chart=role, mark=found.bucket)]


def _neighbours(snapshot: Snapshot, row: RowData, record: SpanRecord, end: int) -> list[Fact]:
    """What ended before and began after it in its row, and how long it was idle between."""
    at = int(np.searchsorted(row.columns.start_ns, record.start_ns, "left"))
    facts = []
    gap = figures.spaced
    if at > 0:
        before = snapshot.record(row, at - 1)
        facts.append(Fact("before", f"{before.name}, {gap(record.start_ns - before.end_ns)} before"))
    after = None
    if at + 1 < len(row.columns):
        after = snapshot.record(row, at + 1)
    elif at < len(row.columns):
        after = row.open
    if after is not None and end <= after.start_ns < snapshot.now_ns:
        facts.append(Fact("after", f"{after.name}, {gap(after.start_ns - end)} after"))
    return facts
