"""A strip that sends the terminal only what changes from run to run."""

from __future__ import annotations

from functools import lru_cache
from typing import ClassVar, NamedTuple

from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual.strip import Strip


class _Look(NamedTuple):
    """SGR parameters of one style (ECMA-48, 8.3.117)."""

    fg: str = "39"
    bg: str = "49"
    weight: str = "22"
    """Bold and dim: both are taken back by 22."""
    reverse: str = "27"


class _Step(NamedTuple):
    """From one look to the next. Keeps both ends, so that no other objects can get their identities."""

    codes: str
    look: _Look
    before: _Look
    style: Style | None


PLAIN = _Look()
_STEPS_KEPT = 16_384


def _codes(color: Color | None, system: ColorSystem, foreground: bool) -> str:
    if color is None:
        return "39" if foreground else "49"
    return ";".join(color.downgrade(system).get_ansi_codes(foreground))


def _look(style: Style | None, system: ColorSystem) -> _Look:
    if style is None:
        return PLAIN
    fg, bg = _codes(style.color, system, True), _codes(style.bgcolor, system, False)
    weight = ";".join(["22", *(["1"] if style.bold else []), *(["2"] if style.dim else [])])
    return _Look(fg, bg, weight, "7" if style.reverse else "27")


@lru_cache(maxsize=4096)
def _interned(look: _Look) -> _Look:
    return look


def _step(now: _Look, style: Style | None, blank: bool, system: ColorSystem) -> _Step:
    wanted = _look(style, system)
    if blank and wanted.reverse == now.reverse == "27":
        wanted = now._replace(bg=wanted.bg)
    changes = [new for new, old in zip(wanted, now, strict=True) if new != old]
    return _Step(f"\x1b[{';'.join(changes)}m" if changes else "", _interned(wanted), now, style)


class Row(Strip):
    """Textual writes the whole style of each run and a reset behind it, which for rows of many short runs is
    most of what goes over the line. Of a blank only the background is seen, so only that is sent.
    """

    __slots__ = ("_written",)
    _written: str

    _steps: ClassVar[dict[tuple[int, int, bool, ColorSystem], _Step]] = {}
    """By identity of both ends: styles are interned, and hashing one costs more than all else here."""

    def render(self, console: Console) -> str:
        """The row as control sequences and text; begins and ends with the terminal's own colours."""
        try:
            return self._written
        except AttributeError:
            pass
        system = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        steps = self._steps
        if len(steps) > _STEPS_KEPT:
            steps.clear()
        parts: list[str] = []
        now = PLAIN
        for text, style, _ in self:
            blank = text.isspace()
            key = (id(now), id(style), blank, system)
            step = steps.get(key)
            if step is None:
                step = steps[key] = _step(now, style, blank, system)
            parts += (step.codes, text)
            now = step.look
        if now is not PLAIN and now != PLAIN:
            parts.append("\x1b[0m")
        self._written = "".join(parts)
        return self._written
