"""One thread's place in a ring file."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mmap import mmap
    from typing import Any

    from cuzk_tracer.ringfile import RingFile


class Slot:
    """One thread's place in the ring file, and the writer's private state for it.

    `ring` and `control` are what records and open spans are packed into, `head_word` and `depth_word` the two
    fields of the slot header that every span moves: each is stored whole, in one instruction.
    """

    __slots__ = (
        "add_majflt",
        "add_minflt",
        "control",
        "depth_word",
        "entries",
        "file",
        "generation",
        "head",
        "head_word",
        "header",
        "last_id",
        "mask",
        "next_anchor_ns",
        "number",
        "ring",
        "stack",
        "stack_off",
    )

    def __init__(
        self,
        file: RingFile,
        number: int,
        ring: mmap | bytearray,
        mask: int,
        header: int,
        control: mmap | bytearray,
        stack_off: int,
        entries: int,
    ) -> None:
        self.file = file
        self.number = number
        self.ring = ring
        self.mask = mask
        self.header = header
        self.control = control
        self.stack_off = stack_off
        self.entries = entries
        self.head_word = memoryview(control)[header : header + 8].cast("Q")
        self.depth_word = memoryview(control)[header + 24 : header + 28].cast("I")
        self.head = 0
        self.last_id = 0
        self.generation = 0
        self.next_anchor_ns = file.next_anchor_ns
        self.add_minflt = 0
        self.add_majflt = 0
        self.stack: list[tuple[Any, ...]] = []
