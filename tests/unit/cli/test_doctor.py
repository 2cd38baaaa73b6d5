"""What the doctor says of a machine: with stub drivers, ones that hang or crash, and with things missing."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_cases import DATA, Command

from cuzk_top import doctor
from cuzk_top.doctor import gpu, host
from cuzk_top.doctor.asking import ask

NEEDS_CC = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
NO_ANSWERS = {
    "nvml": {"error": "no NVIDIA driver: libnvidia-ml.so.1 not found"},
    "cuda": {"error": "libcuda.so.1: cannot open shared object file", "pycuda_error": "No module"},
    "cupti": {"error": "libcupti.so was not found"},
}


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stubs")
    for source, library in (
        ("stub_nvml.c", "libnvidia-ml.so.1"),
        ("stub_cuda.c", "libcuda.so.1"),
        ("stub_cupti.c", "libcupti.so.13"),
    ):
        command = [
            "cc",
            "-shared",
            "-fPIC",
            "-w",
            "-pthread",
            str(DATA / "gpu" / source),
            "-o",
            str(folder / library),
        ]
        subprocess.run(command, check=True)
    return folder


def by_key(done: "subprocess.CompletedProcess[str]") -> dict[str, dict[str, object]]:
    content = json.loads(done.stdout)
    assert content["schema"] == "cuzk-top.doctor/1" and content["exit"] == done.returncode
    return {check["key"]: check for check in content["checks"]}


def test_a_machine_without_a_gpu_is_fine_for_the_cpu(cuzk_top: Command) -> None:
    done = cuzk_top("doctor", "--json")
    assert done.returncode == 0 and done.stderr == ""
    found = by_key(done)
    assert len(found) == 17
    for check in found.values():
        assert check["state"] in ("ok", "limited", "missing")
        assert check["found"] and "\n" not in "".join(map(str, check.values()))
        assert not check["cost"] and not check["remedy"] if check["state"] == "ok" else True
    assert found["host.pairing"]["state"] == "ok" and found["host.pairing"]["needed"] is True
    text = cuzk_top("doctor")
    assert text.returncode == 0 and text.stdout.endswith("proofs can be made here\n")
    titles = [line[9:29].rstrip() for line in text.stdout.splitlines() if line[:1] in ("o", "l", "m")]
    assert titles == [check["title"] for check in found.values()]
    assert len(text.stdout.splitlines()) <= 60, "one screen"


@NEEDS_CC
def test_stub_drivers(cuzk_top: Command, stubs: Path) -> None:
    done = cuzk_top(
        "doctor",
        "--json",
        LD_LIBRARY_PATH=str(stubs),
        CUZK_CUPTI=str(stubs / "libcupti.so.13"),
        STUB_CUDA_GPUS="2",
    )
    found = by_key(done)
    assert found["gpu.driver"]["state"] == "ok" and "1 x Stub 0, 1 x Stub 1" in str(
        found["gpu.driver"]["found"]
    )
    assert (found["gpu.libcuda"]["state"], found["gpu.libcuda"]["found"]) == ("ok", "CUDA 13.1, sm_90")
    assert found["gpu.cupti"]["state"] == "ok", found["gpu.cupti"]
    assert str(found["gpu.cupti"]["found"]).startswith(f"{stubs}/libcupti.so.13, 13.0")


@NEEDS_CC
@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"STUB_NVML_HANG": "init:-1"}, "nvml", {"silent": 3.0}),
        ({"STUB_CUDA_INIT": "hang"}, "cuda", {"silent": 3.0}),
        ({"STUB_CUDA_INIT": "crash"}, "cuda", {"error": "asking for it ended with SIGABRT"}),
        ({"STUB_NVML_FAIL": "init:9"}, "nvml", {"error": "the NVIDIA driver is not loaded"}),
    ],
)
def test_drivers_that_hang_or_crash(
    stubs: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], key: str, says: dict[str, object]
) -> None:
    for name, value in {"LD_LIBRARY_PATH": str(stubs), **changes}.items():
        monkeypatch.setenv(name, value)
    answers = ask(3.0)
    assert answers[key] == says
    others = {"nvml": "names", "cuda": "version"}.items()
    assert all(field in answers[other] for other, field in others if other != key)


def checked(answers: dict[str, dict[str, object]], root: Path) -> dict[str, doctor.Check]:
    return {check.key: check for check in gpu.checks({**NO_ANSWERS, **answers}, root)}


def card(root: Path, vendor: str = "0x10de", kind: str = "0x030200") -> None:
    folder = root / "sys/bus/pci/devices/0000:01:00.0"
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")


def test_without_a_card_nothing_is_to_be_done(tmp_path: Path) -> None:
    card(tmp_path, vendor="0x8086")
    found = checked({}, tmp_path)
    assert found["gpu.driver"].found == "no NVIDIA GPU in this machine"
    for key in ("gpu.libcuda", "gpu.cupti", "gpu.pycuda"):
        assert (found[key].state, found[key].remedy) == ("missing", ""), key
        assert found[key].cost == "nothing, as long as there is no GPU"


def test_a_card_without_a_driver(tmp_path: Path) -> None:
    card(tmp_path)
    found = checked({}, tmp_path)
    assert (
        found["gpu.driver"].state == "missing"
        and "1 NVIDIA cards, but no NVIDIA driver" in found["gpu.driver"].found
    )
    assert "install the driver" in found["gpu.driver"].remedy
    for key in ("gpu.libcuda", "gpu.cupti", "gpu.pycuda"):
        assert found[key].state == "missing" and found[key].remedy, key


@pytest.mark.parametrize(
    ("code", "words", "remedy"),
    [
        (803, "of different versions", "reboot"),
        (802, "NVLink fabric", "nvidia-fabricmanager"),
        (100, "no device", "CUDA_VISIBLE_DEVICES"),
        (777, "error 777", "dmesg"),
    ],
)
def test_what_cuinit_says(tmp_path: Path, code: int, words: str, remedy: str) -> None:
    card(tmp_path)
    check = checked({"cuda": {"version": 12080, "init": code}}, tmp_path)["gpu.libcuda"]
    assert check.state == "limited" and words in check.found and check.found.startswith("CUDA 12.8, ")
    assert remedy in check.remedy


def test_a_driver_that_does_not_answer(tmp_path: Path) -> None:
    silent = {"silent": 15.0}
    found = checked({"nvml": silent, "cuda": silent, "cupti": silent}, tmp_path)
    for key in ("gpu.driver", "gpu.libcuda", "gpu.cupti"):
        assert found[key].state == "limited" and "within 15 s" in found[key].found and found[key].remedy


def test_cupti_that_another_profiler_has(tmp_path: Path) -> None:
    card(tmp_path)
    taken = {"file": "/x/libcupti.so.12", "version": 26, "error": "CUPTI refuses: MULTIPLE_SUBSCRIBERS"}
    check = checked({"cupti": taken}, tmp_path)["gpu.cupti"]
    assert (
        check.state == "limited"
        and check.found == "/x/libcupti.so.12, API 26: CUPTI refuses: MULTIPLE_SUBSCRIBERS"
    )
    assert "end the other profiler" in check.remedy


@pytest.mark.parametrize(
    ("params", "user", "state"),
    [
        ("RmProfilingAdminOnly: 1\n", 1000, "limited"),
        ("Other: 1\nRmProfilingAdminOnly: 1\n", 0, "ok"),
        ("RmProfilingAdminOnly: 0\n", 1000, "ok"),
        ("Other: 1\n", 1000, "ok"),
        (None, 1000, "missing"),
    ],
)
def test_who_may_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, params: str | None, user: int, state: str
) -> None:
    if params is not None:
        (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
        (tmp_path / "proc/driver/nvidia/params").write_text(params)
    monkeypatch.setattr(os, "geteuid", lambda: user)
    check = checked({}, tmp_path)["gpu.profiling"]
    assert check.state == state
    assert ("NVreg_RestrictProfilingToAdminUsers=0" in check.remedy) == (state == "limited")


def test_nvcc_and_what_is_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUZK_KERNEL_CACHE", str(tmp_path))
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.41'\n")
    nvcc.chmod(0o755)
    (tmp_path / "points-sm_90.json").write_text("{")
    (tmp_path / "scalars-sm_90.json").write_text(
        '{"sources": ["gone.cu"], "flags": [], "compiler": "1", "target": "t"}'
    )
    monkeypatch.setenv("CUZK_NVCC", str(nvcc))
    check = checked({}, tmp_path)["gpu.nvcc"]
    assert check.state == "ok" and f"{nvcc} 12.9.41" in check.found
    assert "(points-sm_90: its record is damaged; scalars-sm_90: a source is gone)" in check.found
    monkeypatch.setenv("CUZK_NVCC", str(tmp_path / "none"))
    assert checked({}, tmp_path)["gpu.nvcc"].state == "missing"


def test_without_pairings_nothing_can_be_proved(cuzk_top: Command, tmp_path: Path) -> None:
    for name in ("zksnake", "py_arkworks_bls12381", "py_ecc"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not for this machine')\n")
    done = cuzk_top("doctor", "--json", PYTHONPATH=str(tmp_path))
    assert done.returncode == 3
    check = by_key(done)["host.pairing"]
    assert check["state"] == "missing" and "not for this machine" in str(check["found"]) and check["remedy"]
    text = cuzk_top("doctor", PYTHONPATH=str(tmp_path))
    assert text.returncode == 3
    assert text.stdout.endswith("proofs cannot be made here: pairing libraries\n")
    (tmp_path / "py_ecc.py").unlink()
    slow = by_key(cuzk_top("doctor", "--json", PYTHONPATH=str(tmp_path)))["host.pairing"]
    assert slow["state"] == "limited" and "a second more a proof" in str(slow["cost"])


def test_a_missing_host_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuzk_kernels.backend import native_library

    monkeypatch.setattr(native_library, "available", lambda: "the native library is not built")
    check = host._host_library()
    assert (
        check.state == "missing"
        and "pure Python" in check.cost
        and "g++" in check.remedy
        and not check.needed
    )


@pytest.mark.parametrize(
    ("env", "state", "words"),
    [
        ({"COLORTERM": "truecolor", "TERM": "xterm", "LANG": "C.UTF-8"}, "ok", "24-bit colour, UTF-8"),
        ({"TERM": "xterm-256color", "LANG": "C.UTF-8"}, "limited", "256 colours, UTF-8"),
        ({"COLORTERM": "truecolor", "TERM": "xterm", "LANG": "C"}, "limited", "24-bit colour, ASCII only"),
        ({"NO_COLOR": "1", "TERM": "xterm", "LANG": "C.UTF-8"}, "ok", "no colours, UTF-8"),
        ({"TERM": "linux", "LANG": "C.UTF-8"}, "limited", "16 colours, ASCII only"),
    ],
)
def test_the_terminal(env: dict[str, str], state: str, words: str) -> None:
    check = host._terminal(env)
    assert check.state == state and check.found.startswith(words)
    assert bool(check.remedy) == (state == "limited")


def test_a_small_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "fileno", lambda: 1, raising=False)
    monkeypatch.setattr(os, "get_terminal_size", lambda fd: os.terminal_size((59, 40)))
    check = host._terminal({"COLORTERM": "truecolor", "TERM": "xterm", "LANG": "C.UTF-8"})
    assert check.state == "limited" and "59x40" in check.found and "60x16" in check.remedy


def test_places_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(host.places, "folders", lambda: [str(blocked / "cuzk")])
    check = host._ring_folder()
    assert check.state == "missing" and "Not a directory" in check.found and check.remedy
    check = host._traces_folder({"XDG_STATE_HOME": str(blocked)})
    assert check.state == "missing" and check.remedy
    monkeypatch.setattr(host.places, "folders", lambda: [str(blocked / "cuzk"), str(tmp_path / "cuzk")])
    assert host._ring_folder().state == "ok", "the second will do"
    monkeypatch.setattr(host, "_free", lambda folder: 5 << 20)
    check = host._ring_folder()
    assert check.state == "limited" and "only 5 MiB free" in check.found
    assert host._traces_folder({"XDG_STATE_HOME": str(tmp_path)}).state == "limited"
    assert not (tmp_path / "cuzk-top").exists(), "looking makes no folders"


@pytest.mark.parametrize(
    ("limit", "state", "words"),
    [(8 << 20, "limited", "at most 8 MiB"), (resource.RLIM_INFINITY, "ok", "no limit")],
)
def test_locked_memory(monkeypatch: pytest.MonkeyPatch, limit: int, state: str, words: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    check = host._memlock()
    assert check.state == state and words in check.found


def test_other_users_and_permissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proc/sys/kernel/yama").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/yama/ptrace_scope").write_text("1\n")
    (tmp_path / "proc/mounts").write_text("proc /proc proc rw,hidepid=invisible,gid=27 0 0\n")
    assert (
        host._events(tmp_path).found == "ptrace_scope 1, perf_event_paranoid not set: cuzk-top needs neither"
    )
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    check = host._others(tmp_path)
    assert check.state == "limited" and "hidepid=invisible" in check.found and "gid 27" in check.remedy
    (tmp_path / "proc/mounts").write_text("proc /proc proc rw 0 0\n")
    check = host._others(tmp_path)
    assert check.state == "limited" and "sudo" in check.remedy
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert host._others(tmp_path).state == "ok"
