"""A small terminal: what stands in its cells after the bytes that a program wrote.

It knows the control sequences that full-screen programs use (ECMA-48 and xterm's list); any other raises, so
that nothing a test has not thought of passes in silence.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

from rich.cells import cell_len


class Look(NamedTuple):
    """How a cell is drawn. Colours: "" the terminal's own, ``n`` of the palette, ``r,g,b``."""

    fg: str = ""
    bg: str = ""
    bold: bool = False
    dim: bool = False
    reverse: bool = False
    other: frozenset[int] = frozenset()
    """Italic 3, underline 4, blink 5, conceal 8, strike 9."""


class Cell(NamedTuple):
    """A character and its look; the second cell of a wide character holds no text."""

    text: str = " "
    look: Look = Look()


BLANK = Cell()
SEQUENCE = re.compile(
    r"""\x1b\[(?P<private>[?>=<]?)(?P<numbers>[0-9;]*)(?P<between>[ $]?)(?P<final>[@-~])
      | \x1b\](?P<string>[^\x07\x1b]*)(?:\x07|\x1b\\)
      | (?P<control>[\r\n\x07\x08])
      | (?P<text>[^\x00-\x1f\x7f]+)""",
    re.VERBOSE,
)
UNFINISHED = re.compile(r"\x1b(\[[?>=<]?[0-9;]*[ $]?|\][^\x07\x1b]*\x1b?)?$")


