"""What goes where on a screen of a given size: pure arithmetic, no Textual.

From top to bottom: header (2), scale line (1), axis (1), selection (1), lanes, counters' title (1), counters,
tabs (1), panel, keys (1). Below 80 columns or 24 rows the compact form drops the scale, selection and
counters' lines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cuzk_top.model import CounterData, RowData, Snapshot
from cuzk_top.screens.analysis import NO_INSIGHT, Insight
from cuzk_top.screens.lanes import DisplayRow, Fold, choose, display_rows, first_name, scroll
from cuzk_top.viewport import ViewState

MIN_WIDTH, MIN_HEIGHT = 60, 16
COMPACT_WIDTH, COMPACT_HEIGHT = 80, 24


@dataclass(frozen=True, slots=True)
class Layout:
    """Where things stand; x positions are columns of the screen."""

    width: int
    height: int
    compact: bool
    label_width: int
    columns: int
    numbers_x: int
    rows: tuple[DisplayRow, ...]
    counters: tuple[CounterData, ...]
    hidden: int
    panel_height: int
    shape: object = None
    """Another object whenever more has changed than the spans of the rows and the counters' samples."""

    @property
    def timeline_height(self) -> int:
        """Lines of the time area, with its scale, axis and titles."""
        return len(self.rows) + len(self.counters) + (1 if self.compact else 4)

    @property
    def first_row_y(self) -> int:
        """Line of the first lane in the time area."""
        return 1 if self.compact else 3


_KEEP_COUNTERS = (
    "host.minflt", "host.cpu", "gpu.0.kernel", "host.rss", "gpu.0.util", "gpu.0.memory", "gpu.0.pcie_in",
    "host.majflt", "gpu.0.power",
)  # fmt: skip
"""Counters by how long they are kept: major faults are most often a row of nothing."""


def _choose_counters(counters: tuple[CounterData, ...], room: int) -> tuple[CounterData, ...]:
    """Counters with data before those without, in their own order."""
    if len(counters) <= room:
        return counters
    keep = {key: rank for rank, key in enumerate(_KEEP_COUNTERS)}
    ranked = sorted(
        range(len(counters)),
        key=lambda i: (counters[i].missing is not None, keep.get(counters[i].key, len(keep)), i),
    )
    return tuple(counters[i] for i in sorted(ranked[:room]))


def arrange(
    snapshot: Snapshot, view: ViewState, width: int, height: int, insight: Insight = NO_INSIGHT
) -> Layout | None:
    """The layout, or None when the terminal is too small for any."""
    if width < MIN_WIDTH or height < MIN_HEIGHT:
        return None
    compact = width < COMPACT_WIDTH or height < COMPACT_HEIGHT
    label_width = 9 if compact else 13
    numbers_width = 9 if compact else 17
    body = height - (5 if compact else 8)
    panel = (1 if view.show_all else 6) if compact else (4 if view.show_all else 7 if height < 34 else 9)
    counters_room = 2 if compact else 6
    counters = _choose_counters(snapshot.counters, min(counters_room, max(1, body - panel - 3)))
    room = max(1, body - panel - len(counters))
    everything = display_rows(snapshot, view, insight, Fold())
    rows = everything
    several = len(snapshot.devices) > 1
    if not view.show_all and (compact or several):
        rows = display_rows(snapshot, view, insight, Fold(workers=compact, gpus=True, into_busy=compact))
    if len(rows) > room and "msm" not in view.unfolded:
        folded = not view.show_all and (compact or several)
        fold = Fold(True, folded and compact, folded, folded and compact)
        rows = display_rows(snapshot, view, insight, fold)
    if len(rows) > room:
        rows = scroll(rows, room, view.cursor) if view.show_all else choose(rows, room, view)
    hidden = len(everything) - sum(row.stands for row in rows)
    numbers_x = width - numbers_width
    return Layout(
        width,
        height,
        compact,
        label_width,
        numbers_x - 1 - label_width - (0 if compact else 1),
        numbers_x,
        tuple(rows),
        counters,
        max(0, hidden),
        body - len(rows) - len(counters),
        object(),
    )


