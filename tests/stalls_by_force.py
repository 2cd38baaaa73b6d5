"""The findings of a trace by brute force: loops over plain numbers, nothing of `cuzk_top.stalls`.

    python tests/stalls_by_force.py TRACE > NAME.expected.json

Says for every finding its rule, device, cost, count, intervals and spans. A test compares that with what the
analysis says. The rules are written down here a second time, from the table in the documentation and from the
docstrings, as simply as they can be: one gap, one span, one sample at a time.
"""

from __future__ import annotations

import json
import re
import statistics
import struct
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from cuzk_top import trace as trace_file

SPAN, ASYNC, INSTANT, COUNTER, KERNEL, MEMCPY, MEMSET, UVM, OVERHEAD, FLOW = range(1, 11)
SYNC = 13
LASTS = (SPAN, ASYNC, KERNEL, MEMCPY, MEMSET, UVM, OVERHEAD, SYNC)
FAULTS, OPEN, F64 = 8, 16, 2
MOST_IDS = 12

Row = dict[str, Any]


class Trace:
    """A trace as lists of rows; times as they are."""

    def __init__(self, path: Path) -> None:
        opened = trace_file.open(path)
        self.meta = opened.session.meta
        self.lost, self.now = opened.lost, opened.now_ns
        names, tracks = opened.session.names, opened.session.tracks
        columns = opened.columns
        values = {name: array.tolist() for name, array in columns.arrays()}
        rows: list[Row] = []
        for i in range(len(columns)):
            row = {name: values[name][i] for name in values}
            name = names[row["name"]] if row["name"] < len(names) else None
            row["text"] = name.text if name else f"<name {row['name']}>"
            row["args"] = (name.a0, name.a1) if name else ("", "")
            track = tracks.get(row["track"])
            row["on"] = track.kind if track else "thread"
            row["device"] = track.tid if track else 0
            row["pid"] = track.label.rpartition(" [")[2] if track and track.label.endswith("]") else ""
            row["start"], row["end"] = row["start_ns"], min(row["end_ns"], self.now)
            if row["flags"] & OPEN:
                row["end"] = self.now
            rows.append(row)
        lasting = [row for row in rows if row["kind"] in LASTS]
        self.first = min((row["start"] for row in lasting), default=0)
        if not lasting:
            self.first = min((row["start"] for row in rows if row["kind"] == COUNTER), default=0)
        self.ops = sorted(
            (row for row in lasting if row["kind"] in (KERNEL, MEMCPY, MEMSET)),
            key=lambda row: (row["start"], row["end"]),
        )
        self.waits = [
            row for row in lasting if row["kind"] == SYNC and row["text"] != "sync.stream_wait_event"
        ]
        self.host = [row for row in lasting if row["kind"] in (SPAN, ASYNC, UVM)]
        for row in self.host:
            row["job"] = row["text"] == "prove" or row["text"].startswith("prove.")
            row["claim"] = row["text"] == "gpu.held" or row["text"].startswith("gpu.held.")
        self.by_id = {row["id"]: row for row in self.host if row["id"]}
        self.flows = [row for row in rows if row["kind"] == FLOW]
        self.marks = [(row["start"], row["text"]) for row in rows if row["kind"] == INSTANT]
        self.counters: dict[str, list[tuple[int, int, float]]] = defaultdict(list)
        for row in rows:
            if row["kind"] == COUNTER:
                value = (
                    struct.unpack("<d", struct.pack("<q", row["a0"]))[0] if row["flags"] & F64 else row["a0"]
                )
                self.counters[row["text"]].append((row["start_ns"], row["end_ns"], float(value)))
        for samples in self.counters.values():
            samples.sort(key=lambda sample: sample[1])
        self.jobs = self._jobs()
        self.job_ns = sum(b - a for a, b in self.jobs)

    def _jobs(self) -> list[tuple[int, int]]:
        named = [(row["start"], row["end"]) for row in self.host if row["job"]]
        if named:
            return merged(named)
        if self.ops:
            return [(self.ops[0]["start"], max(op["end"] for op in self.ops))]
        return []

    def launcher(self, op: Row) -> Row | None:
        """The span that launched it."""
        return self.by_id.get(op["parent"])


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same moments, in order, by a sweep that counts what is open."""
    edges: dict[int, int] = defaultdict(int)
    for a, b in spans:
        if b > a:
            edges[a] += 1
            edges[b] -= 1
    found: list[tuple[int, int]] = []
    count, since = 0, 0
    for t in sorted(edges):
        before, count = count, count + edges[t]
        if not before and count:
            since = t
        if before and not count:
            found.append((since, t))
    return found


def shared(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Moments of both, by walking through the two at once; pieces stay apart where one of them is cut."""
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        a, b = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if b > a:
            found.append((a, b))
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1
    return found


