"""The store: batches in, snapshots out. Numpy columns a row, no Python object a span.

One thread appends (the collector), any thread takes snapshots. Columns only grow, in arrays that are
exchanged when full, so a snapshot is a set of views and costs nothing to keep. Retention drops the oldest
spans of all rows when their bytes pass a limit. The rows of a saved trace are adopted as they lie in its file
and count for nothing: the system may take their memory back at any time.
"""

import threading
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from cuzk_top import gpu_rows, stages
from cuzk_top.columns import Packed
from cuzk_top.counter_series import CounterSeries
from cuzk_top.devicetime import Device
from cuzk_top.model import (
    KIND_COUNTER,
    KIND_FLOW,
    KIND_INSTANT,
    SPAN_KINDS,
    Batch,
    Columns,
    Mark,
    RowData,
    Run,
    Session,
    Snapshot,
    SpanRecord,
    span_record,
)
from cuzk_top.span_rows import RowKey, SpanRows

DEFAULT_LIMIT_BYTES = 1 << 30
"""About 12 million spans."""
MOST_A_RECORD = 200
"""Bytes; so much is room for a record, and what is derived of it."""
MARKS_KEPT = 10_000
FLOWS_KEPT = 100_000

LONGEST_NS = 1 << 61
"""Times beyond this, before or after the clock's zero, are of a damaged trace: 73 years leave room to add."""

_IS_SPAN = np.zeros(256, dtype=bool)
_IS_SPAN[list(SPAN_KINDS)] = True

_NO_GROUP = 5
_GROUP = np.full(256, _NO_GROUP, np.uint8)
"""By kind: 0 a device's, 1 another span, 2 a counter, 3 a mark, 4 a flow."""
_GROUP[_IS_SPAN] = 1
_GROUP[gpu_rows.IS_GPU] = 0
_GROUP[[KIND_COUNTER, KIND_INSTANT, KIND_FLOW]] = 2, 3, 4


