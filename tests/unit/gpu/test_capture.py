"""The capture library against a stub libcupti: what it records, and that programs go on whatever happens."""
# ruff: noqa: E501

import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_cases import Runs, capture, stub_file

from cuzk_tracer import gpu, layout, reader

KINDS = {
    "kernel": layout.KIND_GPU_KERNEL,
    "memcpy": layout.KIND_GPU_MEMCPY,
    "memset": layout.KIND_GPU_MEMSET,
    "overhead": layout.KIND_OVERHEAD,
    "sync": layout.KIND_GPU_SYNC,
}


def everything(ring: reader.Ring) -> tuple[np.ndarray[Any, Any], reader.Poll]:
    poll = ring.poll()
    rows = [rows for _, rows in poll.records]
    return (np.concatenate(rows) if rows else np.empty(0, reader.RECORD)), poll


@pytest.mark.parametrize("name", ["sppark-g1", "icicle", "torch"])
@pytest.mark.parametrize("version", [130001, 130401, 18, 28])
def test_every_record_of_a_capture_arrives(runs: Runs, tmp_path: Path, name: str, version: int) -> None:
    records = capture(name)
    stub_file(tmp_path / "records", records, version)
    done = runs.driver(150, STUB_CUPTI_FILE=str(tmp_path / "records"))
    assert (done.returncode, done.stdout) == (5, "done\n")
    (ring,) = runs.rings()
    rows, poll = everything(ring)
    assert (poll.lost, poll.alive) == (0, False)
    assert ring.ended_ns
    base = min(record["start"] for record in records)
    seen = sorted(zip(rows["t0"].tolist(), rows["t1"].tolist(), rows["kind"].tolist(), strict=True))
    shift = seen[0][0]
    assert [(s - shift, e - shift, k) for s, e, k in seen] == sorted(
        (record["start"] - base, record["end"] - base, KINDS[record["kind"]]) for record in records
    )
    kernels = rows[rows["kind"] == layout.KIND_GPU_KERNEL]
    assert Counter(ring.names[n].text for n in kernels["name"]) == Counter(
        record["name"] for record in records if record["kind"] == "kernel"
    )
    assert Counter(zip((kernels["majflt"] & 0xFFFF).tolist(), kernels["minflt"].tolist(), kernels["corr"].tolist(), strict=True)) == Counter(
        (record["device"], record["stream"], record["corr"]) for record in records if record["kind"] == "kernel"
    )  # fmt: skip
    assert sorted(zip(kernels["a0"].tolist(), kernels["a1"].tolist(), strict=True)) == sorted(
        (int(np.prod(record["grid"])), int(np.prod(record["block"])))
        for record in records
        if record["kind"] == "kernel"
    )


def test_copies_say_bytes_and_what_memory(runs: Runs, tmp_path: Path) -> None:
    records = capture("sppark-g1")
    stub_file(tmp_path / "records", records)
    runs.driver(100, STUB_CUPTI_FILE=str(tmp_path / "records"))
    (ring,) = runs.rings()
    rows, _ = everything(ring)
    copies = rows[rows["kind"] == layout.KIND_GPU_MEMCPY]
    moved: Counter[str] = Counter()
    for row in copies:
        moved[ring.names[int(row["name"])].text] += int(row["a0"])
    words = {1: "h2d", 2: "d2h", 8: "d2d"}
    memory = {1: ".pageable", 2: ".pinned", 3: ""}
    expected: Counter[str] = Counter()
    for record in records:
        if record["kind"] == "memcpy":
            host = record["src"] if record["copy"] == 1 else record["dst"]
            expected[f"memcpy.{words[record['copy']]}{memory[host]}"] += record["bytes"]
    assert moved == expected
    assert moved["memcpy.h2d.pageable"] == 534_773_760  # the manifest's figure


def test_the_clock_is_registered_once_and_before_the_kinds(runs: Runs, tmp_path: Path) -> None:
    stub_file(tmp_path / "records", capture("torch"))
    runs.driver(100, STUB_CUPTI_FILE=str(tmp_path / "records"))
    calls = runs.calls()
    assert calls.count("ActivityRegisterTimestampCallback") == 1
    assert calls.count("Subscribe") == 1
    assert calls.index("ActivityRegisterTimestampCallback") < calls.index("ActivityEnable")
    assert "EnableCallback" not in calls, "a program that asks for no parents does not pay for them"


