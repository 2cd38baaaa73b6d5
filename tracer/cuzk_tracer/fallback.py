"""The tracer in pure Python: every record goes straight into the shared ring, no buffer and no flush thread.

What keeps a span near a microsecond: one object a name, made at import; one packed store for the open entry,
one for the record; and, where tracing is off, a class whose enter and exit are built-in functions, so that no
Python frame is made. `with` looks both up when it enters, so a level that changes in between never separates
an exit from its enter.

A signal handler or finaliser that traces in the very middle of a record of its own thread loses one of the
two records; neither is ever torn.
"""

from __future__ import annotations

import resource
import struct

from cuzk_tracer import layout, process
from cuzk_tracer.asyncs import AsyncSpan, async_span, decorate
from cuzk_tracer.process import meta, open_ring, problem, ring_path
from cuzk_tracer.records import (
    TOP,
    Clock,
    argument,
    counter,
    emit,
    float_bits,
    flow,
    mark,
    pack_record,
    tick,
)
from cuzk_tracer.slots import Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from cuzk_tracer.ringfile import RingFile

__all__ = [
    "AsyncSpan",
    "Span",
    "add_faults",
    "async_span",
    "counter",
    "device",
    "disable",
    "enable",
    "flow",
    "launcher",
    "mark",
    "meta",
    "open_ring",
    "problem",
    "ring_path",
    "span",
]

# The bare forms are for spans without arguments and faults: every value packed costs 10 ns.
_pack_open = struct.Struct("<QIIqq").pack_into
_pack_open_bare = struct.Struct("<QII16x").pack_into
_pack_record = pack_record
_pack_record_bare = struct.Struct("<QQIIIBB30xI").pack_into
_now = Clock.now
_getrusage = resource.getrusage
_THREAD = resource.RUSAGE_THREAD
_SPAN = layout.KIND_SPAN
_SPAN_ERR = layout.KIND_SPAN | layout.KIND_ERR
_TOP = TOP
_tls = process.tls
_claim = process.claim

_spans: dict[tuple[str, str, str, bool, bool], Span] = {}


class Span:
    """A named stretch of time, with arguments or fault counts; see `cuzk_tracer.span`."""

    __slots__ = ("_a0", "_a1", "_base", "_bits", "_faults", "_id", "_open_bits", "_place", "_stage", "name")

    def __init__(self, name: str, place: int, stage: bool, faults: bool) -> None:
        self.name = name
        self._place = place
        self._id = process.number(place)
        self._base = self  # a copy with arguments has its number from here: that may change
        self._open_bits = 0
        self._stage = stage
        self._faults = faults
        self._a0 = 0
        self._a1 = 0
        self._bits = layout.TRACK_FAULTS if faults else 0

    def __enter__(self) -> Self:
        try:
            slot = _tls.slot
        except AttributeError:
            slot = _claim()
            if slot is None:
                return self
        stack = slot.stack
        depth = len(stack)
        slot.last_id = number = slot.last_id + 1
        if self._faults:
            usage = _getrusage(_THREAD)
            minor = usage.ru_minflt + slot.add_minflt
            major = usage.ru_majflt + slot.add_majflt
            start = _now()
            stack.append((self, number, start, minor, major))
        else:
            start = _now()
            stack.append((self, number, start))
        if depth < slot.entries:
            at = slot.stack_off + 32 * depth
            name = self._base._id | self._open_bits
            _pack_open(slot.control, at, start, name, number, self._a0, self._a1)
        slot.depth_word[0] = depth + 1
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        end = _now()
        try:
            slot = _tls.slot
            stack = slot.stack
            entry = stack.pop()
            if entry[0] is not self:
                stack.append(entry)
                entry = _unwind(slot, self, end)
        except (AttributeError, IndexError):
            return  # entered before a fork, or in another thread: there is nothing to close here
        minor = major = 0
        if self._faults:
            usage = _getrusage(_THREAD)
            minor = max(0, usage.ru_minflt + slot.add_minflt - entry[3])
            major = max(0, usage.ru_majflt + slot.add_majflt - entry[4])
        depth = len(stack)
        index = slot.head
        after = index + 1
        _pack_record(
            slot.ring,
            (index & slot.mask) * 64,
            entry[2],
            end,
            self._base._id,
            entry[1],
            stack[-1][1] if depth else 0,
            _SPAN if kind is None else _SPAN_ERR,
            depth if depth < 255 else 255,
            self._bits,
            self._a0,
            self._a1,
            minor,
            major,
            0,
            after & 0xFFFFFFFF,
        )
        slot.head_word[0] = slot.head = after
        slot.depth_word[0] = depth
        if end >= slot.next_tick:
            tick(slot, end)

    def __call__(self, a0: Any = 0, a1: Any = 0) -> Any:
        if callable(a0):
            return decorate(self, a0)
        made = _new(Span)
        made.name = self.name
        made._base = self._base
        made._open_bits = 0
        made._stage = self._stage
        made._faults = self._faults
        if a0.__class__ is int and a1.__class__ is int and -_TOP <= a0 < _TOP and -_TOP <= a1 < _TOP:
            made._a0 = a0
            made._a1 = a1
            made._bits = layout.TRACK_FAULTS if self._faults else 0
            return made
        made._a0, float0 = argument(a0)
        made._a1, float1 = argument(a1)
        made._bits = float_bits(float0, float1) | (layout.TRACK_FAULTS if self._faults else 0)
        made._open_bits = (layout.OPEN_F64 if float0 else 0) | (layout.OPEN_F64_A1 if float1 else 0)
        return made


