"""Whether a terminal's background is dark or light: what the environment says, and what it answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

Background = Literal["dark", "light"]

QUESTION = "\x1b]11;?\x1b\\"
"""xterm's question for the background's colour; others than xterm answer it too, or ignore it."""
ANSWER = re.compile(r"\x1b\]11;([^\x07\x1b]*)(?:\x07|\x1b\\)")
UNASKED = ("dumb", "linux", "vt", "ansi", "cons")
"""Beginnings of TERM of terminals that print such a question, or have one background."""

_FIELDS = re.compile(
    r"rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})(?:/[0-9a-f]{1,4})?", re.IGNORECASE
)
_DIGITS = re.compile(r"#((?:[0-9a-f]{3}){1,4})", re.IGNORECASE)
_LIGHT_INDICES = frozenset({7, 15})
"""Of the 16 colours: white and bright white."""


def asks(env: Mapping[str, str]) -> bool:
    """Whether a terminal of this kind may be asked."""
    term = env.get("TERM", "")
    return bool(term) and not term.startswith(UNASKED)


def told(colour: str) -> Background | None:
    """What the colour in an answer is (X11's ``rgb:ffff/ffff/ffff`` or ``#ffffff``); None: not understood."""
    fields, digits = _FIELDS.fullmatch(colour), _DIGITS.fullmatch(colour)
    if fields is not None:
        parts = fields.groups()
    elif digits is not None:
        size = len(digits[1]) // 3
        parts = tuple(digits[1][at : at + size] for at in range(0, 3 * size, size))
    else:
        return None
    red, green, blue = (int(part, 16) / (16 ** len(part) - 1) for part in parts)
    # Luma of ITU-R BT.601: where the eye sees middle grey.
    return "light" if 0.299 * red + 0.587 * green + 0.114 * blue > 0.5 else "dark"


def of_environment(env: Mapping[str, str]) -> Background | None:
    """What COLORFGBG says (``15;0``: foreground, perhaps more, background), where a terminal sets it."""
    last = env.get("COLORFGBG", "").rpartition(";")[2]
    if not last.isdecimal() or int(last) > 15:
        return None
    return "light" if int(last) in _LIGHT_INDICES else "dark"
