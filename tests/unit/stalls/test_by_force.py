"""The findings of recorded traces against what `tests/stalls_by_force.py` found, without our analysis."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cuzk_top import stalls
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store

ROOT = Path(__file__).parents[3]
TRACES = sorted(
    path
    for path in (ROOT / "tests/data").rglob("*.cuzk")
    if path.with_name(f"{path.stem}.expected.json").exists()
)
LEFT_OUT = ("stale.build",)
"""What the script does not know: this one is a comparison of two metadata entries."""


def test_there_are_traces_to_compare() -> None:
    assert len(TRACES) >= 25


@pytest.mark.parametrize("path", TRACES, ids=[path.stem for path in TRACES])
def test_findings_are_those_found_by_force(path: Path) -> None:
    store, source = Store(), TraceSource(path)
    store.append(source.poll())
    analysis = stalls.analyse(store.snapshot())
    every = [one for top in analysis.findings for one in (top, *top.causes)]
    mine: list[dict[str, Any]] = [
        {
            "rule": one.rule,
            "device": one.device,
            "cost_ns": one.cost_ns,
            "count": one.count,
            "intervals": [list(interval) for interval in one.intervals],
            "spans": list(one.spans),
        }
        for one in every
        if one.rule not in LEFT_OUT
    ]
    mine.sort(key=lambda one: (one["rule"], str(one["device"]), one["intervals"], one["count"]))
    expected = json.loads(path.with_name(f"{path.stem}.expected.json").read_text())
    assert mine == expected["findings"]


def test_the_script_loads_nothing_of_the_analysis() -> None:
    code = "import sys; sys.path.insert(0, 'tests'); import stalls_by_force; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not [name for name in done.stdout.split() if name.startswith("cuzk_top.stalls")]
