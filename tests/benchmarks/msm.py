"""Our multi-scalar multiplication against a straightforward one, in the same run.

    python tests/benchmarks/msm.py [--logs 10,12,14,16] [--repeat 3]

Prints the best wall time of each in milliseconds over G1 of both curves, at every level of the processor the
machine has; straight_msm.cpp, beside this file, is compiled first. Random points and full-width scalars;
every result is compared, and a difference ends the run with exit code 1.
"""

import argparse
import ctypes
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from cuzk_kernels.backend import native, native_library
from cuzk_kernels.backend.protocol import MsmSteps
from cuzk_kernels.curves import CURVES, Curve

HERE = Path(__file__).resolve().parent
STEPS = MsmSteps(*(nullcontext() for _ in range(4)))


def straight() -> Any:
    """The yardstick, compiled as a distribution would: -O3, no -march."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "straight.so"
        command = ["g++", "-O3", "-std=c++17", "-shared", "-fPIC", "-pthread", "-o", str(target)]
        subprocess.run([*command, str(HERE / "straight_msm.cpp")], check=True)
        function = ctypes.CDLL(str(target)).straight_msm
    function.restype = ctypes.c_double
    function.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p)
    return function


def best(repeat: int, run: Callable[[], Any]) -> tuple[float, Any]:
    times, result = [], None
    for _ in range(repeat):
        start = time.perf_counter()
        result = run()
        times.append(time.perf_counter() - start)
    return min(times), result


def compare(curve: Curve, log: int, repeat: int, yardstick: Any) -> bool:
    n = 1 << log
    rng = random.Random(log)
    plain = bytearray(b"".join(rng.randrange(curve.r).to_bytes(32, "little") for _ in range(n)))
    backend = native.NativeBackend()
    scalars = backend.scalars(curve, memoryview(plain), n)
    points = bytearray(backend.fixed_base(curve, 1, curve.g1.generator, scalars, n))
    number = native.CURVE_NUMBERS[curve.name]
    out = (ctypes.c_char * curve.point_bytes(1))()
    addresses = [ctypes.addressof(ctypes.c_char.from_buffer(data)) for data in (points, plain)]
    theirs, _ = best(repeat, lambda: yardstick(number, *addresses, n, out))
    size = curve.n8q
    expected = tuple(int.from_bytes(out.raw[at : at + size], "little") for at in (0, size))
    line, equal = f"{curve.label:10} 2^{log:<3} {theirs * 1e3:9.1f}", True
    for level in native_library.CPU_LEVELS:
        if native_library.cpu_level(level) != level:
            line += f"{'-':>20}"
            continue
        seconds, point = best(repeat, lambda: backend.msm(curve, 1, memoryview(points), scalars, 0, n, STEPS))
        line += f"{seconds * 1e3:10.1f} ({seconds / theirs:5.2f}x)"
        equal = equal and point == expected
    native_library.cpu_level()
    print(line, "" if equal else "  RESULTS DIFFER", flush=True)
    return equal


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--logs", default="10,12,14,16", help="sizes, as powers of two")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    yardstick = straight()
    print(f"G1, milliseconds (share of straight), {native.NativeBackend().threads} threads; straight has 2")
    print(f"{'':16}{'straight':>10}" + "".join(f"{level:>20}" for level in native_library.CPU_LEVELS))
    logs = [int(log) for log in options.logs.split(",")]
    # Every size runs, whatever an earlier one gave.
    results = [compare(curve, log, options.repeat, yardstick) for curve in CURVES for log in logs]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
