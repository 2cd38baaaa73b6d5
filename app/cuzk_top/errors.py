"""What a user can cause, as one clear line each: `str(error)` names file, place and remedy."""

import signal


class CuzkTopError(Exception):
    """Base of everything the viewer raises on purpose. `exit_code` is that of the command line."""

    exit_code = 2


class InputError(CuzkTopError):
    """A file or argument that cannot be used."""


class TraceError(InputError):
    """A saved trace that cannot be read."""


class RingError(InputError):
    """A ring file that cannot be read."""


class NoSessionError(CuzkTopError):
    """No traced process where one was asked for."""


class MissingError(CuzkTopError):
    """Something this machine lacks."""

    exit_code = 3


class EndedError(CuzkTopError):
    """A signal asked the program to end; exit codes as shells have them."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number
