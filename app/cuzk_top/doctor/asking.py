"""Questions to drivers, each in a process of its own: one that hangs or crashes takes nothing with it.

``python -m cuzk_top.doctor.asking nvml|cuda|cupti`` prints one JSON object: what was found, or ``error``.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

Answer = dict[str, Any]

CU_ATTRIBUTE_MAJOR, CU_ATTRIBUTE_MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR (cuda.h)."""


def ask(deadline_s: float) -> dict[str, Answer]:
    """All answers by question. One that did not come in time has ``silent``, the seconds waited."""
    until = time.monotonic() + deadline_s
    with tempfile.TemporaryDirectory(prefix="cuzk-top-") as folder:  # for the ring of the question for CUPTI
        environment = {**os.environ, "XDG_RUNTIME_DIR": folder, "CUZK_TRACE": "all"}
        asked = {
            name: subprocess.Popen(
                [sys.executable, "-m", "cuzk_top.doctor.asking", name],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                start_new_session=True,
            )
            for name in QUESTIONS
        }
        return {name: _answer(process, until, deadline_s) for name, process in asked.items()}


GRACE_S = 0.5
"""To fetch what has been answered by the deadline while another question was waited for."""


def _answer(process: subprocess.Popen[str], until: float, deadline_s: float) -> Answer:
    try:
        out, err = process.communicate(timeout=max(GRACE_S, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()  # in vain while a driver holds it: it is left behind
        return {"silent": deadline_s}
    try:
        answer = json.loads(out.splitlines()[-1])
    except (ValueError, IndexError):
        code = process.returncode
        last = err.strip().splitlines()[-1] if err.strip() else "without a word"
        said = f"{signal.Signals(-code).name}" if code < 0 else last
        return {"error": f"asking for it ended with {said}"}
    return answer if isinstance(answer, dict) else {"error": "no answer"}


def nvml() -> Answer:
    """``names`` of the GPUs, ``driver``, ``cuda`` (the newest version that it can run, such as 13000)."""
    from cuzk_top.probes.nvml import reason  # noqa: PLC0415

    try:
        import pynvml  # noqa: PLC0415

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        found: Answer = {"names": [_text(pynvml.nvmlDeviceGetName(handle)) for handle in handles]}
    except Exception as error:
        return {"error": reason(error)}
    for key, call in (
        ("driver", pynvml.nvmlSystemGetDriverVersion),
        ("cuda", pynvml.nvmlSystemGetCudaDriverVersion),
    ):
        try:
            value = call()
        except pynvml.NVMLError:
            continue
        found[key] = value if isinstance(value, int) else _text(value)
    return found


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def cuda() -> Answer:
    """``version`` of libcuda, ``init`` (what cuInit returned), ``capabilities`` of the devices.

    And PyCUDA: its version as ``pycuda``, or ``pycuda_error``.
    """
    found: Answer = {}
    try:
        library = ctypes.CDLL("libcuda.so.1")
        number = ctypes.c_int()
        library.cuDriverGetVersion(ctypes.byref(number))
        found["version"] = number.value
        found["init"] = library.cuInit(0)
        if not found["init"]:
            found["capabilities"] = _capabilities(library)
    except (OSError, AttributeError) as error:
        found["error"] = str(error)
    try:
        import pycuda  # noqa: PLC0415

        found["pycuda"] = pycuda.VERSION_TEXT
    except Exception as error:
        found["pycuda_error"] = str(error)
    return found


def _capabilities(library: ctypes.CDLL) -> list[list[int]]:
    count = ctypes.c_int()
    library.cuDeviceGetCount(ctypes.byref(count))
    found = []
    for index in range(count.value):
        device, value, pair = ctypes.c_int(), ctypes.c_int(), []
        library.cuDeviceGet(ctypes.byref(device), index)
        for attribute in (CU_ATTRIBUTE_MAJOR, CU_ATTRIBUTE_MINOR):
            library.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
            pair.append(value.value)
        found.append(pair)
    return found


def cupti() -> Answer:
    """Begins to capture as a prover would: ``file`` and ``version`` of the libcupti that it used."""
    import cuzk_tracer  # noqa: PLC0415
    from cuzk_tracer import gpu  # noqa: PLC0415

    if gpu.library() is None:
        return {"error": "the capture library was not built", "built": False}
    cuzk_tracer.open()
    why = gpu.start()
    found: Answer = {} if why is None else {"error": why}
    for line in Path("/proc/self/maps").read_text("utf-8", "replace").splitlines():
        if "libcupti.so" in line:
            found["file"] = line[line.index("/") :]
            version = ctypes.c_uint32()
            ctypes.CDLL(found["file"]).cuptiGetVersion(ctypes.byref(version))
            found["version"] = version.value
            break
    return found


QUESTIONS = {"nvml": nvml, "cuda": cuda, "cupti": cupti}


if __name__ == "__main__":
    print(json.dumps(QUESTIONS[sys.argv[1]]()), flush=True)
    os._exit(0)  # what the libraries do at the end is of no interest
