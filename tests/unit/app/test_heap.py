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


CROWDED = """
import sys
from cuzk_top import heap

def resident_mb():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 1e6

before = resident_mb()
small, large = [], []
for _ in range(500):
    large.append(b"x" * 100_000)
    small.append(b"x" * 1_000)  # behind it
large.clear()
if sys.argv[1] == "trim":
    heap.trim()
print(resident_mb() - before)
"""


def test_what_is_free_between_small_blocks_goes_back_when_asked() -> None:
    def grown(how: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", CROWDED, how], capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    assert grown("trim") < 10, "500 blocks of a kilobyte are kept; 50 MB between them were freed"
