"""The store's rows of spans: one a lane, track and depth, in each of which no span overlaps another."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cuzk_top import gpu_rows, stages
from cuzk_top.columns import Packed
from cuzk_top.growing import TAKEN_OVER, GrowingColumns
from cuzk_top.model import Columns, RowData, SpanRecord

RowKey = tuple[int, int, int]
"""Place of the lane, track, depth: sorts into screen order."""

EARLIEST_NS = int(np.iinfo(np.int64).min)


class _Row:
    """One row's closed spans, its open one, and the view made of them last."""

    __slots__ = ("key", "last_end", "open", "place", "saved", "spans", "view")

    def __init__(self, key: RowKey, sealing: bool) -> None:
        self.key = key
        self.spans = GrowingColumns(sealing=sealing)
        self.saved: Columns | None = None  # memory of a file's, or shared: in place of `spans`
        self.open: SpanRecord | None = None
        self.view: RowData | None = None
        self.place = -1  # among those that are shown
        self.last_end = EARLIEST_NS

    def __len__(self) -> int:
        return len(self.spans) if self.saved is None else len(self.saved)

    def columns(self) -> Columns:
        return self.spans.columns() if self.saved is None else self.saved

    def own(self) -> int:
        """Copy what was a file's, so that more can be put behind it; the number of spans copied."""
        if self.saved is None:
            return 0
        saved, self.saved = self.saved, None
        self.spans.append(saved)
        return len(saved)


