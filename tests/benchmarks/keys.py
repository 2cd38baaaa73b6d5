"""From key to picture: ``python tests/benchmarks/keys.py [--spans N] [FILE.cuzk]``.

Opens a saved trace (by default ten million spans, made as ``store.py`` makes them) with ``cuzk-top replay``
on a pseudo-terminal of 160x45 and presses keys that change the picture: zooms, pans, lanes, spans, panes,
findings, matches of a search, fits. Each is timed from the press to the last byte of what it draws, the
figures beside the lanes included (the screen is then quiet for 60 ms); a key that draws nothing within half a
second is told apart. Goal: 50 ms at the 95th percentile. The CPU time is that of the thread that draws.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from store import polls
from terminal import Program, cpu_seconds

from cuzk_top import recording

KEYS: dict[str, Sequence[str]] = {
    "zoom": "wwwwwwssss",
    "pan": "dddaaaddaa",
    "lane": "jkjkjj",
    "span": "..,,..,.",
    "pane": "234\t1",
    "finding": "nNn",
    "search": ["/add\r", "n", "n", "N"],
    "go": "0gG0",
}
"""By kind, in the order in which they are pressed. What is typed is timed from its last key on."""
ROUNDS = 6
QUIET_S = 0.06
FIRST_S = 0.5
GOAL_MS = 50.0


def make(folder: Path, spans: int) -> Path:
    """A sorted trace of so many spans."""
    path = folder / "keys.cuzk"
    recorder = recording.Recorder(path)
    for batch in polls(spans):
        recorder.append(batch)
    recorder.close()  # which sorts it
    return path


def timed(viewer: Program, key: str) -> float | None:
    """Milliseconds from a press (of several keys the last) to the last byte drawn; None if nothing is."""
    if len(key) > 1:
        viewer.press(key[:-1].encode())
        viewer.drain(4 * QUIET_S)
    pressed = time.monotonic()
    viewer.press(key[-1:].encode())
    if not viewer.read(FIRST_S):
        return None
    drawn = time.monotonic()
    return 1e3 * ((viewer.quiet(QUIET_S) or drawn) - pressed)


def p95(times: Sequence[float]) -> float:
    return sorted(times)[int(0.95 * len(times))]


def main() -> None:
    """Open, press, measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--spans", type=int, default=10_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        path = args.file or make(Path(scratch), args.spans)
        started = time.monotonic()
        viewer = Program([sys.executable, "-m", "cuzk_top.cli", "replay", str(path)], scratch)
        seen = b""
        while b"viewer" not in seen and b"spans" not in seen:
            seen += viewer.read(30.0)
        first_s = time.monotonic() - started
        viewer.quiet(0.5)
        viewer.drain(1.0)
        viewer.quiet(QUIET_S)
        spent: dict[str, list[float]] = {kind: [] for kind in KEYS}
        silent = 0
        order = random.Random(1)
        before = cpu_seconds(viewer.pid, viewer.pid)
        for _ in range(ROUNDS):
            for kind, keys in KEYS.items():
                for key in keys:
                    took = timed(viewer, key)
                    if took is None:
                        silent += 1
                    else:
                        spent[kind].append(took)
                    viewer.drain(order.uniform(0, 0.05))  # what comes late is not the next key's
            viewer.press(b"\x1b")  # ends the search; not timed, since it waits for what may follow an Esc
            viewer.drain(4 * QUIET_S)
        cpu = cpu_seconds(viewer.pid, viewer.pid) - before
        resident = viewer.resident_bytes() / 1e6
        viewer.leave()
    every = [took for times in spent.values() for took in times]
    print(f"first frame {first_s:.2f} s (process start included), {resident:.0f} MB resident")
    print(f"{len(every)} keys drew: median {statistics.median(every):.1f} ms, p95 {p95(every):.1f} ms")
    print(f"(goal {GOAL_MS:.0f}), worst {max(every):.1f} ms; {silent} drew nothing")
    print(f"CPU {1e3 * cpu / (len(every) + silent):.1f} ms a key")
    for kind, times in spent.items():
        if times:
            print(f"  {kind:<8} median {statistics.median(times):5.1f} ms, p95 {p95(times):5.1f} ms")


if __name__ == "__main__":
    main()