class Store:
    """Columns a row, a revision number, retention by bytes. `viewer_cpu` is set by the collector,
    `limit_bytes` may be set anew.

    `live`: of a session that is watched while it runs. Then older spans are kept narrow, and records of
    devices that come poll after poll are taken in at every other one, which costs half; `settle` takes in
    what waits. And the limit is on all that is kept, counters and what is derived of devices included.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES, *, live: bool = False) -> None:
        self.viewer_cpu: float | None = None
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._revision = 0
        self._rows = SpanRows(sealing=live)
        self._counters = CounterSeries()
        self._marks: list[Mark] = []
        self._shown_marks: tuple[Mark, ...] = ()
        self._flows = Columns.empty()
        self._session = Session()
        self._lane_of: NDArray[np.int64] = np.array([stages.ORDER["other"]])
        """Place by the number of a host span's name; the last is of those that the session lacks."""
        self._spans = 0
        self._lost = 0
        self._now_ns = 0
        self._first_ns: int | None = None
        self._last_ns = 0
        self._ended = False
        self._problems: tuple[str, ...] = ()
        self._impossible = 0
        self._snapshot: Snapshot | None = None
        self._gpu = gpu_rows.GpuRows()
        self._live = live
        self._unweighed = 0
        """Records that came since their bytes were counted."""
        self._waiting: Packed | None = None
        """Records of devices that were not taken in yet."""
        self._rested = True
        """Whether all that devices did is shown."""
        self._devices: tuple[Device, ...] | None = ()
        self._open = Columns.empty()
        self._claims: list[tuple[int, int, int]] = []
        self._told: Mapping[str, str] | None = None
        """The metadata that were looked at last."""

    def append(self, batch: Batch) -> None:
        """Take in what a source yielded."""
        with self._lock:
            self._revision += 1
            self._learn(batch.session)
            self._lost = batch.lost
            self._now_ns = batch.now_ns
            self._ended = batch.ended
            self._problems = batch.problems
            gpu = self._add(Packed.of(batch.columns)) if len(batch.columns) else False
            if batch.runs:
                self._add_runs(batch.runs)
            if self._waiting is not None and (batch.ended or not gpu):
                self._take_waiting()
                gpu = True
            if (batch.ended or not gpu) and not self._rested:
                self._rested = True
                self._gpu.rest()
                self._show_devices()
            if batch.open is self._open:
                self._stay_open(batch.now_ns)
            else:
                self._open = batch.open
                self._set_open(batch.open)
            self._unweighed += len(batch.columns)
            if not self._live or self._unweighed * MOST_A_RECORD > self.limit_bytes // 16:
                self._unweighed = 0
                self._retain()

    def settle(self) -> None:
        """Take in what waits."""
        with self._lock:
            self._revision += self._waiting is not None
            self._take_waiting()

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
        retold = self._told is not session.meta and mine.meta != session.meta
        self._told = session.meta
        if (
            retold
            or len(mine.names) != len(session.names)
            or len(mine.tracks) != len(session.tracks)
            or len(mine.anchors) != len(session.anchors)
            or (mine.pid, mine.name, mine.started_ns) != (session.pid, session.name, session.started_ns)
        ):
            if retold:
                self._rows.renew()  # the back end decides how lanes look
            self._session = session.copy()
        known = len(self._lane_of) - 1
        if known < len(self._session.names):
            new = [stages.place_of(name.text) for name in self._session.names[known:]]
            self._lane_of = np.array([*self._lane_of[:-1].tolist(), *new, stages.ORDER["other"]])

    def _places(self, columns: Columns) -> NDArray[np.int64]:
        """Place of each host span's lane."""
        places: NDArray[np.int64] = self._lane_of.take(columns.name, mode="clip")
        held = places == stages.HELD_PLACE
        if held.any():
            places[held] = self._gpu.claims(self._session, columns.take(held))
        return places

    def _add(self, columns: Packed) -> bool:
        """Take in new records; whether there were some of devices among them."""
        start, end = columns.start_ns, columns.end_ns
        if bool((end < start).any()):
            columns = columns.replace(end_ns=np.maximum(start, end))
        groups = _GROUP[columns.kind]
        counts = np.bincount(groups, minlength=_NO_GROUP).tolist()
        parts = [
            columns if count == len(columns) else columns.take(groups == group) if count else None
            for group, count in enumerate(counts)
        ]
        on_gpu, on_host, counters, marks, flows, *_ = parts
        if on_gpu is not None:
            if self._waiting is not None:
                self._take_waiting(on_gpu)
            elif self._live and not self._rested:
                self._waiting = on_gpu
            else:
                self._add_gpu(on_gpu)
        if on_host is not None:
            self._add_host(on_host)
        if counters is not None:
            self._add_counters(counters)
        if marks is not None:
            self._add_marks(marks)
        if flows is not None:
            self._add_flows(flows)
        return on_gpu is not None

    def _add_host(self, columns: Packed) -> None:
        self._count(columns)
        places = self._lane_of.take(columns.name, mode="clip")
        held = places == stages.HELD_PLACE
        if held.any():
            claims = columns.take(held)
            places[held] = claimed = self._gpu.claims(self._session, claims)
            self._gpu.hold(claimed, claims)
            self._devices = None
        keys = places << 40
        keys |= columns.track.astype(np.int64) << 8
        keys |= columns.depth
        self._rows.add(keys, columns)

    def _count(self, columns: Columns) -> None:
        """Count spans, and widen the session's bounds to have them."""
        self._spans += len(columns)
        self._bounds(int(columns.start_ns.min()), int(columns.end_ns.max()))

    def _take_waiting(self, *more: Packed) -> None:
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self._add_gpu(Packed.joined([waiting, *more]))

    def _add_gpu(self, columns: Columns) -> None:
        """Records of devices: streams share the rows of their lane, and the busy row grows."""
        self._count(columns)
        columns = columns.take(columns.start_ns.argsort(kind="stable"))
        self._rows.add_overlapping(self._gpu.places(self._session, columns), columns)
        self._gpu.add(self._session, columns)
        self._rested = False
        self._show_devices()

    def _show_devices(self) -> None:
        """Bring what is derived of devices up to date: when each worked."""
        self._devices = None
        for place, busy in self._gpu.newly_busy():
            self._rows.share((place, 0, 0), busy)
        for counter, back, start, end, value in self._gpu.newly_charted():
            self._counters.take_back(counter, back)
            self._counters.add(counter, np.stack([start, end, value.view(np.int64)]))

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
            named = self._lane_of.take(run.names, mode="clip").tolist() if run.names else ()
            places = set(named)
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
        if self._rows.adopt(key, columns, LONGEST_NS):
            self._spans += len(columns)
            self._bounds(int(columns.start_ns[0]), int(columns.end_ns[-1]))
            self._claim(key, columns)
            return
        columns = self._possible(columns)
        if len(columns):
            self._count(columns)
            self._claim(key, columns)
            self._rows.put(key, columns.take(np.lexsort((columns.end_ns, columns.start_ns))))

    def _claim(self, key: RowKey, columns: Columns) -> None:
        if stages.is_claim(key[0]):
            self._gpu.hold(np.full(len(columns), key[0], np.int64), columns)
            self._devices = None

    def _add_counters(self, columns: Columns) -> None:
        if not len(columns):
            return
        self._bounds(None, int(columns.end_ns.max()))
        self._counters.take_in(Packed.of(columns), self._session.names)

    def _add_marks(self, columns: Columns) -> None:
        if not len(columns):
            return
        columns = columns.take(slice(-MARKS_KEPT, None))
        for i in range(len(columns)):
            record = span_record(self._session, columns, i, "other")
            self._bounds(None, record.end_ns)
            self._marks.append(Mark(record.start_ns, record.name, record.a0, record.a1, record.track))
        del self._marks[:-MARKS_KEPT]
        self._shown_marks = tuple(self._marks)

    def _add_flows(self, columns: Columns) -> None:
        columns = self._possible(columns)
        if len(columns):
            kept = Columns.concat([self._flows, columns])
            self._flows = kept.take(slice(-FLOWS_KEPT, None))

    def _set_open(self, columns: Columns) -> None:
        columns = self._possible(columns)
        records: list[tuple[RowKey, SpanRecord]] = []
        claims: list[tuple[int, int, int]] = []
        if len(columns):
            self._bounds(int(columns.start_ns.min()), int(columns.end_ns.max()))
            for i, place in enumerate(self._places(columns).tolist()):
                record = span_record(self._session, columns, i, stages.lane_at(place).key)
                records.append(((place, record.track, record.depth), record))
                if stages.is_claim(place):
                    claims.append((place, record.start_ns, record.end_ns))
        self._rows.set_open(records)
        self._hold_now(claims)

    def _stay_open(self, now: int) -> None:
        """The spans that were open before are open still."""
        if len(self._open):
            self._bounds(None, now)
            self._rows.stay_open(now)
            if self._claims:
                self._hold_now([(place, start, max(end, now)) for place, start, end in self._claims])

    def _hold_now(self, claims: list[tuple[int, int, int]]) -> None:
        if claims or self._claims:
            self._claims, self._devices = claims, None
            self._gpu.hold_now(claims)

    def _bounds(self, first: int | None, last: int) -> None:
        if first is not None and (self._first_ns is None or first < self._first_ns):
            self._first_ns = first
        self._last_ns = max(self._last_ns, last)

    def _retain(self) -> None:
        """Drop the oldest spans until an eighth of the limit is free again.

        The session began when it did: the origin of the time axis, and device time since then, stay.
        """
        size = self._rows.size_bytes()
        if self._live:
            size += self._counters.size_bytes() + self._gpu.size_bytes()
        if size <= self.limit_bytes:
            return
        cut = self._rows.drop_oldest(self._rows.kept * self.limit_bytes // size * 7 // 8)
        if cut is None and self._live:  # a process that writes no spans
            cut = self._now_ns - (self._now_ns - self._counters.first_ns()) * 7 // 8
        if cut is not None:
            self._devices = None
            self._counters.drop_before(cut)
            self._gpu.forget(cut)
            self._show_devices()

    def _make_snapshot(self) -> Snapshot:
        problems = self._problems
        if self._devices is None:
            self._devices = self._gpu.devices()
        if self._rows.dropped:
            problems = (*problems, f"the oldest {self._rows.dropped:,} spans are no longer kept")
        if self._impossible:
            problems = (*problems, f"{self._impossible:,} records with impossible times were left out")
        return Snapshot(
            revision=self._revision,
            session=self._session,
            rows=tuple(self._rows.shown(self._session.meta)),
            counters=self._counters.shown(self._session),
            marks=self._shown_marks,
            first_ns=self._first_ns if self._first_ns is not None else self._counters.first_ns(),
            last_ns=self._last_ns,
            now_ns=self._now_ns,
            spans=self._spans,
            lost=self._lost,
            ended=self._ended,
            problems=problems,
            viewer_cpu=self.viewer_cpu,
            devices=self._devices,
            flows=self._flows,
        )


def _by_end(columns: Columns, kind: int) -> NDArray[np.int64]:
    """Order of the ends of the rows of one kind."""
    order: NDArray[np.int64] = np.argsort(columns.end_ns[columns.kind == kind], kind="stable")
    return order