def test_records_come_while_the_program_runs(runs: Runs, tmp_path: Path) -> None:
    import subprocess

    stub_file(tmp_path / "records", capture("torch"))
    env = runs.env | {"STUB_CUPTI_FILE": str(tmp_path / "records")}
    with subprocess.Popen([runs.bench.driver, "20000"], env=env, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 15
            count = 0
            ring = None
            while count < 63 and time.monotonic() < deadline:
                time.sleep(0.02)
                if ring is None and (found := runs.rings()):
                    ring = found[0]
                if ring is not None:
                    count += len(everything(ring)[0])
            assert count == 63
            assert process.poll() is None
        finally:
            process.kill()


def test_dormant_until_the_enabled_word_says_so(runs: Runs, tmp_path: Path) -> None:
    import subprocess

    stub_file(tmp_path / "records", capture("torch"))
    env = runs.env | {"STUB_CUPTI_FILE": str(tmp_path / "records"), "CUZK_TRACE": "off"}
    with subprocess.Popen([runs.bench.driver, "20000"], env=env, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 15
            while not (runs.rings() and "ActivityDisable" in runs.calls()) and time.monotonic() < deadline:
                time.sleep(0.02)
            (ring,) = runs.rings()
            ring.poll()
            before = ring.written()
            with Path(ring.path).open("r+b") as file:
                file.seek(116)  # layout.HEADER: enabled
                assert int.from_bytes(file.read(4), "little") == layout.LEVEL_OFF
                file.seek(116)
                file.write(layout.LEVEL_ALL.to_bytes(4, "little"))
            while ring.written() <= before and time.monotonic() < deadline:
                time.sleep(0.02)
            assert ring.written() > before
        finally:
            process.kill()


def test_kernels_are_not_stages_so_coarse_leaves_them_out(runs: Runs, tmp_path: Path) -> None:
    import subprocess

    stub_file(tmp_path / "records", capture("torch"))
    env = runs.env | {"STUB_CUPTI_FILE": str(tmp_path / "records"), "CUZK_TRACE": "coarse"}
    with subprocess.Popen([runs.bench.driver, "20000"], env=env, stdout=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 15
            while not (runs.rings() and "ActivityDisable" in runs.calls()) and time.monotonic() < deadline:
                time.sleep(0.02)
            time.sleep(0.2)
            (ring,) = runs.rings()
            assert len(everything(ring)[0]) == 0
            assert ring.meta["gpu.paused"] == 'kernels and copies are recorded at detail "all"'
            with Path(ring.path).open("r+b") as file:
                file.seek(116)  # layout.HEADER: enabled
                assert int.from_bytes(file.read(4), "little") == layout.LEVEL_COARSE
                file.seek(116)
                file.write(layout.LEVEL_ALL.to_bytes(4, "little"))
            count = 0
            while count == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
                count = len(everything(ring)[0])
            assert count > 0
            assert ring.meta["gpu.paused"] == ""
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"CUZK_CUPTI": "/nowhere/libcupti.so.13"}, "libcupti.so was not found: install the CUDA toolkit's CUPTI"),
        ({"STUB_CUPTI_VERSION": "140000"}, "reads libcupti of CUDA 12 and 13"),
        ({"STUB_CUPTI_VERSION": "17"}, "reads libcupti of CUDA 12 and 13"),
        ({"STUB_CUPTI_FAIL": "Subscribe:39"}, "another profiler is attached to this process"),
        ({"STUB_CUPTI_FAIL": "Subscribe:12"}, "another profiler is attached to this process"),
        ({"STUB_CUPTI_FAIL": "Subscribe:35"}, "CUPTI refuses: STUB_ERROR_35"),
        ({"STUB_CUPTI_FAIL": "ActivityRegisterTimestampCallback:7"}, "CUPTI takes no clock: STUB_ERROR_7"),
        ({"STUB_CUPTI_FAIL": "ActivityRegisterCallbacks:7"}, "CUPTI takes no buffers: STUB_ERROR_7"),
        ({"STUB_CUPTI_FAIL": "ActivityEnable:7"}, "kind 10 is not recorded: STUB_ERROR_7"),
    ],
)  # fmt: skip
def test_what_is_lacking_is_said_and_the_program_goes_on(runs: Runs, env: dict[str, str], said: str) -> None:
    done = runs.driver(50, **env)
    assert (done.returncode, done.stdout, done.stderr) == (5, "done\n", "")
    (ring,) = runs.rings()
    rows, _ = everything(ring)
    assert len(rows) == 0
    assert said in ring.meta["gpu.problem"]


def test_a_library_without_a_function_is_said(runs: Runs, tmp_path: Path) -> None:
    import subprocess

    subprocess.run(
        ["cc", "-shared", "-x", "c", "/dev/null", "-o", str(tmp_path / "libcupti.so.13")], check=True
    )
    done = runs.driver(50, CUZK_CUPTI=str(tmp_path / "libcupti.so.13"))
    assert done.returncode == 5
    (ring,) = runs.rings()
    ring.poll()
    assert "libcupti lacks the function: cuptiGetVersion" in ring.meta["gpu.problem"]


