"""Roles, palettes and glyphs; what the terminal can show is decided here, once.

Every cell of the screen names a role; a `Theme` turns a pair of roles into a `Paint`. Hues are Okabe and
Ito's, moved in lightness until neighbours stay apart under three kinds of colour blindness on either
background. The same facts are in every mode: hue is always doubled by a letter, a shade, a bracket or a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cuzk_top import background

Style = Literal["dark", "light", "mono"]
Depth = Literal["true", "256", "16", "mono"]


class Paint(NamedTuple):
    """How to draw a run of cells. Colours: ``#rrggbb``, ``color(n)``, an ANSI name, or None for the
    terminal's own.
    """

    fg: str | None = None
    bg: str | None = None
    bold: bool = False
    reverse: bool = False
    dim: bool = False


class Role(NamedTuple):
    """One row of the palette: true colour and 256-colour index for dark and light, a 16-colour name, label
    colours.
    """

    dark: str
    light: str
    dark_256: int
    light_256: int
    ansi: str | None = None
    """Background under a label for fills, foreground for text; None: the terminal's own."""
    label: str = "kk"
    """Label on the fill, dark then light theme: k = black, w = white."""
    mono: str = " "
    ascii: str = " "


ROLES: Mapping[str, Role] = {
    # surfaces
    "page": Role("#11161c", "#f3f4f3", 233, 255),
    "well": Role("#0b0f14", "#fdfdfd", 232, 231),
    "future": Role("#0e1318", "#eff1f1", 233, 254),
    "tick": Role("#11171e", "#f6f7f8", 232, 231),
    "bar": Role("#1a222c", "#e2e6e9", 235, 253),
    "row selection": Role("#1d3650", "#d3e5f7", 237, 153),
    "time selection": Role("#182737", "#e2edf8", 235, 189),
    # words
    "ink": Role("#f1f4f7", "#11161c", 255, 233),
    "text": Role("#c0c9d4", "#36414d", 252, 238),
    "dim": Role("#84909e", "#5f6a76", 245, 240),
    "line": Role("#3a4754", "#b9c1c9", 238, 250),
    "now": Role("#9aa6b4", "#4c5763", 248, 240),
    "path": Role("#ffffff", "#000000", 231, 16, "bright_white", "kw", "━", "-"),
    # fills: the second of a pair keeps neighbours apart and means nothing
    "witness": Role("#5fa5d4", "#3f98cb", 75, 33, "cyan", "kk", "▒", "w"),
    "witness 2": Role("#579ccb", "#3790c3", 75, 33, "cyan", "kk", "▒", "w"),
    "three quarters": Role("#4a8dc0", "#338abf", 68, 32, "cyan", "kk", "▒", "w"),
    "half": Role("#3575ac", "#2276af", 31, 31, "blue", "ww", "▓", "e"),
    "eval": Role("#2a69a2", "#0f5f9c", 25, 25, "blue", "ww", "▓", "e"),
    "eval 2": Role("#266297", "#0c568f", 25, 25, "blue", "ww", "▓", "e"),
    "cpu msm": Role("#a67998", "#6f4262", 139, 89, "magenta", "kw", "▒", "m"),
    "cpu msm 2": Role("#ba8cac", "#7f5072", 96, 90, "magenta", "kw", "▓", "m"),
    "held": Role("#5e6a79", "#7d8995", 241, 245, None, "wk", "░", "."),
    "busy": Role("#c3cfda", "#333e4a", 252, 237, "white", "kw", "█", "#"),
    "last proof": Role("#6f7b88", "#828d99", 244, 246, None, "kk", "▄", "_"),
    "h pinned": Role("#ede063", "#a38a00", 228, 136, "bright_yellow", "kk", "H", "H"),
    "p pageable": Role("#958a2c", "#4f3f00", 94, 58, "yellow", "kw", "P", "P"),
    "ntt": Role("#159a77", "#08774f", 36, 29, "green", "kw", "N", "N"),
    "ntt 2": Role("#17a47f", "#076a47", 36, 29, "green", "kw", "N", "N"),
    "msm": Role("#dd9aba", "#bf5999", 176, 169, "bright_magenta", "kk", "M", "M"),
    "copy out": Role("#a9ecf2", "#0b4a47", 195, 17, "bright_cyan", "kw", "D", "D"),
    # findings
    "idle": Role("#76828f", "#808994", 244, 245, None, "kk", "╱", "/"),
    "idle ground": Role("#12181f", "#f4f5f5", 234, 255),
    "cost": Role("#ff8a5c", "#b5380f", 209, 124, "bright_red", "kw"),
    "cost ground": Role("#2b1912", "#fbe4d8", 235, 224),
    # charts, one hue a family
    "faults": Role("#df9a0c", "#9f5c08", 214, 130, "yellow"),
    "memory": Role("#74bdbb", "#17585f", 116, 23, "cyan"),
    "cpu": Role("#3a89bd", "#3688c4", 32, 32, "blue"),
    "power": Role("#c3aef0", "#5f4691", 183, 60, "magenta"),
}
"""palette.md, row by row. `ntt 2` and `cpu msm 2` follow its `witness 2`: a step of lightness that
keeps touching children apart and means nothing; their labels keep its contrast."""

