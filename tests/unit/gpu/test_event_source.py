"""A prover that times its device itself, as the viewer sees it."""

import numpy as np
import pytest
from gpu_cases import Runs

from cuzk_top.facts import describe
from cuzk_top.model import KIND_GPU_KERNEL

PROGRAM = """
    import cuzk_tracer, sys, time
    from cuzk_tracer import gpu
    cuzk_tracer.meta(**{"gpu.problem": "no kernels and copies: libcupti.so was not found"})
    source = "CUDA events (libcupti.so was not found): kernels and copies of this prover only"
    cuzk_tracer.meta(**{"gpu.times": source})
    PROVE, KERNEL = cuzk_tracer.span("prove"), cuzk_tracer.span("accumulate", a0="blocks", a1="threads")
    with PROVE:
        launcher, now = gpu.launcher(), time.monotonic_ns()
        for k in range(4):
            start = now - 1_000_000 + 100_000 * k
            where = {"device": 1, "stream": 1, "launcher": launcher}
            gpu.record(KERNEL, gpu.KERNEL, start, start + 60_000, **where, a0=2, corr=k)
        print("here", flush=True)
        sys.stdin.readline()
"""


@pytest.mark.parametrize("writer", ["native", "python"])
def test_kernels_of_the_first_span_have_it_as_parent_while_it_is_open(runs: Runs, writer: str) -> None:
    snapshot = runs.watched(PROGRAM, CUZK_TRACER=writer)
    (row,) = [
        row for row in snapshot.rows if row.lane.key.startswith("gpu1.") and row.lane.key != "gpu1.busy"
    ]
    (proof,) = [row.open for row in snapshot.rows if row.open is not None]
    assert proof is not None and proof.name == "prove"
    assert row.columns.parent.tolist() == [proof.id] * 4
    assert bool((row.columns.kind == KIND_GPU_KERNEL).all())
    assert row.columns.a0.tolist() == [2] * 4
    assert bool((row.columns.end_ns - row.columns.start_ns == 60_000).all())
    (device,) = snapshot.devices
    low = int(row.columns.start_ns[0])
    assert device.split(low, low + 400_000).kernel_ns == 240_000
    tracks = {snapshot.session.tracks[int(number)].label for number in np.unique(row.columns.track)}
    assert tracks == {"GPU1 stream 1"}


def test_the_source_is_named_and_is_no_problem(runs: Runs) -> None:
    snapshot = runs.watched(PROGRAM)
    assert not [problem for problem in snapshot.problems if "libcupti" in problem]
    facts = describe(snapshot)
    assert "events" in facts.measured and "cupti" not in facts.measured
    assert facts.gpu == (
        "times: CUDA events (libcupti.so was not found): kernels and copies of this prover only"
    )
    assert facts.tracing == "4 launches/s, +0.002%"  # of 4.6 µs each


def test_a_capture_that_sleeps_says_what_wakes_it(runs: Runs) -> None:
    snapshot = runs.watched(
        """
        import cuzk_tracer, sys
        cuzk_tracer.meta(**{"gpu.paused": 'kernels and copies are recorded at detail "all"'})
        with cuzk_tracer.span("prove"):
            print("here", flush=True)
            sys.stdin.readline()
        """,
    )
    assert describe(snapshot).gpu == 'no device data (kernels and copies are recorded at detail "all")'
