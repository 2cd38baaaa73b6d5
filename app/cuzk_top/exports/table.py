"""A trace as one flat table, a row a record, names resolved: for Parquet and CSV."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cuzk_top.exports.tracks import name_of
from cuzk_top.model import (
    FLAG_ERR,
    FLAG_F64,
    FLAG_F64_A1,
    FLAG_FAULTS,
    FLAG_OPEN,
    FLAG_UNBALANCED,
    Columns,
    Session,
)
from cuzk_top.packing import parted
from cuzk_top.trace import Trace
from cuzk_tracer import layout

KINDS = {
    getattr(layout, name): name.removeprefix("KIND_").lower()
    for name in dir(layout)
    if name.startswith("KIND_") and name not in ("KIND_ERR", "KIND_MASK")
}
"""Kind -> the word in the table."""

_WORD = pa.dictionary(pa.int32(), pa.utf8())
SCHEMA = pa.schema(
    [
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("kind", _WORD),
        ("name", _WORD),
        ("track", pa.uint32()),
        ("track_kind", _WORD),
        ("track_label", _WORD),
        ("tid", pa.int64()),
        ("depth", pa.uint8()),
        ("id", pa.uint64()),
        ("parent", pa.uint64()),
        ("corr", pa.uint32()),
        ("a0_name", _WORD),
        ("a0", pa.int64()),  # one of a0 and a0_float is null
        ("a0_float", pa.float64()),
        ("a1_name", _WORD),
        ("a1", pa.int64()),
        ("a1_float", pa.float64()),
        ("minflt", pa.uint32()),  # null where not measured
        ("majflt", pa.uint32()),
        ("error", pa.bool_()),
        ("open", pa.bool_()),
        ("unbalanced", pa.bool_()),
        ("seq", pa.uint64()),
    ]
)


def batches(trace: Trace) -> Iterator[pa.RecordBatch]:
    """The table, a million rows at most at a time, by track, depth and start as far as the trace is."""
    for part in parted(sorted(trace.runs, key=lambda run: (run.track, run.depth))):
        yield _batch(trace.session, part)


def _batch(session: Session, columns: Columns) -> pa.RecordBatch:
    names = _Words(columns.name, lambda number: name_of(session, number).text)
    a0_names = _Words(columns.name, lambda number: name_of(session, number).a0)
    a1_names = _Words(columns.name, lambda number: name_of(session, number).a1)
    tracks = session.tracks
    flags = columns.flags
    f64, f64_a1 = flags & FLAG_F64 != 0, flags & FLAG_F64_A1 != 0
    no_faults = flags & FLAG_FAULTS == 0
    made: dict[str, Any] = {
        "start_ns": columns.start_ns,
        "end_ns": columns.end_ns,
        "kind": _Words(columns.kind, lambda kind: KINDS.get(kind, str(kind))).array,
        "name": names.array,
        "track": columns.track,
        "track_kind": _Words(columns.track, lambda t: tracks[t].kind if t in tracks else "").array,
        "track_label": _Words(columns.track, lambda t: tracks[t].label if t in tracks else "").array,
        "tid": _looked_up(columns.track, lambda t: tracks[t].tid if t in tracks else 0),
        "depth": columns.depth,
        "id": columns.id,
        "parent": columns.parent,
        "corr": columns.corr,
        "a0_name": a0_names.array,
        "a0": pa.array(columns.a0, mask=f64),
        "a0_float": pa.array(columns.a0.view(np.float64), mask=~f64),
        "a1_name": a1_names.array,
        "a1": pa.array(columns.a1, mask=f64_a1),
        "a1_float": pa.array(columns.a1.view(np.float64), mask=~f64_a1),
        "minflt": pa.array(columns.minflt, mask=no_faults),
        "majflt": pa.array(columns.majflt, mask=no_faults),
        "error": flags & FLAG_ERR != 0,
        "open": flags & FLAG_OPEN != 0,
        "unbalanced": flags & FLAG_UNBALANCED != 0,
        "seq": columns.seq,
    }
    arrays = [pa.array(made[field.name]).cast(field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class _Words:
    """Numbers as words: a dictionary array."""

    def __init__(self, numbers: NDArray[Any], word: Any) -> None:
        values, places = np.unique(numbers, return_inverse=True)
        words = [word(value) for value in values.tolist()]
        self.array = pa.DictionaryArray.from_arrays(
            pa.array(places.astype(np.int32)), pa.array(words, pa.utf8())
        )


def _looked_up(numbers: NDArray[Any], look: Any) -> NDArray[np.int64]:
    values, places = np.unique(numbers, return_inverse=True)
    return np.array([look(value) for value in values.tolist()], np.int64)[places]
