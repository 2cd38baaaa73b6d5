"""Any number of rings as one source: a program and what it started, or several programs at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from cuzk_top.errors import RingError
from cuzk_top.merge import NameTable
from cuzk_top.model import Batch, Columns, Session, Track
from cuzk_top.sources.ring import FROM_START, Clock, Numbers, RingSource, ring_files
from cuzk_tracer import reader


class Group:
    """Batches of several rings. The first ring's process gives the session its name and metadata.

    `find` gives paths of rings not given before, and is asked at every poll; `running` tells whether there
    may be more (None: the end comes with that of the last ring). A ring that fails is left out and said to
    be; the others go on. `silent` is said as long as there is no ring. `from_start`: their owners were
    started for us, so that what was overwritten before the first poll is lost.
    """

    def __init__(
        self,
        find: Callable[[], Iterable[str]],
        clock: Clock,
        running: Callable[[], bool] | None = None,
        silent: str = "",
        *,
        from_start: bool = False,
    ) -> None:
        self._find = find
        self._clock = clock
        self._running = running
        self._silent = silent
        self._resume = FROM_START if from_start else None
        self._numbers = Numbers()
        self._table = NameTable([])
        self._session = Session(started_ns=clock(), names=self._table.names)
        self._said: tuple[str, ...] = ()
        self.rings: list[RingSource] = []
        self._last: dict[int, Batch] = {}

    def add(self, source: RingSource) -> None:
        """One more ring."""
        self.rings.append(source)

    @property
    def numbers(self) -> Numbers:
        """For the tracks of rings that are to be added."""
        return self._numbers

    def poll(self) -> Batch:
        """What all rings have, those found just now included."""
        more = self._running is not None and self._running()  # asked before the rings are looked for
        for path in self._find():
            try:
                self.add(RingSource(path, self._clock, self._numbers, self._resume))
            except RingError as error:
                self._said += (str(error),)
        polled = [(place, self._poll(place)) for place in range(len(self.rings)) if not self._over(place)]
        for place, batch in polled:
            self._learn(place, batch)
            self._last[place] = batch
        table = self._table
        parts = [table.renamed(place, batch.session.names, batch.columns) for place, batch in polled]
        columns = Columns.concat([part for part in parts if len(part)])
        last = list(self._last.items())
        open_ = [table.renamed(place, batch.session.names, batch.open) for place, batch in last]
        several = len(self.rings) > 1
        problems = [
            f"process {batch.session.pid}: {text}" if several else text
            for _, batch in last
            for text in batch.problems
        ]
        if not self.rings and self._silent:
            problems.append(self._silent)
        over = bool(last) and all(batch.ended for _, batch in last)
        ended = over if self._running is None else not more
        return Batch(
            session=self._session,
            columns=columns.replace(seq=np.arange(len(columns), dtype=np.uint64)),
            open=Columns.concat([part for part in open_ if len(part)]),
            lost=sum(batch.lost for _, batch in last),
            now_ns=max(batch.now_ns for _, batch in last) if over and ended else self._clock(),
            ended=ended,
            problems=(*problems, *self._said),
            rings={uuid: position for _, batch in last for uuid, position in batch.rings.items()},
        )

    def close(self) -> None:
        """Close all ring files."""
        for source in self.rings:
            source.close()

    def discard(self) -> None:
        """Remove the rings of owners that are gone."""
        for source in self.rings:
            source.discard()

    def _over(self, place: int) -> bool:
        before = self._last.get(place)
        return before is not None and before.ended

    def _poll(self, place: int) -> Batch:
        try:
            return self.rings[place].poll()
        except RingError as error:
            before = self._last.get(place)
            if before is None:
                before = Batch(Session(), Columns.empty(), Columns.empty(), 0, self._clock())
            return replace(before, columns=Columns.empty(), ended=True, problems=(str(error),))

    def _learn(self, place: int, batch: Batch) -> None:
        mine, theirs = self._session, batch.session
        if place == 0:
            mine.pid, mine.name, mine.started_ns = theirs.pid, theirs.name, theirs.started_ns
            mine.anchors = theirs.anchors
        meta = theirs.meta | mine.meta if place else mine.meta | theirs.meta
        if meta != mine.meta:
            mine.meta = meta
        for number, track in theirs.tracks.items():
            if number not in mine.tracks:
                label = f"{track.label} [{theirs.pid}]" if place else track.label
                mine.tracks[number] = Track(number, track.kind, label, track.tid)


class Descendants:
    """Finds the rings of a program and of all it started: each ring names the session of its parent."""

    def __init__(self, session: str) -> None:
        self._sessions = {session}
        self._known: dict[tuple[str, int], tuple[str, str]] = {}
        self._given: set[tuple[str, int]] = set()

    def __call__(self) -> list[str]:
        """Paths of rings not given before, parents before their children."""
        for path in ring_files():
            try:
                key = (str(path), path.stat().st_ino)
                if key not in self._known:
                    with reader.Ring(path) as ring:
                        self._known[key] = (ring.uuid, ring.parent_uuid)
            except (OSError, reader.RingError):
                continue  # gone again, or not written yet
        found: list[str] = []
        news = True
        while news:
            news = False
            for key, (session, parent) in self._known.items():
                if key not in self._given and parent in self._sessions:
                    self._given.add(key)
                    self._sessions.add(session)
                    found.append(key[0])
                    news = True
        return found
