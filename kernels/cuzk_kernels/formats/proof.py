"""proof.json as snarkjs writes it: pi_a, pi_b, pi_c, protocol, curve."""

import os

from cuzk_kernels.curves import Curve, Point
from cuzk_kernels.formats import jsonfile


class Proof:
    """A Groth16 proof: points a (G1), b (G2), c (G1), affine; curve is None where its file names none."""

    __slots__ = ("a", "b", "c", "curve", "path")

    def __init__(self, curve: Curve | None, a: Point, b: Point, c: Point, path: str = "the proof") -> None:
        self.curve, self.a, self.b, self.c, self.path = curve, a, b, c, path


def open(path: str | os.PathLike[str]) -> Proof:
    """Read a proof; whether its points are sound is for the verifier, which knows the curve."""
    file = jsonfile.JsonFile(path, "a proof")
    data = file.require_object("proof.json")
    file.require_groth16(data, "a proof")
    curve = file.curve(data)
    points = (file.point(data, name, group) for name, group in (("pi_a", 1), ("pi_b", 2), ("pi_c", 1)))
    a, b, c = points
    return Proof(curve, a, b, c, file.path)


def to_json(proof: Proof) -> dict[str, object]:
    assert proof.curve is not None
    return {
        "pi_a": jsonfile.point_strings(1, proof.a),
        "pi_b": jsonfile.point_strings(2, proof.b),
        "pi_c": jsonfile.point_strings(1, proof.c),
        "protocol": "groth16",
        "curve": proof.curve.snarkjs_name,
    }


def write(path: str | os.PathLike[str], proof: Proof) -> None:
    """Write a proof atomically; call it only with a proof that was verified."""
    jsonfile.write(path, to_json(proof))
