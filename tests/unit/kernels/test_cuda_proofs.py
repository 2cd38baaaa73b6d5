"""Whole proofs by the CUDA back end: everybody's circuits, many at a time, several devices, and faults."""

import gc
import json
import threading
from types import SimpleNamespace

import pytest
from cuda_cases import BOTH, backend_on, emulated, resident_bytes
from kernel_cases import OWN_CASES, case_folders

from cuzk_kernels import circuits, groth16, keygen, verify
from cuzk_kernels.backend import native
from cuzk_kernels.backend.cuda import CudaBackend
from cuzk_kernels.backend.native import NativeBackend
from cuzk_kernels.curves import BLS12_381, BN254
from cuzk_kernels.errors import MissingError
from cuzk_kernels.formats import wtns, zkey

pytestmark = pytest.mark.skipif(native.available() is not None, reason="the host's part is native")

BLINDING = 1234567, 7654321


@pytest.fixture(scope="module", params=BOTH)
def backend(request):
    return backend_on(request.param, request.config)


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    """A function: a chain's open key, its verification key, and as many witnesses as asked for."""
    host = NativeBackend()

    def make(curve, rounds, witnesses=1):
        folder = tmp_path_factory.mktemp("chain")
        keygen.make_key(host, circuits.chain_matrices(curve, rounds), folder / "k.zkey", folder / "v.json")
        paths = [folder / f"{number}.wtns" for number in range(witnesses)]
        for path in paths:
            circuits.chain_witness(path, curve, rounds)
        return SimpleNamespace(key=zkey.open(folder / "k.zkey"), vkey=folder / "v.json", witnesses=paths)

    return make


@pytest.mark.parametrize("folder", case_folders(), ids=lambda folder: folder.name)
def test_every_case_gives_the_hosts_proof(backend, folder):
    """With the same blinding, point for point; `prove` has verified it."""
    key = zkey.open(folder / "circuit.zkey")
    ours, theirs = (
        groth16.prove(key, folder / "witness.wtns", backend=of, test_only_blinding=BLINDING)
        for of in (backend, backend.host)
    )
    assert (ours.proof.a, ours.proof.b, ours.proof.c) == (theirs.proof.a, theirs.proof.b, theirs.proof.c)
    assert [str(value) for value in ours.public] == json.loads((folder / "public.json").read_text())


@pytest.mark.parametrize("curve", [BN254, BLS12_381], ids=lambda curve: curve.name)
def test_four_proofs_at_once(backend, chains, curve):
    """On threads of one process, of one key and four witnesses."""
    made = chains(curve, 50, 4)
    results = [None] * 4
    go = threading.Barrier(4)

    def work(number):
        go.wait()
        results[number] = groth16.prove(made.key, made.witnesses[number], backend=backend)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result, path in zip(results, made.witnesses, strict=True):
        witness = wtns.open(path)
        assert result.public == [witness.value(1), witness.value(2)]
        assert verify(made.vkey, result.public, result.proof)


def test_proof_after_proof_takes_no_more_memory(backend, chains):
    """From the tenth on: nothing on the device, and here less than half a witness a proof."""
    on_gpu = backend.device.name != "emulated"
    rounds, proofs = (5461, 50) if on_gpu else (20, 12)
    made = chains(BN254, rounds)

    def state():
        gc.collect()
        return backend.device.pool.held_bytes, backend.device.memory()[0], backend.first.kept_bytes()

    for number in range(proofs):
        groth16.prove(made.key, made.witnesses[0], backend=backend)
        if number == 9:
            before, resident = state(), resident_bytes()
    assert state() == before
    if on_gpu:
        assert resident_bytes() - resident < 32 * 3 * rounds * (proofs - 10) // 2


@pytest.mark.parametrize("mode", ["pageable", "register", "pool"])
@pytest.mark.parametrize("b_g2", ["cpu", "gpu"])
def test_every_switch_gives_the_same_proof(backend, chains, mode, b_g2):
    made = chains(BN254, 30)
    other = CudaBackend([backend.device], backend.host, h2d=mode, b_g2=b_g2)
    ours, theirs = (
        groth16.prove(made.key, made.witnesses[0], backend=of, test_only_blinding=BLINDING)
        for of in (other, backend.host)
    )
    assert (ours.proof.a, ours.proof.b, ours.proof.c) == (theirs.proof.a, theirs.proof.b, theirs.proof.c)


@pytest.mark.parametrize("count", [2, 3])
def test_several_devices_prove_together(request, chains, count):
    """Every device adds up some of the queries, and the proof is the host's."""
    devices = [emulated(request.config, f"emulated {number}") for number in range(count)]
    several = CudaBackend(devices, NativeBackend())
    made = chains(BLS12_381, 40)
    for _ in range(2):
        ours, theirs = (
            groth16.prove(made.key, made.witnesses[0], backend=of, test_only_blinding=BLINDING)
            for of in (several, several.host)
        )
        assert (ours.proof.a, ours.proof.b, ours.proof.c) == (theirs.proof.a, theirs.proof.b, theirs.proof.c)
    for device in devices:
        assert any(name == "accumulate" for _, name in device.launches)


class FaultyDevice:
    """A device on which a kernel's n-th launch goes wrong; as on a GPU, that shows when someone waits."""

    def __init__(self, device, kernel, number):
        self._device, self._kernel, self._left, self._broken = device, kernel, number, False

    def __getattr__(self, name):
        return getattr(self._device, name)

    def launch(self, unit, name, *arguments, **named):
        if name == self._kernel:
            self._left -= 1
            self._broken |= self._left == 0
        self._device.launch(unit, name, *arguments, **named)

    def finish(self, event):
        if self._broken:
            raise MissingError("GPU 0: the work on the device failed (CUDA error 700); nothing was written")

    def synchronize(self):
        self.finish(None)

    def read(self, source, size):
        self.synchronize()
        return self._device.read(source, size)


@pytest.mark.parametrize(
    ("kernel", "number", "stage"),
    [
        ("check_points", 1, "check.points"),
        ("check_scalars", 1, "synthesis.witness.load"),
        ("place_coefficients", 1, "synthesis.abc.eval"),
        ("accumulate", 1, "msm.l"),  # the sum over H goes on while L's points are copied, which waits
        ("accumulate", 6, "msm.h"),  # in the second proof every point is there
    ],
)
def test_a_fault_names_the_stage_that_met_it(request, chains, kernel, number, stage):
    device = FaultyDevice(emulated(request.config), kernel, number)
    backend, made = CudaBackend([device], NativeBackend()), chains(BN254, 40)
    with pytest.raises(MissingError, match=rf"^{stage}: GPU 0: the work on the device failed"):
        for _ in range(2):
            groth16.prove(made.key, made.witnesses[0], backend=backend)


def test_every_own_case_is_here():
    """The list above is not empty where only our own cases are."""
    assert len(list(OWN_CASES.iterdir())) >= 6
