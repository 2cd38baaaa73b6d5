"""The environment as the user set it."""

from __future__ import annotations

import os
from pathlib import Path

COERCED = frozenset({"C.UTF-8", "C.utf8", "UTF-8"})
"""What Python puts into LC_CTYPE, for itself and all that it starts, where the locale is C (PEP 538)."""


def as_given(began_with: Path = Path("/proc/self/environ")) -> dict[str, str]:
    """All variables, without an LC_CTYPE that only Python set: it says nothing of the terminal.

    `began_with`: what the kernel handed to the process, which no change since has reached.
    """
    given = dict(os.environ)
    if given.get("LC_CTYPE") in COERCED and "LC_ALL" not in given:
        try:
            names = {entry.partition(b"=")[0] for entry in began_with.read_bytes().split(b"\0")}
        except OSError:
            return given
        if b"LC_CTYPE" not in names:
            del given["LC_CTYPE"]
    return given
