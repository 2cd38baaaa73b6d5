"""How large the parts of a new ring file are, and where they lie: what a writer that makes one puts into its
header (see `layout`). One that joins a file takes both from there.
"""

from __future__ import annotations

from cuzk_tracer import layout

MAIN_RECORDS = 65_536  # 4 MiB: lossless at 20 polls a second up to 1.3 M spans a second
THREAD_RECORDS = 16_384  # 1 MiB
WIDE_RECORDS = 131_072  # 8 MiB, of the last slots: for what a GPU did, which comes in bursts
WIDE_SLOTS = 3
SLOTS = 128
NAMES = 1024
METAS = 128
ANCHORS = 64
STRING_BYTES = 256 * 1024

ANCHORS_OFF = layout.HEADER_BYTES
_METAS_OFF = ANCHORS_OFF + ANCHORS * layout.ANCHOR_BYTES
SLOTS_OFF = 2 * layout.PAGE_BYTES
_THREADS_OFF = SLOTS_OFF + SLOTS * layout.SLOT_BYTES
_NAMES_OFF = _THREADS_OFF + SLOTS * layout.THREAD_BYTES
_STRINGS_OFF = _NAMES_OFF + NAMES * layout.NAME_BYTES
_STACKS_OFF = _STRINGS_OFF + STRING_BYTES
_STACK_BYTES = layout.STACK_ENTRIES * layout.OPEN_BYTES
CONTROL_BYTES = _STACKS_OFF + SLOTS * _STACK_BYTES
"""All but the rings, which are mapped one by one."""
_RING_RECORDS = (
    MAIN_RECORDS,
    *(THREAD_RECORDS,) * (SLOTS - 1 - WIDE_SLOTS),
    *(WIDE_RECORDS,) * WIDE_SLOTS,
)
FILE_BYTES = CONTROL_BYTES + sum(_RING_RECORDS) * layout.RECORD_BYTES

HEADER_FIELDS = {
    "file_bytes": FILE_BYTES,
    "anchors_off": ANCHORS_OFF,
    "anchor_capacity": ANCHORS,
    "name_capacity": NAMES,
    "names_off": _NAMES_OFF,
    "metas_off": _METAS_OFF,
    "meta_capacity": METAS,
    "slot_count": SLOTS,
    "strings_off": _STRINGS_OFF,
    "strings_bytes": STRING_BYTES,
    "slots_off": SLOTS_OFF,
    "threads_off": _THREADS_OFF,
}
"""The header's fields that say so."""


def slot_fields() -> list[dict[str, int]]:
    """Of each slot in order the fields that say where its ring and its stack are."""
    found, before = list[dict[str, int]](), 0
    for number, records in enumerate(_RING_RECORDS):
        found.append(
            {
                "mask": records - 1,
                "ring_off": CONTROL_BYTES + before * layout.RECORD_BYTES,
                "stack_off": _STACKS_OFF + number * _STACK_BYTES,
            }
        )
        before += records
    return found
