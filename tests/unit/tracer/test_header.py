"""The worked examples of cuzk_trace.h in C, C++ and Rust: what they did, span for span."""

import re
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

import cuzk_tracer
from cuzk_tracer import layout, reader

DATA = Path(__file__).resolve().parents[2] / "data" / "tracer"
SPAN, ASYNC, INSTANT, COUNTER, FLOW = (
    layout.KIND_SPAN,
    layout.KIND_ASYNC,
    layout.KIND_INSTANT,
    layout.KIND_COUNTER,
    layout.KIND_FLOW,
)
ERR, F64, F64_A1, FAULTS = layout.KIND_ERR, layout.TRACK_F64, layout.TRACK_F64_A1, layout.TRACK_FAULTS


def bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def threads(ring: reader.Ring) -> list[tuple[reader.Thread, list[tuple]]]:
    """Each thread's records as (name, kind, id, parent, depth, track, a0, a1)."""
    poll = ring.poll()
    assert poll.lost == poll.skipped == 0 and poll.open == [] and ring.problems == []
    found = []
    for thread, part in poll.records:
        assert (part["t0"] <= part["t1"]).all()
        rows = [
            (ring.names[int(row["name"])].text, *(int(row[field]) for field in FIELDS), row) for row in part
        ]
        check_times(rows)
        found.append((thread, [row[:-1] for row in rows]))
    return found


FIELDS = ("kind", "id", "parent", "depth", "track", "a0", "a1")


def check_times(rows: list[tuple]) -> None:
    """A span lies within its parent; siblings follow one another."""
    spans = {row[2]: row[-1] for row in rows if row[1] & layout.KIND_MASK == SPAN}
    last_end: dict[int, int] = {}
    for name, kind, number, parent, *_, row in rows:
        if parent in spans and kind & layout.KIND_MASK != ASYNC:
            assert spans[parent]["t0"] <= row["t0"] and row["t1"] <= spans[parent]["t1"], name
        if number in spans:
            assert last_end.get(parent, 0) <= int(row["t0"])
            last_end[parent] = int(row["t1"])


def test_c(bare_runtime, compiler):
    bare_runtime.execute(compiler(DATA / "example.c", "-std=c99", "-Wpedantic"))
    with bare_runtime.ring() as ring:
        (main, rows), (worker, more) = threads(ring)
        assert ring.meta["backend"] == "example" and ring.ended_ns > 0
        assert ring.names[2] == reader.Name("prove", "constraints", "", True, True)
        assert reader.Name("msm.h", "points", "scale", False, False) in ring.names
    flow = (1 << 24) + 3  # slot 0, where 3 is the next id
    assert (main.name, worker.slot) == ("main", 1)
    assert rows == [
        ("queue", COUNTER, 0, 2, 2, 0, 0, 0),
        ("handover", FLOW, 0, 2, 2, 0, 0, 0),
        ("msm.h", SPAN, 2, 1, 1, F64_A1, 1, bits(0.0)),
        ("queue", COUNTER, 0, 4, 2, 0, -1, 0),
        ("msm.h", SPAN | ERR, 4, 1, 1, F64_A1, 2, bits(0.5)),
        ("load", COUNTER, 0, 1, 1, F64, bits(0.25), 0),
        ("ready", INSTANT, 0, 1, 1, 0, 7, 8),
        ("job", ASYNC, 5, 1, 0, 0, 0, 0),
        ("job", ASYNC | ERR, 6, 5, 0, 0, 1, 0),
        ("prove", SPAN, 1, 0, 0, FAULTS, 1024, 0),
    ]
    assert more == [
        ("handover", FLOW, 0, 1, 1, 0, 1, 0),
        ("msm.h.window", SPAN, 1, 0, 0, 0, 0, 0),
        ("msm.h.window", SPAN, 2, 0, 0, 0, 1, 0),
        ("msm.h.window", SPAN, 3, 0, 0, 0, 2, 0),
    ]
    with bare_runtime.ring() as ring:
        flows, faults = set(), None
        for _, part in ring.poll().records:
            flows |= set(part["corr"][part["kind"] == FLOW].tolist())
            for row in part[part["track"] & FAULTS != 0]:
                faults = int(row["minflt"]), int(row["majflt"])
        assert flows == {flow}
        assert faults is not None and faults[0] in range(100, 110) and faults[1] == 3


