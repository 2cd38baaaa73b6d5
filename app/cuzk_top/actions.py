"""Every action of the screens, in one table.

The table feeds the key bindings, the footer, the help screen, the command palette and the README, so none of
them can disagree. `id` names a method ``action_<id>`` of the screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["live", "replay"]
Group = Literal["time", "spans", "playback", "panes", "session"]

GROUPS: dict[Group, str] = {
    "time": "Time",
    "spans": "Lanes and spans",
    "playback": "Live and replay",
    "panes": "Panes",
    "session": "Session",
}


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user can do."""

    id: str
    keys: tuple[str, ...]
    """Key names as Textual spells them; the first one is shown."""
    label: str
    """One or two words for the footer."""
    help: str
    group: Group
    footer: int = 0
    """Priority in the footer, 1 first; 0: not shown there."""
    modes: tuple[Mode, ...] = ("live", "replay")
    footer_with: str = ""
    """Id of an action this one shares a footer entry with, as in ``w/s zoom``."""
    lead: str = ""
    """What it is called in the footer of the stalls pane, where it then comes first."""


ACTIONS: tuple[Action, ...] = (
    Action("zoom_in", ("w", "plus"), "zoom", "zoom in about the selected span, else the middle", "time", 4),
    Action("zoom_out", ("s", "minus"), "zoom", "zoom out", "time", 0, footer_with="zoom_in"),
    Action("pan_left", ("a", "left", "h"), "pan", "move towards earlier", "time", 5),
    Action("pan_right", ("d", "right", "l"), "pan", "move towards later", "time", 0, footer_with="pan_left"),
    Action("fit_all", ("0",), "fit", "show everything there is", "time", 6),
    Action("fit_selection", ("f",), "fit selection", "zoom to the selected span or stretch of time", "time"),
    Action("go_start", ("g", "home"), "start", "go to the beginning", "time"),
    Action("go_end", ("G", "end"), "end", "go to the end, or to now", "time"),
    Action(
        "go_to", ("colon",), "go to time", "go to a time: 12.5, 250ms, 1:02.5, or UTC 14:03:05", "time", 7
    ),
    Action("toggle_scroll", ("p",), "page/follow", "turn pages, or scroll with now", "time", 0, ("live",)),
    Action("undo", ("u",), "undo", "take back the last change of the view", "time"),
    Action("clock", ("t",), "clock", "axis from the session's start, CLOCK_MONOTONIC, or UTC", "time"),
    Action("lane_down", ("j", "down"), "lane", "next lane", "spans"),
    Action("lane_up", ("k", "up"), "lane", "previous lane", "spans"),
    Action("next_span", ("full_stop",), "span", "next span of this lane", "spans", 9),
    Action(
        "previous_span",
        ("comma",),
        "previous",
        "previous span of this lane",
        "spans",
        0,
        footer_with="next_span",
    ),
    Action(
        "inspect",
        ("enter",),
        "inspect",
        "stalls: go to the selected finding and zoom, again: its next gap; lanes: unfold a folded row, else "
        "select the span at the middle, or inspect the selected one",
        "spans",
        2,
        lead="zoom",
    ),
    Action(
        "edge_start",
        ("left_square_bracket",),
        "set start",
        "selection starts one span edge earlier (the first time: before the middle of the window)",
        "spans",
    ),
    Action("edge_end", ("right_square_bracket",), "set end", "selection ends one span edge later", "spans"),
    Action("clear", ("escape",), "clear", "drop the selection and the search", "spans"),
    Action("search", ("slash",), "search", "find spans by a part of their name", "spans", 12),
    Action(
        "next_hit",
        ("n",),
        "next",
        "next finding; while a search is active, the next span that it found",
        "spans",
        lead="next",
    ),
    Action(
        "previous_hit",
        ("N",),
        "previous",
        "previous finding or match",
        "spans",
        0,
        footer_with="next_hit",
    ),
    Action(
        "order",
        ("O",),
        "order",
        "sort the findings by wall time saved, GPU time lost, or time",
        "spans",
        lead="order",
    ),
    Action(
        "explain",
        ("i",),
        "explain",
        "how the number under the cursor was computed, and from what; then the header's",
        "spans",
        11,
        lead="explain",
    ),
    Action(
        "mark", ("m",), "mark", "mark the selection's start, else now; again on the mark: remove it", "spans"
    ),
    Action(
        "fold", ("z",), "lanes", "show all lanes, or fold them again to leave room for the panel", "spans"
    ),
    Action(
        "unfold_lane",
        ("o",),
        "unfold",
        "unfold the lane's nested spans into rows of their own, or fold them",
        "spans",
    ),
    Action("pin", ("P",), "pin", "keep the lane on the screen whatever its size, or no longer", "spans"),
    Action("hide", ("x",), "hide", "hide the lane", "spans"),
    Action("show_hidden", ("X",), "show", "show the hidden lanes again", "spans"),
    Action(
        "toggle_pause",
        ("space",),
        "pause",
        "hold the picture still, or follow again (nothing is lost)",
        "playback",
        1,
        ("live",),
    ),
    Action("toggle_play", ("space",), "play/pause", "play or pause", "playback", 1, ("replay",)),
    Action("slower", ("less_than_sign",), "speed", "half the speed", "playback", 0, ("replay",), "faster"),
    Action(
        "faster", ("greater_than_sign",), "speed", "twice the speed, up to max", "playback", 2, ("replay",)
    ),
    Action(
        "seek_here",
        ("p",),
        "play from here",
        "move the play head to the selection, else to the middle of the window",
        "playback",
        0,
        ("replay",),
    ),
    Action("next_tab", ("tab",), "pane", "next pane", "panes"),
    Action("tab_stalls", ("1",), "stalls", "what waited for what, what it cost, and why", "panes"),
    Action("tab_stages", ("2",), "stages", "stage table, against past proofs and the last one", "panes"),
    Action("tab_jobs", ("3",), "jobs", "proofs: age, stage, who holds which GPU, late or not", "panes"),
    Action("tab_inspector", ("4",), "inspector", "everything about the selected span or gap", "panes"),
    Action("tab_log", ("6",), "log", "last lines of the session", "panes"),
    Action("panel_down", ("J", "pagedown"), "scroll", "scroll the pane down", "panes"),
    Action("panel_up", ("K", "pageup"), "scroll", "scroll the pane up", "panes"),
    Action("save", ("W",), "save", "save everything that is still kept as a trace", "session", 8),
    Action(
        "export",
        ("e",),
        "export",
        "write the trace in another program's format, which the file name's suffix says",
        "session",
    ),
    Action(
        "screenshot",
        ("S",),
        "screenshot",
        "write this screen as an SVG file, and beside it what reopens it in the program",
        "session",
    ),
    Action("help", ("question_mark",), "help", "this list", "session", 13),
    Action("palette", ("ctrl+p",), "commands", "find a command of this list by its words", "session"),
    Action("suspend", ("ctrl+z",), "suspend", "back to the shell; fg returns", "session"),
    Action("stop", ("ctrl+c",), "stop", "ask the session to stop", "session"),
    Action("quit", ("q",), "quit", "leave the screen; a proof goes on", "session", 14),
)