class _BareSpan(Span):
    """A span without arguments and fault counts: the same as `Span` with all that is zero left out."""

    __slots__ = ()

    def __enter__(self) -> Self:
        try:
            slot = _tls.slot
        except AttributeError:
            slot = _claim()
            if slot is None:
                return self
        stack = slot.stack
        depth = len(stack)
        slot.last_id = number = slot.last_id + 1
        start = _now()
        stack.append((self, number, start))
        if depth < slot.entries:
            _pack_open_bare(slot.control, slot.stack_off + 32 * depth, start, self._id, number)
        slot.depth_word[0] = depth + 1
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        end = _now()
        try:
            slot = _tls.slot
            stack = slot.stack
            entry = stack.pop()
            if entry[0] is not self:
                stack.append(entry)
                entry = _unwind(slot, self, end)
        except (AttributeError, IndexError):
            return
        depth = len(stack)
        index = slot.head
        after = index + 1
        _pack_record_bare(
            slot.ring,
            (index & slot.mask) * 64,
            entry[2],
            end,
            self._id,
            entry[1],
            stack[-1][1] if depth else 0,
            _SPAN if kind is None else _SPAN_ERR,
            depth if depth < 255 else 255,
            after & 0xFFFFFFFF,
        )
        slot.head_word[0] = slot.head = after
        slot.depth_word[0] = depth
        if end >= slot.next_tick:
            tick(slot, end)


class _OffSpan(Span):
    """What a span is while its level is off: `str.format` of an empty string takes anything, returns ''."""

    __slots__ = ()
    __enter__ = "".format  # type: ignore[assignment]
    __exit__ = "".format  # type: ignore[assignment]

    def __call__(self, a0: Any = 0, _a1: Any = 0) -> Any:
        return decorate(self, a0) if callable(a0) else self


class _OffStage(_OffSpan):
    """A stage while tracing is off in a file that a viewer may switch on: stages are rare enough to look."""

    __slots__ = ()

    def __enter__(self) -> Self:  # type: ignore[override]
        if (
            process.State.file is not None
        ):  # takes effect with the next one: `with` has this one's exit already
            process.look(process.State.file)
        return self


_new = Span.__new__


def _unwind(slot: Slot, span: Span, end: int) -> tuple[Any, ...]:
    """Close what was left open above `span`, each flagged, and take `span` off the stack.

    Raises IndexError when `span` is not open.
    """
    stack = slot.stack
    if all(entry[0] is not span for entry in stack):
        raise IndexError
    while stack[-1][0] is not span:
        left, number, start = stack.pop()[:3]
        bits = left._bits & ~layout.TRACK_FAULTS | layout.TRACK_UNBALANCED
        parent = stack[-1][1]
        emit(slot, start, end, left._base._id, number, parent, _SPAN, len(stack), bits, left._a0, left._a1)
    return stack.pop()


