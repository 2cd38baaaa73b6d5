"""An analysis as JSON (schema ``cuzk-top.stalls/1``) and as text for people.

`facts` gives an object with these keys; times and lengths are integers of nanoseconds, shares numbers of 1:

- ``schema``: ``cuzk-top.stalls/1``
- ``window``: ``start_ns`` and ``end_ns`` of CLOCK_MONOTONIC, and ``origin_ns``, the session's first record
- ``proofs``: ``count`` (finished), ``failed`` (how many of them), ``wall_ns`` (the time in the window in
  which a job was open)
- ``devices``: ``count``, ``kernel_ns``, ``copy_only_ns``, ``idle_ns`` (they add up to the window's length
times the count), ``explained_ns``, ``unknown_ns``, ``nowork_ns`` (they add up to idle_ns), ``missing`` (why
there is no device data, or null)
- ``early``: true while it is too early to tell
- ``lost``: records lost in the whole session
- ``share``: what ``--fail-over`` is compared with (see `share`)
- ``findings``: best first, each with ``rank`` (null: not ranked), ``rule``, ``key``, ``device`` (or null),
  ``lane``, ``cost_ns``, ``saved_ns`` (0: hidden; null: no proof to measure it by), ``count``, ``sentence``,
  ``threshold``, ``arithmetic`` (lines), ``intervals`` (pairs), ``spans`` (ids), ``values`` (an object),
  ``incomplete``, and ``causes``, which are findings without a rank
- ``path``: the critical path of the last proof as steps of ``start_ns``, ``end_ns``, ``span`` (id; 0: nothing
  recorded), ``name`` and ``lane``
- ``limits``: every threshold by name
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from cuzk_top import figures, stats
from cuzk_top.model import Snapshot
from cuzk_top.proofs import proofs
from cuzk_top.stalls.finding import Analysis, Finding, Step
from cuzk_top.stalls.limits import Limits

SCHEMA = "cuzk-top.stalls/1"
COLUMNS = 100
MOST_OF_PATH = 6


def facts(snapshot: Snapshot, analysis: Analysis, limits: Limits) -> dict[str, Any]:
    """Everything that is said, as JSON can hold it."""
    finished, _, _ = stats.proofs(snapshot)
    failed = sum(proof.failed for proof in proofs(snapshot))
    low, high = analysis.window
    whole = analysis.kernel_ns + analysis.copy_only_ns + analysis.idle_ns
    return {
        "schema": SCHEMA,
        "window": {"start_ns": low, "end_ns": high, "origin_ns": snapshot.first_ns},
        "proofs": {"count": finished, "failed": failed, "wall_ns": analysis.proof_ns},
        "devices": {
            "count": whole // (high - low) if high > low else 0,
            "kernel_ns": analysis.kernel_ns,
            "copy_only_ns": analysis.copy_only_ns,
            "idle_ns": analysis.idle_ns,
            "explained_ns": analysis.explained_ns,
            "unknown_ns": analysis.unknown_ns,
            "nowork_ns": analysis.nowork_ns,
            "missing": analysis.no_device,
        },
        "early": analysis.early,
        "lost": snapshot.lost,
        "share": share(analysis),
        "findings": list(_findings(analysis.findings)),
        "path": [_step(step) for step in analysis.path],
        "limits": asdict(limits),
    }


def share(analysis: Analysis) -> float:
    """The share of the proof that closing the ranked findings would save, each alone, added up; where there
    is no proof to measure by, the share of the devices' time that they cost. 1 at most.
    """
    ranked = [finding for finding in analysis.findings if finding.ranked]
    if any(finding.saved_ns is not None for finding in ranked):
        saved, whole = sum(finding.saved_ns or 0 for finding in ranked), analysis.proof_ns
    else:
        saved = sum(finding.cost_ns for finding in ranked)
        whole = analysis.kernel_ns + analysis.copy_only_ns + analysis.idle_ns - analysis.nowork_ns
    return min(1.0, saved / whole) if whole > 0 else 0.0


def _findings(of: Iterable[Finding], top: bool = True) -> Iterable[dict[str, Any]]:
    for rank, finding in enumerate(of, 1):
        entry = {"rank": rank if finding.ranked else None} if top else {}
        yield entry | {
            "rule": finding.rule,
            "key": finding.key,
            "device": finding.device,
            "lane": finding.lane,
            "cost_ns": finding.cost_ns,
            "saved_ns": finding.saved_ns,
            "count": finding.count,
            "sentence": finding.sentence,
            "threshold": finding.threshold,
            "arithmetic": list(finding.arithmetic),
            "intervals": [list(interval) for interval in finding.intervals],
            "spans": list(finding.spans),
            "values": dict(finding.values),
            "incomplete": finding.incomplete,
            "causes": list(_findings(finding.causes, top=False)),
        }


def _step(step: Step) -> dict[str, Any]:
    return {
        "start_ns": step.start_ns,
        "end_ns": step.end_ns,
        "span": step.span,
        "name": step.name,
        "lane": step.lane,
    }


def text(data: dict[str, Any], name: str) -> str:
    """For people, `COLUMNS` wide; `data` is what `facts` gave, `name` what was analysed."""
    lines = [*_head(data, name), ""]
    ranked = [finding for finding in data["findings"] if finding["rank"] is not None]
    if data["early"]:
        lines.append("too early to tell: no proof has ended or gone far enough")
    elif not ranked:
        lines.append("no stall over its limit")
    else:
        lines.append(f"{'#':>3}  {'rule':<14}{'GPU lost':>9}{'n':>7}{'wall saved':>12}  what")
    for finding in ranked:
        lines += _finding(finding)
    rest = [finding for finding in data["findings"] if finding["rank"] is None]
    if rest:
        lines += ["", "not ranked"]
        for finding in rest:
            cost = figures.spaced(finding["cost_ns"]) if finding["cost_ns"] else "-"
            lines += _wrapped(finding["sentence"], f"     {finding['rule']:<14}{cost:>9}  ")
    return "\n".join(lines)


def _head(data: dict[str, Any], name: str) -> list[str]:
    window, made, devices = data["window"], data["proofs"], data["devices"]
    wall = window["end_ns"] - window["start_ns"]
    count = f"{made['count']} proof{'' if made['count'] == 1 else 's'}"
    count += f" ({made['failed']} failed)" if made["failed"] else ""
    lines = [f"{name}: {count}, {figures.spaced(made['wall_ns'])} of {figures.spaced(wall)}"]
    if devices["missing"]:
        lines.append(devices["missing"])
    else:
        whole = devices["kernel_ns"] + devices["copy_only_ns"] + devices["idle_ns"]
        parts = [
            f"{label} {figures.percent(devices[key], whole)}"
            for label, key in (("kernel", "kernel_ns"), ("copy only", "copy_only_ns"), ("idle", "idle_ns"))
        ]
        told = [
            f"{figures.spaced(devices[key])} {label}"
            for label, key in (
                ("explained", "explained_ns"),
                ("unknown", "unknown_ns"),
                ("no job", "nowork_ns"),
            )
        ]
        several = f"{devices['count']} GPUs" if devices["count"] > 1 else "GPU"
        lines += _wrapped(
            f"{'  '.join(parts)};  of {figures.spaced(devices['idle_ns'])} idle: {', '.join(told)}",
            f"{several:<6}",
        )
    if data["path"]:
        lines += _wrapped(_path(data["path"]), "path  ")
    if data["lost"]:
        lines.append(f"lost  {data['lost']:,} records: what looks idle may not have been")
    return lines


def _path(steps: list[dict[str, Any]]) -> str:
    """The path by name, the longest first."""
    sums: dict[str, int] = {}
    for step in steps:
        name = step["name"] or "(nothing recorded)"
        sums[name] = sums.get(name, 0) + step["end_ns"] - step["start_ns"]
    whole = max(1, steps[-1]["end_ns"] - steps[0]["start_ns"])
    order = sorted(sums, key=lambda name: (-sums[name], name))
    told = [f"{name} {figures.percent(sums[name], whole)}" for name in order[:MOST_OF_PATH]]
    if len(order) > MOST_OF_PATH:
        rest = sum(sums[name] for name in order[MOST_OF_PATH:])
        told.append(f"{len(order) - MOST_OF_PATH} more {figures.percent(rest, whole)}")
    return f"of the last proof, {figures.spaced(whole)}: {', '.join(told)}"


def _finding(finding: dict[str, Any]) -> list[str]:
    cost = figures.spaced(finding["cost_ns"]) if finding["cost_ns"] else "-"
    head = (
        f"{finding['rank']:>3}  {finding['rule']:<14}{cost:>9}{finding['count']:>7,}{_saved(finding):>12}  "
    )
    lines = _wrapped(finding["sentence"] + (" (incomplete)" if finding["incomplete"] else ""), head)
    for cause in finding["causes"]:
        saved = (
            "" if cause["saved_ns"] in (None, 0) else f" (alone saves {figures.spaced(cause['saved_ns'])})"
        )
        lines += _wrapped(f"{cause['sentence']}{saved}", f"     < {cause['rule']:<12}")
        lines += [line for one in cause["arithmetic"][:1] for line in _wrapped(one, " " * 19)]
    for line in (*finding["arithmetic"], finding["threshold"]):
        lines += _wrapped(line, " " * 7)
    return lines


def _saved(finding: dict[str, Any]) -> str:
    saved = finding["saved_ns"]
    if saved is None:
        return "no proof"
    return figures.spaced(saved) if saved else "hidden"


def _wrapped(text: str, first: str) -> list[str]:
    return textwrap.wrap(
        text, COLUMNS, initial_indent=first, subsequent_indent=" " * len(first), break_on_hyphens=False
    ) or [first.rstrip()]