def inverse(of: list[tuple[int, int]], low: int, high: int) -> list[tuple[int, int]]:
    """The moments of a window that are not in it."""
    found, at = [], low
    for a, b in of:
        if min(a, high) > at:
            found.append((at, min(a, high)))
        at = max(at, b)
    if at < high:
        found.append((at, high))
    return found


def total(of: list[tuple[int, int]]) -> int:
    """Length."""
    return sum(b - a for a, b in of)


def joined(of: list[tuple[int, int]]) -> list[list[int]]:
    """As the findings have them."""
    return [[a, b] for a, b in merged(of)]


def ids(weighted: list[tuple[Row, int]]) -> list[int]:
    """Ids of host spans, the heaviest first."""
    sums: dict[int, int] = defaultdict(int)
    rows = {}
    for row, weight in weighted:
        sums[id(row)] += weight
        rows[id(row)] = row
    order = sorted(sums, key=lambda key: (-sums[key], rows[key]["start"]))
    return [rows[key]["id"] for key in order[:MOST_IDS]]


def finding(rule: str, device: int | None, cost: int, count: int, where: Any, spans: list[int]) -> Row:
    return {
        "rule": rule, "device": device, "cost_ns": cost, "count": count, "intervals": where, "spans": spans
    }  # fmt: skip


# -- idle time -----------------------------------------------------------------------------------------------


def idle(of: Trace) -> list[Row]:
    found: list[Row] = []
    low, high = of.first, max(of.now, of.first)
    for device in devices(of):
        mine = [op for op in of.ops if op["device"] == device]
        busy = merged([(op["start"], op["end"]) for op in mine])
        if not mine:
            found.append(finding("idle.nowork", device, high - low, 1, [[low, high]], []))
            continue
        free = inverse(busy, low, high)
        nowork = shared(free, inverse(of.jobs, low, high))
        if nowork:
            found.append(finding("idle.nowork", device, total(nowork), len(nowork), joined(nowork), []))
        gone = min((t for t, text in of.marks if text == f"GPU {device} fell off the bus"), default=high)
        early, late = [(low, gone)], [(gone, high)] if gone < high else []
        gaps = pieces(of, [describe(of, mine, a, b) for a, b in shared(shared(free, of.jobs), early)])
        found += grouped(of, gaps, device, high - low)
        if late:
            after = pieces(of, [describe(of, mine, a, b) for a, b in shared(shared(free, of.jobs), late)])
            where = [(gap["start"], gap["end"]) for gap in after]
            weighted = [(gap["span"], gap["end"] - gap["start"]) for gap in after if gap["span"]]
            found.append(finding("gpu.lost", device, total(where), 1, joined(where), ids(weighted)))
    return found


def devices(of: Trace) -> list[int]:
    if not of.ops:
        return []
    named = {int(m[1]) for key in of.meta if (m := re.fullmatch(r"gpu\.(\d+)\.name", key))}
    return sorted({op["device"] for op in of.ops} | named)


def describe(of: Trace, ops: list[Row], a: int, b: int) -> Row:
    """One gap: what is around it, which span covers it, which synchronise opened it, and so its reason."""
    before = next((op for op in sorted(ops, key=lambda op: op["end"])[::-1] if op["end"] == a), None)
    after = next((op for op in ops if op["start"] == b), None)
    span = cover(of, before, after, a, b)
    wait = opened_by(of, before, after, a, b)
    in_stage = span is None or all(
        (parent := of.launcher(op)) is not None and within(parent, span) for op in (before, after) if op
    )
    if wait is not None and in_stage:
        reason = "idle.sync"
    elif before and after and b - a < 50_000:
        reason = "idle.launch"
    else:
        reason = "idle.host" if span is not None else "idle.unknown"
    return {
        "start": a, "end": b, "before": before, "after": after, "span": span, "wait": wait, "rule": reason
    }  # fmt: skip


