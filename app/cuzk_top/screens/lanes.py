"""The rows of the time area: which there are, how they are folded, and which are kept when room is short.

Pure functions of a snapshot, the view and what the analysis says; no Textual.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from cuzk_top.model import RowData, Snapshot
from cuzk_top.screens.analysis import Insight
from cuzk_top.viewport import ViewState

Kind = Literal["spans", "letters", "workers", "path", "partitions", "ghost", "stalls"]
OF_SPANS = ("spans", "letters", "workers")
"""Those that show spans; the others show what the analysis says."""
MSM_GROUP = "msm"
WORKER_SUFFIX = ".worker"
"""Ends the names of spans that the host library's worker threads write."""
DERIVED = ("busy", "held")
"""Lanes of a GPU that say when it worked or was held, not what it did."""


class DisplayRow(NamedTuple):
    """One row on the screen: one or more rows of spans drawn over each other, the outermost first."""

    key: str
    label: str
    letter: str
    role: str
    sources: tuple[RowData, ...]
    indent: int = 0
    missing: str | None = None
    kind: Kind = "spans"
    device: int | None = None
    stands: int = 1
    """How many rows it would be if nothing were folded."""

    @property
    def empty(self) -> bool:
        return bool(self.kind in ("spans", "letters", "workers")) and not any(
            len(row.columns) or row.open is not None for row in self.sources
        )

    @property
    def base(self) -> str:
        """Key of its lane, whatever thread or level of nesting it shows."""
        return self.key.split("#")[0].split("/")[0]


@dataclass(frozen=True, slots=True)
class Fold:
    """What is folded: MSMs into one row, synthesis workers into a count, a GPU's work into letters."""

    msm: bool = False
    workers: bool = False
    gpus: bool = False
    """Each GPU's work is one row of letters."""
    into_busy: bool = False
    """That row stands in place of `busy` too, and of what is claimed."""


def device_of(lane: str) -> int | None:
    """Number of the GPU that a lane belongs to."""
    number = lane.partition(".")[0].removeprefix("gpu")
    return int(number) if lane.startswith("gpu") and number.isdigit() else None


def fold_key(row: DisplayRow) -> str:
    """What `ViewState.unfolded` names when this row is to be unfolded, or folded again."""
    if row.kind == "letters" or (row.device is not None and row.base.endswith(".busy")):
        return f"gpu{row.device}"
    return row.base


def display_rows(snapshot: Snapshot, view: ViewState, insight: Insight, fold: Fold) -> list[DisplayRow]:
    """All rows in screen order, less those that the user has hidden."""
    rows = _span_rows(snapshot, view, fold)
    if snapshot.devices:  # a GPU's work has lanes of its own: the host's come when there is anything in them
        rows = [row for row in rows if row.device is not None or not row.empty]
    for device in sorted({row.device for row in rows if row.device is not None}, reverse=True):
        if fold.gpus and f"gpu{device}" not in view.unfolded:
            _fold_gpu(rows, device, fold.into_busy)
    _add_ghosts(rows, insight)
    if insight.analysis.path:
        rows.insert(0, DisplayRow("path", "path", "*", "path", (), kind="path"))
    if any(job.partitions for job in insight.jobs):
        at = 1 if insight.analysis.path else 0
        rows.insert(at, DisplayRow("partitions", "partitions", "", "line", (), kind="partitions"))
    _add_stalls(rows, snapshot, insight)
    return [row for row in rows if row.base not in view.hidden]


def first_name(row: RowData) -> int:
    """Number of the name of a row's first span; -1 of an empty row."""
    if len(row.columns.name):
        return row.columns.name.item(0)
    return row.open.name_id if row.open is not None else -1


def _of_worker(snapshot: Snapshot, row: RowData) -> bool:
    """Whether a row holds a worker thread's shares of some stage, which another row has whole."""
    number, names = first_name(row), snapshot.session.names
    return 0 <= number < len(names) and names[number].text.endswith(WORKER_SUFFIX)


def _span_rows(snapshot: Snapshot, view: ViewState, fold: Fold) -> list[DisplayRow]:
    """The rows of spans. A lane's nested spans share one row, leaves on top, until it is unfolded."""
    groups: dict[str, list[RowData]] = {}
    for row in snapshot.rows:
        group = MSM_GROUP if fold.msm and row.lane.key.startswith("msm") else row.lane.key
        # A pool's workers are detail of the stage that waits for them: shown where the lane is unfolded.
        if row.lane.key in view.unfolded or not _of_worker(snapshot, row):
            groups.setdefault(group, []).append(row)
    shown: list[DisplayRow] = []
    for group, members in groups.items():
        tracks = sorted({row.track for row in members}) if group != MSM_GROUP else [-1]
        if group == "synthesis" and fold.workers and len(tracks) > 1 and group not in view.unfolded:
            outer = tuple(min((r for r in members if r.track == t), key=lambda r: r.depth) for t in tracks)
            lane = outer[0].lane
            shown.append(
                DisplayRow(
                    group, lane.label, lane.letter, lane.role, outer, kind="workers", stands=len(tracks)
                )
            )
            continue
        for number, track in enumerate(tracks):
            sources = tuple(
                sorted((row for row in members if track in (-1, row.track)), key=lambda row: row.depth)
            )
            several = len(tracks) > 1 and not _of_worker(snapshot, members[-1])
            shown += _lane_rows(snapshot, view, group, sources, (number, track, several))
    return shown


