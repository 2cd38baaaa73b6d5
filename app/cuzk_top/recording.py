"""Record batches into a `.cuzk` trace (its format: see `trace`).

While recording, a stream of batches of at most 65,536 rows or a second, the rows of a batch sorted by
track, depth and start. On close a sorted file takes its place, once that is safely on disk.

A recording of limited size is a row of streams: the newest has the recording's name, the ones before it carry
a number behind that; when all together pass the limit, the oldest is removed. Each tells the session from the
beginning, so what is left can always be read.
"""

import json
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cuzk_top import figures
from cuzk_top.arrow_stream import StreamWriter
from cuzk_top.columns import Packed
from cuzk_top.model import COLUMN_TYPES, KIND_META, Batch, Columns, Track
from cuzk_top.trace import (
    FILE_COLUMNS,
    META_ANCHOR,
    META_NAME,
    META_SESSION,
    META_STATE,
    META_TRACK,
    VERSION_MAJOR,
    VERSION_MINOR,
    Trace,
    open,
    segments,
)
from cuzk_top.trace_json import name_json, session_json, state_json

__all__ = ["Recorder", "Trace", "open", "remove"]

BATCH_ROWS = 65_536
BATCH_NS = 1_000_000_000
WAITING_ROWS = 16_384
"""What waits for its batch when the viewer is killed is still in the ring, from which `recover` adds it; so
no more waits than a quarter of a thread's ring.
"""
IDLE_NS = 1_000_000_000
"""While nothing happens, the time alone is written this often."""
SEGMENTS = 8
"""A limited recording drops an eighth of itself at a time."""
LEAST_BYTES = 1 << 20
"""A limit below this would be used up by names and metadata."""

_TYPES = {column: COLUMN_TYPES[ours] for column, ours in FILE_COLUMNS.items()}
ROW_BYTES = sum(kind.itemsize for kind in COLUMN_TYPES.values()) + 4
"""Of the stream, the text's offset included."""

_Note = tuple[int, int, int, int, str]
"""Which, id, start, a1, text."""


