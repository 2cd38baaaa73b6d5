"""Proofs and what is directly inside of them, against the lists the traces were made from."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cuzk_top.model import FLAG_ERR, KIND_ASYNC, KIND_SPAN, Batch, Columns, Name, Session, Snapshot, Track
from cuzk_top.proofs import Numbers, Parts, Proof, parts, proofs
from cuzk_top.store import Store

sys.path.insert(0, str(Path(__file__).parents[2] / "ui"))
import sessions as build

MS, BASE = build.MS, build.BASE_NS


def at(ms: float) -> int:
    return BASE + round(ms * MS)


def test_finished_and_running_proofs_are_numbered_by_start():
    snapshot = build.snapshot_of(build.proofs(3, scale=1.0, until_ms=230), 230)
    # 100 ms a proof, each 4 % slower than the one before: see `build.proofs`.
    assert [(p.number, p.name, p.start_ns, p.end_ns) for p in proofs(snapshot)] == [
        (1, "prove", at(6), at(98)),
        (2, "prove", at(100 + 6.24), at(100 + 101.92)),
        (3, "prove", at(204 + 6.48), None),
    ]
    assert [proof.number for proof in proofs(snapshot, newest=1)] == [3]
    assert proofs(snapshot, newest=9) == proofs(snapshot)


def test_a_replay_knows_no_more_than_its_play_head():
    whole = build.snapshot_of(build.proofs(3, scale=1.0), 320, ended=True)
    assert [p.end_ns for p in proofs(replace(whole, now_ns=at(50)))] == [None]
    assert proofs(replace(whole, now_ns=at(6))) == []
    assert [p.end_ns is None for p in proofs(replace(whole, now_ns=at(98)))] == [False]


def test_proofs_of_all_threads_have_one_numbering():
    def snapshot(starts: dict[int, list[int]]) -> Snapshot:
        """Proofs of 10 ms by thread."""
        begins = np.array([at(start) for of_thread in starts.values() for start in of_thread])
        tracks = [track for track, of_thread in starts.items() for _ in of_thread]
        columns = Columns.make(
            len(begins), start_ns=begins, end_ns=begins + 10 * MS, kind=KIND_SPAN, name=1, track=tracks
        )
        store = Store()
        threads = {track: Track(track, "thread", str(track), track) for track in starts}
        session = Session(names=[Name(""), Name("prove")], tracks=threads)
        store.append(Batch(session, columns, Columns.empty(), 0, at(100), True))
        return store.snapshot()

    numbers = Numbers()
    overlapping = snapshot({1: [0, 20], 2: [5, 40]})
    assert not numbers.see(overlapping)
    assert [numbers.of(at(start)) for start in (0, 5, 20, 40)] == [1, 2, 3, 4]
    assert [numbers.of(proof.start_ns) for proof in proofs(overlapping)] == [1, 2, 3, 4]
    assert not numbers.see(snapshot({1: [0, 20], 2: [5, 40, 60]}))  # one more at the end changes none
    assert numbers.see(snapshot({1: [20], 2: [5, 40, 60]}))  # the first is no longer kept
    assert numbers.of(at(5)) == 1


def test_parts_of_a_proof():
    snapshot = build.snapshot_of(build.proofs(1, scale=10.0, until_ms=400), 400)
    [proof] = proofs(snapshot)
    assert parts(snapshot, proof) == ({"synthesis": 238 * MS, "quotient": 100 * MS}, {"quotient"})
    whole = build.snapshot_of(build.proofs(1, scale=10.0), 1000)
    msms = {"msm.h": 180, "msm.l": 60, "msm.a": 50, "msm.b_g1": 50, "msm.b_g2": 110}
    wanted = {"synthesis": 238, "quotient": 220, **msms, "finalize": 8}
    assert parts(whole, proofs(whole)[0]) == ({name: ms * MS for name, ms in wanted.items()}, set())


def test_what_is_remembered_of_finished_proofs_is_what_a_look_would_find():
    seen = Parts()
    for until in (150, 260, 330, 420):
        snapshot = build.snapshot_of(build.proofs(4, scale=1.0, until_ms=until), until)
        finished = [proof for proof in proofs(snapshot) if proof.end_ns is not None]
        wanted = [parts(snapshot, proof)[0] for proof in finished]
        assert finished and seen.of(snapshot, finished) == wanted
        assert seen.of(replace(snapshot, rows=()), finished) == wanted, "not looked up again"


def store_of(*rows: tuple[int, int, str, int, int, int], kinds: dict[int, str] | None = None) -> Store:
    """Rows of start, end, name, track, depth, flags."""
    texts = sorted({row[2] for row in rows})
    session = Session(names=[Name(""), *map(Name, texts)])
    for track, kind in (kinds or {}).items():
        session.tracks[track] = Track(track, kind, kind)
    rows = tuple(sorted(rows, key=lambda row: row[1]))
    columns = Columns.make(
        len(rows),
        start_ns=[row[0] for row in rows],
        end_ns=[row[1] for row in rows],
        name=[texts.index(row[2]) + 1 for row in rows],
        track=[row[3] for row in rows],
        depth=[row[4] for row in rows],
        flags=[row[5] for row in rows],
        kind=[KIND_ASYNC if (kinds or {}).get(row[3]) == "async" else KIND_SPAN for row in rows],
        id=np.arange(1, len(rows) + 1),
    )
    store = Store()
    store.append(Batch(session, columns, Columns.empty(), 0, 1_000))
    return store


def test_claims_of_a_gpu_are_no_parts():
    """Our prover's lie between a proof and its stages; here their lane is made by hand."""
    snapshot = store_of(
        (10, 90, "prove", 1, 0, 0),
        (11, 80, "claim", 1, 1, 0),
        (12, 40, "synthesis", 1, 2, 0),
        (20, 30, "synthesis.step", 1, 3, 0),
        (40, 80, "msm.h", 1, 2, 0),
        (80, 85, "finalize", 1, 1, 0),
        (81, 84, "msm.h", 1, 2, 0),
    ).snapshot()
    rows = [
        replace(row, lane=replace(row.lane, key="gpu0.held"), track=0) if row.lane.key == "other" else row
        for row in snapshot.rows
    ]
    snapshot = replace(snapshot, rows=tuple(rows))
    [proof] = proofs(snapshot)
    assert parts(snapshot, proof) == ({"synthesis": 28, "msm.h": 40, "finalize": 5}, set())
    early = replace(snapshot, now_ns=50)
    assert parts(early, proofs(early)[0]) == ({"synthesis": 28, "msm.h": 10}, {"msm.h"})


