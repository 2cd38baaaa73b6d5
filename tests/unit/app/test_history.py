"""Medians of past proofs: what is kept, for whom, and what becomes of a bad file."""

import json
import multiprocessing
import os
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cuzk_top import history
from cuzk_top.model import FLAG_ERR, Snapshot
from cuzk_top.proofs import proofs
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store

sys.path.insert(0, str(Path(__file__).parents[2] / "ui"))
import sessions as build

MS = build.MS
DATA = Path(__file__).parents[2] / "data"


def session(count: int, boot: str = "b00t", **changes) -> Snapshot:
    """A live session whose proofs take 92, 95.68, 99.36 ... ms (see `sessions.proofs`)."""
    snapshot = build.snapshot_of(build.proofs(count, scale=1.0), 100 * count * (1 + count / 50), **changes)
    snapshot.session.meta["machine.boot_id"] = boot
    return snapshot


def opened(path: Path) -> Snapshot:
    store, source = Store(), TraceSource(path)
    store.append(source.poll())
    return store.snapshot()


def the_file(folder: Path) -> Path:
    [path] = folder.glob("*.json")
    return path


def test_medians_of_what_was_noted(tmp_path):
    snapshot = session(3)
    meta = snapshot.session.meta
    assert history.read(meta, tmp_path) == history.Past(history.kind_of(meta))
    assert history.note(snapshot, tmp_path) == ""
    past = history.read(meta, tmp_path)
    assert past.proofs == 3
    assert past.median_ns == 95_680_000  # the second: 92 ms and 4 %
    # PROOF in tests/ui/sessions.py: synthesis 62 to 300, msm.h.accumulate 530 to 680, times 1.04 / 10 ms.
    assert past.stages["synthesis"] == 24_752_000
    assert past.stages["msm.h.accumulate"] == 15_600_000
    assert past.stages["prove"] == 95_680_000
    assert "key.load" not in past.stages, "it is in no proof"
    assert past.problem == ""


def test_every_proof_counts_once_whoever_notes_it(tmp_path):
    for snapshot in (session(1), session(3), session(2), session(3)):  # the same boot, the same nanoseconds
        history.note(snapshot, tmp_path)
    assert history.read(session(1).session.meta, tmp_path).proofs == 3
    history.note(session(3, boot="other"), tmp_path)
    assert history.read(session(1).session.meta, tmp_path).proofs == 6


def test_nothing_is_written_when_all_is_known(tmp_path):
    history.note(session(2), tmp_path)
    before = the_file(tmp_path).stat()
    history.note(session(2), tmp_path)
    assert the_file(tmp_path).stat().st_mtime_ns == before.st_mtime_ns
    assert the_file(tmp_path).stat().st_ino == before.st_ino


def test_the_newest_fifty_are_kept(tmp_path):
    snapshot = session(60)
    history.note(snapshot, tmp_path)
    past = history.read(snapshot.session.meta, tmp_path)
    # Proof n takes 92 * (1 + 0.04 n) ms; the newest 50 are n = 10 to 59, their median lies between 34 and 35.
    assert past.proofs == 50 and past.median_ns == round(92 * (1 + 0.04 * 34.5) * MS)
    history.note(session(5), tmp_path)
    assert history.read(snapshot.session.meta, tmp_path) == past, "five older ones change nothing"
    assert the_file(tmp_path).stat().st_size < 100_000


def test_failed_and_unfinished_proofs_do_not_count(tmp_path):
    history.note(build.snapshot_of(build.proofs(2, scale=1.0, until_ms=150), 150), tmp_path)
    assert history.read(session(1).session.meta, tmp_path).proofs == 1
    failed = session(2, boot="two")
    for row in failed.rows:
        if row.lane.key == "proof":
            flagged = row.columns.replace(flags=row.columns.flags | FLAG_ERR)
            object.__setattr__(row, "columns", flagged)
    assert history.note(failed, tmp_path) == ""
    assert history.read(session(1).session.meta, tmp_path).proofs == 1


