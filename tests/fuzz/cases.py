"""One case of fuzzing: damage a seed, open it as the viewer does, look at everything.

What is allowed: an error with one line that names the file, or a trace. Everything else is a finding.
"""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import numpy as np

from cuzk_top import exports, packing, recovery, report, trace, viewport
from cuzk_top.collector import Collector
from cuzk_top.errors import CuzkTopError
from cuzk_top.model import Snapshot
from cuzk_top.rows import Spans, cells
from cuzk_top.sources.ring import RingSource
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store
from cuzk_tracer import layout

INTERESTING = [
    0,
    1,
    2,
    7,
    63,
    64,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65_535,
    65_536,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
]
INTERESTING += [2**40, 2**48, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
WORDS = [b"null", b"-1", b"1e999", b"[]", b"{}", b'""', b"9" * 30, b"true", b"\xff\xfe", b'"\\ud800"']


def damage(data: bytes, source: random.Random, other: bytes) -> bytes:
    """A few mutations: bits, bytes, numbers, cuts, pieces doubled or from elsewhere, words of JSON."""
    made = bytearray(data)
    for _ in range(source.choice([1, 1, 1, 2, 3, 8])):
        if not made:
            break
        # Half of the hits go where the structures are: the beginning.
        end = len(made) if source.random() < 0.5 else min(len(made), 4200)
        at = source.randrange(end)
        kind = source.randrange(10)
        if kind == 0:
            made[at] ^= 1 << source.randrange(8)
        elif kind == 1:
            made[at] = source.randrange(256)
        elif kind in (2, 3, 4):
            size = source.choice([1, 2, 4, 8])
            at -= at % size if source.random() < 0.8 else 0
            value = source.choice(INTERESTING) if source.random() < 0.7 else source.getrandbits(64)
            made[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
        elif kind == 5:
            del made[source.randrange(len(made)) :]
        elif kind == 6:
            del made[at : at + source.choice([1, 4, 8, 64, 500])]
        elif kind == 7:
            piece = made[at : at + source.choice([8, 64, 500])]
            place = source.randrange(len(made))
            made[place:place] = piece
        elif kind == 8:
            start = source.randrange(len(other))
            piece = other[start : start + source.choice([8, 64, 2000])]
            made[at : at + len(piece)] = piece
        else:
            word = source.choice(WORDS)
            made[at : at + len(word)] = word
    return bytes(made)


def damage_header(data: bytes, source: random.Random) -> bytes:
    """Odd values in fields of the ring's header, which the general mutations seldom hit."""
    made = bytearray(data)
    sizes = {"B": 1, "H": 2, "I": 4, "Q": 8, "q": 8}
    fields = [(offset, sizes[code]) for _, offset, code in layout.HEADER if code in sizes]
    for _ in range(source.choice([1, 1, 2, 4])):
        offset, size = source.choice(fields)
        old = int.from_bytes(made[offset : offset + size], "little")
        value = source.choice([*INTERESTING, old + 1, old - 1, old * 2, old + 64, len(made)])
        made[offset : offset + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    return bytes(made)


def look(snapshot: Snapshot) -> None:
    """What the screen and the report do with a session."""
    window = viewport.fit(snapshot.first_ns, snapshot.last_ns, 40)
    edges = viewport.edges(window, 40)
    for row in snapshot.rows[:20]:
        columns = row.columns
        assert bool((columns.start_ns[1:] >= columns.end_ns[:-1]).all()), "spans of a row overlap"
        opened = row.open.start_ns if row.open is not None else None
        cells(Spans.until(columns.start_ns, columns.end_ns, opened, snapshot.now_ns), edges)
        for i in range(min(3, len(columns))):
            record = snapshot.record(row, i)
            snapshot.parent(record)
            snapshot.children(record)
    facts = report.facts(snapshot)
    json.dumps(facts)
    report.text(facts).encode()


def ring_case(path: Path) -> str:
    """A ring as `attach` and `recover` see it."""
    try:
        store = Store()
        source = RingSource(path, time.monotonic_ns)
        try:
            collector = Collector(source, [], store, None, time.monotonic_ns)
            collector.step()
            collector.step()
            look(store.snapshot())
        finally:
            source.close()
        recovery.recover([path], time.monotonic_ns)
    except CuzkTopError as error:
        return refused(path, error)
    return "partial" if store.snapshot().problems else "whole"


def trace_case(path: Path, number: int) -> str:
    """A trace as `replay`, `report`, `pack` and `export` see it."""
    try:
        opened = trace.open(path)
        store = Store()
        store.append(TraceSource(path).poll())
        snapshot = store.snapshot()
        look(snapshot)
        if number % 8 == 0:
            packing.write(opened, path.with_suffix(".packed"))
            again = trace.open(path.with_suffix(".packed"))
            assert len(again) == len(opened)
        if number % 8 == 4:
            suffix = list(exports.FORMATS)[number // 8 % len(exports.FORMATS)]
            exports.write(exports.trim(opened, snapshot.first_ns, None), path.with_suffix(suffix))
        if number % 64 == 1:
            np.asarray(opened.columns.seq)
    except CuzkTopError as error:
        return refused(path, error)
    told = " ".join(opened.problems)
    return "partial" if "cut off" in told or "damaged" in told else "whole"


def refused(path: Path, error: CuzkTopError) -> str:
    """A refusal is one line that names the file."""
    assert path.stem in str(error), str(error)
    assert "\n" not in str(error), str(error)
    return "refused"


class Fuzzer:
    """Cases by number: the same number is the same case."""

    def __init__(self, folder: Path, rings: list[bytes], traces: dict[str, bytes]) -> None:
        self._folder = folder
        self._rings = rings
        self._traces = traces

    def case(self, number: int) -> str:
        """Run one; returns kind and outcome. Raises what is a finding."""
        source = random.Random(number)
        names = list(self._traces)
        if number % 2:
            ring = source.choice(self._rings)
            data = damage(ring, source, self._traces["plain"])
            if source.random() < 0.3:
                data = damage_header(ring, source)
            path = self._folder / "damaged.ring"
            path.write_bytes(data)
            return f"ring {ring_case(path)}"
        name = names[number // 2 % len(names)]
        data = damage(self._traces[name], source, self._traces[source.choice(names)])
        path = self._folder / "damaged.cuzk"
        path.unlink(missing_ok=True)  # a new file: the one before may still be mapped
        path.write_bytes(data)
        return f"{name} {trace_case(path, number // 2 // len(names))}"