@pytest.mark.parametrize("standard", ["c++11", "c++14", "c++17", "c++20"])
def test_cpp(bare_runtime, compiler, standard):
    bare_runtime.execute(
        compiler(DATA / "example.cpp", f"-std={standard}", "-Wshadow", "-Wconversion", language="c++")
    )
    with bare_runtime.ring() as ring:
        main, *workers = threads(ring)
        names = [name.text for name in ring.names]
    assert set(names) == {"", "<overflow>", "prove", "msm.a", "fails", "work"}
    assert main[1] == [
        ("msm.a", SPAN, 2, 1, 1, F64_A1, 0, bits(0.0)),
        ("msm.a", SPAN, 3, 1, 1, F64_A1, 1, bits(0.25)),
        ("msm.a", SPAN, 4, 1, 1, F64_A1, 2, bits(0.5)),
        ("fails", SPAN | ERR, 6, 5, 2, 0, 0, 0),
        ("msm.a", SPAN | ERR, 5, 1, 1, 0, -1, 0),
        ("msm.a", SPAN, 7, 1, 1, 0, -2, 0),
        ("prove", SPAN, 1, 0, 0, 0, 4096, 0),
    ]
    assert sorted(rows[1][6] for _, rows in workers) == [0, 1, 2, 3]
    for _, ((*inner,), (*outer,)) in workers:
        assert outer == ["work", SPAN, 1, 0, 0, 0, outer[6], 0]
        assert inner == ["msm.a", SPAN, 2, 1, 1, F64_A1, 10 + outer[6], bits(2.5)]


def test_rust(bare_runtime, compiler, tmp_path):
    rustc = shutil.which("rustc")
    if rustc is None:
        pytest.skip("no Rust compiler")
    compiled = compiler(DATA / "trace_ffi.c", "-c")
    subprocess.run(["ar", "crs", tmp_path / "libtrace_ffi.a", compiled], check=True)
    program = tmp_path / "example"
    subprocess.run(
        [rustc, "-O", "-L", tmp_path, "-l", "static=trace_ffi", DATA / "example.rs", "-o", program],
        check=True,
    )
    bare_runtime.execute(program)
    with bare_runtime.ring() as ring:
        main, *workers = threads(ring)
        assert ring.names[2] == reader.Name("synthesis", "partition", "", False, False)
    assert main[1] == [
        ("synthesis.witness", SPAN, 2, 1, 1, 0, 10, -10),
        ("synthesis.witness", SPAN, 3, 1, 1, 0, 20, -20),
        ("synthesis.witness", SPAN, 4, 1, 1, 0, 30, -30),
        ("synthesis", SPAN, 1, 0, 0, 0, 1, 0),
    ]
    assert sorted(row for _, rows in workers for row in rows) == [
        ("synthesis", SPAN, 1, 0, 0, 0, 100, 0),
        ("synthesis", SPAN, 1, 0, 0, 0, 101, 0),
        ("synthesis", SPAN | ERR, 1, 0, 0, 0, 102, 0),
    ]


TABLES = {
    "header": (layout.HEADER, None),
    "anchor": (layout.ANCHOR, layout.ANCHOR_BYTES),
    "named": (layout.NAME, layout.NAME_BYTES),
    "slot": (layout.SLOT, layout.SLOT_BYTES),
    "thread": (layout.THREAD, layout.THREAD_BYTES),
    "open": (layout.OPEN, layout.OPEN_BYTES),
    "record": (layout.RECORD, layout.RECORD_BYTES),
}
# Two fields that C moves as one word; and the codes' widths.
WORDS = {("slot", "depth"): "depth_id", ("slot", "next_id"): None}
WIDTHS = {"B": 1, "H": 2, "I": 4, "Q": 8, "q": 8, "8s": 8, "16s": 16}


