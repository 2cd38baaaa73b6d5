"""Record batches into a `.cuzk` trace (its format: see `trace`).

While recording, a stream of batches of at most 65,536 rows or 100 ms, the rows of a batch sorted by track,
depth and start. On close a sorted file takes its place, once that is safely on disk.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cuzk_top.model import COLUMN_TYPES, KIND_META, Batch, Columns, Name, Session, Track
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
)

__all__ = ["Recorder", "Trace", "open", "pack"]

BATCH_ROWS = 65_536
BATCH_NS = 100_000_000
IDLE_NS = 1_000_000_000
"""While nothing happens, the time alone is written this often."""
FILE_BATCH_ROWS = 1 << 20
"""Rows of a batch of the packed file: one that is cut off in copying opens up to its last whole batch."""

_SCHEMA = pa.schema(
    [
        pa.field(column, pa.from_numpy_dtype(COLUMN_TYPES[ours]), nullable=False)
        for column, ours in FILE_COLUMNS.items()
    ]
    + [pa.field("text", pa.utf8(), nullable=False)]
)
_ALWAYS = ("start", "end", "kind", "flags", "depth", "track", "name", "id", "parent", "seq")

_Note = tuple[int, int, int, int, str]
"""Which, id, start, a1, text."""


class Recorder:
    """Writes batches to `path`. Raises OSError when it cannot be written.

    `facts` are metadata of the machine, added to the session's.
    """

    def __init__(self, path: str | Path, facts: dict[str, str] | None = None) -> None:
        self.path = Path(path)
        self._facts = facts or {}
        # A new file, not the old one emptied: a viewer may have that mapped.
        if self.path.is_file():
            self.path.unlink()
        self._sink = pa.OSFile(str(self.path), "wb")
        self.path.chmod(0o600)
        self._writer = pa.ipc.new_stream(self._sink, _SCHEMA.with_metadata({"cuzk.version": _version()}))
        self._pending: list[Columns] = []
        self._rows = 0
        self._next_seq = 0
        self._written_ns = 0
        self._names = 0
        self._anchors = 0
        self._tracks: dict[int, Track] = {}
        self._about = ""
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
        if self._rows >= BATCH_ROWS or batch.ended or waited >= (BATCH_NS if self._rows else IDLE_NS):
            self._flush(batch)

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
            self._flush(self._last)
        self._writer.close()
        self._sink.close()
        pack(self.path, self.path)

    def _flush(self, batch: Batch) -> None:
        self._written_ns = batch.now_ns
        columns = Columns.concat(self._pending)
        self._pending, self._rows = [], 0
        notes = self._notes(batch)
        for low in range(0, max(1, len(columns)), BATCH_ROWS):
            part = columns.take(slice(low, low + BATCH_ROWS))
            self._write(notes, part.take(np.lexsort((part.start_ns, part.depth, part.track))))
            notes = []

    def _notes(self, batch: Batch) -> list[_Note]:
        """What to say about the session that was not said yet."""
        session = batch.session
        notes: list[_Note] = []
        for number in range(self._names, len(session.names)):
            notes.append((META_NAME, number, 0, 0, json.dumps(_name_json(session.names[number]))))
        self._names = len(session.names)
        for track in session.tracks.values():
            if self._tracks.get(track.id) != track:
                self._tracks[track.id] = track
                notes.append((META_TRACK, track.id, 0, 0, json.dumps([track.kind, track.label, track.tid])))
        for monotonic, realtime in session.anchors[self._anchors :]:
            notes.append((META_ANCHOR, 0, monotonic, realtime, "null"))
        self._anchors = len(session.anchors)
        about = json.dumps(_session_json(session, self._facts))
        if about != self._about:
            self._about = about
            notes.append((META_SESSION, 0, 0, 0, about))
        notes.append((META_STATE, 0, 0, 0, json.dumps(_state_json(batch))))
        return notes

    def _write(self, notes: list[_Note], rows: Columns) -> None:
        texts = [note[4].encode() for note in notes]
        if notes:
            which, number, start, a1, _ = zip(*notes, strict=True)
            said = Columns.make(
                len(notes),
                kind=KIND_META,
                a0=which,
                name=number,
                track=number,
                start_ns=start,
                end_ns=start,
                a1=a1,
            )
            rows = Columns.concat([said, rows])
        ends = np.zeros(len(rows) + 1, np.int32)
        ends[1 : len(texts) + 1] = np.cumsum([len(text) for text in texts])
        ends[len(texts) + 1 :] = ends[len(texts)]
        text = pa.StringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))
        arrays = [pa.array(getattr(rows, ours)) for ours in FILE_COLUMNS.values()]
        self._writer.write_batch(pa.record_batch([*arrays, text], schema=_SCHEMA))


def _version() -> str:
    return f"{VERSION_MAJOR}.{VERSION_MINOR}"


def _name_json(name: Name) -> list[Any]:
    return [name.text, name.a0, name.a1, name.stage, name.faults]


def _session_json(session: Session, facts: dict[str, str]) -> dict[str, Any]:
    meta = facts | session.meta
    return {"pid": session.pid, "name": session.name, "started_ns": session.started_ns, "meta": meta}


def _state_json(about: Batch | Trace) -> dict[str, Any]:
    return {
        "lost": about.lost,
        "now_ns": about.now_ns,
        "ended": about.ended,
        "problems": list(about.problems),
    }


def pack(source: str | Path, target: str | Path) -> None:
    """Write the sorted file of a trace (a stream or a file, cut off or not); atomic, also onto itself.

    Raises TraceError when `source` cannot be read, OSError when `target` cannot be written.
    """
    source, target = Path(source), Path(target)
    trace = open(source)
    columns = trace.columns
    columns = columns.take(np.lexsort((columns.end_ns, columns.start_ns, columns.depth, columns.track)))
    made = _packed_arrays(columns)
    made["name"] = _dictionary(trace.session.names, columns)
    schema = pa.schema([pa.field(name, array.type, nullable=False) for name, array in made.items()])
    table = pa.record_batch(list(made.values()), schema=schema.with_metadata(_metadata(trace, columns)))
    temporary = target.with_name(target.name + ".part")
    try:
        with pa.OSFile(str(temporary), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            for low in range(0, table.num_rows, FILE_BATCH_ROWS):
                writer.write_batch(table.slice(low, FILE_BATCH_ROWS))
        temporary.chmod(0o600)
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _packed_arrays(columns: Columns) -> dict[str, pa.Array]:
    """Columns as the file has them, without `name`; those that are zero everywhere are left out."""
    made = {
        column: getattr(columns, ours)
        for column, ours in FILE_COLUMNS.items()
        if column in _ALWAYS or getattr(columns, ours).any()
    }
    mask = np.uint64(0xFFFFFFFF)
    # Marks and counters have a parent but no id of their own.
    either = np.where(columns.id != 0, columns.id, columns.parent)
    high = np.where(either != 0, either >> np.uint64(32), columns.track)
    if bool(((columns.parent >> np.uint64(32) == high) | (columns.parent == 0)).all()):
        made["id"] = (columns.id & mask).astype(np.uint32)
        made["parent"] = (columns.parent & mask).astype(np.uint32)
        if bool((high != columns.track).any()):
            made["id_track"] = high.astype(np.uint32)
    if not len(columns) or int(columns.seq.max()) <= 0xFFFFFFFF:
        made["seq"] = columns.seq.astype(np.uint32)
    return {column: pa.array(array) for column, array in made.items()}


def _dictionary(names: list[Name], columns: Columns) -> pa.Array:
    """The name column. Some readers want unique values, so a text that recurs gets its number behind it."""
    seen: set[str] = set()
    values = []
    for number, name in enumerate(names):
        values.append(f"{name.text}#{number}" if name.text in seen else name.text)
        seen.add(values[-1])
    values.append(f"<unknown>#{len(names)}")
    indices = np.minimum(columns.name, len(names)).astype(np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(values, pa.utf8()))


def _metadata(trace: Trace, columns: Columns) -> dict[str, str]:
    session = trace.session
    key = columns.track.astype(np.int64) << 8 | columns.depth.astype(np.int64)
    edges = np.flatnonzero(np.diff(key, prepend=-1)) if len(key) else np.empty(0, np.int64)
    lanes = [[int(columns.track[i]), int(columns.depth[i]), int(i)] for i in edges]
    tracks = [[track.id, track.kind, track.label, track.tid] for track in session.tracks.values()]
    content = {
        "cuzk.session": _session_json(session, {}),
        "cuzk.names": [_name_json(name) for name in session.names],
        "cuzk.tracks": tracks,
        "cuzk.clock": session.anchors,
        "cuzk.lanes": lanes,  # track, depth, first row
        "cuzk.rows": len(columns),
        "cuzk.state": _state_json(trace),
    }
    return {"cuzk.version": _version()} | {key: json.dumps(value) for key, value in content.items()}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
