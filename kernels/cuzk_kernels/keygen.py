"""A trusted setup for tests and the demo: whoever ran it could forge proofs, so never use its keys for real.

tau, alpha, beta and delta are drawn with `secrets` and forgotten; gamma is 1, as in snarkjs. With a_j, b_j,
c_j the column polynomials at tau (in the Lagrange basis of the n-th roots of unity), the queries are

    A_j = a_j, B_j = b_j, IC_j = beta a_j + alpha b_j + c_j (j <= l), C_j = the same / delta (j > l),
    H_i = L^(2n)_(2i+1)(tau) / delta, the odd points of the doubled domain,

times the generators. The domain is snarkjs's, strictly above constraints + l; l + 1 rows "w_j in A" follow
the constraints, which keep the public columns independent.
"""

import os
import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING

import cuzk_tracer
from cuzk_kernels.curves import Curve
from cuzk_kernels.formats import r1cs as r1cs_format
from cuzk_kernels.formats import vkey as vkey_format
from cuzk_kernels.formats import zkey as zkey_format
from cuzk_kernels.formats.r1cs import R1cs
from cuzk_kernels.points import batch_inverse

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend

SETUP = cuzk_tracer.span("setup", a0="constraints", a1="domain", stage=True, faults=True)
SCALARS = cuzk_tracer.span("setup.scalars", a0="constraints", stage=True, faults=True)
POINTS = cuzk_tracer.span("setup.points", a0="points", stage=True, faults=True)

Path = str | os.PathLike[str]


class _Secrets:
    """The toxic waste of one setup."""

    def __init__(self, curve: Curve) -> None:
        self.tau, self.alpha, self.beta, self.delta = (1 + secrets.randbelow(curve.r - 1) for _ in range(4))


class _Columns:
    """Column values at tau for each wire, and the coefficient records of the zkey."""

    def __init__(self, r1cs: R1cs, lagrange: list[int]) -> None:
        r = r1cs.curve.r
        scale = pow(1 << 256, 2, r)  # a zkey stores coefficients times R^2
        self.a, self.b, self.c = ([0] * r1cs.n_wires for _ in range(3))
        self.coefs: list[bytes] = []
        row = 0
        for lists in r1cs.constraints():
            for matrix, (column, terms) in enumerate(zip((self.a, self.b, self.c), lists, strict=True)):
                for wire, value in terms:
                    column[wire] += value * lagrange[row]
                    if matrix < 2:
                        self.coefs.append(_coefficient(matrix, row, wire, value * scale % r))
            row += 1
        for wire in range(r1cs.n_public + 1):
            self.a[wire] += lagrange[row + wire]
            self.coefs.append(_coefficient(0, row + wire, wire, scale))
        for column in (self.a, self.b, self.c):
            column[:] = [value % r for value in column]


def _coefficient(matrix: int, row: int, wire: int, value: int) -> bytes:
    return b"".join(v.to_bytes(4, "little") for v in (matrix, row, wire)) + value.to_bytes(32, "little")


def domain_size(r1cs: R1cs) -> int:
    """snarkjs's choice: 2^(floor(log2(constraints + public)) + 1)."""
    return 1 << max(1, r1cs.n_constraints + r1cs.n_public).bit_length()


def make_key(backend: "Backend", r1cs: R1cs | Path, zkey_path: Path, vkey_path: Path) -> None:
    """Write a proving and a verification key for a constraint system, each atomically."""
    r1cs = r1cs if isinstance(r1cs, R1cs) else r1cs_format.open(r1cs)
    curve = r1cs.curve
    r, n, first_private = curve.r, domain_size(r1cs), r1cs.n_public + 1
    with SETUP(r1cs.n_constraints, n):
        waste = _Secrets(curve)
        with SCALARS(r1cs.n_constraints):
            columns = _Columns(r1cs, lagrange_at(curve, n, waste.tau, range(n)))
            inverse_delta = pow(waste.delta, -1, r)
            combined = [
                (waste.beta * a + waste.alpha * b + c) % r
                for a, b, c in zip(columns.a, columns.b, columns.c, strict=True)
            ]
            scalars = {
                3: combined[:first_private],
                5: columns.a,
                6: columns.b,
                7: columns.b,
                8: [value * inverse_delta % r for value in combined[first_private:]],
                9: [v * inverse_delta % r for v in lagrange_at(curve, 2 * n, waste.tau, range(1, 2 * n, 2))],
            }
        queries = {section: _points(backend, curve, section, values) for section, values in scalars.items()}
        g1, g2 = curve.g1, curve.g2
        header_points = {
            "alpha1": g1.mul(g1.generator, waste.alpha),
            "beta1": g1.mul(g1.generator, waste.beta),
            "beta2": g2.mul(g2.generator, waste.beta),
            "gamma2": g2.generator,
            "delta1": g1.mul(g1.generator, waste.delta),
            "delta2": g2.mul(g2.generator, waste.delta),
        }
        zkey_format.write(
            zkey_path, curve, n_public=r1cs.n_public, domain=n,
            header_points=header_points, coefs=columns.coefs, queries=queries,
        )  # fmt: skip
        vkey_format.write(vkey_path, vkey_format.from_zkey(zkey_format.open(zkey_path)))


def lagrange_at(curve: Curve, n: int, tau: int, indices: Iterable[int]) -> list[int]:
    """L_k(tau) = w^k (tau^n - 1) / (n (tau - w^k)) for each k of `indices`, w the n-th root of unity."""
    r = curve.r
    w = curve.root_of_unity(n)
    roots = [1] * n
    for k in range(1, n):
        roots[k] = roots[k - 1] * w % r
    chosen = [roots[k] for k in indices]
    inverses = batch_inverse(
        [tau - root for root in chosen], lambda a, b: a * b % r, lambda a: pow(a, -1, r), 1
    )
    scale = (pow(tau, n, r) - 1) * pow(n, -1, r) % r
    return [root * inverse % r * scale % r for root, inverse in zip(chosen, inverses, strict=True)]


def _points(backend: "Backend", curve: Curve, section: int, scalars: list[int]) -> bytes:
    """The generator times each scalar, packed; section 7 is the one query in G2."""
    group = 2 if section == 7 else 1
    data = memoryview(bytearray(b"".join([value.to_bytes(32, "little") for value in scalars])))
    with POINTS(len(scalars)):
        generator = curve.group(group).generator
        packed = backend.fixed_base(
            curve, group, generator, backend.scalars(curve, data, len(scalars)), len(scalars)
        )
        cuzk_tracer.add_faults(*backend.take_faults())
        return packed
