"""The choice of a back end."""

from typing import TYPE_CHECKING

from cuzk_kernels.errors import InputError, MissingError

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend

NAMES = ("auto", "native", "python")


def choose(name: str = "auto") -> tuple["Backend", str | None]:
    """The back end of that name, and why it is not the native one where "auto" had to do without.

    Raises MissingError when "native" is asked for and cannot be loaded, InputError for another name.
    """
    if name not in NAMES:
        raise InputError(f"unknown back end {name!r}: choose one of {', '.join(NAMES)}")
    reason = None
    if name != "python":
        from cuzk_kernels.backend import native  # noqa: PLC0415 (loads a shared library)

        reason = native.available()
        if reason is None:
            return native.NativeBackend(), None
        if name == "native":
            raise MissingError(f"the native back end cannot be used: {reason}")
    from cuzk_kernels.backend import pure  # noqa: PLC0415 (not needed beside the native one)

    return pure.PureBackend(), reason and f"proving in pure Python, which is slow: {reason}"
