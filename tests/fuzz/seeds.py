"""Well-formed rings and traces, small, for fuzzing to damage."""

from __future__ import annotations

import struct
import tempfile
import time
from pathlib import Path

import numpy as np

from cuzk_top import packing, recording
from cuzk_top.model import (
    FLAG_F64,
    KIND_COUNTER,
    KIND_INSTANT,
    KIND_SPAN,
    Batch,
    Columns,
    Name,
    Session,
    Track,
)
from cuzk_tracer import layout, places

RECORDS, SLOTS = 16, 3


def pack_fields(fields: tuple[layout.Field, ...], size: int, values: dict[str, int | bytes]) -> bytes:
    """One structure of the layout."""
    made = bytearray(size)
    for name, offset, code in fields:
        if name in values:
            struct.pack_into("<" + code, made, offset, values[name])
    return bytes(made)


def ring(clock_kind: int = layout.CLOCK_MONOTONIC) -> bytes:
    """A ring of a process that is gone: three threads, spans, a counter, open spans, one lap too many."""
    now = time.monotonic_ns() - 10**9
    strings = bytearray(8)

    def string(text: str) -> int:
        at = len(strings)
        data = text.encode()
        strings.extend(struct.pack("<I", len(data)) + data + bytes(-len(data) % 4))
        return at

    names = b"".join(
        pack_fields(
            layout.NAME, layout.NAME_BYTES, {"text": string(text), "a0": a0 and string(a0), "flags": flags}
        )
        for text, a0, flags in (("", 0, 0), ("prove", 0, 1), ("msm.h", "points", 3), ("queue", 0, 0))
    )
    metas = b"".join(
        pack_fields(layout.META_ENTRY, layout.META_BYTES, {"key": string(key), "value": string(value)})
        for key, value in (("command", "prover --fast"), ("backend", "cpu-native"))
    )
    anchors = b"".join(
        pack_fields(
            layout.ANCHOR,
            layout.ANCHOR_BYTES,
            {"ticks": now + i * 10**9, "monotonic_ns": now + i * 10**9, "realtime_ns": 10**18 + i * 10**9},
        )
        for i in range(2)
    )
    thread = getattr(layout, "THREAD_BYTES", 0)
    anchors_off = layout.HEADER_BYTES
    metas_off = anchors_off + len(anchors)
    slots_off = metas_off + len(metas) + (-len(metas) % 64)
    threads_off = slots_off + SLOTS * layout.SLOT_BYTES
    names_off = threads_off + SLOTS * thread
    strings_off = names_off + len(names)
    strings.extend(bytes(-len(strings) % 64))
    stacks_off = strings_off + len(strings)
    stack = layout.STACK_ENTRIES * layout.OPEN_BYTES
    rings_off = stacks_off + SLOTS * stack
    slots, stacks, rings = b"", b"", b""
    label = 0
    for slot in range(SLOTS):
        head = (10, 3, RECORDS + 5)[slot]
        slots += pack_fields(
            layout.SLOT,
            layout.SLOT_BYTES,
            {
                "head": head,
                "mask": RECORDS - 1,
                "tid": 100 + slot,
                "name": label,
                "state": 1,
                "depth": slot,
                "ring_off": rings_off + slot * RECORDS * layout.RECORD_BYTES,
                "stack_off": stacks_off + slot * stack,
            },
        )
        opened = b"".join(
            pack_fields(
                layout.OPEN, layout.OPEN_BYTES, {"t0": now + 10**6 + i, "name": 1, "id": 900 + i, "a0": 3}
            )
            for i in range(slot)
        )
        stacks += opened.ljust(stack, b"\0")
        rows = [b""] * RECORDS
        for i in range(head):
            inner = i % 3 != 2
            rows[i % RECORDS] = pack_fields(
                layout.RECORD,
                layout.RECORD_BYTES,
                {
                    "t0": now + 1000 * i + (100 if inner else -1900),
                    "t1": now + 1000 * i + 900,
                    "name": 2 if inner else 1,
                    "id": i + 1,
                    "parent": 0,
                    "kind": (1, 1, 1, 4)[i % 4],
                    "depth": int(inner),
                    "a0": i,
                    "minflt": 2,
                    "track": layout.TRACK_FAULTS,
                    "index": i + 1,
                },
            )
        rings += b"".join(row.ljust(layout.RECORD_BYTES, b"\0") for row in rows)
    body = (
        anchors
        + metas.ljust(slots_off - metas_off, b"\0")
        + slots
        + bytes(SLOTS * thread)
        + names
        + bytes(strings)
    )
    body += stacks + rings
    header = pack_fields(
        layout.HEADER,
        layout.HEADER_BYTES,
        {
            "magic": layout.MAGIC,
            "major": layout.VERSION_MAJOR,
            "minor": layout.VERSION_MINOR,
            "header_bytes": layout.HEADER_BYTES,
            "file_bytes": layout.HEADER_BYTES + len(body),
            "anchors_off": anchors_off,
            "anchor_capacity": 2,
            "name_capacity": 4,
            "names_off": names_off,
            "metas_off": metas_off,
            "meta_capacity": 2,
            "slot_count": SLOTS,
            "strings_off": strings_off,
            "strings_bytes": len(strings),
            "slots_off": slots_off,
            "pid": 4_194_000,
            "start_time": 7,
            "opened_ns": now,
            "clock_kind": clock_kind,
            "enabled": 2,
            "uuid": bytes(range(16)),
            "boot_id": places.boot_id(),
            "names_count": 4,
            "metas_count": 2,
            "strings_used": len(strings),
            "slots_used": SLOTS,
            "anchor_seq": 4,
            "anchors_count": 2,
            "threads_off": threads_off,
        },
    )
    return header + body