def pieces(of: Trace, gaps: list[Row]) -> list[Row]:
    """Unexplained gaps cut where the launching thread's outermost spans begin and end."""
    found = []
    for gap in gaps:
        thread = thread_of(of, gap["before"], gap["after"], gap["start"])
        if gap["rule"] != "idle.unknown" or thread is None:
            found.append(gap)
            continue
        own = [
            row
            for row in of.host
            if row["track"] == thread and row["on"] != "async" and not row["job"] and not row["claim"]
        ]
        outer = [
            row
            for row in own
            if not any(
                other is not row and within(row, other) and other["depth"] < row["depth"] for other in own
            )
        ]
        edges = {gap["start"], gap["end"]}
        for row in outer:
            edges |= {t for t in (row["start"], row["end"]) if gap["start"] < t < gap["end"]}
        for a, b in pairwise(sorted(edges)):
            span = cover(of, gap["before"], gap["after"], a, b, thread) if len(edges) > 2 else None
            rule = "idle.unknown" if span is None else "idle.host"
            found.append(gap | {"start": a, "end": b, "span": span, "rule": rule})
    return found


def thread_of(of: Trace, before: Row | None, after: Row | None, a: int) -> int | None:
    """The launching thread; the job's own where nothing was launched."""
    for op in (after, before):
        parent = of.launcher(op) if op else None
        if parent is not None:
            return int(parent["track"])
    if before is None and after is None:
        jobs = [row for row in of.host if row["job"] and row["on"] != "async"]
        jobs = [row for row in jobs if row["start"] <= a < row["end"]]
        return jobs[-1]["track"] if jobs else None
    return None


def within(inner: Row, outer: Row) -> bool:
    return (
        inner["track"] == outer["track"]
        and inner["depth"] >= outer["depth"]
        and inner["start"] >= outer["start"]
        and inner["end"] <= outer["end"]
    )


def cover(
    of: Trace, before: Row | None, after: Row | None, a: int, b: int, thread: int | None = None
) -> Row | None:
    """The deepest span with 60 % of the gap on the launching thread, else that with most of it anywhere."""
    if thread is None:
        thread = thread_of(of, before, after, a)
    best: dict[int, Row] = {}
    for row in of.host:
        if row["claim"] or row["on"] == "async":
            continue
        covered = min(row["end"], b) - max(row["start"], a)
        if covered > 0 and covered >= 0.6 * (b - a):
            held = best.get(row["track"])
            if held is None or row["depth"] > held["depth"]:
                best[row["track"]] = row
    if thread in best and not best[thread]["job"]:
        return behind(of, best[thread], best)
    found, most = None, 0
    for track in sorted(best):
        row = best[track]
        covered = min(row["end"], b) - max(row["start"], a)
        if not row["job"] and covered > most:
            found, most = row, covered
    return behind(of, found, best) if found else None


def behind(of: Trace, span: Row, best: dict[int, Row]) -> Row:
    """Of a wait what the other thread did, and so on while that waits too."""
    passed: list[Row] = []
    while span["text"].endswith(".wait") and span not in passed:
        passed.append(span)
        other = handed_by(of, span)
        if other is None:
            holder = held_by(of, span)
            in_it = holder is not None and span["start"] < holder["end"] <= span["end"] + 5_000
            other = holder["track"] if holder is not None and in_it else None
        if other in best and not best[other]["job"]:
            span = best[other]
    return span


def held_by(of: Trace, wait: Row) -> Row | None:
    """The claim that a wait was for: the last to end of another thread's on the device that it then takes."""
    claims_ = [row for row in of.host if row["claim"]]
    own = [
        row
        for row in claims_
        if row["track"] == wait["track"] and row["start"] >= wait["start"] and row["end"] > wait["end"]
    ]
    device = min(own, key=lambda row: row["start"])["a0"] if own else None
    others = [
        row
        for row in claims_
        if row["track"] != wait["track"]
        and row["start"] < wait["end"] and row["end"] > wait["start"]
        and device in (None, row["a0"])
    ]  # fmt: skip
    if not others or len({row["a0"] for row in others}) > 1:
        return None
    return max(others, key=lambda row: row["end"])


