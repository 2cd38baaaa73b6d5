"""A Groth16 prover whose every stage is traced.

`prove` and `verify` are loaded on first use: importing the package costs nothing.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cuzk_kernels.groth16 import prove as prove
    from cuzk_kernels.verifier import verify as verify

__all__ = ["prove", "verify"]


def __getattr__(name: str) -> object:
    if name == "prove":
        from cuzk_kernels.groth16 import prove  # noqa: PLC0415

        return prove
    if name == "verify":
        from cuzk_kernels.verifier import verify  # noqa: PLC0415

        return verify
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
