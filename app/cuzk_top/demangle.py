"""Kernel names for people: C++ names demangled, without parameters, compiler-made namespaces said plainly.

The demangler is the C++ runtime's own (`__cxa_demangle`, Itanium C++ ABI 3.4), which numpy is linked
with too; without one, names stay as they are.
"""

import ctypes
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

LONGEST = 4000
_ANONYMOUS = re.compile(r"_GLOBAL__N__[0-9A-Za-z_]+|\(anonymous namespace\)|__nv_[a-z_]*hashed[0-9A-Za-z_]*")
_HASHED = re.compile(r"_INTERNAL_[0-9a-f]+_\d+_\w+?_cu_[0-9a-f_]+::")


@cache
def _demangler() -> Callable[[bytes], bytes] | None:
    """The runtime's function as one from bytes to bytes; None where there is none."""
    for name in _runtimes():
        try:
            library = ctypes.CDLL(name) if name else None
            function = library.__cxa_demangle if library is not None else None
        except (OSError, AttributeError):
            continue
        if function is None:
            continue
        return _wrapped(function)
    return None


def _runtimes() -> Iterator[str | None]:
    """Where the function may be; looking for libraries starts other programs, so only where it is needed."""
    yield "libstdc++.so.6"
    from ctypes.util import find_library  # noqa: PLC0415

    yield find_library("stdc++")
    yield find_library("c++abi")


def _wrapped(function: Any) -> Callable[[bytes], bytes]:
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    free = ctypes.CDLL(None).free
    free.argtypes = [ctypes.c_void_p]

    def demangle(mangled: bytes) -> bytes:
        status = ctypes.c_int()
        made = function(mangled, None, None, ctypes.byref(status))
        if not made:
            return mangled
        try:
            return ctypes.string_at(made)
        finally:
            free(made)

    return demangle


@cache
def readable(name: str) -> str:
    """A kernel's name without return type and parameters; any other name unchanged.

    ``_Z3addILi1EEvPjj`` is ``add<1>``. A name that is cut off or wrongly mangled stays as it is.
    """
    if not name.startswith("_Z") or len(name) > LONGEST:
        return name
    demangle = _demangler()
    if demangle is None:
        return name
    plain = demangle(name.encode()).decode("utf-8", "replace")
    return name if plain == name else _bare(_HASHED.sub("", _ANONYMOUS.sub("(anonymous)", plain)))


def _bare(text: str) -> str:
    """A demangled function without its parameters and return type."""
    depth = 0
    start = 0
    for i, c in enumerate(text):
        if c == "<" and not text[:i].endswith("operator"):
            depth += 1
        elif c == ">" and depth and text[i - 1] != "-":
            depth -= 1
        elif c == " " and depth == 0:
            start = i + 1  # what came before was the return type
        elif c == "(" and depth == 0 and not text.startswith("(anonymous)", i):
            return text[start:i] or text
        elif c in "([" and depth:
            depth += 1
        elif c in ")]" and depth > 1:
            depth -= 1
    return text[start:] or text
