"""Checks of all that a GPU needs: driver, CUDA, CUPTI, PyCUDA, nvcc and who may profile."""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

from cuzk_top.doctor import Check
from cuzk_top.doctor.asking import Answer

NVIDIA_VENDOR, DISPLAY_CLASS = "0x10de", "0x03"
NO_GPU = "nothing, as long as there is no GPU"
CPU_ONLY = "proofs are made on the CPU, and nothing is seen of GPUs"
SEE_XID = "sudo dmesg | grep -i xid   then reboot"
CU_ERRORS = {
    100: ("no device can be used", "CUDA_VISIBLE_DEVICES may hide them: unset CUDA_VISIBLE_DEVICES"),
    3: ("it could not start", "see: sudo dmesg | grep -i nvrm"),
    34: (
        "the stub library of the toolkit was loaded",
        "take the toolkit's stubs folder out of LD_LIBRARY_PATH",
    ),
    802: ("the NVLink fabric is not ready", "sudo systemctl restart nvidia-fabricmanager"),
    803: ("libcuda and the kernel's driver are of different versions", "sudo reboot, or reload the driver"),
    804: ("this driver is too old for the CUDA in use", "update the NVIDIA driver"),
    999: ("an unknown error: often after a suspend or a lost GPU", SEE_XID),
}
"""cuInit's codes (CUresult, cuda.h): what they mean, what to do."""


def checks(answers: dict[str, Answer], root: Path = Path("/")) -> list[Check]:
    """All of them. `root` is /, elsewhere in tests."""
    nvml, cuda = answers["nvml"], answers["cuda"]
    there = bool(nvml.get("names")) or bool(cuda.get("capabilities")) or bool(_cards(root))
    return [
        _gpu(nvml, _cards(root)),
        _libcuda(cuda, there),
        _cupti(answers["cupti"], there),
        _pycuda(cuda, there),
        _nvcc(there),
        _profiling(root, there),
    ]


def _cards(root: Path) -> int:
    """NVIDIA GPUs on the PCI bus, whether a driver knows them or not."""
    found = 0
    for device in root.glob("sys/bus/pci/devices/*"):
        try:
            vendor, kind = (device.joinpath(name).read_text().strip() for name in ("vendor", "class"))
        except OSError:
            continue
        found += vendor == NVIDIA_VENDOR and kind.startswith(DISPLAY_CLASS)
    return found


def _version(number: int) -> str:
    """``13.0`` of 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _gpu(nvml: Answer, cards: int) -> Check:
    def check(state: str, found: str, cost: str = "", remedy: str = "") -> Check:
        return Check("gpu.driver", "GPU and driver", state, found, cost, remedy)  # type: ignore[arg-type]

    if "silent" in nvml:
        return check(
            "limited",
            f"NVML does not answer within {nvml['silent']:g} s: the driver hangs",
            "no GPU figures, and proofs on a GPU hang too",
            "sudo dmesg | grep -i xid   then sudo nvidia-smi --gpu-reset, or reboot",
        )
    names: list[str] | None = nvml.get("names")
    if names:
        kinds = ", ".join(f"{count} x {name}" for name, count in Counter(names).items())
        driver = f", driver {nvml['driver']}" if "driver" in nvml else ""
        newest = f" (CUDA {_version(nvml['cuda'])})" if isinstance(nvml.get("cuda"), int) else ""
        return check("ok", f"{kinds}{driver}{newest}")
    if not cards and (names is not None or "driver" in nvml.get("error", "")):
        return check(
            "missing", "no NVIDIA GPU in this machine", CPU_ONLY, "use a machine with one, sm_80 or newer"
        )
    why = nvml.get("error", "NVML knows none")
    remedy = "install the driver: sudo ubuntu-drivers install   (in a container: docker run --gpus all)"
    if "nvidia-ml-py" in why:
        remedy = "pip install nvidia-ml-py"
    return check("missing", f"{cards} NVIDIA cards, but {why}" if cards else why, CPU_ONLY, remedy)


def _libcuda(cuda: Answer, there: bool) -> Check:
    key, title = "gpu.libcuda", "libcuda"
    if "silent" in cuda:
        why = f"cuInit does not return within {cuda['silent']:g} s"
        return Check(
            key, title, "limited", why, "proofs on a GPU hang", "sudo dmesg | grep -i xid; then reboot"
        )
    if "version" not in cuda:
        why = cuda.get("error", "not found")
        remedy = "it comes with the driver; in a container: docker run --gpus all" if there else ""
        return Check(key, title, "missing", why, CPU_ONLY if there else NO_GPU, remedy)
    version = f"CUDA {_version(cuda['version'])}"
    if cuda["init"] == 0:
        small = [f"sm_{major}{minor}" for major, minor in cuda["capabilities"]]
        return Check(key, title, "ok", f"{version}, {', '.join(dict.fromkeys(small)) or 'no device'}")
    meaning, remedy = CU_ERRORS.get(cuda["init"], ("see CUresult in cuda.h", "sudo dmesg | grep -i nvrm"))
    if not there:
        return Check(key, title, "missing", f"{version}, no device", NO_GPU)
    return Check(key, title, "limited", f"{version}, error {cuda['init']}: {meaning}", CPU_ONLY, remedy)


def cupti_version(number: int) -> str:
    """What cuptiGetVersion's number means: up to CUDA 12 an API version, then 10000 * major + 100 * minor."""
    return f"{number // 10_000}.{number % 10_000 // 100}" if number >= 10_000 else f"API {number}"


