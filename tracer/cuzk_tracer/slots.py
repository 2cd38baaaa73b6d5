"""One thread's place in a ring file."""

from __future__ import annotations

from cuzk_tracer import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap
    from typing import Any

    from cuzk_tracer.ringfile import RingFile


class Slot:
    """One thread's place in the ring file, and the writer's private state for it.

    `ring` and `control` are what records and open spans are packed into, `head_word` and `depth_word` the two
    fields of the slot header that every span moves: each is stored whole, in one instruction. Number -1: a
    thread without a slot, whose records are only counted.
    """

    __slots__ = (
        "add_majflt",
        "add_minflt",
        "control",
        "depth_word",
        "entries",
        "file",
        "head",
        "head_word",
        "last_id",
        "mask",
        "next_tick",
        "number",
        "ring",
        "stack",
        "stack_off",
    )

    def __init__(self, file: RingFile, number: int) -> None:
        self.file = file
        self.number = number
        self.ring: mmap | bytearray
        self.control: mmap | bytearray
        if number < 0:
            self.ring = bytearray(layout.RECORD_BYTES)
            self.control = bytearray(layout.SLOT_BYTES)
            header = self.head = self.mask = self.stack_off = self.entries = 0
        else:
            self.ring = file.ring(number)
            self.control = file.control
            header = file.load("slots_off") + number * layout.SLOT_BYTES
            self.head = file.slot_field(number, "head")
            self.mask = file.slot_field(number, "mask")
            self.stack_off = file.slot_field(number, "stack_off")
            self.entries = layout.STACK_ENTRIES
        self.head_word = memoryview(self.control)[header : header + 8].cast("Q")
        self.depth_word = memoryview(self.control)[header + 24 : header + 28].cast("I")
        self.last_id = 0
        self.next_tick = 0  # by the file's clock: when this thread is to look after it
        self.add_minflt = 0
        self.add_majflt = 0
        self.stack: list[tuple[Any, ...]] = []