def test_offsets_are_those_of_the_layout(compiler):
    lines, expected = [], []
    for struct_name, (fields, size) in TABLES.items():
        for field, offset, code in fields:
            name = WORDS.get((struct_name, field), field)
            if name is not None:
                kind = f"struct cuzk_trace__{struct_name}"
                lines.append(f"offsetof({kind}, {name}), sizeof((({kind} *)0)->{name}),")
                expected += [offset, 8 if name == "depth_id" else WIDTHS[code]]
        if size is not None:
            lines.append(f"sizeof(struct cuzk_trace__{struct_name}),")
            expected.append(size)
    program = compiler(
        '#include "cuzk_trace.h"\nint main(void)\n{\n    static const size_t values[] = {'
        + " ".join(lines)
        + "0};\n    for (size_t i = 0; i + 1 < sizeof values / sizeof *values; i++)\n"
        '        printf("%zu\\n", values[i]);\n}\n'
    )
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert list(map(int, printed.split())) == expected


# Where the two languages say the same differently.
CONSTANTS = {
    "MAJOR": layout.VERSION_MAJOR,
    "MINOR": layout.VERSION_MINOR,
    "SPAN": layout.KIND_SPAN,
    "ASYNC": layout.KIND_ASYNC,
    "INSTANT": layout.KIND_INSTANT,
    "COUNTER": layout.KIND_COUNTER,
    "FLOW": layout.KIND_FLOW,
    "ERR": layout.KIND_ERR,
    "F64": layout.TRACK_F64,
    "F64_A1": layout.TRACK_F64_A1,
    "FAULTS_VALID": layout.TRACK_FAULTS,
    "UNBALANCED": layout.TRACK_UNBALANCED,
}


def test_constants_are_those_of_the_layout():
    text = Path(cuzk_tracer.header(), "cuzk_trace.h").read_text()
    found = dict(re.findall(r"CUZK_TRACE__([A-Z0-9_]+) = (0x[0-9A-F]+|\d+)", text))
    found |= dict(re.findall(r"#define CUZK_TRACE__([A-Z0-9_]+) (0x[0-9A-Fa-f]+|\d+)u?\s", text))
    values = {name: int(value, 0) for name, value in found.items()}
    for name, value in CONSTANTS.items():
        assert values.pop(name) == value, name
    sizes = {
        name: values.pop(name)
        for name in ("MAIN_RECORDS", "THREAD_RECORDS", "WIDE_RECORDS", "WIDE_SLOTS", "SLOTS", "NAMES",
                     "METAS", "ANCHORS", "STRING_BYTES", "LONGEST_STRING", "REST_NS")
    }  # fmt: skip
    from cuzk_tracer import new_ring, ringfile

    ours = vars(new_ring) | vars(ringfile)
    assert sizes == {name: ours[name] for name in sizes}
    assert (values.pop("VOID"), values.pop("ACTIVE")) == (0x8000_0000, 0x4000_0000), "the header's own"
    assert len(values) > 10
    for name, value in values.items():
        assert getattr(layout, name) == value, name
    stages = re.search(r"CUZK_TRACE_STAGE = (\d+).*?CUZK_TRACE_FAULTS = (\d+)", text, re.S)
    assert stages and [int(n) for n in stages.groups()] == [layout.NAME_STAGE, layout.NAME_FAULTS]
    assert (layout.LEVEL_OFF, layout.LEVEL_COARSE, layout.LEVEL_ALL) == (0, 1, 2)
    assert "CUZK_TRACE_OFF = 0, CUZK_TRACE_COARSE = 1, CUZK_TRACE_ALL = 2" in text
    assert np.dtype(reader.RECORD).itemsize == 64
