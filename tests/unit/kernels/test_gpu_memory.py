"""The ways of host data to a device, without one."""

import ctypes
import json
import mmap
import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from emulated_gpu import EmulatedDevice

import cuzk_tracer
from cuzk_kernels import groth16, runner
from cuzk_kernels.backend.cuda import CudaBackend
from cuzk_kernels.backend.gpu_memory import REFUSED, Filler, Stager
from cuzk_kernels.backend.pure import PureBackend

CASE = Path(__file__).parents[2] / "data" / "cases" / "multiplier-bn254"


class Refusing(EmulatedDevice):
    """Page-locks nothing at the addresses it is told of."""

    def __init__(self, folder, refuses=True):
        super().__init__(folder)
        self.refuses = refuses
        self.unregistered = []

    def register(self, address, size):
        return not self.refuses

    def unregister(self, address):
        self.unregistered.append(address)


@pytest.fixture
def metas(monkeypatch):
    said = []
    monkeypatch.setattr(cuzk_tracer, "meta", lambda **values: said.append(values))
    return said


def copied(stager, data):
    block = stager.device.alloc(len(data))
    stager.copy(block.address, data, len(data))
    return stager.device.read(block.address, len(data))


@pytest.mark.parametrize("refuses", [False, True])
def test_a_refused_registration_is_said_once_and_the_copy_is_made(tmp_path, metas, refuses):
    stager = Stager(Refusing(tmp_path, refuses), "register")
    data = bytes(range(256)) * 100
    assert copied(stager, data) == data
    assert copied(stager, data[:77]) == data[:77]
    assert stager.note == (REFUSED if refuses else None)
    assert metas == ([{"h2d.problem": REFUSED}] if refuses else [])
    assert len(stager.device.unregistered) == (0 if refuses else 2)


@pytest.mark.parametrize("mode", ["pool", "pageable"])
def test_other_ways_register_nothing(tmp_path, metas, mode):
    stager = Stager(Refusing(tmp_path), mode)
    assert copied(stager, b"x" * 1000) == b"x" * 1000
    assert (stager.note, metas) == (None, [])


def test_devices_that_say_the_same_are_heard_once(tmp_path):
    backend = CudaBackend([Refusing(tmp_path), Refusing(tmp_path)], PureBackend(), h2d="register")
    assert backend.notes == ()
    for site in backend.sites:
        copied(site.stager, b"y" * 100)
    assert backend.notes == (REFUSED,)


def test_the_prover_process_tells_each_note_once(capsys):
    told = set()
    for number, notes in enumerate([("a",), ("a", "b"), ("a", "b")], 1):
        runner.report_proof(number, 0.0, SimpleNamespace(notes=notes, verifier="v"), told)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [event.get("text", event["event"]) for event in events] == ["a", "proof", "b", "proof", "proof"]


def test_a_proof_comes_with_what_its_back_end_has_to_say():
    backend = PureBackend()
    backend.notes = ("copied slowly",)
    result = groth16.prove(CASE / "circuit.zkey", CASE / "witness.wtns", backend=backend)
    assert result.notes[-1] == "copied slowly"


@pytest.mark.parametrize("size", [1, (2 << 20) - 1, 2 << 20, (5 << 20) + 77])
def test_several_threads_copy_every_byte_and_charge_their_faults(monkeypatch, size):
    charged = []
    monkeypatch.setattr(cuzk_tracer, "add_faults", lambda *faults: charged.append(faults))
    source, target = mmap.mmap(-1, size), mmap.mmap(-1, size)
    source[:] = random.Random(size).randbytes(size)
    addresses = [ctypes.addressof(ctypes.c_char.from_buffer(memory)) for memory in (target, source)]
    Filler(4).copy(*addresses, size)
    assert target[:] == source[:]
    if size < 2 << 20:
        assert charged == []  # this thread's own, which its spans see anyway
    else:
        # Every page of the target is touched first by the threads: one fault each, or fewer larger pages.
        [(minor, major)] = charged
        assert 1 <= minor <= 2 * -(-size // mmap.PAGESIZE) and major == 0
