"""Open saved traces, `.cuzk`: Arrow IPC, a stream while recording and a sorted file afterwards.

*The stream* has plain batches; dictionaries may not change in a stream, so names, tracks and metadata travel
as rows of kind META at the front of a batch: `a0` says which (see `META_*`), `name` and `track` carry the id,
`text` the content as JSON. Every whole batch of a stream that was cut off can be read. A recording of limited
size is a row of such streams (segments): `FILE` is the newest, `FILE.0007` and so on those before it.

*The file* is sorted by (track, depth, start), has names as one dictionary, and everything else about the
session in the schema's metadata. Columns that are zero everywhere are left out; `id` and `parent` are the
writer's own numbers, their track is the row's or that of `id_track`. `cuzk.lanes` says where each (track,
depth) begins and `cuzk.runs` what is in it, so that opening does not look at the rows.

Readers of another minor version open what they know; another major version is refused.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuzk_top import arrow
from cuzk_top.errors import TraceError
from cuzk_top.flatbuffers import ArrowError
from cuzk_top.lazy import LazyColumns, Load, Pieces
from cuzk_top.model import COLUMN_TYPES, KIND_META, Columns, Name, Run, Session
from cuzk_top.trace_json import integer_of, name_of, read_session, text_of, time_of, track_of

VERSION_MAJOR = 1
VERSION_MINOR = 1

META_SESSION = 1
META_NAME = 2
META_TRACK = 3
META_STATE = 4
META_ANCHOR = 5  # start: CLOCK_MONOTONIC, a1: CLOCK_REALTIME

FILE_COLUMNS = {"start": "start_ns", "end": "end_ns"} | {
    name: name for name in COLUMN_TYPES if name not in ("start_ns", "end_ns")
}
"""Column of the file -> column of the model."""
_STORED = {ours: column for column, ours in FILE_COLUMNS.items()}

_FIRST = ("start", "end", "kind", "flags", "track", "depth", "name")
"""What the first picture needs."""


@dataclass(frozen=True, slots=True)
class Trace:
    """An opened trace. `runs` hold everything; spans that were open at the end carry FLAG_OPEN.

    `rings` says how far each ring was read into it (see `sources.ring.RingSource.position`).
    """

    session: Session
    runs: tuple[Run, ...]
    lost: int
    now_ns: int
    ended: bool
    problems: tuple[str, ...]
    rings: dict[str, dict[str, Any]] = field(default_factory=dict)
    streamed: bool = False

    @property
    def columns(self) -> Columns:
        """All rows at once: of a stream in order of arrival, of a file as it is sorted."""
        columns = Columns.concat([run.columns for run in self.runs if len(run.columns)])
        return columns.take(np.argsort(columns.seq, kind="stable")) if self.streamed else columns

    def __len__(self) -> int:
        return sum(len(run.columns) for run in self.runs)


def open(path: str | Path) -> Trace:
    """A packed file, a stream with the segments before it, or either cut off anywhere.

    Raises TraceError when the file is empty, something else, damaged, or of another major version.
    """
    path = Path(path)
    try:
        start, content = arrow.read(path, keep=_FIRST)
        if start.startswith(arrow.FILE_MAGIC):
            return _open_packed(path, content)
        if not start and not segments(path):
            raise TraceError(f"{path}: an empty file: nothing was written to it")
        if start[:4] == arrow.CONTINUATION[: len(start[:4])]:
            return _open_stream(path, content)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(f"{path}: damaged: {reason}") from error
    raise TraceError(f"{path}: not a .cuzk trace")


def segments(path: Path) -> list[Path]:
    """The files that a recording of limited size has left beside its newest, oldest first."""
    found = []
    for other in path.parent.glob(f"{_escaped(path.name)}.*"):
        number = re.fullmatch(r"\.(\d{4,})", other.name[len(path.name) :])
        if number:
            found.append((int(number[1]), other))
    return [other for _, other in sorted(found)]


def _escaped(name: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", name)


class _Reading:
    """What is known of a trace while its parts are read."""

    def __init__(self) -> None:
        self.session = Session(names=[])
        self.state: dict[str, Any] = {"lost": 0, "now_ns": 0, "ended": False, "problems": []}
        self.problems: list[str] = []
        self.pieces: dict[tuple[int, int], list[tuple[Load, int, int]]] = {}

    def add(self, load: Load, low: int, high: int) -> None:
        """Rows of a batch, in pieces of equal track and depth."""
        if low >= high:
            return
        key = load("track", low, high).astype(np.int64) << 8 | load("depth", low, high)
        edges = [0, *(np.flatnonzero(key[1:] != key[:-1]) + 1).tolist(), high - low]
        firsts = key[edges[:-1]].tolist()
        for packed, first, last in zip(firsts, edges[:-1], edges[1:], strict=True):
            self.pieces.setdefault((packed >> 8, packed & 0xFF), []).append((load, low + first, low + last))

    def runs(self) -> Iterable[Run]:
        """All pieces of a track and depth together."""
        for (track, depth), pieces in sorted(self.pieces.items()):
            yield Run(track, depth, Pieces(pieces).columns())

    def trace(self, runs: Iterable[Run], *, streamed: bool) -> Trace:
        runs = tuple(runs)
        state = self.state
        if not self.session.names:
            self.session.names = [Name("")]
        now = time_of(state["now_ns"])
        for run in runs:
            if isinstance(run.columns, LazyColumns) and len(run.columns):
                now = max(now, time_of(run.columns.part("end_ns", len(run.columns) - 1, len(run.columns))[0]))
        rings = state.get("rings", {})
        problems = (*(text_of(text) for text in state["problems"]), *self.problems)
        lost, ended = integer_of(state["lost"]), bool(state["ended"])
        return Trace(self.session, runs, lost, now, ended, problems, rings, streamed)


def _open_stream(path: Path, content: arrow.Content) -> Trace:
    reading = _Reading()
    before = []
    recording = _check_version(path, content.schema).get("cuzk.recording") if content.schema else None
    if recording and content.schema and content.schema.metadata.get("cuzk.segment", "0") != "0":
        for other in segments(path):
            _, part = arrow.read(other)
            if part.schema is not None and part.schema.metadata.get("cuzk.recording") == recording:
                before.append(part)
    for part in before:
        _read_stream(reading, part)
    _read_stream(reading, content)
    if content.damage:
        reading.problems.append(f"the file is damaged, what comes before is shown: {content.damage}")
    elif not content.whole:
        rows = sum(batch.rows for batch in content.batches)
        reading.problems.append(
            f"the recording was cut off: its {len(content.batches)} whole batches ({rows:,} rows) are shown"
        )
    return reading.trace(reading.runs(), streamed=True)


def _read_stream(reading: _Reading, content: arrow.Content) -> None:
    for batch in content.batches:
        kind = _column(batch, "kind", 0, batch.rows)
        noted = int(np.count_nonzero(kind == KIND_META))
        if noted:
            if not bool((kind[:noted] == KIND_META).all()):
                raise ArrowError("metadata rows among others")
            said = Columns(*(_column(batch, name, 0, noted) for name in COLUMN_TYPES))
            for i, text in enumerate(batch.texts("text", noted)):
                _read_note(reading, said, i, text)
        reading.add(_stream_load(batch), noted, batch.rows)


def _stream_load(batch: arrow.Batch) -> Load:
    return lambda name, low, high: _column(batch, name, low, high)


def _column(batch: arrow.Batch, name: str, low: int, high: int) -> NDArray[Any]:
    """A column of the model as it stands in the file; zeros where the file lacks it."""
    kind = COLUMN_TYPES[name]
    values = batch.column(_STORED[name])
    if values is None:
        return np.broadcast_to(np.zeros(1, kind), high - low)
    part = values[low:high]
    return part if part.dtype == kind else part.astype(kind)


def _check_version(path: Path, schema: arrow.Schema) -> dict[str, str]:
    text = schema.metadata.get("cuzk.version", "")
    major = text.partition(".")[0]
    if not (major.isascii() and major.isdigit()):
        raise TraceError(f"{path}: an Arrow file, but not a .cuzk trace")
    if int(major[:9]) != VERSION_MAJOR:
        raise TraceError(
            f"{path}: trace version {text[:20]}; this program reads version {VERSION_MAJOR}: "
            "use the cuzk-top that wrote it, or a newer one"
        )
    for column in ("start", "end", "kind"):
        if column not in schema.fields:
            raise TraceError(f"{path}: damaged: it has no column {column!r}")
    for column in (*FILE_COLUMNS, "id_track"):
        if column in schema.fields and schema.fields[column].type is None:
            raise TraceError(f"{path}: damaged: column {column!r} holds no integers")
    return schema.metadata


def _read_note(reading: _Reading, columns: Columns, i: int, text: str) -> None:
    content = json.loads(text)
    session = reading.session
    which = int(columns.a0[i])
    if which == META_NAME:
        if int(columns.name[i]) == len(session.names):
            session.names.append(name_of(content))
    elif which == META_TRACK:
        track = int(columns.track[i])
        session.tracks[track] = track_of(track, content)
    elif which == META_SESSION:
        read_session(session, content)
    elif which == META_STATE:
        reading.state |= content
    elif which == META_ANCHOR:
        anchor = (time_of(columns.start_ns[i]), time_of(columns.a1[i]))
        if not session.anchors or anchor[0] > session.anchors[-1][0]:
            session.anchors.append(anchor)


def _open_packed(path: Path, content: arrow.Content) -> Trace:
    schema = content.schema
    if schema is None:
        raise TraceError(f"{path}: cut off before its first row")
    _check_version(path, schema)
    about = {key: json.loads(value) for key, value in schema.metadata.items() if key != "cuzk.version"}
    reading = _Reading()
    session = reading.session
    session.names = [name_of(fields) for fields in about["cuzk.names"]]
    session.tracks = {
        integer_of(track): track_of(integer_of(track), fields) for track, *fields in about["cuzk.tracks"]
    }
    session.anchors = [(time_of(a), time_of(b)) for a, b in about["cuzk.clock"]]
    read_session(session, about["cuzk.session"])
    reading.state |= about["cuzk.state"]
    rows = sum(batch.rows for batch in content.batches)
    missing = integer_of(about["cuzk.rows"]) - rows
    if content.damage:
        reading.problems.append(f"the file is damaged, what comes before is shown: {content.damage}")
    elif missing:
        told = f"{missing:,} of {integer_of(about['cuzk.rows']):,} rows are missing"
        reading.problems.append(f"the file was cut off: {told}")
    elif not content.whole:
        reading.problems.append("the file was cut off")
    pieces = [(_packed_load(batch), 0, batch.rows) for batch in content.batches if batch.rows]
    if not pieces:
        return reading.trace((), streamed=False)
    whole = Pieces(pieces).columns()
    known = _known_runs(about, whole)
    if known is not None:
        return reading.trace(known, streamed=False)
    for piece in pieces:
        reading.add(*piece)
    return reading.trace(reading.runs(), streamed=False)


def _known_runs(about: dict[str, Any], whole: LazyColumns) -> list[Run] | None:
    """The runs as the metadata has them; None where it does not say, or not what the rows say."""
    lanes = [(int(track), int(depth), int(low)) for track, depth, low in about["cuzk.lanes"]]
    contents = about.get("cuzk.runs")
    if contents is None or len(contents) != len(lanes) or not lanes or lanes[0][2] != 0:
        return None
    edges = [low for _, _, low in lanes] + [max(len(whole), lanes[-1][2])]
    runs = []
    for place, ((track, depth, low), (names, kinds, flags)) in enumerate(zip(lanes, contents, strict=True)):
        high = min(edges[place + 1], len(whole))
        if low > edges[place + 1]:
            return None
        if low >= high:
            continue  # cut off before this one
        if (track, depth) != (
            int(whole.part("track", low, low + 1)[0]),
            int(whole.part("depth", low, low + 1)[0]),
        ):
            return None
        columns = whole.take(slice(low, high))
        told = None if names is None else tuple(min(max(int(name), 0), 0xFFFFFFFF) for name in names)
        runs.append(Run(track, depth, columns, told, tuple(map(integer_of, kinds)), int(flags) & 0xFF))
    return runs


def _packed_load(batch: arrow.Batch) -> Load:
    wide = batch.column("id") is None or batch.column("id").dtype.itemsize == 8  # type: ignore[union-attr]
    other = batch.column("id_track") if not wide else None

    def load(name: str, low: int, high: int) -> NDArray[Any]:
        values = _column(batch, name, low, high)
        if wide or name not in ("id", "parent"):
            return values
        track = _column(batch, "track", low, high) if other is None else other[low:high]
        return np.where(values == 0, np.uint64(0), track.astype(np.uint64) << np.uint64(32) | values)

    return load
