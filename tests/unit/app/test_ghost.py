"""The last proof's shadow: which proof it is of, and when the device worked in it, by brute force."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuzk_top.ghost import last_proof
from cuzk_top.model import FLAG_ERR, KIND_GPU_KERNEL, KIND_SPAN, Batch, Columns, Name, Session, Track
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store

sys.path.insert(0, str(Path(__file__).parents[2] / "ui"))
import sessions as build

MS, BASE = build.MS, build.BASE_NS
DATA = Path(__file__).parents[2] / "data"


def pairs(ghost):
    return list(zip(ghost.start_ns.tolist(), ghost.end_ns.tolist(), strict=True))


def test_without_a_gpu_it_is_the_cpus_work():
    snapshot = build.snapshot_of(build.proofs(2, scale=10.0, until_ms=1500), 1500)
    [ghost] = last_proof(snapshot)
    assert ghost.device is None and ghost.proof_ns == 920 * MS
    # The first proof ran from 60 to 980, its work from 62 to 970 without a gap; the second began at 1062.4.
    shift = round((1000 + 60 * 1.04 - 60) * MS)
    assert pairs(ghost) == [(BASE + 62 * MS + shift, BASE + 970 * MS + shift)]


def test_of_finished_proofs_the_last_but_one_is_the_ghost():
    snapshot = build.snapshot_of(build.proofs(3, scale=1.0), 400)
    [ghost] = last_proof(snapshot)
    assert ghost.proof_ns == round(92 * 1.04 * MS)
    assert ghost.start_ns[0] == BASE + round((204 + 6.48 + 0.2 * 1.04) * MS)


def test_there_is_none_of_a_first_proof():
    assert last_proof(build.snapshot_of(build.proofs(1, scale=1.0, until_ms=50), 50)) == ()
    assert last_proof(build.snapshot_of(build.proofs(1, scale=1.0), 150)) == ()
    assert last_proof(build.snapshot_of([("key.load", 0, 5)], 10)) == ()


def gpu_store(proofs, kernels) -> Store:
    """Proofs as (start, end, flags) on track 1, kernels as (start, end, device)."""
    session = Session(names=[Name(""), Name("prove"), Name("kernel"), Name("gpu.busy")])
    session.tracks = {
        1: Track(1, "thread", "main"),
        10: Track(10, "gpu", "0", 0),
        11: Track(11, "gpu", "1", 1),
    }
    hosts = Columns.make(
        len(proofs), start_ns=[p[0] for p in proofs], end_ns=[p[1] for p in proofs],
        flags=[p[2] for p in proofs], kind=KIND_SPAN, track=1, name=1, id=np.arange(1, len(proofs) + 1),
    )  # fmt: skip
    devices = Columns.make(
        len(kernels), start_ns=[k[0] for k in kernels], end_ns=[k[1] for k in kernels], kind=KIND_GPU_KERNEL,
        track=[10 + k[2] for k in kernels], name=2,
    )  # fmt: skip
    store = Store()
    store.append(Batch(session, Columns.concat([hosts, devices]), Columns.empty(), 0, 10_000))
    return store


def test_failed_proofs_are_no_measure():
    snapshot = gpu_store(
        [(100, 200, 0), (300, 400, FLAG_ERR), (500, 600, 0)], [(120, 130, 0), (310, 320, 0), (510, 520, 0)]
    ).snapshot()
    [ghost] = last_proof(snapshot)
    assert ghost.device == 0 and ghost.proof_ns == 100 and pairs(ghost) == [(520, 530)]


@given(
    st.lists(st.tuples(st.integers(0, 120), st.integers(1, 30), st.integers(0, 1)), min_size=1, max_size=20),
    st.integers(51, 100),
)
def test_intervals_by_brute_force(drawn, head):
    kernels = [(start, start + length, device) for start, length, device in drawn]
    whole = gpu_store([(10, 50, 0), (51, 140, 0)], kernels).snapshot()
    ghosts = last_proof(replace(whole, now_ns=head + 1))
    assert [ghost.device for ghost in ghosts] == sorted({device for _, _, device in kernels})
    for ghost in ghosts:
        busy = {t for s, e, d in kernels if d == ghost.device for t in range(s, e) if 10 <= t < 50}
        shadow = [t for s, e in pairs(ghost) for t in range(s, e)]
        assert sorted(t + 41 for t in busy) == shadow
        assert all(after > end for (_, end), (after, _) in zip(pairs(ghost), pairs(ghost)[1:], strict=False))


@pytest.mark.parametrize("file", ["chain-65533-bls12381.cuzk", "../gpu/traces/own-chain-65533-bn254.cuzk"])
def test_a_real_trace(file):
    store, source = Store(), TraceSource(DATA / "traces" / file)
    store.append(source.poll())
    snapshot = store.snapshot()
    [ghost] = last_proof(snapshot)
    proofs = sorted(
        (record.start_ns, record.end_ns)
        for row in snapshot.rows
        for record in (snapshot.record(row, i) for i in range(len(row.columns)))
        if record.name == "prove"
    )
    (low, high), (begin, _) = proofs[-2], proofs[-1]
    assert ghost.proof_ns == high - low
    lanes = ("gpu0.h2d", "gpu0.ntt", "gpu0.msm", "gpu0.d2h", "gpu0.other")
    if ghost.device is None:
        lanes = ("synthesis", "ntt", "msm.h", "msm.l", "msm.a", "msm.b_g1", "msm.b_g2")
    edges = []
    for row in snapshot.rows:
        if row.lane.key in lanes:
            for start, end in zip(row.columns.start_ns.tolist(), row.columns.end_ns.tolist(), strict=True):
                if end > low and start < high and end > start:
                    edges += [(max(start, low), 1), (min(end, high), -1)]
    wanted, depth, since = [], 0, 0
    for t, step in sorted(edges, key=lambda edge: (edge[0], -edge[1])):
        if depth == 0:
            since = t
        depth += step
        if depth == 0:
            wanted.append((since - low + begin, t - low + begin))
    assert pairs(ghost) == wanted and len(wanted) > 3 * (ghost.device is not None)
