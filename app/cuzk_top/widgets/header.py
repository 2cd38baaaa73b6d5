"""The two header lines: the job, and the machine with our own honesty."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from textual.strip import Strip

from cuzk_top import figures, fingerprints, stats
from cuzk_top.device_figures import DeviceFigures, device_figures
from cuzk_top.devicetime import Split
from cuzk_top.model import Snapshot
from cuzk_top.theme import Theme
from cuzk_top.widgets.canvas import Canvas
from cuzk_top.widgets.paint import Line

Word = tuple[str, str, bool]
"""Text, role, bold."""


class Field(NamedTuple):
    """A group of words that is shown whole or not at all; rank 0 is never dropped, the highest goes first."""

    rank: int
    words: tuple[Word, ...]

    @property
    def width(self) -> int:
        return sum(len(text) for text, _, _ in self.words)


class JobNow(NamedTuple):
    """How far the newest job is; empty where that is not known."""

    done: str = ""
    """Partitions done, of how many."""
    eta: str = ""
    late: str = ""
    """By how much it is late, if that is worth a word."""
    against: str = ""
    """What it is late against."""


class Title(NamedTuple):
    """What the header says beyond the snapshot."""

    badge: str
    strong: bool
    """A lit badge: the picture moves."""
    job: str
    backend: str
    gpu: str
    tracing: str | None
    notice: str
    """A message to the user; takes the right end of line 1."""
    frames: str
    """How often the picture moves, if that is less often than it should."""
    job_now: JobNow | None = None


def fit(fields: list[Field], room: int, gap: int) -> list[Field]:
    """The fields that fit, in order: the highest rank is dropped first; a short one may come back for it."""

    def fits(chosen: list[Field]) -> bool:
        return sum(field.width for field in chosen) + gap * (len(chosen) - 1) <= room

    shown = list(fields)
    while not fits(shown):
        worst = max(shown, key=lambda field: field.rank)
        if worst.rank == 0:
            return shown
        shown.remove(worst)
    for field in sorted((one for one in fields if one not in shown), key=lambda field: field.rank):
        more = [one for one in fields if one in shown or one is field]
        if fits(more):
            shown = more
    return shown


def device_fields(devices: Sequence[DeviceFigures], room: int) -> list[Field]:
    """What the GPUs did, as far as it goes into `room` cells: the parts of their time are never left out."""
    if not devices:
        return []
    if len(devices) == 1:
        (one,) = devices
        wide = _split(_name(one), one.split, "  ")
        beside = _beside(one)
        first = wide if wide.width <= room else _split(f"GPU{one.index}", one.split, " ")
        return [first, *([Field(4, (beside,))] if beside[0] else [])]
    full: tuple[Word, ...] = ()
    plain: tuple[Word, ...] = ()
    short: tuple[Word, ...] = (("kernel/copy/idle % ", "dim", False),)
    for device in devices:
        between: tuple[Word, ...] = ((" " * 3, "dim", False),) if full else ()
        text, role, bold = _beside(device)
        beside = (f" {text}" if text else "", role, bold)
        full += (*between, *_split(_name(device), device.split, "  ").words, beside)
        plain += (*between, *_split(f"GPU{device.index}", device.split, " ").words)
        parts = "/".join(map(str, device.split.percent()))
        short += ((f" {device.index} ", "dim", False), (parts, "ink", True))
    whole = _split(f"{len(devices)} GPUs", sum((d.split for d in devices), Split(0, 0, 0)), " ")
    choices = [Field(0, words) for words in (full, plain, short)]
    return [next((field for field in choices if field.width <= room), whole)]


def _name(device: DeviceFigures) -> str:
    return f"GPU{device.index} {device.name}".rstrip()


def _split(name: str, split: Split, gap: str) -> Field:
    kernel, copy, idle = map(str, split.percent())
    return Field(
        0,
        (
            (f"{name}{gap}kernel ", "dim", False),
            (kernel, "ink", True),
            (f"{gap}copy ", "dim", False),
            (copy, "ink", True),
            (f"{gap}idle ", "dim", False),
            (f"{idle} %", "ink", True),
        ),
    )


def _beside(device: DeviceFigures) -> Word:
    """Other truths of the same time: what the host claimed, and what NVML says."""
    figures_ = [("held", device.held_percent), ("nvml", None if device.nvml is None else round(device.nvml))]
    known = ", ".join(f"{label} {figure}" for label, figure in figures_ if figure is not None)
    return (f"({known})" if known else "", "dim", False)


def _build(meta: Mapping[str, str]) -> Field:
    """Whether the kernels are those of the sources; of a program that does not say, never that they are."""
    stale = fingerprints.stale(meta)
    if stale is None:
        return Field(8, (("build ", "dim", False), ("unknown", "dim", False)))
    if stale:
        return Field(1, (("build ", "dim", False), ("STALE", "cost", True)))
    return Field(8, (("build ", "dim", False), ("ok", "text", False)))


class Header(Canvas):
    """Draws `Title` and the snapshot's figures; always two lines."""

    def __init__(self, theme: Theme) -> None:
        super().__init__("header")
        self._theme = theme
        self._last: list[tuple[object, ...]] = []

    def draw(self, snapshot: Snapshot, title: Title, width: int) -> None:
        """Bring both lines up to date; an unchanged line is not repainted."""
        lines = [self._job(snapshot, title, width), self._machine(snapshot, title, width)]
        contents: list[tuple[object, ...]] = [tuple(line.segments) for line in lines]
        strips: list[Strip] = []
        for number, line in enumerate(lines):
            same = number < len(self._last) and self._last[number] == contents[number]
            strips.append(self._strips[number] if same else line.strip())
        self._last = contents
        self.show(strips)

    def _job(self, snapshot: Snapshot, title: Title, width: int) -> Line:
        count, durations, running = stats.proofs(snapshot)
        now = min(snapshot.now_ns, snapshot.last_ns) if snapshot.ended else snapshot.now_ns
        elapsed = max(0, now - snapshot.first_ns) if snapshot.first_ns else 0
        fields = [Field(0, ((title.job or snapshot.session.name or "session", "ink", True),))]
        if snapshot.session.pid:
            fields.append(Field(6, (("pid ", "dim", False), (str(snapshot.session.pid), "text", False))))
        job = title.job_now or JobNow()
        if job.done:
            fields.append(Field(1, ((job.done, "text", False),)))
        fields.append(Field(0, ((f"{elapsed / 1e9:.1f} s", "ink", True),)))
        if job.eta:
            fields.append(Field(1, (("eta ", "dim", False), (job.eta, "text", False))))
        fields.append(Field(2, (("proofs ", "dim", False), (figures.count(count), "text", False))))
        if durations:
            fields.append(Field(3, (("last ", "dim", False), (figures.spaced(durations[-1]), "text", False))))
        if len(durations) > 1:
            median = figures.spaced(int(statistics.median(durations)))
            fields.append(Field(4, (("median ", "dim", False), (median, "text", False))))
        if running is not None:
            since = figures.spaced(max(0, snapshot.now_ns - running))
            fields.append(Field(5, (("proving for ", "dim", False), (since, "text", False))))
        line = Line(self._theme, width, "bar")
        if self._theme.depth == "mono" and not title.strong:
            line.put(f"[{title.badge}]", "ink", True)
        elif title.strong:
            line.put(f" {title.badge} ", "label", True, "busy")
        else:
            line.put(f" {title.badge} ", "label", True, "held")
        line.put(" ")
        notice, late = title.notice, f" LATE {job.late} " if job.late else ""
        against = f"{job.against}  " if late and width >= 100 and not notice else ""
        end = width - (len(late) + len(against) + 2 if late else 0)
        room = end - line.x - (len(notice) + 3 if notice else 1)
        for number, field in enumerate(fit(fields, room, 2)):
            self._put(line, field, 2 if number else 0)
        if notice:
            line.right(f" {notice[: max(0, end - 2 - line.x)]}", end - 1, "ink")
        if late:
            line.right(against, width - 1 - len(late), "dim").put(late, "label", True, "cost")
        return line

    def _machine(self, snapshot: Snapshot, title: Title, width: int) -> Line:
        lost = snapshot.lost
        fields = [Field(2, ((title.backend, "ink", True),))] if title.backend else []
        start = 2 if width >= 80 else 1
        spans = Field(1, (("spans ", "dim", False), (figures.count(snapshot.spans), "text", False)))
        loss = Field(0, (("lost ", "dim", False), (figures.count(lost), "cost" if lost else "ink", True)))
        room = width - start - 1 - spans.width - loss.width - 2 * 2
        fields += device_fields(device_figures(snapshot), room)
        gpu_at = len(fields)
        if title.gpu:
            fields.append(Field(4, (("GPU ", "dim", False), (title.gpu, "text", False))))
        fields += [spans, loss]
        if snapshot.viewer_cpu is not None:
            share = f"{snapshot.viewer_cpu:.0f}%"
            words: tuple[Word, ...] = (("viewer ", "dim", False), (share, "text", False))
            if width >= 140:
                words = (*words, (" of a core", "dim", False))
            if title.frames and width >= 100:
                words = (*words, (f" {title.frames}", "dim", False))
            fields.append(Field(3, words))
        if title.tracing:
            fields.append(Field(5, (("tracing ", "dim", False), (title.tracing, "text", False))))
        if snapshot.devices:
            fields.append(_build(snapshot.session.meta))
        if snapshot.problems:
            fields.append(Field(6, ((snapshot.problems[-1], "text", False),)))
        line = Line(self._theme, width, "bar").put(" " * start)
        room = width - line.x - 1
        full = sum(field.width for field in fields)
        gap = 3 if full + 3 * (len(fields) - 1) <= room else 2
        shown = fit(fields, room, gap)
        if title.gpu and fields[gpu_at] not in shown:
            # Without its reason, which the counters' rows give too.
            fields[gpu_at] = Field(4, (("GPU ", "dim", False), (title.gpu.partition(" (")[0], "text", False)))
            shown = fit(fields, room, gap)
        for number, field in enumerate(shown):
            self._put(line, field, gap if number else 0)
        return line

    def _put(self, line: Line, field: Field, gap: int) -> None:
        line.put(" " * gap)
        for text, role, bold in field.words:
            line.put(text, role, bold)
