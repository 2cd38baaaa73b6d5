"""CSV with a line of headings: one line a record, empty where something is not known."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from cuzk_top.exports.files import whole
from cuzk_top.exports.table import SCHEMA, batches
from cuzk_top.trace import Trace


def write(trace: Trace, path: Path) -> None:
    """Write all of a trace. Raises OSError."""
    plain = pa.schema(
        [(field.name, pa.utf8() if pa.types.is_dictionary(field.type) else field.type) for field in SCHEMA]
    )
    with whole(path) as temporary, csv.CSVWriter(temporary, plain) as writer:
        for batch in batches(trace):
            writer.write(pa.Table.from_batches([batch]).cast(plain))
