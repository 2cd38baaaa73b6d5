"""What the screen showed, as a file beside a screenshot, so that the same picture can be opened again.

JSON, version 1::

    {"cuzk-top.view": "1.0", "trace": PATH or null, "size": [COLUMNS, ROWS], "view": {FIELD: VALUE, ...}}

The fields are those of `viewport.ViewState`; ones that a file lacks have their defaults, ones that this
program does not know are passed over.
"""

from __future__ import annotations

import dataclasses
import json
import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from cuzk_top import viewport
from cuzk_top.errors import InputError
from cuzk_top.viewport import ViewState

KEY = "cuzk-top.view"
VERSION_MAJOR = 1
VERSION_MINOR = 0
_FARTHEST_NS = 1 << 61
"""Of a time from 0, as in a trace: sums of two still fit 64 bits."""


def dump(view: ViewState, trace: Path | None, size: tuple[int, int]) -> str:
    """The file's text. `trace`: what was shown, None where it was not recorded; `size`: columns, rows."""
    content = {
        KEY: f"{VERSION_MAJOR}.{VERSION_MINOR}",
        "trace": None if trace is None else str(trace.absolute()),
        "size": list(size),
        "view": _plain(view),
    }
    return json.dumps(content, indent=1) + "\n"


def load(path: Path) -> tuple[ViewState, Path | None]:
    """The view, and the trace it was of: where it was then, else beside the view file if it is there.

    Raises InputError when the file is no view, is damaged, or is of another major version.
    """
    try:
        content = json.loads(path.read_bytes())
        version = str(content[KEY])
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise InputError(f"{path}: not a view that cuzk-top saved: S on the screen writes one") from error
    if version.partition(".")[0] != str(VERSION_MAJOR):
        raise InputError(
            f"{path}: view version {version[:20]}; this program reads version {VERSION_MAJOR}: "
            "use the cuzk-top that wrote it, or a newer one"
        )
    try:
        view: ViewState = _read(ViewState, content.get("view", {}), "view")
        trace = _read(str | None, content.get("trace"), "trace")
        if not view.t0_ns < view.t1_ns:
            raise ValueError("view: the window is empty")
        if view.selection is not None and view.selection[0] > view.selection[1]:
            raise ValueError("view.selection: it ends before it begins")
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged: {error}") from error
    width = viewport.clamp_width(view.t1_ns - view.t0_ns)
    return dataclasses.replace(view, t1_ns=view.t0_ns + width), _found(trace, path)


def _found(trace: str | None, path: Path) -> Path | None:
    """Where the trace is: files are moved together."""
    if trace is None:
        return None
    beside = path.parent / Path(trace).name
    return beside if not Path(trace).exists() and beside.exists() else Path(trace)


def _plain(value: Any) -> Any:
    """A value of a view as JSON has it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, frozenset):
        return sorted(map(_plain, value))
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _read(kind: Any, value: Any, where: str) -> Any:
    """A value of this type from JSON. Raises ValueError naming the place."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and types.NoneType in inner:
            return None
        [kind] = [each for each in inner if each is not types.NoneType]
        return _read(kind, value, where)
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{where}: one of {', '.join(map(str, inner))} is wanted")
        return value
    if origin in (tuple, frozenset):
        if not isinstance(value, list) or (origin is tuple and ... not in inner and len(value) != len(inner)):
            raise ValueError(f"{where}: a list is wanted")
        kinds = inner if origin is tuple and ... not in inner else inner[:1] * len(value)
        return origin(_read(each, item, where) for each, item in zip(kinds, value, strict=True))
    if dataclasses.is_dataclass(kind):
        return _read_fields(kind, value, where)
    return _read_one(kind, value, where)


def _read_fields(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where}: an object is wanted")
    hints = get_type_hints(kind)
    known = {field.name for field in dataclasses.fields(kind)}
    given = {name: _read(hints[name], value[name], f"{where}.{name}") for name in value if name in known}
    try:
        return kind(**given)
    except TypeError as error:  # a field without a default
        raise ValueError(f"{where}: incomplete") from error


def _read_one(kind: type, value: Any, where: str) -> Any:
    if type(value) is not kind:
        words = {int: "a whole number", bool: "true or false", str: "a text"}
        raise ValueError(f"{where}: {words.get(kind, kind.__name__)} is wanted")
    if isinstance(value, int) and abs(value) > _FARTHEST_NS:
        raise ValueError(f"{where}: out of range")
    return value
