"""What a back end can do: the only place where the prover meets vectors and many points.

Vectors never become Python lists on the native path: they are opaque handles (`Vec`, `Scalars`) that the
back end owns. Shapes are counts of elements, sizes are bytes. File data comes in as memoryviews over a
private writable mapping, so that an address can be taken without a copy.

Field elements of a `Vec` are of the scalar field Fr, in whatever form the back end likes (Montgomery on
the native one); `Scalars` are plain little-endian 32-byte integers below r, ready for an MSM. Transforms
use snarkjs's roots of unity (`Curve.root_of_unity`) in natural order on both sides.
"""

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from cuzk_kernels.curves import Curve, Point

from cuzk_kernels.errors import CoefError

__all__ = ["Backend", "CoefError", "MsmSteps", "Scalars", "Vec"]

NOT_REDUCED = "coordinate not below the prime"
OFF_CURVE = "not on the curve"
WRONG_SUBGROUP = "not in the subgroup"


class MsmSteps(NamedTuple):
    """The span objects entered around the phases of one MSM (context managers; see cuzk_tracer.span)."""

    digits: Any
    accumulate: Any
    reduce: Any
    horner: Any


Handle = Any  # a Vec or Scalars that came from the same back end: each knows only its own


class Vec(Protocol):
    """A vector over Fr of one curve; its length is the domain, a power of two."""

    def __len__(self) -> int: ...

    def tobytes(self) -> bytes:
        """The values as plain (not Montgomery) little-endian integers of 32 bytes: for tests and reports."""


class Scalars(Protocol):
    """Plain scalars below r."""

    def __len__(self) -> int: ...

    def tobytes(self) -> bytes:
        """Little-endian integers of 32 bytes."""


class Backend(Protocol):
    """One implementation of the prover's bulk arithmetic.

    name: "native" or "python". threads: workers an MSM may use.
    """

    name: str
    threads: int

    def point_check(
        self, curve: "Curve", group: int, points: memoryview, count: int, subgroup: bool
    ) -> tuple[int, str] | None:
        """The lowest bad point of `count` packed file points and what is wrong with it, or None.

        What is one of NOT_REDUCED, OFF_CURVE and, with `subgroup`, WRONG_SUBGROUP. Infinity (all zeros) is
        sound. points: count * curve.point_bytes(group) bytes, Montgomery form.
        """

    def witness_check(self, curve: "Curve", witness: memoryview, count: int) -> int | None:
        """Index of the first of `count` plain 32-byte values that is not below r, or None."""

    def eval_ab(
        self, curve: "Curve", coefs: memoryview, n_coefs: int, witness: memoryview, n_vars: int, domain: int
    ) -> tuple[Vec, Vec]:
        """The sparse products A*w and B*w, each of length `domain`.

        coefs: n_coefs records of a zkey's section 4, behind its count: u32 matrix (0 = A, 1 = B), u32 row,
        u32 wire, then the value times R^2 (R = 2^256), 32 bytes; 44 bytes each, unaligned, in any order.
        witness: n_vars plain values. Raises CoefError for a matrix above 1, a row not below `domain` or a
        wire not below n_vars, the lowest such record, before anything outside the buffers is touched.
        """

    def product(self, a: Handle, b: Handle) -> Vec:
        """The row by row product a o b, a new vector."""

    def intt(self, v: Handle) -> None:
        """Values on the n-th roots of unity to coefficients, 1/n included, in place."""

    def coset(self, v: Handle) -> None:
        """Multiply coefficient i by w_2n^i, in place: a following `ntt` evaluates on the odd 2n-th roots."""

    def ntt(self, v: Handle) -> None:
        """Coefficients to values on the n-th roots of unity, in place."""

    def pointwise(self, a: Handle, b: Handle, c: Handle) -> Scalars:
        """a*b - c row by row, out of Montgomery form: the scalars of the H query."""

    def scalars(self, curve: "Curve", data: memoryview, count: int) -> Scalars:
        """`count` plain 32-byte little-endian values, such as a witness, without a copy where possible."""

    def window_bits(
        self, curve: "Curve", group: int, count: int, scalars: "Any | None" = None, offset: int = 0
    ) -> int:
        """Digit width an MSM of `count` points from `offset` will use; shown in the trace.

        A back end may fit it to the scalars: a witness of zeros and ones wants narrower digits.
        """

    def msm(
        self,
        curve: "Curve",
        group: int,
        points: memoryview,
        scalars: Handle,
        offset: int,
        count: int,
        steps: MsmSteps,
    ) -> "Point":
        """sum over i < count of scalars[offset + i] * points[i], affine; None is infinity.

        points: `count` packed file points. Each step the implementation has is entered once, in order.
        """

    def fixed_base(self, curve: "Curve", group: int, base: "Point", scalars: Handle, count: int) -> bytes:
        """scalars[i] * base for i < count, packed as in a zkey (affine, Montgomery, zeros for infinity)."""

    def name_workers(self, span: object) -> None:
        """Let worker threads write spans of their own from now on, named like this one with `.worker`.

        None: no more. A back end without worker threads does nothing.
        """

    def take_faults(self) -> tuple[int, int]:
        """Minor and major page faults of worker threads since the last call; (0, 0) without any."""
