"""Recorded proofs of an H200 in the screen: what the header and the stalls pane say, against brute force."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from sessions import settled
from test_keys import text_of

from cuzk_top import trace as trace_file
from cuzk_top.app import CuzkTop
from cuzk_top.model import KIND_GPU_KERNEL, KIND_GPU_MEMCPY, KIND_GPU_MEMSET
from cuzk_top.replayed import ReplaySession
from cuzk_top.theme import Theme

GOLDEN = sorted((Path(__file__).parents[1] / "data" / "gpu" / "golden").glob("*.cuzk"))

NOT_IN_THE_SCRIPT = {"tail.gpu", "host.claim"}


def covered(spans: list[tuple[int, int]]) -> int:
    """Length of a union, interval by interval."""
    total, reached = 0, 0
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def split_of(path: Path) -> tuple[float, float]:
    """Percent of the trace's time in which kernels ran, and in which anything did, on the one GPU."""
    opened = trace_file.open(path)
    columns = opened.columns
    rows = list(zip(columns.kind.tolist(), columns.start_ns.tolist(), columns.end_ns.tolist(), strict=True))
    kernels = [(start, end) for kind, start, end in rows if kind == KIND_GPU_KERNEL]
    other = [(start, end) for kind, start, end in rows if kind in (KIND_GPU_MEMCPY, KIND_GPU_MEMSET)]
    return covered(kernels), covered(kernels + other)


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
async def test_a_recorded_proof_is_split_and_explained_as_by_brute_force(path: Path) -> None:
    session = ReplaySession(path, lambda: 0)
    expected = json.loads(path.with_name(f"{path.stem}.expected.json").read_text())["findings"]
    app = CuzkTop(session, Theme(), clock=lambda: 0)
    async with app.run_test(size=(160, 45)) as pilot:
        text = text_of(await settled(pilot))
    snapshot = session.snapshot()
    wall = snapshot.last_ns - snapshot.first_ns
    kernel, work = split_of(path)
    said = re.search(r"kernel (\d+)  copy (\d+)  idle (\d+) %", text)
    assert said is not None and "lost 0" in text
    percent = [int(part) for part in said.groups()]
    assert sum(percent) == 100
    for mine, exact in zip(percent, (kernel, work - kernel, wall - work), strict=True):
        assert abs(mine - 100 * exact / wall) < 1
    ranked = set(re.findall(r"^ [> ] +\d+ ([a-z]+\.[a-z]+)", text, re.MULTILINE))
    assert ranked - NOT_IN_THE_SCRIPT
    assert ranked <= {finding["rule"] for finding in expected} | NOT_IN_THE_SCRIPT
