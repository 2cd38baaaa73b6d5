"""A stage's page faults in the trace, its workers' included, equal what the kernel counted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from native_cases import NEEDS_LIBRARY

from cuzk_tracer import reader

pytestmark = NEEDS_LIBRARY

# Each kind of work runs in the prover's own stage wrapper, first to warm up; then the
# process's total is read around the span. Prints that total; the span is read from the ring, from outside.
MEASURE = """
import gc, json, mmap, random, resource, sys, tempfile
import cuzk_tracer
from contextlib import nullcontext
from cuzk_kernels import groth16
from cuzk_kernels.backend import native, native_library
from cuzk_kernels.backend.protocol import MsmSteps
from cuzk_kernels.curves import BN254

backend = native.NativeBackend()
steps = MsmSteps(*(nullcontext() for _ in range(4)))
n = 20000
rng = random.Random(1)
plain = bytearray(b"".join(rng.randrange(BN254.r).to_bytes(32, "little") for _ in range(n)))
scalars = backend.scalars(BN254, memoryview(plain), n)
points = backend.fixed_base(BN254, 1, BN254.g1.generator, scalars, n)

def prepare(kind):
    if kind == "msm":
        with tempfile.TemporaryFile() as file:  # mapped and not read yet, as a key is
            file.write(points)
            file.flush()
            mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        return lambda: backend.msm(BN254, 1, mapped, scalars, 0, n, steps)
    memory = native_library.Memory(1 << 22)
    return lambda: (native_library.touch if kind == "touch" else native_library.lock)(memory, 2)

def stage(name, work):
    span = cuzk_tracer.span(name, stage=True, faults=True)
    before = resource.getrusage(resource.RUSAGE_SELF)
    with groth16._native(span, backend):
        work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt

kind = sys.argv[1]
for _ in range(3):
    stage("warm", prepare(kind))
work = prepare(kind)
gc.collect(); gc.disable()
backend.take_faults()
print(json.dumps(stage("measured", work)), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["touch", "lock", "msm"])
def test_a_stage_alone_has_the_faults_of_the_process(kind: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    process = subprocess.Popen(
        [sys.executable, "-c", MEASURE, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path), "CUZK_TRACE": "all"},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line and kind == "lock":
            pytest.skip("this machine does not let a process lock 4 MiB")
        total = tuple(json.loads(line))
        with reader.Ring(reader_path(tmp_path)) as ring:
            records = [record for _, rows in ring.poll().records for record in rows]
            (span,) = [r for r in records if ring.names[int(r["name"])].text == "measured"]
    finally:
        process.communicate(timeout=30)
    assert (int(span["minflt"]), int(span["majflt"])) == total
    assert total[0] > 0


def reader_path(runtime: Path) -> Path:
    """The one ring in a runtime folder."""
    (path,) = (runtime / "cuzk").glob("*.ring")
    return path