class Arranger:
    """Arranges from frame to frame: most often only spans have come, and all stays where it is.

    What has nothing new is the same object as before: the layout, its rows, its counters.
    """

    def __init__(self) -> None:
        self._key: object = None
        self._snapshot: Snapshot | None = None
        self._layout: Layout | None = None
        self._places: list[tuple[int, ...]] = []
        """Of each of the layout's rows: which of the snapshot's rows it shows."""

    def arrange(
        self, snapshot: Snapshot, view: ViewState, width: int, height: int, insight: Insight
    ) -> Layout | None:
        """What `arrange` gives."""
        key = (
            width, height, insight, view.cursor, view.unfolded, view.pinned, view.hidden, view.show_all
        )  # fmt: skip
        before, self._snapshot = self._snapshot, snapshot
        changed = _changed(before, snapshot) if before is not None and key == self._key else None
        if changed is None or before is None:
            self._key = key
            layout = arrange(snapshot, view, width, height, insight)
            if layout is not None and self._layout is not None:
                layout = _kept(self._layout, layout)
            self._layout = layout
            at = {id(row): place for place, row in enumerate(snapshot.rows)}
            rows = layout.rows if layout is not None else ()
            self._places = [tuple(at[id(source)] for source in row.sources) for row in rows]
        elif self._layout is not None:
            self._layout = self._renewed(self._layout, before, snapshot, changed)
        return self._layout

    def _renewed(self, layout: Layout, before: Snapshot, after: Snapshot, changed: set[int]) -> Layout:
        """The same layout of a newer snapshot, in which so many rows are others."""
        rows, counters = layout.rows, layout.counters
        if changed:
            rows = tuple(
                row
                if changed.isdisjoint(places)
                else row._replace(sources=tuple(after.rows[place] for place in places))
                for row, places in zip(rows, self._places, strict=True)
            )
        if before.counters != after.counters:
            named = {counter.key: counter for counter in after.counters}
            counters = tuple(named[counter.key] for counter in counters)
        if rows is layout.rows and counters is layout.counters:
            return layout
        return replace(layout, rows=rows, counters=counters)


def _kept(old: Layout, new: Layout) -> Layout:
    """The new layout with what is the same in the old one: a newer insight seldom brings other rows."""
    if len(old.rows) == len(new.rows):
        rows = tuple(was if was == now else now for was, now in zip(old.rows, new.rows, strict=True))
        new = replace(new, rows=rows)
    same = replace(new, rows=old.rows, counters=old.counters, shape=old.shape) == old
    if same and _looks(old) == _looks(new):
        return replace(new, shape=old.shape)
    return new


def _looks(layout: Layout) -> list[object]:
    """All of the rows and counters but their spans and samples."""
    rows = [(row._replace(sources=()), row.empty) for row in layout.rows]
    return [*rows, *((counter.key, counter.label, counter.missing) for counter in layout.counters)]


def _changed(before: Snapshot, after: Snapshot) -> set[int] | None:
    """Places of the rows that are other objects; None where the rows and counters are others than what there
    was, not only what is in them.
    """
    if len(before.rows) != len(after.rows) or len(before.counters) != len(after.counters):
        return None
    if [device.index for device in before.devices] != [device.index for device in after.devices]:
        return None
    for was, now in zip(before.counters, after.counters, strict=True):
        if was is not now and (was.key, was.missing, was.label) != (now.key, now.missing, now.label):
            return None
    changed: set[int] = set()
    for place, (old, new) in enumerate(zip(before.rows, after.rows, strict=True)):
        if old is new:
            continue
        same = old.track == new.track and old.depth == new.depth and old.missing == new.missing
        if not same or (old.lane is not new.lane and old.lane != new.lane):
            return None
        if not _same_first(old, new):
            return None
        changed.add(place)
    return changed


def _same_first(old: RowData, new: RowData) -> bool:
    """Whether the first spans of a row have the same name, or begin at the same moment: then they are one, or
    at least of one thread, which is all that the name is asked for.
    """
    was, now = old.columns, new.columns
    if len(was) and (was is now or (len(now) and was.start_ns.item(0) == now.start_ns.item(0))):
        return True
    return first_name(old) == first_name(new)
