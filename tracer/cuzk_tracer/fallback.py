"""The tracer in pure Python: every record goes straight into the shared ring, no buffer and no flush thread.

What keeps a span near a microsecond: one object a name, made at import; one packed store for the open entry,
one for the record; and, where tracing is off, a class whose enter and exit are built-in functions, so that no
Python frame is made. `with` looks both up when it enters, so a level that changes in between never separates
an exit from its enter.

What a thread has open and how many records it wrote stands in its slot and is read from there at each span:
native libraries may write between two spans of this module (see `layout`).

A signal handler or finaliser that traces in the very middle of a record of its own thread loses one of the
two records; neither is ever torn.
"""

from __future__ import annotations

import _thread
import atexit
import os
import resource
import struct
import time
from contextvars import ContextVar

from cuzk_tracer import layout, places, ringfile
from cuzk_tracer.decorate import coroutine, is_coroutine, wearing

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 3 ms that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

_LEVELS = {"off": layout.LEVEL_OFF, "coarse": layout.LEVEL_COARSE, "all": layout.LEVEL_ALL}
_TOP = 2**63

# Packing zeroes the place first and stores in order: the index word leaves first and comes last. The bare
# forms are for spans without arguments and faults: every value packed costs 10 ns.
_pack_open = struct.Struct("<QIIqq").pack_into
_pack_open_bare = struct.Struct("<QII16x").pack_into
_pack_record = struct.Struct("<QQIIIBBHqqIIII").pack_into
_pack_record_bare = struct.Struct("<QQIIIBB30xI").pack_into
_now = time.monotonic_ns
_getrusage = resource.getrusage
_THREAD = resource.RUSAGE_THREAD
_SPAN = layout.KIND_SPAN
_SPAN_ERR = layout.KIND_SPAN | layout.KIND_ERR
_float = struct.Struct("<d")
_open_entry = struct.Struct("<QIIqq")
_LOW = 0xFFFF_FFFF
_ALL = 0xFFFF_FFFF_FFFF_FFFF
_PROVISIONAL = 1 << 28
"""An id from here on is a place in `_names`: given before there was a file, replaced when there is one."""
_MOST_PLAIN = 4096


class _State:
    """What the process has one of."""

    level = _LEVELS.get(os.environ.get("CUZK_TRACE", "all"), layout.LEVEL_ALL)
    file: ringfile.RingFile | None = None
    problem = ""
    failed = False
    parent_pid = 0
    parent_uuid = bytes(16)
    ticks_per_ns = 1.0


_lock = _thread.RLock()
_tls: Any = _thread._local()
_names: list[tuple[str, str, str, int, float]] = []  # all names: arguments of RingFile.name
_numbers: list[int] = []  # their ids in the present file
_spans: dict[tuple[str, str, str, bool, bool], Span] = {}
_asyncs: dict[tuple[str, str, str, bool], AsyncSpan] = {}
_plain: dict[str, int] = {}  # counters, marks and flows: places in _names by text
_metas: dict[str, str] = {}
_current: ContextVar[Any] = ContextVar("cuzk_tracer", default=None)


class _Guard:
    """Lives in a thread's local storage: dies with the thread and releases its slot."""

    __slots__ = ("slot",)

    def __init__(self, slot: ringfile.Slot) -> None:
        self.slot = slot

    def __del__(self) -> None:
        try:
            if self.slot.file is _State.file:
                self.slot.file.release(self.slot)
        except Exception:  # at interpreter exit anything may be gone already
            pass


