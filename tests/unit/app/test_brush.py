"""What a brush writes to the terminal, and what it leaves to Textual's compositor."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console
from rich.style import Style
from textual.geometry import Region
from textual.screen import Screen

from cuzk_top.widgets.brush import Brush


@dataclass
class Terminal:
    """A driver that keeps what it is told to write."""

    is_headless: bool = False
    is_inline: bool = False
    is_web: bool = False
    written: list[str] = field(default_factory=list)

    def write(self, text: str) -> None:
        self.written.append(text)

    def flush(self) -> None:
        pass


def made(terminal: Terminal, **screen: Any) -> Brush:
    app = SimpleNamespace(
        _driver=terminal,
        _running=True,
        _batch_count=0,
        _notifications=[],
        console=Console(force_terminal=True, color_system="truecolor"),
        _begin_update=lambda: terminal.write("<"),
        _end_update=lambda: terminal.write(">"),
    )
    state: dict[str, Any] = {
        "app": app,
        "is_current": True,
        "_layout_required": False,
        "_repaint_required": False,
        "_dirty_widgets": set(),
    }
    return Brush(cast("Screen[None]", SimpleNamespace(**(state | screen))))


RED, BLUE = Style(color="#ff0000"), Style(color="#0000ff", bold=True)
PLACE = Region(5, 2, 3, 3)


def test_runs_are_written_where_they_stand_style_by_style_and_all_at_once() -> None:
    terminal = Terminal()
    brush = made(terminal)
    brush.take()
    assert brush.paints(PLACE, 3, 3)
    brush.put(5, 2, [(0, "ab", RED), (2, "c", BLUE)])
    brush.put(0, 0, [(1, "d", RED)])
    assert terminal.written == []
    brush.lay_down()
    # CUP counts rows and columns from 1 (ECMA-48, 8.3.21); of the second style only what differs is sent
    blue = "\x1b[38;2;0;0;255;22;1m\x1b[3;8Hc"
    red = "\x1b[38;2;255;0;0;22m\x1b[3;6Hab\x1b[1;2Hd"
    assert terminal.written == ["<", blue + red + "\x1b[0m", ">"]
    brush.take()
    brush.lay_down()
    assert len(terminal.written) == 3  # nothing more to say


def test_between_frames_nothing_is_painted() -> None:
    brush = made(Terminal())
    assert not brush.paints(PLACE, 3, 3)
    brush.take()
    brush.lay_down()
    assert not brush.paints(PLACE, 3, 3)


@pytest.mark.parametrize(("width", "height"), [(4, 3), (3, 2), (0, 0)])
def test_lines_of_another_size_than_their_place_are_left_to_the_layout(width: int, height: int) -> None:
    brush = made(Terminal())
    brush.take()
    assert not brush.paints(PLACE, width, height)


@pytest.mark.parametrize("kind", ["is_headless", "is_inline", "is_web"])
def test_only_a_whole_terminal_is_painted(kind: str) -> None:
    brush = made(Terminal(**{kind: True}))
    brush.take()
    assert not brush.paints(PLACE, 3, 3)


@pytest.mark.parametrize(
    "state",
    [
        {"is_current": False},
        {"_layout_required": True},
        {"_repaint_required": True},
        {"_dirty_widgets": {"prompt"}},
    ],
)
def test_what_else_wants_to_be_drawn_has_the_frame(state: dict[str, Any]) -> None:
    brush = made(Terminal(), **state)
    brush.take()
    assert not brush.paints(PLACE, 3, 3)
