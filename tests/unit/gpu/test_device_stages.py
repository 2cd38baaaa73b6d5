"""What GPUs did in the stage table: real captures against sweeps over their records, in plain Python."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from gpu_cases import DATA, Record, capture
from hypothesis import given, settings
from hypothesis import strategies as st

from cuzk_top import report
from cuzk_top.demangle import readable
from cuzk_top.model import (
    KIND_GPU_KERNEL,
    KIND_GPU_MEMCPY,
    KIND_GPU_MEMSET,
    KIND_SPAN,
    Batch,
    Columns,
    Name,
    Session,
    Snapshot,
    Track,
)
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.stage_table import Stage, stage_table
from cuzk_top.store import Store

KINDS = {"kernel": KIND_GPU_KERNEL, "memcpy": KIND_GPU_MEMCPY, "memset": KIND_GPU_MEMSET}
Launch = tuple[str, str, int, int, int, int]
"""Kind, name, device, start, end, bytes."""


def covered(spans: list[tuple[int, int]]) -> int:
    """Length of a union, by walking over the edges."""
    edges = sorted([(start, 1) for start, _ in spans] + [(end, -1) for _, end in spans])
    length, depth, since = 0, 0, 0
    for at, step in edges:
        length += at - since if depth else 0
        depth, since = depth + step, at
    return length


def snapshot_of(
    launches: list[Launch], proofs: Sequence[tuple[int, int]] = (), now: int = 1 << 60
) -> Snapshot:
    names = ["", "prove", *sorted({launch[1] for launch in launches})]
    devices = sorted({launch[2] for launch in launches})
    tracks = {1: Track(1, "thread", "main")}
    tracks |= {10 + device: Track(10 + device, "gpu", f"GPU{device} stream 7", device) for device in devices}
    rows = [(KIND_SPAN, 1, 1, start, end, 0) for start, end in proofs]
    rows += [
        (KINDS[kind], 10 + device, names.index(name), start, end, size)
        for kind, name, device, start, end, size in launches
    ]
    kind, track, name, start, end, size = (np.array(column) for column in zip(*rows, strict=True))
    columns = Columns.make(len(rows), kind=kind, track=track, name=name, start_ns=start, end_ns=end, a0=size)
    session = Session(1, "x", 0, {}, [Name(text, "bytes") for text in names], tracks)
    store = Store()
    store.append(Batch(session, columns, Columns.empty(), 0, now, ended=True))
    return store.snapshot()


def captured(name: str) -> list[Launch]:
    memory = {1: ".pageable", 2: ".pinned"}
    found = []
    for record in capture(name):
        if record["kind"] in KINDS:
            text = readable(record["name"]) if record["kind"] == "kernel" else _copy_name(record, memory)
            found.append((record["kind"], text, 0, record["start"], record["end"], record.get("bytes", 0)))
    return found


def _copy_name(record: Record, memory: dict[int, str]) -> str:
    if record["kind"] == "memset":
        return "memset"
    way = {1: "h2d", 2: "d2h", 8: "d2d"}[record["copy"]]
    host = record["src"] if record["copy"] == 1 else record["dst"]
    return f"memcpy.{way}{memory.get(host, '') if way != 'd2d' else ''}"


def rows(snapshot: Snapshot) -> list[Stage]:
    return [stage for stage in stage_table(snapshot) if stage.lane.startswith("gpu")]


@pytest.mark.parametrize("name", ["sppark-g1", "icicle"])
def test_kernels_lie_below_their_stage(name: str) -> None:
    launches = captured(name)
    table = rows(snapshot_of(launches))
    at = next(i for i, row in enumerate(table) if row.name == "gpu0.msm")
    block = [table[at]]
    for row in table[at + 1 :]:
        if row.indent == 0:
            break
        block.append(row)
    kernels = [launch for launch in launches if launch[0] == "kernel"]
    msm = block[0]
    assert (msm.label, msm.indent, msm.count, msm.running) == ("0 msm", 0, len(kernels), 0)
    assert msm.total_ns == covered([(start, end) for _, _, _, start, end, _ in kernels])
    leaves = [row for i, row in enumerate(block) if i + 1 == len(block) or block[i + 1].indent <= row.indent]
    assert {row.name for row in leaves} == {launch[1] for launch in kernels}
    for row in leaves:
        lengths = sorted(end - start for _, text, _, start, end, _ in kernels if text == row.name)
        assert (row.count, row.total_ns, row.self_ns) == (len(lengths), sum(lengths), sum(lengths))
        assert row.median_ns == int(np.quantile(lengths, 0.5))
        assert row.gb_per_s is None
        assert "cub::" not in row.label.partition("<")[0]
    firsts = [min(s for _, t, _, s, _, _ in kernels if t == row.name) for row in leaves if row.indent == 1]
    assert firsts == sorted(firsts)


def test_a_stage_of_several_kernels_has_them_below_it() -> None:
    table = rows(snapshot_of(captured("icicle")))
    labels = [("  " * row.indent + row.label) for row in table]
    sort = labels.index("  sort")
    below = []
    for row in table[sort + 1 :]:
        if row.indent < 2:
            break
        below.append(row)
    assert len(below) > 1
    assert sum(row.count for row in below) == table[sort].count
    assert any("Onesweep" in row.label for row in below)
    assert "  digits: split_scalars_kernel" in labels


def test_copies_say_how_fast_they_were() -> None:
    launches = captured("sppark-g1")
    by_name = {row.name: row for row in rows(snapshot_of(launches))}
    for name, lane in (("memcpy.h2d.pageable", "gpu0.h2d"), ("memcpy.d2h.pageable", "gpu0.d2h")):
        copies = [launch for launch in launches if launch[1] == name]
        moved, busy = sum(c[5] for c in copies), covered([(c[3], c[4]) for c in copies])
        assert by_name[name].gb_per_s == pytest.approx(moved / busy)
        assert by_name[name].lane == lane
    assert by_name["memcpy.h2d.pageable"].role == "p pageable"
    assert by_name["gpu0.h2d"].label == "0 copy in"


def test_our_own_prover_s_stages() -> None:
    """tests/data/gpu/traces: five proofs of 65,533 constraints."""
    store = Store()
    store.append(TraceSource(DATA / "traces" / "own-chain-65533-bn254.cuzk").poll())
    table = rows(store.snapshot())
    text = ["  " * row.indent + row.label for row in table]
    for line in (
        "0 copy in",
        "0 ntt",
        "  butterfly",
        "    transform_up",
        "0 msm",
        "  accumulate",
        "    merge_small",
    ):
        assert line in text, line
    counts = {row.name: row.count for row in table}
    assert counts["accumulate"] == 25  # five MSMs a proof
    assert counts["gpu0.msm"] == sum(row.count for row in table if row.lane == "gpu0.msm" and row.indent == 1)


def test_variants_of_a_kernel_are_told_apart() -> None:
    launches: list[Launch] = [("kernel", f"void_::add<{n}>", 0, 10 * n, 10 * n + 5, 0) for n in range(3)] + [
        ("kernel", "other::scale<float>", 0, 100, 105, 0)
    ]
    labels = [row.label for row in rows(snapshot_of(launches))]
    assert labels == ["0 other", "add<0>", "add<1>", "add<2>", "scale"]


NAMES = [
    "accumulate<xyzz_t>",
    "breakdown<fr>",
    "batch_addition<b>",
    "_GS_NTT<1>",
    "spin",
    "memcpy.h2d.pinned",
]
launches = st.lists(
    st.tuples(st.sampled_from(NAMES), st.integers(0, 1), st.integers(0, 200), st.integers(1, 40)),
    min_size=1,
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(drawn=launches, proof=st.tuples(st.integers(0, 120), st.integers(1, 150)), now=st.integers(1, 260))
def test_totals_and_shares_by_brute_force(
    drawn: list[tuple[str, int, int, int]], proof: tuple[int, int], now: int
) -> None:
    """Overlapping launches on two devices, a proof in the midst, the play head anywhere."""
    made: list[Launch] = [
        ("memcpy" if name.startswith("memcpy") else "kernel", name, device, start, start + length, 3 * length)
        for name, device, start, length in drawn
    ]
    begin, finish = proof[0], proof[0] + proof[1]
    table = rows(snapshot_of(made, [(begin, finish)], now))
    proved = min(finish, now) - begin
    seen = 0
    for row in table:
        device = int(row.lane[3])
        lane = row.lane.partition(".")[2]
        mine = [
            (start, min(end, now), end <= now)
            for _, name, of, start, end, _ in made
            if of == device
            and start < now
            and (name == row.name or (row.indent == 0 and _lane(name) == lane))
        ]
        assert (row.count, row.running) == (sum(d for *_, d in mine), sum(not d for *_, d in mine))
        inside = [(s, e) for s, e, _ in mine if begin <= s < now and e <= min(finish, now) and proved > 0]
        if row.indent == 0:
            assert row.total_ns == covered([(s, e) for s, e, _ in mine])
            share = covered(inside)
        else:
            seen += row.count + row.running
            assert row.total_ns == sum(e - s for s, e, _ in mine)
            share = sum(e - s for s, e in inside)
        assert (row.share or 0) == pytest.approx(share / proved if share else 0)
    assert seen == sum(start < now for _, _, _, start, _, _ in made)


def _lane(name: str) -> str:
    return {"_": "ntt", "s": "other", "m": "h2d"}.get(name[0], "msm")


def test_the_user_s_map_counts_here_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cuzk-top").mkdir()
    (tmp_path / "cuzk-top" / "stages.toml").write_text(
        "[[kernel]]\nmatch = '^spin'\nlane = 'hash'\nstage = 'hash.tree'\n"
    )
    made: list[Launch] = [("kernel", "spin", 0, 0, 5, 0)]
    assert [row.label for row in rows(snapshot_of(made))] == ["0 other", "spin"]
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert [row.label for row in rows(snapshot_of(made))] == ["0 hash", "tree: spin"]


def test_the_report_reads_as_stages() -> None:
    made: list[Launch] = [
        ("memcpy", "memcpy.h2d.pinned", 0, 0, 1000, 50_000),
        ("kernel", "breakdown<fr_t>", 0, 1000, 3000, 0),
    ]
    data = report.facts(snapshot_of(made, [(0, 4000)]))
    lines = report.text(data).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("0 copy in"))
    assert [line.split()[0] for line in lines[at : at + 4]] == ["0", "memcpy.h2d.pinned", "0", "digits:"]
    assert lines[at + 1].endswith(" 50.0 GB/s")
    assert [stage["gb_per_s"] for stage in data["stages"]] == [None, 50.0, 50.0, None, None]
    assert [stage["label"] for stage in data["stages"]][-1] == "digits: breakdown"
