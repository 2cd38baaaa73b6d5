"""The matrices A, B and C of a constraint system as arrays: no Python object a term.

Row i says (A_i . w) * (B_i . w) = C_i . w. A term is a row, a wire and the place of its coefficient in a
table, because most circuits of millions of terms know few coefficients. numpy is loaded by what makes such
arrays, never by a proof.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from cuzk_kernels.curves import Curve
from cuzk_kernels.formats import binfile
from cuzk_kernels.formats import r1cs as r1cs_format
from cuzk_kernels.formats.r1cs import VALUE_BYTES, R1cs

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Words = npt.NDArray[np.uint32]
    Values = npt.NDArray[np.uint8]  # (count, VALUE_BYTES): plain little-endian integers below r

_WORD_BYTES = 4
_TERM_WORDS = 1 + VALUE_BYTES // _WORD_BYTES  # wire and coefficient in a .r1cs


class Terms(NamedTuple):
    """One matrix: three arrays of the same length, rows ascending. values: indices into a table."""

    rows: "Words"
    wires: "Words"
    values: "Words"


class Matrices:
    """A constraint system in memory.

    n_public: outputs and public inputs; values: the table of coefficients.
    """

    def __init__(
        self, curve: Curve, *, n_wires: int, n_public: int, n_constraints: int, values: "Values",
        a: Terms, b: Terms, c: Terms,
    ) -> None:  # fmt: skip
        self.curve = curve
        self.n_wires, self.n_public, self.n_constraints = n_wires, n_public, n_constraints
        self.values = values
        self.a, self.b, self.c = a, b, c


def pack(values: Iterable[int]) -> bytes:
    """Integers below 2^256 as VALUE_BYTES little-endian bytes each."""
    return b"".join([value.to_bytes(VALUE_BYTES, "little") for value in values])


def table(data: bytes) -> "Values":
    """Packed integers as rows of bytes."""
    import numpy as np  # noqa: PLC0415 (see the module's docstring)

    return np.frombuffer(data, np.uint8).reshape(-1, VALUE_BYTES)


def terms(*blocks: tuple[Any, Any, Any]) -> Terms:
    """Terms of repeated parts of a circuit. A block is (rows, wires, values), each broadcast to one shape of
    (parts, terms of a part); the blocks of a part follow one another."""
    import numpy as np  # noqa: PLC0415

    shaped = [np.broadcast_arrays(*block) for block in blocks]
    joined = (np.concatenate(arrays, axis=1).reshape(-1) for arrays in zip(*shaped, strict=True))
    return Terms(*(array.astype(np.uint32) for array in joined))


def join(*parts: Terms) -> Terms:
    """One matrix of parts whose rows follow one another."""
    import numpy as np  # noqa: PLC0415

    return Terms(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def read(system: R1cs) -> Matrices:
    """The matrices of an open .r1cs; raises InputError as `R1cs.constraints` does."""
    import numpy as np  # noqa: PLC0415

    section = system.file.section(2)
    starts, counts = _lists(section, system)
    words = np.frombuffer(section, "<u4")
    first, length = np.array(starts, np.int64), np.array(counts, np.int64)
    within = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length)
    at = np.repeat(first, length) + _TERM_WORDS * within
    wires = words[at]
    values = words[at[:, None] + np.arange(1, _TERM_WORDS)].view(np.uint8)
    if len(at) and (wires.max() >= system.n_wires or not _all_below(values, system.curve.r)):
        _refuse(system)
    lists = np.repeat(np.arange(len(starts)), length)
    matrices = []
    for matrix in range(3):
        chosen = np.flatnonzero(lists % 3 == matrix)
        matrices.append(Terms(*(x.astype(np.uint32) for x in (lists[chosen] // 3, wires[chosen], chosen))))
    return Matrices(
        system.curve, n_wires=system.n_wires, n_public=system.n_public, n_constraints=system.n_constraints,
        values=values, a=matrices[0], b=matrices[1], c=matrices[2],
    )  # fmt: skip


def _lists(section: memoryview, system: R1cs) -> tuple[list[int], list[int]]:
    """Where each list of terms begins, in words, and how many terms it has."""
    starts, counts = [], []
    at, size = 0, len(section)
    for _ in range(3 * system.n_constraints):
        if at + _WORD_BYTES > size:
            _refuse(system)
        (count,) = binfile.U32.unpack_from(section, at)
        at += _WORD_BYTES
        starts.append(at // _WORD_BYTES)
        counts.append(count)
        at += _WORD_BYTES * _TERM_WORDS * count
    if at != size:
        _refuse(system)
    return starts, counts


def _all_below(values: "Values", r: int) -> bool:
    import numpy as np  # noqa: PLC0415

    limbs = values.view("<u8")
    below = np.zeros(len(limbs), bool)
    equal = np.ones(len(limbs), bool)
    for k in reversed(range(limbs.shape[1])):
        limb = np.uint64(r >> (64 * k) & 0xFFFF_FFFF_FFFF_FFFF)
        below |= equal & (limbs[:, k] < limb)
        equal &= limbs[:, k] == limb
    return bool(below.all())


def _refuse(system: R1cs) -> NoReturn:
    """Reading row by row, which names the first bad one."""
    for _ in system.constraints():
        pass
    raise AssertionError("the constraints are sound one by one")


def write(path: binfile.Path, system: Matrices, *, n_outputs: int, n_private_inputs: int) -> None:
    """Write the matrices as .r1cs, atomically."""
    import numpy as np  # noqa: PLC0415

    matrices = system.a, system.b, system.c
    lengths = np.stack([np.bincount(m.rows, minlength=system.n_constraints) for m in matrices], axis=1)
    lengths = lengths.reshape(-1)  # of every list, in the order of the file
    before = np.cumsum(lengths) - lengths
    lists = np.arange(len(lengths)) + _TERM_WORDS * before
    words = np.empty(len(lengths) + _TERM_WORDS * int(lengths.sum()), "<u4")
    words[lists] = lengths
    coefficients = np.ascontiguousarray(system.values).view("<u4")
    for matrix, (rows, wires, values) in enumerate(matrices):
        number = 3 * rows.astype(np.int64) + matrix
        ends = np.cumsum(lengths[matrix::3])
        within = np.arange(len(rows)) - np.repeat(ends - lengths[matrix::3], lengths[matrix::3])
        at = lists[number] + 1 + _TERM_WORDS * within
        words[at] = wires
        words[at[:, None] + np.arange(1, _TERM_WORDS)] = coefficients[values]
    r1cs_format.write_packed(
        path, system.curve, n_wires=system.n_wires, n_outputs=n_outputs,
        n_public_inputs=system.n_public - n_outputs, n_private_inputs=n_private_inputs,
        n_constraints=system.n_constraints, constraints=[words.tobytes()],
    )  # fmt: skip
