"""The host library's worker threads write their own spans: who worked, when, and within which stage."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from native_cases import NEEDS_LIBRARY

from cuzk_tracer import reader

pytestmark = NEEDS_LIBRARY

# Proves under CUZK_THREADS=2 a key large enough that both threads get a share of each phase.
PROVE = """
import sys
from pathlib import Path
from cuzk_kernels import backend, groth16, setup
native = backend.choose("native")[0]
demo = setup.demo(native, Path(sys.argv[1]), constraints=2048)
groth16.prove(demo.zkey, demo.fresh_witness(), backend=native)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("writer", ["native", "python"])
def test_workers_appear_on_their_own_threads_inside_their_stage(writer: str, tmp_path: Path) -> None:
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    process = subprocess.Popen(
        [sys.executable, "-c", PROVE, str(tmp_path / "cache")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "XDG_RUNTIME_DIR": str(runtime),
            "CUZK_TRACE": "all",
            "CUZK_TRACER": writer,
            "CUZK_THREADS": "2",
        },
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        (path,) = (runtime / "cuzk").glob("*.ring")
        spans: dict[str, list[tuple[int, int, int]]] = {}
        with reader.Ring(path) as ring:
            poll = ring.poll()
            assert poll.lost == 0
            for thread, rows in poll.records:
                for row in rows:
                    name = ring.names[int(row["name"])].text
                    spans.setdefault(name, []).append((int(row["t0"]), int(row["t1"]), thread.tid))
    finally:
        process.communicate(timeout=30)
    main = process.pid
    workers = {name: found for name, found in spans.items() if name.endswith(".worker")}
    assert {"msm.h.accumulate.worker", "msm.b_g2.accumulate.worker"} <= set(workers)
    for name, found in workers.items():
        stages = spans[name.removesuffix(".worker")]
        for start, end, tid in found:
            assert tid != main
            # The stage waits for its workers; a worker's clock and the caller's are the same.
            assert any(s <= start <= end <= e for s, e, owner in stages if owner == main), name
