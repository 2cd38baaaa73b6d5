"""What the viewer costs: ``python tests/benchmarks/viewer.py [--peer CMD] [KEY.zkey WITNESS.wtns]``.

Runs ``cuzk-top demo`` (or ``prove`` with --repeat on the files given) on a pseudo-terminal of 160x45 that is
drained like a real one, and measures the viewer's process from /proc, apart from the prover's: CPU, resident
memory, bytes sent to the terminal, and the time from start to the first frame. With --peer another monitor,
such as ``nvitop``, runs on a terminal of the same size at the same time and is measured in the same way.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence

from terminal import COLUMNS, LINES, Program

WARM_UP_S = 3.0


def measure(programs: Sequence[Program], seconds: float) -> list[tuple[float, float, float]]:
    """CPU % of a core, resident MB and kB/s of each, over the same seconds."""
    before = [(program.cpu_s(), program.sent) for program in programs]
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        for program in programs:
            program.drain(0.02)
    elapsed = time.monotonic() - started
    return [
        (
            100 * (program.cpu_s() - cpu) / elapsed,
            program.resident_bytes() / 1e6,
            (program.sent - sent) / elapsed / 1e3,
        )
        for program, (cpu, sent) in zip(programs, before, strict=True)
    ]


def main() -> None:
    """Start, warm up, measure, quit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="KEY.zkey WITNESS.wtns")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--peer", metavar="CMD", help="another monitor to measure beside it")
    args = parser.parse_args()
    command = [sys.executable, "-m", "cuzk_top.cli"]
    scratch = tempfile.mkdtemp()
    if args.files:
        command += ["prove", *args.files, "-o", f"{scratch}/proof.json", "--public", f"{scratch}/public.json"]
        command += ["--repeat", "10000", "--backend", args.backend]
    else:
        command += ["demo"]
    started = time.monotonic()
    viewer = Program(command, scratch)
    seen = b""
    while b"Inspector" not in seen:  # a word of the panel: the first frame is there
        data = viewer.read(30.0)
        if not data:
            sys.exit(f"no screen: {seen.decode(errors='replace')}")
        seen += data
    first_frame_s = time.monotonic() - started
    programs = [viewer, *([Program(shlex.split(args.peer), scratch)] if args.peer else [])]
    for program in programs:
        program.drain(WARM_UP_S)
    figures = measure(programs, args.seconds)
    for program in programs:
        program.leave()
    cpu, resident, rate = figures[0]
    print(f"terminal         {COLUMNS}x{LINES}, {args.seconds:.0f} s while proofs run")
    print(f"viewer CPU       {cpu:5.1f} % of a core   (goal 5)")
    print(f"resident         {resident:5.0f} MB            (goal 150)")
    print(f"to the terminal  {rate:5.1f} kB/s          (goal 50)")
    print(f"first frame      {first_frame_s:5.2f} s             (goal 0.7)")
    if args.peer:
        peer_cpu, peer_resident, peer_rate = figures[1]
        print(f"{args.peer}: {peer_cpu:.1f} % of a core, {peer_resident:.0f} MB, {peer_rate:.1f} kB/s")
        print(f"viewer / peer CPU: {cpu / max(peer_cpu, 0.01):.2f}x")


if __name__ == "__main__":
    main()
