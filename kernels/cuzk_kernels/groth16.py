"""The Groth16 prover: the formulas, one traced span a stage.

With w the witness (w_0 = 1), l public values, n the domain, and r, s drawn anew for each proof:

    a, b = A.w, B.w on the n-th roots of unity; c = a o b
    h_i  = a*b - c at w_2n^(2i+1), the odd points of the doubled domain
    A    = alpha1 + sum w_i A_i + r delta1
    B    = beta2 + sum w_i B2_i + s delta2            (and B1 likewise in G1)
    C    = sum_{i>l} w_i C_i + sum h_i H_i + s A + r B1 - r s delta1

Groth, "On the Size of Pairing-based Non-interactive Arguments", EUROCRYPT 2016, with the H query of snarkjs:
a*b - c vanishes on the even points, so its values on the odd ones determine it, and no division is needed.
C's coefficients are not in a .zkey, so a wrong witness yields a well-formed, invalid proof: every proof is
verified before `prove` returns it.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import cuzk_tracer
from cuzk_kernels import verifier
from cuzk_kernels.backend import choose
from cuzk_kernels.backend.protocol import CoefError, MsmSteps
from cuzk_kernels.curves import Point
from cuzk_kernels.errors import InputError, InvalidProof, MissingError, UnsatisfiedWitness
from cuzk_kernels.formats import r1cs as r1cs_format
from cuzk_kernels.formats import vkey as vkey_format
from cuzk_kernels.formats import wtns as wtns_format
from cuzk_kernels.formats import zkey as zkey_format
from cuzk_kernels.formats.proof import Proof
from cuzk_kernels.formats.r1cs import R1cs
from cuzk_kernels.formats.wtns import Wtns
from cuzk_kernels.formats.zkey import Query, Zkey

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend, Scalars

Path = str | os.PathLike[str]


def _stage(name: str, a0: str = "", a1: str = "") -> Any:
    return cuzk_tracer.span(name, a0=a0, a1=a1, stage=True, faults=True)


class _MsmSpans:
    """The span of one multi-scalar multiplication and those of its phases."""

    def __init__(self, name: str) -> None:
        self.whole = _stage(name, "points", "window_bits")
        self.steps = MsmSteps(*(cuzk_tracer.span(f"{name}.{step}") for step in MsmSteps._fields))


PROVE = _stage("prove", "wires", "domain")
KEY_LOAD = _stage("key.load")
CHECK_POINTS = _stage("check.points", "points")
CHECK_R1CS = _stage("check.r1cs", "constraints")
SYNTHESIS = _stage("synthesis")
WITNESS_LOAD = _stage("synthesis.witness.load")
ABC_EVAL = _stage("synthesis.abc.eval", "coefficients")
QUOTIENT = _stage("quotient", "domain")
INTT = tuple(_stage(f"quotient.intt.{name}", "domain") for name in "abc")
COSET = _stage("quotient.coset", "domain")
NTT = tuple(_stage(f"quotient.ntt.{name}", "domain") for name in "abc")
POINTWISE = _stage("quotient.pointwise", "domain")
MSM_H = _MsmSpans("msm.h")
MSM_L = _MsmSpans("msm.l")
MSM_A = _MsmSpans("msm.a")
MSM_B_G1 = _MsmSpans("msm.b_g1")
MSM_B_G2 = _MsmSpans("msm.b_g2")
_UNTRACED = MsmSteps(*(nullcontext() for _ in MsmSteps._fields))
FINALIZE_C = _stage("finalize.c")
FINALIZE = _stage("finalize")
VERIFY = _stage("verify")


class Proved:
    """A verified proof; unpacks as `proof, public`.

    notes: lines the user should see; verifier: the library that checked the pairing.
    """

    def __init__(self, proof: Proof, public: list[int], notes: tuple[str, ...], verified_by: str) -> None:
        self.proof, self.public, self.notes, self.verifier = proof, public, notes, verified_by

    def __iter__(self) -> Iterator[Any]:
        return iter((self.proof, self.public))


def prove(
    key: Zkey | Path,
    wtns: Wtns | Path,
    *,
    backend: "Backend | None" = None,
    check_key: bool = False,
    r1cs: R1cs | Path | None = None,
    test_only_blinding: tuple[int, int] | None = None,
) -> Proved:
    """Prove that the witness satisfies the key's circuit, and verify the proof.

    check_key: check every point's subgroup too, as for a key from strangers. r1cs: check the witness against
    it first and name the first constraint it breaks. test_only_blinding: fixed (r, s) for reproducible tests;
    a proof made with known ones hides nothing.

    Raises InputError for malformed or mismatched files, UnsatisfiedWitness, and InvalidProof when the
    finished proof does not verify.
    """
    backend = backend or choose()[0]
    with PROVE:
        with _held(backend):
            with KEY_LOAD:
                key = key if isinstance(key, Zkey) else zkey_format.open(key)
                cuzk_tracer.meta(
                    curve=key.curve.name, domain=key.domain, wires=key.n_vars, coefficients=key.n_coefs
                )
                _check_points(backend, key, subgroup=check_key)
            with SYNTHESIS:
                with _native(WITNESS_LOAD, backend):
                    wtns = wtns if isinstance(wtns, Wtns) else wtns_format.open(wtns)
                    _require_same_circuit(key, wtns)
                    wtns.check(backend)
                if r1cs is not None:
                    _check_r1cs(r1cs if isinstance(r1cs, R1cs) else r1cs_format.open(r1cs), key, wtns)
                with _native(ABC_EVAL(key.n_coefs), backend):
                    a, b = _evaluate(backend, key, wtns)
                    c = backend.product(a, b)
            h = _quotient(backend, a, b, c)
            w = backend.scalars(key.curve, wtns.data, key.n_vars)
            blinding = test_only_blinding or _draw_blinding(key.curve.r)
            proof = _multiply(backend, key, w, h, blinding)
        public = [wtns.value(index) for index in range(1, key.n_public + 1)]
        with VERIFY:
            sound = _self_check(key, public, proof)
        if not sound:
            _explain_failure(backend, key, wtns, with_r1cs=r1cs is not None)
        notes = (*key.notes, *getattr(backend, "notes", ()))
        return Proved(proof, public, notes, verifier.choose(key.curve).name)


def _held(backend: "Backend") -> Any:
    """What the proof claims of a back end's devices, as that tells it; nothing on the CPU."""
    held: Any = getattr(backend, "held", nullcontext)
    return held()


