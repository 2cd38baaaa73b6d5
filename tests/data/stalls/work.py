"""Programs whose stalls need no GPU; run them under `cuzk-top run -o FILE.cuzk -- python work.py WHAT`.

given-back  each of four proofs fills 640 MiB and gives them back inside `wrapper`, in no span of its own
kept        the same, but one buffer is kept from proof to proof
flood       1.5 s into its proof a thread writes 20,000 spans as fast as it can, where its ring holds 16,384
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
import time

import cuzk_tracer

PROOFS, BYTES, ROWS = 4, 640 << 20, 20_000
PROVE = cuzk_tracer.span("prove", a0="number", stage=True, faults=True)
WRAPPER = cuzk_tracer.span("wrapper", stage=True, faults=True)
FILL = cuzk_tracer.span("synthesis.abc.fill", a0="bytes", stage=True, faults=True)
EVAL = cuzk_tracer.span("synthesis.abc.eval", stage=True)
HASH = cuzk_tracer.span("synthesis.row", a0="row")


def fill(memory: mmap.mmap) -> None:
    """Touch all of it."""
    with FILL(BYTES):
        buffer = ctypes.c_char.from_buffer(memory)
        ctypes.memset(ctypes.addressof(buffer), 1, BYTES)
        del buffer


def proofs(*, kept: bool) -> None:
    """Proofs that need a buffer each, or share one."""
    shared = mmap.mmap(-1, BYTES) if kept else None
    for number in range(1, PROOFS + 1):
        with PROVE(number), WRAPPER:
            memory = shared or mmap.mmap(-1, BYTES)
            fill(memory)
            with EVAL:
                time.sleep(0.3)  # the buffer is there for as long as it is used
            if shared is None:
                memory.close()


def flood() -> None:
    """More spans than a ring holds."""

    def rows() -> None:
        for row in range(ROWS):
            with HASH(row):
                pass

    with PROVE(1):
        with EVAL:
            time.sleep(1.5)
        thread = threading.Thread(target=rows, name="rows")
        thread.start()
        thread.join()
        with EVAL:
            time.sleep(1.5)


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "flood":
        flood()
    else:
        proofs(kept=what == "kept")
