"""The start screen of a plain `cuzk-top`: sessions to attach to, traces to replay, and how to get one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from cuzk_top import figures
from cuzk_top.theme import Theme
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.paint import Line

HOW_TO = (
    ("cuzk-top demo", "proves a real circuit on this machine"),
    ("cuzk-top prove KEY.zkey WITNESS.wtns -o PROOF.json --public PUBLIC.json", "proves your files, live"),
    ("import cuzk_tracer", 'in a Python prover, then: with cuzk_tracer.span("msm"): ...'),
)


@dataclass(frozen=True, slots=True)
class Running:
    """A process that can be watched now. `note` stands in place of a rate: that it is not traced, say."""

    pid: int
    name: str
    age_ns: int
    spans_per_s: float | None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """A saved trace."""

    path: str
    age_ns: int
    size_bytes: int


class Places(Protocol):
    """Where sessions and traces are found; asked twice a second, so it must be quick."""

    def running(self) -> Sequence[Running]: ...

    def traces(self) -> Sequence[Trace]:
        """Newest first."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user picked."""

    kind: Literal["attach", "replay", "demo", "quit"]
    pid: int = 0
    path: str = ""


Entry = tuple[Choice, tuple[str, str, str, str]]
"""A choice and its columns: name, pid or size, age, rate."""
COLUMN_ENDS = (34, 22, 12, 2)
"""Right edges of the columns, counted from the right of the screen."""


class StartScreen(Screen[Choice], inherit_bindings=False):
    """A list to pick from; dismissed with the `Choice`."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", show=False),
        Binding("k,up", "move(-1)", show=False),
        Binding("enter", "pick", show=False),
        Binding("d", "demo", show=False),
        Binding("q,escape,ctrl+c", "quit", show=False),
        Binding("ctrl+z", "suspend", show=False),
    ]

    def __init__(self, places: Places, theme: Theme, done: Callable[[Choice], None]) -> None:
        super().__init__()
        self._places = places
        self._theme = theme
        self._done = done
        self._at = 0
        self._entries: list[Entry] = []
        self._canvas = Canvas("start")

    def compose(self) -> ComposeResult:
        yield self._canvas

    def on_mount(self) -> None:
        self.set_interval(0.5, self._draw)
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if not width or height < 2:
            return
        theme = self._theme
        running, traces = self._places.running(), self._places.traces()
        self._entries = [_attach(session) for session in running] + [_replay(trace) for trace in traces]
        self._at = max(0, min(self._at, len(self._entries) - 1))
        lines = [Line(theme, width, "bar").put("  ").put("cuzk-top", "ink", True)]
        lines[0].put("  live tracing of zero-knowledge proofs", "dim")
        lines += self._section(
            width, f"Traced sessions: {len(running)}", ("name", "pid", "age", "spans/s"), 0, len(running)
        )
        lines += self._section(
            width, f"Recent traces: {len(traces)}", ("file", "size", "age", ""), len(running), len(traces)
        )
        lines += [Line(theme, width), Line(theme, width).put("  ").put("To trace a prover", "ink", True)]
        for command, does in HOW_TO:
            line = Line(theme, width).put("    ").put(command, "ink")
            lines.append(line.put(f"   {does}", "dim") if len(does) + 3 <= line.room else line)
        del lines[height - 1 :]
        lines += [Line(theme, width) for _ in range(height - 1 - len(lines))]
        foot = Line(theme, width, "bar").put("  ")
        for keys, label in (("Enter", "open"), ("j/k", "choose"), ("d", "demo"), ("q", "quit")):
            foot.put(keys, "ink", True).put(f" {label}  ", "dim")
        self._canvas.show([line.strip() for line in (*lines, foot)])

    def _section(
        self, width: int, title: str, heads: tuple[str, str, str, str], first: int, count: int
    ) -> list[Line]:
        theme = self._theme
        ends = [width - end for end in COLUMN_ENDS]
        lines = [Line(theme, width), Line(theme, width).put("  ").put(title, "ink", True)]
        if count:
            line = Line(theme, width).to(4).put(heads[0], "dim")
            for head, end in zip(heads[1:], ends[1:], strict=True):
                line.right(head, end, "dim")
            lines.append(line)
        for number in range(first, first + count):
            here = number == self._at
            line = Line(theme, width, "row selection" if here else "page")
            name, *rest = self._entries[number][1]
            line.put(" > " if here else "   ", "ink", True).put(" ").put(name[: ends[0] - 4], "ink", here)
            for text, end in zip(rest, ends[1:], strict=True):
                line.right(text, end)
            lines.append(line)
        if not count:
            lines.append(Line(theme, width).put("    none", "dim"))
        return lines

    def action_move(self, step: int) -> None:
        self._at = max(0, min(self._at + step, len(self._entries) - 1))
        self._draw()

    def action_pick(self) -> None:
        if self._entries:
            self._done(self._entries[self._at][0])

    def action_demo(self) -> None:
        self._done(Choice("demo"))

    def action_quit(self) -> None:
        self._done(Choice("quit"))

    def action_suspend(self) -> None:
        self.app.action_suspend_process()


def _attach(session: Running) -> Entry:
    rate = session.note or ("?" if session.spans_per_s is None else figures.si(session.spans_per_s))
    return Choice("attach", pid=session.pid), (session.name, str(session.pid), age(session.age_ns), rate)


def _replay(trace: Trace) -> Entry:
    size = f"{figures.si(trace.size_bytes)}B"
    return Choice("replay", path=trace.path), (trace.path, size, age(trace.age_ns), "")


def age(ns: int) -> str:
    """``12 s``, ``5 min``, ``3 h``, ``2 d``: one unit is enough to tell old from new."""
    seconds = ns // 1_000_000_000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
