"""Freed arrays leave the process, however many were larger before."""

import subprocess
import sys

PROGRAM = """
import sys
import numpy as np
from cuzk_top import heap

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

if sys.argv[1] == "give back":
    heap.give_back()
np.ones(30 << 20, np.uint8)  # freed at once: from now on glibc keeps blocks of this size in its heap
small, large = [], []
before = resident_mb()
for _ in range(10):
    large.append(np.ones(5 << 20, np.uint8))
    small.append(bytearray(100_000))  # behind it
large.clear()
print(resident_mb() - before)
"""


def grown_mb(how: str) -> float:
    done = subprocess.run([sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=True)
    return float(done.stdout)


def test_large_arrays_go_back_to_the_system() -> None:
    assert grown_mb("give back") < 10, "ten arrays of 100 kB are kept; fifty MB were freed"
