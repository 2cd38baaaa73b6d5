"""What the inspector says of a selected gap: whose it is, what stood around it, and what happened inside."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from cuzk_top import figures, rows, stages
from cuzk_top.model import RowData, Snapshot
from cuzk_top.screens.analysis import Insight, identity
from cuzk_top.screens.lanes import device_of
from cuzk_top.stalls.finding import Finding, Interval

EVIDENCE = 4
"""Spans named as evidence; more are counted."""
COUNTERS = ("host.minflt", "host.majflt", "host.cpu", "host.rss", "host.disk_read")
"""Counters whose readings inside a gap tell why; of a GPU its clock too."""

Pairs = Iterator[tuple[str, str]]


def gap_facts(snapshot: Snapshot, insight: Insight, finding: Finding, gap: Interval, room: int) -> Pairs:
    """(label, text) pairs in reading order; texts are wrapped at `room`."""
    rank = insight.ranks.get(identity(finding))
    yield "gap", f"{finding.rule}, {f'rank {rank}' if rank else 'not ranked'}"
    yield from _wrapped("says", finding.sentence, room)
    for cause in finding.causes:
        yield from _wrapped("cause", f"{cause.rule}: {cause.sentence}", room)
    yield (
        "length",
        figures.spaced(gap[1] - gap[0])
        + f", gap {finding.intervals.index(gap) + 1} of {len(finding.intervals)}",
    )
    origin = snapshot.first_ns
    yield "from, to", f"{(gap[0] - origin) / 1e9:.6f} s, {(gap[1] - origin) / 1e9:.6f} s"
    yield (
        "GPU lost",
        f"{figures.spaced(finding.cost_ns)}, n = {figures.count(finding.count)}",
    )
    saved = finding.saved_ns
    yield "wall saved", "-" if saved is None else figures.spaced(saved) if saved else "hidden"
    if finding.incomplete:
        yield "incomplete", "records were lost inside it"
    yield from _around(snapshot, finding, gap)
    yield from _evidence(snapshot, finding, gap)
    yield from _readings(snapshot, finding, gap)
    for name, value in finding.values:
        yield name[:10], figures.plain(value)
    for line in finding.arithmetic:
        yield from _wrapped("computed", line, room)
    yield from _wrapped("threshold", finding.threshold, room)


def _wrapped(label: str, text: str, room: int) -> Pairs:
    for number, part in enumerate(textwrap.wrap(text, max(20, room))):
        yield ("" if number else label), part


def _mine(snapshot: Snapshot, finding: Finding) -> list[RowData]:
    """The rows whose spans end and begin around the gap: the device's, else those of the finding's lane."""
    if finding.device is None:
        return [row for row in snapshot.rows if row.lane.key == finding.lane]
    return [
        row
        for row in snapshot.rows
        if device_of(row.lane.key) == finding.device and not row.lane.key.endswith((".busy", ".held"))
    ]


def _around(snapshot: Snapshot, finding: Finding, gap: Interval) -> Pairs:
    """What ended last before it and began first after it."""
    before: tuple[int, RowData, int] | None = None
    after: tuple[int, RowData, int] | None = None
    for row in _mine(snapshot, finding):
        starts, ends = row.columns.start_ns, row.columns.end_ns
        index = int(np.searchsorted(ends, gap[0], "right")) - 1
        if index >= 0 and (before is None or int(ends[index]) > before[0]):
            before = (int(ends[index]), row, index)
        index = int(np.searchsorted(starts, gap[1], "left"))
        if index < len(starts) and int(starts[index]) < snapshot.now_ns:
            after = (int(starts[index]), row, index) if after is None or starts[index] < after[0] else after
    for label, found in (("before", before), ("after", after)):
        if found is not None:
            record = snapshot.record(found[1], found[2])
            yield (
                label,
                f"{stages.short_kernel(record.name) or record.name}, {figures.spaced(record.duration_ns)}",
            )


def _evidence(snapshot: Snapshot, finding: Finding, gap: Interval) -> Pairs:
    """The spans that are the evidence, as far as they touch this gap."""
    wanted = [*finding.spans, *(span for cause in finding.causes for span in cause.spans)]
    if not wanted:
        return
    ids = np.array(wanted, dtype=np.uint64)
    found = []
    for row in snapshot.rows:
        low = int(np.searchsorted(row.columns.end_ns, gap[0], "left"))
        high = int(np.searchsorted(row.columns.start_ns, gap[1], "right"))
        if high > low:
            inside = np.flatnonzero(np.isin(row.columns.take(slice(low, high)).id, ids))
            found += [snapshot.record(row, low + int(i)) for i in inside[:EVIDENCE]]
        if row.open is not None and row.open.id in wanted:
            found.append(row.open)
    found.sort(key=lambda record: wanted.index(record.id))
    for number, record in enumerate(found[:EVIDENCE]):
        length = (
            min(record.end_ns, snapshot.now_ns) if not record.is_open else snapshot.now_ns
        ) - record.start_ns
        faults = f", {figures.si(record.minflt)} minor faults" if record.has_faults else ""
        yield ("" if number else "evidence"), f"{record.name} {figures.spaced(length)}{faults}"


def _readings(snapshot: Snapshot, finding: Finding, gap: Interval) -> Pairs:
    """Counters inside the gap: gauges their mean, rates their maximum."""
    keys: Sequence[str] = COUNTERS
    if finding.device is not None:
        keys = (*COUNTERS, f"gpu.{finding.device}.clock")
    edges = np.array(gap, dtype=np.int64)
    for counter in snapshot.counters:
        if counter.key not in keys or counter.missing is not None:
            continue
        per_column = rows.gauge_columns if counter.kind == "gauge" else rows.rate_columns
        value = float(per_column(counter.start_ns, counter.t_ns, counter.value, edges, snapshot.now_ns)[0])
        if np.isfinite(value):
            words = "mean" if counter.kind == "gauge" else "highest"
            yield counter.label[:10], f"{figures.si(value)} {words}"
