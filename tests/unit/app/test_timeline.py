"""A picture brought up to date is the picture drawn afresh, cell by cell, on the terminal too."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.style import Style
from test_brush import Terminal, made
from textual.geometry import Region
from textual.strip import Strip

from cuzk_top import rows, stats, viewport
from cuzk_top.model import (
    FLAG_F64,
    FLAG_OPEN,
    KIND_COUNTER,
    KIND_GPU_KERNEL,
    KIND_SPAN,
    ROW_BYTES,
    Batch,
    Columns,
    Name,
    Session,
    Snapshot,
    Track,
)
from cuzk_top.rows import BLANK
from cuzk_top.screens.analysis import NO_INSIGHT
from cuzk_top.screens.layout import Arranger, Layout, arrange
from cuzk_top.store import Store
from cuzk_top.theme import Theme
from cuzk_top.viewport import ViewState, Window
from cuzk_top.widgets.beside import Numbers
from cuzk_top.widgets.ground import Ground, Grounds
from cuzk_top.widgets.looks import Looks, RowLabels
from cuzk_top.widgets.paint import Pen, style_of
from cuzk_top.widgets.timeline import Scene, Timeline

BASE_NS = 1_000_000_000
STEP_NS = 1_000
"""The smallest step of a moment in these sessions."""
NAMES = ("prove", "synthesis", "quotient", "quotient.intt.a", "quotient.intt.b", "msm.h", "msm.h.reduce")
KERNELS = ("radix_fft", "G1_multiexp")
COUNTERS = ("host.cpu", "host.minflt")
TEXTS = (*NAMES, *KERNELS, *COUNTERS)
SESSION = Session(
    1,
    "made",
    BASE_NS,
    {"backend": "gpu-cuda"},
    [Name(""), *(Name(text, stage=True) for text in TEXTS)],
    {1: Track(1, "thread", "main", 1), 2: Track(2, "gpu", "stream", 0), 9: Track(9, "probe", "proc", 0)},
)
THEMES = {
    "dark": Theme(),
    "16": Theme("dark", "16"),
    "mono": Theme("mono", "mono"),
    "ascii": Theme("mono", "mono", ascii=True),
}
CONSOLE = Console(force_terminal=True, color_system="truecolor")
TOP = 2
"""Line of the terminal on which the time area begins."""
NUMBERS = {"ntt": Numbers("1.2", "3%", "0.5")}
SIZES = ((100, 30), (130, 40), (60, 16))


@dataclass
class Prover:
    """Makes up what a traced program writes: nested spans of a thread, kernels that overlap, samples."""

    store: Store
    now_ns: int = BASE_NS
    stack: list[tuple[int, int]] = field(default_factory=list)
    """Name and start of the spans that are open."""
    sampled: dict[int, int] = field(default_factory=dict)
    """When each counter was read last."""

    def record(self, name: str, start: int, end: int, track: int, **more: Any) -> dict[str, Any]:
        kind = more.pop("kind", KIND_SPAN)
        number = TEXTS.index(name) + 1
        return {"name": number, "start_ns": start, "end_ns": end, "track": track, "kind": kind, **more}

    def poll(self, data: st.DataObject) -> None:
        """One batch: some time passes, in which spans begin and end."""
        found: list[dict[str, Any]] = []
        pause = st.one_of(st.integers(0, 5), st.integers(0, 400), st.just(0))
        for _ in range(data.draw(st.integers(0, 12))):
            self.now_ns += STEP_NS * data.draw(pause)
            what = data.draw(st.sampled_from(["begin", "begin", "end", "end", "kernel", "late", "sample"]))
            if what == "begin" and len(self.stack) < 4:
                self.stack.append((data.draw(st.integers(0, len(NAMES) - 1)), self.now_ns))
            elif what == "end" and self.stack:
                name, start = self.stack.pop()
                depth = len(self.stack)
                found.append(self.record(NAMES[name], start, self.now_ns, 1, depth=depth))
            elif what == "kernel":
                length = STEP_NS * data.draw(st.integers(0, 60))
                name = data.draw(st.integers(0, 1))
                start = self.now_ns - length
                found.append(self.record(KERNELS[name], start, self.now_ns, 2, kind=KIND_GPU_KERNEL))
            elif what == "late":
                # Of one thread and depth the open span is always the last.
                latest = min([self.now_ns, *(start for _, start in self.stack)])
                end = latest - STEP_NS * data.draw(st.integers(0, 900))
                start = end - STEP_NS * data.draw(st.integers(0, 30))
                found.append(self.record("msm.h.reduce", start, end, 1, depth=data.draw(st.integers(0, 2))))
            elif what == "sample":
                value = float(data.draw(st.integers(0, 120)))
                bits = int(np.array([value]).view(np.int64)[0])
                name = data.draw(st.integers(0, 1))
                start = self.sampled.get(name, BASE_NS)
                self.sampled[name] = self.now_ns
                found.append(
                    self.record(
                        COUNTERS[name], start, self.now_ns, 9, kind=KIND_COUNTER, flags=FLAG_F64, a0=bits
                    )
                )
        self.now_ns += STEP_NS * data.draw(pause)
        opened = [
            self.record(NAMES[name], start, self.now_ns, 1, depth=depth, flags=FLAG_OPEN)
            for depth, (name, start) in enumerate(self.stack)
        ]
        self.store.append(Batch(SESSION, columns_of(found), columns_of(opened), 0, self.now_ns))


def columns_of(records: list[dict[str, Any]]) -> Columns:
    keys = {key for record in records for key in record}
    return Columns.make(
        len(records), **{key: np.array([record.get(key, 0) for record in records]) for key in keys}
    )


class Placed(Timeline):
    """A time area without an application around it."""

    def __init__(self, theme: Theme) -> None:
        super().__init__(theme)
        self.place = Region(0, 2, 0, 0)
        self.left_to_textual = False

    @property
    def region(self) -> Region:
        return self.place

    def refresh(self, *_: Any, **__: Any) -> Any:
        self.left_to_textual = True
        return self

    def strips(self) -> list[Strip]:
        """The lines, as the compositor gets them."""
        return self.render_lines(Region(0, 0, self.place.width, self.place.height))

    def cells(self) -> list[list[tuple[str, Style]]]:
        """Characters with their styles."""
        return [
            [(letter, cast("Style", style)) for text, style, _ in strip for letter in text]
            for strip in self.strips()
        ]


class Grid:
    """What a terminal shows after what was written to it: characters with the parameters of their looks."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, str]] = {}

    def feed(self, text: str) -> None:
        x = y = 0
        look = {"fg": "39", "bg": "49", "weight": "22", "reverse": "27"}
        for row, column, codes, letter in re.findall(r"\x1b\[(\d+);(\d+)H|\x1b\[([\d;]*)m|([^\x1b])", text):
            if row:
                x, y = int(column) - 1, int(row) - 1
            elif letter:
                self.cells[x, y] = (letter, ";".join(look.values()))
                x += 1
            else:
                learn(look, codes)
        assert list(look.values()) == ["39", "49", "22", "27"]

    def show(self, strips: list[Strip], top: int) -> None:
        """As Textual writes lines."""
        for y, strip in enumerate(strips, top):
            self.feed(f"\x1b[{y + 1};1H{strip.render(CONSOLE)}")


