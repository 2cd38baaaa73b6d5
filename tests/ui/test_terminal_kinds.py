"""What goes to terminals of each kind: only colours and characters that they have."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from pseudo import OnTerminal

GOLDEN = Path(__file__).parents[1] / "data" / "gpu" / "golden" / "dense-20.cuzk"
TRUE, INDEXED, SIXTEEN = {"38;2", "48;2"}, {"38;5", "48;5"}, {"3", "4", "9", "10"}
NONE: set[str] = set()
KINDS: dict[str, tuple[dict[str, str], set[str], bool]] = {
    "truecolor": ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, TRUE, False),
    "kitty": ({"TERM": "xterm-kitty", "COLORTERM": "truecolor"}, TRUE, False),
    "kitty over ssh": ({"TERM": "xterm-kitty"}, TRUE, False),
    "direct": ({"TERM": "xterm-direct"}, TRUE, False),
    "256": ({"TERM": "xterm-256color"}, INDEXED, False),
    "screen": ({"TERM": "screen-256color"}, INDEXED, False),
    "tmux": ({"TERM": "tmux-256color"}, INDEXED, False),
    "xterm": ({"TERM": "xterm"}, SIXTEEN, False),
    "console": ({"TERM": "linux"}, SIXTEEN, True),
    "vt100": ({"TERM": "vt100"}, NONE, True),
    "no colours": ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, NONE, False),
    "C": ({"TERM": "xterm-256color", "LANG": "C"}, INDEXED, True),
    "POSIX over UTF-8": ({"TERM": "xterm-256color", "LC_ALL": "POSIX"}, INDEXED, True),
    "Latin 1": ({"TERM": "xterm-256color", "LANG": "de_DE.ISO-8859-1"}, INDEXED, True),
    "no locale": ({"TERM": "xterm-256color", "LANG": ""}, INDEXED, False),
    "no locale in tmux": ({"TERM": "tmux-256color", "LANG": "", "TMUX": "x,1,0"}, INDEXED, True),
}
SCREENS = (
    (b"2", "majflt"),
    (b"3", "stage  "),
    (b"4", "Inspector"),
    (b"6", "q quit"),
    (b"i", "Explain"),
    (b"q", "q quit"),
    (b"?", "zoom in about"),
)
"""Keys, and what then stands somewhere."""
SGR = re.compile(rb"\x1b\[([0-9;]*)m")


def colours(raw: bytes) -> set[str]:
    """The kinds of colours that were selected: ``38;2`` and so on; of the 16 their tens."""
    found: set[str] = set()
    for parameters in SGR.findall(raw):
        codes = iter(parameters.decode().split(";"))
        for code in codes:
            if code in ("38", "48"):
                kind = next(codes)
                found.add(f"{code};{kind}")
                for _ in range(3 if kind == "2" else 1):
                    next(codes)
            elif len(code) > 1 and code[:-1] in SIXTEEN and code[-1] < "8":
                found.add(code[:-1])
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_it_has(kind: str, tmp_path: Path) -> None:
    changes, allowed, plain = KINDS[kind]
    env = {**os.environ, "LANG": "C.UTF-8"}
    for name in ("NO_COLOR", "COLORTERM", "COLORFGBG", "LC_ALL", "LC_CTYPE", "TMUX", "STY"):
        env.pop(name, None)
    env.update(XDG_STATE_HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path), **changes)
    with OnTerminal([sys.executable, "-m", "cuzk_top.cli", "replay", str(GOLDEN)], env=env) as screen:
        screen.shows("lost 0", "1 idle.host")
        for key, words in SCREENS:
            screen.send(key)
            screen.shows(words)
        screen.send(b"q")
        screen.shows("kernel", "q quit")
        screen.send(b"q")
        assert screen.ends() == 0
        assert colours(screen.raw) - allowed == NONE
        assert bool(colours(screen.raw)) == bool(allowed)
        assert screen.raw.isascii() == plain, [c for c in screen.raw.decode() if not c.isascii()][:9]
