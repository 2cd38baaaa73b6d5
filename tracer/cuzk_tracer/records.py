"""Records of all kinds but the plain span: packed whole, straight into the calling thread's ring."""

from __future__ import annotations

import struct
import time

from cuzk_tracer import layout, process
from cuzk_tracer.ringfile import RingFile
from cuzk_tracer.slots import Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar

TOP = 2**63

# Packing zeroes the place first and stores in order: the index word leaves first and comes last.
pack_record = struct.Struct("<QQIIIBBHqqIIII").pack_into
_float = struct.Struct("<d")


class Clock:
    """`now()` by the clock of the ring file: nanoseconds in one that Python made."""

    now: Callable[[], int] = staticmethod(time.monotonic_ns)
    ticks_per_ns = 1.0
    changed: ClassVar[list[Callable[[], None]]] = []


def follow(file: RingFile) -> None:
    """Write a native library's ticks, which Python cannot read, by what the clock anchors say of them."""
    if not file.tsc:
        return
    (ticks0, ns0, _, _), (ticks1, ns1, _, _) = file.anchors()
    rate = Clock.ticks_per_ns = (ticks1 - ticks0) / (ns1 - ns0) if ns1 > ns0 else 1.0
    monotonic = time.monotonic_ns
    Clock.now = staticmethod(lambda: ticks1 + int((monotonic() - ns1) * rate))
    for tell in Clock.changed:
        tell()


def tick(slot: Slot, now: int) -> None:
    """What a thread does once a second: a clock anchor, and a look at the level."""
    slot.next_tick = now + int(1_000_000_000 * Clock.ticks_per_ns)
    if slot.last_id > 0xF000_0000:  # an id has 32 bits; the rest lasts for more than a second
        slot.last_id = 0
    slot.file.anchor()
    follow(slot.file)
    process.look(slot.file)


def argument(value: Any) -> tuple[int, bool]:
    """A span argument as the i64 to store and whether that is a float's bits. What fits neither becomes 0."""
    try:
        if isinstance(value, float):
            return int.from_bytes(_float.pack(value), "little", signed=True), True
        return min(max(int(value.__index__()), -TOP), TOP - 1), False
    except Exception:
        return 0, False


def float_bits(float0: bool, float1: bool) -> int:
    """The track flags that say which arguments are floats."""
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
    corr: int = 0,
) -> None:
    """Write one record off the hot path."""
    index = slot.head
    at = (index & slot.mask) * 64
    stamp = (index + 1) & 0xFFFFFFFF
    depth = min(depth, 255)
    pack_record(slot.ring, at, start, end, name, number, parent, kind, depth, bits, a0, a1, 0, 0, corr, stamp)
    slot.head_word[0] = slot.head = index + 1
    if end >= slot.next_tick:
        tick(slot, end)


def _point(name: str, kind: int, most: float, a0: Any = 0, a1: Any = 0, corr: int = 0) -> None:
    """Something at one moment."""
    slot = process.slot()
    if slot is None:
        return
    now = Clock.now()
    value0, float0 = argument(a0)
    value1, float1 = argument(a1)
    bits = float_bits(float0, float1)
    parent = slot.stack[-1][1] if slot.stack else 0
    number = process.plain_number(name, most)
    emit(slot, now, now, number, 0, parent, kind, len(slot.stack), bits, value0, value1, corr)


def counter(name: str, value: float) -> None:
    """Record a value, integer or float, of a counter that goes by this name."""
    if process.State.level != layout.LEVEL_OFF:
        _point(name, layout.KIND_COUNTER, 1.0, value)


def mark(text: str, a0: float = 0, a1: float = 0) -> None:
    """Record an instant with a text. Texts that never recur fill the name table: put numbers in a0 and a1."""
    if process.State.level != layout.LEVEL_OFF:
        # Marks may carry numbers in their text: half of the table stays for names that recur.
        _point(text, layout.KIND_INSTANT, 0.5, a0, a1)


def flow(name: str, number: int | None = None) -> int:
    """Record one end of an arrow between spans: without a number it begins here, and its number is returned.

    Hand that over with the work, and call `flow` with it where the work arrives. 0, which is returned while
    tracing is off, is ignored.
    """
    if process.State.level == layout.LEVEL_OFF or number == 0:
        return number or 0
    slot = process.slot()
    if slot is None:
        return number or 0
    begins = number is None
    if number is None:  # unique in the process for 16 million ids of a slot
        slot.last_id += 1
        number = (slot.number + 1) << 24 | slot.last_id & 0xFF_FFFF
    _point(name, layout.KIND_FLOW, 1.0, 0 if begins else 1, 0, number & 0xFFFF_FFFF)
    return number


process.opened.append(follow)
