"""What GPUs did as rows of the stage table: lane, stage of the stage map, kernels of that stage.

    0 msm                    a device's lane
      digits: breakdown      a stage with one kernel
      accumulate             a stage with several, and these
        accumulate
        merge_small

Totals of lanes and stages are the time in which at least one of theirs ran, so never a sum over streams;
those of kernels and kinds of copies are sums over launches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cuzk_top import stagemap, stages
from cuzk_top.devicetime import union
from cuzk_top.model import KIND_GPU_KERNEL, KIND_GPU_MEMCPY, RowData, Snapshot
from cuzk_top.stage import Int64s, Stage, inside, quantile
from cuzk_top.stats import begun


@dataclass(frozen=True, slots=True)
class Block:
    """A lane's rows, and when its first launch began."""

    lane: str
    first_ns: int
    rows: list[Stage]


@dataclass(frozen=True, slots=True)
class Proofs:
    """What shares are of: the proofs as `stage.proof_times` gives them, and their time together."""

    times: list[tuple[Int64s, Int64s]]
    total_ns: int

    def share(self, ns: int) -> float | None:
        """Of their time; None where nothing lies in them."""
        return ns / self.total_ns if self.total_ns and ns else None


@dataclass(frozen=True, slots=True)
class _Works:
    """Launches up to the play head; ends are clipped to it, `done` is which have finished."""

    start: Int64s
    end: Int64s
    done: NDArray[np.bool_]
    proving: NDArray[np.bool_]
    """Which lie inside of proofs."""
    moved: Int64s
    """Bytes of copies; 0 of all else."""

    def take(self, which: NDArray[np.intp]) -> _Works:
        return _Works(*(getattr(self, field)[which] for field in self.__slots__))

    def busy_ns(self) -> int:
        start, end = union(self.start, self.end)
        return int((end - start).sum())


def device_stages(snapshot: Snapshot, proofs: Proofs) -> list[Block]:
    """One block a lane of each GPU, in screen order."""
    by_lane: dict[str, list[RowData]] = {}
    for row in snapshot.rows:
        if stages.has_work(row.lane) and len(row.columns):
            by_lane.setdefault(row.lane.key, []).append(row)
    blocks = (_block(snapshot, rows, proofs) for rows in by_lane.values())
    return [block for block in blocks if block is not None]


def _block(snapshot: Snapshot, rows: list[RowData], proofs: Proofs) -> Block | None:
    works, places, kernels = _gather(snapshot, rows, proofs)
    if not places:
        return None
    lane, own = rows[0].lane, rows[0].lane.key.partition(".")[2]
    rules = _rules(snapshot)
    texts = {number: _text(snapshot, number) for number in places}
    short = _short(texts.values())
    groups: dict[tuple[str, int], list[int]] = {}  # stage, or "" and the name's number
    for number in sorted(places, key=lambda number: int(works.start[places[number]].min())):
        stage = rules.kernel(texts[number]).stage if number in kernels else ""
        groups.setdefault((stage, 0 if stage else number), []).append(number)
    table = [_whole(works, lane.key, lane, lane.label, 0, proofs)]
    for (stage, _), numbers in groups.items():
        tail = stage.removeprefix(f"{own}.")
        if len(numbers) > 1:
            mine = works.take(np.concatenate([places[number] for number in numbers]))
            table.append(_whole(mine, f"{lane.key}:{stage}", lane, tail, 1, proofs))
        for number in numbers:
            text, label = texts[number], short[texts[number]]
            if len(numbers) == 1 and tail not in ("", label):
                label = f"{tail}: {label}"
            indent = 1 if len(numbers) == 1 else 2
            table.append(_launches(works.take(places[number]), text, lane, label, indent, proofs))
    return Block(lane.key, int(works.start.min()), table)


