"""A trusted setup for tests and the demo: whoever ran it could forge proofs, so never use its keys for real.

tau, alpha, beta and delta are drawn with `secrets` and forgotten; gamma is 1, as in snarkjs. With a_j, b_j,
c_j the column polynomials at tau (in the Lagrange basis of the n-th roots of unity), the queries are

    A_j = a_j, B_j = b_j, IC_j = beta a_j + alpha b_j + c_j (j <= l), C_j = the same / delta (j > l),
    H_i = L^(2n)_(2i+1)(tau) / delta, the odd points of the doubled domain,

times the generators. The domain is snarkjs's, strictly above constraints + l; l + 1 rows "w_j in A" follow
the constraints, which keep the public columns independent.

Everything long is the back end's work. With w the n-th and v the 2n-th root of unity,

    L_k(tau)             = 1/n sum_j tau^j w^(-jk)                            the inverse transform of tau^j,
    L^(2n)_(2k+1)(tau)   = (1 - tau^n)/2 * 1/n sum_j (tau/v)^j w^(-jk)        for v^(-n) = -1,

and a_j is a sparse product like A.w, with the roles of rows and wires exchanged and L in place of a witness.
"""

import os
import secrets
from typing import TYPE_CHECKING, Any

import cuzk_tracer
from cuzk_kernels import matrices
from cuzk_kernels.curves import Curve, Point
from cuzk_kernels.formats import r1cs as r1cs_format
from cuzk_kernels.formats import vkey as vkey_format
from cuzk_kernels.formats import zkey as zkey_format
from cuzk_kernels.formats.r1cs import VALUE_BYTES, R1cs
from cuzk_kernels.matrices import Matrices, pack, table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from cuzk_kernels.backend.protocol import Backend, Vec
    from cuzk_kernels.matrices import Values

SETUP = cuzk_tracer.span("setup", a0="constraints", a1="domain", stage=True, faults=True)
SCALARS = cuzk_tracer.span("setup.scalars", a0="constraints", stage=True, faults=True)
POINTS = cuzk_tracer.span("setup.points", a0="points", stage=True, faults=True)

LONGEST_SUM = 1024  # terms that one worker of a back end should add up in a column
_RECORD = [("matrix", "<u4"), ("row", "<u4"), ("wire", "<u4"), ("value", f"V{VALUE_BYTES}")]  # of a .zkey
_R = 1 << 256  # Montgomery's factor of the scalar field

Path = str | os.PathLike[str]


class _Secrets:
    """The toxic waste of one setup."""

    def __init__(self, curve: Curve) -> None:
        self.tau, self.alpha, self.beta, self.delta = (1 + secrets.randbelow(curve.r - 1) for _ in range(4))


def domain_size(system: Matrices | R1cs) -> int:
    """snarkjs's choice: 2^(floor(log2(constraints + public)) + 1)."""
    return 1 << max(1, system.n_constraints + system.n_public).bit_length()


def make_key(backend: "Backend", system: Matrices | R1cs | Path, zkey_path: Path, vkey_path: Path) -> None:
    """Write a proving and a verification key for a constraint system, each atomically.

    Raises InputError for a file that is not sound.
    """
    if not isinstance(system, Matrices | R1cs):
        system = r1cs_format.open(system)
    curve, n = system.curve, domain_size(system)
    with SETUP(system.n_constraints, n):
        waste = _Secrets(curve)
        with SCALARS(system.n_constraints):
            if isinstance(system, R1cs):
                system = matrices.read(system)
            key = _Scalars(backend, system, n, waste)
        g1, g2 = curve.g1, curve.g2
        over_delta = g1.mul(g1.generator, pow(waste.delta, -1, curve.r))
        first_private = VALUE_BYTES * (system.n_public + 1)
        multiples: dict[int, tuple[int, Point, bytes]] = {
            3: (1, g1.generator, key.combined[:first_private]),
            5: (1, g1.generator, key.a),
            6: (1, g1.generator, key.b),
            7: (2, g2.generator, key.b),
            8: (1, over_delta, key.combined[first_private:]),
            9: (1, over_delta, key.odd),
        }
        queries = {section: _points(backend, curve, *of) for section, of in multiples.items()}
        header_points = {
            "alpha1": g1.mul(g1.generator, waste.alpha),
            "beta1": g1.mul(g1.generator, waste.beta),
            "beta2": g2.mul(g2.generator, waste.beta),
            "gamma2": g2.generator,
            "delta1": g1.mul(g1.generator, waste.delta),
            "delta2": g2.mul(g2.generator, waste.delta),
        }
        zkey_format.write(
            zkey_path, curve, n_public=system.n_public, domain=n,
            header_points=header_points, coefs=key.coefs, queries=queries,
        )  # fmt: skip
        vkey_format.write(vkey_path, vkey_format.from_zkey(zkey_format.open(zkey_path)))