def test_of_a_trace_with_losses_only_whole_proofs_are_known(tmp_path):
    history.note(session(3, lost=7), tmp_path)
    past = history.read(session(1).session.meta, tmp_path)
    assert past.median_ns == 95_680_000 and past.stages == {}
    history.note(session(1, boot="two"), tmp_path)
    assert history.read(session(1).session.meta, tmp_path).stages["synthesis"] == 23_800_000


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("job", "other.zkey"),
        ("backend", "gpu-cuda"),
        ("threads", "64"),
        ("domain", "1048576"),
        ("wires", "5"),
        ("gpu", "NVIDIA H200"),
        ("h2d", "pageable"),
        ("switches", "check-key"),
        ("machine.host", "elsewhere"),
        ("machine.cpu", "another"),
    ],
)
def test_what_makes_another_kind(tmp_path, key, value):
    snapshot = session(2)
    history.note(snapshot, tmp_path)
    meta = snapshot.session.meta
    assert history.read({**meta, key: value}, tmp_path).proofs == 0
    assert history.read({**meta, "machine.kernel": "7.0", "machine.boot_id": "x"}, tmp_path).proofs == 2


def test_a_foreign_program_is_known_by_its_command_and_cards():
    meta = {"command": "./bench --size 20", "gpu.0.name": "NVIDIA H200", "gpu.0.processes": "123 x"}
    assert history.kind_of(meta) == "./bench --size 20; gpu.0.name NVIDIA H200"