def _lane_rows(
    snapshot: Snapshot, view: ViewState, group: str, sources: tuple[RowData, ...], of: tuple[int, int, bool]
) -> list[DisplayRow]:
    """The rows of one lane on one track; `of`: its number, the track's id, whether it is one of several."""
    number, track, several = of
    lane = sources[0].lane
    key = group if number == 0 else f"{group}#{track}"
    label = "msm" if group == MSM_GROUP else lane.label
    worker = _of_worker(snapshot, sources[0])
    if worker:
        label = f"worker {number}"
    elif several:
        label = f"{label} {number}"
    missing = next((row.missing for row in sources if row.missing), None)
    device = device_of(group)
    if group in view.unfolded and len(sources) > 1:
        return [
            DisplayRow(
                key if level == 0 else f"{key}/{level}",
                label if level == 0 else f"level {level}",
                lane.letter,
                lane.role,
                (row,),
                min(level, 3),
                missing,
                device=device,
            )
            for level, row in enumerate(sources)
        ]
    stands = len({row.lane.key for row in sources}) if group == MSM_GROUP else 1
    return [DisplayRow(key, label, lane.letter, lane.role, sources, 0, missing, device=device, stands=stands)]


def _fold_gpu(rows: list[DisplayRow], device: int, into_busy: bool) -> None:
    """Put a row of letters in place of what one GPU did."""
    prefix = f"gpu{device}."
    mine = [row for row in rows if row.key.startswith(prefix)]
    work = [row for row in mine if row.base.removeprefix(prefix) not in DERIVED]
    busy = next((row for row in mine if row.base == f"{prefix}busy"), None)
    if not work:
        return
    gone = [row for row in mine if row in work or (into_busy and row is busy)]
    at = rows.index(gone[0])
    rows[:] = [row for row in rows if row not in gone]
    sources = tuple(source for row in work for source in row.sources)
    key, label = (f"{prefix}busy", f"{device} busy") if into_busy else (f"{prefix}work", f"{device} H N M D")
    rows.insert(
        at, DisplayRow(key, label, "", "busy", sources, kind="letters", device=device, stands=len(gone))
    )


def _add_ghosts(rows: list[DisplayRow], insight: Insight) -> None:
    """The last proof under the lane that it is compared with."""
    for ghost in insight.ghosts:
        beside = "proof" if ghost.device is None else f"gpu{ghost.device}.busy"
        at = next((i for i, row in enumerate(rows) if row.base == beside and row.kind == "spans"), None)
        if at is not None:
            key = "ghost" if ghost.device is None else f"gpu{ghost.device}.ghost"
            label = "last proof" if ghost.device is None else f"{ghost.device} busy last"
            row = DisplayRow(key, label, "", "last proof", (), kind="ghost", device=ghost.device)
            rows.insert(at + 1, row)


def _add_stalls(rows: list[DisplayRow], snapshot: Snapshot, insight: Insight) -> None:
    """One row of stalls at the end; of several GPUs, one under each."""
    findings = insight.analysis.findings
    devices = [device.index for device in snapshot.devices]
    if len(devices) > 1:
        for device in devices:
            at = max((i for i, row in enumerate(rows) if row.device == device), default=None)
            if at is not None:
                key = f"gpu{device}.stalls"
                row = DisplayRow(key, f"{device} stalls", "", "cost", (), kind="stalls", device=device)
                rows.insert(at + 1, row)
    elsewhere = any(one.ranked and (one.device is None or one.device not in devices) for one in findings)
    if elsewhere or len(devices) == 1:
        rows.append(DisplayRow("stalls", "stalls", "", "cost", (), kind="stalls"))


_KEEP_GPU = (
    "synthesis", "busy", "stalls", "gpu work", "gpu ntt", "gpu msm", "path", "gpu h2d", "held", "proof",
    "ghost", "partitions", "msm", "ntt", "gpu d2h", "gpu hash", "transfer", "finalize", "verify", "key",
    "gpu other", "other", "waits", "overhead",
)  # fmt: skip
_KEEP_CPU = (
    "synthesis", "ntt", "msm", "stalls", "proof", "path", "ghost", "partitions", "transfer", "finalize",
    "verify", "key", "other",
)  # fmt: skip
"""Lanes by how long they are kept when there is no room: what one came to see stays longest."""


def _importance(row: DisplayRow, keep: Sequence[str]) -> int:
    name = row.base
    if row.device is not None:
        name = name.partition(".")[2]
        name = name if name in ("busy", "held", "ghost", "stalls") else f"gpu {name}"
    name = MSM_GROUP if name.startswith("msm") else name
    rank = keep.index(name) if name in keep else len(keep)
    return rank + (len(keep) if row.empty else 0)


def choose(rows: list[DisplayRow], room: int, view: ViewState) -> list[DisplayRow]:
    """The most important rows that fit, in screen order; pinned ones and the one under the cursor first."""
    if len(rows) <= room:
        return rows
    keep = _KEEP_GPU if any(row.device is not None for row in rows) else _KEEP_CPU
    ranked = sorted(
        range(len(rows)),
        key=lambda i: (
            rows[i].key != view.cursor,
            rows[i].base not in view.pinned,
            _importance(rows[i], keep),
            i,
        ),
    )
    return [rows[i] for i in sorted(ranked[:room])]


def scroll(rows: list[DisplayRow], room: int, cursor: str) -> list[DisplayRow]:
    """A stretch of `room` rows with the cursor's row in it."""
    at = next((i for i, row in enumerate(rows) if row.key == cursor), 0)
    first = max(0, min(at - room // 2, len(rows) - room))
    return rows[first : first + room]