class _Scalars:
    """What the generators are multiplied by, packed, and the coefficient records of the zkey.

    a, b, combined: a_j, b_j and beta a_j + alpha b_j + c_j for each wire; odd: (L^(2n)_(2k+1)) for each row.
    """

    def __init__(self, backend: "Backend", system: Matrices, n: int, waste: _Secrets) -> None:
        import numpy as np  # noqa: PLC0415 (needed to make keys, not to prove)

        curve = system.curve
        lagrange, odd = lagrange_at(backend, curve, n, waste.tau)
        self.odd = odd.tobytes()
        by_beta, by_alpha = _powers(backend, curve, n, (waste.beta, waste.tau), (waste.alpha, waste.tau))
        backend.intt(by_beta)
        backend.intt(by_alpha)
        values = _montgomery_values(backend, curve, system.values)
        used, c = _used_records(system, values), _records(2, system.c, values)
        self.coefs = used.tobytes()
        plain = lagrange.tobytes()
        self.a, self.b = _column_sums(backend, system, used, plain)
        everything = np.concatenate([used, c])
        everything["row"] += np.array([n, 2 * n, 0], np.uint32)[everything["matrix"]]
        everything["matrix"] = 0
        self.combined, _ = _column_sums(
            backend, system, everything, plain + by_beta.tobytes() + by_alpha.tobytes()
        )


def lagrange_at(backend: "Backend", curve: Curve, n: int, tau: int) -> tuple["Vec", "Vec"]:
    """L_k(tau) for k < n on the n-th roots of unity, and L^(2n)_(2k+1)(tau) on the odd 2n-th ones."""
    r = curve.r
    half = (1 - pow(tau, n, r)) * pow(2, -1, r) % r
    even, odd = _powers(backend, curve, n, (1, tau), (half, tau * pow(curve.root_of_unity(2 * n), -1, r) % r))
    backend.intt(even)
    backend.intt(odd)
    return even, odd


def _powers(
    backend: "Backend", curve: Curve, n: int, first: tuple[int, int], second: tuple[int, int]
) -> tuple["Vec", "Vec"]:
    """start * ratio^j for j < n, for two pairs (start, ratio).

    As a sparse product: with m about the root of n, row j is ratio^(j % m) times start * ratio^(j - j % m).
    """
    import numpy as np  # noqa: PLC0415

    r = curve.r
    log = n.bit_length() - 1
    low, high = 1 << log // 2, 1 << (log - log // 2)
    rows = np.arange(n, dtype=np.uint32)
    records = np.empty((2, n), _RECORD)
    witness = []
    for matrix, (start, ratio) in enumerate((first, second)):
        part = records[matrix]
        part["matrix"], part["row"], part["wire"] = matrix, rows, matrix * high + rows // low
        stored = table(pack(_geometric(_R * _R % r, ratio, low, r))).view(f"V{VALUE_BYTES}")[:, 0]
        part["value"] = np.tile(stored, high)
        witness.append(pack(_geometric(start, pow(ratio, low, r), high, r)))
    return backend.eval_ab(curve, _bytes_of(records), 2 * n, _writable(b"".join(witness)), 2 * high, n)


def _geometric(start: int, ratio: int, count: int, r: int) -> list[int]:
    values = [start]
    for _ in range(count - 1):
        values.append(values[-1] * ratio % r)
    return values


def _montgomery_values(backend: "Backend", curve: Curve, values: "Values") -> "npt.NDArray[np.void]":
    """The table of coefficients times R^2, as a .zkey stores them.

    A stored value x and a wire w give x w / R^2, so that the plain v and the wire R^4 give v R^2.
    """
    import numpy as np  # noqa: PLC0415

    count = len(values)
    records = np.zeros(count, _RECORD)
    records["row"] = np.arange(count)
    records["value"] = np.ascontiguousarray(values).view(f"V{VALUE_BYTES}")[:, 0]
    wire = pack([pow(_R, 4, curve.r)])
    scaled, _ = backend.eval_ab(curve, _bytes_of(records), count, _writable(wire), 1, _power_of_two(count))
    return np.frombuffer(scaled.tobytes(), f"V{VALUE_BYTES}")[:count]