def _cupti(cupti: Answer, there: bool) -> Check:
    key, title = "gpu.cupti", "CUPTI"
    cost = "no kernels and copies of any program" if there else NO_GPU
    if "silent" in cupti:
        why = f"it does not start within {cupti['silent']:g} s"
        return Check(key, title, "limited", why, cost, SEE_XID)
    where = f"{cupti['file']}, {cupti_version(cupti['version'])}" if cupti.get("version") else ""
    if "error" not in cupti:
        return Check(key, title, "ok", where or "recording starts")
    if cupti.get("built") is False:
        return Check(key, title, "missing", cupti["error"], cost, "see: capture library")
    if where and not there:
        return Check(key, title, "ok", f"{where} (it starts only where a GPU is)")
    if where:
        remedy = "end the other profiler, or install CUPTI of CUDA 12 or 13: pip install nvidia-cuda-cupti"
        return Check(key, title, "limited", f"{where}: {cupti['error']}", cost, remedy)
    return Check(
        key, title, "missing", cupti["error"], cost, "pip install nvidia-cuda-cupti" if there else ""
    )


def _pycuda(cuda: Answer, there: bool) -> Check:
    key, title = "gpu.pycuda", "PyCUDA"
    if "pycuda" in cuda:
        return Check(key, title, "ok", str(cuda["pycuda"]))
    if "silent" in cuda:
        return Check(key, title, "limited", "not known: the driver does not answer")
    cost = "cuzk-top prove --backend cuda; other programs' GPUs are seen all the same" if there else NO_GPU
    remedy = "pip install 'cuzk-top[gpu]'" if there else ""
    return Check(key, title, "missing", cuda.get("pycuda_error", "not installed"), cost, remedy)


def _nvcc(there: bool) -> Check:
    from cuzk_kernels.backend import gpu_build  # noqa: PLC0415 (loads the prover)

    key, title = "gpu.nvcc", "nvcc and kernels"
    cached = gpu_build.cached()
    fresh = [name for name, why in cached if why is None]
    stale = [f"{name}: {why}" for name, why in cached if why is not None]
    kept = f"{len(fresh)} compiled kernels are current" if fresh else "no compiled kernels are kept"
    kept += f" ({'; '.join(stale)})" if stale else ""
    nvcc = gpu_build.find_nvcc()
    version = _nvcc_version(nvcc) if nvcc is not None else None
    if version is not None:
        return Check(key, title, "ok", f"{nvcc} {version}; {kept} in {gpu_build.cache_directory()}")
    why = "not found" if nvcc is None else f"{nvcc} does not run"
    remedy = "install the CUDA toolkit, or set CUZK_NVCC to its nvcc"
    if fresh:
        return Check(key, title, "limited", f"{why}; {kept}", "changed kernels cannot be compiled", remedy)
    if not there:
        return Check(key, title, "missing", f"{why}; {kept}", NO_GPU)
    return Check(key, title, "missing", f"{why}; {kept}", "cuzk-top prove --backend cuda", remedy)


def _nvcc_version(nvcc: str) -> str | None:
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"V(\d+\.\d+\.\d+)", done.stdout)
    return found[1] if found else "of unknown version"


def _profiling(root: Path, there: bool) -> Check:
    """Hardware counters, which `ncu` reads; kernels and copies are recorded without this permission."""
    key, title = "gpu.profiling", "profiling permission"
    try:
        text = root.joinpath("proc/driver/nvidia/params").read_text("utf-8", "replace")
    except OSError:
        return Check(key, title, "missing", "no NVIDIA driver tells", "" if there else NO_GPU)
    admins = re.search(r"^RmProfilingAdminOnly: *(\d)", text, re.MULTILINE)
    if admins is None or admins[1] == "0":
        return Check(key, title, "ok", "every user may read hardware counters")
    if os.geteuid() == 0:
        return Check(key, title, "ok", "administrators only, and this is one")
    return Check(
        key,
        title,
        "limited",
        "hardware counters are for administrators (RmProfilingAdminOnly 1)",
        "ncu on a kernel needs sudo; kernels and copies are recorded all the same",
        "echo options nvidia NVreg_RestrictProfilingToAdminUsers=0 | "
        "sudo tee /etc/modprobe.d/nvidia-profiling.conf; reboot",
    )
