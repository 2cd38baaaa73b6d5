"""The native back end: `host/host.cpp`, built as the optional extension `_host` and loaded with ctypes.

Every call releases the interpreter's lock and works on all processors (CUZK_THREADS sets another number).
Vectors live in anonymous memory of their own and never become Python objects; file data is read where it
is mapped. Shapes are checked here; what comes out of files is checked by the library.
"""

import ctypes
from typing import TYPE_CHECKING, Self

from cuzk_kernels.backend.native_library import Borrowed, Memory, available, library
from cuzk_kernels.backend.protocol import NOT_REDUCED, OFF_CURVE, WRONG_SUBGROUP, MsmSteps
from cuzk_kernels.errors import CoefError

if TYPE_CHECKING:
    from cuzk_kernels.curves import Curve, Point

__all__ = ["NativeBackend", "NativeScalars", "NativeVec", "available"]

SCALAR_BYTES = 32
COEF_BYTES = 44
POINT_PROBLEMS = ("", NOT_REDUCED, OFF_CURVE, WRONG_SUBGROUP)  # PointProblem in host/points.hpp
COEF_PROBLEMS = ("matrix", "row", "wire")  # CoefProblem in host/quotient.hpp
CURVE_NUMBERS = {"bn254": 0, "bls12381": 1}