SURFACES = frozenset(
    {"page", "well", "future", "tick", "bar", "row selection", "time selection", "idle ground", "cost ground"}
)
WORDS = frozenset({"ink", "text", "dim", "line", "now"})
LABEL_BLACK, LABEL_WHITE = "#0b0f14", "#ffffff"
_LABEL_256 = {LABEL_BLACK: "color(232)", LABEL_WHITE: "color(231)"}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of one glyph set."""

    eighths: str
    """Index 1..7: the left n eighths of a cell."""
    charts: str
    """Index 1..7: chart heights."""
    now: str
    rule: str
    vertical: str
    select_open: str
    select_fill: str
    select_close: str
    micro: str
    join: str
    """Where one step of the critical path hands over to the next."""


UNICODE = Glyphs(" ▏▎▍▌▋▊▉█", " ▁▂▃▄▅▆▇", "▏", "─", "│", "[", "═", "]", "µ", "┳")
ASCII = Glyphs("        #", " .:-=+*#", "|", "-", "|", "[", "=", "]", "u", "+")


@dataclass(frozen=True)
class Theme:
    """A palette at a colour depth with a glyph set. `paint` is the only way to a colour."""

    style: Style = "dark"
    depth: Depth = "true"
    ascii: bool = False
    _memo: dict[tuple[str, str, bool], Paint] = field(default_factory=dict, compare=False, repr=False)

    @property
    def glyphs(self) -> Glyphs:
        return ASCII if self.ascii else UNICODE

    @property
    def surfaces(self) -> bool:
        """Whether backgrounds separate areas; if not, rules and ``│`` are drawn instead."""
        return self.depth in ("true", "256") and not self.ascii

    @property
    def whole_cells(self) -> bool:
        """Mono and ASCII round span ends to whole cells and fill them with a pattern or letter."""
        return self.depth == "mono" or self.ascii

    def pattern(self, role: str) -> str:
        """What fills a cell of that role where hue alone may not: a shade or letter, else a blank."""
        if not self.whole_cells:
            return "░" if self.depth == "16" and ROLES[role].ansi is None else " "
        return ROLES[role].ascii if self.ascii else ROLES[role].mono

    def glyph(self, role: str) -> str:
        """The character of a role that is drawn with one at any depth: hatch, path, ghost."""
        return ROLES[role].ascii if self.ascii else ROLES[role].mono

    def paint(self, fg: str, bg: str = "page", bold: bool = False) -> Paint:
        """Words of role `fg` on surface or fill `bg`; `fg` ``label`` is the label colour of that fill."""
        key = (fg, bg, bold)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._make(fg, bg, bold)
        return found

    def _make(self, fg: str, bg: str, bold: bool) -> Paint:
        if self.depth == "mono":
            return self._mono(fg, bg, bold)
        if self.depth == "16":
            return self._sixteen(fg, bg, bold)
        return Paint(self._label(bg) if fg == "label" else self._colour(fg), self._colour(bg), bold)

    def _colour(self, role: str) -> str:
        entry = ROLES[role]
        if self.depth == "256":
            return f"color({entry.light_256 if self.style == 'light' else entry.dark_256})"
        return entry.light if self.style == "light" else entry.dark

    def _label(self, fill: str) -> str:
        white = ROLES[fill].label[self.style == "light"] == "w"
        colour = LABEL_WHITE if white else LABEL_BLACK
        return _LABEL_256[colour] if self.depth == "256" else colour

    def _mono(self, fg: str, bg: str, bold: bool) -> Paint:
        if bg in ("cost", "busy") and fg == "label":
            return Paint(bold=bold, reverse=True)
        strong = bold or bg == "row selection" or (fg in ("ink", "path") and bold)
        return Paint(bold=strong, dim=fg in ("dim", "last proof", "line"))

    def _sixteen(self, fg: str, bg: str, bold: bool) -> Paint:
        """Fills are ANSI backgrounds; words keep the terminal's own colour, since bright black is
        unreadable.
        """
        if bg in SURFACES:
            colour = None if fg in WORDS or fg == "label" else ROLES[fg].ansi
            return Paint(colour, None, bold or (fg == "ink" and bold), reverse=bg == "row selection")
        fill = ROLES[bg].ansi
        if fg in SURFACES:
            # The ground in front of a fill: only reversing reaches the terminal's own background.
            return Paint(fill, None, False, reverse=True)
        if fill is None:
            return Paint(None if fg in WORDS or fg == "label" else ROLES[fg].ansi, None, bold)
        if fg == "label":
            return Paint("bright_white" if fill in ("blue", "magenta") else "black", fill, bold)
        return Paint(ROLES[fg].ansi, fill, bold)


TRUE_TERMS = ("-direct", "kitty", "alacritty", "foot", "ghostty", "wezterm", "contour")
"""Parts of TERM of terminals that have 24-bit colours."""
PLAIN_TERMS = ("linux", "vt")
"""Beginnings of TERM of Linux's console, whose fonts lack the narrow blocks, and of DEC's terminals."""


def choose(style: str | None, ascii_only: bool, env: Mapping[str, str]) -> Theme:
    """The theme for this terminal, from the user's wish and the environment.

    Without a wish COLORFGBG says whether the background is light. NO_COLOR (set to anything but nothing) and
    `style` ``mono`` mean no colours; COLORTERM, which ssh does not hand on, and TERM give the depth (unknown
    terminals get 16 colours, ``TERM=dumb`` and DEC's none). A locale that is not UTF-8 and `PLAIN_TERMS` get
    ASCII.
    """
    wanted: Style = "light" if (style or background.of_environment(env)) == "light" else "dark"
    term = env.get("TERM", "")
    if style == "mono" or env.get("NO_COLOR") or term == "dumb" or term.startswith("vt"):
        depth: Depth = "mono"
    elif env.get("COLORTERM", "").lower() in ("truecolor", "24bit") or any(
        name in term for name in TRUE_TERMS
    ):
        depth = "true"
    elif "256color" in term:
        depth = "256"
    else:
        depth = "16"
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG")
    # Where nobody said: terminals of today know UTF-8, but multiplexers then replace what is not ASCII.
    silent = "" if env.get("TMUX") or env.get("STY") else "utf8"
    utf8 = "utf8" in (locale or silent).lower().replace("-", "")
    plain = ascii_only or not utf8 or term.startswith(PLAIN_TERMS)
    return Theme("mono" if depth == "mono" else wanted, depth, plain)
