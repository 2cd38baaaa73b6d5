"""Saved traces at size: ``python tests/benchmarks/store.py [--spans N] [--folder DIR]``.

Ten million spans of 8 threads, five deep, with jittered times, as a collector hands them over (batches of
65,536 records, each thread's in order of their ends). Measured against the goals of the tracer's design:
write rate, bytes a span, the first frame (opening included, imports not) warm and with the file dropped from
the page cache, and later frames of 40 lanes x 200 columns at random windows, for the sorted file, the
compressed one and the raw stream. Each file is opened in a process of its own, which tells its peak memory.
Rates are of the wall clock; beside them what the CPU time alone would give, which other processes and a busy
disk disturb less. Use `--folder /dev/shm` to leave the disk out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cuzk_top import packing, recording, trace, viewport
from cuzk_top.model import KIND_SPAN, Batch, Columns, Name, Session, Snapshot, Track
from cuzk_top.rows import Spans, cells
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store

THREADS, FAN, DEEPEST, COLUMNS = 8, 6, 4, 200
TREE = sum(FAN**depth for depth in range(DEEPEST + 1))
FRAMES = 200
NAMES = [Name("")] + [
    Name(text, "points", "", text == "msm.h")
    for text in ("msm.h", "msm.h.accumulate", "msm.h.bucket", "msm.h.step", "msm.h.add")
]


def tree_shape() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Depth, parent's place, first and last leaf of each span of one tree, in order of their ends."""
    depth: list[int] = []
    parent: list[int] = []
    leaves: list[tuple[int, int]] = []
    seen = 0

    def visit(level: int) -> int:
        nonlocal seen
        first = seen
        mine = [visit(level + 1) for _ in range(FAN)] if level < DEEPEST else []
        seen += 0 if mine else 1
        depth.append(level)
        parent.append(-1)
        leaves.append((first, seen - 1))
        for child in mine:
            parent[child] = len(depth) - 1
        return len(depth) - 1

    visit(0)
    return np.array(depth), np.array(parent), np.array(leaves)


def thread_spans(thread: int, trees: int, random: np.random.Generator) -> Columns:
    """All spans of one thread: leaves of about 2 us, gaps of about 1 us, the others round their children."""
    depth, parent, leaves = tree_shape()
    count = FAN**DEEPEST
    lengths = (random.lognormal(7.6, 0.7, (trees, count)) + 50).astype(np.int64)
    gaps = (random.lognormal(6.5, 0.8, (trees, count)) + 30 * (DEEPEST + 1)).astype(np.int64)
    ends = np.cumsum((lengths + gaps).ravel()).reshape(trees, count) + 10**15
    starts = ends - lengths
    margin = 10 * (DEEPEST - depth)
    number = np.arange(trees * len(depth), dtype=np.uint64).reshape(trees, -1) + np.uint64(1)
    high = np.uint64((thread + 1) << 32)
    above = np.where(parent < 0, np.uint64(0), number[:, parent] | high)
    rows = trees * len(depth)
    return Columns.make(
        rows,
        start_ns=(starts[:, leaves[:, 0]] - margin).ravel(),
        end_ns=(ends[:, leaves[:, 1]] + margin).ravel(),
        kind=KIND_SPAN,
        depth=np.tile(depth, trees),
        track=thread + 1,
        name=np.tile(depth + 1, trees),
        id=number.ravel() | high,
        parent=above.ravel(),
        a0=np.where(np.tile(depth, trees) == DEEPEST, random.integers(1, 4096, rows), 0),
    )


