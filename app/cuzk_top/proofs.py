"""The proofs of a session as values: which ran, which run, and what lies directly inside of one. Numpy only.

A proof is a span of the lane `proof`: `prove` of our prover, and what a stage map says of other provers'.
Time after the snapshot's play head does not count: a proof across it runs, one behind it has not begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cuzk_top.model import FLAG_ERR, Columns, Snapshot

LANE = "proof"
Int64s = NDArray[np.int64]
_OPEN = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Proof:
    """One proof. `end_ns` is None while it runs."""

    number: int
    """From 1, in order of their starts, among all that the trace still holds."""
    name: str
    track: int
    depth: int
    start_ns: int
    end_ns: int | None
    failed: bool = False


def proofs(snapshot: Snapshot, newest: int | None = None) -> list[Proof]:
    """All proofs that have begun, or the newest so many, by start."""
    now = snapshot.now_ns
    tables = list(_outermost(snapshot))
    if not tables:
        return []
    start, end, name, flags, track, depth = (np.concatenate(columns) for columns in zip(*tables, strict=True))
    order = np.argsort(start, kind="stable")
    first = 0 if newest is None else max(0, len(order) - newest)
    found = []
    for number, i in enumerate(order[first:].tolist(), first + 1):
        finished = int(end[i]) <= now
        found.append(
            Proof(
                number,
                _text(snapshot, int(name[i])),
                int(track[i]),
                int(depth[i]),
                int(start[i]),
                int(end[i]) if finished else None,
                finished and bool(flags[i] & FLAG_ERR),
            )
        )
    return found


class Numbers:
    """The numbers of proofs by their starts, as `proofs` gives them."""

    def __init__(self) -> None:
        self._of: list[tuple[Columns, int | None]] = []
        self._starts: Int64s = np.empty(0, np.int64)

    def see(self, snapshot: Snapshot) -> bool:
        """Take a newer snapshot; whether proofs that were there before have other numbers in it."""
        rows = [row for row in snapshot.rows if row.lane.key == LANE]
        of = [(row.columns, None if row.open is None else row.open.start_ns) for row in rows]
        if of == self._of:
            return False
        whole = replace(snapshot, now_ns=int(_OPEN))
        old, self._of = self._starts, of
        self._starts = np.sort(
            np.concatenate([np.empty(0, np.int64), *(one[0] for one in _outermost(whole))])
        )
        return not np.array_equal(self._starts[: len(old)], old)

    def of(self, start_ns: int) -> int:
        """Number of the proof that begins then; one within another has the number of that."""
        return int(np.searchsorted(self._starts, start_ns, "right"))


def _outermost(snapshot: Snapshot) -> Iterator[tuple[NDArray[np.int64], ...]]:
    """Of each row of the lane the spans that lie in no other of it: start, end, name, flags, track, depth."""
    now = snapshot.now_ns
    rows = [row for row in snapshot.rows if row.lane.key == LANE]
    around: dict[int, list[tuple[Int64s, Int64s]]] = {}
    for row in sorted(rows, key=lambda row: row.depth):
        columns = row.columns.take(slice(int(np.searchsorted(row.columns.start_ns, now))))
        table: list[Int64s] = [
            column.astype(np.int64)
            for column in (columns.start_ns, columns.end_ns, columns.name, columns.flags)
        ]
        if row.open is not None and row.open.start_ns < now:
            opened = (row.open.start_ns, int(_OPEN), row.open.name_id, row.open.flags)
            table = [np.append(column, value) for column, value in zip(table, opened, strict=True)]
        start, end, name, flags = table
        outer = ~covered(start, around.get(row.track, []))
        track = snapshot.session.tracks.get(row.track)
        if track is None or track.kind != "async":  # there, depths are mere room
            around.setdefault(row.track, []).append((start, end))
        mine = start[outer], end[outer], name[outer], flags[outer]
        yield *mine, np.full(len(mine[0]), row.track), np.full(len(mine[0]), row.depth)


def covered(start: Int64s, around: list[tuple[Int64s, Int64s]]) -> NDArray[np.bool_]:
    """Which moments one of the rows `around` covers."""
    inside = np.zeros(len(start), bool)
    for begins, finishes in around:
        if len(begins):
            index = np.searchsorted(begins, start, "right") - 1
            inside |= (index >= 0) & (finishes[np.maximum(index, 0)] > start)
    return inside


def parts(snapshot: Snapshot, proof: Proof) -> tuple[dict[str, int], set[str]]:
    """Time of what lies in a proof on its own track and in nothing else there, by name up to now; and the
    names of what runs.

    Claims of a GPU do not count: they lie around the parts.
    """
    now = snapshot.now_ns
    beyond = now if proof.end_ns is None else min(now, proof.end_ns)
    rows = [row for row in snapshot.rows if row.track == proof.track and row.depth > proof.depth]
    around: list[tuple[Int64s, Int64s]] = []
    sums: dict[str, int] = {}
    running = set()
    for row in sorted(rows, key=lambda row: row.depth):
        if row.lane.key.startswith("gpu"):
            continue
        low, high = np.searchsorted(row.columns.start_ns, [proof.start_ns, beyond]).tolist()
        mine = row.columns.take(slice(low, high))
        start, end, name = mine.start_ns, mine.end_ns, mine.name.astype(np.int64)
        if row.open is not None and proof.start_ns <= row.open.start_ns < beyond:
            start, end = np.append(start, row.open.start_ns), np.append(end, _OPEN)
            name = np.append(name, row.open.name_id)
        outer = ~covered(start, around)
        around.append((start, end))
        start, end, name = start[outer], end[outer], name[outer]
        numbers, places = np.unique(name, return_inverse=True)
        spent = np.zeros(len(numbers), np.int64)
        np.add.at(spent, places, np.minimum(end, now) - start)
        for number, time in zip(numbers.tolist(), spent.tolist(), strict=True):
            text = _text(snapshot, number)
            sums[text] = sums.get(text, 0) + time
        running |= {_text(snapshot, number) for number in np.unique(name[end > now]).tolist()}
    return sums, running


class Parts:
    """`parts` of many proofs again and again: those of a finished one are looked up once."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int, int], dict[str, int]] = {}

    def of(self, snapshot: Snapshot, among: Sequence[Proof]) -> list[dict[str, int]]:
        """Of each of some finished proofs the time of its parts. Those of others are forgotten."""
        known, self._known = self._known, {}
        found = []
        for proof in among:
            assert proof.end_ns is not None
            key = (proof.track, proof.depth, proof.start_ns, proof.end_ns)
            spent = known.get(key)
            if spent is None:
                spent = parts(snapshot, proof)[0]
            track = snapshot.session.tracks.get(proof.track)
            if track is not None and track.kind != "async":  # there, what a proof holds may end after it
                self._known[key] = spent
            found.append(spent)
        return found


def _text(snapshot: Snapshot, name: int) -> str:
    names = snapshot.session.names
    return names[name].text if name < len(names) else f"<name {name}>"
