"""Fuzz rings and traces: ``python tests/fuzz/run.py [--cases N] [--start N] [--case N]``.

At least 100,000 damaged files, half rings and half traces (streams, sorted files plain and compressed), each
a number that gives the same file again (`--case`). A child process does them; it may use 1 GiB more than it
begins with, and 10 seconds a case. Ends with 1 and the numbers of the cases when one crashes, hangs,
allocates beyond that or fails.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import cases
import seeds

BATCH = 2000
EXTRA_BYTES = 1 << 30
CASE_S = 10


class HungError(Exception):
    """A case took too long."""


def hung(*_: object) -> None:
    raise HungError(f"more than {CASE_S} s")


def limit_memory() -> None:
    """Allocations beyond EXTRA_BYTES fail."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + EXTRA_BYTES, resource.RLIM_INFINITY))


def batch(fuzzer: cases.Fuzzer, numbers: range, told: int) -> None:
    """Some cases, in a child: a line each outcome count, a line each finding."""
    faulthandler.enable()
    signal.signal(signal.SIGALRM, hung)
    limit_memory()
    outcomes: Counter[str] = Counter()
    for number in numbers:
        os.pwrite(told, f"{number:<20}".encode(), 0)
        signal.setitimer(signal.ITIMER_REAL, CASE_S)
        try:
            outcomes[fuzzer.case(number)] += 1
        except Exception as error:
            outcomes[f"FINDING in case {number}: {type(error).__name__}: {str(error)[:200]}"] += 1
            traceback.print_exc()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    os.pwrite(told, repr(dict(outcomes)).encode(), 32)


def main() -> int:
    """Fork a child for each batch, add up, report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--case", type=int, help="run this one alone, with its traceback")
    args = parser.parse_args()
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    total: Counter[str] = Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=shm) as scratch:
        fuzzer = cases.Fuzzer(Path(scratch), seeds.rings(), seeds.traces())
        if args.case is not None:
            print(fuzzer.case(args.case))
            return 0
        for low in range(args.start, args.start + args.cases, BATCH):
            numbers = range(low, min(low + BATCH, args.start + args.cases))
            path = Path(scratch) / "told"
            told = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            child = os.fork()
            if child == 0:
                batch(fuzzer, numbers, told)
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            text = path.read_bytes()
            os.close(told)
            if status != 0:
                total[f"FINDING in case {text[:20].decode().strip()}: the process ended with {status}"] += 1
            else:
                total.update(eval(text[32:]))  # a dict of our own child
            findings = sum(count for what, count in total.items() if what.startswith("FINDING"))
            spent = time.monotonic() - started
            print(f"{numbers.stop - args.start:,} cases, {spent:.0f} s, {findings} findings", flush=True)
    for what, count in sorted(total.items()):
        print(f"{count:>9,}  {what}")
    return 1 if any(what.startswith("FINDING") for what in total) else 0


if __name__ == "__main__":
    sys.exit(main())
