"""Remove rings that nobody will ask for again."""

import os
import struct
import time

from cuzk_tracer import layout, places

FINISHED_KEPT = 4
FINISHED_NS = 60_000_000_000
CRASHED_KEPT = 16

_AT = {name: offset for name, offset, _ in layout.HEADER}


def sweep(folder: str) -> None:
    """Keep rings from piling up where nobody watches; called whenever a tracer makes one. Never raises.

    Of the processes that left in good order, the newest 4 that ended within the last minute stay: a viewer
    started together with a short proof still has time to open its ring (which stays readable when removed).
    Of those that crashed or left without saying so (forked workers do), the newest 16 stay; the viewer
    removes them once recovered or a week old. Rings of running processes are never touched.
    """
    finished: list[tuple[int, str]] = []
    crashed: list[tuple[int, str]] = []
    try:
        for entry in os.scandir(folder):
            if not entry.name.endswith(".ring") or not entry.is_file(follow_symlinks=False):
                continue
            with open(entry.path, "rb", buffering=0) as file:  # noqa: PTH123
                head = file.read(layout.HEADER_BYTES)
            pid, started = entry.name.split(".")[:2]
            if len(head) < layout.HEADER_BYTES or head[:8] != layout.MAGIC:
                continue
            if places.alive(int(pid), int(started)):
                continue
            (heartbeat,) = struct.unpack_from("<q", head, _AT["heartbeat_ns"])
            (ended,) = struct.unpack_from("<q", head, _AT["ended_ns"])
            (finished if ended else crashed).append((ended or heartbeat, entry.path))
        oldest = time.monotonic_ns() - FINISHED_NS
        finished.sort(reverse=True)
        crashed.sort(reverse=True)
        gone = [path for ended, path in finished[:FINISHED_KEPT] if ended < oldest]
        for path in gone + [path for _, path in finished[FINISHED_KEPT:] + crashed[CRASHED_KEPT:]]:
            os.unlink(path)  # noqa: PTH108
    except (OSError, ValueError):
        pass  # somebody else's clean-up was faster, or a file is not ours: nothing depends on this
