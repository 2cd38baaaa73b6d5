"""Jobs of a session, read from its spans: what is proved, how far it is, and who holds which GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cuzk_top import history
from cuzk_top.history import Past
from cuzk_top.model import RowData, Snapshot, SpanRecord
from cuzk_top.proofs import LANE, Parts, Proof, parts, proofs

SHOWN = 100
"""Jobs given, the newest: a pane is no archive."""
COMPARED = 20
"""Finished proofs of this trace whose parts give the median, where there is no past."""
PARTITION = "partition"
"""Name of the argument that tells which partition a span is of; they count from 0."""

PARTITIONS_SHOWN = 256
"""A number beyond this is no partition's; proofs of 64 GiB sectors have 18."""

CRASHED = "the process was killed or crashed"
"""What a source says of a session whose open spans will never end."""

_LETTERS = {"S": "S", "#": "S", "H": "H", "N": "N", "M": "M", "m": "M", "F": "M"}
"""A lane's letter -> that of a partition with a span there: a CPU's MSM is one too, the last sums its end."""
_AFTER = {"S": ".", "M": "D"}
"""A partition's letter once its last span has ended: after synthesis it waits for a GPU."""


@dataclass(frozen=True, slots=True)
class Job:
    """One proof, or one job of a proving daemon. Times in nanoseconds; None where it is not known."""

    id: str
    """The job's own name, or ``proof 3``."""
    kind: str
    """Circuit or type of proof, such as ``porep-32g``; jobs of a kind are compared with each other."""
    state: str
    """``running``, ``waiting``, ``done`` or ``failed``."""
    start_ns: int
    end_ns: int | None
    stage: str
    """Innermost stage that runs now; "" when none."""
    partitions: str
    """A letter a partition in their order: ``.`` waiting, ``S`` synthesis, ``H N M`` on the GPU, ``D`` done;
    "" for a proof in one piece."""
    holds: tuple[tuple[int, int], ...]
    """``(device, since_ns)`` of each GPU it holds now."""
    left_ns: int | None
    """Expected time to its end: the median of past ones of its kind, and how late it is already, less its
    age; never below 0."""
    late_ns: int | None
    """How far it is, or will be, beyond the median of its kind; negative when it is ahead. Of a running one
    the lateness of the parts it is through with, and of the present part once that exceeds its own median."""
    slack_ns: int | None
    """Time from its expected end to its deadline; negative when it will miss it."""

    def age_ns(self, now_ns: int) -> int:
        """Time since it began, or that it took."""
        return (self.end_ns if self.end_ns is not None else now_ns) - self.start_ns


@dataclass(frozen=True, slots=True)
class _Usual:
    """What a proof of this kind takes. `parts`: name -> time."""

    median_ns: int | None
    parts: Mapping[str, int]


def jobs(
    snapshot: Snapshot,
    past: Past | None = None,
    deadlines: Mapping[str, int] | None = None,
    seen: Parts | None = None,
) -> list[Job]:
    """The newest `SHOWN` jobs, by start.

    What is usual comes from `past`, and without it from this trace's finished proofs. `deadlines`: kind ->
    nanoseconds from a job's start within which it is due. `seen`: what is remembered of this session's proofs
    from call to call.
    """
    known = proofs(snapshot, SHOWN)
    if not known:
        return []
    kind = circuit(snapshot)
    usual = _usual(snapshot, known, past, seen or Parts())
    due = (deadlines or {}).get(kind)
    running = [proof for proof in known if proof.end_ns is None]
    now_open = [(row, record) for row in snapshot.rows if (record := _at(row, snapshot)) is not None]
    holders = _holders(now_open, running)
    stages = _stages(snapshot, now_open, running)
    strips = _strips(snapshot, known)
    found = []
    for proof in known:
        left, late = _expected(snapshot, proof, usual)
        found.append(
            Job(
                id=f"proof {proof.number}" if proof.name == "prove" else f"{proof.name} {proof.number}",
                kind=kind,
                state=_state(snapshot, proof),
                start_ns=proof.start_ns,
                end_ns=proof.end_ns,
                stage=stages.get(proof.number, ""),
                partitions=strips.get(proof.number, ""),
                holds=holders.get(proof.number, ()),
                left_ns=left,
                late_ns=late,
                slack_ns=None if due is None else _slack(snapshot, proof, due, left),
            )
        )
    return found


def circuit(snapshot: Snapshot) -> str:
    """What the jobs of a session prove: its circuit's name, else the program's."""
    return snapshot.session.meta.get("job", snapshot.session.name).removesuffix(".zkey")


def _state(snapshot: Snapshot, proof: Proof) -> str:
    if proof.end_ns is not None:
        return "failed" if proof.failed else "done"
    over = snapshot.ended and snapshot.now_ns >= snapshot.last_ns
    return "failed" if over and any(CRASHED in problem for problem in snapshot.problems) else "running"


def _usual(snapshot: Snapshot, known: Sequence[Proof], past: Past | None, seen: Parts) -> _Usual:
    if past is not None and past.median_ns is not None:
        return _Usual(past.median_ns, past.stages)
    finished = [proof for proof in known if proof.end_ns is not None and not proof.failed][-COMPARED:]
    if not finished:
        return _Usual(None, {})
    spent = seen.of(snapshot, finished)
    lengths = [proof.end_ns - proof.start_ns for proof in finished if proof.end_ns is not None]
    return _Usual(history.median(lengths), history.medians(spent))


