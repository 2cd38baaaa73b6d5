"""What watching costs a proof: ``python tests/benchmarks/attached.py [KEY.zkey WITNESS.wtns] [--backend B]``.

One process proves the same witness over and over with all spans on. Blocks of its proofs alternate in random
order within pairs: some with ``cuzk-top attach`` drawing them on a terminal of 160x45, some without. The
viewer and its terminal have the last core to themselves, the prover all others, in both. Printed: the median
of the pairs' ratios of the blocks' medians, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from overhead import interval
from terminal import Program

GOAL_PERCENT = 0.5
WARM_UP_S = 2.0
"""From the first frame to the measurement: the viewer imports and analyses most in its first second."""


def serve(files: list[str], backend_name: str) -> None:
    """The prover: for each number that comes in, so many proofs; their seconds go out as a line of JSON."""
    import cuzk_tracer
    from cuzk_kernels import backend, groth16, setup
    from cuzk_kernels.formats import zkey

    cuzk_tracer.enable("all")
    chosen, why = backend.choose(backend_name)
    if not files:
        demo = setup.demo(chosen, Path(tempfile.mkdtemp()))
        files = [str(demo.zkey), str(demo.fresh_witness())]
    key = zkey.open(files[0])
    for _ in range(3):
        groth16.prove(key, files[1], backend=chosen)
    print(json.dumps(f"{chosen.name}  {why or ''}"), flush=True)
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            started = time.perf_counter()
            groth16.prove(key, files[1], backend=chosen)
            seconds.append(time.perf_counter() - started)
        print(json.dumps(seconds), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="KEY.zkey WITNESS.wtns")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--proofs", type=int, default=20, help="a block")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.files, args.backend)
        return
    *others, last = sorted(os.sched_getaffinity(0))
    if not others:
        sys.exit("needs two cores: one is the viewer's")
    os.sched_setaffinity(0, others)
    prover = subprocess.Popen(
        [sys.executable, __file__, "--serve", "--backend", args.backend, *args.files],
        env={**os.environ, "CUZK_THREADS": str(len(others))},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.sched_setaffinity(0, {last})  # ours, and what we start from here on: the viewer
    assert prover.stdin is not None
    assert prover.stdout is not None
    print(f"{json.loads(prover.stdout.readline())}; {len(others)} cores prove, 1 watches", flush=True)

    def ask() -> None:
        assert prover.stdin is not None
        prover.stdin.write(f"{args.proofs}\n")
        prover.stdin.flush()

    def block(watched: bool) -> tuple[float, float]:
        """Median seconds of a proof, and the viewer's CPU in percent of a core."""
        assert prover.stdout is not None
        if not watched:
            ask()
            return statistics.median(json.loads(prover.stdout.readline())), 0.0
        with tempfile.TemporaryDirectory() as scratch:
            viewer = Program([sys.executable, "-m", "cuzk_top.cli", "attach", str(prover.pid)], scratch)
            seen = b""
            while b"Inspector" not in seen:
                seen += (data := viewer.read(30.0))
                if not data:
                    sys.exit(f"no screen: {seen.decode(errors='replace')}")
            viewer.drain(WARM_UP_S)
            ask()
            began, cpu = time.monotonic(), viewer.cpu_s()
            while not select.select([prover.stdout], [], [], 0)[0]:
                viewer.drain(0.02)
            used = 100 * (viewer.cpu_s() - cpu) / (time.monotonic() - began)
            seconds = json.loads(prover.stdout.readline())
            viewer.leave()
        return statistics.median(seconds), used

    ratios = []
    for pair in range(args.pairs):
        took = {watched: block(watched) for watched in random.sample((True, False), 2)}
        (on, cpu), (off, _) = took[True], took[False]
        ratios.append(on / off)
        print(
            f"pair {pair + 1}: watched {1e3 * on:.2f} ms, alone {1e3 * off:.2f} ms, "
            f"{100 * ratios[-1] - 100:+.2f} %; viewer {cpu:.1f} % of a core",
            flush=True,
        )
    prover.stdin.close()
    prover.wait()
    low, high = (100 * value - 100 for value in interval(ratios))
    middle = 100 * statistics.median(ratios) - 100
    print(
        f"median of {args.pairs} pairs of {args.proofs} proofs: {middle:+.2f} % "
        f"(95 %: {low:+.2f} to {high:+.2f} %; goal {GOAL_PERCENT} %)"
    )


if __name__ == "__main__":
    main()
