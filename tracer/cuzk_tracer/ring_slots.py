"""Reading one thread's slot of a ring: its new records, and the spans that are open on its stack."""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cuzk_tracer import layout
from cuzk_tracer.ring_input import OPEN, RECORD, Input, Rows
from cuzk_tracer.ticks import Ticks

MOST_RECORDS = 1 << 22  # 256 MiB a slot

IS_GPU = np.zeros(256, bool)
"""By kind: records of devices. A table, since numpy's isin costs a poll more than reading does."""
IS_GPU[list(layout.GPU_KINDS)] = True

_NO_STACK = np.empty(0, OPEN)
_NO_RECORDS = np.empty(0, RECORD)
_WORDS = layout.RECORD_BYTES // 8
_KIND = next(offset for name, offset, _ in layout.RECORD if name == "kind")
_NO_INDEX = np.empty(0, np.uint64)


class Header(NamedTuple):
    """A slot's header, as layout.SLOT has it."""

    head: int
    mask: int
    tid: int
    name: int
    state: int
    depth: int
    next_id: int
    ring_off: int
    stack_off: int
    generation: int
    busy: int
    base: int

    def raw(self) -> bytes:
        """The bytes that it was read from."""
        return _HEADER.pack(*self)


_HEADER = struct.Struct("<" + "".join(code for _, _, code in layout.SLOT))
assert _HEADER.size == layout.SLOT_BYTES and Header._fields == tuple(name for name, _, _ in layout.SLOT)
_HEAD = struct.Struct("<Q")


def header(data: bytes, offset: int = 0) -> Header:
    """The header that lies at an offset of what was read."""
    return Header._make(_HEADER.unpack_from(data, offset))


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread that had a slot: `generation` tells those apart that had the same."""

    slot: int
    generation: int
    tid: int
    name: str


@dataclass(slots=True)
class Known:
    """What a reader knows of a slot. `raw` is its header when all was read last, `stack` what then lay at
    `stack_off`: as long as both stay the same there is nothing new. `open` is what is open there.
    """

    next: int = 0
    thread: Thread | None = None
    bad: bool = False
    raw: bytes = b""
    stack: bytes = b""
    stack_off: int = 0
    open: tuple[Thread, Rows] | None = None


def usable(slot: Header, known: Known, size: int) -> bool:
    """Whether a header can be true in a file of that size."""
    capacity = slot.mask + 1
    return not (
        capacity & slot.mask
        or capacity > MOST_RECORDS
        or slot.ring_off + capacity * layout.RECORD_BYTES > size
        or slot.stack_off + layout.STACK_ENTRIES * layout.OPEN_BYTES > size
        or slot.head < known.next
    )


def open_spans(file: Input, slot: Header, offset: int) -> tuple[Rows, bytes, Header]:
    """The open spans, as they and as the bytes that were read, and the slot's header (which lies at `offset`)
    as it was after that.

    An entry below the depth before and after that reads the same twice was whole.
    """
    depth = min(slot.depth, layout.STACK_ENTRIES)
    if depth == 0:
        return _NO_STACK, b"", slot
    one = file.read(depth * layout.OPEN_BYTES, slot.stack_off)
    two = file.read(depth * layout.OPEN_BYTES, slot.stack_off)
    data = file.read(layout.SLOT_BYTES, offset)
    if len(data) < layout.SLOT_BYTES or len(one) < depth * layout.OPEN_BYTES or len(two) < len(one):
        return _NO_STACK, b"", slot
    after = header(data)
    depth = min(depth, after.depth)
    rows = np.frombuffer(one, OPEN, depth)
    same = rows["t0"] != 0
    if one != two:
        same &= rows == np.frombuffer(two, OPEN, depth)
    stable = depth if same.all() else int(same.argmin())
    return rows[:stable], one, after


def new_records(file: Input, known: Known, slot: Header, offset: int) -> tuple[Rows, NDArray[np.uint64], int]:
    """New records up to the header's `head`, their indices, and how many the writer was faster than."""
    head, capacity = slot.head, slot.mask + 1
    # The place one lap behind the head may be half overwritten, so a ring holds capacity - 1.
    first = max(known.next, head - capacity + 1)
    if first >= head:
        lost, known.next = head - known.next, head
        return _NO_RECORDS, _NO_INDEX, lost
    low, high = first % capacity, (head - 1) % capacity + 1
    if low < high:
        rows = file.table(RECORD, high - low, slot.ring_off + low * layout.RECORD_BYTES)
    else:
        rows = np.concatenate(
            [
                file.table(RECORD, capacity - low, slot.ring_off + low * layout.RECORD_BYTES),
                file.table(RECORD, high, slot.ring_off),
            ]
        )
    after = file.read(_HEAD.size, offset)  # the head comes first in a header
    now = _HEAD.unpack(after)[0] if len(after) == _HEAD.size else head
    lapped = min(max(0, now - capacity + 1 - first), len(rows))
    rows = rows[lapped:]
    first += lapped
    index = np.arange(first, first + len(rows), dtype=np.uint64)
    whole = rows["index"] == (index + np.uint64(1)).astype(np.uint32)
    if not whole.all():
        rows, index = rows[whole], index[whole]
    lost, known.next = head - known.next - len(rows), head
    return rows, index, lost


def still_open(stack: Rows, rows: Rows) -> Rows:
    """The spans of a stack that did not end meanwhile: those are among the records already."""
    closed = set(rows["id"][-layout.STACK_ENTRIES * 64 :].tolist())
    ended = [number in closed for number in stack["id"].tolist()]
    return stack[~np.array(ended)] if any(ended) else stack


def in_ns(records: list[tuple[Thread, Rows]], opened: list[Known], ticks: Ticks) -> list[tuple[Thread, Rows]]:
    """The same records with their times in monotonic nanoseconds, and those of the open spans brought to it:
    all at once, since there are few of each.
    """
    stacks = [(known.open[0], known.open[1].copy()) for known in opened if known.open is not None]
    counts = [len(rows) for _, rows in records]
    words = np.concatenate([rows for _, rows in records] or [_NO_RECORDS]).view(np.uint64).reshape(-1, _WORDS)
    # Times of devices are in nanoseconds already.
    host = (~IS_GPU[words.view(np.uint8)[:, _KIND] & layout.KIND_MASK]).nonzero()[0]
    told = ticks.to_ns(np.concatenate([words[host, :2].reshape(-1), *(stack["t0"] for _, stack in stacks)]))
    low = 2 * len(host)
    words[host, :2] = told[:low].reshape(-1, 2)
    for known, (thread, stack) in zip(opened, stacks, strict=True):
        stack["t0"] = told[low : low + len(stack)]
        low += len(stack)
        known.open = (thread, stack)
    whole: Rows = words.view(RECORD).reshape(-1)
    ends = itertools.accumulate(counts)
    return [
        (thread, whole[end - count : end])
        for (thread, _), count, end in zip(records, counts, ends, strict=True)
    ]
