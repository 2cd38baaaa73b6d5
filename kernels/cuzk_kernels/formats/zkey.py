"""Groth16 proving keys of snarkjs (.zkey, version 1).

Section 1: u32 protocol (1 = Groth16). 2: n8q, q, n8r, r, nVars, nPublic, domainSize, then alpha1, beta1,
beta2, gamma2, delta1, delta2. 3: IC. 4: coefficients of A and B. 5, 6, 7: A, B1, B2 by wire. 8: C by private
wire. 9: H by domain row. 10: contributions. Points are affine, little-endian, Montgomery form; zeros are
infinity; G2 is x.c0, x.c1, y.c0, y.c1. Byte layout: snarkjs, src/zkey_utils.js.
"""

from typing import TYPE_CHECKING

from cuzk_kernels import curves
from cuzk_kernels.backend.protocol import NOT_REDUCED
from cuzk_kernels.curves import Curve, Point
from cuzk_kernels.errors import CoefError, InputError
from cuzk_kernels.formats import binfile

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend

GROTH16 = 1
_PROTOCOLS = {2: "a PLONK", 10: "an FFLONK"}
_NAMES = {
    1: "protocol", 2: "header", 3: "IC points", 4: "coefficients", 5: "A points", 6: "B1 points",
    7: "B2 points", 8: "C points", 9: "H points", 10: "contributions",
}  # fmt: skip
COEF_BYTES = 12 + 32  # u32 matrix, u32 row, u32 wire, value
_HEADER_POINTS = (("alpha1", 1), ("beta1", 1), ("beta2", 2), ("gamma2", 2), ("delta1", 1), ("delta2", 2))


class Query:
    """One array of points: its name in messages, group (1 or 2), number of points, and mapped bytes."""

    __slots__ = ("count", "data", "group", "name")

    def __init__(self, name: str, group: int, count: int, data: memoryview) -> None:
        self.name, self.group, self.count, self.data = name, group, count, data