def test_what_lies_in_a_proof_is_none_though_its_name_says_so():
    snapshot = store_of(
        (10, 90, "prove", 1, 0, 0),
        (10, 20, "prove.part", 1, 1, 0),
        (95, 99, "prove.part", 1, 1, 0),  # in nothing
        (12, 40, "prove", 2, 3, FLAG_ERR),
    ).snapshot()
    assert [(p.start_ns, p.track, p.depth, p.failed) for p in proofs(snapshot)] == [
        (10, 1, 0, False),
        (12, 2, 3, True),
        (95, 1, 1, False),
    ]


def test_asynchronous_proofs_that_overlap_are_all_proofs():
    snapshot = store_of((10, 90, "prove", 5, 0, 0), (20, 80, "prove", 5, 1, 0), kinds={5: "async"}).snapshot()
    assert [(p.start_ns, p.end_ns) for p in proofs(snapshot)] == [(10, 90), (20, 80)]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.integers(1, 3)), max_size=12),
    st.integers(0, 100),
)
def test_any_proofs_of_several_threads(drawn, head):
    """Spans of one track that overlap are left out of the drawing: a track does one thing at a time."""
    kept: list[tuple[int, int, str, int, int, int]] = []
    for start, length, track in drawn:
        end = start + length
        if all(row[3] != track or row[1] <= start or end <= row[0] for row in kept):
            kept.append((start, end, "prove", track, 0, 0))
    if not kept:
        return
    snapshot = replace(store_of(*kept).snapshot(), now_ns=head)
    wanted = [Proof(0, "prove", t, 0, s, e if e <= head else None) for s, e, _, t, _, _ in kept if s < head]
    found = proofs(snapshot)
    assert {replace(proof, number=0) for proof in found} == set(wanted) and len(found) == len(wanted)
    assert [proof.number for proof in found] == list(range(1, len(wanted) + 1))
    assert [proof.start_ns for proof in found] == sorted(proof.start_ns for proof in wanted)