class NativeVec:
    """A vector over Fr in Montgomery form; `reversed` says that coefficients lie in bit-reversed order."""

    def __init__(self, curve: int, length: int) -> None:
        if length < 1 or length & (length - 1):
            raise ValueError(f"length {length} is not a power of two")
        self.curve = curve
        self.length = length
        self.log = length.bit_length() - 1
        self.reversed = False
        self.memory = Memory(SCALAR_BYTES * length)

    def __len__(self) -> int:
        return self.length

    @classmethod
    def of(cls, curve: "Curve", data: bytes) -> Self:
        """From plain little-endian integers of 32 bytes, in natural order."""
        vec = cls(CURVE_NUMBERS[curve.name], len(data) // SCALAR_BYTES)
        source = Borrowed(data, SCALAR_BYTES * vec.length)
        library().montgomery(vec.curve, source.address, vec.memory.address, vec.length, 1)
        return vec

    def tobytes(self) -> bytes:
        out = Memory(SCALAR_BYTES * self.length)
        library().montgomery(self.curve, self.memory.address, out.address, self.length, 0)
        if self.reversed:
            library().reorder(out.address, self.log)
        return bytes(out.view())


class NativeScalars:
    """Plain scalars at an address; `owner` keeps the memory alive."""

    def __init__(self, address: int | None, count: int, owner: object) -> None:
        self.address = address
        self.count = count
        self._owner = owner

    def __len__(self) -> int:
        return self.count

    def tobytes(self) -> bytes:
        return ctypes.string_at(self.address, SCALAR_BYTES * self.count) if self.address else b""


class NativeBackend:
    """The Backend protocol on the native library."""

    name = "native"

    def __init__(self) -> None:
        self._library = library()
        self.threads = int(self._library.threads())
        self._worker_names: dict[str, int] = {}

    def point_check(
        self, curve: "Curve", group: int, points: memoryview, count: int, subgroup: bool
    ) -> tuple[int, str] | None:
        source = Borrowed(points, count * curve.point_bytes(group))
        problem = ctypes.c_int()
        number = CURVE_NUMBERS[curve.name]
        index = self._library.point_check(
            number, group, source.address, count, subgroup, ctypes.addressof(problem)
        )
        return None if index == count else (index, POINT_PROBLEMS[problem.value])

    def witness_check(self, curve: "Curve", witness: memoryview, count: int) -> int | None:
        source = Borrowed(witness, count * SCALAR_BYTES)
        index = int(self._library.witness_check(CURVE_NUMBERS[curve.name], source.address, count))
        return None if index == count else index

    def eval_ab(
        self, curve: "Curve", coefs: memoryview, n_coefs: int, witness: memoryview, n_vars: int, domain: int
    ) -> tuple[NativeVec, NativeVec]:
        number = CURVE_NUMBERS[curve.name]
        a, b = NativeVec(number, domain), NativeVec(number, domain)
        records = Borrowed(coefs, n_coefs * COEF_BYTES)
        values = Borrowed(witness, n_vars * SCALAR_BYTES)
        error = (ctypes.c_uint64 * 2)()
        index = self._library.eval_ab(
            number, records.address, n_coefs, values.address, n_vars, domain,
            a.memory.address, b.memory.address, ctypes.addressof(error),
        )  # fmt: skip
        if index != n_coefs:
            raise CoefError(index, COEF_PROBLEMS[error[0]], error[1])
        return a, b

    def product(self, a: NativeVec, b: NativeVec) -> NativeVec:
        _check_alike(a, b)
        c = NativeVec(a.curve, a.length)
        c.reversed = a.reversed
        self._library.product(a.curve, a.memory.address, b.memory.address, c.memory.address, a.length)
        return c

    def intt(self, v: NativeVec) -> None:
        """Leaves the coefficients in bit-reversed order, where `coset` and `ntt` want them."""
        self._order(v, False)
        self._library.intt(v.curve, v.memory.address, v.log)
        v.reversed = True

    def coset(self, v: NativeVec) -> None:
        self._order(v, True)
        self._library.coset(v.curve, v.memory.address, v.log)

    def ntt(self, v: NativeVec) -> None:
        self._order(v, True)
        self._library.ntt(v.curve, v.memory.address, v.log)
        v.reversed = False

    def _order(self, v: NativeVec, want_reversed: bool) -> None:
        if v.reversed != want_reversed:
            self._library.reorder(v.memory.address, v.log)
            v.reversed = want_reversed

    def pointwise(self, a: NativeVec, b: NativeVec, c: NativeVec) -> NativeScalars:
        _check_alike(a, b)
        _check_alike(a, c)
        self._order(a, False)
        self._order(b, False)
        self._order(c, False)
        out = Memory(SCALAR_BYTES * a.length)
        self._library.pointwise(
            a.curve, a.memory.address, b.memory.address, c.memory.address, out.address, a.length
        )
        return NativeScalars(out.address, a.length, out)

    def scalars(self, curve: "Curve", data: memoryview, count: int) -> NativeScalars:  # noqa: ARG002 (plain)
        source = Borrowed(data, count * SCALAR_BYTES)
        return NativeScalars(source.address, count, source)

    def window_bits(
        self,
        curve: "Curve",
        group: int,  # noqa: ARG002 (G2 costs more, but in proportion)
        count: int,
        scalars: NativeScalars | None = None,
        offset: int = 0,
    ) -> int:
        """As the protocol says; with the scalars at hand the width fits how many of their digits are zero."""
        first = None
        if scalars is not None and scalars.address is not None:
            _check_range(scalars, offset, count)
            first = scalars.address + SCALAR_BYTES * offset
        return int(self._library.msm_window_bits(CURVE_NUMBERS[curve.name], first, count))

    def msm(
        self,
        curve: "Curve",
        group: int,
        points: memoryview,
        scalars: NativeScalars,
        offset: int,
        count: int,
        steps: MsmSteps,
    ) -> "Point":
        _check_range(scalars, offset, count)
        if count == 0:
            return None
        source = Borrowed(points, count * curve.point_bytes(group))
        assert scalars.address is not None
        number = CURVE_NUMBERS[curve.name]
        bits = self.window_bits(curve, group, count, scalars, offset)
        first = scalars.address + SCALAR_BYTES * offset
        handle = self._library.msm_begin(number, group, source.address, first, count, bits)
        try:
            with steps.digits:
                self.name_workers(steps.digits)
                self._library.msm_digits(handle)
            with steps.accumulate:
                self.name_workers(steps.accumulate)
                self._library.msm_accumulate(handle)
            with steps.reduce:
                self.name_workers(steps.reduce)
                self._library.msm_reduce(handle)
            out = ctypes.create_string_buffer(curve.point_bytes(group))
            with steps.horner:
                self._library.msm_horner(handle, ctypes.addressof(out))
        finally:
            self._library.msm_end(handle)
        return _plain_point(curve, group, out.raw)

    def fixed_base(
        self, curve: "Curve", group: int, base: "Point", scalars: NativeScalars, count: int
    ) -> bytes:
        _check_range(scalars, 0, count)
        encoded = Borrowed(curve.encode(group, base), curve.point_bytes(group))
        out = Memory(count * curve.point_bytes(group))
        number = CURVE_NUMBERS[curve.name]
        self._library.fixed_base(number, group, encoded.address, scalars.address, count, out.address)
        return bytes(out.view())

    def name_workers(self, span: object) -> None:
        text = getattr(span, "name", None)
        if text is not None and text not in self._worker_names:
            self._worker_names[text] = self._library.worker_name(f"{text}.worker".encode())
        self._library.worker_spans(self._worker_names.get(text))

    def take_faults(self) -> tuple[int, int]:
        pair = (ctypes.c_uint64 * 2)()
        self._library.take_faults(ctypes.addressof(pair))
        return pair[0], pair[1]


def _check_range(scalars: NativeScalars, offset: int, count: int) -> None:
    if offset < 0 or count < 0 or offset + count > scalars.count:
        raise ValueError(f"scalars {offset} to {offset + count} of {scalars.count}")


def _check_alike(a: NativeVec, b: NativeVec) -> None:
    if (a.curve, a.length) != (b.curve, b.length):
        raise ValueError("vectors of different lengths or curves")
    if a.reversed != b.reversed:
        raise ValueError("one vector holds values, the other coefficients")


def _plain_point(curve: "Curve", group: int, raw: bytes) -> "Point":
    size = curve.n8q
    values = [int.from_bytes(raw[i : i + size], "little") for i in range(0, len(raw), size)]
    if not any(values):
        return None
    return (values[0], values[1]) if group == 1 else ((values[0], values[1]), (values[2], values[3]))
