"""How much a running program traces: the one word of its ring that others may write."""

import os

from cuzk_top.errors import RingError
from cuzk_tracer import layout, reader

LEVELS = {"off": layout.LEVEL_OFF, "coarse": layout.LEVEL_COARSE, "all": layout.LEVEL_ALL}

_OFFSET = next(offset for name, offset, _ in layout.HEADER if name == "enabled")


def set_level(path: str, level: str) -> None:
    """Switch the program that writes this ring to off, coarse (stages only) or all.

    A native writer looks at the word at every span; the one in pure Python once a second, and while it is off
    at the next stage. Raises RingError when the file is not a ring or not ours to write.
    """
    try:
        with reader.Ring(path) as ring:
            if not ring.alive():
                raise RingError(f"{path}: process {ring.pid} has ended: its detail cannot be changed")
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except reader.RingError as error:
        raise RingError(str(error)) from None
    except OSError as error:
        raise RingError(f"{path}: {error.strerror}") from error
    try:
        os.pwrite(descriptor, LEVELS[level].to_bytes(4, "little"), _OFFSET)
    finally:
        os.close(descriptor)