class Recorder:
    """Writes batches to `path`. Raises OSError when it cannot be written; the text says where the file then
    ends and what to do.

    `facts` are metadata of the machine, added to the session's. With `max_bytes` (at least LEAST_BYTES) the
    newest records are kept and the oldest dropped; on close the sorted file stands beside the streams for a
    moment, and is smaller than they are.
    """

    def __init__(
        self, path: str | Path, facts: dict[str, str] | None = None, max_bytes: int | None = None
    ) -> None:
        self.path = Path(path)
        self._facts = facts or {}
        self._max_bytes = max_bytes
        self._batch_rows = BATCH_ROWS
        if max_bytes is not None:
            self._batch_rows = max(64, min(BATCH_ROWS, max_bytes // SEGMENTS // ROW_BYTES // 2))
        self._recording = os.urandom(16).hex()
        self._segment = 0
        self._segments: list[tuple[Path, int, int]] = []  # path, bytes, spans
        self._dropped = 0
        for old in segments(self.path):  # of an earlier recording of that name
            old.unlink(missing_ok=True)
        self._begin()
        self._pending: list[Columns] = []
        self._rows = 0
        self._next_seq = 0
        self._written_ns = 0
        self._ends_ns: int | None = None
        self._last: Batch | None = None
        self._open = True

    def append(self, batch: Batch) -> None:
        """Take a batch in; written when enough has gathered. Raises OSError (a full disk, say)."""
        self._last = batch
        if len(batch.columns):
            self._pending.append(batch.columns)
            self._rows += len(batch.columns)
            self._next_seq = int(batch.columns.seq[-1]) + 1
        waited = batch.now_ns - self._written_ns
        if (
            self._rows >= min(WAITING_ROWS, self._batch_rows)
            or batch.ended
            or waited >= (BATCH_NS if self._rows else IDLE_NS)
        ):
            self._save(batch)

    def close(self) -> None:
        """Finish the stream, then put the sorted file in its place. Raises OSError; the stream stays then."""
        if not self._open:
            return
        self._open = False
        if self._last is not None:
            count = len(self._last.open)
            if count:
                seq = np.arange(self._next_seq, self._next_seq + count, dtype=np.uint64)
                self._pending.append(self._last.open.replace(seq=seq))
            self._save(self._last)
        from cuzk_top.packing import pack  # noqa: PLC0415 (pyarrow: 28 MB that nobody needs before the end)

        try:
            self._writer.close()
            pack(self.path, self.path)
            for path, _, _ in self._segments:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise OSError(
                f"{_reason(error)}: {self.path} has everything, but is not packed; make room, then cuzk-top "
                f"pack {self.path}"
            ) from error

    def _begin(self) -> None:
        """A new stream under the recording's name, which knows nothing of the session yet."""
        about = {
            "cuzk.version": f"{VERSION_MAJOR}.{VERSION_MINOR}",
            "cuzk.recording": self._recording,
            "cuzk.segment": str(self._segment),
        }
        # A new file, not the old one emptied: a viewer may have that mapped.
        if self.path.is_file():
            self.path.unlink()
        self._writer = StreamWriter(self.path, _TYPES, "text", about)
        self._spans = 0
        self._names = 0
        self._anchors = 0
        self._tracks: dict[int, Track] = {}
        self._about: tuple[int, str, int, dict[str, str]] | None = None

    def _rotate(self, limit: int) -> None:
        """Set the full stream aside, drop the oldest where there are too many, and begin another."""
        self._writer.close()
        size = self._writer.tell
        aside = self.path.with_name(f"{self.path.name}.{self._segment:04}")
        self.path.replace(aside)
        self._segments.append((aside, size, self._spans))
        while self._segments and sum(size for _, size, _ in self._segments) > limit - limit // SEGMENTS:
            oldest, _, spans = self._segments.pop(0)
            self._dropped += spans
            oldest.unlink(missing_ok=True)
        self._segment += 1
        self._begin()

    def _save(self, batch: Batch) -> None:
        """Write what waits."""
        try:
            self._flush(batch)
        except OSError as error:
            ends = "nothing is saved"
            if self._ends_ns is not None:
                since = figures.spaced(self._ends_ns - batch.session.started_ns)
                ends = f"what came after {since} is not saved"
            raise OSError(
                f"{_reason(error)}: {self.path}: {ends}; make room, then record again, or on the screen save "
                "what memory holds (W)"
            ) from error
        self._ends_ns = batch.now_ns

    def _flush(self, batch: Batch) -> None:
        self._written_ns = batch.now_ns
        columns = Columns.concat(self._pending)
        self._pending, self._rows = [], 0
        while len(columns) > self._batch_rows:
            self._write(self._notes(batch, whole=False), columns.take(slice(self._batch_rows)))
            columns = columns.take(slice(self._batch_rows, None))
            self._look_at_size()
        self._write(self._notes(batch, whole=True), columns)
        self._look_at_size()

    def _look_at_size(self) -> None:
        if (
            self._max_bytes is not None
            and self._writer.tell > self._max_bytes // SEGMENTS - ROW_BYTES * self._batch_rows
        ):
            self._rotate(self._max_bytes)

    def _notes(self, batch: Batch, *, whole: bool) -> list[_Note]:
        """What to say about the session that was not said yet.

        `whole`: with these rows, all that was read so far is in the stream.
        """
        session = batch.session
        notes: list[_Note] = []
        for number in range(self._names, len(session.names)):
            notes.append((META_NAME, number, 0, 0, json.dumps(name_json(session.names[number]))))
        self._names = len(session.names)
        for track in session.tracks.values():
            if self._tracks.get(track.id) != track:
                self._tracks[track.id] = track
                notes.append((META_TRACK, track.id, 0, 0, json.dumps([track.kind, track.label, track.tid])))
        anchors = session.anchors[self._anchors :]
        if self._segment and not self._anchors:
            anchors = anchors[-2:]
        for monotonic, realtime in anchors:
            notes.append((META_ANCHOR, 0, monotonic, realtime, "null"))
        self._anchors = len(session.anchors)
        about = (session.pid, session.name, session.started_ns, session.meta)
        if about != self._about:
            self._about = (*about[:-1], dict(session.meta))
            notes.append((META_SESSION, 0, 0, 0, json.dumps(session_json(session, self._facts))))
        problems = list(batch.problems)
        if self._dropped:
            problems.append(dropped_line(self._dropped, self._max_bytes or 0))
        state = state_json(batch.lost, batch.now_ns, batch.ended, problems)
        if whole:
            state["rings"] = batch.rings
        notes.append((META_STATE, 0, 0, 0, json.dumps(state)))
        return notes

    def _write(self, notes: list[_Note], rows: Columns) -> None:
        self._spans += len(rows)
        order = sorted_order(rows)
        texts = [note[4].encode() for note in notes]
        which, number, start, a1, _ = zip(*notes, strict=True)
        said = Packed.zeros(len(notes))
        said.kind[:] = KIND_META
        said.a0[:] = which
        said.name[:] = said.track[:] = number
        said.start_ns[:] = said.end_ns[:] = start
        said.a1[:] = a1
        made = self._writer.batch(len(notes) + len(rows), texts)
        for column, ours in FILE_COLUMNS.items():
            values = made.columns[column]
            values[: len(notes)] = getattr(said, ours)
            mine = getattr(rows, ours)
            if order is None:
                values[len(notes) :] = mine
            else:
                np.take(mine, order, out=values[len(notes) :], mode="clip")  # "raise" would buffer
        self._writer.write(made)


def sorted_order(rows: Columns) -> NDArray[np.intp] | None:
    """The order by (track, depth, start); None where the rows are in it.

    Rows come in order of their ends, so within a track and depth they nearly always are in order already, and
    a stable sort by those two, which takes one pass each where they are small, is all there is to do.
    """
    if len(rows) < 2:
        return None
    key = rows.track.astype(np.int64) << 8 | rows.depth
    low = int(key.min())
    if int(key.max()) - low <= 0xFFFF:
        order = np.argsort((key - low).astype(np.uint16), kind="stable")
    else:
        order = np.argsort(np.unique(key, return_inverse=True)[1].astype(np.uint16), kind="stable")
    key = key[order]
    start = rows.start_ns[order]
    if bool(((start[1:] < start[:-1]) & (key[1:] == key[:-1])).any()):
        return np.lexsort((rows.start_ns, rows.depth, rows.track))
    return order


def _reason(error: OSError) -> str:
    """``No space left on device``: pyarrow's own texts say it in more words."""
    return os.strerror(error.errno) if error.errno else str(error)


def remove(path: Path) -> None:
    """Remove a recording, and the older segments of one of limited size."""
    for each in (*segments(path), path):
        each.unlink(missing_ok=True)


def dropped_line(spans: int, limit: int) -> str:
    """What a limited recording says of itself."""
    return f"the recording keeps the newest {limit:,} bytes: its oldest {spans:,} records were dropped"