def learn(look: dict[str, str], codes: str) -> None:
    """Take in the parameters of an SGR sequence (ECMA-48, 8.3.117; 38 and 48 as of ISO 8613-6)."""
    numbers = codes.split(";")
    while numbers:
        code = numbers.pop(0)
        if code == "0":
            look.update(fg="39", bg="49", weight="22", reverse="27")
        elif code in ("38", "48"):
            rest = [numbers.pop(0) for _ in range(4 if numbers[0] == "2" else 2)]
            look["fg" if code == "38" else "bg"] = ";".join([code, *rest])
        elif code == "22":
            look["weight"] = "22"
        elif code in ("1", "2"):
            look["weight"] += f";{code}"
        elif code in ("7", "27"):
            look["reverse"] = code
        else:
            look["bg" if code.startswith(("4", "10")) else "fg"] = code


@dataclass
class Screen:
    """A time area on a terminal, and the same drawn afresh."""

    theme: Theme

    def __post_init__(self) -> None:
        self.timeline = Placed(self.theme)
        self.grid = Grid()
        self.terminal = Terminal()
        self.arranger = Arranger()

    def draw(self, snapshot: Snapshot, view: ViewState, size: tuple[int, int]) -> None:
        """Bring the picture up to date, and compare all of it."""
        layout = self.arranger.arrange(snapshot, view, *size, NO_INSIGHT)
        again = arrange(snapshot, view, *size, NO_INSIGHT)
        assert layout is not None and again is not None
        assert replace(layout, shape=None) == replace(again, shape=None)
        timeline, brush = self.timeline, made(self.terminal)
        timeline.brush = brush
        timeline.place = Region(0, TOP, layout.width, layout.timeline_height)
        timeline.left_to_textual = False
        self.terminal.written.clear()
        brush.take()
        timeline.draw(Scene(snapshot, view, layout, NUMBERS, (), NO_INSIGHT))
        brush.lay_down()
        if timeline.left_to_textual:
            assert not self.terminal.written
            self.grid.cells.clear()
            self.grid.show(timeline.strips(), TOP)
        else:
            self.grid.feed("".join(part for part in self.terminal.written if part not in "<>"))
        fresh = Placed(self.theme)
        fresh.place = timeline.place
        fresh.draw(Scene(snapshot, view, again, NUMBERS, (), NO_INSIGHT))
        expected = Grid()
        expected.show(fresh.strips(), TOP)
        assert timeline.texts == fresh.texts
        wrong = {at for at, cell in expected.cells.items() if self.grid.cells.get(at) != cell}
        assert not wrong, {at: (self.grid.cells.get(at), expected.cells[at]) for at in wrong}
        plainly(fresh, snapshot, view, again, self.theme)