MOUSE: tuple[tuple[str, str], ...] = (
    ("wheel", "pan"),
    ("ctrl+wheel", "zoom at the pointer"),
    ("drag", "select a stretch of time"),
    ("click", "select a span"),
)

_KEY_NAMES = {
    "plus": "+",
    "minus": "-",
    "colon": ":",
    "full_stop": ".",
    "comma": ",",
    "slash": "/",
    "question_mark": "?",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "enter": "Enter",
    "escape": "Esc",
    "tab": "Tab",
    "home": "Home",
    "end": "End",
    "pagedown": "PgDn",
    "pageup": "PgUp",
    "ctrl+c": "Ctrl-C",
    "ctrl+p": "Ctrl-P",
    "ctrl+z": "Ctrl-Z",
}


def key_name(key: str) -> str:
    """A key as it is written on the screen."""
    return _KEY_NAMES.get(key, key)


def for_mode(mode: Mode) -> tuple[Action, ...]:
    """The actions that work in live or in replay, in table order."""
    return tuple(action for action in ACTIONS if mode in action.modes)


def footer(mode: Mode, leads: bool = False) -> list[tuple[str, str]]:
    """``(keys, label)`` of the footer in order of importance: the caller shows as many as fit.

    `leads`: what acts on the stalls pane comes first.
    """
    shown = [action for action in for_mode(mode) if action.footer or (leads and action.lead)]
    entries = []
    for action in sorted(
        shown, key=lambda item: (not (leads and item.lead), not (leads and item.lead) and item.footer)
    ):
        partners = [item for item in for_mode(mode) if item.footer_with == action.id]
        keys = "/".join(key_name(item.keys[0]) for item in (action, *partners))
        entries.append((keys, action.lead if leads and action.lead else action.label))
    return entries


def readme_table() -> str:
    """The key table of the README (GitHub Markdown), kept equal to this module by a test."""
    lines = ["| keys | does |", "| --- | --- |"]
    for action in ACTIONS:
        keys = " ".join(f"`{key_name(key)}`" for key in action.keys)
        only = "" if len(action.modes) > 1 else f" ({action.modes[0]})"
        lines.append(f"| {keys} | {action.help}{only} |")
    lines += [f"| {gesture} | {does} |" for gesture, does in MOUSE]
    return "\n".join(lines) + "\n"
