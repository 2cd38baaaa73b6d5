"""Parquet: one row a record, zstd, the session in the file's metadata."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from cuzk_top.exports.files import whole
from cuzk_top.exports.table import SCHEMA, batches
from cuzk_top.trace import Trace
from cuzk_top.trace_json import session_json


def write(trace: Trace, path: Path) -> None:
    """Write all of a trace. Raises OSError."""
    about = session_json(trace.session, {}) | {"clock": trace.session.anchors, "lost": trace.lost}
    schema = SCHEMA.with_metadata({"cuzk.session": json.dumps(about)})
    with whole(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:
        for batch in batches(trace):
            writer.write_batch(batch)