def handed_by(of: Trace, span: Row) -> int | None:
    """The thread that a waiting span waited for: where the arrow that arrived in it began."""
    if not span["text"].endswith(".wait"):
        return None
    for arrived in of.flows:
        inside = arrived["track"] == span["track"] and span["start"] <= arrived["start"] <= span["end"]
        if not (arrived["a0"] and inside):
            continue
        for begun in of.flows:
            same = begun["corr"] == arrived["corr"] and begun["pid"] == arrived["pid"]
            if same and not begun["a0"]:
                return int(begun["track"])
    return None


def opened_by(of: Trace, before: Row | None, after: Row | None, a: int, b: int) -> Row | None:
    """A synchronise called between the two launches that returned when the gap had just opened."""
    if before is None or after is None or not before["corr"]:
        return None
    latest = min(a + max(int((b - a) * 0.1), 50_000), b + 5_000)
    fits = [
        wait
        for wait in of.waits
        if before["corr"] < wait["corr"] < after["corr"]
        and a - 5_000 <= wait["end"] <= latest
        and wait["pid"] == after["pid"]
    ]
    return min(fits, key=lambda wait: wait["end"], default=None)


def part_of(of: Trace, op: Row | None) -> str:
    if op is None:
        return ""
    parent = of.launcher(op)
    return f"span {parent['name']}" if parent else f"work {op['name']}"


def grouped(of: Trace, gaps: list[Row], device: int, window: int) -> list[Row]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for gap in gaps:
        span = gap["span"]["name"] if gap["span"] else None
        key: tuple[Any, ...] = (gap["rule"],)
        if gap["rule"] == "idle.sync":
            key += (gap["wait"]["name"], span)
        elif gap["rule"] != "idle.launch":
            key += (span, part_of(of, gap["before"]), part_of(of, gap["after"]))
        groups[key].append(gap)
    found, small = [], defaultdict(list)
    for (rule, *_), group in groups.items():
        cost = sum(gap["end"] - gap["start"] for gap in group)
        if cost > (0.02 * window if rule == "idle.launch" else 0.005 * of.job_ns):
            weighted = [(gap["span"], gap["end"] - gap["start"]) for gap in group if gap["span"]]
            where = joined([(gap["start"], gap["end"]) for gap in group])
            found.append(finding(rule, device, cost, len(group), where, ids(weighted)))
        else:
            small[rule] += group
    for rule, group in small.items():
        cost = sum(gap["end"] - gap["start"] for gap in group)
        where = joined([(gap["start"], gap["end"]) for gap in group])
        found.append(finding(rule, device, cost, len(group), where, []))
    return found


# -- copies --------------------------------------------------------------------------------------------------


def exposed(of: Trace) -> list[Row]:
    found = []
    for device in devices(of):
        mine = [op for op in of.ops if op["device"] == device]
        kernels = merged([(op["start"], op["end"]) for op in mine if op["kind"] == KERNEL])
        bare = shared(inverse(kernels, of.first, of.now), of.jobs)
        taken: list[tuple[int, int]] = []
        by_name: dict[int, list[tuple[Row, list[tuple[int, int]]]]] = defaultdict(list)
        for op in mine:
            if op["kind"] == KERNEL:
                continue
            own = shared([(op["start"], op["end"])], bare) if op["end"] > op["start"] else []
            free = shared(own, inverse(merged(taken), of.first, of.now)) if own else []
            taken.append((op["start"], op["end"]))
            if free:
                by_name[op["name"]].append((op, free))
        for group in by_name.values():
            pieces = [piece for _, free in group for piece in free]
            if total(pieces) > 0.01 * of.job_ns:
                weighted = [(p, total(free)) for op, free in group if (p := of.launcher(op)) is not None]
                found.append(
                    finding("copy.exposed", device, total(pieces), len(group), joined(pieces), ids(weighted))
                )
    return found


