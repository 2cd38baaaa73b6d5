"""Constraint systems (.r1cs, version 1): every row says (A . w) * (B . w) = C . w over the scalar field.

Section 1: u32 n8, prime, u32 nWires, nPubOut, nPubIn, nPrvIn, u64 nLabels, u32 nConstraints. 2: for each
constraint three lists A, B, C of u32 count and (u32 wire, n8 bytes plain little-endian value). 3: u64 label
of each wire. 4, 5: custom gates, which Groth16 cannot have. Layout: iden3/r1csfile, doc/r1cs_bin_format.md.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cuzk_kernels import curves
from cuzk_kernels.curves import Curve
from cuzk_kernels.formats import binfile

VALUE_BYTES = 32
_TERM = struct.Struct("<I32s")
_NAMES = {1: "header", 2: "constraints", 3: "wire labels", 4: "custom gates", 5: "custom gate uses"}

Terms = list[tuple[int, int]]  # (wire, coefficient)
Constraint = tuple[Terms, Terms, Terms]


class Unsatisfied(NamedTuple):
    """The first constraint a witness breaks, with the values of A.w, B.w and C.w."""

    constraint: int
    a: int
    b: int
    c: int


class R1cs:
    """An open constraint system: curve, n_wires, n_public (outputs and public inputs), n_constraints."""

    def __init__(self, path: binfile.Path) -> None:
        file = self.file = binfile.BinFile(path, b"r1cs", 1, _NAMES)
        self.path = file.path
        header = binfile.Reader(file, 1)
        prime = header.prime()
        curve = curves.by_scalar_prime(prime)
        if curve is None:
            raise file.error(f"field {hex(prime)} not supported; supported: {curves.SUPPORTED}")
        self.curve: Curve = curve
        self.n_wires = header.u32()
        self.n_public = header.u32() + header.u32()
        header.u32()  # private inputs as written: circom --O2 may since have removed their wires
        header.u64()  # labels
        self.n_constraints = header.u32()
        header.done()
        if self.n_public >= self.n_wires:
            raise file.error(f"the header claims {self.n_public} public values of {self.n_wires} wires")
        if self.n_wires > file.size:  # circom's files spend 8 bytes on each wire's label
            raise file.error(f"the header claims {self.n_wires} wires in a file of {file.size} bytes")
        if any(file.has(section) and any(file.section(section)) for section in (4, 5)):
            raise file.error("the circuit uses custom gates, which Groth16 does not have")

    def constraints(self) -> Iterator[Constraint]:
        """All rows in order; InputError for a term outside the section or a wire that is not there."""
        data = self.file.section(2)
        at = 0
        for index in range(self.n_constraints):
            lists = []
            for name in "ABC":
                terms, at = self._terms(data, at, index, name)
                lists.append(terms)
            yield lists[0], lists[1], lists[2]
        if at != len(data):
            raise self.file.error(
                f"{self.file.label(2)} holds {len(data)} bytes, "
                f"its {self.n_constraints} constraints need {at}"
            )

    def _terms(self, data: memoryview, at: int, index: int, name: str) -> tuple[Terms, int]:
        start = at + 4
        count = int.from_bytes(data[at:start], "little") if start <= len(data) else None
        if count is None or count * _TERM.size > len(data) - start:
            raise self.file.error(f"{self.file.label(2)} ends inside constraint {index}; the file is damaged")
        end = start + count * _TERM.size
        terms = [
            (wire, int.from_bytes(value, "little")) for wire, value in _TERM.iter_unpack(data[start:end])
        ]
        for wire, value in terms:
            if wire >= self.n_wires:
                raise self.file.error(f"constraint {index} names wire {wire}, there are {self.n_wires}")
            if value >= self.curve.r:
                raise self.file.error(f"constraint {index}: a value of {name} is not below the scalar prime")
        return terms, end

    def first_unsatisfied(self, witness: memoryview) -> Unsatisfied | None:
        """The first constraint that n_wires plain 32-byte values do not satisfy, or None."""
        r = self.curve.r
        size = VALUE_BYTES
        w = [int.from_bytes(witness[o : o + size], "little") for o in range(0, self.n_wires * size, size)]
        for index, lists in enumerate(self.constraints()):
            a, b, c = (sum(value * w[wire] for wire, value in terms) % r for terms in lists)
            if (a * b - c) % r:
                return Unsatisfied(index, a, b, c)
        return None


def open(path: binfile.Path) -> R1cs:
    """Open and validate the header of a constraint system in time independent of its size."""
    return R1cs(path)


def write(
    path: binfile.Path, curve: Curve, *, n_wires: int, n_outputs: int, n_public_inputs: int,
    n_private_inputs: int, constraints: Iterable[Constraint],
) -> None:  # fmt: skip
    """Write a constraint system atomically; wires are 1, outputs, public inputs, private inputs, the rest."""
    rows = []
    count = 0
    for row in constraints:
        count += 1
        for terms in row:
            rows.append(binfile.u32(len(terms)))
            rows.extend(_TERM.pack(wire, value.to_bytes(VALUE_BYTES, "little")) for wire, value in terms)
    write_packed(
        path, curve, n_wires=n_wires, n_outputs=n_outputs, n_public_inputs=n_public_inputs,
        n_private_inputs=n_private_inputs, n_constraints=count, constraints=rows,
    )  # fmt: skip


def write_packed(
    path: binfile.Path, curve: Curve, *, n_wires: int, n_outputs: int, n_public_inputs: int,
    n_private_inputs: int, n_constraints: int, constraints: list[bytes],
) -> None:  # fmt: skip
    """The same from the bytes of section 2, in pieces."""
    header = binfile.prime(curve.r, VALUE_BYTES)
    header += b"".join(map(binfile.u32, (n_wires, n_outputs, n_public_inputs, n_private_inputs)))
    header += struct.pack("<QI", n_wires, n_constraints)
    labels = struct.pack(f"<{n_wires}Q", *range(n_wires))
    binfile.write(path, b"r1cs", 1, [(1, [header]), (2, constraints), (3, [labels])])
