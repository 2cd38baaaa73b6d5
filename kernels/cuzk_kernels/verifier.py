"""Checking a Groth16 proof: e(A, B) = e(alpha1, beta2) * e(IC_0 + sum w_i IC_i, gamma2) * e(C, delta2).

Everything a pairing library may take for granted is checked first: coordinates below the base prime, points
on the curve and in the subgroup of order r, as many public values as the key takes, each below the scalar
prime. The pairings come from a library (see `pairing`). The module is not called `verify` because
`cuzk_kernels.verify` is the function.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuzk_kernels.curves import Curve, Point
from cuzk_kernels.errors import InputError
from cuzk_kernels.formats import proof as proof_format
from cuzk_kernels.formats import public as public_format
from cuzk_kernels.formats import vkey as vkey_format

if TYPE_CHECKING:
    from cuzk_kernels.pairing import Pairing

Path = str | os.PathLike[str]

INVALID = (
    "the proof is invalid (the pairing check fails): it was made with another key, it was altered, "
    "or it is not for these public values"
)


def verify(
    vkey: "vkey_format.VKey | Path", public: Sequence[int] | Path, proof: "proof_format.Proof | Path"
) -> bool:
    """Whether the proof shows the public values under the key; paths or opened objects.

    Malformed input, a wrong curve, a wrong number of public values or a point that is not on the curve is an
    InputError; False is a well-formed proof that does not verify.
    """
    if not isinstance(vkey, vkey_format.VKey):
        vkey = vkey_format.open(vkey)
    if isinstance(public, str | os.PathLike):
        public = public_format.open(public)
    if not isinstance(proof, proof_format.Proof):
        proof = proof_format.open(proof)
    if proof.curve is not None and proof.curve is not vkey.curve:
        raise InputError(
            f"{proof.path}: the proof is over {proof.curve.label}, "
            f"the key {vkey.path} over {vkey.curve.label}"
        )
    pairing = choose(vkey.curve)
    _require_sound_key(vkey, pairing)
    _require_sound_public(vkey, public)
    bad = problem_of_proof(vkey.curve, proof, pairing)
    if bad is not None:
        raise InputError(f"{proof.path}: {bad}")
    return holds(vkey, public, proof, pairing)


def choose(curve: Curve) -> "Pairing":
    """The quickest pairing library this machine has for the curve; its `name` says which."""
    from cuzk_kernels import pairing  # noqa: PLC0415 (not needed until something is verified)

    return pairing.choose(curve)


def holds(
    vkey: vkey_format.VKey, public: Sequence[int], proof: proof_format.Proof, pairing: "Pairing"
) -> bool:
    """The pairing equation itself, over inputs that were checked."""
    inputs = pairing.combine(vkey.ic, [1, *public])
    return pairing.product_is_one(
        [
            (vkey.curve.g1.neg(proof.a), proof.b),
            (vkey.alpha1, vkey.beta2),
            (inputs, vkey.gamma2),
            (proof.c, vkey.delta2),
        ]
    )


def problem_of_proof(curve: Curve, proof: proof_format.Proof, pairing: "Pairing") -> str | None:
    """What is wrong with a point of the proof, or None."""
    for name, group, point in (("pi_a", 1, proof.a), ("pi_b", 2, proof.b), ("pi_c", 1, proof.c)):
        bad = _problem_of_point(curve, group, point, pairing)
        if bad is not None:
            hint = ""
            if group == 2 and _sound_when_swapped(curve, point):
                hint = "; its halves may be in Solidity order (c1 before c0): swap them"
            return f"{name} {bad}{hint}"
    return None


def _problem_of_point(curve: Curve, group: int, point: Point, pairing: "Pairing") -> str | None:
    points = curve.group(group)
    if not points.reduced(point):
        return "has a coordinate that is not below the base prime"
    if not points.on_curve(point):
        return "is not on the curve"
    if not pairing.in_subgroup(group, point):
        return "is not in the subgroup"
    return None


def _sound_when_swapped(curve: Curve, point: Point) -> bool:
    if point is None:
        return False
    (x0, x1), (y0, y1) = point
    swapped = (x1, x0), (y1, y0)
    return curve.g2.reduced(swapped) and curve.g2.on_curve(swapped)


def _require_sound_key(vkey: vkey_format.VKey, pairing: "Pairing") -> None:
    named: list[tuple[str, int, Point]] = [
        ("vk_alpha_1", 1, vkey.alpha1), ("vk_beta_2", 2, vkey.beta2),
        ("vk_gamma_2", 2, vkey.gamma2), ("vk_delta_2", 2, vkey.delta2),
    ]  # fmt: skip
    for name, group, point in named:
        bad = _problem_of_point(vkey.curve, group, point, pairing)
        if bad is None and point is None:
            bad = "is the point at infinity; the key is damaged"
        if bad is not None:
            raise InputError(f"{vkey.path}: {name} {bad}")
    for index, point in enumerate(vkey.ic):
        bad = _problem_of_point(vkey.curve, 1, point, pairing)
        if bad is not None:
            raise InputError(f"{vkey.path}: IC point {index} {bad}")


def _require_sound_public(vkey: vkey_format.VKey, public: Sequence[int]) -> None:
    path = getattr(public, "path", "the public values")
    takes = len(vkey.ic) - 1
    if len(public) != takes:
        raise InputError(f"{path}: the key {vkey.path} takes {takes} public values, {len(public)} given")
    for index, value in enumerate(public):
        if not 0 <= value < vkey.curve.r:
            raise InputError(
                f"{path}: public value {index} is not below the scalar prime of {vkey.curve.label}"
            )