def slow(of: Trace) -> list[Row]:
    found = []
    for device in devices(of):
        for link, limit in (("memcpy.h2d", "pcie_in"), ("memcpy.d2h", "pcie_out")):
            large = [
                op
                for op in of.ops
                if op["device"] == device and op["kind"] == MEMCPY and op["text"].startswith(link)
                and op["a0"] >= 16_000_000
            ]  # fmt: skip
            best = max((op["a0"] / max(1, op["end"] - op["start"]) for op in large), default=0.0)
            carries = float(of.meta.get(f"top.gpu.{device}.{limit}", 0))
            best = carries if best < 0.5 * carries else best
            groups: dict[int, list[Row]] = defaultdict(list)
            for op in large:
                if op["a0"] / max(1, op["end"] - op["start"]) < 0.5 * best:
                    groups[op["name"]].append(op)
            for group in groups.values():
                where = joined([(op["start"], op["end"]) for op in group])
                weighted = []
                for op in group:
                    excess = max(0, op["end"] - op["start"] - round(op["a0"] / best))
                    parent = of.launcher(op)
                    if parent is not None:
                        weighted.append((parent, excess))
                found.append(finding("copy.slow", device, 0, len(group), where, ids(weighted)))
    return found


# -- the host ------------------------------------------------------------------------------------------------

SIZES = {"points", "domain", "bytes", "constraints", "coefficients", "wires", "size", "log2_points"}


def middle(values: list[int]) -> int:
    return int(statistics.median_low(values) + statistics.median_high(values)) // 2


def faults(of: Trace) -> list[Row]:
    counted = [
        row
        for row in of.host
        if row["flags"] & FAULTS and not row["job"] and not row["claim"] and row["on"] != "async"
        and row["end"] > row["start"] and not row["text"].endswith(".worker")
    ]  # fmt: skip
    if not counted:
        return []
    samples = [value for _, end, value in of.counters.get("host.minflt", []) if end <= of.now]
    if len(samples) >= 5:
        usual = statistics.median(samples)
    else:
        usual = statistics.median(row["minflt"] * 1e9 / (row["end"] - row["start"]) for row in counted)
    slow_ones: list[tuple[Row, int]] = []
    for row in counted:
        size = row["a0"] if row["args"][0] in SIZES else 0
        others = [
            other
            for other in counted
            if other is not row
            and other["name"] == row["name"]
            and (other["a0"] if other["args"][0] in SIZES else 0) == size
            and not other["flags"] & OPEN
        ]
        if len(others) < 2:
            continue
        length = row["end"] - row["start"]
        usually = middle([other["end"] - other["start"] for other in others])
        fewer = middle([other["minflt"] for other in others])
        burst = (
            row["minflt"] * 1e9 / length > 5 * usual
            and row["minflt"] >= 1_000
            and row["minflt"] > 1.5 * fewer
        )
        able = row["majflt"] * 10_000_000 + ((row["minflt"] - fewer) * 300_000 if burst else 0)
        excess = length - usually
        if (burst or row["majflt"]) and excess > 0.1 * usually and able >= 0.5 * excess:
            slow_ones.append((row, length - usually))
    groups: dict[int, list[tuple[Row, int]]] = defaultdict(list)
    proofs = sum(row["job"] for row in of.host)
    for row, excess in slow_ones:
        most = 0.6 * (row["minflt"] + row["majflt"])
        if not any(
            other is not row
            and within(other, row)
            and other["depth"] > row["depth"]
            and other["minflt"] + other["majflt"] >= most
            for other, _ in slow_ones
        ):
            groups[row["name"]].append((row, excess))
    return [
        finding(
            "fault.burst", None, 0, len(group), joined([(row["start"], row["end"]) for row, _ in group]),
            ids(group),
        )
        for group in groups.values()
        if sum(excess for _, excess in group) > 0.005 * of.job_ns / max(1, proofs)
    ]  # fmt: skip


