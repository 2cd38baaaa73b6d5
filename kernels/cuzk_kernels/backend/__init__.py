"""The choice of a back end."""

from typing import TYPE_CHECKING

from cuzk_kernels.errors import InputError, MissingError

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend

NAMES = ("auto", "native", "python")


def choose(name: str = "auto") -> "Backend":
    """The back end of that name; "auto" takes the native one where it is built, else pure Python.

    Raises MissingError when "native" is asked for and cannot be loaded, InputError for another name.
    """
    if name not in NAMES:
        raise InputError(f"unknown back end {name!r}: choose one of {', '.join(NAMES)}")
    if name != "python":
        from cuzk_kernels.backend import native  # noqa: PLC0415

        reason = native.available()
        if reason is None:
            return native.NativeBackend()
        if name == "native":
            raise MissingError(f"the native back end cannot be used: {reason}")
    from cuzk_kernels.backend import pure  # noqa: PLC0415

    return pure.PureBackend()