def _records(matrix: int, terms: matrices.Terms, values: "npt.NDArray[np.void]") -> "npt.NDArray[np.void]":
    import numpy as np  # noqa: PLC0415

    records = np.empty(len(terms.rows), _RECORD)
    records["matrix"], records["row"], records["wire"] = matrix, terms.rows, terms.wires
    records["value"] = values[terms.values]
    return records


def _used_records(system: Matrices, values: "npt.NDArray[np.void]") -> "npt.NDArray[np.void]":
    """A and B as in a .zkey, row by row, and the rows that name the public wires."""
    import numpy as np  # noqa: PLC0415

    names = np.empty(system.n_public + 1, _RECORD)
    wires = np.arange(system.n_public + 1, dtype=np.uint32)
    names["matrix"], names["row"], names["wire"] = 0, system.n_constraints + wires, wires
    names["value"] = np.void(pack([_R * _R % system.curve.r]))
    joined = np.concatenate([_records(0, system.a, values), _records(1, system.b, values)])
    return np.concatenate([joined[np.argsort(joined["row"], kind="stable")], names])


def _column_sums(
    backend: "Backend", system: Matrices, records: "npt.NDArray[np.void]", weights: bytes
) -> tuple[bytes, bytes]:
    """For each wire the sum of value * weights[row] over the records of matrix 0, and of matrix 1.

    Wires in more than LONGEST_SUM terms (the constant one is in most rows) get further sums of their own,
    added up here.
    """
    import numpy as np  # noqa: PLC0415

    targets, extra = _spread(records["wire"], system.n_wires)
    turned = records.copy()
    turned["row"], turned["wire"] = targets, records["row"]
    rows = system.n_wires + len(extra)
    count = len(weights) // VALUE_BYTES
    sums = backend.eval_ab(
        system.curve, _bytes_of(turned), len(turned), _writable(weights), count, _power_of_two(rows)
    )
    packed = []
    for vector in sums:
        data = np.frombuffer(vector.tobytes(), np.uint8).reshape(-1, VALUE_BYTES)[:rows].copy()
        for at, wire in enumerate(extra, system.n_wires):
            total = sum(int.from_bytes(data[k].tobytes(), "little") for k in (at, wire)) % system.curve.r
            data[wire] = np.frombuffer(pack([total]), np.uint8)
        packed.append(data[: system.n_wires].tobytes())
    return packed[0], packed[1]


def _spread(wires: "npt.NDArray[np.uint32]", n_wires: int) -> tuple["npt.NDArray[np.uint32]", list[int]]:
    """Where each term is added: at its wire, or behind all wires at a further sum; whose sums those are."""
    import numpy as np  # noqa: PLC0415

    lengths = np.bincount(wires, minlength=n_wires)
    targets = wires.astype(np.uint32)
    at = np.flatnonzero(lengths[wires] > LONGEST_SUM)
    at = at[np.argsort(wires[at], kind="stable")]
    busy = np.flatnonzero(lengths > LONGEST_SUM)
    starts = np.cumsum(lengths[busy]) - lengths[busy]
    part = (np.arange(len(at)) - np.repeat(starts, lengths[busy])) // LONGEST_SUM
    further = -(-lengths[busy] // LONGEST_SUM) - 1
    first = n_wires + np.cumsum(further) - further
    later = part > 0
    targets[at[later]] = (np.repeat(first, lengths[busy]) + part - 1)[later]
    return targets, np.repeat(busy, further).tolist()


def _power_of_two(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()


def _bytes_of(array: "npt.NDArray[Any]") -> memoryview:
    import numpy as np  # noqa: PLC0415

    return array.reshape(-1).view(np.uint8).data


def _writable(data: bytes) -> memoryview:
    """Bytes where a back end can take their address."""
    return memoryview(bytearray(data))


def _points(backend: "Backend", curve: Curve, group: int, base: Point, scalars: bytes) -> bytes:
    """The base times each packed scalar, as packed points."""
    count = len(scalars) // VALUE_BYTES
    with POINTS(count):
        packed = backend.fixed_base(
            curve, group, base, backend.scalars(curve, _writable(scalars), count), count
        )
        cuzk_tracer.add_faults(*backend.take_faults())
        return packed
