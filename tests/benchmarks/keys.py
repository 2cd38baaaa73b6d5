"""From key to picture: ``python tests/benchmarks/keys.py [--spans N] [FILE.cuzk]``.

Opens a saved trace (by default ten million spans, made as ``store.py`` makes them) with ``cuzk-top replay``
on a pseudo-terminal of 160x45 and presses keys that change the picture: zooms, pans, lanes, fits. Each is
timed from the press to the last byte of what it draws (the screen is then quiet for 60 ms); a key that draws
nothing is told apart. Goal: 50 ms at the 95th percentile.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from store import polls
from terminal import Program

from cuzk_top import recording

KEYS = b"wwwwdddaaassjkjk..,,0wwddgG0"
ROUNDS = 6
QUIET_S = 0.06
GOAL_MS = 50.0


def make(folder: Path, spans: int) -> Path:
    """A sorted trace of so many spans."""
    path = folder / "keys.cuzk"
    recorder = recording.Recorder(path)
    for batch in polls(spans):
        recorder.append(batch)
    recorder.close()  # which sorts it
    return path


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
        spent, silent = [], 0
        order = random.Random(1)
        for _ in range(ROUNDS):
            for key in KEYS:
                pressed = time.monotonic()
                viewer.press(bytes([key]))
                last = viewer.quiet(QUIET_S)
                if last:
                    spent.append(1e3 * (last - pressed))
                else:
                    silent += 1
                viewer.drain(order.uniform(0, 0.05))  # what comes late is not the next key's
        resident = viewer.resident_bytes() / 1e6
        viewer.leave()
    spent.sort()
    p95 = spent[int(0.95 * len(spent))]
    print(f"first frame {first_s:.2f} s (process start included), {resident:.0f} MB resident")
    print(f"{len(spent)} keys drew: median {statistics.median(spent):.1f} ms, p95 {p95:.1f} ms")
    print(f"(goal {GOAL_MS:.0f}), worst {spent[-1]:.1f} ms; {silent} drew nothing")


if __name__ == "__main__":
    main()