def polls(spans: int) -> Iterator[Batch]:
    """What a collector would hand over, one poll of all threads after the other."""
    random = np.random.default_rng(7)
    trees = max(1, spans // THREADS // TREE)
    threads = [thread_spans(thread, trees, random) for thread in range(THREADS)]
    session = Session(pid=4711, name="benchmark", meta={"backend": "cpu-native"}, names=NAMES)
    session.tracks = {t + 1: Track(t + 1, "thread", f"worker {t}", t) for t in range(THREADS)}
    each = 65_536 // THREADS
    seq = 0
    for low in range(0, len(threads[0]), each):
        columns = Columns.concat([thread.take(slice(low, low + each)) for thread in threads])
        columns = columns.replace(seq=np.arange(seq, seq + len(columns), dtype=np.uint64))
        seq += len(columns)
        ended = low + each >= len(threads[0])
        yield Batch(session, columns, Columns.empty(), 0, int(columns.end_ns.max()), ended)


def frame(snapshot: Snapshot, window: viewport.Window) -> int:
    """The cells of every row; how many rows there were."""
    edges = viewport.edges(window, COLUMNS)
    rows = [row for row in snapshot.rows if len(row.columns)]
    for row in rows:
        cells(Spans.until(row.columns.start_ns, row.columns.end_ns, None, snapshot.now_ns), edges)
    return len(rows)


def open_one(path: str) -> None:
    """In a process of its own: the first frame, later ones, and the memory it took; printed as JSON."""
    import pyarrow  # noqa: F401 (imports are not measured)

    before = peak_mb()
    started = time.perf_counter()
    store = Store()
    store.append(TraceSource(path).poll())
    snapshot = store.snapshot()
    whole = viewport.Window(snapshot.first_ns, snapshot.last_ns)
    rows = frame(snapshot, whole)
    first_s = time.perf_counter() - started
    random = np.random.default_rng(3)
    times = []
    for _ in range(FRAMES):
        width = int(whole.width_ns * 10 ** random.uniform(-7, 0)) + COLUMNS
        begin = int(random.integers(whole.t0_ns, max(whole.t1_ns - width, whole.t0_ns + 1)))
        started = time.perf_counter()
        frame(snapshot, viewport.Window(begin, begin + width))
        times.append(time.perf_counter() - started)
    told = {"first_s": first_s, "p50_s": float(np.median(times)), "p95_s": float(np.quantile(times, 0.95))}
    print(json.dumps(told | {"rows": rows, "spans": snapshot.spans, "rss_mb": peak_mb(), "base_mb": before}))


def peak_mb() -> float:
    """The most memory this process had resident (getrusage would tell the parent's)."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


def opened(path: Path, *, cold: bool) -> dict[str, float]:
    """Open a file in a fresh process, dropped from the page cache or read once before."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    if cold:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    else:
        while os.read(descriptor, 1 << 24):
            pass
    os.close(descriptor)
    done = subprocess.run(
        [sys.executable, __file__, "--open", path], capture_output=True, text=True, check=True
    )
    told: dict[str, float] = json.loads(done.stdout)
    return told


class Spent:
    """Wall and CPU seconds spent inside."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0

    def __enter__(self) -> Spent:
        self._since = (time.perf_counter(), time.process_time())
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s += time.perf_counter() - self._since[0]
        self.cpu_s += time.process_time() - self._since[1]


def rate(what: str, count: int, spent: Spent, goal: float | None) -> None:
    """Spans a second, against a goal in millions."""
    measured = count / spent.wall_s / 1e6
    text = f"{measured:.1f} M spans/s ({count / spent.cpu_s / 1e6:.1f} by CPU)"
    line(what, text, "none set" if goal is None else f">= {goal:.0f} M/s", goal is None or measured >= goal)


def line(what: str, measured: str, goal: str, good: bool) -> None:
    print(f"{what:<32}{measured:>34}   goal {goal:<14}{'' if good else 'MISSED'}", flush=True)


def frames(name: str, path: Path, warm_ms: float, cold_ms: float | None) -> None:
    warm = min((opened(path, cold=False) for _ in range(3)), key=lambda told: told["first_s"])
    line(
        f"{name}: first frame, warm",
        f"{warm['first_s'] * 1e3:.0f} ms",
        f"<= {warm_ms:.0f} ms",
        warm["first_s"] * 1e3 <= warm_ms,
    )
    if cold_ms is not None:
        cold = opened(path, cold=True)
        line(
            f"{name}: first frame, cold",
            f"{cold['first_s'] * 1e3:.0f} ms",
            f"<= {cold_ms:.0f} ms",
            cold["first_s"] * 1e3 <= cold_ms,
        )
    p95 = warm["p95_s"] * 1e3
    line(
        f"{name}: frames, median / p95",
        f"{warm['p50_s'] * 1e3:.1f} / {p95:.1f} ms",
        "<= 16 ms p95",
        p95 <= 16,
    )
    print(
        f"{'':<34}{warm['rows']:.0f} rows x {COLUMNS} columns, {warm['spans']:,} spans, "
        f"{warm['rss_mb']:.0f} MB at most ({warm['base_mb']:.0f} before), pages of the file included"
    )


def main() -> None:
    """Write, pack, open, draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spans", type=int, default=10_000_000)
    parser.add_argument("--folder", help="where to put the files (default: a temporary folder)")
    parser.add_argument("--open", metavar="FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.open:
        open_one(args.open)
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as scratch:
        folder = Path(scratch)
        stream, plain, packed = folder / "stream.cuzk", folder / "plain.cuzk", folder / "zstd.cuzk"
        spent, count = Spent(), 0
        recorder = recording.Recorder(stream)
        for batch in polls(args.spans):
            with spent:
                recorder.append(batch)
            count += len(batch.columns)
        recorder._writer.close()  # the stream as a crash would leave it: not packed yet
        print(
            f"{count:,} spans, {THREADS} threads x {DEEPEST + 1} deep; load average {os.getloadavg()[0]:.1f}"
        )
        rate("stream: write", count, spent, 10)
        line("stream: size", f"{stream.stat().st_size / count:.1f} bytes a span", "none set", True)
        with (packing_all := Spent()):
            made = packing.pack(stream, plain)
        rate("pack: stream to sorted file", count, packing_all, None)
        again = [_rewrite(plain, folder / "again.cuzk") for _ in range(3)]
        rate("plain: write, sorted rows", count, min(again, key=lambda each: each.wall_s), 10)
        size = plain.stat().st_size / count
        line("plain: size", f"{size:.1f} bytes a span", "<= 48", size <= 48)
        with (compressing := Spent()):
            packing.write(made, packed, zstd=True)
        rate("pack --zstd", count, compressing, None)
        size = packed.stat().st_size / count
        line("zstd: size", f"{size:.1f} bytes a span", "<= 15", size <= 15)
        print(f"{'':<34}writer {peak_mb():,.0f} MB at most, the spans to be written included")
        frames("plain", plain, 150, 500)
        frames("zstd", packed, 1000, None)
        frames("raw stream", stream, 500, None)


def _rewrite(source: Path, target: Path) -> Spent:
    """Write a sorted file whose rows are in memory's reach already."""
    made = trace.open(source)
    with (spent := Spent()):
        packing.write(made, target)
    target.unlink()
    return spent


if __name__ == "__main__":
    main()
