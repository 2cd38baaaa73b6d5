"""The decorator form for coroutine functions, of both writers. Imported when the first one is decorated."""

from __future__ import annotations

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 3 ms that importing typing takes
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CO_COROUTINE = 0x80


def is_coroutine(function: Callable[..., Any]) -> bool:
    """True for a function made by `async def`."""
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & CO_COROUTINE)


def coroutine(whole: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` within the async span `whole`: it lasts from first step to last."""

    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        with whole:
            return await function(*args, **kwargs)

    return wearing(wrapper, function)


def wearing(wrapper: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`wrapper`, looking like `function` (functools.wraps, without its import)."""
    for attribute in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(wrapper, attribute, getattr(function, attribute, None))
    wrapper.__dict__.update(getattr(function, "__dict__", {}))
    wrapper.__dict__["__wrapped__"] = function
    return wrapper