def plainly(drawn: Placed, snapshot: Snapshot, view: ViewState, layout: Layout, theme: Theme) -> None:
    """Lanes and charts, from whole rows of cells and one column after the other."""
    window, columns, now, x = view.window, layout.columns, snapshot.now_ns, layout.label_width
    looks = Looks(snapshot.session)
    looks.renew(snapshot.session, view.search)
    looks.see(snapshot)
    made = viewport.axis(window, columns, snapshot.first_ns)
    ground, _ = Grounds(theme, Pen(theme)).at(window, columns, made, view.selection, now)
    edges = viewport.edges(window, columns)
    lines = drawn.cells()
    for y, row in enumerate(layout.rows, layout.first_row_y):
        if row.kind != "spans" or row.empty:
            continue
        cells = rows.blank(columns)
        for number, source in enumerate(row.sources):
            spans = stats.clipped(source, now)
            cells = rows.overlay(cells, rows.cells(spans, edges, number))
        labels = RowLabels(looks)
        labels.of(row.sources)
        expected = lane(rows.whole(cells) if theme.whole_cells else cells, labels, ground, theme)
        assert lines[y][x : x + columns] == expected
    for y, counter in enumerate(layout.counters, layout.timeline_height - len(layout.counters)):
        if counter.missing is None:
            per_column = rows.rate_columns if counter.kind == "rate" else rows.gauge_columns
            count = int(np.searchsorted(counter.start_ns, now, "left"))
            top = rows.chart_top(max([0.0, *counter.value[:count].tolist()]), counter.top)
            heights = rows.levels(
                per_column(counter.start_ns, counter.t_ns, counter.value, edges, now), top
            ).tolist()
            style = [style_of(theme.paint(counter.role, surface)) for surface in ground.surfaces]
            assert lines[y][x : x + columns] == [
                (theme.glyphs.charts[height], style[at]) if height > 0 else bare(ground, at)
                for at, height in enumerate(heights)
            ]


def bare(ground: Ground, at: int) -> tuple[str, Style]:
    return ground.glyphs[at], ground.styles[at]


