"""What can go wrong, as exceptions whose text is one line a user can act on.

`str(error)` names the file, the place in it, the problem and, where there is one, the remedy;
`error.exit_code` is the exit status of the command that met it.
"""


class CuzkError(Exception):
    """Base of every error the prover raises on purpose."""

    exit_code = 1


class InputError(CuzkError):
    """A file or argument is malformed, or belongs to something else."""

    exit_code = 2


class MissingError(CuzkError):
    """This machine lacks something that was asked for."""

    exit_code = 3


class InvalidProof(CuzkError):  # noqa: N818 (a verdict, not a fault)
    """A well-formed proof does not verify."""


class UnsatisfiedWitness(CuzkError):  # noqa: N818 (a verdict, not a fault)
    """A well-formed witness breaks a constraint of its circuit."""


class CoefError(Exception):
    """A coefficient record names something that is not there; back ends raise it, `groth16` names the file.

    index: position of the record in the zkey's section 4.
    what: "matrix", "row" or "wire".
    value: the number the record holds.
    """

    def __init__(self, index: int, what: str, value: int) -> None:
        super().__init__(f"coefficient {index} names {what} {value}")
        self.index = index
        self.what = what
        self.value = value