def memory(of: Trace) -> list[Row]:
    """Falls of resident memory, by the span in which they happened."""
    samples = [sample for sample in of.counters.get("host.rss", []) if of.first < sample[1] <= of.now]
    peak = max((value for _, _, value in samples), default=0.0)
    groups: dict[int, list[tuple[int, int, Row | None]]] = defaultdict(list)
    i = 0
    while i + 1 < len(samples):
        if samples[i + 1][2] >= samples[i][2]:
            i += 1
            continue
        low = j = i + 1
        while j + 1 < len(samples) and samples[j + 1][2] <= samples[j][2]:
            j += 1
            low = j if samples[j][2] < samples[low][2] else low
        given, a, b = samples[i][2] - samples[low][2], samples[i][1], samples[low][1]
        inside = any(start <= a and end >= b for start, end in of.jobs)
        if inside and given > 0.25 * peak and given * (1 << 30) >= 256 << 20:
            span = None
            for row in of.host:
                if not row["claim"] and row["on"] != "async":
                    covered = min(row["end"], b) - max(row["start"], a)
                    if covered >= 0.6 * (b - a) and (span is None or row["depth"] > span["depth"]):
                        span = row
            groups[span["name"] if span else -1].append((a, b, span))
        i = j
    return [
        finding(
            "dealloc", None, 0, len(group), joined([(a, b) for a, b, _ in group]),
            ids([(span, b - a) for a, b, span in group if span]),
        )
        for group in groups.values()
    ]  # fmt: skip


def hangs(of: Trace) -> list[Row]:
    moments = {t for row in of.host for t in (row["start"], *(() if row["flags"] & OPEN else (row["end"],)))}
    moments |= {t for row in (*of.ops, *of.waits) for t in (row["start"], row["end"])}
    moments |= {t for job in of.jobs for t in job} | {of.now}
    at = sorted(t for t in moments if of.first <= t <= of.now)
    found = []
    for a, b in pairwise(at):
        if b - a < 2_000_000_000:
            continue
        roots = [row for row in of.host if row["job"] and row["start"] <= a and row["end"] >= b]
        roots.sort(key=lambda row: (row["end"], row["start"]))
        if not roots:
            continue
        around = [
            row
            for row in of.host
            if row["track"] == roots[0]["track"]
            and not row["claim"]
            and row["start"] <= a
            and row["end"] >= b
        ]
        span = max(around, key=lambda row: row["depth"])
        load = {
            key: [value for start, end, value in samples if start >= a and end <= b]
            for key, samples in of.counters.items()
        }
        moves = any(sum(load.get(f"host.{key}", [])) > 0 for key in ("majflt", "disk_read", "disk_write"))
        works = any(op["end"] > a and op["start"] < b for op in of.ops)
        busy = any(
            (values := load.get(f"gpu.{device}.util")) and statistics.mean(values) >= 1
            for device in devices(of)
        )
        cpu = load.get("host.cpu", [])
        used = statistics.mean(cpu) >= 2 if cpu else None
        known = sum(end - start for start, end, _ in of.counters["host.cpu"] if start >= a and end <= b)
        if of.counters["host.cpu"] and known < (b - a) / 2:  # the recorder itself stood still
            continue
        if moves or works or busy or used:
            continue
        others = [
            row["end"] - row["start"]
            for row in of.host
            if row is not span and row["name"] == span["name"] and not row["flags"] & OPEN
            and (row["a0"] == span["a0"] or span["args"][0] not in SIZES)
        ]  # fmt: skip
        long = bool(others) and span["end"] - span["start"] > 5 * middle(others)
        if long or (used is False and not of.ops):
            found.append(finding("hung", None, 0, 1, [[a, b]], [span["id"]]))
    return found


MSM = {"msm.h", "msm.l", "msm.a", "msm.b_g1", "msm.b_g2"}


def lane(row: Row) -> str:
    """Which multiplication a span is of, by the first two parts of its name; "" for none."""
    name = ".".join(row["text"].split(".")[:2])
    return name if name in MSM else ""