def rings() -> list[bytes]:
    """One in nanoseconds, and one in ticks for readers that know those."""
    return [ring(), ring(), ring(layout.CLOCK_TSC)]


def batches() -> list[Batch]:
    """Two polls of a session with every kind of row."""
    session = Session(
        pid=4711,
        name="demo",
        started_ns=10**15,
        meta={"backend": "cpu-native", "job": "demo é"},
        names=[
            Name(""),
            Name("prove", "n", "", True, True),
            Name("msm.h", "points"),
            Name("host.rss"),
            Name("go"),
        ],
        tracks={1: Track(1, "thread", "main", 4711), 2: Track(2, "async", "async")},
        anchors=[(10**15, 10**18), (10**15 + 10**9, 10**18 + 10**9)],
    )
    made = []
    for poll in range(2):
        count = 24
        i = np.arange(count)
        start = 10**15 + poll * 10**6 + i * 1000
        outer = i % 4 == 3
        columns = Columns.make(
            count,
            start_ns=start - np.where(outer, 2900, 0),
            end_ns=start + 900,
            seq=poll * count + i,
            kind=np.where(i == 6, KIND_COUNTER, np.where(i == 9, KIND_INSTANT, KIND_SPAN)),
            depth=np.where(outer, 0, 1),
            track=1,
            name=np.where(i == 6, 3, np.where(i == 9, 4, np.where(outer, 1, 2))),
            id=1 << 32 | (i + 1 + poll * count),
            parent=0,
            a0=np.where(i == 6, np.int64(2**62), i * poll),
            flags=np.where(i == 6, FLAG_F64, 0),
            minflt=i % 5,
        )
        rings = {
            bytes(range(16)).hex(): {"slots": {"0": 4}, "tracks": [[0, 0, 1]], "async": [0], "lost": poll}
        }
        problems = ("a problem",) if poll else ()
        now = 10**15 + (poll + 1) * 10**8
        made.append(
            Batch(session, columns, Columns.empty(), poll, now, False, problems=problems, rings=rings)
        )
    return made


def traces() -> dict[str, bytes]:
    """A stream, the sorted file plain and compressed, the newest segment of a limited recording."""
    with tempfile.TemporaryDirectory() as folder:
        stream = Path(folder) / "t.cuzk"
        recorder = recording.Recorder(stream, {"machine.cpu": "abacus"})
        for batch in batches():
            recorder.append(batch)
            recorder._flush(batch)
        recorder._writer.close()
        made = {"stream": stream.read_bytes()}
        packing.pack(stream, Path(folder) / "plain")
        packing.pack(stream, Path(folder) / "zstd", zstd=True)
        made["plain"] = (Path(folder) / "plain").read_bytes()
        made["zstd"] = (Path(folder) / "zstd").read_bytes()
        return made
