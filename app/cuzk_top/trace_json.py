"""Names, tracks and sessions as the trace files have them in JSON; what is read is brought into range.

Reading raises TypeError, ValueError, KeyError or OverflowError when the JSON is not what was written.
"""

from __future__ import annotations

from typing import Any

from cuzk_top.model import Name, Session, Track

_LOW, _HIGH = -(2**63), 2**63 - 1


def text_of(value: Any) -> str:
    """Any JSON value as text that can be printed."""
    return str(value).encode("utf-8", "replace").decode()


def integer_of(value: Any) -> int:
    """An integer that 64 bits hold."""
    return min(max(int(value), _LOW), _HIGH)


def time_of(value: Any) -> int:
    """A time in nanoseconds, far enough from the ends of 64 bits for sums."""
    return min(max(int(value), _LOW // 4), _HIGH // 4)


def name_of(fields: list[Any]) -> Name:
    """A name; later versions may say more of it."""
    text, a0, a1, stage, faults = fields[:5]
    return Name(text_of(text), text_of(a0), text_of(a1), bool(stage), bool(faults))


def track_of(number: int, fields: list[Any]) -> Track:
    """A track by its number."""
    kind, label, tid = fields[:3]
    return Track(number, text_of(kind), text_of(label), integer_of(tid))


def read_session(session: Session, content: dict[str, Any]) -> None:
    """Take over what `session_json` said."""
    session.pid = integer_of(content["pid"])
    session.name = text_of(content["name"])
    session.started_ns = time_of(content["started_ns"])
    session.meta = {text_of(key): text_of(value) for key, value in content["meta"].items()}


def name_json(name: Name) -> list[Any]:
    """A name as the files have it."""
    return [name.text, name.a0, name.a1, name.stage, name.faults]


def session_json(session: Session, facts: dict[str, str]) -> dict[str, Any]:
    """A session as the files have it."""
    meta = facts | session.meta
    return {"pid": session.pid, "name": session.name, "started_ns": session.started_ns, "meta": meta}


def state_json(lost: int, now_ns: int, ended: bool, problems: list[str]) -> dict[str, Any]:
    """How a session stands, as the files have it."""
    return {"lost": lost, "now_ns": now_ns, "ended": ended, "problems": problems}
