"""The files of circom's world: .zkey, .wtns, .r1cs and the JSON around a proof; one module a format."""

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuzk_kernels.groth16 import Proved


def write_result(
    proof_path: str | os.PathLike[str], public_path: str | os.PathLike[str], result: "Proved"
) -> None:
    """Write a verified proof and its public values, each atomically."""
    from cuzk_kernels.formats import proof, public  # noqa: PLC0415 (json is not needed to prove)

    proof.write(proof_path, result.proof)
    public.write(public_path, result.public)
