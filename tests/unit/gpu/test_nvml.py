"""The NVML probe through the real Python binding and a stub libnvidia-ml: rates, hangs, a GPU that is lost."""
# ruff: noqa: E501

import json
import os
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from gpu_cases import DATA

WATCH = """
    import json, sys, time
    import numpy as np
    from cuzk_top.probes.nvml import NvmlProbe
    probe = NvmlProbe(time.monotonic_ns)
    seconds, values, starts, marks, problems = float(sys.argv[1]), {}, {}, [], []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.05)
        before = time.monotonic()
        batch = probe.poll()
        assert time.monotonic() - before < 0.5
        columns = batch.columns
        for i in range(len(columns)):
            name = batch.session.names[int(columns.name[i])].text
            if columns.kind[i] == 3:
                marks.append(name)
            else:
                values.setdefault(name, []).append(float(columns.a0.view(np.float64)[i]))
                starts.setdefault(name, []).append((int(columns.start_ns[i]), int(columns.end_ns[i])))
        problems += [p for p in batch.problems if p not in problems]
    meta = dict(batch.session.meta)
    begin = time.monotonic()
    probe.close()
    json.dump({"values": values, "spans": starts, "marks": marks, "problems": problems, "meta": meta,
               "closed": time.monotonic() - begin}, sys.stdout)
    sys.stdout.flush()
    import os; os._exit(0)
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", str(DATA / "stub_nvml.c"), "-o", str(library)], check=True)
    return folder


def watch(stub: Path, seconds: float, **env: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(WATCH), str(seconds)],
        capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"LD_LIBRARY_PATH": str(stub)} | env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_everything_a_gpu_tells(stub: Path) -> None:
    seen = watch(stub, 1.5, STUB_NVML_PID=str(os.getpid()))
    values = seen["values"]
    counters = ("util", "memory", "power", "clock", "pcie_in", "pcie_out", "temperature")
    assert set(values) == {f"gpu.{gpu}.{counter}" for gpu in (0, 1) for counter in counters}
    assert set(values["gpu.0.util"]) == {41.0}
    assert set(values["gpu.1.util"]) == {42.0}
    assert set(values["gpu.1.memory"]) == {2.0}
    assert set(values["gpu.0.power"]) == {123.456}
    assert set(values["gpu.0.clock"]) == {1755.0}
    assert set(values["gpu.0.temperature"]) == {61.0}
    assert all(3.5 < rate < 6.5 for rate in values["gpu.0.pcie_in"])
    assert all(1.4 < rate < 2.6 for rate in values["gpu.0.pcie_out"])
    assert len(values["gpu.0.temperature"]) <= 2 < len(values["gpu.0.memory"])  # each at its own rate
    meta = seen["meta"]
    assert (meta["gpu.0.name"], meta["gpu.1.name"]) == ("Stub 0", "Stub 1")
    assert (meta["top.gpu.0.memory"], meta["top.gpu.1.power"], meta["top.gpu.0.clock"]) == (
        "8.0",
        "700.0",
        "1980.0",
    )
    # Generation 4: 16 GT/s, 128 of 130 bits are data: 1.969 GB/s a lane. Nothing is said of one nobody knows.
    assert float(meta["top.gpu.0.pcie_in"]) == pytest.approx(8 * 16 * 128 / 130 / 8, rel=1e-3)
    assert "top.gpu.1.pcie_in" not in meta
    assert meta["gpu.0.processes"].startswith(f"{os.getpid()} ")
    assert meta["gpu.0.processes"].endswith(" 3.0 GiB")
    assert meta["gpu.1.throttle"] == "power cap, hardware thermal limit"
    assert seen["marks"] == ["GPU 1 throttled: power cap, hardware thermal limit"]
    assert not [key for key in meta if key.startswith("missing.")]
    for spans in seen["spans"].values():  # one sample begins where the last ended
        assert all(a[1] == b[0] for a, b in pairwise(spans))


def test_a_call_that_hangs_is_named_and_the_other_gpu_goes_on(stub: Path) -> None:
    seen = watch(stub, 3.2, STUB_NVML_HANG="power:1")
    assert len(seen["problems"]) >= 1
    assert seen["problems"][0].startswith("NVML has been silent for ")
    assert seen["problems"][0].endswith(" s: GPU figures are old (asked for power of GPU 1)")
    assert len(seen["values"]["gpu.0.memory"]) > 8
    assert "gpu.1.power" not in seen["values"]
    assert seen["closed"] < 2


def test_a_gpu_that_is_lost_is_said_and_the_other_goes_on(stub: Path) -> None:
    seen = watch(stub, 3.0, STUB_NVML_LOST="1:3")
    assert seen["problems"] == ["GPU 1 fell off the bus"]
    assert "GPU 1 fell off the bus" in seen["marks"]
    assert len(seen["values"]["gpu.1.util"]) == 3
    assert seen["meta"]["missing.gpu.1.util"] == "the GPU fell off the bus"
    assert len(seen["values"]["gpu.0.memory"]) > 5


@pytest.mark.parametrize(
    ("call", "counter"), [("power", "power"), ("temperature", "temperature"), ("fields", "pcie_in")]
)
def test_what_a_card_does_not_tell_has_no_row(stub: Path, call: str, counter: str) -> None:
    seen = watch(stub, 0.6, STUB_NVML_FAIL=f"{call}:3")
    assert f"gpu.0.{counter}" not in seen["values"]
    assert f"missing.gpu.0.{counter}" not in seen["meta"]
    assert "gpu.0.util" in seen["values"]


def test_utilisation_under_mig_says_why(stub: Path) -> None:
    seen = watch(stub, 0.6, STUB_NVML_FAIL="utilisation:3")
    assert seen["meta"]["missing.gpu.0.util"] == "NVML: Not Supported"


def test_a_driver_that_hangs_at_the_start(stub: Path) -> None:
    seen = watch(stub, 0.4, STUB_NVML_FAIL="init:9")
    assert seen["meta"]["missing.gpu.0.util"] == "the NVIDIA driver is not loaded"
