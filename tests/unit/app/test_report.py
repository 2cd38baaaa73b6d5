"""The report of real traces: its figures by brute force over every span, its text and JSON as they were."""

import json
import os
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuzk_top import history, report, trace
from cuzk_top.history import Past
from cuzk_top.model import KIND_ASYNC, KIND_GPU_KERNEL, KIND_GPU_MEMCPY, KIND_GPU_MEMSET, KIND_SPAN, Snapshot
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store

DATA = Path(__file__).parents[2] / "data"
TRACES = {
    "chain-65533-bls12381": DATA / "traces" / "chain-65533-bls12381.cuzk",
    "own-chain-65533-bn254": DATA / "gpu" / "traces" / "own-chain-65533-bn254.cuzk",
}
PAST = Past("a kind", 12, 800_000_000, {"prove": 800_000_000, "msm.h": 60_000_000, "verify": 5_000_000})


def opened(path: Path) -> Snapshot:
    store, source = Store(), TraceSource(path)
    store.append(source.poll())
    return store.snapshot()


def spans(path: Path) -> list[tuple[int, int, int, str]]:
    """Kind, start, end and name of each record of the file."""
    whole = trace.open(path)
    names = [name.text for name in whole.session.names]
    columns = whole.columns
    rows = zip(*(getattr(columns, c).tolist() for c in ("kind", "start_ns", "end_ns", "name")), strict=True)
    return [(kind, start, end, names[name]) for kind, start, end, name in rows]


@pytest.mark.parametrize("name", TRACES)
def test_figures_by_brute_force(name: str) -> None:
    records = spans(TRACES[name])
    data = report.facts(opened(TRACES[name]), PAST)
    host = [r for r in records if r[0] in (KIND_SPAN, KIND_ASYNC)]
    proofs = [(start, end) for _, start, end, text in host if text == "prove"]
    lengths = [end - start for start, end in proofs]
    assert data["proofs"] == {
        "count": len(proofs),
        "running": False,
        "durations_ns": lengths,
        "median_ns": int(statistics.median(lengths)),
        "past_count": 12,
        "past_median_ns": 800_000_000,
    }
    stages = {stage["name"]: stage for stage in data["stages"]}
    for text in {text for _, _, _, text in host}:
        mine = [(start, end) for _, start, end, other in host if other == text]
        stage = stages[text]
        assert stage["count"] == len(mine)
        assert stage["total_ns"] == sum(end - start for start, end in mine)
        assert stage["median_ns"] == int(np.median([end - start for start, end in mine]))
        totals = [
            sum(end - start for start, end in mine if low <= start and end <= high) for low, high in proofs
        ]
        totals = [total for total in totals if total]
        assert stage["proof_median_ns"] == (int(statistics.median(totals)) if totals else None)
        assert stage["past_median_ns"] == PAST.stages.get(text)
    works = [r for r in records if r[0] in (KIND_GPU_KERNEL, KIND_GPU_MEMCPY, KIND_GPU_MEMSET)]
    assert [device["index"] for device in data["devices"]] == ([0] if works else [])
    for device in data["devices"]:
        kernels = covered([r for r in works if r[0] == KIND_GPU_KERNEL])
        assert device["kernel_ns"] == kernels
        assert device["copy_only_ns"] == covered(works) - kernels
        assert device["kernel_ns"] + device["copy_only_ns"] + device["idle_ns"] == data["wall_ns"]


def covered(records: list[tuple[int, int, int, str]]) -> int:
    """Time in which at least one record lasts, by a sweep over their edges."""
    edges = sorted([(start, 1) for _, start, _, _ in records] + [(end, -1) for _, _, end, _ in records])
    total, depth, since = 0, 0, 0
    for t, step in edges:
        total += t - since if depth else 0
        depth, since = depth + step, t
    return total


@pytest.mark.parametrize("name", TRACES)
def test_text_and_json_are_as_they_were(name: str) -> None:
    """After a wanted change: UPDATE_REPORTS=1 pytest of this file, and read the difference."""
    data = report.facts(opened(TRACES[name]), PAST)
    made = {".json": json.dumps(data, indent=1) + "\n", ".txt": report.text(data) + "\n"}
    for suffix, text in made.items():
        path = DATA / "report" / (name + suffix)
        if os.environ.get("UPDATE_REPORTS"):
            path.write_text(text, "utf-8")
        assert path.read_text("utf-8") == text
    assert max(map(len, made[".txt"].splitlines())) <= 100


def test_past_proofs_beside_these() -> None:
    snapshot = opened(TRACES["chain-65533-bls12381"])
    data: dict[str, Any] = report.facts(snapshot, PAST)
    lines = report.text(data).splitlines()
    at = lines.index(next(line for line in lines if line.startswith("against")))
    assert lines[at].split() == ["against", "12", "past", "proofs", "of", "this", "kind", "here", "past"]
    assert lines[at + 1].split()[:2] == ["a", "proof"]
    h = statistics.median(r[2] - r[1] for r in spans(TRACES["chain-65533-bls12381"]) if r[3] == "msm.h")
    assert lines[at + 2].split() == [
        "msm.h",
        f"{h / 1e6:.0f}",
        "ms",
        "60.0",
        "ms",
        f"{h / 6e5 - 100:+.1f}",
        "%",
    ]
    assert lines[at + 3] == "", "verify moved by less than 2 % of a proof"
    without = report.text(report.facts(snapshot))
    assert "against" not in without and all(line in lines for line in without.splitlines())


def test_a_traces_own_proofs_are_not_its_past(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    snapshot = opened(TRACES["chain-65533-bls12381"])
    assert history.note(snapshot) == ""
    assert history.read(snapshot.session.meta).proofs == 3
    data = report.against_past(snapshot)
    assert data["proofs"]["past_count"] == 0 and data["proofs"]["past_median_ns"] is None
    other = opened(TRACES["chain-65533-bls12381"])
    other.session.meta["machine.boot_id"] = "another boot"
    assert report.against_past(other)["proofs"]["past_count"] == 3
    [path] = (tmp_path / "cuzk-top" / "history").glob("*.json")
    path.write_text("{")
    assert report.against_past(other)["problems"] == [f"{path}: damaged, past proofs are counted anew"]