def _quotient(backend: "Backend", a: Any, b: Any, c: Any) -> "Scalars":
    """h_i = a*b - c at the odd points of the doubled domain; a, b, c are values on the even ones."""
    n = len(a)
    with QUOTIENT(n):
        for span, v in zip(INTT, (a, b, c), strict=True):
            with _native(span(n), backend):
                backend.intt(v)
        with _native(COSET(n), backend):
            for v in (a, b, c):
                backend.coset(v)
        for span, v in zip(NTT, (a, b, c), strict=True):
            with _native(span(n), backend):
                backend.ntt(v)
        with _native(POINTWISE(n), backend):
            return backend.pointwise(a, b, c)


def _multiply(
    backend: "Backend", key: Zkey, w: "Scalars", h_values: "Scalars", blinding: tuple[int, int]
) -> Proof:
    """A, B and C from the five sums, all begun before the first is waited for where the back end can.

    B in G2 takes longest. On a GPU, A, C and what blinds B are done beside it. On the host beside a GPU it is
    begun before all others, and A, C and the blinding need the same threads: they come after it.
    """
    r, s = blinding
    first_private = key.n_public + 1
    b2_place: str | None = getattr(backend, "b_g2", None)  # of a back end with devices
    sum_b2 = _msm(backend, MSM_B_G2, key, key.b2, w) if b2_place == "cpu" else None
    sum_h = _msm(backend, MSM_H, key, key.h, h_values)
    sum_l = _msm(backend, MSM_L, key, key.c, w, offset=first_private)
    sum_a = _msm(backend, MSM_A, key, key.a, w)
    sum_b1 = _msm(backend, MSM_B_G1, key, key.b1, w)
    sum_b2 = sum_b2 or _msm(backend, MSM_B_G2, key, key.b2, w)
    sums = sum_h(), sum_l(), sum_a(), sum_b1()
    b2 = None if b2_place == "gpu" else sum_b2()
    with _native(FINALIZE_C, backend):
        a = _combine(backend, key, 1, (1, key.alpha1), (1, sums[2]), (r, key.delta1))
        b1 = _combine(backend, key, 1, (1, key.beta1), (1, sums[3]), (s, key.delta1))
        c = _combine(backend, key, 1, (1, sums[1]), (1, sums[0]), (s, a), (r, b1), (-r * s, key.delta1))
        blinded = _combine(backend, key, 2, (1, key.beta2), (s, key.delta2))
    if b2_place == "gpu":
        b2 = sum_b2()
    with _native(FINALIZE, backend):
        b = key.curve.group(2).add(blinded, b2)
    return Proof(key.curve, a, b, c)


def _msm(
    backend: "Backend", spans: _MsmSpans, key: Zkey, query: Query, scalars: "Scalars", *, offset: int = 0
) -> Callable[[], Point]:
    bits = backend.window_bits(key.curve, query.group, query.count, scalars, offset)
    begin: Any = getattr(backend, "msm_begin", None)
    with _native(spans.whole(query.count, bits), backend):
        job = key.curve, query.group, query.data, scalars, offset, query.count, spans.steps
        if begin is not None:
            return partial(_finish, spans.whole.name, begin(*job))
        result = backend.msm(*job)
        return lambda: result


def _finish(stage: str, job: Callable[[], Point]) -> Point:
    with _noticed_in(stage):
        return job()


