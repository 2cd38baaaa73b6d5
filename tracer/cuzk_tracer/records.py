"""Records of all kinds but the plain span: packed whole, straight into the calling thread's ring."""

from __future__ import annotations

import struct
import time

from cuzk_tracer import layout, process, ringfile
from cuzk_tracer.slots import Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TOP = 2**63

# Packing zeroes the place first and stores in order: the index word leaves first and comes last.
pack_record = struct.Struct("<QQIIIBBHqqIIII").pack_into
now_ns = time.monotonic_ns
_float = struct.Struct("<d")


def argument(value: Any) -> tuple[int, bool]:
    """A span argument as the i64 to store and whether that is a float's bits. What fits neither becomes 0."""
    try:
        if isinstance(value, float):
            return int.from_bytes(_float.pack(value), "little", signed=True), True
        return min(max(int(value.__index__()), -TOP), TOP - 1), False
    except Exception:
        return 0, False


def float_bits(float0: bool, float1: bool) -> int:
    return (layout.TRACK_F64 if float0 else 0) | (layout.TRACK_F64_A1 if float1 else 0)


def emit(
    slot: Slot,
    start: int,
    end: int,
    name: int,
    number: int,
    parent: int,
    kind: int,
    depth: int,
    bits: int,
    a0: int,
    a1: int,
) -> None:
    """Write one record off the hot path."""
    index = slot.head
    at = (index & slot.mask) * 64
    stamp = (index + 1) & 0xFFFFFFFF
    depth = min(depth, 255)
    pack_record(slot.ring, at, start, end, name, number, parent, kind, depth, bits, a0, a1, 0, 0, 0, stamp)
    slot.head_word[0] = slot.head = index + 1
    if end >= slot.next_anchor_ns:
        slot.file.anchor(end)


def counter(name: str, value: float) -> None:
    """Record a value, integer or float, of a counter that goes by this name."""
    if process.State.level == layout.LEVEL_OFF:
        return
    slot = process.slot()
    if slot is None:
        return
    now = now_ns()
    stored, is_float = argument(value)
    bits = layout.TRACK_F64 if is_float else 0
    parent = slot.stack[-1][1] if slot.stack else 0
    number = process.plain_name(name, ringfile.NAMES)
    emit(slot, now, now, number, 0, parent, layout.KIND_COUNTER, len(slot.stack), bits, stored, 0)


def mark(text: str, a0: float = 0, a1: float = 0) -> None:
    """Record an instant with a text. Texts that never recur fill the name table: put numbers in a0 and a1."""
    if process.State.level == layout.LEVEL_OFF:
        return
    slot = process.slot()
    if slot is None:
        return
    now = now_ns()
    value0, float0 = argument(a0)
    value1, float1 = argument(a1)
    bits = float_bits(float0, float1)
    parent = slot.stack[-1][1] if slot.stack else 0
    # Marks may carry numbers in their text: half of the table stays for names that recur.
    number = process.plain_name(text, ringfile.NAMES // 2)
    emit(slot, now, now, number, 0, parent, layout.KIND_INSTANT, len(slot.stack), bits, value0, value1)