class Terminal:
    """`feed` it; `rows` are its cells. What it answers to questions is in `answers`."""

    def __init__(self, width: int, height: int, answering: bool = True) -> None:
        """`answering`: questions for its state, its background and whether it knows synchronized output."""
        self.width, self.height = width, height
        self.answers = b""
        self.modes: set[int] = set()
        self.background = ""
        """What it says of its background's colour."""
        self.titles: list[str] = []
        """Strings of operating system commands, as they came."""
        self.torn = 0
        """Synchronized updates that began inside another one, or ended without having begun."""
        self._answering = answering
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._rest = ""
        self._look = Look()
        self._x = self._y = 0
        self._saved = (0, 0)
        self.rows = self._blank()
        self._main = self._blank()

    def _blank(self) -> list[list[Cell]]:
        return [[BLANK] * self.width for _ in range(self.height)]

    @property
    def texts(self) -> list[str]:
        """Its lines without their looks."""
        return ["".join(cell.text for cell in row) for row in self.rows]

    def resize(self, width: int, height: int) -> None:
        """Cut or fill at the right and below, as xterm does."""

        def fitted(rows: list[list[Cell]]) -> list[list[Cell]]:
            rows = [[*row[:width], *[BLANK] * (width - len(row))] for row in rows[:height]]
            return rows + [[BLANK] * width for _ in range(height - len(rows))]

        self.width, self.height = width, height
        self.rows, self._main = fitted(self.rows), fitted(self._main)
        self._x, self._y = min(self._x, width - 1), min(self._y, height - 1)

    def feed(self, data: bytes) -> None:
        """Take in what the program wrote, in parts of any size."""
        text = self._rest + self._decode(data)
        unfinished = UNFINISHED.search(text)
        end = unfinished.start() if unfinished else len(text)
        self._rest, at = text[end:], 0
        while at < end:
            found = SEQUENCE.match(text, at, end)
            if found is None:
                raise ValueError(f"a terminal does not know {text[at : at + 20]!r}")
            at = found.end()
            if found["text"] is not None:
                self._put(found["text"])
            elif found["control"] is not None:
                self._control(found["control"])
            elif found["string"] is not None:
                self._told(found["string"])
            else:
                numbers = [int(number or 0) for number in found["numbers"].split(";")]
                self._obey(found["private"], numbers, found["between"] + found["final"])

    def _put(self, text: str) -> None:
        for character in text:
            cells = cell_len(character)
            if self._x + cells > self.width:
                if 7 in self.modes:
                    self._x, self._y = 0, min(self._y + 1, self.height - 1)
                else:
                    self._x = self.width - cells  # without wrapping the last cell is written again
            row = self.rows[self._y]
            row[self._x] = Cell(character, self._look)
            if cells == 2:
                row[self._x + 1] = Cell("", self._look)
            self._x += cells

    def _control(self, control: str) -> None:
        if control == "\r":
            self._x = 0
        elif control == "\n":
            if self._y == self.height - 1:
                self.rows = [*self.rows[1:], [BLANK] * self.width]
            self._y = min(self._y + 1, self.height - 1)
        elif control == "\x08":
            self._x = max(0, self._x - 1)

    def _told(self, string: str) -> None:
        self.titles.append(string)
        if string == "11;?" and self._answering and self.background:
            self.answers += f"\x1b]11;{self.background}\x1b\\".encode()

    def _obey(self, private: str, numbers: list[int], final: str) -> None:
        first = numbers[0]
        if private == "?" and final in ("h", "l"):
            for number in numbers:
                self._mode(number, final == "h")
        elif private == "?" and final == "$p":
            if self._answering and first == 2026:
                self.answers += b"\x1b[?2026;2$y"
        elif private in (">", "<") and final == "u":
            pass  # kitty's keyboard protocol: not spoken here
        elif private:
            raise ValueError(f"a terminal does not know {private}{numbers}{final}")
        elif final == "H":
            row, column = (*numbers, 1)[:2]
            self._x = min(max(column, 1), self.width) - 1
            self._y = min(max(row, 1), self.height) - 1
        elif final == "n" and first == 5:
            self.answers += b"\x1b[0n" if self._answering else b""
        elif final == "m":
            self._render(numbers)
        elif final == "A":
            self._y = max(0, self._y - max(first, 1))
        elif final == "J" and first == 2:
            self.rows = self._blank()
        elif final == "K" and not first:
            self.rows[self._y][self._x :] = [BLANK] * (self.width - self._x)
        else:
            raise ValueError(f"a terminal does not know {private}{numbers}{final}")

    def _mode(self, number: int, on: bool) -> None:
        if number == 1049 and on != (1049 in self.modes):
            self.rows, self._main = (self._blank(), self.rows) if on else (self._main, self._blank())
            if on:
                self._saved = (self._x, self._y)
            else:
                self._x, self._y = min(self._saved[0], self.width - 1), min(self._saved[1], self.height - 1)
        if number == 2026 and on == (2026 in self.modes):
            self.torn += 1
        (self.modes.add if on else self.modes.discard)(number)

    def _render(self, numbers: list[int]) -> None:
        """Select graphic rendition (ECMA-48, 8.3.117; colours as in ISO 8613-6)."""
        codes = iter(numbers)
        for code in codes:
            look = self._look
            if code == 0:
                self._look = Look()
            elif code in (1, 2):
                self._look = look._replace(bold=code == 1 or look.bold, dim=code == 2 or look.dim)
            elif code == 22:
                self._look = look._replace(bold=False, dim=False)
            elif code in (7, 27):
                self._look = look._replace(reverse=code == 7)
            elif code in (3, 4, 5, 8, 9):
                self._look = look._replace(other=look.other | {code})
            elif code in (23, 24, 25, 28, 29):
                self._look = look._replace(other=look.other - {code - 20})
            elif code in (38, 48):
                count = 1 if next(codes) == 5 else 3
                colour = ",".join(str(next(codes)) for _ in range(count))
                self._look = look._replace(**{"fg" if code == 38 else "bg": colour})
            elif 30 <= code <= 37 or 90 <= code <= 97:
                self._look = look._replace(fg=str(code - 30 if code < 90 else code - 82))
            elif 40 <= code <= 47 or 100 <= code <= 107:
                self._look = look._replace(bg=str(code - 40 if code < 100 else code - 92))
            elif code == 39:
                self._look = look._replace(fg="")
            elif code == 49:
                self._look = look._replace(bg="")
            else:
                raise ValueError(f"a terminal does not know the rendition {code} of {numbers}")