def lane(cells: rows.Cells, labels: RowLabels, ground: Ground, theme: Theme) -> list[tuple[str, Style]]:
    """One row of bars as `LaneRow` says it is drawn."""
    left, right, split, merged = (part.tolist() for part in cells)
    keys = [(*key, many > 0) for *key, many in zip(left, right, split, merged, strict=True)]
    numbers: dict[int, str] = {}
    for many, stretch in groupby(range(len(keys)), lambda at: merged[at] > 0):
        at = list(stretch)
        if many:
            text = f"+{sum(merged[i] for i in at)}"
            numbers.update(zip(at, text if len(text) <= len(at) else "+", strict=False))
    out: list[tuple[str, Style]] = []
    named: set[int] = set()
    for key, run in groupby(range(len(keys)), keys.__getitem__):
        at = list(run)
        code = key[0] if key[0] != BLANK else key[1]
        if code == BLANK:
            out += [
                (numbers[i], style_of(theme.paint("ink", ground.surfaces[i])))
                if i in numbers
                else bare(ground, i)
                for i in at
            ]
            continue
        role = labels.role(code)
        label, pattern = theme.paint("label", role, True), theme.pattern(role)
        if at[0] in numbers:
            filler = " " if label.reverse else pattern
            out += [(numbers.get(i, filler), style_of(label)) for i in at]
        elif key[2] == rows.EIGHTHS:
            fits = [text for text in labels.texts(code) if len(text) < len(at) or len(text) == 1]
            text = fits[0] if fits and code not in named else ""
            named.add(code)
            rest = label if pattern == " " else theme.paint("text", role)
            out += [(letter, style_of(label)) for letter in text]
            out += [(pattern, style_of(rest))] * (len(at) - len(text))
        else:
            under = ground.surfaces[at[0]]
            front, back = (labels.role(code) if code != BLANK else under for code in key[:2])
            patterned = [one for one in (front, back) if one != under and theme.pattern(one) != " "]
            if patterned:
                out.append((theme.pattern(patterned[0]), style_of(theme.paint(patterned[0], under))))
            else:
                out.append((theme.glyphs.eighths[key[2]], style_of(theme.paint(front, back))))
    return out


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_frame_brings_the_picture_to_what_it_is_afresh(data: st.DataObject) -> None:
    """Through the real store: spans that begin, end, come late, are dropped; everything the user does."""
    theme = THEMES[data.draw(st.sampled_from(sorted(THEMES)))]
    few = data.draw(st.sampled_from([0, 40]))
    prover = Prover(Store(few * ROW_BYTES) if few else Store())
    screen = Screen(theme)
    columns = data.draw(st.sampled_from([100, 1_000, 20_000]))
    view = ViewState(BASE_NS, BASE_NS + columns * STEP_NS)
    size = SIZES[0]
    for _ in range(data.draw(st.integers(2, 12))):
        what = data.draw(
            st.sampled_from([*["poll"] * 8, "page", "zoom", "select", "size", "search", "scrub", "fold"])
        )
        if what == "poll":
            prover.poll(data)
        elif what == "page":
            now = prover.now_ns
            view = view.looking_at(Window(now - view.window.width_ns // 10, now + view.window.width_ns))
        elif what == "zoom":
            factor = data.draw(st.sampled_from([0.1, 0.5, 2.0, 10.0]))
            view = view.looking_at(viewport.zoom(view.window, prover.now_ns, factor))
        elif what == "select":
            at = view.t0_ns + data.draw(st.integers(0, 50)) * view.window.width_ns // 50
            length = data.draw(st.integers(0, 10)) * view.window.width_ns // 50
            view = replace(view, selection=data.draw(st.sampled_from([None, (at, at + length)])))
        elif what == "size":
            size = data.draw(st.sampled_from(SIZES))
        elif what == "search":
            view = replace(view, search=data.draw(st.sampled_from(["", "msm", "fft"])))
        elif what == "fold":
            lane_key = data.draw(st.sampled_from(["proof", "ntt", "gpu0.msm", "msm.h"]))
            view = replace(view, unfolded=view.unfolded ^ {lane_key}, cursor=lane_key)
        snapshot = prover.store.snapshot()
        if what == "scrub":  # back, as in a replay
            back = data.draw(st.integers(0, 100))
            snapshot = replace(snapshot, now_ns=snapshot.now_ns - back * view.window.width_ns // 100)
        screen.draw(snapshot, view, size)
