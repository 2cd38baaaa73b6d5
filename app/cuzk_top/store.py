"""The store: batches in, snapshots out. Numpy columns a row, no Python object a span.

One thread appends (the collector), any thread takes snapshots. Columns only grow, in arrays that are
exchanged when full, so a snapshot is a set of views and costs nothing to keep. Retention drops the oldest
spans of all rows when their bytes pass a limit. The rows of a saved trace are adopted as they lie in its file
and count for nothing: the system may take their memory back at any time.
"""

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top import gpu_rows, stages
from cuzk_top.model import (
    COLUMN_TYPES,
    FLAG_F64,
    KIND_COUNTER,
    KIND_FLOW,
    KIND_INSTANT,
    ROW_BYTES,
    SPAN_KINDS,
    Batch,
    Columns,
    CounterData,
    Mark,
    RowData,
    Run,
    Session,
    Snapshot,
    SpanRecord,
    span_record,
)

DEFAULT_LIMIT_BYTES = 1 << 30
"""About 12 million spans."""
MARKS_KEPT = 10_000
FLOWS_KEPT = 100_000
MOST_RUNS = 32
"""A batch of more runs of one row each is sorted by row first; a saved trace comes in few long runs."""
TAKEN_OVER = 65_536
"""Rows from which on a first part is used as it is: so a saved trace is not copied when it is opened."""

LONGEST_NS = 1 << 61
"""Times beyond this, before or after the clock's zero, are of a damaged trace: 73 years leave room to add."""
EARLIEST_NS = int(np.iinfo(np.int64).min)

RowKey = tuple[int, int, int]
"""Place of the lane, track, depth: sorts into screen order."""

_IS_SPAN = np.zeros(256, dtype=bool)
_IS_SPAN[list(SPAN_KINDS)] = True


