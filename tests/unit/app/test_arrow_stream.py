"""Streams as Arrow's own library reads them."""

import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzk_top.arrow_stream import StreamWriter

TYPES = {
    "wide": np.dtype(np.int64),
    "byte": np.dtype(np.uint8),
    "id": np.dtype(np.uint64),
    "word": np.dtype(np.uint32),
}
BATCHES = st.lists(
    st.tuples(
        st.lists(
            st.tuples(
                st.integers(-(2**63), 2**63 - 1),
                st.integers(0, 255),
                st.integers(0, 2**64 - 1),
                st.integers(0, 2**32 - 1),
            ),
            max_size=20,
        ),
        st.lists(st.text(max_size=9), max_size=5),
    ),
    max_size=4,
)


@given(batches=BATCHES, about=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3))
def test_arrow_reads_what_was_written(tmp_path_factory, batches, about):
    path = tmp_path_factory.mktemp("stream") / "s.arrow"
    writer = StreamWriter(path, TYPES, "said", about)
    told = []
    for rows, more in batches:
        texts = more[: len(rows)]
        batch = writer.batch(len(rows), [text.encode() for text in texts])
        for place, name in enumerate(TYPES):
            batch.columns[name][:] = [row[place] for row in rows]
        writer.write(batch)
        told.append((rows, texts + [""] * (len(rows) - len(texts))))
    writer.close()
    assert writer.tell == path.stat().st_size
    with pa.ipc.open_stream(path.read_bytes()) as reader:
        schema = reader.schema
        assert [(field.name, field.type, field.nullable) for field in schema] == [
            ("wide", pa.int64(), False),
            ("byte", pa.uint8(), False),
            ("id", pa.uint64(), False),
            ("word", pa.uint32(), False),
            ("said", pa.utf8(), False),
        ]
        assert (schema.metadata or {}) == {k.encode(): v.encode() for k, v in about.items()}
        read = list(reader)
    assert len(read) == len(batches)
    for batch, (rows, texts) in zip(read, told, strict=True):
        batch.validate(full=True)
        assert list(zip(*(batch[name].to_pylist() for name in TYPES), strict=True)) == rows
        assert batch["said"].to_pylist() == texts


def test_only_its_owner_may_read_it(tmp_path):
    before = os.umask(0)
    try:
        StreamWriter(tmp_path / "s", TYPES, "said", {}).close()
    finally:
        os.umask(before)
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600


def test_a_full_disk_is_an_error_at_once():
    with pytest.raises(OSError, match="No space left"):
        StreamWriter("/dev/full", TYPES, "said", {})
