"""The demo circuit: a chain of rounds x -> (x + key + c_i)^5, MiMC-like, over either scalar field.

The prover knows a key and an input whose chain ends in a public digest. Three constraints a round and wire
values that fill the whole field: the hard case for a prover, unlike circuits of bits.

Wires: 0 one, 1 digest (output), 2 x (public input), 3 key (private), then sq, qd, acc of each round:
t = acc + key + c_i, sq = t*t, qd = sq*sq, acc' = qd*t; digest = acc + key after the last.
"""

import hashlib
import os
import secrets
from collections.abc import Iterator

import cuzk_tracer
from cuzk_kernels.curves import Curve
from cuzk_kernels.formats import r1cs, wtns
from cuzk_kernels.formats.r1cs import Constraint

CALCULATE = cuzk_tracer.span("synthesis.witness.calculate", a0="rounds", stage=True, faults=True)

_ONE, _DIGEST, _X, _KEY, _FIRST_ROUND = range(5)
PUBLIC = 2  # digest and x


def chain_rounds(constraints: int) -> int:
    """Rounds of the shortest chain with at least that many constraints: 3 a round and one for the digest."""
    return max(1, -(-(constraints - 1) // 3))


def chain_constraint_count(rounds: int) -> int:
    return 3 * rounds + 1


def chain_constants(curve: Curve, rounds: int) -> list[int]:
    """c_i: SHA-256 of a label and i, reduced; nothing up the sleeve, no published table."""
    digests = (hashlib.sha256(b"cuzk-top chain %d" % i).digest() for i in range(rounds))
    return [int.from_bytes(digest, "big") % curve.r for digest in digests]


def chain_constraints(curve: Curve, rounds: int) -> Iterator[Constraint]:
    """The rows of the circuit in order; see the module's docstring for the wires."""
    acc = _X
    for i, c in enumerate(chain_constants(curve, rounds)):
        sq, qd, out = (_FIRST_ROUND + 3 * i + k for k in range(3))
        t = [(_ONE, c), (acc, 1), (_KEY, 1)]
        yield t, t, [(sq, 1)]
        yield [(sq, 1)], [(sq, 1)], [(qd, 1)]
        yield [(qd, 1)], t, [(out, 1)]
        acc = out
    yield [(acc, 1), (_KEY, 1)], [(_ONE, 1)], [(_DIGEST, 1)]


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
    r1cs.write(
        path, curve, n_wires=_FIRST_ROUND + 3 * rounds, n_outputs=1, n_public_inputs=1, n_private_inputs=1,
        constraints=chain_constraints(curve, rounds),
    )  # fmt: skip


def chain_witness(path: str | os.PathLike[str], curve: Curve, rounds: int) -> None:
    """Draw a fresh x and key, compute the witness and write it as .wtns."""
    with CALCULATE(rounds):
        values = chain_values(curve, rounds, secrets.randbelow(curve.r), secrets.randbelow(curve.r))
        wtns.write(path, curve, values)
