"""Several sources, one session: the prover's ring and the viewer's own probes under one table of names."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cuzk_top.columns import Packed
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

    def numbers(self, source: int, names: list[Name]) -> NDArray[np.uint32]:
        """Where each of a source's names stands in the common list; the last is for names it has not told."""
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
        return table

    def renamed(self, source: int, names: list[Name], columns: Columns) -> Columns:
        """Columns whose names count in `names`, as they count in the common list."""
        table = self.numbers(source, names)
        return columns.replace(name=table.take(columns.name, mode="clip")) if len(columns) else columns


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
        self._known_tracks = 0
        self._facts = facts or {}
        # Metadata and problems by probe: a batch may come without them.
        self._told: dict[int, Mapping[str, str]] = {}
        self._said: dict[int, tuple[str, ...]] = {}
        self._open = (Columns.empty(), Columns.empty())
        self._seq = seq

    def merge(self, main: Batch, probes: Sequence[Batch | None]) -> Batch:
        """One batch of all; times, losses and the end are those of `main`. None: that probe was not asked.

        The same object for what is open gives the same object as before, and metadata that are the same
        objects as before leave the session's as they are.
        """
        session = self._session
        parts = [(0, main)] if len(main.columns) else []
        self._table.numbers(0, main.session.names)
        if main.open is not self._open[0]:
            self._open = (main.open, self._table.renamed(0, main.session.names, main.open))
        session.pid, session.name = main.session.pid, main.session.name
        session.started_ns, session.anchors = main.session.started_ns, main.session.anchors
        if self._known_tracks != len(main.session.tracks):
            self._known_tracks = len(main.session.tracks)
            session.tracks.update(main.session.tracks)
        news = self._told.get(0) is not main.session.meta
        self._told[0] = main.session.meta
        for place, batch in enumerate(probes, 1):
            if batch is None:
                continue
            if len(batch.columns):
                parts.append((place, batch))
            news = news or self._told.get(place) is not batch.session.meta
            self._told[place] = batch.session.meta
            self._said[place] = batch.problems
        if news:
            told = [
                main.session.meta,
                self._facts,
                *(self._told[place] for place in sorted(self._told) if place),
            ]
            session.meta = {key: value for meta in told for key, value in meta.items()}
        return Batch(
            session,
            self._joined(parts) if parts else Columns.empty(),
            self._open[1],
            main.lost,
            main.now_ns,
            main.ended,
            main.strings,
            sum(self._said.values(), main.problems),
            rings=main.rings,
        )

    def _joined(self, parts: Sequence[tuple[int, Batch]]) -> Columns:
        """The records of some sources, with the common list's names and the session's tracks."""
        made = Packed.copied([batch.columns for _, batch in parts])
        low = 0
        for place, batch in parts:
            mine = made.take(slice(low, low + len(batch.columns)))
            low += len(mine)
            table = self._table.numbers(place, batch.session.names)
            # A name its source has not told of becomes one that nobody has.
            mine.name[:] = table.take(mine.name, mode="clip")
            if place:
                self._retrack(place, batch.session.tracks, mine)
        made.seq[:] = np.arange(self._seq, self._seq + low, dtype=np.uint64)
        self._seq += low
        return made

    def _retrack(self, source: int, tracks: Mapping[int, Track], columns: Columns) -> None:
        """Give records of a probe the session's numbers of its tracks."""
        told = columns.track.copy()
        for theirs, about in tracks.items():
            ours = self._tracks.setdefault((source, theirs), PROBE_TRACKS + len(self._tracks))
            if ours not in self._session.tracks:
                self._session.tracks[ours] = Track(ours, about.kind, about.label, about.tid)
            columns.track[told == theirs] = ours
