"""What a terminal must be told between two styles: only what changes (ECMA-48, 8.3.117)."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from rich.color import Color, ColorSystem
from rich.style import Style


class Look(NamedTuple):
    """SGR parameters of one style."""

    fg: str = "39"
    bg: str = "49"
    weight: str = "22"
    """Bold and dim: both are taken back by 22."""
    reverse: str = "27"


PLAIN = Look()


def _codes(color: Color | None, system: ColorSystem, foreground: bool) -> str:
    if color is None:
        return "39" if foreground else "49"
    return ";".join(color.downgrade(system).get_ansi_codes(foreground))


@lru_cache(maxsize=4096)
def look(style: Style, system: ColorSystem) -> Look:
    """The parameters of a style where the terminal has so many colours."""
    fg, bg = _codes(style.color, system, True), _codes(style.bgcolor, system, False)
    weight = ";".join(["22", *(["1"] if style.bold else []), *(["2"] if style.dim else [])])
    return Look(fg, bg, weight, "7" if style.reverse else "27")


@lru_cache(maxsize=4096)
def step(now: Look, wanted: Look) -> str:
    """The control sequence from one look to the next; empty where they are equal."""
    changes = [new for new, old in zip(wanted, now, strict=True) if new != old]
    return f"\x1b[{';'.join(changes)}m" if changes else ""
