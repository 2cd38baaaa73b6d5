"""The facts of a session as text or JSON: a reader of the store without a screen.

`facts` is the documented JSON (schema ``cuzk-top.report/1``); `text` lays the same facts out for people.
Nothing is estimated: what has no source says so.
"""

from __future__ import annotations

import statistics
from datetime import UTC, datetime
from typing import Any

import numpy as np

from cuzk_top import figures, gpu_report, history, stats
from cuzk_top.history import Past
from cuzk_top.model import CounterData, Snapshot
from cuzk_top.stage_table import Stage, stage_table

SCHEMA = "cuzk-top.report/1"
MOVED = 0.02
"""Stages whose time moved by less than this share of a proof are not listed beside past ones, nor what is
inside of a listed one."""
MOST_MOVED = 8
MOST_WORDS = 90
"""Characters of a command line that are shown; the JSON has all."""
KEY_FIELDS = ("job", "backend", "threads", "curve", "command")


def against_past(snapshot: Snapshot) -> dict[str, Any]:
    """The facts of a session beside what is known of earlier proofs of its kind."""
    past = history.read(snapshot.session.meta, apart_from=snapshot)
    data = facts(snapshot, past)
    if past.problem:
        data["problems"].append(past.problem)
    return data


def facts(snapshot: Snapshot, past: Past | None = None) -> dict[str, Any]:
    """Everything the report says, with integers of nanoseconds and bytes; None where a figure does not exist.

    Keys: schema, session (pid, name, started_utc, meta), wall_ns, proofs (count, durations_ns, median_ns,
    past_count, past_median_ns), stages (one object a span name, in the order of a proof), devices (see
    gpu_report), counters, spans, lost, open_spans, problems. Of a stage, median_ns is that of its spans,
    proof_median_ns and past_median_ns are those of its total in a proof, here and in the past.
    """
    past = past or Past("")
    count, durations, running = stats.proofs(snapshot)
    here = history.medians(history.totals(snapshot, history.finished(snapshot)))
    started = snapshot.session.realtime_ns(snapshot.first_ns)
    return {
        "schema": SCHEMA,
        "session": {
            "pid": snapshot.session.pid,
            "name": snapshot.session.name,
            "started_utc": _utc(started),
            "meta": dict(sorted(snapshot.session.meta.items())),
        },
        "wall_ns": max(0, min(snapshot.last_ns, snapshot.now_ns) - snapshot.first_ns),
        "proofs": {
            "count": count,
            "running": running is not None,
            "durations_ns": durations,
            "median_ns": int(statistics.median(durations)) if durations else None,
            "past_count": past.proofs,
            "past_median_ns": past.median_ns,
        },
        "stages": [
            _stage(stage)
            | {
                "proof_median_ns": here.get(stage.name),
                "past_median_ns": past.stages.get(stage.name),
            }
            for stage in stage_table(snapshot)
        ],
        "devices": gpu_report.facts(snapshot),
        "counters": [_counter(counter) for counter in snapshot.counters],
        "spans": snapshot.spans,
        "lost": snapshot.lost,
        "open_spans": sum(row.open is not None for row in snapshot.rows),
        "problems": list(snapshot.problems),
    }


def _utc(realtime_ns: int | None) -> str | None:
    if realtime_ns is None:
        return None
    return datetime.fromtimestamp(realtime_ns / 1e9, UTC).isoformat(timespec="milliseconds")


def _stage(stage: Stage) -> dict[str, Any]:
    return {
        "name": stage.name,
        "lane": stage.lane,
        "indent": stage.indent,
        "label": stage.label,
        "count": stage.count,
        "running": stage.running,
        "total_ns": stage.total_ns,
        "self_ns": stage.self_ns,
        "median_ns": stage.median_ns,
        "p95_ns": stage.p95_ns,
        "share": stage.share,
        "minflt": stage.minflt,
        "majflt": stage.majflt,
        "ns_per_point": stage.ns_per_point,
        "gb_per_s": stage.gb_per_s,
    }


def _counter(counter: CounterData) -> dict[str, Any]:
    """A counter's mean over time (each sample weighs as long as it held) and its maximum."""
    entry: dict[str, Any] = {
        "key": counter.key,
        "unit": counter.unit,
        "kind": counter.kind,
        "samples": len(counter.value),
    }
    if len(counter.value) == 0:
        return {**entry, "mean": None, "max": None, "missing": counter.missing}
    lengths = (counter.t_ns - counter.start_ns).astype(np.float64)
    mean = (
        float(np.average(counter.value, weights=lengths))
        if lengths.sum() > 0
        else float(counter.value.mean())
    )
    return {**entry, "mean": mean, "max": float(counter.value.max()), "missing": None}