def _combine(backend: "Backend", key: Zkey, group: int, *terms: tuple[int, Point]) -> Point:
    """The sum of scalar * point over a few terms: as an MSM it costs a tenth of Python integers' time."""
    curve = key.curve
    points = b"".join(curve.encode(group, point) for _, point in terms)
    scalars = b"".join((scalar % curve.r).to_bytes(32, "little") for scalar, _ in terms)
    values = backend.scalars(curve, memoryview(bytearray(scalars)), len(terms))
    return backend.msm(curve, group, memoryview(bytearray(points)), values, 0, len(terms), _UNTRACED)


def _draw_blinding(order: int) -> tuple[int, int]:
    return secrets.randbelow(order), secrets.randbelow(order)


@contextmanager
def _native(span: Any, backend: "Backend") -> Iterator[None]:
    """A stage whose work happens in the back end, page faults and spans of its worker threads included."""
    with span:
        backend.name_workers(span)
        try:
            with _noticed_in(span.name):
                yield
        finally:
            backend.name_workers(None)
            cuzk_tracer.add_faults(*backend.take_faults())


@contextmanager
def _noticed_in(stage: str) -> Iterator[None]:
    """What goes wrong on a device is told with the stage that met it: the one at fault, or one soon after."""
    try:
        yield
    except MissingError as error:
        raise MissingError(f"{stage}: {error}") from error


def _check_points(backend: "Backend", key: Zkey, subgroup: bool) -> None:
    with _native(CHECK_POINTS(sum(query.count for query in key.queries)), backend):
        key.check(backend, subgroup)


def _require_same_circuit(key: Zkey, wtns: Wtns) -> None:
    if wtns.curve is not key.curve:
        raise InputError(
            f"{wtns.path}: the witness is over {wtns.curve.label}, the zkey {key.path} over {key.curve.label}"
        )
    if wtns.count != key.n_vars:
        raise InputError(
            f"{wtns.path}: the witness has {wtns.count} values, the zkey {key.path} is for {key.n_vars}: "
            "they are of different circuits or builds"
        )


def _check_r1cs(r1cs: R1cs, key: Zkey, wtns: Wtns) -> None:
    """Require that the constraint system is the key's and that the witness satisfies it."""
    with CHECK_R1CS(r1cs.n_constraints):
        if r1cs.curve is not key.curve:
            raise _differ(r1cs, key, r1cs.curve.label, key.curve.label)
        if r1cs.n_wires != key.n_vars:
            raise _differ(r1cs, key, f"{r1cs.n_wires} wires", str(key.n_vars))
        if r1cs.n_public != key.n_public:
            raise _differ(r1cs, key, f"{r1cs.n_public} public values", str(key.n_public))
        rows = r1cs.n_constraints + r1cs.n_public + 1
        if rows > key.domain:
            raise _differ(r1cs, key, f"{rows} rows", f"a domain of {key.domain}")
        broken = r1cs.first_unsatisfied(wtns.data)
    if broken is not None:
        a, b, c = (_shorten(value, key.curve.r) for value in broken[1:])
        raise UnsatisfiedWitness(
            f"{wtns.path}: the witness does not satisfy constraint {broken.constraint} of {r1cs.path}: "
            f"A.w * B.w = {a} * {b}, but C.w = {c}; compute the witness again"
        )


def _differ(r1cs: R1cs, key: Zkey, of_r1cs: str, of_key: str) -> InputError:
    return InputError(f"{r1cs.path}: r1cs and zkey {key.path} differ: {of_r1cs} against {of_key}")


def _shorten(value: int, r: int) -> str:
    """A field element for people: small negative numbers as such, long ones abridged."""
    text = str(value - r if value > r >> 1 else value)
    return text if len(text) <= 16 else f"{text[:6]}...{text[-6:]}"


def _evaluate(backend: "Backend", key: Zkey, wtns: Wtns) -> tuple[Any, Any]:
    try:
        return backend.eval_ab(key.curve, key.coefs, key.n_coefs, wtns.data, key.n_vars, key.domain)
    except CoefError as bad:
        raise key.coef_error(bad) from None


def _self_check(key: Zkey, public: Sequence[int], proof: Proof) -> bool:
    """Whether the proof verifies; a point that a damaged key led astray counts as "no"."""
    try:
        return verifier.verify(vkey_format.from_zkey(key), public, proof)
    except InputError:
        return False  # `_explain_failure` names the bad point


def _explain_failure(backend: "Backend", key: Zkey, wtns: Wtns, with_r1cs: bool) -> None:
    """Raise the most precise error for a finished proof that does not verify."""
    _check_points(backend, key, subgroup=True)
    if with_r1cs:
        raise InvalidProof(
            f"{key.path}: the finished proof does not verify although the witness satisfies the r1cs: "
            "the key is damaged or was made from another build of the circuit"
        )
    raise InvalidProof(
        f"{key.path}: the finished proof does not verify: the witness {wtns.path} does not satisfy this key, "
        "or the key is damaged; with the circuit's .r1cs the first broken constraint can be named"
    )