def _expected(snapshot: Snapshot, proof: Proof, usual: _Usual) -> tuple[int | None, int | None]:
    """Time left and lateness."""
    if usual.median_ns is None:
        return None, None
    if proof.end_ns is not None:
        late = proof.end_ns - proof.start_ns - usual.median_ns
        return None, None if proof.failed else late
    age = snapshot.now_ns - proof.start_ns
    late = 0
    sums, running = parts(snapshot, proof)
    for name, time in sums.items():
        if name in usual.parts:
            over = time - usual.parts[name]
            late += max(0, over) if name in running else over
    late = max(late, age - usual.median_ns)
    return max(0, usual.median_ns + late - age), late


def _slack(snapshot: Snapshot, proof: Proof, due: int, left: int | None) -> int | None:
    if proof.end_ns is not None:
        return None if proof.failed else due - (proof.end_ns - proof.start_ns)
    age = snapshot.now_ns - proof.start_ns
    if left is None:
        return due - age if age > due else None
    return due - age - left


def _at(row: RowData, snapshot: Snapshot) -> SpanRecord | None:
    """The span of a row that runs at the play head."""
    now = snapshot.now_ns
    index = int(np.searchsorted(row.columns.start_ns, now, "left")) - 1
    if index >= 0 and int(row.columns.end_ns[index]) > now:
        return snapshot.record(row, index)
    return row.open if row.open is not None and row.open.start_ns < now else None


def _owner(track: int, start_ns: int, among: Sequence[Proof]) -> Proof | None:
    """The proof that a span belongs to: around it on its track, else the last that began before it."""
    around = [
        proof
        for proof in among
        if proof.start_ns <= start_ns and (proof.end_ns is None or start_ns < proof.end_ns)
    ]
    own = [proof for proof in around if proof.track == track]
    inside = own or around
    return inside[-1] if inside else None


def _stages(
    snapshot: Snapshot, now_open: Sequence[tuple[RowData, SpanRecord]], running: Sequence[Proof]
) -> dict[int, str]:
    """The innermost stage of each running proof, by its number.

    On the proof's own track the deepest span, elsewhere the one that began last; of these, what the program
    calls a stage comes first.
    """
    best: dict[int, tuple[bool, bool, int, str]] = {}
    for row, record in now_open:
        if row.lane.key.startswith("gpu") or row.lane.key in (LANE, "waits", "overhead"):
            continue
        proof = _owner(record.track, record.start_ns, running)
        if proof is None:
            continue
        track = snapshot.session.tracks.get(record.track)
        own = record.track == proof.track and (track is None or track.kind != "async")
        if own and record.depth <= proof.depth:
            continue
        rank = (own, record.stage, record.depth if own else record.start_ns, record.name)
        best[proof.number] = max(best.get(proof.number, rank), rank)
    return {number: rank[3] for number, rank in best.items()}


def _holders(
    now_open: Sequence[tuple[RowData, SpanRecord]], running: Sequence[Proof]
) -> dict[int, tuple[tuple[int, int], ...]]:
    """What each running proof holds, by its number."""
    held: dict[int, list[tuple[int, int]]] = {}
    for row, record in now_open:
        device, _, lane = row.lane.key.removeprefix("gpu").partition(".")
        proof = _owner(record.track, record.start_ns, running) if lane == "held" else None
        if proof is not None and device.isdigit():
            held.setdefault(proof.number, []).append((int(device), record.start_ns))
    return {number: tuple(sorted(claims)) for number, claims in held.items()}


@dataclass(slots=True)
class _Partition:
    """A partition's span that began last of those that run, and the one that ended last: time, letter."""

    runs: tuple[int, str] = (0, "")
    ended: tuple[int, str] = (0, "")

    @property
    def letter(self) -> str:
        last = self.ended[1]
        return self.runs[1] or _AFTER.get(last, last) or "."


def _strips(snapshot: Snapshot, known: Sequence[Proof]) -> dict[int, str]:
    """The partitions of each proof, by its number; none where no span tells of any."""
    names = snapshot.session.names
    first = {number for number, name in enumerate(names) if name.a0 == PARTITION}
    second = {number for number, name in enumerate(names) if name.a1 == PARTITION} - first
    if not first | second:
        return {}
    unfinished = [proof for proof in known if proof.end_ns is None or proof.failed]
    since = min((proof.start_ns for proof in unfinished), default=snapshot.now_ns)
    table: dict[int, dict[int, _Partition]] = {proof.number: {} for proof in unfinished}
    count = 0
    for row in snapshot.rows:
        letter = _LETTERS.get(row.lane.letter, "")
        for tagged, column in ((first, "a0"), (second, "a1")):
            if not tagged:
                continue
            which = np.flatnonzero(np.isin(row.columns.name, list(tagged)))
            values = getattr(row.columns, column)[which]
            real = (
                (values >= 0) & (values < PARTITIONS_SHOWN) & (row.columns.start_ns[which] < snapshot.now_ns)
            )
            which, values = which[real], values[real]
            count = max(count, 1 + int(values.max(initial=-1)))
            late = row.columns.start_ns[which] >= since
            records = [snapshot.record(row, int(i)) for i in which[late]]
            if row.open is not None and row.open.name_id in tagged and row.open.start_ns < snapshot.now_ns:
                records.append(row.open)
            for record in records:
                proof = _owner(record.track, record.start_ns, unfinished)
                value = getattr(record, column)
                if proof is None or not letter or value not in range(PARTITIONS_SHOWN):
                    continue
                count = max(count, 1 + value)
                entry = table[proof.number].setdefault(value, _Partition())
                if record.is_open or record.end_ns > snapshot.now_ns:
                    entry.runs = max(entry.runs, (record.start_ns, letter))
                else:
                    entry.ended = max(entry.ended, (record.end_ns, letter))
    idle = _Partition()
    return {
        proof.number: "".join(table[proof.number].get(i, idle).letter for i in range(count))
        if proof.number in table
        else "D" * count
        for proof in known
    }
