"""How the numbers on the screen come about: formula and inputs, for the one under the cursor first."""

from __future__ import annotations

from cuzk_top import figures, stats
from cuzk_top.devicetime import together
from cuzk_top.model import Snapshot
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.explain_counters import counter_lines
from cuzk_top.screens.help import Entry
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.stalls.finding import Finding
from cuzk_top.viewport import ViewState


def explain_lines(
    snapshot: Snapshot, view: ViewState, row: DisplayRow | None, insight: Insight, on_findings: bool
) -> list[Entry]:
    """`on_findings`: the selected finding is under the cursor, else the lane of `row`."""
    entries: list[Entry] = []
    finding = insight.selected(view)
    if on_findings and finding is not None:
        entries += [*_finding(finding), Entry()]
    elif row is not None:
        entries += [*_lane(snapshot, view, row, insight), Entry()]
    entries += _devices(snapshot)
    entries += [Entry(), *_explained(insight), Entry(), *counter_lines(snapshot), Entry()]
    entries += _honesty(snapshot)
    return entries


def _finding(finding: Finding) -> list[Entry]:
    """One finding: what was grouped, how cost and saving were computed, and from what."""
    saved = finding.saved_ns
    told = "no proof to measure it by" if saved is None else figures.spaced(saved) if saved else "hidden: 0"
    entries = [
        Entry(f"Finding: {finding.rule}"),
        Entry("says", finding.sentence),
        Entry(
            "GPU lost",
            f"{figures.spaced(finding.cost_ns)}, n = {figures.count(finding.count)}",
        ),
        Entry("wall saved", told),
        *(Entry("computed", line) for line in finding.arithmetic),
        Entry("threshold", finding.threshold),
        *(Entry("input", f"{name} = {figures.plain(value)}") for name, value in finding.values),
    ]
    for cause in finding.causes:
        entries += [Entry("cause", f"{cause.rule}: {cause.sentence}"), Entry("", cause.threshold)]
        entries += [Entry("", line) for line in cause.arithmetic]
        entries += [Entry("input", f"{name} = {figures.plain(value)}") for name, value in cause.values]
    if finding.incomplete:
        entries.append(Entry("incomplete", "records were lost inside it: what looks idle may not have been"))
    return entries


def _lane(snapshot: Snapshot, view: ViewState, row: DisplayRow, insight: Insight) -> list[Entry]:
    """The figures at the right end of a lane."""
    if row.kind == "path":
        whole = sum(step.end_ns - step.start_ns for step in insight.analysis.path)
        return [
            Entry("Lane: path"),
            Entry("shares", "time of the steps of one kind / time of all steps"),
            Entry("input", f"{figures.count(len(insight.analysis.path))} steps, {figures.spaced(whole)}"),
            Entry("steps", "what the last proof waited for, backwards from its end over recorded edges only"),
        ]
    if row.kind == "ghost":
        return [
            Entry(f"Lane: {row.label}"),
            Entry("total", "time in which it worked in the last finished proof, moved to this one's start"),
        ]
    if row.kind in ("stalls", "partitions"):
        return [Entry(f"Lane: {row.label}"), Entry("drawn", "the findings' gaps, with their ranks")]
    begin, end, now = view.t0_ns, view.t1_ns, snapshot.now_ns
    busy = stats.busy_ns(row.sources, begin, end, now)
    count = sum(stats.count_in(source, begin, end, now) for source in row.sources)
    low, high = max(begin, snapshot.first_ns), min(end, now, max(snapshot.last_ns, begin))
    origin = snapshot.first_ns
    seen = f"{(low - origin) / 1e9:.3f} s to {(high - origin) / 1e9:.3f} s"
    tracks = len({source.track for source in row.sources})
    together_ = "" if tracks < 2 else f"; {tracks} threads add up"
    entries = [
        Entry(f"Lane: {row.label}"),
        Entry("total", f"time in the window covered by at least one of its spans{together_}"),
        Entry("input", f"{figures.count(count)} spans, window {seen}"),
        Entry("= total", f"{figures.count(busy)} ns"),
        Entry(
            "share", f"total / seen part of the window = {busy / 1e9:.6f} / {max(1, high - low) / 1e9:.6f} s"
        ),
    ]
    last = stats.last_duration(row.sources, now)
    if last is not None:
        entries.append(Entry("last", f"duration of the span that began last: {figures.count(last)} ns"))
    return entries


def _devices(snapshot: Snapshot) -> list[Entry]:
    """The header's three parts of device time."""
    entries = [Entry("Header: kernel + copy + idle = 100 %")]
    if not snapshot.devices:
        return [*entries, Entry("", "no device data: no record of a kernel or copy, so there is no figure")]
    entries += [
        Entry(
            "kernel", "time in which at least one kernel runs: the union over the device's streams, no sum"
        ),
        Entry("copy", "time with copies or fills but no kernel"),
        Entry("idle", "the rest, from the first record to now"),
    ]
    end = min(snapshot.now_ns, snapshot.last_ns) if snapshot.ended else snapshot.now_ns
    known = sum(key.startswith("gpu.") and key.endswith(".name") for key in snapshot.session.meta)
    count = max(known, len(snapshot.devices))
    for device in snapshot.devices:
        split = device.split(snapshot.first_ns, end)
        kernel, copy, idle = (
            figures.count(ns) for ns in (split.kernel_ns, split.copy_only_ns, split.idle_ns)
        )
        entries.append(
            Entry(f"GPU {device.index}", f"{kernel} + {copy} + {idle} = {figures.count(split.wall_ns)} ns")
        )
    if count > 1:
        split = together(snapshot.devices, count, snapshot.first_ns, end)
        parts = " + ".join(f"{share} %" for share in split.percent())
        entries.append(Entry("together", f"{count} GPUs, those without records idle: {parts}"))
    return entries


def _explained(insight: Insight) -> list[Entry]:
    """The stalls pane's title."""
    analysis = insight.analysis
    if not analysis.kernel_ns + analysis.copy_only_ns + analysis.idle_ns:
        return [Entry("Stalls"), Entry("", analysis.no_device or "nothing analysed yet")]
    parts = (
        ("explained", analysis.explained_ns),
        ("unknown", analysis.unknown_ns),
        ("no job", analysis.nowork_ns),
    )
    sums = " + ".join(f"{name} {figures.count(ns)}" for name, ns in parts)
    return [
        Entry("Stalls: how much is explained"),
        Entry("without", f"copy only {figures.count(analysis.copy_only_ns)} + idle, on all devices"),
        Entry("idle", f"{sums} = {figures.count(analysis.idle_ns)} ns"),
        Entry("rank", "by wall time saved, then by GPU time lost"),
        Entry("hidden", "closing it alone saves nothing: the critical path runs elsewhere"),
    ]


def _honesty(snapshot: Snapshot) -> list[Entry]:
    """What the screen says of itself."""
    return [
        Entry("Header: our own honesty"),
        Entry("spans", f"records of spans taken in so far: {figures.count(snapshot.spans)}"),
        Entry("lost", f"records overwritten before they were read, exact: {figures.count(snapshot.lost)}"),
        Entry("viewer", "CPU time of this process / wall time, over the last second"),
    ]
