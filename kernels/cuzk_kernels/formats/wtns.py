"""Witness files (.wtns, version 2): section 1 = u32 n8, prime, u32 count; section 2 = count plain values.

Values are little-endian integers of n8 = 32 bytes below r, not in Montgomery form; wire 0 is 1, then come the
outputs, the public inputs, and the rest. Byte layout: iden3's snarkjs, src/wtns_utils.js.
"""

from typing import TYPE_CHECKING

from cuzk_kernels import curves
from cuzk_kernels.curves import Curve
from cuzk_kernels.formats import binfile

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend

VALUE_BYTES = 32
_NAMES = {1: "header", 2: "values"}


class Wtns:
    """An open witness: its curve, number of values and their bytes (count * 32, mapped)."""

    def __init__(self, path: binfile.Path) -> None:
        self.file = binfile.BinFile(path, b"wtns", 2, _NAMES)
        self.path = self.file.path
        header = binfile.Reader(self.file, 1)
        r = header.prime()
        self.count = header.u32()
        header.done()
        curve = curves.by_scalar_prime(r)
        if curve is None:
            raise self.file.error(f"unknown scalar field {hex(r)}; supported: {curves.SUPPORTED}")
        self.curve: Curve = curve
        self.data = self.file.exact(2, self.count, VALUE_BYTES, f"{self.count} values")

    def value(self, index: int) -> int:
        at = index * VALUE_BYTES
        return int.from_bytes(self.data[at : at + VALUE_BYTES], "little")

    def check(self, backend: "Backend") -> None:
        """Raise InputError unless wire 0 is 1 and every value is below r."""
        if self.count == 0 or self.value(0) != 1:
            found = self.value(0) if self.count else "missing"
            raise self.file.error(f"wire 0 must be 1, it is {found}; compute the witness again")
        bad = backend.witness_check(self.curve, self.data, self.count)
        if bad is not None:
            raise self.file.error(f"wire {bad} is not below the scalar prime; compute the witness again")


def open(path: binfile.Path) -> Wtns:
    """Open and validate a witness file in time independent of its size."""
    return Wtns(path)


def write(path: binfile.Path, curve: Curve, values: list[int]) -> None:
    """Write a witness atomically; values are below r and begin with 1."""
    write_packed(path, curve, b"".join([value.to_bytes(VALUE_BYTES, "little") for value in values]))


def write_packed(path: binfile.Path, curve: Curve, data: bytes) -> None:
    """The same from the bytes of the values, VALUE_BYTES each."""
    header = binfile.prime(curve.r, VALUE_BYTES) + binfile.u32(len(data) // VALUE_BYTES)
    binfile.write(path, b"wtns", 2, [(1, [header]), (2, [data])])
