"""verification_key.json as snarkjs writes it."""

import os
from typing import Any

from cuzk_kernels import curves
from cuzk_kernels.curves import Curve, Point
from cuzk_kernels.formats import jsonfile
from cuzk_kernels.formats.zkey import Zkey


class VKey:
    """A verification key: curve, affine points alpha1, beta2, gamma2, delta2, and ic (nPublic + 1 of G1)."""

    __slots__ = ("alpha1", "beta2", "curve", "delta2", "gamma2", "ic", "path")

    def __init__(
        self, curve: Curve, *, alpha1: Point, beta2: Point, gamma2: Point, delta2: Point,
        ic: list[Point], path: str,
    ) -> None:  # fmt: skip
        self.curve, self.path = curve, path
        self.alpha1, self.beta2, self.gamma2, self.delta2, self.ic = alpha1, beta2, gamma2, delta2, ic

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know about a key that is otherwise sound."""
        if self.delta2 == self.gamma2:
            return (
                f"{self.path}: delta equals gamma: this key had no phase 2 contribution, "
                "so anyone can forge proofs under it",
            )
        return ()


def open(path: str | os.PathLike[str]) -> VKey:
    """Read a key; counts and shapes are checked here, points by the verifier."""
    file = jsonfile.JsonFile(path, "a verification key")
    data = file.require_object("verification_key.json")
    file.require_groth16(data, "a verification key")
    curve = file.curve(data)
    alpha1 = file.point(data, "vk_alpha_1", 1)
    beta2, gamma2, delta2 = (file.point(data, f"vk_{name}_2", 2) for name in ("beta", "gamma", "delta"))
    ic = _ic(file, data)
    if curve is None:
        curve = _guess(alpha1)
    if curve is None:
        raise file.error(f"the key names no curve, and vk_alpha_1 is on none of {curves.SUPPORTED}")
    return VKey(curve, alpha1=alpha1, beta2=beta2, gamma2=gamma2, delta2=delta2, ic=ic, path=file.path)


def _ic(file: jsonfile.JsonFile, data: dict[str, Any]) -> list[Point]:
    entries = data.get("IC")
    if not isinstance(entries, list):
        raise file.error(f"IC should be a list of points, it is {jsonfile.describe(entries)}")
    if not entries:
        raise file.error("IC is empty, it should hold nPublic + 1 points")
    n_public = file.number(data.get("nPublic", len(entries) - 1), "nPublic")
    if len(entries) != n_public + 1:
        raise file.error(f"IC should hold nPublic + 1 = {n_public + 1} points, it holds {len(entries)}")
    return [file.point_value(entry, f"IC point {index}", 1) for index, entry in enumerate(entries)]


def _guess(alpha1: Point) -> Curve | None:
    """The curve a key without a name is over: files of snarkjs before 0.3.33 have none."""
    if alpha1 is None:
        return None
    return next((c for c in curves.CURVES if c.g1.reduced(alpha1) and c.g1.on_curve(alpha1)), None)


def from_zkey(key: Zkey) -> VKey:
    """The verification key inside a proving key."""
    return VKey(
        key.curve, alpha1=key.alpha1, beta2=key.beta2, gamma2=key.gamma2, delta2=key.delta2,
        ic=[key.curve.decode(1, key.ic.data, index) for index in range(key.ic.count)], path=key.path,
    )  # fmt: skip


def write(path: str | os.PathLike[str], key: VKey) -> None:
    """Write a key atomically, without vk_alphabeta_12: a cache snarkjs can do without."""
    data: dict[str, object] = {
        "protocol": "groth16", "curve": key.curve.snarkjs_name, "nPublic": len(key.ic) - 1,
        "vk_alpha_1": jsonfile.point_strings(1, key.alpha1),
        "vk_beta_2": jsonfile.point_strings(2, key.beta2),
        "vk_gamma_2": jsonfile.point_strings(2, key.gamma2),
        "vk_delta_2": jsonfile.point_strings(2, key.delta2),
        "IC": [jsonfile.point_strings(1, point) for point in key.ic],
    }  # fmt: skip
    jsonfile.write(path, data)