def test_a_device_that_vanishes_leaves_what_came_before(runs: Runs, tmp_path: Path) -> None:
    stub_file(tmp_path / "records", capture("torch"))
    done = runs.driver(
        400,
        STUB_CUPTI_FILE=str(tmp_path / "records"),
        STUB_CUPTI_FAIL="ActivityFlushAll:999:3",
        STUB_CUPTI_EACH="10",
    )
    assert done.returncode == 5
    (ring,) = runs.rings()
    rows, _ = everything(ring)
    assert len(rows) == 20


def test_slow_calls_do_not_hold_up_the_program(runs: Runs, tmp_path: Path) -> None:
    stub_file(tmp_path / "records", capture("torch"))
    done = runs.driver(10, STUB_CUPTI_FILE=str(tmp_path / "records"), STUB_CUPTI_SLOW="ActivityFlushAll:300")
    assert (done.returncode, done.stdout) == (5, "done\n")
    (ring,) = runs.rings()
    assert len(everything(ring)[0]) == 63  # the end waits for the last of it


def test_dropped_records_are_counted(runs: Runs, tmp_path: Path) -> None:
    stub_file(tmp_path / "records", capture("torch"))
    runs.driver(100, STUB_CUPTI_FILE=str(tmp_path / "records"), STUB_CUPTI_DROPPED="41")
    (ring,) = runs.rings()
    assert everything(ring)[1].lost == 41


@pytest.mark.parametrize(("how", "code"), [("crash", -signal.SIGSEGV), ("kill", -signal.SIGKILL)])
def test_what_was_delivered_outlives_a_crash(runs: Runs, tmp_path: Path, how: str, code: int) -> None:
    stub_file(tmp_path / "records", capture("torch"))
    done = runs.driver(700, how, STUB_CUPTI_FILE=str(tmp_path / "records"))
    assert done.returncode == code
    (ring,) = runs.rings()
    rows, poll = everything(ring)
    assert (len(rows), poll.lost, ring.ended_ns) == (63, 0, 0)


def test_a_fork_before_cuda_gives_each_process_its_own_session(runs: Runs, tmp_path: Path) -> None:
    stub_file(tmp_path / "records", capture("torch"))
    done = runs.driver(300, "fork", STUB_CUPTI_FILE=str(tmp_path / "records"))
    assert done.returncode == 7
    rings = runs.rings()
    assert len(rings) == 2
    assert [len(everything(ring)[0]) for ring in rings] == [63, 63]


def test_a_fork_after_cuda_leaves_cupti_to_the_parent(runs: Runs, tmp_path: Path) -> None:
    stub_file(tmp_path / "records", capture("torch"))
    done = runs.driver(300, "fork-after", STUB_CUPTI_FILE=str(tmp_path / "records"))
    assert (done.returncode, done.stdout) == (5, "done\n")
    assert sum(len(everything(ring)[0]) for ring in runs.rings()) == 63


def test_an_exec_begins_a_new_session(runs: Runs, tmp_path: Path) -> None:
    stub_file(tmp_path / "records", capture("torch"))
    done = runs.driver(300, "exec", STUB_CUPTI_FILE=str(tmp_path / "records"))
    assert (done.returncode, done.stdout) == (5, "done\n")
    (ring,) = runs.rings()  # the first one's file is replaced: same process, same name
    assert len(everything(ring)[0]) == 63


def test_a_program_without_cuda_has_no_ring(runs: Runs) -> None:
    assert runs.driver(10, "never").returncode == 5
    assert runs.rings() == []
    assert runs.calls() == []


def test_the_environment_leaves_other_tools_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "library", lambda: "/lib/capture.so")
    monkeypatch.setattr(gpu, "cupti_files", lambda: ["/a/libcupti.so.13", "/b/libcupti.so.12"])
    added, problem = gpu.environment({})
    assert added == {
        "CUDA_INJECTION64_PATH": "/lib/capture.so",
        "NVTX_INJECTION64_PATH": "/lib/capture.so",
        "CUZK_CUPTI": "/a/libcupti.so.13:/b/libcupti.so.12",
    }
    assert problem is None
    added, problem = gpu.environment({"CUDA_INJECTION64_PATH": "/nsys.so"})
    assert added == {"NVTX_INJECTION64_PATH": "/lib/capture.so"}
    assert problem == "kernels and copies are not recorded: CUDA_INJECTION64_PATH is set to /nsys.so"
    monkeypatch.setattr(gpu, "library", lambda: None)
    assert gpu.environment({})[1] is not None


def test_libcupti_of_wheels_is_found_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "nvidia/cuda_cupti/lib/libcupti.so.12"
    new = tmp_path / "nvidia/cu13/lib/libcupti.so.13"
    for path in (old, new):
        path.parent.mkdir(parents=True)
        path.touch()
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert gpu.cupti_files() == [str(new), str(old)]
