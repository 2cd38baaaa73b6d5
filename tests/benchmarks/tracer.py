"""Nanoseconds a span, and what importing the tracer costs: `python tests/benchmarks/tracer.py`.

Prints the minimum (the machine) and the median (the experience) of many repetitions, the empty loop taken
off, beside the goals where there are any. Exits 1 when a minimum is over three times its goal: that
is no noise.
"""

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

REPETITIONS = 25
SPANS = 20_000


def repeat(body: Callable[[int], None]) -> tuple[float, float]:
    """Minimum and median ns an iteration."""
    taken = []
    for _ in range(REPETITIONS):
        start = time.perf_counter_ns()
        body(SPANS)
        taken.append((time.perf_counter_ns() - start) / SPANS)
    return min(taken), statistics.median(taken)


def fresh(code: str) -> tuple[float, float]:
    """Minimum and median ms of a fresh interpreter that runs `code`."""
    taken = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        taken.append((time.perf_counter() - start) * 1e3)
    return min(taken), statistics.median(taken)


def main() -> int:
    import cuzk_tracer

    plain, faults = cuzk_tracer.span("plain"), cuzk_tracer.span("faults", faults=True)

    def empty(count: int) -> None:
        for _ in itertools.repeat(None, count):
            pass

    def bare(count: int) -> None:
        for _ in itertools.repeat(None, count):
            with plain:
                pass

    def arguments(count: int) -> None:
        for _ in itertools.repeat(None, count):
            with plain(65_536, 13):
                pass

    def counted(count: int) -> None:
        for _ in itertools.repeat(None, count):
            with faults:
                pass

    loop = repeat(empty)
    failed = False
    cases = {"span": bare, "with two integers": arguments, "with page faults": counted}
    for level, goal in (("all", 1000), ("off", 80)):
        cuzk_tracer.enable(level)
        for name, body in cases.items():
            least, middle = (value - off for value, off in zip(repeat(body), loop, strict=True))
            beside = f"  goal {goal}" if body is bare else ""
            print(f"{level:4} {name:18} {least:7.0f} ns  median {middle:7.0f}{beside}")
            failed |= body is bare and least > 3 * goal
    base = fresh("pass")
    for name, code in (
        ("import", "import cuzk_tracer"),
        ("and open", "import cuzk_tracer; cuzk_tracer.open()"),
    ):
        least, middle = (value - off for value, off in zip(fresh(code), base, strict=True))
        beside = "  goal 5" if name == "import" else ""
        print(f"     {name:18} {least:7.1f} ms  median {middle:7.1f}{beside}")
        failed |= name == "import" and least > 15
    return int(failed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled files are part of an installation
        with tempfile.TemporaryDirectory() as cache:
            os.environ["PYTHONPYCACHEPREFIX"] = cache
            sys.exit(main())
