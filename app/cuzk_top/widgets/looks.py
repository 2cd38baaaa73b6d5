"""How a lane's spans look: which role fills them and which labels they may carry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from cuzk_top import stages
from cuzk_top.model import RowData, Session
from cuzk_top.rows import SOURCE_SHIFT
from cuzk_top.screens.lanes import DisplayRow
from cuzk_top.theme import ROLES
from cuzk_top.widgets.paint import clean
from cuzk_top.widgets.runs import Labels

_INDEX = (1 << SOURCE_SHIFT) - 1
_TWINS = {"ntt": "ntt 2", "cpu msm": "cpu msm 2"}


def known_role(role: str) -> str:
    """The role, or plain grey for one that the palette lacks."""
    return role if role in ROLES else "held"


class Looks:
    """Role and label tables of a session's names; grows with them."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._steps: dict[str, int] = {}
        self._seen: dict[str, int] = {}
        self._roles: dict[str, str] = {}
        self._shorts: dict[str, str] = {}
        self.search = ""
        self._found: dict[str, bool] = {}

    def renew(self, session: Session, search: str = "") -> None:
        """Take the session of a newer snapshot, and the text whose matches are to stand out."""
        if session.meta != self._session.meta:
            self._roles.clear()
        if search.casefold() != self.search:
            self.search = search.casefold()
            self._found.clear()
        self._session = session

    def _matches(self, name: str) -> bool:
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self.search in name.casefold()
        return found

    def role(self, name: str) -> str:
        """Role of a span: by its stage, steps of one operation in two shades by turns."""
        found = self._roles.get(name)
        if found is None:
            role = known_role(stages.role_of(name, self._session.meta))
            step = self._step(name)
            # What synthesis itself spends between its children is neither witness nor eval.
            role = "held" if name == "synthesis" else role
            found = self._roles[name] = _TWINS.get(role, role) if step % 2 else role
        return found

    def labels(self, row: DisplayRow) -> Labels:
        """Looks of one display row's cell codes."""

        columns: dict[int, NDArray[np.uint32]] = {}
        roles: dict[tuple[int, int], str] = {}

        def number_of(code: int) -> tuple[int, int]:
            """Place among the row's sources, and the number of the span's name; -1: the open span's."""
            place, index = code >> SOURCE_SHIFT, code & _INDEX
            column = columns.get(place)
            if column is None:
                column = columns[place] = row.sources[place].columns.name
            return place, column.item(index) if index < len(column) else -1

        def name_of(place: int, number: int) -> tuple[RowData, str]:
            source, names = row.sources[place], self._session.names
            if number < 0:
                return source, source.open.name if source.open is not None else ""
            return source, names[number].text if number < len(names) else ""

        def role(code: int) -> str:
            key = number_of(code)
            found = roles.get(key)
            if found is None:
                found = roles[key] = role_of(*name_of(*key))
            return found

        def role_of(source: RowData, name: str) -> str:
            if self.search and not self._matches(name):
                return "held"  # what was not searched for is dull, so that the matches stand out
            gpu = stages.gpu_role(source.lane, name)
            own = known_role(gpu) if gpu is not None else self.role(name)
            return "busy" if self.search and own == "held" else own

        def texts(code: int) -> tuple[str, ...]:
            source, name = name_of(*number_of(code))
            if self.search and not self._matches(name):
                return ()
            letter = source.lane.letter.strip()[:1]
            if stages.gpu_role(source.lane, name) is not None:
                kernel = stages.short_kernel(name)
                letter = "P" if name.endswith(".pageable") and letter == "H" else letter
                return (f"{letter} {kernel}", letter) if letter else (kernel,)
            short = self._short(name)
            if name == "prove":
                number = (code & _INDEX) + 1
                return (f"proof {number}", str(number), letter)
            if "." not in name and letter:
                return (letter,)
            if name.count(".") == 1 and name.startswith("msm."):
                return (f"{letter} {short}", letter)
            return (short, short.split(".")[0], letter) if letter else (short, short.split(".")[0])

        return Labels(role, texts)

    def _short(self, name: str) -> str:
        """The short name, each character of it one cell: names come from a foreign process."""
        short = self._shorts.get(name)
        if short is None:
            letters = clean(short_name(name))
            short = self._shorts[name] = "".join(c if cell_len(c) == 1 else "?" for c in letters)
        return short

    def _step(self, name: str) -> int:
        """Number of a name among those with the same parent, by order of appearance."""
        step = self._steps.get(name)
        if step is None:
            parent = name.rpartition(".")[0]
            step = self._steps[name] = self._seen.get(parent, 0) if name.count(".") else 0
            self._seen[parent] = step + 1
        return step


def path_names(name: str) -> tuple[str, ...]:
    """What a step of the critical path may be called, the longest first; a step of no span has no name."""
    if not name:
        return ("not recorded", "?")
    plain = clean(stages.short_kernel(name) or name)
    return tuple(dict.fromkeys((plain, short_name(plain), plain.rpartition(".")[2] or plain)))


def short_name(name: str) -> str:
    """What a span is called inside its lane: ``synthesis.abc.eval`` is ``eval`` work of synthesis."""
    parts = name.split(".")
    if parts[0] == "synthesis":
        return {"abc": "eval", "witness": "witness"}.get(parts[1], parts[1]) if len(parts) > 1 else name
    if parts[0] == "msm":
        return parts[-1]
    return ".".join(parts[1:]) or name