def _gather(
    snapshot: Snapshot, rows: list[RowData], proofs: Proofs
) -> tuple[_Works, dict[int, NDArray[np.intp]], set[int]]:
    """A lane's launches, the places of each name's among them, and which names are kernels'.

    Names that the session lacks, as damaged traces have them, count as one.
    """
    most = len(snapshot.session.names)
    parts, named = [], []
    kernels: set[int] = set()
    for row in rows:
        start, end, finished = begun(row, snapshot.now_ns)
        columns = row.columns.take(slice(len(start)))
        name = np.minimum(columns.name, most)
        kernels.update(np.flatnonzero(np.bincount(name[columns.kind == KIND_GPU_KERNEL])).tolist())
        named.append(name)
        done = np.arange(len(start)) < finished
        moved = np.where(columns.kind == KIND_GPU_MEMCPY, columns.a0, 0)
        parts.append(_Works(start, end, done, inside(start, end, proofs.times), moved))
    works = _Works(*(np.concatenate([getattr(part, field) for part in parts]) for field in _Works.__slots__))
    names = np.concatenate(named)
    # 16-bit keys are sorted by radix, in linear time; a session has at most a few thousand names.
    order = np.argsort(names.astype(np.uint16) if most < 65_536 else names, kind="stable")
    counts = np.bincount(names, minlength=1)
    stops = np.cumsum(counts)
    places = {
        number: order[stops[number] - counts[number] : stops[number]]
        for number in np.flatnonzero(counts).tolist()
    }
    return works, places, kernels


def _whole(works: _Works, name: str, lane: stages.Lane, label: str, indent: int, proofs: Proofs) -> Stage:
    """A lane or a stage."""
    busy = works.busy_ns()
    return Stage(
        name,
        lane.key,
        lane.role,
        indent,
        label,
        count=int(works.done.sum()),
        running=int((~works.done).sum()),
        total_ns=busy,
        self_ns=0,
        median_ns=None,
        p95_ns=None,
        share=proofs.share(works.take(np.flatnonzero(works.proving)).busy_ns()),
        minflt=None,
        majflt=None,
        ns_per_point=None,
        gb_per_s=_rate(works),
    )


def _launches(works: _Works, name: str, lane: stages.Lane, label: str, indent: int, proofs: Proofs) -> Stage:
    """A kernel's or a kind of copy's."""
    length = works.end - works.start
    finished = np.sort(length[works.done])
    total = int(length.sum())
    return Stage(
        name,
        lane.key,
        stages.gpu_role(lane, name) or lane.role,
        indent,
        label,
        count=len(finished),
        running=len(length) - len(finished),
        total_ns=total,
        self_ns=total,
        median_ns=quantile(finished, 0.5) if len(finished) else None,
        p95_ns=quantile(finished, 0.95) if len(finished) else None,
        share=proofs.share(int(length[works.proving].sum())),
        minflt=None,
        majflt=None,
        ns_per_point=None,
        gb_per_s=_rate(works),
    )


def _rate(works: _Works) -> float | None:
    """GB/s of the copies among them; None where there are none."""
    copies = works.take(np.flatnonzero(works.moved))
    busy = copies.busy_ns()
    return int(copies.moved.sum()) / busy if busy else None


def _text(snapshot: Snapshot, number: int) -> str:
    names = snapshot.session.names
    return names[number].text if number < len(names) else f"<name {number}>"


def _short(texts: Iterable[str]) -> dict[str, str]:
    """Short names, with their template arguments where they do not tell the kernels of a lane apart."""
    short = {text: stages.short_kernel(text) or text for text in texts}
    seen = Counter(short.values())
    return {
        text: label if seen[label] == 1 else label + text[len(text.partition("<")[0]) :]
        for text, label in short.items()
    }


def _rules(snapshot: Snapshot) -> stagemap.StageMap:
    return _known(tuple(name.text for name in snapshot.session.names), stagemap.user_file())


@lru_cache(maxsize=4)
def _known(texts: tuple[str, ...], _own: Path) -> stagemap.StageMap:
    """The stage map of a session with these names, and with this file of the user."""
    rules = stagemap.load()
    rules.see(texts)
    return rules
