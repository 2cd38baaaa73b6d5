"""What the viewer costs: ``python tests/benchmarks/viewer.py [--seconds N] [KEY.zkey WITNESS.wtns]``.

Runs ``cuzk-top demo`` (or ``prove`` with --repeat on the files given) on a pseudo-terminal of 160x45 that is
drained like a real one, and measures the viewer's process from /proc, apart from the prover's: CPU, resident
memory, bytes sent to the terminal, and the time from start to the first frame.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

COLUMNS, LINES = 160, 45
WARM_UP_S = 3.0
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system time of one process, its children not included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_bytes(pid: int) -> int:
    """Resident memory of one process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def drain(terminal: int, seconds: float) -> int:
    """Read what comes for that long; the number of bytes."""
    total, deadline = 0, time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                total += len(os.read(terminal, 1 << 16))
            except OSError:  # the other side is closed: the program has ended
                break
    return total


def main() -> None:
    """Start, warm up, measure, quit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="KEY.zkey WITNESS.wtns")
    parser.add_argument("--seconds", type=float, default=15.0)
    args = parser.parse_args()
    command = [str(Path(sys.executable).with_name("cuzk-top"))]
    scratch = tempfile.mkdtemp()
    if args.files:
        command += ["prove", *args.files, "-o", f"{scratch}/proof.json", "--public", f"{scratch}/public.json"]
        command += ["--repeat", "1000"]
    else:
        command += ["demo"]
    started = time.monotonic()
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", XDG_STATE_HOME=scratch)
        os.environ.pop("NO_COLOR", None)
        os.execv(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    seen = b""
    while b"viewer" not in seen:  # a word of the header: the first frame is there
        seen += os.read(terminal, 1 << 16)
    first_frame_s = time.monotonic() - started
    drain(terminal, WARM_UP_S)
    cpu_before, clock_before = cpu_s(pid), time.monotonic()
    sent = drain(terminal, args.seconds)
    cpu, elapsed = cpu_s(pid) - cpu_before, time.monotonic() - clock_before
    resident = rss_bytes(pid)
    os.write(terminal, b"q")
    drain(terminal, 1.0)
    if os.waitpid(pid, os.WNOHANG)[0] == 0:  # `prove` goes on without the screen
        os.kill(pid, signal.SIGINT)
        drain(terminal, 5.0)
        os.waitpid(pid, 0)
    print(f"terminal         {COLUMNS}x{LINES}, {elapsed:.1f} s while proofs run: {' '.join(command[1:2])}")
    print(f"viewer CPU       {100 * cpu / elapsed:5.1f} % of a core   (must: 8, goal of a later step: 5)")
    print(f"resident         {resident / 1e6:5.0f} MB            (goal 150)")
    print(f"to the terminal  {sent / elapsed / 1e3:5.1f} kB/s          (goal 50)")
    print(f"first frame      {first_frame_s:5.2f} s")


if __name__ == "__main__":
    main()
