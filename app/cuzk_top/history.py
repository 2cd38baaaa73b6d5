"""How long past proofs of a kind took: medians over the last 50, kept beside the traces.

One file a kind in ``$XDG_STATE_HOME/cuzk-top/history``::

    {"cuzk-top.history": "1.0", "kind": TEXT, "stages": [NAME, ...],
     "proofs": [[ID, ENDED_REALTIME_NS, TOTAL_NS, [NS or null, ... in the order of stages] or null], ...]}

A kind is what may be compared: the circuit and its size, the back end, the switches that change its speed,
and the machine. Versions, drivers and builds are no part of it: that a new one is slower is what a user wants
to see. Failed proofs are not kept; of one in which records were lost only the whole time is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cuzk_top import paths
from cuzk_top.model import Snapshot
from cuzk_top.proofs import Proof, proofs

VERSION = "1.0"
PROOFS_KEPT = 50
"""Of a kind: enough that one odd proof does not move the median, few enough to follow a change in days."""
KINDS_KEPT = 200
"""The files used least recently are removed beyond this; one is some 50 kB with `STAGES_KEPT` full."""
STAGES_KEPT = 128
"""Names with the most time; a proof of ours has 40 and the kernels."""
LOCK_S = 2.0
"""How long to wait for another viewer that is writing; its turn takes a few milliseconds."""

KIND_KEYS = (
    "curve",
    "domain",
    "wires",
    "coefficients",
    "backend",
    "threads",
    "gpu",
    "h2d",
    "b_g2",
    "switches",
    "machine.host",
    "machine.cpu",
    "machine.cores",
)
"""Metadata that make a kind, besides the job; the machine's are those of `machine.facts`."""

_DERIVED = ".busy"
"""End of the keys of lanes whose spans are made of others'."""


@dataclass(frozen=True, slots=True)
class Past:
    """What is known of past proofs of one kind. `stages`: span name -> median of its total in a proof, ns."""

    kind: str
    proofs: int = 0
    median_ns: int | None = None
    stages: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""
    """Why the history could not be read, in a line."""


def kind_of(meta: Mapping[str, str]) -> str:
    """What proofs of a session are compared with, as a line: equal for those that may be."""
    told = [meta.get("job") or meta.get("command", "?")]
    keys = list(KIND_KEYS)
    if "gpu" not in meta:  # somebody else's prover: the cards that NVML names
        keys += sorted(key for key in meta if key.startswith("gpu.") and key.endswith(".name"))
    told += [f"{key} {meta[key]}" for key in keys if meta.get(key)]
    return "; ".join(told)


def read(meta: Mapping[str, str], folder: Path | None = None, apart_from: Snapshot | None = None) -> Past:
    """The past of a session's kind, by its metadata; empty where there is none. Never raises.

    `apart_from`: a session whose own proofs do not count.
    """
    kind = kind_of(meta)
    try:
        kept = _load(_file(folder, kind), kind)
    except _UnusableError as error:
        return Past(kind, problem=str(error))
    if apart_from is not None:
        own = {_number(apart_from, proof) for proof in proofs(apart_from)}
        kept.proofs = [entry for entry in kept.proofs if entry[0] not in own]
    if not kept.proofs:
        return Past(kind)
    named = [_by_name(kept.stages, entry[3]) or {} for entry in kept.proofs]
    median = int(statistics.median([entry[2] for entry in kept.proofs]))
    return Past(kind, len(kept.proofs), median, medians(named))


def note(snapshot: Snapshot, folder: Path | None = None) -> str:
    """Add a session's finished proofs to the past of their kind, each once, whoever else has noted them.

    A line about what went wrong, or "". Never raises: the past is a convenience.
    """
    found = [
        proof for proof in proofs(snapshot, PROOFS_KEPT) if proof.end_ns is not None and not proof.failed
    ]
    if not found:
        return ""
    kind = kind_of(snapshot.session.meta)
    path = _file(folder, kind)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path.parent):
            return _add(path, kind, snapshot, found)
    except OSError as error:
        return f"past proofs are not kept: {error.filename or path}: {error.strerror or error}"


def finished(snapshot: Snapshot) -> list[Proof]:
    """What counts of a session's newest proofs."""
    return [proof for proof in proofs(snapshot, PROOFS_KEPT) if proof.end_ns is not None and not proof.failed]


def totals(snapshot: Snapshot, of: Sequence[Proof]) -> list[dict[str, int]]:
    """Of each of these finished proofs: time by span name, nested spans of a name added up.

    What ran on other threads and devices counts to the proof around it; where proofs overlap in time that
    cannot be told, and only a proof's own track counts.
    """
    if not of:
        return []
    ordered = sorted(range(len(of)), key=lambda i: of[i].start_ns)
    begins = np.array([of[i].start_ns for i in ordered], np.int64)
    finishes = np.array([of[i].end_ns or 0 for i in ordered], np.int64)
    tracks = np.array([of[i].track for i in ordered], np.int64)
    alone = not bool((begins[1:] < finishes[:-1]).any())
    names = len(snapshot.session.names)
    sums = np.zeros((len(of), names + 1), np.int64)
    for row in snapshot.rows:
        if row.lane.key.endswith(_DERIVED):
            continue
        starts = row.columns.start_ns
        low, high = np.searchsorted(starts, [begins[0], finishes.max()]).tolist()
        columns = row.columns.take(slice(low, high))
        if not len(columns):
            continue
        index = np.maximum(np.searchsorted(begins, columns.start_ns, "right") - 1, 0)
        inside = columns.end_ns <= finishes[index]
        if not alone:
            inside &= tracks[index] == row.track
        which = np.minimum(columns.name[inside], names)
        np.add.at(sums, (index[inside], which), (columns.end_ns - columns.start_ns)[inside])
    found: list[dict[str, int]] = [{} for _ in of]
    for place, i in enumerate(ordered):
        for name in np.flatnonzero(sums[place, :names]).tolist():
            text = snapshot.session.names[name].text
            found[i][text] = found[i].get(text, 0) + int(sums[place, name])
    return found


