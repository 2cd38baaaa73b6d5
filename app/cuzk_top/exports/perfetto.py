"""Perfetto's trace format: track events, written a track at a time.

Numbers of messages and fields are those of perfetto/trace/trace_packet.proto, track_event.proto,
track_descriptor.proto, interned_data.proto, debug_annotation.proto and clock_snapshot.proto. Each track is a
packet sequence of its own, so that its events stay in order where many fall on one nanosecond; packets of
different sequences need no order.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from cuzk_top import stages
from cuzk_top.exports.files import whole
from cuzk_top.exports.protobuf import Bytes, Fixed, Nested, Numbers, Part, interleaved, messages, number, text
from cuzk_top.exports.tracks import IS_SPAN, TrackRows, in_sequence, name_of, tracks
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
    Session,
    Track,
)
from cuzk_top.trace import Trace

CHUNK = 1 << 17
"""Events that are turned into bytes at a time."""

_PACKET = 1  # of Trace
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS = 8, 10, 11, 12, 13
_CLOCKS, _DEFAULTS, _DESCRIPTOR, _CLEARED = 6, 59, 60, 41
_TYPE, _NAME, _ANNOTATION, _FLOW_IDS, _INT_COUNTER, _F64_COUNTER = 9, 10, 4, 47, 30, 44
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_STATEFUL = number(_FLAGS, 2)  # the packet uses interned names and defaults
_MONOTONIC, _REALTIME = 3, 1

_PROCESS_UUID = 1
_FLOW, _CORRELATION = np.uint64(1 << 32), np.uint64(2 << 32)
"""High halves of flow ids: explicit flows, and records that share a correlation."""
_WORDS = ("minflt", "majflt", "error", "unbalanced", "a0", "a1")
_NOT_SHOWN = (KIND_ARGS, KIND_META)


def write(trace: Trace, path: Path) -> None:
    """Write all of a trace. Raises OSError."""
    with whole(path) as temporary, temporary.open("wb") as file:
        _Writer(trace, file).write()


class _Writer:
    def __init__(self, trace: Trace, file: IO[bytes]) -> None:
        self._trace = trace
        self._session = trace.session
        self._file = file
        self._uuid = _PROCESS_UUID
        self._counters: dict[int, int] = {}  # sequence by name
        self._used_sequences = 0
        self._words = _words(trace.session)

    def write(self) -> None:
        self._clocks()
        session = self._session
        process = number(1, session.pid) + text(6, session.name)
        for word in session.meta.get("command", "").split(" "):
            process += text(2, word)
        self._packet(text(_DESCRIPTOR, number(1, _PROCESS_UUID) + text(3, process)))
        for rows in tracks(self._trace):
            self._track(rows)

    def _packet(self, content: bytes) -> None:
        self._file.write(text(_PACKET, content))

    def _clocks(self) -> None:
        """Moments of which both clocks are known; the trace's own clock is CLOCK_MONOTONIC."""
        for monotonic, realtime in self._session.anchors or [(self._session.started_ns, 0)]:
            pair = text(1, number(1, _MONOTONIC) + number(2, monotonic))
            if realtime:
                pair += text(1, number(1, _REALTIME) + number(2, realtime))
            self._packet(text(_CLOCKS, pair + number(2, _MONOTONIC)))

    def _track(self, rows: TrackRows) -> None:
        columns = rows.columns
        shown = ~np.isin(columns.kind, _NOT_SHOWN)
        if not shown.all():
            columns = columns.take(shown)
        nested = in_sequence(columns) if len(columns) and not rows.by_depth else None
        if nested is not None:
            self._events(rows.track, columns, *nested)
        else:
            for depth in np.unique(columns.depth).tolist():
                part = columns.take(columns.depth == depth)
                self._events(rows.track, part, *_one_by_one(part))
        for name in np.unique(rows.counters.name).tolist():
            self._counter(name, rows.counters.take(rows.counters.name == name))

    def _begin_sequence(self, track: bytes, names: list[int]) -> int:
        """Describe a track and begin its packets: what its events need not repeat. Returns the sequence."""
        self._used_sequences += 1
        self._uuid += 1
        self._packet(text(_DESCRIPTOR, number(1, self._uuid) + track))
        interned = b"".join(
            text(2, number(1, name + 1) + text(2, name_of(self._session, name).text)) for name in names
        )
        interned += b"".join(text(3, number(1, iid) + text(2, word)) for word, iid in self._words.items())
        defaults = number(58, _MONOTONIC) + text(11, number(11, self._uuid))
        self._packet(
            number(_SEQUENCE, self._used_sequences)
            + number(_FLAGS, 1)
            + number(_CLEARED, 1)
            + text(_DEFAULTS, defaults)
            + text(_INTERNED, interned)
        )
        return self._used_sequences

    def _events(
        self,
        track: Track,
        columns: Columns,
        row: NDArray[np.int64],
        is_begin: NDArray[np.bool_],
        times: NDArray[np.int64],
    ) -> None:
        sequence = self._begin_sequence(self._description(track), np.unique(columns.name).tolist())
        for low in range(0, len(row), CHUNK):
            part = slice(low, low + CHUNK)
            self._file.write(self._chunk(sequence, columns, row[part], is_begin[part], times[part]).data)

    def _description(self, track: Track) -> bytes:
        if track.kind == "thread":
            thread = number(1, self._session.pid) + number(2, track.tid or track.id) + text(5, track.label)
            return text(4, thread)
        return text(2, track.label) + number(5, _PROCESS_UUID)

    def _chunk(
        self,
        sequence: int,
        columns: Columns,
        row: NDArray[np.int64],
        is_begin: NDArray[np.bool_],
        times: NDArray[np.int64],
    ) -> Bytes:
        span = IS_SPAN[columns.kind[row]]
        ends = span & ~is_begin & (columns.flags[row] & FLAG_OPEN == 0)  # one that is open has no end
        shapes = [
            (places := np.flatnonzero(ends), self._packets(sequence, times[places], [number(_TYPE, _END)]))
        ]
        starting = np.flatnonzero(is_begin | ~span)
        shape = self._shape(columns, row[starting])
        for value in np.unique(shape).tolist():
            places = starting[shape == value]
            parts = self._content(value, columns.take(row[places]))
            shapes.append((places, self._packets(sequence, times[places], parts)))
        return interleaved(shapes, len(row))

    def _packets(self, sequence: int, times: NDArray[np.int64], event: list[Part]) -> Bytes:
        parts: list[Part] = [
            Numbers(_TIMESTAMP, times.view(np.uint64)),
            number(_SEQUENCE, sequence) + _STATEFUL,
            Nested(_TRACK_EVENT, event),
        ]
        return messages(len(times), [Nested(_PACKET, parts)])

    def _shape(self, columns: Columns, row: NDArray[np.int64]) -> NDArray[np.int64]:
        """What an event has, as bits: events of equal bits have the same fields."""
        flags, name = columns.flags[row], np.minimum(columns.name[row], len(self._session.names))
        named = np.array([[bool(n.a0), bool(n.a1)] for n in self._session.names] + [[False, False]])
        kind = columns.kind[row]
        bits = np.zeros(len(row), np.int64)
        for place, has in enumerate((
            IS_SPAN[kind],
            named[name, 0] | (columns.a0[row] != 0) & (kind != KIND_FLOW),
            flags & FLAG_F64 != 0,
            named[name, 1] | (columns.a1[row] != 0),
            flags & FLAG_F64_A1 != 0,
            flags & FLAG_FAULTS != 0,
            flags & FLAG_ERR != 0,
            flags & FLAG_UNBALANCED != 0,
            columns.corr[row] != 0,
            kind == KIND_FLOW,
        )):  # fmt: skip
            bits |= has.astype(np.int64) << place
        return bits

    def _content(self, shape: int, rows: Columns) -> list[Part]:
        """The track event of rows of one shape."""
        span, a0, f64, a1, f64_a1, faults, error, unbalanced, corr, flow = (
            bool(shape >> i & 1) for i in range(10)
        )
        name = rows.name.astype(np.uint64)
        parts: list[Part] = [number(_TYPE, _BEGIN if span else _INSTANT), Numbers(_NAME, name + np.uint64(1))]
        if a0:
            parts.append(self._argument(rows, 0, rows.a0, is_float=f64))
        if a1:
            parts.append(self._argument(rows, 1, rows.a1, is_float=f64_a1))
        if faults:
            for word, values in (("minflt", rows.minflt), ("majflt", rows.majflt)):
                key = number(1, self._words[word])
                parts.append(Nested(_ANNOTATION, [key, Numbers(3, values.astype(np.uint64))]))
        for word, has in (("error", error), ("unbalanced", unbalanced)):
            if has:
                parts.append(text(_ANNOTATION, number(1, self._words[word]) + number(2, 1)))
        if corr:
            parts.append(Fixed(_FLOW_IDS, rows.corr.astype(np.uint64) | (_FLOW if flow else _CORRELATION)))
        return parts

    def _argument(self, rows: Columns, which: int, values: NDArray[np.int64], *, is_float: bool) -> Part:
        names = self._session.names
        words = [self._words[(n.a1 if which else n.a0) or f"a{which}"] for n in names] + [
            self._words[f"a{which}"]
        ]
        key = Numbers(1, np.array(words, np.uint64)[np.minimum(rows.name, len(names))])
        bits = np.ascontiguousarray(values).view(np.uint64)
        return Nested(_ANNOTATION, [key, Fixed(5, bits) if is_float else Numbers(4, bits)])

    def _counter(self, name: int, columns: Columns) -> None:
        """A counter has a track of its own; a sample counts from where its interval begins."""
        sequence = self._counters.get(name)
        if sequence is None:
            label = name_of(self._session, name).text
            about = text(6, stages.counter(label).unit)
            description = text(2, label) + number(5, _PROCESS_UUID) + text(8, about)
            sequence = self._counters[name] = self._begin_sequence(description, [])
        order = np.argsort(columns.start_ns, kind="stable")
        columns = columns.take(order)
        is_float = columns.flags & FLAG_F64 != 0
        for low in range(0, len(columns), CHUNK):
            part = columns.take(slice(low, low + CHUNK))
            floats = is_float[low : low + CHUNK]
            shapes = []
            for places, field, make in (
                (np.flatnonzero(floats), _F64_COUNTER, Fixed),
                (np.flatnonzero(~floats), _INT_COUNTER, Numbers),
            ):
                value = make(field, np.ascontiguousarray(part.a0[places]).view(np.uint64))
                content: list[Part] = [number(_TYPE, _COUNTER), value]
                shapes.append((places, self._packets(sequence, part.start_ns[places], content)))
            self._file.write(interleaved(shapes, len(part)).data)


def _words(session: Session) -> dict[str, int]:
    """Names of arguments with their numbers."""
    words = dict.fromkeys(_WORDS)
    words.update(dict.fromkeys(word for name in session.names for word in (name.a0, name.a1) if word))
    return {word: place for place, word in enumerate(words, 1)}


def _one_by_one(columns: Columns) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Begins and ends of rows of which none lies in another."""
    spans = IS_SPAN[columns.kind]
    twice = np.where(spans, 2, 1)
    row = np.repeat(np.arange(len(columns)), twice)
    first = np.cumsum(twice) - twice
    is_begin = np.zeros(len(row), bool)
    is_begin[first[spans]] = True
    return row, is_begin, np.where(is_begin, columns.start_ns[row], columns.end_ns[row])
