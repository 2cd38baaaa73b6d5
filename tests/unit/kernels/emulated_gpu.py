"""A device that runs the CUDA kernels on the host, one thread a block (cuda/shim.cuh): tests without a GPU.

Memory is poisoned when it is taken, so that what a kernel forgot to write shows.
"""

import ctypes
import hashlib
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

from cuzk_kernels.backend.gpu_blocks import Pool
from cuzk_kernels.backend.gpu_build import SOURCES
from cuzk_kernels.backend.gpu_kernels import SIGNATURES, unit_source

COMPILER = shutil.which("g++")


class HostMemory:
    def __init__(self, size):
        self.size = size
        self._buffer = ctypes.create_string_buffer(size)
        self.address = ctypes.addressof(self._buffer)
        self.view = memoryview(self._buffer).cast("B")


class EmulatedDevice:
    """The interface of gpu_device.Device."""

    processors = 2
    index = 0

    def __init__(self, folder: Path, memory: int = 1 << 30, name: str = "emulated"):
        self.folder, self.name, self.total, self.used = folder, name, memory, 0
        self.pool = Pool(self._allocate, self._free, lambda: "emulated memory is full")
        self.sort_pool = Pool(self._allocate, self._free, lambda: "emulated memory is full")
        self._memory = {}
        self._libraries = {}
        self._kept = []
        self.launches = []

    def _allocate(self, size):
        if self.used + size > self.total:
            return None
        memory = HostMemory(size + 16)
        ctypes.memset(memory.address, 0xA5, size)
        address = (memory.address + 15) // 16 * 16
        self._memory[address] = memory, size
        self.used += size
        return address

    def _free(self, address):
        self.used -= self._memory.pop(address)[1]

    def memory(self):
        return self.total - self.used, self.total

    def alloc(self, size):
        block = self.pool.take(size)
        ctypes.memset(block.address, 0xA5, size)
        return block

    def pinned(self, size):
        return HostMemory(size)

    pinned_scratch = pinned

    def give_scratch(self, memory):
        pass

    def keep(self, memory):
        self._kept.append(memory)

    def register(self, address, size):
        return True

    def unregister(self, address):
        pass

    def upload(self, target, source, size, stream=None):
        ctypes.memmove(target, source, size)

    def download(self, target, source, size, stream=None):
        ctypes.memmove(target, source, size)

    def upload_bytes(self, target, data):
        ctypes.memmove(target, data, len(data))

    def read(self, source, size):
        return ctypes.string_at(source, size)

    def retire_sort_blocks(self, blocks):
        for block in blocks:
            block.release()

    def reuse_sort_blocks(self):
        pass

    def clear(self, target, size, stream=None):
        assert size % 4 == 0
        ctypes.memset(target, 0, size)

    def event(self, stream=None):
        return None

    def wait_for(self, event, stream=None):
        pass

    copy = sort = None

    def tell_kernels(self):
        pass  # compiled from the sources as they are

    def attach(self):
        pass

    def entered(self):
        return nullcontext()

    def finish(self, event):
        pass

    def synchronize(self):
        pass

    def words(self, source, number):
        return list((ctypes.c_uint32 * number).from_address(source))

    def launch(self, unit, name, grid, block, *arguments, shared=0, stream=None):
        assert shared <= 227 << 10
        assert 1 <= block <= 1024
        signature = SIGNATURES[name]
        assert len(signature) == len(arguments), name
        assert all(a < 1 << 32 for kind, a in zip(signature, arguments, strict=True) if kind == "I"), (
            arguments
        )
        values = [
            ctypes.c_uint64(a) if kind == "P" else ctypes.c_uint32(a)
            for kind, a in zip(signature, arguments, strict=True)
        ]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        x, y = grid if isinstance(grid, tuple) else (grid, 1)
        self.launches.append((unit, name))
        getattr(self._library(unit), f"emulate_{name}")(x, y, pointers)

    def _library(self, unit):
        if unit not in self._libraries:
            self._libraries[unit] = ctypes.CDLL(str(build(unit, self.folder)))
        return self._libraries[unit]


def build(unit: str, folder: Path) -> Path:
    """The unit as a shared library of the host, compiled once for the same sources."""
    source, definitions = unit_source(unit)
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.read_bytes())
    out = folder / f"{unit}-{digest.hexdigest()[:16]}.so"
    if not out.exists():
        partial = out.with_suffix(".partial")
        command = [
            COMPILER,
            "-O2",
            "-std=c++17",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            "-Wall",
            "-Werror",
        ]
        command += ["-Wno-unknown-pragmas", "-I", str(SOURCES), *definitions, '-DCUZK_FINGERPRINT="emulated"']
        subprocess.run([*command, "-x", "c++", str(SOURCES / source), "-o", str(partial)], check=True)
        partial.replace(out)
    return out
