"""The CUDA back end in processes of its own: refusals, each triggered for real, and the launch modes.

Where there is no GPU, a stand-in for PyCUDA shows the refusals that come before anything is launched.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cuda_cases import require_gpu

from cuzk_kernels import circuits, groth16, keygen, verify
from cuzk_kernels.backend import native
from cuzk_kernels.backend.native import NativeBackend
from cuzk_kernels.curves import BN254

ROOT = Path(__file__).resolve().parents[3]
BLINDING = 1234567, 7654321
TIMEOUT_S = 300

pytestmark = pytest.mark.skipif(native.available() is not None, reason="the host's part is native")

HOLD = """
from cuzk_kernels.backend import gpu_device
device = gpu_device.Device(0)
held, size = [], 1 << 38
while size >= 4 << 20:
    address = device._allocate(size)
    if address is None:
        size >>= 1
    else:
        held.append(address)
"""
"""All memory of the GPU but a few MiB."""

SPIN = """
from cuzk_kernels import curves
from cuzk_kernels.backend import CudaOptions, choose
backend = choose("cuda", CudaOptions(memory=0))[0]
vector = backend.vector(curves.BN254, bytes(32 << 20))
def work():
    for _ in range(50):
        backend.intt(vector)
        backend.ntt(vector)
    backend.device.synchronize()
work()
"""

BAD_ADDRESS = """
from cuzk_kernels.backend import gpu_device
launch = gpu_device.Device.launch
def with_bad_points(self, unit, name, grid, block, *arguments, **named):
    if name == "accumulate":
        arguments = (0x1000, *arguments[1:])
    launch(self, unit, name, grid, block, *arguments, **named)
gpu_device.Device.launch = with_bad_points
"""

NO_NVCC = """
from cuzk_kernels.backend import gpu_build
gpu_build.find_nvcc = lambda: None
"""

PROVE = """
import sys
from cuzk_kernels import runner
sys.exit(runner.main(sys.argv[1:]))
"""


@pytest.fixture
def gpu():
    require_gpu()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Files of a chain whose key takes 37 MB."""
    folder = tmp_path_factory.mktemp("chain")
    rounds = circuits.chain_rounds_in(1 << 16)
    host = NativeBackend()
    keygen.make_key(host, circuits.chain_matrices(BN254, rounds), folder / "k.zkey", folder / "v.json")
    circuits.chain_witness(folder / "w.wtns", BN254, rounds)
    return SimpleNamespace(key=folder / "k.zkey", witness=folder / "w.wtns", vkey=folder / "v.json")


@pytest.fixture
def outputs(tmp_path):
    return tmp_path / "proof.json", tmp_path / "public.json"


def environment(*first, **changes):
    """Our packages for a process anywhere, behind the folders of `first`."""
    places = [*first, *(ROOT / part for part in ("app", "tracer", "kernels"))]
    places += [Path(place).resolve() for place in os.environ.get("PYTHONPATH", "").split(":") if place]
    return {**os.environ, "PYTHONPATH": ":".join(map(str, places)), **changes}


def cli(made, outputs, tmp_path, *options, env=None):
    """`cuzk-top prove --backend cuda`."""
    proof, public = outputs
    return subprocess.run(
        [
            sys.executable, "-m", "cuzk_top.cli", "prove", made.key, made.witness, "-o", proof,
            "--public", public, "--backend", "cuda", "--trace", tmp_path / "t.cuzk", *options,
        ],
        env=env or environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def refused(done, outputs):
    """Its one line; exit code 3 and no file of the outputs are required."""
    lines = done.stderr.splitlines()
    assert done.returncode == 3, done.stdout + done.stderr
    assert len(lines) == 1 and lines[0].startswith("cuzk-top: "), done.stderr
    assert not any(path.exists() for path in outputs)
    return lines[0].removeprefix("cuzk-top: ")


def prepared(preparation, made, outputs, **changes):
    """The prover's process with something done first; its events by name, the last of each."""
    proof, public = outputs
    done = subprocess.run(
        [
            sys.executable, "-c", preparation + PROVE, "--backend", "cuda", "prove", made.key, made.witness,
            "--proof", proof, "--public", public,
        ],
        env=environment(**changes), capture_output=True, text=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode != 0, done.stdout
    assert not any(path.exists() for path in outputs)
    events = {event["event"]: event for event in map(json.loads, done.stdout.splitlines())}
    assert "error" in events, done.stderr
    assert events["error"]["exit"] == 3 and "proof" not in events
    assert "\n" not in events["error"]["text"]
    return events["error"]["text"]


@pytest.fixture
def beside():
    """A function: start a program and wait for its first line; ended with the test."""
    started = []

    def start(code):
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment(), stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline().strip() == "ready"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def stand_in(tmp_path, driver):
    """A folder with a package `pycuda` whose module `driver` is this code."""
    package = tmp_path / "stand-in" / "pycuda"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "driver.py").write_text(driver)
    return package.parent


ONE_GPU = """
class Error(Exception): pass
def init(): pass
class Device:
    count = staticmethod(lambda: {count})
"""


@pytest.mark.parametrize(
    ("driver", "options", "line"),
    [
        ("raise ImportError('blocked')", (), "PyCUDA is not installed (blocked): install it with: pip"),
        (
            "raise ImportError('libcuda.so.1: cannot open shared object file')",
            (),
            "no NVIDIA driver: libcuda.so.1 cannot be loaded",
        ),
        (
            "class Error(Exception): pass\ndef init(): raise Error('no CUDA-capable device is detected')",
            (),
            "the NVIDIA driver does not start: no CUDA-capable device",
        ),
        (ONE_GPU.format(count=0), (), "no NVIDIA GPU on this machine"),
        (ONE_GPU.format(count=1), ("--device", "7"), "there is no GPU 7: this machine has 1"),
        (ONE_GPU.format(count=1), ("--device", "1"), "there is no GPU 1: this machine has 1"),
    ],
    ids=["PyCUDA", "libcuda", "init", "no GPU", "7 of 1", "1 of 1"],
)
def test_refusals_before_anything_runs(made, outputs, tmp_path, driver, options, line):
    env = environment(stand_in(tmp_path, driver))
    told = refused(cli(made, outputs, tmp_path, *options, env=env), outputs)
    assert told.startswith(line), told


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["", "-1"])
def test_no_visible_gpu(gpu, made, outputs, tmp_path, device):
    env = environment(CUDA_VISIBLE_DEVICES=device)
    told = refused(cli(made, outputs, tmp_path, env=env), outputs)
    assert "no CUDA-capable device" in told or "no NVIDIA GPU" in told


