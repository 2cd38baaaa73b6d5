"""The sorted file of a trace: written from its runs, a million rows at a time, whatever its size."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cuzk_top import trace
from cuzk_top.model import COLUMN_TYPES, Columns, Name, Run
from cuzk_top.trace import (
    FILE_COLUMNS,
    VERSION_MAJOR,
    VERSION_MINOR,
    Trace,
)
from cuzk_top.trace_json import name_json, session_json, state_json

BATCH_ROWS = 1 << 20
"""Rows of a batch. One that is cut off in copying opens up to its last whole batch."""
WHOLE_ROWS = 2 * BATCH_ROWS
"""A run up to this long is not parted, so that its columns are views of the mapped file."""
NAMES_TOLD = 64
"""A run with more names than this tells none."""
ZSTD_LEVEL = 3

_ALWAYS = ("start", "end", "kind", "flags", "depth", "track", "name", "id", "parent", "seq")


def pack(source: str | Path, target: str | Path, *, zstd: bool = False) -> Trace:
    """Write the sorted file of a trace (a stream or a file, cut off or not); atomic, also onto itself.

    Gives back the trace as it was opened. Raises TraceError when `source` cannot be read, OSError when
    `target` cannot be written.
    """
    opened = trace.open(source)
    write(opened, target, zstd=zstd)
    return opened


def write(opened: Trace, target: str | Path, *, zstd: bool = False) -> None:
    """Write a trace as a sorted file, renamed into place once it is on disk. Raises OSError."""
    target = Path(target)
    runs = [
        in_order(run)
        for run in sorted(opened.runs, key=lambda run: (run.track, run.depth))
        if len(run.columns)
    ]
    shape = _Shape(runs)
    names = opened.session.names
    schema = pa.schema([pa.field(column, shape.type(column), nullable=False) for column in shape.columns])
    dictionary = _dictionary(names)
    options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", ZSTD_LEVEL) if zstd else None)
    temporary = target.with_name(target.name + ".part")
    try:
        with (
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, schema.with_metadata(_metadata(opened, runs)), options=options) as writer,
        ):
            for parts in _batches(runs):
                writer.write_batch(_record_batch(shape, schema, parts, dictionary, len(names)))
        temporary.chmod(0o600)
        _sync(temporary)
        temporary.replace(target)
        _sync(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def in_order(run: Run) -> Run:
    """The same rows by start, then end."""
    columns = run.columns
    last: tuple[int, int] | None = None
    for low in range(0, len(columns), BATCH_ROWS):
        part = columns.take(slice(low, low + BATCH_ROWS))
        start, end = part.start_ns, part.end_ns
        rising = (start[1:] > start[:-1]) | ((start[1:] == start[:-1]) & (end[1:] >= end[:-1]))
        if not bool(rising.all()) or (last is not None and (int(start[0]), int(end[0])) < last):
            order = np.lexsort((columns.end_ns, columns.start_ns))
            return Run(run.track, run.depth, Columns(*(array[order] for _, array in columns.arrays())))
        last = int(start[-1]), int(end[-1])
    return run


class _Shape:
    """Which columns the file has, and how wide: what is zero everywhere is left out."""

    def __init__(self, runs: list[Run]) -> None:
        used = set(_ALWAYS)
        self.short_ids = True
        self.other_tracks = False
        most_seq = 0
        for run in runs:
            for part in parted([run]):
                for column, ours in FILE_COLUMNS.items():
                    if column not in used and bool(getattr(part, ours).any()):
                        used.add(column)
                high = id_track(part)
                self.short_ids &= bool(((part.parent >> np.uint64(32) == high) | (part.parent == 0)).all())
                self.other_tracks |= bool((high != part.track).any())
                most_seq = max(most_seq, int(part.seq.max()))
        self.short_seq = most_seq <= 0xFFFFFFFF
        self.columns = [column for column in FILE_COLUMNS if column in used]
        if self.short_ids and self.other_tracks:
            self.columns.append("id_track")

    def type(self, column: str) -> pa.DataType:
        if column == "name":
            return pa.dictionary(pa.int32(), pa.utf8())
        return pa.from_numpy_dtype(self.dtype(column))

    def dtype(self, column: str) -> np.dtype[Any]:
        short = (column in ("id", "parent") and self.short_ids) or (column == "seq" and self.short_seq)
        if short or column == "id_track":
            return np.dtype(np.uint32)
        return COLUMN_TYPES[FILE_COLUMNS[column]]


def id_track(part: Columns) -> NDArray[np.uint64]:
    """The track whose numbers `id` and `parent` are. Marks have a parent but no id of their own."""
    either = np.where(part.id != 0, part.id, part.parent)
    high: NDArray[np.uint64] = np.where(either != 0, either >> np.uint64(32), part.track)
    return high


def parted(runs: Iterable[Run]) -> Iterator[Columns]:
    """Rows of runs, a million at most at a time."""
    for run in runs:
        for low in range(0, len(run.columns), BATCH_ROWS):
            yield run.columns.take(slice(low, low + BATCH_ROWS))


def _batches(runs: list[Run]) -> Iterator[list[Columns]]:
    """What goes into each batch: whole runs, except of very long ones."""
    gathered: list[Columns] = []
    rows = 0
    for run in runs:
        count = len(run.columns)
        if gathered and rows + count > WHOLE_ROWS:
            yield gathered
            gathered, rows = [], 0
        if count > WHOLE_ROWS:
            for part in parted([run]):
                yield [part]
            continue
        gathered.append(run.columns)
        rows += count
        if rows >= BATCH_ROWS:
            yield gathered
            gathered, rows = [], 0
    if gathered:
        yield gathered


def _record_batch(
    shape: _Shape, schema: pa.Schema, parts: list[Columns], dictionary: pa.Array, names: int
) -> pa.RecordBatch:
    count = sum(len(part) for part in parts)
    arrays = []
    for place, column in enumerate(shape.columns):
        values = np.empty(count, np.int32 if column == "name" else shape.dtype(column))
        at = 0
        for part in parts:
            if column == "name":
                here: NDArray[Any] = np.minimum(part.name, names)
            elif column == "id_track":
                here = id_track(part)
            else:
                here = getattr(part, FILE_COLUMNS[column])
            values[at : at + len(part)] = here  # ids lose their high half here, which id_track has
            at += len(part)
        kind = pa.int32() if column == "name" else schema.field(place).type
        array = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)])
        arrays.append(pa.DictionaryArray.from_arrays(array, dictionary) if column == "name" else array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _dictionary(names: list[Name]) -> pa.Array:
    """The texts of the name column. Some readers want unique values, so one that recurs gets its number."""
    seen: set[str] = set()
    values = []
    for number, name in enumerate(names):
        values.append(f"{name.text}#{number}" if name.text in seen else name.text)
        seen.add(values[-1])
    values.append(f"<unknown>#{len(names)}")
    return pa.array(values, pa.utf8())


def _metadata(opened: Trace, runs: list[Run]) -> dict[str, str]:
    session = opened.session
    lanes, contents = [], []
    row = 0
    for run in runs:
        lanes.append([run.track, run.depth, row])
        contents.append(_content(run))
        row += len(run.columns)
    state = state_json(opened.lost, opened.now_ns, opened.ended, list(opened.problems)) | {
        "rings": opened.rings
    }
    content = {
        "cuzk.session": session_json(session, {}),
        "cuzk.names": [name_json(name) for name in session.names],
        "cuzk.tracks": [[track.id, track.kind, track.label, track.tid] for track in session.tracks.values()],
        "cuzk.clock": session.anchors,
        "cuzk.lanes": lanes,  # track, depth, first row
        "cuzk.runs": contents,  # of each lane: its names (null: many), its kinds, its flags together
        "cuzk.rows": row,
        "cuzk.state": state,
    }
    version = {"cuzk.version": f"{VERSION_MAJOR}.{VERSION_MINOR}"}
    return version | {key: json.dumps(value) for key, value in content.items()}


def _content(run: Run) -> list[Any]:
    names: set[int] = set()
    kinds = np.zeros(256, bool)
    flags = 0
    for part in parted([run]):
        kinds |= np.bincount(part.kind, minlength=256) > 0
        flags |= int(np.bitwise_or.reduce(part.flags))
        if len(names) <= NAMES_TOLD:
            names.update(_unique(part.name))
    told = sorted(names) if len(names) <= NAMES_TOLD else None
    return [told, np.flatnonzero(kinds).tolist(), flags]


def _unique(names: NDArray[np.uint32]) -> list[int]:
    most = int(names.max())
    if most < 1 << 20:
        found: list[int] = np.flatnonzero(np.bincount(names)).tolist()
        return found
    return np.unique(names).tolist()  # type: ignore[no-any-return]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
