"""Kernels are compiled once for the same sources, and again when anything that went in changes."""

import json
import stat
import subprocess
from pathlib import Path

import pytest

from cuzk_kernels.backend import gpu_build, gpu_device
from cuzk_kernels.backend.gpu_blocks import Pool
from cuzk_kernels.backend.gpu_kernels import UNITS, unit_source
from cuzk_kernels.errors import MissingError

NVCC = """#!/usr/bin/env python3
import sys
args = sys.argv[1:]
if args == ["--version"]:
    print("Cuda compilation tools, release 13.0, V13.0.88")
elif args == ["--list-gpu-code"]:
    print("sm_80\\nsm_90")
elif args == ["--list-gpu-arch"]:
    print("compute_80\\ncompute_90\\ncompute_121")
elif "-M" in args:
    source = args[-1]
    print("points.o : " + source + " \\\\\\n " + source.rsplit("/", 1)[0] + "/ptx.cuh /usr/include/stdio.h")
else:
    open(args[args.index("-o") + 1], "w").write(" ".join(args))
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder of sources, a cache and a compiler that notes how it was called."""
    sources = tmp_path / "cuda"
    sources.mkdir()
    for name in ("points.cu", "scalars.cu", "ptx.cuh", "other.cuh"):
        (sources / name).write_text(name)
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(NVCC.replace("\\\\", "\\"))
    nvcc.chmod(nvcc.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(gpu_build, "SOURCES", sources)
    monkeypatch.setenv("CUZK_NVCC", str(nvcc))
    monkeypatch.setenv("CUZK_KERNEL_CACHE", str(tmp_path / "cache"))
    return sources


def test_the_second_build_is_reused(tools):
    first = gpu_build.build("bn254-g1", (9, 0))
    assert not first.reused
    assert first.why == "none are cached"
    again = gpu_build.build("bn254-g1", (9, 0))
    assert again.reused
    assert (again.path, again.fingerprint) == (first.path, first.fingerprint)
    command = first.path.read_text()
    assert f'-DCUZK_FINGERPRINT="{first.fingerprint}"' in command
    assert "-DCUZK_CURVE=Bn254 -DCUZK_GROUP=1" in command
    assert "-cubin -arch=sm_90" in command


@pytest.mark.parametrize(
    ("changed", "rebuilt"),
    [("points.cu", True), ("ptx.cuh", True), ("other.cuh", False), ("scalars.cu", False)],
)
def test_what_the_compiler_read_decides(tools, changed, rebuilt):
    first = gpu_build.build("bn254-g1", (9, 0))
    (tools / changed).write_text("changed")
    again = gpu_build.build("bn254-g1", (9, 0))
    assert again.reused is not rebuilt
    assert (again.fingerprint != first.fingerprint) is rebuilt
    assert again.why == ("the sources changed" if rebuilt else "")


def test_units_and_targets_are_apart(tools):
    built = [gpu_build.build(u, c) for u in ("bn254-g1", "bls12381-g1") for c in ((8, 0), (9, 0))]
    assert len({b.fingerprint for b in built}) == 4
    assert len({b.path for b in built}) == 4


def test_a_newer_device_gets_ptx(tools):
    command = gpu_build.build("bn254-g1", (12, 0)).path.read_text()
    assert "-ptx -arch=compute_90" in command


def test_a_device_older_than_all_code_is_refused(tools):
    with pytest.raises(MissingError, match=r"makes no code that sm_50 runs"):
        gpu_build.build("bn254-g1", (5, 0))


REAL_NVCC = gpu_build.find_nvcc()


@pytest.mark.slow
@pytest.mark.skipif(REAL_NVCC is None, reason="no nvcc")
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("target", ["sm_80", "compute_90"])
def test_every_unit_compiles_for_other_targets(tmp_path, unit, target):
    """Machine code for Ampere, and PTX that its assembler takes, as a driver would for a newer GPU."""
    source, definitions = unit_source(unit)
    mode = ["-cubin", f"-arch={target}"] if target.startswith("sm_") else ["-ptx", f"-arch={target}"]
    out = tmp_path / "kernels"
    command = [REAL_NVCC, *gpu_build.FLAGS, *definitions, '-DCUZK_FINGERPRINT="x"', *mode]
    subprocess.run([*command, "-o", str(out), str(gpu_build.SOURCES / source)], check=True)
    assert out.stat().st_size > 0
    if target.startswith("compute_"):
        text = out.read_text()
        assert f".target sm_{target.removeprefix('compute_')}" in text
        if unit == "bn254-g1":  # the quickest to assemble
            ptxas = Path(REAL_NVCC).resolve().with_name("ptxas")
            whole = tmp_path / "kernels.ptx"
            out.replace(whole)
            subprocess.run([str(ptxas), "-arch=sm_90", str(whole), "-o", str(out)], check=True)


def test_a_cached_build_needs_no_compiler(tools, monkeypatch):
    first = gpu_build.build("bn254-g1", (9, 0))
    monkeypatch.setattr(gpu_build, "find_nvcc", lambda: None)
    assert gpu_build.build("bn254-g1", (9, 0)).fingerprint == first.fingerprint
    with pytest.raises(MissingError, match=r"none are cached.*nvcc is missing"):
        gpu_build.build("bn254-g2", (9, 0))


def test_another_compiler_version_compiles_again(tools):
    gpu_build.build("bn254-g1", (9, 0))
    path = gpu_build.cache_directory() / "bn254-g1-sm_90.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "compiler": "12.4.0"}))
    assert gpu_build.build("bn254-g1", (9, 0)).why == "the compiler is now 13.0.88"


def test_a_pool_gives_released_blocks_again_and_says_when_it_is_full():
    room = {"left": 8 << 20}
    taken = iter(range(1 << 20, 1 << 40, 1 << 30))

    def allocate(size):
        if size > room["left"]:
            return None
        room["left"] -= size
        return next(taken)

    pool = Pool(
        allocate, lambda address: room.__setitem__("left", room["left"] + (4 << 20)), lambda: "2 MiB free"
    )
    block = pool.take(4 << 20)
    address = block.address
    block.release()
    assert pool.take(4 << 20).address == address
    with pytest.raises(MissingError, match=r"out of GPU memory: 16 MiB.*2 MiB free"):
        pool.take(16 << 20)


def test_without_a_driver_or_pycuda_the_line_says_what_to_do():
    try:
        gpu_device.count()
    except MissingError as error:
        assert "PyCUDA is not installed" in str(error) or "driver" in str(error)


def test_sources_say_what_they_would_make_now(tools):
    built = gpu_build.build("bn254-g1", (9, 0))
    sources = gpu_build.Sources(built.record)
    assert sources.fingerprint() == built.fingerprint
    (tools / "ptx.cuh").write_text("edited")
    assert sources.fingerprint() == gpu_build.build("bn254-g1", (9, 0)).fingerprint != built.fingerprint
    (tools / "other.cuh").write_text("not among its sources")
    assert sources.fingerprint() != built.fingerprint
    (tools / "ptx.cuh").write_text("ptx.cuh")  # as it was
    assert sources.fingerprint() == built.fingerprint
    (tools / "ptx.cuh").unlink()
    assert sources.fingerprint() == "gone"


def test_a_device_tells_its_kernels_once_and_again_when_their_sources_change(tools, monkeypatch):
    said = []
    monkeypatch.setattr(gpu_device.cuzk_tracer, "meta", lambda **values: said.append(values))
    built = gpu_build.build("bn254-g1", (9, 0))
    device = gpu_device.Device.__new__(gpu_device.Device)
    device.fingerprints, device._told = {"bn254-g1": built.fingerprint}, {}
    device._sources = {"bn254-g1": gpu_build.Sources(built.record)}
    device.tell_kernels()
    device.tell_kernels()
    (tools / "points.cu").write_text("pulled")
    device.tell_kernels()
    loaded = [values["kernels.fingerprint.bn254-g1"] for values in said]
    sources = [values["kernels.sources.bn254-g1"] for values in said]
    assert loaded == [built.fingerprint, built.fingerprint]
    assert sources[0] == built.fingerprint != sources[1]