@pytest.mark.gpu
def test_a_gpu_that_is_not_there(gpu, made, outputs, tmp_path):
    assert "there is no GPU 63" in refused(cli(made, outputs, tmp_path, "--device", "63"), outputs)


@pytest.mark.gpu
def test_pycuda_absent_on_a_machine_with_a_gpu(gpu, made, outputs, tmp_path):
    """Asked for, it is refused; by default the host proves and says why."""
    env = environment(stand_in(tmp_path, "raise ImportError('blocked')"))
    assert "PyCUDA is not installed" in refused(cli(made, outputs, tmp_path, env=env), outputs)
    done = cli(made, outputs, tmp_path, "--backend", "auto", env=env)
    assert done.returncode == 0, done.stderr
    assert "proving on the CPU: PyCUDA is not installed" in done.stdout + done.stderr


@pytest.mark.gpu
def test_nvcc_absent_with_nothing_in_the_cache(gpu, made, outputs, tmp_path):
    told = prepared(NO_NVCC, made, outputs, CUZK_KERNEL_CACHE=str(tmp_path / "empty"))
    assert "nvcc is missing: install the CUDA toolkit" in told


@pytest.mark.gpu
def test_too_little_memory(gpu, made, outputs):
    told = prepared(HOLD, made, outputs)
    assert "memory" in told, told


@pytest.mark.gpu
def test_memory_held_by_another_process(gpu, made, outputs, tmp_path, beside):
    beside(HOLD + "print('ready', flush=True)\nimport time\ntime.sleep(600)")
    told = refused(cli(made, outputs, tmp_path), outputs)
    assert "memory" in told, told


@pytest.mark.gpu
def test_a_gpu_that_another_process_computes_on(gpu, made, outputs, tmp_path, beside):
    other = beside(SPIN + "print('ready', flush=True)\nwhile True: work()")
    done = cli(made, outputs, tmp_path)
    assert done.returncode == 0, done.stderr
    proof, public = outputs
    assert verify(made.vkey, public, proof)
    assert other.poll() is None


@pytest.mark.gpu
@pytest.mark.parametrize("blocking", ["0", "1"])
def test_an_illegal_address_names_its_stage(gpu, made, outputs, blocking):
    """With blocking launches the first sum meets it; otherwise a stage soon after may."""
    told = prepared(BAD_ADDRESS, made, outputs, CUDA_LAUNCH_BLOCKING=blocking)
    assert told.startswith("msm.h: " if blocking == "1" else "msm."), told
    assert "700" in told or "illegal" in told, told


@pytest.mark.gpu
def test_launch_modes_give_the_same_proof(gpu, made, tmp_path):
    """With launches that wait and launches that do not: byte for byte, and point for point the host's."""
    code = (
        "import sys; from cuzk_kernels import formats, groth16; from cuzk_kernels.backend import choose\n"
        "backend = choose('cuda')[0]\n"
        f"result = groth16.prove(sys.argv[1], sys.argv[2], backend=backend, test_only_blinding={BLINDING})\n"
        "formats.write_result(sys.argv[3], sys.argv[4], result)\n"
    )
    written = []
    for mode in "01":
        paths = tmp_path / f"proof{mode}.json", tmp_path / f"public{mode}.json"
        subprocess.run(
            [sys.executable, "-c", code, made.key, made.witness, *paths],
            env=environment(CUDA_LAUNCH_BLOCKING=mode), check=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        written.append([path.read_bytes() for path in paths])
    assert written[0] == written[1]
    theirs = groth16.prove(made.key, made.witness, backend=NativeBackend(), test_only_blinding=BLINDING)
    read = json.loads(written[0][0])
    assert [int(value) for value in read["pi_a"][:2]] == list(theirs.proof.a)
    assert [int(value) for value in read["pi_c"][:2]] == list(theirs.proof.c)


@pytest.mark.gpu
def test_the_command_proves_on_the_gpu(gpu, made, outputs, tmp_path):
    done = cli(made, outputs, tmp_path, "--repeat", "3")
    assert done.returncode == 0, done.stderr
    proof, public = outputs
    assert verify(made.vkey, public, proof)
