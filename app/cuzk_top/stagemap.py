"""The stage map: which lane and stage a kernel or a foreign program's range belongs to, by its name.

A map is a TOML file. Those in `stagemaps/` are shipped; the user's, `$XDG_CONFIG_HOME/cuzk-top/stages.toml`,
is asked first. One library a file::

    library = "sppark"
    detect = '^breakdown<'          # optional: rules marked `shared` apply once a name like this was seen

    [[kernel]]                      # of a device
    match = '^batch_addition<'      # a regular expression, searched for in the demangled name, no parameters
    lane = "msm"                    # one of KERNEL_LANES
    stage = "msm.batch_addition"
    shared = false                  # true: another library's kernel too, e.g. a sort

    [[range]]                       # an NVTX range or span of the host
    match = '^groth16'
    lane = "proof"                  # a lane of stages.py, or "held": a claim of a GPU
    stage = "prove"

Which GPU a claim is of says its argument called `device` or `gpu`, else a group `(?P<device>\\d+)` of the
expression; else it is number 0.

The first rule that matches decides. What none matches keeps its name and falls into `other`.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cuzk_top.errors import InputError

KERNEL_LANES = ("msm", "ntt", "hash", "other")
SHIPPED = Path(__file__).parent / "stagemaps"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a map. `pattern` is searched for in names."""

    pattern: re.Pattern[str]
    lane: str
    stage: str
    library: str
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where a name belongs. `library` is "" where no rule said anything; `device` is of a claim whose name
    says it.
    """

    lane: str
    stage: str = ""
    library: str = ""
    device: int | None = None


OTHER = Place("other")


@dataclass(frozen=True, slots=True)
class Library:
    """One file's rules."""

    name: str
    detect: re.Pattern[str] | None
    kernels: tuple[Rule, ...]
    ranges: tuple[Rule, ...]


class StageMap:
    """The rules of all maps in order, and which libraries were seen: a session's own object."""

    def __init__(self, libraries: Iterable[Library]) -> None:
        self._libraries = tuple(libraries)
        self._seen: set[str] = set()
        self._found: dict[str, Place] = {}

    def see(self, names: Iterable[str]) -> None:
        """Learn from these names which libraries are at work."""
        for name in names:
            for library in self._libraries:
                if library.name not in self._seen and library.detect and library.detect.search(name):
                    self._seen.add(library.name)

    def kernel(self, name: str) -> Place:
        """Where a kernel belongs, by its demangled name."""
        place = self._found.get(name)
        if place is None:
            place = self._found[name] = self._first(name)
        return place

    def _first(self, name: str) -> Place:
        for library in self._libraries:
            for rule in library.kernels:
                if (not rule.shared or library.name in self._seen) and rule.pattern.search(name):
                    return Place(rule.lane, rule.stage, rule.library)
        return OTHER

    def range(self, name: str) -> Place | None:
        """Where a range of the host belongs; None when no rule knows it."""
        for library in self._libraries:
            for rule in library.ranges:
                found = rule.pattern.search(name)
                if found:
                    device = found.groupdict().get("device")
                    number = int(device) if device and device.isdecimal() else None
                    return Place(rule.lane, rule.stage, rule.library, number)
        return None


def user_file(env: Mapping[str, str] = os.environ) -> Path:
    """The user's own map, whether it exists or not."""
    base = env.get("XDG_CONFIG_HOME", "")
    root = Path(base) if base and Path(base).is_absolute() else Path(env.get("HOME", "/")) / ".config"
    return root / "cuzk-top" / "stages.toml"


def load(env: Mapping[str, str] = os.environ) -> StageMap:
    """The user's map, if there is one, before the shipped ones. Raises InputError when the user's is
    wrong."""
    own = user_file(env)
    return StageMap([read(own), *shipped()] if own.is_file() else shipped())


def ranges(env: Mapping[str, str] = os.environ) -> StageMap:
    """The same, for spans of the host alone: one object as long as the user's file stays where it is."""
    return _ranges(user_file(env))


@cache
def _ranges(own: Path) -> StageMap:
    return StageMap([read(own), *shipped()] if own.is_file() else shipped())


@cache
def shipped() -> tuple[Library, ...]:
    """The maps that come with the program."""
    return tuple(read(path) for path in sorted(SHIPPED.glob("*.toml")))


def read(path: Path) -> Library:
    """One file. Raises InputError naming the rule that is wrong."""
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a stage map: {error}") from error
    name = str(data.get("library", path.stem))
    detect = data.get("detect")
    return Library(
        name,
        _pattern(path, "detect", detect) if detect is not None else None,
        tuple(_rules(path, name, "kernel", data.get("kernel", []), set(KERNEL_LANES))),
        tuple(_rules(path, name, "range", data.get("range", []), None)),
    )


def _rules(path: Path, library: str, table: str, entries: Any, lanes: set[str] | None) -> Iterable[Rule]:
    from cuzk_top import stages  # noqa: PLC0415 (stages asks this module for ranges)

    if not isinstance(entries, list):
        raise InputError(f"{path}: [{table}] must be written [[{table}]]")
    for number, entry in enumerate(entries, 1):
        where = f"{table} rule {number}"
        if not isinstance(entry, dict) or not isinstance(entry.get("match"), str):
            raise InputError(f"{path}: {where} has no match")
        unknown = set(entry) - {"match", "lane", "stage", "shared"}
        if unknown:
            raise InputError(f"{path}: {where}: unknown key {sorted(unknown)[0]!r}")
        lane = str(entry.get("lane", "other"))
        known = lanes or {*stages.ORDER, stages.HELD}
        if lane not in known:
            raise InputError(f"{path}: {where}: no lane {lane!r}; there are {', '.join(sorted(known))}")
        yield Rule(
            _pattern(path, where, entry["match"]),
            lane,
            str(entry.get("stage", lane)),
            library,
            bool(entry.get("shared", False)),
        )


def _pattern(path: Path, where: str, text: Any) -> re.Pattern[str]:
    try:
        return re.compile(str(text))
    except re.error as error:
        raise InputError(f"{path}: {where}: not a regular expression: {error}") from error
