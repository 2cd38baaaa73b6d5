"""What the viewer costs: ``python tests/benchmarks/viewer.py [--peer CMD] [KEY.zkey WITNESS.wtns]``.

Runs ``cuzk-top demo`` (or ``prove`` with --repeat on the files given) on a pseudo-terminal of 160x45 that is
drained like a real one, and measures the viewer's process from /proc, apart from the prover's: CPU (also of
the thread that draws, of the one that collects, and of the others), resident memory, bytes sent to the
terminal, and the time from start to the first frame. With --peer another monitor, such as ``nvitop``, runs on
a terminal of the same size at the same time and is measured in the same way.

With --load TRACE.cuzk no prover runs: a process plays back the last proof of that trace, --rate times a
second (see ``player.py``), and ``cuzk-top attach`` watches and records that. So what a prover on a GPU makes
the viewer do can be measured without one; it is a recorded load, and says nothing of a GPU.
"""

from __future__ import annotations

import argparse
import atexit
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from terminal import COLUMNS, LINES, Program, cpu_seconds

WARM_UP_S = 3.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one program: CPU % of a core, in all and of the threads by name; resident MB; kB/s."""

    cpu: float
    threads: dict[str, float]
    resident: float
    rate: float


def measure(programs: Sequence[Program], seconds: float) -> list[Figures]:
    """What each takes, over the same seconds. Threads that begin or end meanwhile count as ``others``."""
    before = [(program.cpu_s(), program.threads_cpu_s(), program.sent) for program in programs]
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        for program in programs:
            program.drain(0.02)
    elapsed = time.monotonic() - started
    found = []
    for program, (cpu, threads, sent) in zip(programs, before, strict=True):
        used = program.cpu_s() - cpu
        share = {
            name: 100 * (spent - threads[name]) / elapsed
            for name, spent in program.threads_cpu_s().items()
            if name in threads
        }
        share["others"] = 100 * used / elapsed - share.get("main", 0.0) - share.get("collector", 0.0)
        memory, rate = program.resident_bytes() / 1e6, (program.sent - sent) / elapsed / 1e3
        found.append(Figures(100 * used / elapsed, share, memory, rate))
    return found


def playing(trace: str, rate: float) -> subprocess.Popen[bytes]:
    """A player of a recorded load that has begun."""
    command = [sys.executable, str(Path(__file__).with_name("player.py")), trace, "--rate", str(rate)]
    player = subprocess.Popen(command, stdout=subprocess.PIPE)
    atexit.register(player.kill)
    assert player.stdout is not None
    if player.stdout.readline() != b"playing\n":
        sys.exit(player.wait())
    return player


def main() -> None:
    """Start, warm up, measure, quit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="KEY.zkey WITNESS.wtns")
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--peer", metavar="CMD", help="another monitor to measure beside it")
    parser.add_argument("--load", metavar="TRACE.cuzk", help="watch this trace's last proof played back")
    parser.add_argument("--rate", type=float, default=16.0, help="proofs a second of --load")
    args = parser.parse_args()
    command = [sys.executable, "-m", "cuzk_top.cli"]
    scratch = tempfile.mkdtemp()
    player = playing(args.load, args.rate) if args.load else None
    if player is not None:
        command += ["attach", str(player.pid), "-o", f"{scratch}/watched.cuzk"]
    elif args.files:
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
    player_before = cpu_seconds(player.pid) if player is not None else 0.0
    figures = measure(programs, args.seconds)
    player_cpu = 100 * (cpu_seconds(player.pid) - player_before) / args.seconds if player is not None else 0.0
    for program in programs:
        program.leave()
    mine = figures[0]
    what = f"{args.rate:g} proofs/s of {Path(args.load).name} played back" if args.load else "proofs run"
    print(f"terminal         {COLUMNS}x{LINES}, {args.seconds:.0f} s while {what}")
    print(f"viewer CPU       {mine.cpu:5.1f} % of a core   (goal 5)")
    parts = (f"{name} {mine.threads.get(name, 0.0):.1f} %" for name in ("main", "collector", "others"))
    print(f"  of its threads {', '.join(parts)}")
    print(f"resident         {mine.resident:5.0f} MB            (goal 150)")
    print(f"to the terminal  {mine.rate:5.1f} kB/s          (goal 50)")
    print(f"first frame      {first_frame_s:5.2f} s             (goal 0.7)")
    if player is not None:
        print(f"the player       {player_cpu:5.1f} % of a core, not the viewer's")
    if args.peer:
        peer = figures[1]
        print(f"{args.peer}: {peer.cpu:.1f} % of a core, {peer.resident:.0f} MB, {peer.rate:.1f} kB/s")
        print(f"viewer / peer CPU: {mine.cpu / max(peer.cpu, 0.01):.2f}x")


if __name__ == "__main__":
    main()