def tails(of: Trace) -> list[Row]:
    """Multiplications of threads that run on alone."""
    groups: dict[str, list[tuple[list[Row], list[tuple[int, int]]]]] = defaultdict(list)
    for proof in of.host:
        if not proof["job"]:
            continue
        sums = [
            row
            for row in of.host
            if lane(row)
            and not row["text"].endswith(".wait")
            and row["on"] != "async" and not row["flags"] & OPEN
            and row["start"] >= proof["start"] and row["end"] <= proof["end"]
        ]  # fmt: skip
        if not sums:
            continue
        ended = max(row["end"] for row in sums)
        last = min((row for row in sums if row["end"] == ended), key=lambda row: row["depth"])
        mine = [row for row in sums if row["track"] == last["track"] and lane(row) == lane(last)]
        if any(of.launcher(op) in mine for op in of.ops):
            continue
        begun = min(row["start"] for row in mine)
        beside = [op for op in of.ops if op["end"] > begun and op["start"] < ended]
        beside += [
            row
            for row in of.host
            if row["track"] != last["track"] and row["on"] != "async" and not row["job"] and not row["claim"]
            and not row["text"].endswith(".wait")
            and not (row["text"].endswith(".worker") and lane(row) == lane(last))
            and row["end"] > begun and row["start"] < ended
        ]  # fmt: skip
        if beside and max(row["end"] for row in beside) < ended:
            since = max(row["end"] for row in beside)
            alone = shared(merged([(row["start"], row["end"]) for row in mine]), [(since, ended)])
            if total(alone) > 0.05 * (proof["end"] - proof["start"]):
                groups[lane(last)].append((mine, alone))
    found = []
    for group in groups.values():
        weighted = [
            (row, total(shared([(row["start"], row["end"])], alone)))
            for mine, alone in group
            for row in mine
            if row["end"] > row["start"]
        ]
        weighted = [(row, weight) for row, weight in weighted if weight]
        where = joined([piece for _, alone in group for piece in alone])
        found.append(finding("tail.cpu", None, 0, len(group), where, ids(weighted)))
    return found


WORDS = {
    "alloc": {"pin", "register", "mlock", "mmap", "prefault"},
    "dealloc": {"unpin", "unregister", "munmap", "malloc_trim", "free", "drop"},
}


def calls(of: Trace) -> list[Row]:
    """Spans of calls that allocate or free, by the words of their names."""
    found = []
    for rule, words in WORDS.items():
        named = [
            row
            for row in of.host
            if row["on"] != "async" and words & set(re.split("[._ :/]", row["text"]))
            and row["end"] > of.first and row["start"] < max(of.now, of.first)
        ]  # fmt: skip
        if total(shared(merged([(row["start"], row["end"]) for row in named]), of.jobs)) <= 0.01 * of.job_ns:
            continue
        for name in {row["name"] for row in named}:
            mine = [row for row in named if row["name"] == name]
            where = joined([(row["start"], row["end"]) for row in mine])
            weighted = [(row, row["end"] - row["start"]) for row in mine]
            found.append(finding(rule, None, 0, len(mine), where, ids(weighted)))
    return found


# -- claims --------------------------------------------------------------------------------------------------


def unused(of: Trace, device: int) -> list[tuple[int, int]]:
    """When a device did nothing."""
    busy = merged([(op["start"], op["end"]) for op in of.ops if op["device"] == device])
    return inverse(busy, of.first, max(of.now, of.first))


def claims(of: Trace) -> list[Row]:
    """Claims that device work covers less than 70 % of."""
    found = []
    for device in {op["device"] for op in of.ops}:
        idle = unused(of, device)
        low = []
        for row in of.host:
            a, b = max(row["start"], of.first), min(row["end"], of.now)
            mine = row["claim"] and row["a0"] == device and row["end"] > row["start"]
            if mine and (b - a) - total(shared([(a, b)], idle)) < 0.7 * (b - a):
                low.append(row)
        if low:
            where = joined(shared(merged([(row["start"], row["end"]) for row in low]), idle))
            weighted = [(row, row["end"] - row["start"]) for row in low]
            found.append(finding("host.claim", device, 0, len(low), where, ids(weighted)))
    return found


def waits(of: Trace) -> list[Row]:
    """Waits for a device that another thread claims and leaves idle."""
    groups: dict[tuple[Any, ...], list[tuple[Row, Row, list[tuple[int, int]]]]] = defaultdict(list)
    for wait in of.host:
        if not wait["text"].endswith(".wait") or wait["on"] == "async":
            continue
        holder = held_by(of, wait)
        if holder is None:
            continue
        a, b = max(wait["start"], holder["start"], of.first), min(wait["end"], holder["end"], of.now)
        if b > a:
            long = [(low, high) for low, high in unused(of, holder["a0"]) if high - low >= 50_000]
            groups[holder["name"], holder["a0"]].append((wait, holder, shared([(a, b)], long)))
    found = []
    for (_, device), group in groups.items():
        if sum(total(bad) for _, _, bad in group) > 0.005 * of.job_ns:
            weighted = [(row, total(bad)) for wait, holder, bad in group for row in (wait, holder)]
            where = joined([piece for _, _, bad in group for piece in bad])
            found.append(finding("lock.wait", device, 0, len(group), where, ids(weighted)))
    return found


