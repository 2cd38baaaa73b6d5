"""`cuzk_tracer.gpu` in a Python program: its kernels have the spans that launched them as parents."""

import json
import sys
import textwrap
from typing import Any

import pytest
from gpu_cases import Runs

PROGRAM = """
    import ctypes, json, os, sys, threading
    from cuzk_tracer import gpu
    gpu.library = lambda: os.environ["CUDA_INJECTION64_PATH"]
    early = os.environ.get("EARLY")
    if early:
        problem = gpu.start()
    import cuzk_tracer
    outer, inner = cuzk_tracer.span("outer"), cuzk_tracer.span("inner")
    if not early:
        with outer:
            pass
        problem = gpu.start()
    stub = ctypes.CDLL(os.environ["CUZK_CUPTI"])
    def launch(name):
        stub.stub_launch(ctypes.c_char_p(name))
    launch(b"before")
    with outer:
        with gpu.launches():
            launch(b"in_outer")
        launch(b"not_asked")
        with inner, gpu.launches():
            launch(b"in_inner")
    def work():
        with cuzk_tracer.span("worker"), gpu.launches():
            launch(b"in_worker")
    thread = threading.Thread(target=work); thread.start(); thread.join()
    with gpu.launches():
        launch(b"no_span")
    for _ in range(5):
        gpu.flush()
    from cuzk_tracer import reader
    ring = reader.Ring(cuzk_tracer.ring_path())
    poll = ring.poll()
    names = {}
    for thread, rows in poll.records:
        for row in rows:
            if row["kind"] == 1:
                names[thread.slot, int(row["id"])] = ring.names[int(row["name"])].text
    found = {}
    for thread, rows in poll.records:
        for row in rows:
            if row["kind"] == 5:
                key = ((int(row["track"]) & 0x7FF) - 1, int(row["parent"]))
                found[ring.names[int(row["name"])].text] = names.get(key) if key[1] else None
    print(json.dumps({"problem": problem, "found": found, "writer": cuzk_tracer.writer()}))
"""


def run(runs: Runs, **env: str) -> dict[str, Any]:
    done = runs.run(sys.executable, "-c", textwrap.dedent(PROGRAM), STUB_CUPTI_EACH="50", **env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("early", ["", "1"])
@pytest.mark.parametrize("writer", ["native", "python"])
def test_kernels_have_the_spans_that_launched_them(runs: Runs, early: str, writer: str) -> None:
    said = run(runs, **({"EARLY": early} if early else {}), CUZK_TRACER=writer)
    if said["writer"] != writer:
        pytest.skip("the C extension was not built")
    assert said["problem"] is None
    assert said["found"] == {
        "before": None, "in_outer": "outer", "not_asked": None, "in_inner": "inner", "in_worker": "worker",
        "no_span": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "said"),
    [("STUB", "CUDA_INJECTION64_PATH is set to {}"), ("/nowhere/tool.so", "cannot open shared object file")],
)
def test_a_tool_that_the_driver_is_to_load_is_left_alone(runs: Runs, path: str, said: str) -> None:
    path = path.replace("STUB", str(runs.bench.stub))  # any library that is not a capture of ours
    program = "from cuzk_tracer import gpu; print(gpu.start())"
    done = runs.run(sys.executable, "-c", program, CUDA_INJECTION64_PATH=path)
    assert done.returncode == 0, done.stderr
    assert said.format(path) in done.stdout
    assert runs.calls() == []


def test_the_capture_that_the_driver_is_to_load_is_the_one_that_starts(runs: Runs) -> None:
    """So a prover with a capture library of its own is not recorded twice."""
    program = """
        from cuzk_tracer import gpu
        gpu.library = lambda: "/nowhere/capture.so"
        print(gpu.start(), gpu.start())
    """
    done = runs.run(sys.executable, "-c", textwrap.dedent(program))
    assert done.stdout.split() == ["None", "None"]
    assert runs.calls().count("Subscribe") == 1