class Zkey:
    """An open proving key. Sizes and counts are validated, points only by `check`.

    n_vars, n_public, domain, n_coefs: counts; alpha1 ... delta2: affine points; ic, a, b1, b2, c, h: queries;
    coefs: n_coefs records of COEF_BYTES.
    """

    alpha1: Point
    beta1: Point
    beta2: Point
    gamma2: Point
    delta1: Point
    delta2: Point

    def __init__(self, path: binfile.Path) -> None:
        file = self.file = binfile.BinFile(path, b"zkey", 1, _NAMES)
        self.path = file.path
        self._checked: set[bool] = set()
        self._require_groth16()
        header = binfile.Reader(file, 2)
        q, r = header.prime(), header.prime()
        curve = self.curve = self._curve(q, r)
        self.n_vars, self.n_public, self.domain = header.u32(), header.u32(), header.u32()
        for name, group in _HEADER_POINTS:
            setattr(self, name, self._header_point(name, group, header))
        header.done()
        self._require_sound_counts()
        self.ic = self._query(3, "IC", 1, self.n_public + 1, "nPublic + 1")
        self.coefs, self.n_coefs = self._coefs()
        self.a = self._query(5, "A", 1, self.n_vars, "nVars")
        self.b1 = self._query(6, "B1", 1, self.n_vars, "nVars")
        self.b2 = self._query(7, "B2", 2, self.n_vars, "nVars")
        self.c = self._query(8, "C", 1, self.n_vars - self.n_public - 1, "nVars - nPublic - 1")
        self.h = self._query(9, "H", 1, self.domain, "domain size")
        self.size_bytes = file.size
        self.label = f"{curve.label}, {self.n_vars} wires, {self.n_public} public, domain {self.domain}"

    def _require_groth16(self) -> None:
        section = binfile.Reader(self.file, 1)
        protocol = section.u32()
        section.done()
        if protocol != GROTH16:
            kind = _PROTOCOLS.get(protocol, "an unknown kind of")
            raise self.file.error(
                f"this is {kind} zkey (protocol id {protocol}); a Groth16 zkey (protocol id 1) is needed"
            )

    def _curve(self, q: int, r: int) -> Curve:
        by_r, by_q = curves.by_scalar_prime(r), curves.by_base_prime(q)
        if by_r is None or by_q is None:
            field = "scalar" if by_r is None else "base"
            raise self.file.error(f"unknown {field} field; supported: {curves.SUPPORTED}")
        if by_r is not by_q:
            raise self.file.error(
                f"the two primes in the header belong to different curves: "
                f"the base field is {by_q.label}'s, the scalar field {by_r.label}'s"
            )
        return by_r

    def _header_point(self, name: str, group: int, header: binfile.Reader) -> Point:
        curve = self.curve
        data = header.take(curve.point_bytes(group))
        if any(value >= curve.q for value in curve.raw_coordinates(group, data, 0)):
            raise self.file.error(f"{name} has a coordinate that is not below the prime; the key is damaged")
        point = curve.decode(group, data)
        if point is None:
            raise self.file.error(f"{name} is the point at infinity; the key is damaged")
        if not curve.group(group).on_curve(point):
            raise self.file.error(f"{name} is not on the curve; the key is damaged")
        return point

    def _require_sound_counts(self) -> None:
        n = self.domain
        if n == 0 or n & (n - 1):
            raise self.file.error(f"domain size {n} is not a power of two")
        if 2 * n > 1 << self.curve.two_adicity:
            raise self.file.error(f"domain size {n} is too large for {self.curve.label}")
        if self.n_public >= self.n_vars:
            raise self.file.error(f"the header claims {self.n_public} public values of {self.n_vars} wires")

    def _query(self, section: int, name: str, group: int, count: int, why: str) -> Query:
        data = self.file.exact(section, count, self.curve.point_bytes(group), f"{why} = {count} points")
        return Query(name, group, count, data)

    def _coefs(self) -> tuple[memoryview, int]:
        section = self.file.section(4)
        count = binfile.Reader(self.file, 4).u32()
        holds, rest = divmod(len(section) - 4, COEF_BYTES)
        if count != holds or rest:
            problem = "more" if count > holds else "fewer"
            raise self.file.error(
                f"section 4 claims {problem} coefficients than it holds: {count} claimed, "
                f"{len(section) - 4} bytes there, {COEF_BYTES} each"
            )
        return section[4:], count

    @property
    def queries(self) -> tuple[Query, ...]:
        return self.ic, self.a, self.b1, self.b2, self.c, self.h

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about a key that is otherwise sound."""
        if self.delta2 == self.gamma2:
            return (
                f"{self.path}: delta equals gamma: this key had no phase 2 contribution, "
                "so anyone can forge proofs under it",
            )
        return ()

    def check(self, backend: "Backend", subgroup: bool = False) -> None:
        """Raise InputError for the first point not reduced, off the curve or, if asked, off the subgroup.

        Done once for each open key. Coefficients are checked when they are used (`Backend.eval_ab`).
        """
        if subgroup in self._checked or True in self._checked:  # the subgroup check includes the other
            return
        if subgroup:
            for name, group in _HEADER_POINTS:
                if not self.curve.group(group).in_subgroup(getattr(self, name)):
                    raise self.file.error(f"{name} is not in the subgroup; the key is damaged or forged")
        for query in self.queries:
            bad = backend.point_check(self.curve, query.group, query.data, query.count, subgroup)
            if bad is not None:
                index, what = bad
                problem = (
                    "has a coordinate that is not below the prime" if what == NOT_REDUCED else f"is {what}"
                )
                raise self.file.error(f"{query.name} point {index} {problem}; the key is damaged")
        self._checked.add(subgroup)

    def coef_error(self, bad: CoefError) -> InputError:
        """The line for a coefficient record that names something the key does not have."""
        if bad.what == "wire":
            there = f"wire {bad.value}, there are {self.n_vars}"
        elif bad.what == "row":
            there = f"row {bad.value}, outside the domain of size {self.domain}"
        else:
            there = f"matrix {bad.value}, there are 0 (A) and 1 (B)"
        return self.file.error(f"coefficient {bad.index} names {there}; the key is damaged")


def open(path: binfile.Path) -> Zkey:
    """Open and validate a proving key in time independent of its size."""
    return Zkey(path)


def write(
    path: binfile.Path, curve: Curve, *, n_public: int, domain: int,
    header_points: dict[str, Point], coefs: bytes, queries: dict[int, bytes],
) -> None:  # fmt: skip
    """Write a key atomically, in snarkjs's section order, without contributions.

    header_points: affine, by name; coefs: records of COEF_BYTES; queries: points by section (3, 5-9).
    """
    n_vars = len(queries[5]) // curve.point_bytes(1)
    header = binfile.prime(curve.q, curve.n8q) + binfile.prime(curve.r, curve.n8r)
    header += b"".join(map(binfile.u32, (n_vars, n_public, domain)))
    points = [curve.encode(group, header_points[name]) for name, group in _HEADER_POINTS]
    no_contribution = bytes(64) + binfile.u32(0)
    sections: list[tuple[int, list[bytes]]] = [
        (1, [binfile.u32(GROTH16)]),
        (2, [header, *points]),
        (3, [queries[3]]),
        (4, [binfile.u32(len(coefs) // COEF_BYTES), coefs]),
        *((section, [queries[section]]) for section in range(5, 10)),
        (10, [no_contribution]),
    ]
    binfile.write(path, b"zkey", 1, sections)