def span(name: str, a0: str = "", a1: str = "", stage: bool = False, faults: bool = False) -> Span:
    """The span of this name, one object to make at import: `with SPAN:`, `with SPAN(a0, a1):` or `@SPAN`.

    The prefix before a dot gives the lane (`msm.h.reduce` is drawn under `msm.h`). `a0` and `a1` name the two
    arguments, integers or floats. `stage` spans stay on at level "coarse"; `faults` ones carry the thread's
    page faults (about 1.3 µs a span).
    """
    name, a0, a1, stage, faults = str(name), str(a0 or ""), str(a1 or ""), bool(stage), bool(faults)
    key = (name, a0, a1, stage, faults)
    with process.lock:
        known = _spans.get(key)
        if known is None:
            flags = (layout.NAME_STAGE if stage else 0) | (layout.NAME_FAULTS if faults else 0)
            known = _spans[key] = Span(name, process.define(name, a0, a1, flags), stage, faults)
            _set_class(known)
        return known


def _apply() -> None:
    """Bring every span to the present level."""
    for span in _spans.values():
        _set_class(span)


def _set_class(span: Span) -> None:
    wanted = layout.LEVEL_COARSE if span._stage else layout.LEVEL_ALL
    if process.State.level < wanted or process.State.failed:
        span.__class__ = _OffStage if span._stage and process.State.file is not None else _OffSpan
    else:
        span.__class__ = Span if span._faults else _BareSpan


def add_faults(minor: int, major: int) -> None:
    """Add faults that other threads took for this one; all open spans with `faults=True` include them."""
    slot = getattr(_tls, "slot", None)
    if slot is not None:
        slot.add_minflt += minor
        slot.add_majflt += major


def launcher() -> int | None:
    """This thread's innermost open span, for `device`; 0 where there is none, None while no device's work is
    to be recorded.
    """
    if process.State.level < layout.LEVEL_ALL or process.State.failed:
        return None
    slot = getattr(_tls, "slot", None)
    return (slot.number + 1) << 32 | slot.stack[-1][1] if slot is not None and slot.stack else 0


def device(
    name: Span,
    kind: int,
    start_ns: int,
    end_ns: int,
    device: int,
    stream: int,
    launcher: int,
    a0: int = 0,
    a1: int = 0,
    corr: int = 0,
) -> None:
    """Record what a device did: see `cuzk_tracer.gpu.record`."""
    slot = process.slot()
    if slot is None:
        return
    index = slot.head
    slot.head = index + 1
    _pack_record(
        slot.ring,
        (index & slot.mask) * 64,
        start_ns,
        end_ns,
        name._base._id,
        0,
        launcher & 0xFFFF_FFFF,
        kind,
        0,
        launcher >> 32,
        a0,
        a1,
        stream,
        device & 0xFFFF,
        corr & 0xFFFF_FFFF,
        (index + 1) & 0xFFFF_FFFF,
    )
    slot.head_word[0] = slot.head


def enable(level: str = "all") -> None:
    """Trace from now on: "all", "coarse" (spans made with `stage=True`, counters and marks), or "off".

    Also lets a failed tracer try again. Spans that are open keep their end.
    """
    with process.lock:
        process.State.level = process.LEVELS.get(level, layout.LEVEL_ALL)
        process.State.failed = False
        _apply()
        if process.State.file is not None:
            process.State.file.level[0] = process.State.level


def disable() -> None:
    """Stop tracing; the same as `enable("off")`."""
    enable("off")


def _opened(_: RingFile) -> None:
    for span in _spans.values():
        span._id = process.numbers[span._place]
    _apply()


def _clock_changed() -> None:
    global _now  # noqa: PLW0603 (called twice a span: an attribute would cost more)
    _now = Clock.now


process.opened.append(_opened)
process.level_changed.append(_apply)
Clock.changed.append(_clock_changed)