class Span:
    """A named stretch of time; see `cuzk_tracer.span`."""

    __slots__ = ("_a0", "_a1", "_bare", "_bits", "_faults", "_id", "_open_id", "_place", "_stage", "name")

    def __init__(self, name: str, place: int, stage: bool, faults: bool) -> None:
        self.name = name
        self._place = place
        self._id = self._open_id = _number(place)
        self._stage = stage
        self._faults = faults
        self._bare = not faults
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
            if self._id >= _PROVISIONAL:  # a copy with arguments that was made before the file
                self._open_id ^= self._id ^ _numbers[self._id - _PROVISIONAL]
                self._id = _numbers[self._id - _PROVISIONAL]
        words = slot.words
        state = words[3]
        number = ((state >> 32) + 1) & _LOW or 1
        depth = state & _LOW
        if self._faults:
            usage = _getrusage(_THREAD)
            minor = usage.ru_minflt + slot.line[2]
            major = usage.ru_majflt + slot.line[3]
            start = _now()
            slot.stack.append((self, number, depth, start, minor, major))
        else:
            start = _now()
            slot.stack.append((self, number, depth, start, 0, 0))
        if depth < slot.entries:
            at = slot.stack_off + 32 * depth
            if self._bare:
                _pack_open_bare(slot.control, at, start, self._id, number)
            else:
                _pack_open(slot.control, at, start, self._open_id, number, self._a0, self._a1)
        elif slot.entries:
            slot.line[0] = slot.line[0] & _LOW | number << 32
        words[3] = number << 32 | depth + 1
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        end = _now()
        try:
            slot = _tls.slot
            stack = slot.stack
            if stack[-1][0] is not self:
                _unwind(slot, self, end)
            _, number, depth, start, minor, major = stack.pop()
        except (AttributeError, IndexError):
            return  # entered before a fork, or in another thread: there is nothing to close here
        words = slot.words
        state = words[3]
        if state & _LOW != depth + 1 and not _settle(slot, number, depth, end):
            return
        parent = _parent(slot, depth) if depth != len(stack) else stack[-1][1] if depth else 0
        index = words[0]
        if self._bare:
            _pack_record_bare(
                slot.ring,
                (index & slot.mask) * 64,
                start,
                end,
                self._id,
                number,
                parent,
                _SPAN if kind is None else _SPAN_ERR,
                depth if depth < 255 else 255,
                (index + 1) & _LOW,
            )
        else:
            if self._faults:
                usage = _getrusage(_THREAD)
                minor = _risen(minor, usage.ru_minflt + slot.line[2])
                major = _risen(major, usage.ru_majflt + slot.line[3])
            _pack_record(
                slot.ring,
                (index & slot.mask) * 64,
                start,
                end,
                self._id,
                number,
                parent,
                _SPAN if kind is None else _SPAN_ERR,
                depth if depth < 255 else 255,
                self._bits,
                self._a0,
                self._a1,
                minor,
                major,
                0,
                (index + 1) & _LOW,
            )
        words[0] = index + 1
        words[3] = state & ~_LOW | depth
        if depth >= slot.entries and slot.entries:
            slot.line[0] = slot.line[0] & _LOW | parent << 32
        if end >= slot.file.next_anchor:
            _anchor(slot.file, end)

    def __call__(self, a0: Any = 0, a1: Any = 0) -> Any:
        if callable(a0):
            return _decorate(self, a0)
        made = _new(Span)
        made.name = self.name
        made._id = self._id
        made._stage = self._stage
        made._faults = self._faults
        made._bare = False
        bits = self._bits & layout.TRACK_FAULTS
        if a0.__class__ is int and -_TOP <= a0 < _TOP:
            made._a0 = a0
        else:
            made._a0, is_float = _argument(a0)
            bits |= layout.TRACK_F64 if is_float else 0
        if a1.__class__ is int and -_TOP <= a1 < _TOP:
            made._a1 = a1
        else:
            made._a1, is_float = _argument(a1)
            bits |= layout.TRACK_F64_A1 if is_float else 0
        made._bits = bits
        made._open_id = self._id
        if bits & (layout.TRACK_F64 | layout.TRACK_F64_A1):
            made._open_id |= layout.OPEN_F64 if bits & layout.TRACK_F64 else 0
            made._open_id |= layout.OPEN_F64_A1 if bits & layout.TRACK_F64_A1 else 0
        return made


class _OffSpan(Span):
    """What a span is while its level is off: `str.format` of an empty string takes anything, returns ''."""

    __slots__ = ()
    __enter__ = "".format  # type: ignore[assignment]
    __exit__ = "".format  # type: ignore[assignment]

    def __call__(self, a0: Any = 0, _a1: Any = 0) -> Any:
        return _decorate(self, a0) if callable(a0) else self


