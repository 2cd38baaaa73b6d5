"""Spans that are suspended and overlap others of their thread, and the decorator form of all spans.

What a span needs to know between enter and exit lives in a context variable, of which every task has its own
copy, so one object serves all tasks. Open asynchronous spans are not on a thread's visible stack: they appear
when they end.
"""

from __future__ import annotations

from contextvars import ContextVar

from cuzk_tracer import layout, process
from cuzk_tracer.decorate import coroutine, is_coroutine, wearing
from cuzk_tracer.records import Clock, argument, emit, float_bits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from cuzk_tracer.fallback import Span
    from cuzk_tracer.ringfile import RingFile

_asyncs: dict[tuple[str, str, str, bool], AsyncSpan] = {}
_current: ContextVar[Any] = ContextVar("cuzk_tracer", default=None)


class AsyncSpan:
    """A span that may be suspended and overlap others of its thread; see `cuzk_tracer.async_span`."""

    __slots__ = ("_id", "_place", "_stage", "name")

    def __init__(self, name: str, place: int, stage: bool) -> None:
        self.name = name
        self._place = place
        self._id = process.number(place)
        self._stage = stage

    def __enter__(self) -> Self:
        # Always pushed, so that enter and exit match whatever happens to the level in between.
        _current.set((_current.get(), self, 0, None, 0, 0, 0, 0))
        self._begin(0, 0)
        return self

    def _begin(self, a0: Any, a1: Any) -> None:
        if process.State.level < (layout.LEVEL_COARSE if self._stage else layout.LEVEL_ALL):
            return
        slot = process.slot()
        if slot is None:
            return
        before = _current.get()[0]
        if before is not None and before[3] is slot:
            parent, depth = before[4], before[7] + 1
        else:
            parent, depth = (slot.stack[-1][1] if slot.stack else 0), 0
        value0, float0 = argument(a0)
        value1, float1 = argument(a1)
        bits = float_bits(float0, float1)
        number = slot.last_id = slot.last_id + 1
        _current.set((before, self, Clock.now(), slot, number, parent, (value0, value1, bits), depth))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        end = Clock.now()
        entry = _current.get()
        while entry is not None and entry[1] is not self:
            entry = entry[0]
        if entry is None:
            return  # left in another context than it was entered in
        _current.set(entry[0])
        _, _, start, slot, number, parent, values, depth = entry
        if slot is None:
            return
        mine = process.slot()
        if mine is None:
            return
        if mine is not slot:  # another thread: ids count a slot, so this one gives a new one
            number = mine.last_id = mine.last_id + 1
            parent = 0
        code = layout.KIND_ASYNC if kind is None else layout.KIND_ASYNC | layout.KIND_ERR
        emit(mine, start, end, self._id, number, parent, code, depth, values[2], values[0], values[1])

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self.__exit__(kind, error, trace)

    def __call__(self, a0: Any = 0, a1: Any = 0) -> Any:
        return decorate(self, a0) if callable(a0) else _AsyncCall(self, a0, a1)


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


def decorate(span: Span | AsyncSpan, function: Callable[..., Any]) -> Callable[..., Any]:
    """The decorator form. A coroutine function's span is asynchronous: it lasts from first step to last."""
    if is_coroutine(function):
        return coroutine(
            span if isinstance(span, AsyncSpan) else async_span(span.name, stage=span._stage), function
        )

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with span:
            return function(*args, **kwargs)

    return wearing(wrapper, function)


def async_span(name: str, a0: str = "", a1: str = "", stage: bool = False) -> AsyncSpan:
    """A span for code that is suspended in between: `async with SPAN:`, `with SPAN(a0):` or `@SPAN`.

    Its parent is the asynchronous span of the same task around it, else the thread's open span. One object
    may be entered by any number of tasks at once.
    """
    name, a0, a1, stage = str(name), str(a0 or ""), str(a1 or ""), bool(stage)
    key = (name, a0, a1, stage)
    known = _asyncs.get(key)
    if known is None:
        with process.lock:
            flags = layout.NAME_STAGE if stage else 0
            known = _asyncs[key] = AsyncSpan(name, process.define(name, a0, a1, flags), stage)
    return known


def _renumber(_: RingFile) -> None:
    for span in _asyncs.values():
        span._id = process.numbers[span._place]


process.opened.append(_renumber)
