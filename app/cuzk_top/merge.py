"""Several sources, one session: the prover's ring and the viewer's own probes under one table of names."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cuzk_top.model import Batch, Columns, Name, Session, Track

PROBE_TRACKS = 1 << 20
"""Tracks of probes are numbered from here; those of the first source keep their numbers."""


_NO_NAMES = np.array([0xFFFFFFFF], np.uint32)
"""Ends each table: the number of no name."""


class NameTable:
    """The names of several sources in one list: the same name has one number, whoever told of it."""

    def __init__(self, names: list[Name]) -> None:
        self.names = names
        self._ids = {_key(name): number for number, name in enumerate(names)}
        self._tables: dict[int, NDArray[np.uint32]] = {}

    def renamed(self, source: int, names: list[Name], columns: Columns) -> Columns:
        """Columns whose names count in `names`, as they count in the common list."""
        table = self._tables.get(source, _NO_NAMES)
        known = len(table) - 1
        if known < len(names):
            new = []
            for name in names[known:]:
                key = _key(name)
                if key not in self._ids:
                    self._ids[key] = len(self.names)
                    self.names.append(name)
                new.append(self._ids[key])
            table = np.concatenate([table[:known], np.array(new, np.uint32), _NO_NAMES])
            self._tables[source] = table
        if not len(columns):
            return columns
        # A name its source has not told of becomes one that nobody has.
        return columns.replace(name=table.take(columns.name, mode="clip"))


def _key(name: Name) -> tuple[str, str, str, bool, bool]:
    return (name.text, name.a0, name.a1, name.stage, name.faults)


class Merger:
    """Brings batches under one session. The main source is the prover: it says what is open.

    To go on with a recording, `session` is what it knows and `seq` the number of its next record. `facts` are
    metadata that no source tells.
    """

    def __init__(
        self, session: Session | None = None, seq: int = 0, facts: Mapping[str, str] | None = None
    ) -> None:
        self._session = session or Session(names=[])
        self._table = NameTable(self._session.names)
        self._tracks: dict[tuple[int, int], int] = {}
        # Metadata by probe: a last batch may come without them.
        self._told: dict[int, Mapping[str, str]] = {0: facts or {}}
        self._seq = seq

    def merge(self, main: Batch, probes: list[Batch]) -> Batch:
        """One batch of all; times, losses and the end are those of `main`."""
        session = self._session
        renamed = self._table.renamed
        parts = [renamed(0, main.session.names, main.columns)]
        open_ = renamed(0, main.session.names, main.open)
        session.pid, session.name = main.session.pid, main.session.name
        session.started_ns, session.anchors = main.session.started_ns, main.session.anchors
        session.tracks.update(main.session.tracks)
        session.meta = dict(main.session.meta)
        problems = main.problems
        for place, batch in enumerate(probes, 1):
            retracked = self._retracked(place, batch) if len(batch.columns) else batch.columns
            parts.append(renamed(place, batch.session.names, retracked))
            self._told[place] = batch.session.meta
            problems += batch.problems
        for told in self._told.values():
            session.meta.update(told)
        columns = Columns.concat([part for part in parts if len(part)])
        if len(columns):
            columns = columns.replace(seq=np.arange(self._seq, self._seq + len(columns), dtype=np.uint64))
            self._seq += len(columns)
        return Batch(
            session,
            columns,
            open_,
            main.lost,
            main.now_ns,
            main.ended,
            main.strings,
            problems,
            rings=main.rings,
        )

    def _retracked(self, source: int, batch: Batch) -> Columns:
        columns = batch.columns
        track = columns.track.copy()
        for theirs, about in batch.session.tracks.items():
            ours = self._tracks.setdefault((source, theirs), PROBE_TRACKS + len(self._tracks))
            if ours not in self._session.tracks:
                self._session.tracks[ours] = Track(ours, about.kind, about.label, about.tid)
            track[columns.track == theirs] = ours
        return columns.replace(track=track)
