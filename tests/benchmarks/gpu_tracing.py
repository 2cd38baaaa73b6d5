"""What tracing costs a proof on a GPU: ``python tests/benchmarks/gpu_tracing.py KEY.zkey WITNESS.wtns``.

Every run is a process of its own that proves the same witness over and over on GPU 0 with its key resident:
one with all spans, kernels and copies recorded (CUPTI), one with nothing of it. The runs alternate in random
order within pairs. Printed: each run's median, the median of the pairs' ratios with its 95 % interval, and
how many kernels and copies a proof of the recorded runs has.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from overhead import interval

WARM_UP = 3


def proofs(key_path: str, witness: str, count: int) -> None:
    """Prove `count` times after some to warm up; the seconds of each as JSON on standard output."""
    import cuzk_tracer
    from cuzk_kernels import backend, groth16
    from cuzk_kernels.backend import CudaOptions
    from cuzk_kernels.formats import zkey

    chosen, why = backend.choose("cuda", CudaOptions())
    key = zkey.open(key_path)
    seconds = []
    for _ in range(WARM_UP + count):
        started = time.perf_counter()
        groth16.prove(key, witness, backend=chosen)
        seconds.append(time.perf_counter() - started)
    records = 0
    path = cuzk_tracer.ring_path()
    if path is not None:
        from cuzk_tracer import gpu, layout, reader

        gpu.flush()
        device = (layout.KIND_GPU_KERNEL, layout.KIND_GPU_MEMCPY, layout.KIND_GPU_MEMSET)
        with reader.Ring(path) as ring:
            kinds = [kind for _, rows in ring.poll().records for kind in rows["kind"].tolist()]
        records = sum(kind in device for kind in kinds)
    print(json.dumps({"seconds": seconds[WARM_UP:], "records": records, "why": why}))


def run(key: str, witness: str, count: int, level: str) -> dict:
    """One process of `proofs`."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", str(count), key, witness],
        env={**os.environ, "CUZK_TRACE": level}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("key", type=Path)
    parser.add_argument("witness", type=Path)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--proofs", type=int, default=20)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    key, witness = str(args.key), str(args.witness)
    if args.one:
        proofs(key, witness, args.one)
        return
    ratios, records = [], 0.0
    for pair in range(args.pairs):
        medians = {}
        for level in random.sample(("all", "off"), 2):
            result = run(key, witness, args.proofs, level)
            medians[level] = statistics.median(result["seconds"])
            if level == "all":
                records = result["records"] / (args.proofs + WARM_UP)
        ratios.append(medians["all"] / medians["off"])
        on, off = (1e3 * medians[level] for level in ("all", "off"))
        print(
            f"pair {pair + 1}: recorded {on:.2f} ms, not {off:.2f} ms, {100 * ratios[-1] - 100:+.2f} %",
            flush=True,
        )
    low, high = (100 * value - 100 for value in interval(ratios))
    middle = 100 * statistics.median(ratios) - 100
    told = f"{middle:+.2f} % (95 %: {low:+.2f} to {high:+.2f} %)"
    print(f"median of {args.pairs} pairs of {args.proofs} proofs: {told}")
    print(f"{records:.0f} kernels, copies and fills a proof in the last recorded run's ring")


if __name__ == "__main__":
    main()