class Growing:
    """Arrays of equal length that grow at the end and shrink at the front; views of them never change."""

    def __init__(self, types: dict[str, np.dtype[Any]]) -> None:
        self._types = types
        self._arrays = {name: np.empty(16, kind) for name, kind in types.items()}
        self._low = 0
        self._high = 0
        self.changes = 0

    def __len__(self) -> int:
        return self._high - self._low

    def __getitem__(self, name: str) -> NDArray[Any]:
        view = self._arrays[name][self._low : self._high]
        view.flags.writeable = False
        return view

    def append(self, parts: dict[str, NDArray[Any]]) -> None:
        """Append rows, one array a column. A large first part is taken over uncopied and must not change."""
        self.changes += 1
        count = len(next(iter(parts.values())))
        if self._high == 0 and count >= TAKEN_OVER:
            self._arrays = {name: parts[name].view() for name in self._types}
            self._high = count
            return
        if self._high + count > len(next(iter(self._arrays.values()))):
            self._move(2 * (len(self) + count))
        for name, array in self._arrays.items():
            array[self._high : self._high + count] = parts[name]
        self._high += count

    def drop(self, count: int) -> None:
        """Forget the first rows; the room is given back at the next growth, or now when it is most of it."""
        self.changes += 1
        self._low += count
        if self._low > self._high // 2:
            self._move(max(16, len(self) * 5 // 4))

    def _move(self, capacity: int) -> None:
        length = len(self)
        for name, kind in self._types.items():
            larger = np.empty(capacity, kind)
            larger[:length] = self[name]
            self._arrays[name] = larger
        self._low, self._high = 0, length


class _Row:
    """One row's closed spans, its open one, and the view made of them last."""

    def __init__(self) -> None:
        self.spans = Growing(COLUMN_TYPES)
        self.saved: Columns | None = None  # of a file, in place of `spans`
        self.open: SpanRecord | None = None
        self.view: RowData | None = None
        self.last_end = EARLIEST_NS
        self._seen: tuple[Growing, int, Columns] | None = None

    def __len__(self) -> int:
        return len(self.spans) if self.saved is None else len(self.saved)

    def columns(self) -> Columns:
        if self.saved is not None:
            return self.saved
        # Most often only the open span is another than before.
        if self._seen is None or self._seen[0] is not self.spans or self._seen[1] != self.spans.changes:
            made = Columns(*[self.spans[name] for name in COLUMN_TYPES])
            self._seen = (self.spans, self.spans.changes, made)
        return self._seen[2]

    def own(self) -> int:
        """Copy what was a file's, so that more can be put behind it; the number of spans copied."""
        if self.saved is None:
            return 0
        saved, self.saved = self.saved, None
        self.spans.append(dict(saved.arrays()))
        return len(saved)


_COUNTER_TYPES = {
    "t_ns": np.dtype(np.int64),
    "start_ns": np.dtype(np.int64),
    "value": np.dtype(np.float64),
}


class Store:
    """Columns a row, a revision number, retention by bytes. `viewer_cpu` is set by the collector."""

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.viewer_cpu: float | None = None
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._revision = 0
        self._rows: dict[RowKey, _Row] = {}
        self._counters: dict[str, Growing] = {}
        self._marks: list[Mark] = []
        self._flows = Columns.empty()
        self._session = Session()
        self._lane_of: NDArray[np.int64] = np.empty(0, np.int64)
        self._spans = 0
        self._kept = 0
        self._lost = 0
        self._now_ns = 0
        self._first_ns: int | None = None
        self._last_ns = 0
        self._ended = False
        self._problems: tuple[str, ...] = ()
        self._dropped = 0
        self._impossible = 0
        self._snapshot: Snapshot | None = None
        self._gpu = gpu_rows.GpuRows()

    def append(self, batch: Batch) -> None:
        """Take in what a source yielded."""
        with self._lock:
            self._revision += 1
            self._learn(batch.session)
            self._lost = batch.lost
            self._now_ns = batch.now_ns
            self._ended = batch.ended
            self._problems = batch.problems
            columns = batch.columns
            if len(columns):
                is_span = _IS_SPAN[columns.kind]
                if is_span.all():
                    self._add_spans(columns)
                else:
                    self._add_spans(columns.take(is_span))
                    self._add_counters(columns.take(columns.kind == KIND_COUNTER))
                    self._add_marks(columns.take(columns.kind == KIND_INSTANT))
                    self._add_flows(columns.take(columns.kind == KIND_FLOW))
            if batch.runs:
                self._add_runs(batch.runs)
            self._set_open(batch.open)
            if self._kept * ROW_BYTES > self._limit_bytes:
                self._retain()

    def snapshot(self) -> Snapshot:
        """The present state; the same object as long as nothing was appended."""
        with self._lock:
            if self._snapshot is None or self._snapshot.revision != self._revision:
                self._snapshot = self._make_snapshot()
            return self._snapshot

    def children(self, record: SpanRecord) -> list[SpanRecord]:
        """The spans directly inside one, by start."""
        return self.snapshot().children(record)

    def parent(self, record: SpanRecord) -> SpanRecord | None:
        """The span around one, or None."""
        return self.snapshot().parent(record)

    def at(self, row: RowData, t_ns: int) -> SpanRecord | None:
        """The span of a row that covers a moment, or None."""
        return self.snapshot().at(row, t_ns)

    def _learn(self, session: Session) -> None:
        """Keep a copy of the session, so that snapshots do not see it change, and map new names to lanes."""
        mine = self._session
        if (
            len(mine.names) != len(session.names)
            or len(mine.tracks) != len(session.tracks)
            or mine.meta != session.meta
            or mine.anchors != session.anchors
            or (mine.pid, mine.name, mine.started_ns) != (session.pid, session.name, session.started_ns)
        ):
            if mine.meta != session.meta:
                for row in self._rows.values():
                    row.view = None  # the back end decides how lanes look
            self._session = session.copy()
        known = len(self._lane_of)
        if known < len(self._session.names):
            new = [stages.place_of(name.text) for name in self._session.names[known:]]
            self._lane_of = np.concatenate([self._lane_of, np.array(new, np.int64)])

    def _places(self, columns: Columns) -> NDArray[np.int64]:
        """Place of each host span's lane."""
        places = self._lanes(columns.name)
        held = places == stages.HELD_PLACE
        if held.any():
            places[held] = self._gpu.claims(self._session, columns.take(held))
        return places

    def _lanes(self, names: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Place of each name's lane; names the session lacks fall into the last, `other`."""
        known = np.append(self._lane_of, stages.ORDER["other"])
        lanes: NDArray[np.int64] = known[np.minimum(names, len(known) - 1)]
        return lanes

    def _add_spans(self, columns: Columns) -> None:
        if not len(columns):
            return
        self._spans += len(columns)
        self._kept += len(columns)
        self._bounds(int(columns.start_ns.min()), int(columns.end_ns.max()))
        gpu = gpu_rows.IS_GPU[columns.kind]
        if gpu.any():
            self._add_gpu(columns.take(gpu))
            columns = columns.take(~gpu)
            if not len(columns):
                return
        key = (
            self._places(columns) << 40 | columns.track.astype(np.int64) << 8 | columns.depth.astype(np.int64)
        )
        edges = np.concatenate([[0], np.flatnonzero(key[1:] != key[:-1]) + 1, [len(key)]])
        if len(edges) > MOST_RUNS:
            order = np.argsort(key, kind="stable")
            key = key[order]
            columns = columns.take(order)
            edges = np.concatenate([[0], np.flatnonzero(key[1:] != key[:-1]) + 1, [len(key)]])
        for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            packed = int(key[low])
            row = (packed >> 40, packed >> 8 & 0xFFFFFFFF, packed & 0xFF)
            part = columns.take(slice(low, high))
            self._claim(row, part)
            self._add_to_row(row, part)

    def _claim(self, key: RowKey, columns: Columns) -> None:
        if stages.is_claim(key[0]):
            self._gpu.hold(key[0], columns)

    def _add_gpu(self, columns: Columns) -> None:
        """Records of devices: streams share the rows of their lane, and the busy row grows."""
        columns = columns.take(np.argsort(columns.start_ns, kind="stable"))
        places = self._gpu.places(self._session, columns)
        for place in np.unique(places).tolist():
            depths = [row.last_end for key, row in sorted(self._rows.items()) if key[:2] == (place, 0)]
            for depth, part in enumerate(gpu_rows.split_by_depth(columns.take(places == place), depths)):
                if len(part):
                    self._add_to_row((place, 0, depth), part)
        self._gpu.add(self._session, columns)
        for place, anew, busy in self._gpu.newly_busy(self._session):
            if anew:
                gone = self._rows.pop((place, 0, 0), None)
                self._kept -= len(gone) if gone is not None else 0
            self._kept += len(busy)
            if len(busy):
                self._add_to_row((place, 0, 0), busy)

        for counter, anew, start, end, value in self._gpu.newly_charted():
            if anew:
                self._counters.pop(counter, None)
            self._series(counter).append({"t_ns": end, "start_ns": start, "value": value})

    def _add_runs(self, runs: Iterable[Run]) -> None:
        """Take in a saved trace. Nothing is copied of a run that is in order and of one lane."""
        counters, marks, devices = [], [], []
        for run in runs:
            columns = run.columns
            kinds = run.kinds
            if kinds is None:
                kinds = tuple(np.flatnonzero(np.bincount(columns.kind, minlength=256)).tolist())
            if KIND_COUNTER in kinds:
                counters.append(columns.take(columns.kind == KIND_COUNTER))
            if KIND_INSTANT in kinds:
                marks.append(columns.take(columns.kind == KIND_INSTANT))
            if KIND_FLOW in kinds:
                self._add_flows(columns.take(columns.kind == KIND_FLOW))
            if not all(0 <= kind < 256 and _IS_SPAN[kind] for kind in kinds):
                columns = columns.take(_IS_SPAN[columns.kind])
            if not len(columns):
                continue
            if any(0 <= kind < 256 and gpu_rows.IS_GPU[kind] for kind in kinds):
                gpu = gpu_rows.IS_GPU[columns.kind]
                devices.append(columns.take(gpu))
                columns = columns.take(~gpu)
                if not len(columns):
                    continue
            places = (
                set(self._lanes(np.array(run.names, np.int64)).tolist()) if run.names is not None else set()
            )
            if len(places) == 1 and stages.HELD_PLACE not in places:
                self._adopt((places.pop(), run.track, run.depth), columns)
                continue
            lanes = self._places(columns)
            for place in np.flatnonzero(np.bincount(lanes)).tolist():
                chosen = lanes == place
                mine = columns if chosen.all() else columns.take(chosen)
                self._adopt((place, run.track, run.depth), mine)
        found = self._possible(Columns.concat(devices))
        if len(found):
            self._spans += len(found)
            self._kept += len(found)
            self._bounds(int(found.start_ns.min()), int(found.end_ns.max()))
            self._add_gpu(found)
        told = self._possible(Columns.concat([*counters, *marks]))
        if counters:
            self._add_counters(
                told.take(np.flatnonzero(told.kind == KIND_COUNTER)[_by_end(told, KIND_COUNTER)])
            )
        if marks:
            self._add_marks(told.take(np.flatnonzero(told.kind == KIND_INSTANT)[_by_end(told, KIND_INSTANT)]))

    def _possible(self, columns: Columns) -> Columns:
        """The rows whose times can be."""
        low, high = columns.start_ns, columns.end_ns
        fine = (low >= -LONGEST_NS) & (low <= LONGEST_NS) & (high >= -LONGEST_NS) & (high <= LONGEST_NS)
        if fine.all():
            return columns
        self._impossible += len(columns) - int(np.count_nonzero(fine))
        return columns.take(fine)

    def _adopt(self, key: RowKey, columns: Columns) -> None:
        """Make rows of a file a row of the store."""
        row = self._row(key)
        start, end = columns.start_ns, columns.end_ns
        in_order = bool((start[1:] >= end[:-1]).all()) and not bool((end < start).any())
        if in_order and not len(row) and int(start[0]) >= -LONGEST_NS and int(end[-1]) <= LONGEST_NS:
            row.saved = columns
            row.last_end = int(end[-1])
            row.view = None
            self._spans += len(columns)
            self._bounds(int(start[0]), row.last_end)
            self._claim(key, columns)
            return
        columns = self._possible(columns)
        if len(columns):
            self._spans += len(columns)
            self._kept += len(columns)
            self._claim(key, columns)
            self._add_to_row(key, columns.take(np.lexsort((columns.end_ns, columns.start_ns))))

    def _row(self, key: RowKey) -> _Row:
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row()
        return row

    def _series(self, key: str) -> Growing:
        series = self._counters.get(key)
        if series is None:
            series = self._counters[key] = Growing(_COUNTER_TYPES)
        return series

    def _add_to_row(self, key: RowKey, columns: Columns) -> None:
        """Append spans of one row. They come in order of their end, which in a row is order of start too."""
        row = self._row(key)
        self._kept += row.own()
        start, end = columns.start_ns, columns.end_ns
        in_order = int(start[0]) >= row.last_end and bool((start[1:] >= end[:-1]).all())
        if not in_order or bool((end < start).any()):
            self._squeeze_in(key, columns)
            return
        row.spans.append(dict(columns.arrays()))
        row.last_end = int(end[-1])
        row.view = None
        self._bounds(int(start[0]), row.last_end)

    def _squeeze_in(self, key: RowKey, columns: Columns) -> None:
        """The rare case: spans out of order or overlapping (depths beyond 255, foreign or damaged traces).

        Those that fit between the row's spans are put there; those that overlap go one row deeper, and in the
        deepest are left out and counted as dropped.
        """
        row = self._row(key)
        columns = columns.replace(end_ns=np.maximum(columns.start_ns, columns.end_ns))
        columns = columns.take(np.lexsort((columns.end_ns, columns.start_ns)))
        held = row.columns()
        before = np.searchsorted(held.end_ns, columns.start_ns, side="right")
        # The first held span that ends after this one's start: it must not begin before this one's end.
        begins = np.append(held.start_ns, np.iinfo(np.int64).max)[before]
        free = begins >= columns.end_ns
        fits = np.zeros(len(columns), dtype=bool)
        last = np.iinfo(np.int64).min
        for i in np.flatnonzero(free).tolist():
            if columns.start_ns[i] >= last:
                fits[i] = True
                last = int(columns.end_ns[i])
        merged = Columns.concat([held, columns.take(fits)])
        merged = merged.take(np.lexsort((merged.end_ns, merged.start_ns)))
        row.spans = Growing(COLUMN_TYPES)
        if len(merged):
            row.spans.append(dict(merged.arrays()))
            row.last_end = int(merged.end_ns[-1])
            self._bounds(int(merged.start_ns[0]), row.last_end)
        row.view = None
        rest = columns.take(~fits)
        if len(rest) and key[2] < 255:
            self._add_to_row((key[0], key[1], key[2] + 1), rest)
        elif len(rest):
            self._kept -= len(rest)
            self._dropped += len(rest)

    def _add_counters(self, columns: Columns) -> None:
        if not len(columns):
            return
        self._bounds(None, int(columns.end_ns.max()))
        value = np.where(columns.flags & FLAG_F64, columns.a0.view(np.float64), columns.a0)
        for number in np.unique(columns.name).tolist():
            which = columns.name == number
            names = self._session.names
            name = names[number].text if number < len(names) else f"<name {number}>"
            self._series(name).append(
                {
                    "t_ns": columns.end_ns[which],
                    "start_ns": columns.start_ns[which],
                    "value": value[which],
                }
            )

    def _add_marks(self, columns: Columns) -> None:
        columns = columns.take(slice(-MARKS_KEPT, None))
        for i in range(len(columns)):
            record = span_record(self._session, columns, i, "other")
            self._bounds(None, record.end_ns)
            self._marks.append(Mark(record.start_ns, record.name, record.a0, record.a1, record.track))
        del self._marks[:-MARKS_KEPT]

    def _add_flows(self, columns: Columns) -> None:
        columns = self._possible(columns)
        if len(columns):
            kept = Columns.concat([self._flows, columns])
            self._flows = kept.take(slice(-FLOWS_KEPT, None))

    def _set_open(self, columns: Columns) -> None:
        for row in self._rows.values():
            if row.open is not None:
                row.open = None
                row.view = None
        columns = self._possible(columns)
        self._gpu.hold_now([])
        if not len(columns):
            return
        self._bounds(int(columns.start_ns.min()), int(columns.end_ns.max()))
        lanes = self._places(columns)
        claimed = [i for i in range(len(columns)) if stages.is_claim(int(lanes[i]))]
        self._gpu.hold_now(
            [(int(lanes[i]), int(columns.start_ns[i]), int(columns.end_ns[i])) for i in claimed]
        )
        for i in range(len(columns)):
            place = int(lanes[i])
            record = span_record(self._session, columns, i, stages.lane_at(place).key)
            row = self._row((place, record.track, record.depth))
            row.open = record
            row.view = None

    def _bounds(self, first: int | None, last: int) -> None:
        if first is not None and (self._first_ns is None or first < self._first_ns):
            self._first_ns = first
        self._last_ns = max(self._last_ns, last)

    def _retain(self) -> None:
        """Drop the oldest spans until an eighth of the limit is free again.

        The session began when it did: the origin of the time axis, and device time since then, stay.
        """
        ends = np.concatenate([row.spans["end_ns"] for row in self._rows.values()])  # a file's are not ours
        keep = self._limit_bytes // ROW_BYTES * 7 // 8
        if keep >= len(ends):
            return
        cut = np.partition(ends, len(ends) - keep - 1)[len(ends) - keep - 1]
        for row in self._rows.values():
            count = int(np.searchsorted(row.spans["end_ns"], cut, side="right"))
            if count:
                row.spans.drop(count)
                row.view = None
                self._kept -= count
                self._dropped += count
        for series in self._counters.values():
            series.drop(int(np.searchsorted(series["t_ns"], cut, side="right")))
        self._gpu.forget(int(cut))

    def _make_snapshot(self) -> Snapshot:
        problems = self._problems
        if self._dropped:
            problems = (*problems, f"the oldest {self._dropped:,} spans are no longer kept")
        if self._impossible:
            problems = (*problems, f"{self._impossible:,} records with impossible times were left out")
        first = self._first_ns
        if first is None:
            first = min((int(c["start_ns"][0]) for c in self._counters.values() if len(c)), default=0)
        return Snapshot(
            revision=self._revision,
            session=self._session,
            rows=tuple(self._make_rows()),
            counters=tuple(self._make_counters()),
            marks=tuple(self._marks),
            first_ns=first,
            last_ns=self._last_ns,
            now_ns=self._now_ns,
            spans=self._spans,
            lost=self._lost,
            ended=self._ended,
            problems=problems,
            viewer_cpu=self.viewer_cpu,
            devices=self._gpu.devices(),
            flows=self._flows,
        )

    def _make_rows(self) -> Iterable[RowData]:
        meta = self._session.meta
        keys = sorted(key for key, row in self._rows.items() if len(row) or row.open is not None)
        filled = {key[0] for key in keys}
        proves = "backend" in meta or any(stages.lane_at(place).key in stages.FIXED for place in filled)
        if proves:
            empty = {stages.ORDER[key] for key in stages.FIXED} - filled
            keys = sorted(keys + [(place, 0, 0) for place in empty])
        for key in keys:
            lane = stages.lane(stages.lane_at(key[0]).key, meta)
            row = self._rows.get(key)
            if key[0] not in filled or row is None:
                yield RowData(lane, 0, 0, Columns.empty(), missing=stages.missing(lane.key, meta))
                continue
            if row.view is None:
                row.view = RowData(lane, key[1], key[2], row.columns(), row.open)
            yield row.view

    def _make_counters(self) -> Iterable[CounterData]:
        meta = self._session.meta
        named = {key.removeprefix("missing.") for key in meta if key.startswith("missing.")}
        last = len(stages.COUNTERS)
        for key in sorted(named | set(self._counters), key=lambda k: (stages.COUNTER_ORDER.get(k, last), k)):
            shown = stages.counter(key)
            series = self._counters.get(key) or Growing(_COUNTER_TYPES)
            yield CounterData(
                key=key,
                label=shown.label,
                unit=shown.unit,
                kind=shown.kind,
                role=shown.role,
                t_ns=series["t_ns"],
                start_ns=series["start_ns"],
                value=series["value"],
                top=_number(meta.get(f"top.{key}")) or shown.top,
                missing=None if len(series) else meta.get(f"missing.{key}", "no samples yet"),
            )


def _by_end(columns: Columns, kind: int) -> NDArray[np.int64]:
    """Order of the ends of the rows of one kind."""
    order: NDArray[np.int64] = np.argsort(columns.end_ns[columns.kind == kind], kind="stable")
    return order


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
