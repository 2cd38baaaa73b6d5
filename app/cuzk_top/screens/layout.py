"""What goes where on a screen of a given size: pure arithmetic, no Textual.

From top to bottom: header (2), scale line (1), axis (1), selection (1), lanes, counters' title (1), counters,
tabs (1), panel, keys (1). Below 80 columns or 24 rows the compact form drops the scale, selection and
counters' lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from cuzk_top.model import CounterData, RowData, Snapshot
from cuzk_top.viewport import ViewState

MIN_WIDTH, MIN_HEIGHT = 60, 16
COMPACT_WIDTH, COMPACT_HEIGHT = 80, 24
MSM_GROUP = "msm"
WORKER_SUFFIX = ".worker"
"""Ends the names of spans that the host library's worker threads write."""


class DisplayRow(NamedTuple):
    """One row on the screen: one or more rows of spans drawn over each other, the outermost first."""

    key: str
    label: str
    letter: str
    role: str
    sources: tuple[RowData, ...]
    indent: int = 0
    missing: str | None = None

    @property
    def empty(self) -> bool:
        return not any(len(row.columns) or row.open is not None for row in self.sources)


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

    @property
    def timeline_height(self) -> int:
        """Lines of the time area, with its scale, axis and titles."""
        return len(self.rows) + len(self.counters) + (1 if self.compact else 4)

    @property
    def first_row_y(self) -> int:
        """Line of the first lane in the time area."""
        return 1 if self.compact else 3


def _of_worker(snapshot: Snapshot, row: RowData) -> bool:
    """Whether a row holds a worker thread's shares of some stage, which another row has whole."""
    number = int(row.columns.name[0]) if len(row.columns) else row.open.name_id if row.open else 0
    names = snapshot.session.names
    return number < len(names) and names[number].text.endswith(WORKER_SUFFIX)


def display_rows(snapshot: Snapshot, view: ViewState, fold_msm: bool) -> list[DisplayRow]:
    """All rows in screen order. A lane's nested spans share one row, leaves on top, until it is unfolded."""
    groups: dict[str, list[RowData]] = {}
    for row in snapshot.rows:
        group = MSM_GROUP if fold_msm and row.lane.key.startswith("msm") else row.lane.key
        # A pool's workers are detail of the stage that waits for them: shown where the lane is unfolded.
        if row.lane.key in view.unfolded or not _of_worker(snapshot, row):
            groups.setdefault(group, []).append(row)
    shown = []
    for group, members in groups.items():
        tracks = sorted({row.track for row in members}) if group != MSM_GROUP else [-1]
        for number, track in enumerate(tracks):
            sources = tuple(
                sorted((row for row in members if track in (-1, row.track)), key=lambda row: row.depth)
            )
            lane = sources[0].lane
            key = group if number == 0 else f"{group}#{track}"
            label = "msm" if group == MSM_GROUP else lane.label
            if _of_worker(snapshot, sources[0]):
                label = f"worker {number}"
            elif len(tracks) > 1 and not _of_worker(snapshot, members[-1]):
                label = f"{label} {number}"
            missing = next((row.missing for row in sources if row.missing), None)
            if group in view.unfolded and len(sources) > 1:
                shown += [
                    DisplayRow(
                        key if level == 0 else f"{key}/{level}",
                        label if level == 0 else f"level {level}",
                        lane.letter,
                        lane.role,
                        (row,),
                        min(level, 3),
                        missing,
                    )
                    for level, row in enumerate(sources)
                ]
            else:
                shown.append(DisplayRow(key, label, lane.letter, lane.role, sources, 0, missing))
    return shown


_KEEP_ORDER = (
    "synthesis", "busy", "ntt", "msm", "proof", "prove", "h2d", "d2h", "hash", "transfer", "finalize",
    "verify", "key", "other", "waits", "overhead",
)  # fmt: skip
"""Lanes by how long they are kept when there is no room: what one came to see stays longest. A GPU's by what
follows its number."""


def _importance(row: DisplayRow) -> int:
    for rank, name in enumerate(_KEEP_ORDER):
        if row.key.startswith(name) or (
            row.key.startswith("gpu") and row.key.partition(".")[2].startswith(name)
        ):
            return rank + (len(_KEEP_ORDER) if row.empty else 0)
    return 2 * len(_KEEP_ORDER)


def _choose(rows: list[DisplayRow], room: int, cursor: str) -> list[DisplayRow]:
    """The most important rows that fit, in screen order; the row under the cursor is among them."""
    if len(rows) <= room:
        return rows
    ranked = sorted(range(len(rows)), key=lambda i: (rows[i].key != cursor, _importance(rows[i]), i))
    return [rows[i] for i in sorted(ranked[:room])]


_KEEP_COUNTERS = ("host.minflt", "host.cpu", "gpu.0.util", "host.rss", "gpu.0.memory", "host.majflt")
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


def arrange(snapshot: Snapshot, view: ViewState, width: int, height: int) -> Layout | None:
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
    everything = display_rows(snapshot, view, fold_msm=False)
    rows = everything
    if len(rows) > room and MSM_GROUP not in view.unfolded:
        rows = display_rows(snapshot, view, fold_msm=True)
    if len(rows) > room:
        rows = _scroll(rows, room, view.cursor) if view.show_all else _choose(rows, room, view.cursor)
    hidden = len(everything) - sum(
        len({source.lane.key for source in row.sources}) if row.key == MSM_GROUP else 1 for row in rows
    )
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
    )


def _scroll(rows: list[DisplayRow], room: int, cursor: str) -> list[DisplayRow]:
    """A stretch of `room` rows with the cursor's row in it."""
    at = next((i for i, row in enumerate(rows) if row.key == cursor), 0)
    first = max(0, min(at - room // 2, len(rows) - room))
    return rows[first : first + room]
