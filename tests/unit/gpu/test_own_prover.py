"""Five proofs of our own CUDA back end, recorded on an H200 by `cuzk-top prove --backend cuda --repeat 5`."""

from collections import Counter

import numpy as np
import pytest
from gpu_cases import DATA

from cuzk_top import trace
from cuzk_top.model import KIND_GPU_KERNEL, KIND_GPU_MEMCPY, KIND_SPAN
from cuzk_top.stages import lane_of

PROOFS = 5
MSMS = ("msm.h", "msm.l", "msm.a", "msm.b_g1", "msm.b_g2")


@pytest.fixture(scope="module")
def recorded() -> trace.Trace:
    return trace.open(DATA / "traces" / "own-chain-65533-bn254.cuzk")


def launched_by(recorded: trace.Trace) -> Counter[tuple[str, str]]:
    """(kernel, host span that launched it) of every kernel."""
    columns, names = recorded.columns, recorded.session.names
    spans = np.flatnonzero(columns.kind == KIND_SPAN)
    span_of = {int(columns.id[i]): names[int(columns.name[i])].text for i in spans}
    kernels = np.flatnonzero(columns.kind == KIND_GPU_KERNEL)
    return Counter((names[int(columns.name[i])].text, span_of[int(columns.parent[i])]) for i in kernels)


def test_every_kernel_belongs_to_the_stage_that_launched_it(recorded: trace.Trace) -> None:
    found = launched_by(recorded)
    # The algorithm: one bucket accumulation and one digit pass an MSM; a transform of 2^16 takes two passes.
    for name in MSMS:
        assert found["accumulate", name] == found["digits", name] == PROOFS
    for vector in "abc":
        assert found["transform_down", f"quotient.intt.{vector}"] == 2 * PROOFS
        assert found["transform_up", f"quotient.ntt.{vector}"] == 2 * PROOFS
    assert found["pointwise", "quotient.pointwise"] == PROOFS
    assert found["evaluate", "synthesis.abc.eval"] == PROOFS
    lanes = {lane_of(parent) for _, parent in found}
    assert lanes == {"key", "synthesis", "ntt", *MSMS}


def test_no_kernel_starts_before_the_span_that_launched_it(recorded: trace.Trace) -> None:
    columns = recorded.columns
    starts = {int(columns.id[i]): int(columns.start_ns[i]) for i in np.flatnonzero(columns.kind == KIND_SPAN)}
    for i in np.flatnonzero(columns.kind == KIND_GPU_KERNEL):
        assert int(columns.start_ns[i]) >= starts[int(columns.parent[i])]


def test_the_witness_was_copied_once_a_proof(recorded: trace.Trace) -> None:
    """65,536 wires of 32 bytes; every copy's bytes are its first argument."""
    columns = recorded.columns
    copies = columns.a0[np.flatnonzero(columns.kind == KIND_GPU_MEMCPY)]
    assert int((copies == 65_536 * 32).sum()) == PROOFS
    assert recorded.lost == 0
