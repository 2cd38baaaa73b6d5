"""Open saved traces, `.cuzk`: Arrow IPC, a stream while recording and a sorted file afterwards.

*The stream* has plain batches; dictionaries may not change in a stream, so names, tracks and metadata travel
as rows of kind META: `a0` says which (see `META_*`), `name` and `track` carry the id, `text` the content as
JSON. Every whole batch of a stream that was cut off can be read.

*The file* is sorted by (track, depth, start), has names as one dictionary, and everything else about the
session in the schema's metadata. Columns that are zero everywhere are left out; `id` and `parent` are the
writer's own numbers, their track is the row's or that of `id_track`.

Readers of another minor version open what they know; another major version is refused.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cuzk_top.errors import TraceError
from cuzk_top.model import COLUMN_TYPES, KIND_META, Columns, Name, Session, Track

VERSION_MAJOR = 1
VERSION_MINOR = 0

META_SESSION = 1
META_NAME = 2
META_TRACK = 3
META_STATE = 4
META_ANCHOR = 5  # start: CLOCK_MONOTONIC, a1: CLOCK_REALTIME

FILE_COLUMNS = {"start": "start_ns", "end": "end_ns"} | {
    name: name for name in COLUMN_TYPES if name not in ("start_ns", "end_ns")
}
"""Column of the file -> column of the model."""

STREAM_START = b"\xff\xff\xff\xff"
STREAM_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
FILE_MAGIC = b"ARROW1"


@dataclass(frozen=True, slots=True)
class Trace:
    """An opened trace. `columns` holds everything; spans that were open at the end carry FLAG_OPEN."""

    session: Session
    columns: Columns
    lost: int
    now_ns: int
    ended: bool
    problems: tuple[str, ...]


def open(path: str | Path) -> Trace:
    """A packed file, a stream, or either cut off anywhere.

    Raises TraceError when the file is something else, damaged, or of another major version.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
        data = pa.memory_map(str(path)).read_buffer() if size else pa.py_buffer(b"")
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error
    try:
        if start.startswith(FILE_MAGIC):
            return _open_packed(path, data)
        if start[:4] == STREAM_START[: len(start[:4])]:
            return _open_stream(path, data)
    except (pa.ArrowException, ValueError, KeyError, TypeError, IndexError, OverflowError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(f"{path}: damaged: {reason}") from error
    raise TraceError(f"{path}: not a .cuzk trace")


def _open_stream(path: Path, data: pa.Buffer) -> Trace:
    schema, batches, whole = _whole_batches(data)
    problems = []
    if not whole:
        rows = sum(batch.num_rows for batch in batches)
        problems.append(
            f"the recording was cut off: its {len(batches)} whole batches ({rows:,} rows) are shown"
        )
    session = Session(names=[])
    state: dict[str, Any] = {"lost": 0, "now_ns": 0, "ended": False, "problems": []}
    parts = []
    if schema is not None:
        _check_version(path, schema)
    for batch in batches:
        columns = _columns(batch)
        noted = columns.kind == KIND_META
        if noted.any():
            texts = _texts(batch)
            for i in np.flatnonzero(noted).tolist():
                _read_note(session, state, columns, i, texts[i])
            columns = columns.take(~noted)
        if len(columns):
            parts.append(columns)
    if not session.names:
        session.names = [Name("")]
    columns = Columns.concat(parts)
    columns = columns.take(np.argsort(columns.seq, kind="stable"))
    return _trace(session, columns, state, problems)


def _trace(session: Session, columns: Columns, state: dict[str, Any], problems: list[str]) -> Trace:
    now = int(state["now_ns"])
    if len(columns):
        now = max(now, int(columns.end_ns.max()))
    return Trace(
        session,
        columns,
        int(state["lost"]),
        now,
        bool(state["ended"]),
        (*(str(text) for text in state["problems"]), *problems),
    )


def _whole_batches(data: pa.Buffer) -> tuple[pa.Schema | None, list[pa.RecordBatch], bool]:
    """The schema and every whole batch of a stream that may be cut off anywhere; true when it was not cut."""
    batches: list[pa.RecordBatch] = []
    source = pa.BufferReader(data)
    try:
        reader = pa.ipc.open_stream(source)
    except (pa.ArrowException, OSError):
        return None, batches, False
    while True:
        at = source.tell()
        try:
            batches.append(reader.read_next_batch())
        except StopIteration:
            # A stream that ends has a mark for it; one cut off between two batches has not.
            return reader.schema, batches, data.size - at >= len(STREAM_END)
        except (pa.ArrowException, OSError):
            return reader.schema, batches, False


def _check_version(path: Path, schema: pa.Schema) -> None:
    text = (schema.metadata or {}).get(b"cuzk.version", b"").decode("utf-8", "replace")
    major = text.partition(".")[0]
    if not major.isdigit():
        raise TraceError(f"{path}: an Arrow file, but not a .cuzk trace")
    if int(major) != VERSION_MAJOR:
        raise TraceError(
            f"{path}: trace version {text}; this program reads version {VERSION_MAJOR}: "
            "use the cuzk-top that wrote it, or a newer one"
        )


def _read_note(session: Session, state: dict[str, Any], columns: Columns, i: int, text: str) -> None:
    content = json.loads(text)
    which = int(columns.a0[i])
    if which == META_NAME:
        if int(columns.name[i]) == len(session.names):
            session.names.append(Name(*content))
    elif which == META_TRACK:
        track = int(columns.track[i])
        session.tracks[track] = Track(track, *content)
    elif which == META_SESSION:
        _read_session(session, content)
    elif which == META_STATE:
        state |= content
    elif which == META_ANCHOR:
        session.anchors.append((int(columns.start_ns[i]), int(columns.a1[i])))


def _read_session(session: Session, content: dict[str, Any]) -> None:
    session.pid = int(content["pid"])
    session.name = str(content["name"])
    session.started_ns = int(content["started_ns"])
    session.meta = {str(key): str(value) for key, value in content["meta"].items()}


def _open_packed(path: Path, data: pa.Buffer) -> Trace:
    problems = []
    try:
        reader = pa.ipc.open_file(data)
        schema = reader.schema
        batches = [reader.get_batch(i) for i in range(reader.num_record_batches)]
    except (pa.ArrowException, OSError):
        schema, batches, _ = _whole_batches(data[8:])  # the same messages, without the index at the end
        problems.append("the file was cut off")
    if schema is None:
        raise TraceError(f"{path}: cut off before its first row")
    _check_version(path, schema)
    about = {
        key.decode(): json.loads(value) for key, value in schema.metadata.items() if key != b"cuzk.version"
    }
    session = Session(names=[Name(*fields) for fields in about["cuzk.names"]])
    session.tracks = {track: Track(track, *fields) for track, *fields in about["cuzk.tracks"]}
    session.anchors = [(int(a), int(b)) for a, b in about["cuzk.clock"]]
    _read_session(session, about["cuzk.session"])
    columns = Columns.concat([_packed_columns(batch) for batch in batches])
    missing = int(about["cuzk.rows"]) - len(columns)
    if missing:
        problems = [f"the file was cut off: {missing:,} of {int(about['cuzk.rows']):,} rows are missing"]
    return _trace(session, columns, about["cuzk.state"], problems)


def _packed_columns(batch: pa.RecordBatch) -> Columns:
    columns = _columns(batch)
    place = batch.schema.get_field_index("id")
    if place >= 0 and batch.column(place).type == pa.uint64():
        return columns
    track = columns.track
    if batch.schema.get_field_index("id_track") >= 0:
        track = _values(batch, "id_track", COLUMN_TYPES["track"])
    high = track.astype(np.uint64) << np.uint64(32)
    return columns.replace(
        id=np.where(columns.id == 0, np.uint64(0), high | columns.id),
        parent=np.where(columns.parent == 0, np.uint64(0), high | columns.parent),
    )


def _values(batch: pa.RecordBatch, column: str, kind: np.dtype[Any]) -> NDArray[Any]:
    """A column as an array of this type; zeros where the file lacks it.

    Taken from the Arrow buffer itself: `to_numpy` would import pandas where that is installed.
    """
    place = batch.schema.get_field_index(column)
    if place < 0:
        return np.zeros(batch.num_rows, kind)
    array = batch.column(place)
    if pa.types.is_dictionary(array.type):
        array = array.indices
    if not pa.types.is_integer(array.type):
        raise ValueError(f"column {column} is {array.type}, not integers")
    stored = np.dtype(array.type.to_pandas_dtype())
    if len(array) == 0:
        return np.empty(0, kind)
    values: NDArray[Any] = np.frombuffer(
        array.buffers()[1], stored, count=len(array), offset=array.offset * stored.itemsize
    )
    return values if stored == kind else values.astype(kind)


def _columns(batch: pa.RecordBatch) -> Columns:
    return Columns(
        **{ours: _values(batch, column, COLUMN_TYPES[ours]) for column, ours in FILE_COLUMNS.items()}
    )


def _texts(batch: pa.RecordBatch) -> list[str]:
    place = batch.schema.get_field_index("text")
    if place < 0:
        return [""] * batch.num_rows
    array = batch.column(place)
    array.validate(full=True)
    texts: list[str] = array.to_pylist()
    return texts
