"""The C library's heap: memory of large arrays goes back to the system when they are freed.

glibc takes large blocks from the system one by one, but after the first was freed it keeps ever larger ones
in its heap, up to 32 MiB, where a small block behind a hole keeps the hole. An analysis every few seconds
then leaves a viewer far larger than what it holds.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Of malloc.h."""
LARGE_BYTES = 1 << 20
ARENAS = 2
"""Every further thread would begin a heap of its own."""


def give_back() -> None:
    """To be called once; where the C library has no such switches, nothing happens."""
    try:
        switch = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    switch(_MMAP_THRESHOLD, LARGE_BYTES)
    switch(_TRIM_THRESHOLD, LARGE_BYTES)
    switch(_ARENA_MAX, ARENAS)


def trim() -> None:
    """Give back what is free between small blocks: what an analysis used for a moment stays there else.

    Threads that allocate wait meanwhile, some milliseconds.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return