class SpanRows:
    """Rows by key. `kept` counts the spans that take memory of ours, `dropped` those no longer kept.

    `sealing`: older spans are kept narrow.
    """

    def __init__(self, *, sealing: bool = False) -> None:
        self._sealing = sealing
        self.kept = 0
        self.dropped = 0
        self._rows: dict[RowKey, _Row] = {}
        self._packed_keys: dict[int, _Row] = {}
        self._shown: list[RowData] | None = None
        self._stale: list[_Row] = []
        """Rows whose view among those is no longer true."""
        self._by_place: dict[int, list[_Row]] = {}
        """Of track 0, by depth."""
        self._opened: list[_Row] = []
        self._empty: dict[int, RowData] = {}
        self._lanes: dict[int, stages.Lane] = {}

    def add(self, keys: NDArray[np.int64], columns: Packed) -> None:
        """Append spans, none of which ends before its start; those of a key in order of their ends.

        `keys`: of each span, place << 40 | track << 8 | depth.
        """
        self.kept += len(columns)
        if bool((keys[1:] < keys[:-1]).any()):
            order = keys.argsort(kind="stable")
            keys, columns = keys[order], columns.take(order)
        start, end = columns.start_ns, columns.end_ns
        same = keys[1:] == keys[:-1]
        edges = [0, *((~same).nonzero()[0] + 1).tolist(), len(keys)]
        # In nearly all batches each row's part is in order; then only its ends need a look.
        fine = not bool(((start[1:] < end[:-1]) & same).any())
        firsts, starts = keys[edges[:-1]].tolist(), start[edges[:-1]].tolist()
        lasts = end[np.array(edges[1:]) - 1].tolist()
        for i, packed in enumerate(firsts):
            row = self._packed_keys.get(packed)
            if row is None:
                row = self._row((packed >> 40, packed >> 8 & 0xFFFFFFFF, packed & 0xFF))
                self._packed_keys[packed] = row
            few = edges[i + 1] - edges[i] < TAKEN_OVER
            if fine and few and starts[i] >= row.last_end and row.saved is None:
                row.spans.append_block(columns.block[:, edges[i] : edges[i + 1]])
                row.last_end = lasts[i]
                self._changed(row)
            else:
                self._put(row.key, columns.take(slice(edges[i], edges[i + 1])))

    def add_overlapping(self, places: NDArray[np.int64], columns: Columns) -> None:
        """Put spans of devices, in order of their starts, into the rows of their lanes, each at the first
        depth where there is room.
        """
        low = int(places.min())
        small = places - low
        if int(small.max()) <= 0xFFFF:  # sorted in linear time
            small = small.astype(np.uint16)
        order = small.argsort(kind="stable")
        places, columns = places[order], columns.take(order)
        start, end = columns.start_ns, columns.end_ns
        same = places[1:] == places[:-1]
        edges = [0, *((~same).nonzero()[0] + 1).tolist(), len(places)]
        overlap = set(places[1:][(start[1:] < end[:-1]) & same].tolist())
        depth = np.zeros(len(places), np.int64)
        for first, beyond in pairwise(edges):
            place = int(places[first])
            free = [row.last_end for row in self._by_place.get(place, ())]
            if place in overlap or (free and start[first] < free[0]):
                depth[first:beyond] = gpu_rows.depths(
                    start[first:beyond].tolist(), end[first:beyond].tolist(), free
                )
        self.add(places << 40 | depth, Packed.of(columns))

    def adopt(self, key: RowKey, columns: Columns, longest_ns: int) -> bool:
        """Make spans of a file a row as they lie, if they are in order, there are none yet, and no time is
        beyond `longest_ns`; whether it was done.
        """
        row = self._row(key)
        start, end = columns.start_ns, columns.end_ns
        in_order = bool((start[1:] >= end[:-1]).all()) and not bool((end < start).any())
        if not in_order or len(row) or int(start[0]) < -longest_ns or int(end[-1]) > longest_ns:
            return False
        self.share(key, columns)
        return True

    def share(self, key: RowKey, columns: Columns) -> None:
        """Make a row of spans whose memory is not the row's."""
        row = self._row(key)
        row.saved = columns
        row.last_end = int(columns.end_ns[-1]) if len(columns) else EARLIEST_NS
        self._changed(row)

    def put(self, key: RowKey, columns: Columns) -> None:
        """Spans of one row in order of their ends."""
        self.kept += len(columns)
        self._put(key, columns)

    def _put(self, key: RowKey, columns: Columns) -> None:
        """Append spans of one row, which are counted already. Order of their ends is that of their starts."""
        row = self._row(key)
        self.kept += row.own()
        start, end = columns.start_ns, columns.end_ns
        in_order = int(start[0]) >= row.last_end and bool((start[1:] >= end[:-1]).all())
        if not in_order or bool((end < start).any()):
            self._squeeze_in(key, columns)
        else:
            self._append(row, columns, int(end[-1]))

    def _append(self, row: _Row, columns: Columns, last_end: int) -> None:
        row.spans.append(columns)
        row.last_end = last_end
        self._changed(row)

    def _changed(self, row: _Row) -> None:
        """Its view is no longer true; nor are all rows' where it shows for the first time, or no more."""
        if row.place < 0 or (row.open is None and not len(row)):
            self._shown = None
        elif row.view is not None:
            self._stale.append(row)
        row.view = None

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
        last = EARLIEST_NS
        for i in np.flatnonzero(free).tolist():
            if columns.start_ns[i] >= last:
                fits[i] = True
                last = int(columns.end_ns[i])
        merged = Columns.concat([held, columns.take(fits)])
        merged = merged.take(np.lexsort((merged.end_ns, merged.start_ns)))
        row.spans = GrowingColumns(sealing=self._sealing)
        if len(merged):
            self._append(row, merged, int(merged.end_ns[-1]))
        self._changed(row)
        rest = columns.take(~fits)
        if len(rest) and key[2] < 255:
            self._put((key[0], key[1], key[2] + 1), rest)
        elif len(rest):
            self.kept -= len(rest)
            self.dropped += len(rest)

    def set_open(self, records: Iterable[tuple[RowKey, SpanRecord]]) -> None:
        """What is open now, in place of what was."""
        before, self._opened = self._opened, []
        for row in before:
            row.open = None
        for key, record in records:
            row = self._row(key)
            row.open = record
            self._opened.append(row)
        for row in {*before, *self._opened}:
            self._changed(row)

    def stay_open(self, now_ns: int) -> None:
        """The same is still open."""
        for row in self._opened:
            if row.open is not None and row.open.end_ns < now_ns:
                row.open = replace(row.open, end_ns=now_ns)
                self._changed(row)

    def renew(self) -> None:
        """Forget the views: what the session says of lanes has changed."""
        self._empty.clear()
        self._lanes.clear()
        self._shown = None
        for row in self._rows.values():
            row.view = None

    def size_bytes(self) -> int:
        """Memory of ours that the spans take."""
        return sum(row.spans.size_bytes for row in self._rows.values())

    def drop_oldest(self, keep: int) -> int | None:
        """Keep so many of the newest spans that are ours; the end by which the others ended, or None."""
        if keep >= sum(len(row.spans) for row in self._rows.values()):
            return None
        ends = np.concatenate([row.spans.columns().end_ns for row in self._rows.values()])
        cut = np.partition(ends, len(ends) - keep - 1)[len(ends) - keep - 1]
        for row in self._rows.values():
            count = int(np.searchsorted(row.spans.columns().end_ns, cut, side="right"))
            if count:
                row.spans.drop(count)
                self._changed(row)
                self.kept -= count
                self.dropped += count
        return int(cut)

    def shown(self, meta: Mapping[str, str]) -> list[RowData]:
        """The rows in screen order, and those of the lanes that a proof always has."""
        if self._shown is None:
            self._shown = self._arranged(meta)
        else:
            for row in self._stale:
                self._shown[row.place] = row.view or self._view(row, meta)
        self._stale.clear()
        return self._shown

    def _arranged(self, meta: Mapping[str, str]) -> list[RowData]:
        rows = [row for _, row in sorted(self._rows.items()) if row.open is not None or len(row)]
        filled = {row.key[0] for row in rows}
        proves = "backend" in meta or not _FIXED_PLACES.isdisjoint(filled)
        shown = [(row.key, row.view or self._view(row, meta)) for row in rows]
        if proves and not filled.issuperset(_FIXED_PLACES):
            shown += [((place, 0, 0), self._nothing(place, meta)) for place in _FIXED_PLACES - filled]
            shown.sort(key=lambda one: one[0])
        places = {id(view): place for place, (_, view) in enumerate(shown)}
        for row in self._rows.values():
            row.place = places.get(id(row.view), -1)
        return [view for _, view in shown]

    def _view(self, row: _Row, meta: Mapping[str, str]) -> RowData:
        place, track, depth = row.key
        row.view = RowData(self._lane(place, meta), track, depth, row.columns(), row.open)
        return row.view

    def _lane(self, place: int, meta: Mapping[str, str]) -> stages.Lane:
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = stages.lane(stages.lane_at(place).key, meta)
        return lane

    def _nothing(self, place: int, meta: Mapping[str, str]) -> RowData:
        view = self._empty.get(place)
        if view is None:
            lane = self._lane(place, meta)
            view = RowData(lane, 0, 0, Columns.empty(), missing=stages.missing(lane.key, meta))
            self._empty[place] = view
        return view

    def _row(self, key: RowKey) -> _Row:
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row(key, self._sealing)
            if key[1] == 0:
                self._by_place[key[0]] = [
                    other for known, other in sorted(self._rows.items()) if known[:2] == key[:2]
                ]
        return row


_FIXED_PLACES = frozenset(stages.ORDER[key] for key in stages.FIXED)