def text(data: dict[str, Any]) -> str:
    """The report for people, 100 columns or fewer; `data` is what `facts` gave."""
    devices = gpu_report.text(data["devices"])
    parts = (_head(data), _stage_lines(data), _past_lines(data), devices, _counter_lines(data))
    lines = [line for part in parts if part for line in (*part, "")]
    return "\n".join([*lines[:-1], *_closing(data)])


def _head(data: dict[str, Any]) -> list[str]:
    session, meta, made = data["session"], data["session"]["meta"], data["proofs"]
    started = session["started_utc"] or "start unknown"
    lines = [f"session   {session['name'] or '?'}  pid {session['pid']}  {started}"]
    for key in KEY_FIELDS:
        if meta.get(key):
            value = meta[key]
            lines.append(f"{key:<9} {value if len(value) <= MOST_WORDS else value[: MOST_WORDS - 1] + '…'}")
    lines.append(f"wall      {figures.spaced(data['wall_ns'])}")
    if made["count"]:
        median = figures.spaced(made["median_ns"])
        lines.append(
            f"proofs    {made['count']} finished, median {median}"
            + ("; one running" if made["running"] else "")
        )
    else:
        lines.append("proofs    none finished")
    return lines


def _stage_lines(data: dict[str, Any]) -> list[str]:
    lines = [
        f"{'stage':<30}{'count':>6}{'total':>10}{'self':>10}{'median':>10}{'p95':>10}{'share':>7}{'minflt':>9}{'majflt':>7}"
    ]
    for stage in data["stages"]:
        own = stage["label"] if stage["lane"].startswith("gpu") else stage["name"]
        name = "  " * stage["indent"] + own
        cells = [
            f"{stage['count'] + stage['running']:>6}",
            *(f"{_time(stage[key]):>10}" for key in ("total_ns", "self_ns", "median_ns", "p95_ns")),
            f"{'-' if stage['share'] is None else format(100 * stage['share'], '.1f') + '%':>7}",
            f"{_faults(stage['minflt']):>9}{_faults(stage['majflt']):>7}",
        ]
        name = name if len(name) < 30 else f"{name[:28]}…"
        rate = "" if stage["gb_per_s"] is None else f"  {figures.three(stage['gb_per_s'])} GB/s"
        lines.append(f"{name:<30}" + "".join(cells) + rate + ("  still open" if stage["running"] else ""))
    return lines


def _past_lines(data: dict[str, Any]) -> list[str]:
    """How this trace's proofs compare with past ones of their kind, and the stages that differ most."""
    made = data["proofs"]
    if made["past_median_ns"] is None or not made["count"]:
        return []
    known = f"against {made['past_count']} past proof{'s' if made['past_count'] > 1 else ''} of this kind"
    lines = [
        f"{known:<38}{'here':>10}{'past':>10}",
        _compared("a proof", made["median_ns"], made["past_median_ns"]),
    ]
    least = MOVED * made["median_ns"]
    differ = []
    for stage in data["stages"]:
        entry = (stage["name"], stage["proof_median_ns"], stage["past_median_ns"])
        if None not in entry and entry[0] != stats.PROOF and abs(entry[1] - entry[2]) >= least:
            differ.append(entry)
    listed: list[str] = []
    for entry in sorted(differ, key=lambda entry: -abs(entry[1] - entry[2])):
        if len(listed) < MOST_MOVED and not any(entry[0].startswith(f"{name}.") for name in listed):
            listed.append(entry[0])
            lines.append(_compared(*entry))
    return lines


def _compared(name: str, here: int, past: int) -> str:
    change = f"{100 * (here - past) / past:+.1f} %" if past else "new"
    return f"  {name:<36}"[:38] + f"{figures.spaced(here):>10}{figures.spaced(past):>10}{change:>10}"


def _time(value: int | None) -> str:
    return "-" if value is None else figures.spaced(value)


def _faults(value: int | None) -> str:
    return "-" if value is None else figures.si(value) if value >= 100_000 else figures.count(value)


def _counter_lines(data: dict[str, Any]) -> list[str]:
    if not data["counters"]:
        return ["counters  none: the session was shorter than one sample"]
    lines = [f"{'counter':<28}{'mean':>10}{'max':>10}"]
    for counter in data["counters"]:
        label = f"{counter['key']} ({counter['unit']})" if counter["unit"] else counter["key"]
        if counter["missing"] is not None:
            lines.append(f"{label:<28}no data: {counter['missing']}")
        else:
            lines.append(f"{label:<28}{figures.si(counter['mean']):>10}{figures.si(counter['max']):>10}")
    return lines


def _closing(data: dict[str, Any]) -> list[str]:
    lines = ["", f"spans     {figures.count(data['spans'])}", f"lost      {figures.count(data['lost'])}"]
    if data["open_spans"]:
        lines.append(f"open      {data['open_spans']} spans had no end when the recording stopped")
    lines += [f"note      {problem}" for problem in data["problems"]]
    return lines
