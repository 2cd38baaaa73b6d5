"""The native library's threads: whose page faults are counted, and what a fork leaves."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from native_cases import NEEDS_LIBRARY, native_library

pytestmark = NEEDS_LIBRARY

# Runs one piece of work twice, the first time to warm up, and prints page faults of the second: of this
# thread, of the workers as the library says, and of the whole process as the kernel says.
MEASURE = """
import json, random, resource, sys
from contextlib import nullcontext
from cuzk_kernels.backend import native, native_library
from cuzk_kernels.backend.protocol import MsmSteps
from cuzk_kernels.curves import BN254

backend = native.NativeBackend()
steps = MsmSteps(*(nullcontext() for _ in range(4)))
n = 20000
rng = random.Random(1)
scalars = bytearray(b"".join(rng.randrange(BN254.r).to_bytes(32, "little") for _ in range(n)))
scalars = backend.scalars(BN254, memoryview(scalars), n)
points = backend.fixed_base(BN254, 1, BN254.g1.generator, scalars, n)

def fresh():
    return native_library.Memory(1 << 24)

def prepare(kind):
    if kind == "msm":
        memory = native_library.Memory(len(points))
        memory.view()[:] = points
        return lambda: backend.msm(BN254, 1, memory.view(), scalars, 0, n, steps)
    memory = fresh()
    return lambda: (native_library.touch if kind == "touch" else native_library.lock)(memory, 4)

def measure(work):
    backend.take_faults()
    whole = resource.getrusage(resource.RUSAGE_SELF)
    own = resource.getrusage(resource.RUSAGE_THREAD)
    work()
    own_after = resource.getrusage(resource.RUSAGE_THREAD)
    whole_after = resource.getrusage(resource.RUSAGE_SELF)
    workers = backend.take_faults()
    return {
        "own": own_after.ru_minflt - own.ru_minflt,
        "workers": workers[0],
        "whole": whole_after.ru_minflt - whole.ru_minflt,
        "major": whole_after.ru_majflt - whole.ru_majflt - (own_after.ru_majflt - own.ru_majflt) - workers[1],
    }

kind = sys.argv[1]
measure(prepare(kind))
print(json.dumps(measure(prepare(kind))))
"""

FORK = """
import os
from cuzk_kernels.backend import native, native_library
from cuzk_kernels.curves import BN254

backend = native.NativeBackend()
def transform():
    vec = native.NativeVec.of(BN254, (1).to_bytes(32, "little") * 4096)
    backend.ntt(vec)
    assert int.from_bytes(vec.tobytes()[:32], "little") == 4096
transform()
child = os.fork()
if child == 0:
    transform()
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
transform()
"""


def run(script: str, *arguments: str) -> str:
    environment = {**os.environ, "CUZK_THREADS": "4", "CUZK_TRACE": "off"}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    if "OSError" in done.stderr and "mlock" in done.stderr:
        pytest.skip("the limit on locked memory is too low")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["touch", "lock", "msm"])
def test_faults_of_workers_and_caller_make_up_the_process(kind: str):
    faults: dict[str, Any] = json.loads(run(MEASURE, kind))
    assert faults["own"] + faults["workers"] == faults["whole"]
    assert faults["major"] == 0  # what is left of the process's major faults once both shares are taken off
    assert faults["whole"] > 100


def test_workers_take_their_share_of_the_faults():
    faults = json.loads(run(MEASURE, "touch"))
    assert faults["workers"] > 0


def test_a_forked_child_works_on_threads_of_its_own():
    run(FORK)


def test_the_environment_sets_the_number_of_threads():
    script = "from cuzk_kernels.backend import native; print(native.NativeBackend().threads)"
    assert run(script).strip() == "4"


def test_touch_writes_every_page():
    memory = native_library.Memory(5 * 4096 + 1)
    native_library.touch(memory, 2)
    assert [memory.view()[page * 4096] for page in range(6)] == [1] * 6
