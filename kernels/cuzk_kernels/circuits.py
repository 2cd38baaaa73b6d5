"""Circuits of our own, of any size, over either scalar field, described as arrays.

Chain, the demo's: rounds x -> (x + key + c_i)^5, MiMC-like. The prover knows a key and an input whose chain
ends in a public digest. Three constraints a round and wire values that fill the whole field: the hard case
for a prover. Wires: 0 one, 1 digest (output), 2 x (public input), 3 key (private), then sq, qd, acc of each
round: t = acc + key + c_i, sq = t*t, qd = sq*sq, acc' = qd*t; digest = acc + key after the last.

Bits: the prover knows a message of 248 bits a word whose words, one absorbed a round in place of the key,
lead from a public start to a public digest. 248 of 252 wires are 0 or 1, as in circuits of hashes and
comparisons. Wires: 0 one, 1 digest (output), 2 start (public input), the bits (private inputs) of each word,
lowest first, then for each word the word and sq, qd, acc of its round. Rows of a word: b*(b - 1) = 0 for each
bit, sum 2^k b_k = word, and the round's three; digest = acc after the last.
"""

import hashlib
import os
import secrets
from typing import TYPE_CHECKING, Any

import cuzk_tracer
from cuzk_kernels import matrices
from cuzk_kernels.curves import Curve
from cuzk_kernels.formats import wtns
from cuzk_kernels.matrices import Matrices, join, pack, table, terms

if TYPE_CHECKING:
    from cuzk_kernels.matrices import Values

CALCULATE = cuzk_tracer.span("synthesis.witness.calculate", a0="rounds", stage=True, faults=True)

_ONE, _DIGEST, _X, _KEY, _FIRST_ROUND = range(5)
_FIRST_BIT = 3  # in the circuit of bits, whose start is at `_X`
PUBLIC = 2  # digest and x, digest and start
WORD_BITS = 248  # whole bytes, below either r
_WORD_ROWS = WORD_BITS + 4  # as many wires as rows


