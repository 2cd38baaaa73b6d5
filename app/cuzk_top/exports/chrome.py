"""Chrome's trace event format: JSON that chrome://tracing, Perfetto, speedscope and others read.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU describes it. Times are
microseconds; they are written as decimals with three places, so that no nanosecond is lost to rounding.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import IO, Any

import numpy as np

from cuzk_top.exports.files import whole
from cuzk_top.exports.tracks import IS_SPAN, TrackRows, name_of, tracks
from cuzk_top.model import (
    FLAG_ERR,
    FLAG_F64,
    FLAG_F64_A1,
    FLAG_FAULTS,
    FLAG_OPEN,
    FLAG_UNBALANCED,
    KIND_ARGS,
    KIND_FLOW,
    KIND_META,
    Columns,
)
from cuzk_top.trace import Trace

CHUNK = 1 << 16


def write(trace: Trace, path: Path) -> None:
    """Write all of a trace. Raises OSError."""
    with whole(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        _Writer(trace, file).write()


class _Writer:
    def __init__(self, trace: Trace, file: IO[str]) -> None:
        self._trace = trace
        self._session = trace.session
        self._file = file
        self._names: dict[int, tuple[str, str, str]] = {}
        self._flows = _last_of_flows(trace)
        self._separator = "\n"

    def write(self) -> None:
        session = self._session
        self._file.write('{"displayTimeUnit":"ns","otherData":')
        about = {"clock_ns": session.anchors, "lost": self._trace.lost, **session.meta}
        self._file.write(json.dumps(about) + ',"traceEvents":[')
        self._put([_metadata(session.pid, 0, "process_name", session.name)])
        for rows in tracks(self._trace):
            self._track(rows)
        self._file.write("\n]}\n")

    def _put(self, lines: list[str]) -> None:
        if lines:
            self._file.write(self._separator + ",\n".join(lines))
            self._separator = ",\n"

    def _track(self, rows: TrackRows) -> None:
        track = rows.track
        # Spans side by side need a line each; a line is a thread here.
        for depth in np.unique(rows.columns.depth).tolist() if rows.by_depth else [None]:
            columns = rows.columns if depth is None else rows.columns.take(rows.columns.depth == depth)
            tid = (
                (track.tid or (1 << 24) + track.id) if depth is None else (1 << 25) + (track.id << 8) + depth
            )
            pid = self._session.pid
            named = [_metadata(pid, tid, "thread_name", track.label)]
            named.append(_metadata(pid, tid, "thread_sort_index", track.id))
            self._put(named)
            for low in range(0, len(columns), CHUNK):
                self._put(self._events(columns.take(slice(low, low + CHUNK)), f'"pid":{pid},"tid":{tid}'))
        for low in range(0, len(rows.counters), CHUNK):
            self._put(self._counters(rows.counters.take(slice(low, low + CHUNK))))

    def _name(self, number: int) -> tuple[str, str, str]:
        """A name and its arguments' as JSON."""
        known = self._names.get(number)
        if known is None:
            name = name_of(self._session, number)
            a0, a1 = (json.dumps(text) if text else "" for text in (name.a0, name.a1))
            known = self._names[number] = (json.dumps(name.text), a0, a1)
        return known

    def _events(self, columns: Columns, where: str) -> list[str]:
        lines = []
        floats = columns.a0.view(np.float64).tolist(), columns.a1.view(np.float64).tolist()
        for i, (start, end, kind, flags, name, a0, a1, minor, major, corr) in enumerate(
            zip(
                *(
                    getattr(columns, column).tolist()
                    for column in (
                        "start_ns",
                        "end_ns",
                        "kind",
                        "flags",
                        "name",
                        "a0",
                        "a1",
                        "minflt",
                        "majflt",
                        "corr",
                    )
                ),
                strict=True,
            )
        ):
            text, a0_name, a1_name = self._name(name)
            if kind in (KIND_ARGS, KIND_META):
                continue
            if kind == KIND_FLOW:
                lines.append(self._flow(text, where, start, a0, corr))
                continue
            args = []
            if a0_name or a0:
                args.append(f"{a0_name or _A0}:{_value(floats[0][i] if flags & FLAG_F64 else a0)}")
            if a1_name or a1:
                args.append(f"{a1_name or _A1}:{_value(floats[1][i] if flags & FLAG_F64_A1 else a1)}")
            if flags & FLAG_FAULTS:
                args.append(f'"minflt":{minor},"majflt":{major}')
            if flags & FLAG_ERR:
                args.append('"error":true')
            if flags & FLAG_UNBALANCED:
                args.append('"unbalanced":true')
            if corr:
                args.append(f'"corr":{corr}')
            if not IS_SPAN[kind]:
                shape = '"ph":"i","s":"t"'
            elif flags & FLAG_OPEN:
                shape = '"ph":"B"'
            else:
                shape = f'"ph":"X","dur":{_us(end - start)}'
            lines.append(f'{{{shape},{where},"ts":{_us(start)},"name":{text},"args":{{{",".join(args)}}}}}')
        return lines

    def _flow(self, text: str, where: str, start: int, later: int, corr: int) -> str:
        shape = (
            '"ph":"f","bp":"e"'
            if self._flows.get(corr) == start and later
            else '"ph":"t"'
            if later
            else '"ph":"s"'
        )
        return f'{{{shape},{where},"ts":{_us(start)},"id":{corr},"cat":"flow","name":{text}}}'

    def _counters(self, columns: Columns) -> list[str]:
        values = np.where(columns.flags & FLAG_F64, columns.a0.view(np.float64), columns.a0).tolist()
        exact = columns.a0.tolist()
        is_float = (columns.flags & FLAG_F64 != 0).tolist()
        lines = []
        for i, (start, name) in enumerate(zip(columns.start_ns.tolist(), columns.name.tolist(), strict=True)):
            value = _value(values[i] if is_float[i] else exact[i])
            pid = self._session.pid
            lines.append(
                f'{{"ph":"C","pid":{pid},"ts":{_us(start)},"name":{self._name(name)[0]},"args":{{"value":{value}}}}}'
            )
        return lines


_A0, _A1 = '"a0"', '"a1"'


def _us(ns: int) -> str:
    """Microseconds, exactly."""
    whole_us, rest = divmod(abs(ns), 1000)
    return f"{'-' if ns < 0 else ''}{whole_us}.{rest:03}" if rest else f"{'-' if ns < 0 else ''}{whole_us}"


def _value(value: float) -> str:
    """JSON has no word for what is no number."""
    return repr(value) if not isinstance(value, float) or math.isfinite(value) else f'"{value}"'


def _metadata(pid: int, tid: int, what: str, value: str | int) -> str:
    key = "sort_index" if what.endswith("index") else "name"
    made: dict[str, Any] = {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {key: value}}
    return json.dumps(made, separators=(",", ":"))


def _last_of_flows(trace: Trace) -> dict[int, int]:
    """When each flow was last heard of."""
    last: dict[int, int] = {}
    for run in trace.runs:
        if run.kinds is None or KIND_FLOW in run.kinds:
            which = np.flatnonzero(run.columns.kind == KIND_FLOW)
            times, numbers = run.columns.start_ns[which].tolist(), run.columns.corr[which].tolist()
            for time, number in zip(times, numbers, strict=True):
                last[number] = max(time, last.get(number, time))
    return last