# -- devices -------------------------------------------------------------------------------------------------


def clocks(of: Trace) -> list[Row]:
    found = []
    for device in devices(of):
        mine = [op for op in of.ops if op["device"] == device]
        busy = merged([(op["start"], op["end"]) for op in mine])
        kernels = merged([(op["start"], op["end"]) for op in mine if op["kind"] == KERNEL])
        series = of.counters.get(f"gpu.{device}.clock", [])
        top = max((value for _, end, value in series if end <= of.now), default=0.0)
        runs: list[list[tuple[int, int, float]]] = [[]]
        for start, end, value in series:
            if not of.first < end <= of.now:
                continue
            a = max(start, of.first)
            works = total(shared(busy, [(a, end)])) if end > a else 0
            if end > a and value < 0.85 * top and works >= 0.5 * (end - a):
                runs[-1].append((a, end, value))
            elif runs[-1]:
                runs.append([])
        runs = [run for run in runs if run and run[-1][1] - run[0][0] >= 200_000_000]
        if runs:
            cost = sum(
                round(total(shared(kernels, [(a, b)])) * (1 - value / top))
                for run in runs
                for a, b, value in run
            )
            where = joined([(a, b) for run in runs for a, b, _ in run])
            found.append(finding("clock.drop", device, cost, len(runs), where, []))
    return found


def last_streams(of: Trace) -> list[Row]:
    """Kernels of one stream that ran on after those of all others."""
    found = []
    for device in devices(of):
        tails: list[tuple[list[Row], int]] = []
        for proof in [row for row in of.host if row["job"]]:
            mine = [
                op
                for op in of.ops
                if op["device"] == device and op["kind"] == KERNEL
                and op["start"] >= proof["start"] and op["end"] <= proof["end"] and op["start"] < proof["end"]
            ]  # fmt: skip
            if len({op["track"] for op in mine}) < 2:
                continue
            last = max(mine, key=lambda op: op["end"])["track"]
            others = [op for op in mine if op["track"] != last]
            length = sum(op["end"] - op["start"] for op in mine)
            since = max(op["end"] for op in others)
            alone = [op for op in mine if op["track"] == last and op["end"] > since]
            busy = shared(merged([(op["start"], op["end"]) for op in alone]), [(since, proof["end"])])
            if (
                sum(op["end"] - op["start"] for op in others) >= 0.1 * length
                and any(op["start"] < since for op in alone)
                and total(busy) > 0.05 * (proof["end"] - proof["start"])
            ):
                tails.append((alone, since))
        if tails:
            pieces_ = [(op, max(op["start"], since)) for alone, since in tails for op in alone]
            where = joined([(a, op["end"]) for op, a in pieces_])
            weighted = [(p, op["end"] - a) for op, a in pieces_ if (p := of.launcher(op)) is not None]
            found.append(finding("tail.gpu", device, 0, len(tails), where, ids(weighted)))
    return found


def lost(of: Trace) -> list[Row]:
    if not of.lost:
        return []
    where = [[of.first, of.now]] if of.now > of.first else []
    return [finding("lost", None, 0, of.lost, where, [])]


def findings(path: Path) -> dict[str, Any]:
    """Everything, in an order that does not depend on how it was found."""
    of = Trace(path)
    found: list[Row] = []
    rules = (
        idle, exposed, slow, claims, faults, memory, calls, waits, clocks, tails, last_streams, lost, hangs
    )  # fmt: skip
    for rule in rules:
        found += rule(of)
    order = sorted(found, key=lambda one: (one["rule"], str(one["device"]), one["intervals"], one["count"]))
    return {"trace": path.name, "findings": order}


if __name__ == "__main__":
    result = findings(Path(sys.argv[1]))
    print(f'{{"trace": {json.dumps(result["trace"])}, "findings": [')
    print(",\n".join(json.dumps(one) for one in result["findings"]) + "\n]}")