def test_kinds_of_the_same_session_are_the_same_live_and_replayed():
    """The trace was recorded on a machine whose facts it tells."""
    whole = opened(DATA / "traces" / "chain-65533-bls12381.cuzk")
    kind = history.kind_of(whole.session.meta)
    assert "chain-65533.zkey" in kind and "cpu-native" in kind and "machine.cpu" in kind


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: b"",
        lambda text: b"\xff\xfe" + text,
        lambda text: b"[" * 1_000_000,
        lambda text: text + b" " * (5 << 20),
        lambda text: text.replace(b'"proofs"', b'"others"'),
        lambda text: text.replace(b"92000000", b'"92000000"'),
        lambda text: text.replace(b"92000000", b"-92000000"),
        lambda text: text.replace(b"92000000", b"92000000.5"),
        lambda text: text.replace(b"[", b"{"),
        lambda text: b"null",
    ],
)
def test_a_damaged_file_is_ignored_and_started_anew(tmp_path, damage):
    snapshot = session(1)
    meta = snapshot.session.meta
    history.note(snapshot, tmp_path)
    path = the_file(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    past = history.read(meta, tmp_path)
    assert past.proofs == 0 and past.problem.startswith(f"{path}: damaged") and "\n" not in past.problem
    assert history.note(snapshot, tmp_path) == past.problem
    again = history.read(meta, tmp_path)
    assert again.proofs == 1 and again.problem == ""


def test_a_file_of_another_version_is_left_alone(tmp_path):
    snapshot = session(1)
    history.note(snapshot, tmp_path)
    path = the_file(tmp_path)
    newer = path.read_text().replace('"1.0"', '"2.0"')
    path.write_text(newer)
    assert "version 2.0" in history.read(snapshot.session.meta, tmp_path).problem
    assert "version 2.0" in history.note(snapshot, tmp_path)
    assert path.read_text() == newer
    path.write_text(newer.replace('"2.0"', '"1.7","more":{}'))
    assert history.read(snapshot.session.meta, tmp_path).proofs == 1


def test_places_that_cannot_be_written_are_one_line(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    said = history.note(session(1), blocked / "history")
    assert said.startswith("past proofs are not kept: ") and "Not a directory" in said
    assert history.read(session(1).session.meta, blocked / "history").problem


def test_a_viewer_that_holds_the_lock_does_not_hang_another(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "LOCK_S", 0.05)
    history.note(session(1), tmp_path)
    with history._locked(tmp_path):
        assert "another viewer" in history.note(session(3), tmp_path)
    assert history.note(session(3), tmp_path) == ""
    assert history.read(session(1).session.meta, tmp_path).proofs == 3


def _note_some(folder: str, number: int) -> None:
    for part in range(4):
        history.note(session(2, boot=f"{number}{part}"), Path(folder))


def test_many_viewers_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    viewers = [context.Process(target=_note_some, args=(str(tmp_path), n)) for n in range(4)]
    for viewer in viewers:
        viewer.start()
    for viewer in viewers:
        viewer.join()
        assert viewer.exitcode == 0
    assert history.read(session(1).session.meta, tmp_path).proofs == 4 * 4 * 2
    assert sorted(path.suffix or path.name for path in tmp_path.iterdir()) == [".json", ".lock"]


def test_few_kinds_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(history, "KINDS_KEPT", 3)
    (tmp_path / "half.json.1.part").write_text("")
    os.utime(tmp_path / "half.json.1.part", (1, 1))
    for number in range(5):
        snapshot = session(1)
        snapshot.session.meta["job"] = f"job {number}"
        history.note(snapshot, tmp_path)
        path = history._file(tmp_path, history.kind_of(snapshot.session.meta))
        os.utime(path, (1000 + number, 1000 + number))
    kinds = {json.loads(path.read_text())["kind"].split(";")[0] for path in tmp_path.glob("*.json")}
    assert kinds == {"job 2", "job 3", "job 4"}
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("file", ["chain-65533-bls12381.cuzk", "../gpu/traces/own-chain-65533-bn254.cuzk"])
def test_totals_of_a_real_trace_by_brute_force(file):
    snapshot = opened(DATA / "traces" / file)
    of = proofs(snapshot)
    assert len(of) >= 3
    spans, launches = [], {}
    for row in snapshot.rows:
        for i in range(len(row.columns)):
            record = snapshot.record(row, i)
            if record.name != "gpu.busy":
                spans.append((record.start_ns, record.end_ns, record.name))
            if row.lane.key in ("gpu0.h2d", "gpu0.ntt", "gpu0.msm", "gpu0.d2h", "gpu0.other"):
                launches.setdefault(row.lane.key, []).append((record.start_ns, record.end_ns))
    assert set(launches) == (
        set() if "bls" in file else {f"gpu0.{k}" for k in ("h2d", "ntt", "msm", "d2h", "other")}
    )
    for proof, found in zip(of, history.totals(snapshot, of), strict=True):
        wanted: dict[str, int] = {}
        for start, end, name in spans:
            if proof.start_ns <= start and end <= proof.end_ns:
                wanted[name] = wanted.get(name, 0) + end - start
        for lane, mine in launches.items():
            edges = [(s, 1) for s, e in mine if proof.start_ns <= s and e <= proof.end_ns]
            edges += [(e, -1) for s, e in mine if proof.start_ns <= s and e <= proof.end_ns]
            depth, since = 0, 0
            for t, step in sorted(edges):
                wanted[lane] = wanted.get(lane, 0) + (t - since if depth else 0)
                depth, since = depth + step, t
        assert found == {name: time for name, time in wanted.items() if time}
    assert statistics.median(p.end_ns - p.start_ns for p in of) > 0


def test_of_proofs_that_overlap_only_their_own_track_counts():
    from test_proofs import store_of

    snapshot = store_of(
        (10, 90, "prove", 1, 0, 0),
        (20, 30, "msm.h", 1, 1, 0),
        (50, 99, "prove", 2, 0, 0),
        (60, 65, "msm.h", 2, 1, 0),
        (70, 71, "msm.h", 3, 0, 0),
    ).snapshot()
    assert history.totals(snapshot, proofs(snapshot)) == [
        {"prove": 80, "msm.h": 10},
        {"prove": 49, "msm.h": 5},
    ]
    alone = replace(snapshot, rows=tuple(row for row in snapshot.rows if row.track != 1))
    assert history.totals(alone, proofs(alone)) == [{"prove": 49, "msm.h": 6}]