def medians(of: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Of each name the median among the proofs that have it."""
    spent: dict[str, list[int]] = {}
    for times in of:
        for name, time_ns in times.items():
            spent.setdefault(name, []).append(time_ns)
    return {name: int(statistics.median(times)) for name, times in spent.items()}


_Entry = tuple[str, int, int, list[int | None] | None]
"""Id, end (real time), total, time by stage."""


@dataclass(slots=True)
class _Kept:
    stages: list[str] = field(default_factory=list)
    proofs: list[_Entry] = field(default_factory=list)


class _UnusableError(Exception):
    """A history file that cannot be read. `damaged`: it may be written anew."""

    def __init__(self, text: str, *, damaged: bool) -> None:
        super().__init__(text)
        self.damaged = damaged


def _file(folder: Path | None, kind: str) -> Path:
    return (folder or paths.history_folder()) / f"{hashlib.sha256(kind.encode()).hexdigest()[:24]}.json"


def _load(path: Path, kind: str) -> _Kept:
    """What is kept of a kind. Raises _UnusableError."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return _Kept()
    except OSError as error:
        raise _UnusableError(f"{path}: {error.strerror}", damaged=False) from error
    try:
        content = json.loads(text)
        version = str(content["cuzk-top.history"])
        if version.partition(".")[0] != VERSION.partition(".")[0]:
            raise _UnusableError(
                f"{path}: history version {version[:20]}: written by another cuzk-top", damaged=False
            )
        if content["kind"] != kind:
            return _Kept()
        stages = [str(name) for name in content["stages"]]
        return _Kept(stages, [_entry(entry, len(stages)) for entry in content["proofs"]])
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise _UnusableError(f"{path}: damaged, past proofs are counted anew", damaged=True) from error


def _entry(fields: Any, stages: int) -> _Entry:
    number, ended, total, times = fields[:4]
    if not isinstance(number, str) or not _is_time(ended) or not _is_time(total):
        raise ValueError("no entry")
    if times is not None and (len(times) != stages or not all(t is None or _is_time(t) for t in times)):
        raise ValueError("no times")
    return number, ended, total, times


def _is_time(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _add(path: Path, kind: str, snapshot: Snapshot, found: list[Proof]) -> str:
    problem = ""
    try:
        kept = _load(path, kind)
    except _UnusableError as error:
        problem, kept = str(error), _Kept()
        if not error.damaged:
            return problem
    known = {entry[0] for entry in kept.proofs}
    named = [(entry[:3], _by_name(kept.stages, entry[3])) for entry in kept.proofs]
    for proof, times in zip(found, totals(snapshot, found), strict=True):
        assert proof.end_ns is not None
        number = _number(snapshot, proof)
        ended = snapshot.session.realtime_ns(proof.end_ns)
        if number not in known and ended is not None and ended >= 0:
            entry = (number, ended, proof.end_ns - proof.start_ns)
            named.append((entry, None if snapshot.lost else times))
    newest = sorted(named, key=lambda entry: entry[0][1])[-PROOFS_KEPT:]
    if not problem and {entry[0][0] for entry in newest} == known:
        return ""
    _write(path, kind, newest)
    _prune(path.parent)
    return problem


def _number(snapshot: Snapshot, proof: Proof) -> str:
    """What identifies a proof, whoever watched it: no two of a boot begin and end in the same nanoseconds."""
    boot = snapshot.session.meta.get("machine.boot_id", "")[:8]
    return f"{boot}:{proof.start_ns}:{proof.end_ns}"


def _by_name(stages: list[str], times: list[int | None] | None) -> dict[str, int] | None:
    if times is None:
        return None
    return {name: time for name, time in zip(stages, times, strict=True) if time is not None}


def _write(path: Path, kind: str, entries: list[tuple[tuple[str, int, int], dict[str, int] | None]]) -> None:
    sums: dict[str, int] = {}
    for _, times in entries:
        for name, spent in (times or {}).items():
            sums[name] = sums.get(name, 0) + spent
    stages = sorted(sums, key=lambda name: -sums[name])[:STAGES_KEPT]
    content = {
        "cuzk-top.history": VERSION,
        "kind": kind,
        "stages": stages,
        "proofs": [
            [*entry, None if times is None else [times.get(name) for name in stages]]
            for entry, times in entries
        ],
    }
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        temporary.write_text(json.dumps(content, separators=(",", ":")), "utf-8")
        temporary.chmod(0o600)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _prune(folder: Path) -> None:
    """Remove the kinds noted least recently, and what a viewer that was killed left half written."""
    files = []
    for path in folder.iterdir():
        try:
            files.append((path.stat().st_mtime, path))
        except OSError:
            continue  # gone since
    kinds = sorted((entry for entry in files if entry[1].suffix == ".json"), reverse=True)
    half = [entry for entry in files if entry[1].suffix == ".part" and entry[0] < time.time() - 3600]
    for _, path in (*kinds[KINDS_KEPT:], *half):
        path.unlink(missing_ok=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone among the viewers that write here. Raises OSError when another does not finish."""
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise OSError(0, "another viewer holds it", str(folder / ".lock")) from None
                time.sleep(0.01)
        yield
    finally:
        os.close(descriptor)