class _OffStage(_OffSpan):
    """A stage while tracing is off in a file that a viewer may switch on: stages are rare enough to look."""

    __slots__ = ()

    def __enter__(self) -> Self:
        file = _State.file
        if file is not None and file.level[0] != layout.LEVEL_OFF:
            _State.level = file.level[0]
            _apply()  # from the next span on: `with` has this one's exit already
        return self


class AsyncSpan:
    """A span that may be suspended and overlap others of its thread; see `cuzk_tracer.async_span`."""

    __slots__ = ("_id", "_place", "_stage", "name")

    def __init__(self, name: str, place: int, stage: bool) -> None:
        self.name = name
        self._place = place
        self._id = _number(place)
        self._stage = stage

    def __enter__(self) -> Self:
        # Always pushed, so that enter and exit match whatever happens to the level in between.
        _current.set((_current.get(), self, 0, None, 0, 0, 0, 0))
        self._begin(0, 0)
        return self

    def _begin(self, a0: Any, a1: Any) -> None:
        if _State.level < (layout.LEVEL_COARSE if self._stage else layout.LEVEL_ALL):
            return
        slot = _slot()
        if slot is None:
            return
        before = _current.get()[0]
        if before is not None and before[3] is slot:
            parent, depth = before[4], before[7] + 1
        else:
            parent, depth = _parent(slot, slot.words[3] & _LOW), 0
        value0, float0 = _argument(a0)
        value1, float1 = _argument(a1)
        bits = (layout.TRACK_F64 if float0 else 0) | (layout.TRACK_F64_A1 if float1 else 0)
        number = _next_id(slot)
        _current.set((before, self, _now(), slot, number, parent, (value0, value1, bits), depth))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        end = _now()
        entry = _current.get()
        while entry is not None and entry[1] is not self:
            entry = entry[0]
        if entry is None:
            return  # left in another context than it was entered in
        _current.set(entry[0])
        _, _, start, slot, number, parent, values, depth = entry
        if slot is None:
            return
        mine = _slot()
        if mine is None:
            return
        if mine is not slot:  # another thread: ids count a slot, so this one gives a new one
            number = _next_id(mine)
            parent = 0
        code = layout.KIND_ASYNC if kind is None else layout.KIND_ASYNC | layout.KIND_ERR
        _emit(mine, start, end, self._id, number, parent, code, depth, values[2], values[0], values[1])

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, a0: Any = 0, a1: Any = 0) -> Any:
        return _decorate(self, a0) if callable(a0) else _AsyncCall(self, a0, a1)


class _AsyncCall:
    """An async span with its arguments, for one `with`."""

    __slots__ = ("_a0", "_a1", "_span")

    def __init__(self, span: AsyncSpan, a0: Any, a1: Any) -> None:
        self._span = span
        self._a0 = a0
        self._a1 = a1

    def __enter__(self) -> AsyncSpan:
        _current.set((_current.get(), self._span, 0, None, 0, 0, 0, 0))
        self._span._begin(self._a0, self._a1)
        return self._span

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._span.__exit__(kind, error, trace)

    async def __aenter__(self) -> AsyncSpan:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self._span.__exit__(kind, error, trace)


_new = Span.__new__


def _argument(value: Any) -> tuple[int, bool]:
    """A span argument as the i64 to store and whether that is a float's bits. What fits neither becomes 0."""
    try:
        if isinstance(value, float):
            return int.from_bytes(_float.pack(value), "little", signed=True), True
        return min(max(int(value.__index__()), -_TOP), _TOP - 1), False
    except Exception:
        return 0, False


