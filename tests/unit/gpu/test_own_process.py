"""`cuzk_tracer.gpu` in a Python program: kernels and waits have the spans that called for them as parents."""

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
    if early == "driver":  # as it does in a program under `cuzk-top run`, which need not start it
        problem = None if ctypes.CDLL(gpu.library()).InitializeInjection() else "not begun"
    elif early:
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
            stub.stub_slow_launch(ctypes.c_char_p(b"in_outer"))
        launch(b"not_asked")
        with inner, gpu.launches():
            launch(b"in_inner")
    def work():
        with cuzk_tracer.span("worker"), gpu.launches():
            launch(b"in_worker")
    thread = threading.Thread(target=work); thread.start(); thread.join()
    with gpu.launches():
        launch(b"no_span")
    with outer, gpu.launches():
        stub.stub_wait(3, 14)
        stub.stub_wait(1, 14)
    stub.stub_wait(4, 14)
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
    waits = {}
    for thread, rows in poll.records:
        for row in rows:
            if row["kind"] == 13:
                key = ((int(row["track"]) & 0x7FF) - 1, int(row["parent"]))
                name = ring.names[int(row["name"])]
                took = int(row["t1"]) - int(row["t0"])
                if name.text.startswith("sync.cu"):  # others may have been held up by this machine
                    if took < 50_000_000:
                        continue
                    assert took < 1_000_000_000
                waits[name.text] = [names.get(key) if key[1] else None, name.a0, int(row["a0"])]
    said = {"problem": problem, "found": found, "waits": waits, "writer": cuzk_tracer.writer()}
    print(json.dumps(said))
"""


def run(runs: Runs, **env: str) -> dict[str, Any]:
    done = runs.run(sys.executable, "-c", textwrap.dedent(PROGRAM), STUB_CUPTI_EACH="50", **env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("early", ["", "1", "driver"])
@pytest.mark.parametrize("writer", ["native", "python"])
def test_kernels_and_waits_have_the_spans_that_called_for_them(runs: Runs, early: str, writer: str) -> None:
    said = run(runs, **({"EARLY": early} if early else {}), CUZK_TRACER=writer)
    if said["writer"] != writer:
        pytest.skip("the C extension was not built")
    assert said["problem"] is None
    assert said["found"] == {
        "before": None, "in_outer": "outer", "not_asked": None, "in_inner": "inner", "in_worker": "worker",
        "no_span": None,
    }  # fmt: skip
    # the spans that waited; of a stream which one, which CUPTI does not tell of the others
    assert said["waits"] == {
        "sync.stream": ["outer", "stream", 14], "sync.event": ["outer", "", 0], "sync.context": [None, "", 0],
        "sync.cuLaunchKernel": ["outer", "", 0],
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


def test_a_cupti_without_some_kinds_of_records_is_still_the_source(runs: Runs) -> None:
    """Else a prover would time its kernels itself, and they would be there twice."""
    said = run(runs, STUB_CUPTI_FAIL="ActivityEnable:7:2")
    assert said["problem"] is None
    assert len(said["found"]) == 6
