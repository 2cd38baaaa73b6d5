"""What tracing costs a proof: ``python tests/benchmarks/overhead.py [KEY.zkey WITNESS.wtns] [--pairs N]``.

Proves the same witness again and again in one process, in pairs: all spans on, and off, in random order.
Prints the median of the pairs' ratios with its 95 % interval (from order statistics: no assumption about the
noise), and beside it records a proof times nanoseconds a span over the proof's time.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

import cuzk_tracer
from cuzk_kernels import backend, groth16, setup
from cuzk_tracer import reader

GOAL_PERCENT = 0.5


def interval(values: list[float]) -> tuple[float, float]:
    """Bounds of the median at 95 %: the ranks n/2 -+ 0.98 sqrt(n) (binomial, normal approximation)."""
    ordered = sorted(values)
    n = len(ordered)
    reach = 0.98 * n**0.5
    return ordered[max(0, int(n / 2 - reach))], ordered[min(n - 1, int(n / 2 + reach))]


def span_ns() -> float:
    """Nanoseconds of one bare span here and now, the least of 20 rounds."""
    span = cuzk_tracer.span("overhead.bare")
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter_ns()
        for _ in range(1000):
            with span:
                pass
        best = min(best, (time.perf_counter_ns() - started) / 1000)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="KEY.zkey WITNESS.wtns")
    parser.add_argument("--pairs", type=int, default=40)
    args = parser.parse_args()
    native, why = backend.choose()
    with tempfile.TemporaryDirectory() as scratch:
        if args.files:
            key, witness = map(Path, args.files)
        else:
            demo = setup.demo(native, Path(scratch))
            key, witness = demo.zkey, demo.fresh_witness()

        def proof_s(level: str) -> float:
            cuzk_tracer.enable(level)
            started = time.perf_counter()
            groth16.prove(key, witness, backend=native)
            return time.perf_counter() - started

        proof_s("all")
        proof_s("off")
        times: dict[str, list[float]] = {"all": [], "off": []}
        for _ in range(args.pairs):
            for level in random.sample(["all", "off"], 2):
                times[level].append(proof_s(level))
        cuzk_tracer.enable("all")
        with reader.Ring(cuzk_tracer.open()) as ring:
            before = ring.written()
            proof_s("all")
            spans = ring.written() - before
    ratios = [100 * (on / off - 1) for on, off in zip(times["all"], times["off"], strict=True)]
    low, high = interval(ratios)
    off_s = statistics.median(times["off"])
    cost = span_ns()
    on_s = statistics.median(times["all"])
    print(f"{args.pairs} pairs, {native.name} back end, {cuzk_tracer.writer()} writer  {why or ''}")
    print(f"proof     {1e3 * off_s:.1f} ms off, {1e3 * on_s:.1f} ms with all spans on")
    middle = statistics.median(ratios)
    print(f"overhead  median {middle:+.2f} %, 95 % interval {low:+.2f} to {high:+.2f} %", end="")
    print(f"  (goal {GOAL_PERCENT} %)")
    share = 100 * spans * cost / 1e9 / off_s
    print(f"computed  {spans} records x {cost:.0f} ns a bare span = {share:.4f} % of a proof")


if __name__ == "__main__":
    main()