def chain_rounds(constraints: int) -> int:
    """Rounds of the shortest chain with at least that many constraints: 3 a round and one for the digest."""
    return max(1, -(-(constraints - 1) // 3))


def chain_constraint_count(rounds: int) -> int:
    return 3 * rounds + 1


def chain_rounds_in(domain: int) -> int:
    """Rounds of the longest chain whose key has that domain: constraints and public values stay below it."""
    return (domain - 2 - PUBLIC) // 3


def chain_constants(curve: Curve, rounds: int) -> list[int]:
    """c_i: SHA-256 of a label and i, reduced; nothing up the sleeve, no published table."""
    digests = (hashlib.sha256(b"cuzk-top chain %d" % i).digest() for i in range(rounds))
    return [int.from_bytes(digest, "big") % curve.r for digest in digests]


def chain_matrices(curve: Curve, rounds: int) -> Matrices:
    """The rows of the chain; see the module's docstring for the wires."""
    import numpy as np  # noqa: PLC0415 (needed to make keys, not to prove)

    i = np.arange(rounds)[:, None]
    first = _FIRST_ROUND + 3 * i
    a, b, c = _round(3 * i, _accumulators(first, _X), _KEY, 1 + i, first)
    last = 3 * rounds
    return Matrices(
        curve, n_wires=_FIRST_ROUND + last, n_public=PUBLIC, n_constraints=last + 1,
        values=table(pack([1, *chain_constants(curve, rounds)])),
        a=join(terms(*a), terms(([[last]], [[first[-1, 0] + 2, _KEY]], 0))),
        b=join(terms(*b), terms(([[last]], [[_ONE]], 0))),
        c=join(terms(*c), terms(([[last]], [[_DIGEST]], 0))),
    )  # fmt: skip


def _accumulators(first: Any, start: int) -> Any:
    """The wire each round begins with: the last of the round before."""
    acc = first + 2
    acc[1:] = acc[:-1].copy()
    acc[0] = start
    return acc


def _round(row: Any, acc: Any, addend: Any, constant: Any, first: Any) -> tuple[list[Any], ...]:
    """Blocks of A, B and C for rounds at `row`; constant: its place in the table, where 0 holds 1."""
    t = [(row, _ONE, constant), (row, acc, 0), (row, addend, 0)]
    again = [(row + 2, wire, value) for _, wire, value in t]
    sq, qd = (row + 1, first, 0), (row + 2, first + 1, 0)
    return [*t, sq, qd], [*t, sq, *again], [(row + k, first + k, 0) for k in range(3)]


def chain_values(curve: Curve, rounds: int, x: int, key: int) -> list[int]:
    """The witness, wire by wire."""
    r = curve.r
    values = [1, 0, x, key]
    acc = x
    for c in chain_constants(curve, rounds):
        t = (acc + key + c) % r
        sq = t * t % r
        qd = sq * sq % r
        acc = qd * t % r
        values += (sq, qd, acc)
    values[_DIGEST] = (acc + key) % r
    return values


def write_chain(path: str | os.PathLike[str], curve: Curve, rounds: int) -> None:
    """Write the circuit as .r1cs."""
    matrices.write(path, chain_matrices(curve, rounds), n_outputs=1, n_private_inputs=1)


def chain_witness(path: str | os.PathLike[str], curve: Curve, rounds: int) -> None:
    """Draw a fresh x and key, compute the witness and write it as .wtns."""
    with CALCULATE(rounds):
        values = chain_values(curve, rounds, secrets.randbelow(curve.r), secrets.randbelow(curve.r))
        wtns.write(path, curve, values)


def bits_words_in(domain: int) -> int:
    """Words of the longest message whose key has that domain."""
    return (domain - 2 - PUBLIC) // _WORD_ROWS


def bits_constraint_count(words: int) -> int:
    return _WORD_ROWS * words + 1


def bits_matrices(curve: Curve, words: int) -> Matrices:
    """The rows of the circuit of bits; see the module's docstring."""
    import numpy as np  # noqa: PLC0415

    minus_one, constants = WORD_BITS, WORD_BITS + 1  # places in the table, behind the powers of two
    i = np.arange(words)[:, None]
    row, bit, word = _WORD_ROWS * i, _FIRST_BIT + WORD_BITS * i, _FIRST_BIT + WORD_BITS * words + 4 * i
    k, twice = np.arange(WORD_BITS)[None], np.arange(2 * WORD_BITS)[None]
    packing = row + WORD_BITS
    a, b, c = _round(packing + 1, _accumulators(word + 1, _X), word, constants + i, word + 1)
    b_or_one = np.where(twice % 2, _ONE, bit + twice // 2), np.where(twice % 2, minus_one, 0)
    last = _WORD_ROWS * words
    final = [[_FIRST_BIT + last - 1]]
    powers = [1 << exponent for exponent in range(WORD_BITS)]
    return Matrices(
        curve, n_wires=_FIRST_BIT + last, n_public=PUBLIC, n_constraints=last + 1,
        values=table(pack([*powers, curve.r - 1, *chain_constants(curve, words)])),
        a=join(terms((row + k, bit + k, 0), (packing, bit + k, k), *a), terms(([[last]], final, 0))),
        b=join(
            terms((row + twice // 2, *b_or_one), (packing, _ONE, 0), *b), terms(([[last]], [[_ONE]], 0))
        ),
        c=join(terms((packing, word, 0), *c), terms(([[last]], [[_DIGEST]], 0))),
    )  # fmt: skip


def bits_values(curve: Curve, start: int, message: bytes) -> "Values":
    """The witness, wire by wire. message: WORD_BITS // 8 bytes a word, lowest first."""
    import numpy as np  # noqa: PLC0415

    r, size = curve.r, WORD_BITS // 8
    words = np.frombuffer(message, np.uint8).reshape(-1, size)
    bits = np.zeros((words.size * 8, wtns.VALUE_BYTES), np.uint8)
    bits[:, 0] = np.unpackbits(words.reshape(-1), bitorder="little")
    rest: list[int] = []
    acc = start
    for index, c in enumerate(chain_constants(curve, len(words))):
        word = int.from_bytes(message[index * size : (index + 1) * size], "little")
        t = (acc + word + c) % r
        sq = t * t % r
        qd = sq * sq % r
        acc = qd * t % r
        rest += (word, sq, qd, acc)
    return np.concatenate([table(pack([1, acc, start])), bits, table(pack(rest))])


def write_bits(path: str | os.PathLike[str], curve: Curve, words: int) -> None:
    """Write the circuit as .r1cs."""
    matrices.write(path, bits_matrices(curve, words), n_outputs=1, n_private_inputs=WORD_BITS * words)


def bits_witness(path: str | os.PathLike[str], curve: Curve, words: int) -> None:
    """Draw a fresh start and message, compute the witness and write it as .wtns."""
    with CALCULATE(words):
        values = bits_values(curve, secrets.randbelow(curve.r), secrets.token_bytes(WORD_BITS // 8 * words))
        wtns.write_packed(path, curve, values.tobytes())
