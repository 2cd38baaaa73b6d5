"""Fuzzing for the normal run: some hundred damaged files, and parsers on arbitrary bytes. More: run.py."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

import cases
import seeds

from cuzk_top import arrow, flatbuffers, trace
from cuzk_top.errors import CuzkTopError, TraceError

FIRST = 7_000_000
"""Case numbers of this run: far from those that run.py begins with."""


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> cases.Fuzzer:
    return cases.Fuzzer(tmp_path_factory.mktemp("fuzz"), seeds.rings(), seeds.traces())


def test_the_seeds_are_well_formed(tmp_path: Path) -> None:
    """Undamaged, everything in them is read: else the fuzzing would stop at the door."""
    path = tmp_path / "seed.ring"
    path.write_bytes(seeds.ring())
    assert cases.ring_case(path) == "partial", "its process is gone: that is said"
    for name, data in seeds.traces().items():
        path = tmp_path / f"{name}.cuzk"
        path.write_bytes(data)
        assert cases.trace_case(path, 0) == "whole"
        assert len(trace.open(path)) == 48


@pytest.mark.parametrize("low", range(0, 1600, 200))
def test_damaged_files_are_refused_or_read_in_part(fuzzer: cases.Fuzzer, low: int) -> None:
    outcomes = {fuzzer.case(FIRST + number) for number in range(low, low + 200)}
    assert {"ring refused", "ring partial"} <= outcomes
    assert any("refused" in outcome for outcome in outcomes if "ring" not in outcome)


@settings(deadline=None, max_examples=300)
@given(
    data=st.binary(max_size=400),
    start=st.sampled_from([b"", b"\xff\xff\xff\xff", b"ARROW1\0\0", b"ARROW1\0\0\xff\xff\xff\xff"]),
)
def test_arbitrary_bytes_are_no_trace(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "arbitrary.cuzk"
    path.unlink(missing_ok=True)
    path.write_bytes(start + data)
    try:
        assert len(trace.open(path)) == 0
    except TraceError as error:
        assert str(path) in str(error)


@settings(deadline=None, max_examples=300)
@given(header=st.integers(0, 2**32), data=st.binary(min_size=4, max_size=300))
def test_arbitrary_messages_are_refused(
    tmp_path_factory: pytest.TempPathFactory, header: int, data: bytes
) -> None:
    """A message whose length is right and whose content is anything: the flatbuffers reader is on its own."""
    path = tmp_path_factory.getbasetemp() / "message.cuzk"
    path.unlink(missing_ok=True)
    content = (header % len(data)).to_bytes(4, "little") + data
    path.write_bytes(b"\xff\xff\xff\xff" + len(content).to_bytes(4, "little") + content + bytes(64))
    try:
        _, found = arrow.read(path)
        assert sum(batch.rows for batch in found.batches) <= arrow.MOST_ROWS_A_BYTE * path.stat().st_size
    except flatbuffers.ArrowError as error:
        assert "message at byte 0" in str(error)


def test_the_same_number_is_the_same_case() -> None:
    data = seeds.traces()["plain"]
    one, two = (cases.damage(data, random.Random(5), data) for _ in range(2))
    assert one == two != data


def test_a_compressed_column_that_would_fill_the_memory_is_refused(tmp_path: Path) -> None:
    """A length of a gigabyte where the schema's rows need less: refused before anything is allocated."""
    data = seeds.traces()["zstd"]
    path = tmp_path / "bomb.cuzk"
    changed = 0
    for at in range(0, len(data) - 8, 8):
        if int.from_bytes(data[at : at + 8], "little") == 48 * 8:  # what a column of 48 rows of 8 bytes says
            path.unlink(missing_ok=True)
            path.write_bytes(data[:at] + (1 << 30).to_bytes(8, "little") + data[at + 8 :])
            try:
                trace.open(path)
            except CuzkTopError as error:
                changed += "bytes" in str(error)
    assert changed >= 3