def _decorate(span: Span | AsyncSpan, function: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator form. A coroutine function's span is asynchronous: it lasts from first step to last."""
    if is_coroutine(function):
        return coroutine(
            span if isinstance(span, AsyncSpan) else async_span(span.name, stage=span._stage), function
        )

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with span:
            return function(*args, **kwargs)

    return wearing(wrapper, function)


def _claim() -> ringfile.Slot | None:
    """This thread's slot, its first time; None where there is no ring."""
    try:
        with _lock:
            file = _State.file or _open()
            if file is None:
                return None
        slot = file.claim()
        _tls.slot = slot
        _tls.guard = _Guard(slot)
        return slot
    except Exception as error:
        _fail(f"cannot trace: {error}")
        return None


def _slot() -> ringfile.Slot | None:
    try:
        slot: ringfile.Slot = _tls.slot
        return slot
    except AttributeError:
        return _claim()


def _open() -> ringfile.RingFile | None:
    """Make the ring file, or join that of a native library. The caller holds the lock."""
    if _State.failed or _State.level == layout.LEVEL_OFF:
        return None
    parent_pid, parent_uuid = _State.parent_pid, _State.parent_uuid
    if not parent_pid:
        parent_pid, parent_uuid = _inherited()
    reasons = []
    for folder in places.folders():
        try:
            file = ringfile.RingFile(folder, parent_pid, parent_uuid, _State.level)
            break
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            reasons.append(f"{folder}: {why}")
    else:
        _fail("cannot write a trace ring in " + "; ".join(reasons))
        return None
    with file:
        _numbers[:] = [file.name(*name) for name in _names]
        for span, place in ((span, span._place) for span in (*_spans.values(), *_asyncs.values())):
            span._id = _numbers[place]
        for whole in _spans.values():
            whole._open_id = whole._id
        if file.new:
            file.meta("command", " ".join(_command_line()))
        for key, value in _metas.items():
            file.meta(key, value)
    os.environ[places.PARENT_VARIABLE] = f"{file.uuid.hex()}:{file.pid}"
    _State.file = file
    if file.tsc:
        _follow(file)
    if not file.new:
        _State.level = file.load("enabled")
    _apply()
    return file


def _follow(file: ringfile.RingFile) -> None:
    """Write a native library's ticks, which Python cannot read, by what the clock anchors say of them."""
    global _now  # noqa: PLW0603 (called at every span: an attribute would cost more)
    (ticks0, ns0, _, _), (ticks1, ns1, _, _) = file.anchors()
    rate = _State.ticks_per_ns = (ticks1 - ticks0) / (ns1 - ns0) if ns1 > ns0 else 1.0
    monotonic = time.monotonic_ns
    _now = lambda: ticks1 + int((monotonic() - ns1) * rate)  # noqa: E731


def _anchor(file: ringfile.RingFile, now: int) -> None:
    """What is due once a second: a clock anchor, and a look at the level, which a viewer may have changed."""
    file.anchor(now, _State.ticks_per_ns)
    if file.tsc:
        _follow(file)
    if file.level[0] != _State.level:
        _State.level = file.level[0]
        _apply()


def _inherited() -> tuple[int, bytes]:
    """Pid and session of the tracing process that exec'ed this one; zeros where there is none."""
    try:
        uuid, _, pid = os.environ.get(places.PARENT_VARIABLE, "").partition(":")
        return int(pid), bytes.fromhex(uuid)[:16].ljust(16, b"\0")
    except ValueError:
        return 0, bytes(16)


def _command_line() -> list[str]:
    try:
        with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
            return [part.decode("utf-8", "replace") for part in file.read(4096).split(b"\0") if part]
    except OSError:
        return []


def _fail(reason: str) -> None:
    """Stop tracing for good, and remember why."""
    _State.problem = _State.problem or reason
    _State.failed = True
    _apply()


def _apply() -> None:
    """Give every span the class of the present level."""
    for span in _spans.values():
        span.__class__ = _class(span)


def _class(span: Span) -> type[Span]:
    wanted = layout.LEVEL_COARSE if span._stage else layout.LEVEL_ALL
    if _State.level >= wanted and not _State.failed:
        return Span
    return _OffStage if span._stage and _State.file is not None else _OffSpan


def _parent(slot: ringfile.Slot, depth: int) -> int:
    """Id of the innermost of `depth` open spans, whoever opened it; 0 when there is none."""
    if depth == 0 or not slot.entries:
        return slot.stack[-1][1] if slot.stack else 0
    if depth > slot.entries:
        return slot.line[0] >> 32
    return int(_open_entry.unpack_from(slot.control, slot.stack_off + 32 * (depth - 1))[2])


def _next_id(slot: ringfile.Slot) -> int:
    """An id for something that is not put on the stack."""
    state = slot.words[3]
    number = ((state >> 32) + 1) & _LOW or 1
    slot.words[3] = number << 32 | state & _LOW
    return number


def _risen(before: int, now: int) -> int:
    """How much a fault count has risen; both may have wrapped, and it may have been set back."""
    delta = (now - before) & _ALL
    return 0 if delta > _ALL >> 1 else min(delta, _LOW)


def _unwind(slot: ringfile.Slot, span: Span, end: int) -> None:
    """Forget what was left open above `span`. Raises IndexError when `span` is not open.

    `_settle` writes what the visible stack knows of these; the deeper ones are written here.
    """
    stack = slot.stack
    if all(entry[0] is not span for entry in stack):
        raise IndexError
    while stack[-1][0] is not span:
        left, number, depth, start, _, _ = stack.pop()
        if depth >= slot.entries:
            bits = left._bits & ~layout.TRACK_FAULTS | layout.TRACK_UNBALANCED
            _emit(slot, start, end, left._id, number, stack[-1][1], _SPAN, depth, bits, left._a0, left._a1)


def _settle(slot: ringfile.Slot, number: int, depth: int, end: int) -> bool:
    """Close what was left open above a span, innermost first, each flagged; False when that is closed itself."""
    state = slot.words[3]
    now = state & _LOW
    if slot.entries and (now <= depth or (depth < slot.entries and _parent(slot, depth + 1) != number)):
        return False
    for above in range(min(now, slot.entries) - 1, depth, -1):
        entry = _open_entry.unpack_from(slot.control, slot.stack_off + 32 * above)
        start, name, left, a0, a1 = entry
        bits = layout.TRACK_UNBALANCED
        bits |= layout.TRACK_F64 if name & layout.OPEN_F64 else 0
        bits |= layout.TRACK_F64_A1 if name & layout.OPEN_F64_A1 else 0
        name &= layout.OPEN_NAME_MASK
        _emit(slot, start, end, name, left, _parent(slot, above), _SPAN, above, bits, a0, a1)
    return True


def _emit(
    slot: ringfile.Slot,
    start: int,
    end: int,
    name: int,
    number: int,
    parent: int,
    kind: int,
    depth: int,
    bits: int,
    a0: int,
    a1: int,
    corr: int = 0,
) -> None:
    """Write one record off the hot path."""
    index = slot.words[0]
    at = (index & slot.mask) * 64
    stamp = (index + 1) & _LOW
    depth = min(depth, 255)
    _pack_record(slot.ring, at, start, end, name, number, parent, kind, depth, bits, a0, a1, 0, 0, corr, stamp)
    slot.words[0] = index + 1
    if end >= slot.file.next_anchor:
        _anchor(slot.file, end)


def _point(name: str, kind: int, most: float, a0: Any = 0, a1: Any = 0, corr: int = 0) -> None:
    """Something at one moment: a counter, a mark, a flow."""
    slot = _slot()
    if slot is None:
        return
    now = _now()
    value0, float0 = _argument(a0)
    value1, float1 = _argument(a1)
    bits = (layout.TRACK_F64 if float0 else 0) | (layout.TRACK_F64_A1 if float1 else 0)
    depth = slot.words[3] & _LOW
    number = _plain_number(name, most)
    _emit(slot, now, now, number, 0, _parent(slot, depth), kind, depth, bits, value0, value1, corr)


def _define(text: str, a0: str, a1: str, flags: int, most: float = 1.0) -> int:
    """Register a name and return its place in `_names`. The caller holds the lock."""
    _names.append((text, a0, a1, flags, most))
    file = _State.file
    if file is not None:
        number = layout.NAME_OVERFLOW
        try:
            with file:
                number = file.name(text, a0, a1, flags, most)
        except OSError as error:
            _State.problem = _State.problem or f"a name could not be added: {error}"
        _numbers.append(number)
    return len(_names) - 1


def _number(place: int) -> int:
    return _PROVISIONAL + place if _State.file is None else _numbers[place]


def _plain_number(text: str, most: float) -> int:
    place = _plain.get(text)
    if place is None:
        if len(_plain) >= _MOST_PLAIN:
            return layout.NAME_OVERFLOW
        with _lock:
            place = _plain[text] = _define(text, "", "", 0, most)
    return _numbers[place]


def span(name: str, a0: str = "", a1: str = "", stage: bool = False, faults: bool = False) -> Span:
    """See `cuzk_tracer.span`."""
    key = (name, a0, a1, stage, faults)
    with _lock:
        known = _spans.get(key)
        if known is None:
            flags = (layout.NAME_STAGE if stage else 0) | (layout.NAME_FAULTS if faults else 0)
            known = _spans[key] = Span(str(name), _define(str(name), a0, a1, flags), stage, faults)
            known.__class__ = _class(known)
        return known


def async_span(name: str, a0: str = "", a1: str = "", stage: bool = False) -> AsyncSpan:
    """See `cuzk_tracer.async_span`."""
    key = (name, a0, a1, stage)
    known = _asyncs.get(key)
    if known is None:
        with _lock:
            flags = layout.NAME_STAGE if stage else 0
            known = _asyncs[key] = AsyncSpan(str(name), _define(str(name), a0, a1, flags), stage)
    return known


def counter(name: str, value: float) -> None:
    """See `cuzk_tracer.counter`."""
    if _State.level != layout.LEVEL_OFF:
        _point(name, layout.KIND_COUNTER, 1.0, value)


def mark(text: str, a0: float = 0, a1: float = 0) -> None:
    """See `cuzk_tracer.mark`."""
    if _State.level != layout.LEVEL_OFF:
        # Marks may carry numbers in their text: half of the table stays for names that recur.
        _point(text, layout.KIND_INSTANT, 0.5, a0, a1)


def flow(name: str, number: int | None = None) -> int:
    """See `cuzk_tracer.flow`."""
    if _State.level == layout.LEVEL_OFF or number == 0:
        return number or 0
    slot = _slot()
    if slot is None:
        return number or 0
    begins = number is None
    if number is None:  # unique in the process for 16 million ids of a slot
        number = (slot.number + 1) << 24 | _next_id(slot) & 0xFF_FFFF
    _point(name, layout.KIND_FLOW, 1.0, 0 if begins else 1, 0, number & _LOW)
    return number


def add_faults(minor: int, major: int) -> None:
    """See `cuzk_tracer.add_faults`."""
    slot = getattr(_tls, "slot", None)
    if slot is not None:
        slot.add_faults(minor, major)


def meta(**values: object) -> None:
    """See `cuzk_tracer.meta`."""
    with _lock:
        for key, value in values.items():
            text = _metas[key] = str(value)
            file = _State.file
            if file is not None:
                try:
                    with file:
                        file.meta(key, text)
                except OSError as error:
                    _State.problem = _State.problem or f"metadata could not be written: {error}"


def enable(level: str = "all") -> None:
    """See `cuzk_tracer.enable`."""
    with _lock:
        _State.level = _LEVELS.get(level, layout.LEVEL_ALL)
        _State.failed = False
        _apply()
        if _State.file is not None:
            _State.file.level[0] = _State.level


def disable() -> None:
    """See `cuzk_tracer.disable`."""
    enable("off")


def open_ring() -> str | None:
    """See `cuzk_tracer.open`."""
    _slot()
    return ring_path()


def ring_path() -> str | None:
    """See `cuzk_tracer.ring_path`."""
    return _State.file.path if _State.file is not None else None


def problem() -> str | None:
    """See `cuzk_tracer.problem`."""
    return _State.problem or (_State.file.problem if _State.file is not None else "") or None


def _after_fork() -> None:
    """In a forked child: leave the parent's ring alone and begin a session of its own when it traces."""
    global _lock, _tls  # noqa: PLW0603 (both may be in any state: the fork came in the middle of the parent)
    _lock = _thread.RLock()
    parent = _State.file
    _State.file = None
    _tls = _thread._local()
    if parent is not None:
        _State.parent_pid = parent.pid
        _State.parent_uuid = parent.uuid
        os.close(parent.fd)


def _at_exit() -> None:
    if _State.file is not None:
        try:
            _State.file.end()
        except OSError:  # the lock is held by a thread that is gone: nothing to be done about it here
            pass


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
