"""How a lane's spans look: which role fills them and which labels they may carry."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from cuzk_top import stages
from cuzk_top.model import RowData, Session, Snapshot
from cuzk_top.proofs import Numbers
from cuzk_top.rows import SOURCE_SHIFT
from cuzk_top.theme import ROLES
from cuzk_top.widgets.paint import clean

_INDEX = (1 << SOURCE_SHIFT) - 1
HELD_LANE = f".{stages.HELD}"
"""Ends the keys of lanes of who holds a GPU."""
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
        self.version = 0
        """Changes when names that were there before look different."""
        self._found: dict[str, bool] = {}
        self._known = 0
        """Names of the session that are numbered."""
        self._proofs = Numbers()
        self._learn()

    def renew(self, session: Session, search: str = "") -> None:
        """Take the session of a newer snapshot, and the text whose matches are to stand out."""
        if session.meta != self._session.meta:
            self._roles.clear()
            self.version += 1
        if search.casefold() != self.search:
            self.search = search.casefold()
            self._found.clear()
            self.version += 1
        self._session = session
        if len(session.names) != self._known:
            self._learn()

    def see(self, snapshot: Snapshot) -> None:
        """Take the snapshot by which proofs are numbered."""
        if self._proofs.see(snapshot):
            self.version += 1

    def proof_number(self, start_ns: int) -> int:
        """Of the proof that begins then, from 1 over the session."""
        return self._proofs.of(start_ns)

    def name(self, number: int) -> str:
        """Text of the session's name of that number."""
        names = self._session.names
        return names[number].text if number < len(names) else ""

    def partition_column(self, number: int) -> str:
        """Which argument of spans of that name is a partition's number: ``a0``, ``a1``, or none."""
        from cuzk_top.jobs import PARTITION  # noqa: PLC0415 - few sessions have any

        names = self._session.names
        arguments = (names[number].a0, names[number].a1) if number < len(names) else ()
        return f"a{arguments.index(PARTITION)}" if PARTITION in arguments else ""

    def matches(self, name: str) -> bool:
        """Whether the text that is searched for is in a name."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self.search in name.casefold()
        return found

    def role(self, name: str) -> str:
        """Role of a span: by its stage, steps of one operation in two shades by turns."""
        found = self._roles.get(name)
        if found is None:
            role = known_role(stages.role_of(name, self._session.meta))
            step = self._steps.get(name, 0)
            # What synthesis itself spends between its children is neither witness nor eval.
            role = "held" if name == "synthesis" else role
            found = self._roles[name] = _TWINS.get(role, role) if step % 2 else role
        return found

    def short(self, name: str) -> str:
        """The short name, each character of it one cell: names come from a foreign process."""
        short = self._shorts.get(name)
        if short is None:
            letters = clean(short_name(name))
            short = self._shorts[name] = "".join(c if cell_len(c) == 1 else "?" for c in letters)
        return short

    def _learn(self) -> None:
        """Number the names that came: each among those with the same parent, in the session's order, so that
        a span looks the same wherever one begins to watch.
        """
        names = self._session.names
        for entry in names[self._known :]:
            if entry.text not in self._steps:
                parent = entry.text.rpartition(".")[0]
                self._steps[entry.text] = self._seen.get(parent, 0) if parent else 0
                self._seen[parent] = self._steps[entry.text] + 1
        self._known = len(names)


class RowLabels:
    """Looks of one display row's cell codes: which role fills them, and the labels that they may carry."""

    def __init__(self, looks: Looks) -> None:
        self._looks = looks
        self._version = looks.version
        self._sources: tuple[RowData, ...] = ()
        self._names: dict[int, NDArray[np.uint32]] = {}
        self._roles: dict[tuple[int, int], str] = {}
        """By the source's place and the number of the name."""
        self._texts: dict[tuple[int, int], tuple[str, ...]] = {}
        """The same; not of proofs and partitions, which have numbers."""

    def of(self, sources: tuple[RowData, ...]) -> None:
        """From now on codes mean the spans of these."""
        if self._version != self._looks.version or len(sources) != len(self._sources):
            self._version = self._looks.version
            self._roles.clear()
            self._texts.clear()
        self._sources = sources
        self._names.clear()

    def _number_of(self, code: int) -> tuple[int, int]:
        """Place among the row's sources, and the number of the span's name."""
        place, index = code >> SOURCE_SHIFT, code & _INDEX
        names = self._names.get(place)
        if names is None:
            names = self._names[place] = self._sources[place].columns.name
        if index < len(names):
            return place, names.item(index)
        opened = self._sources[place].open
        return place, opened.name_id if opened is not None else 0

    def role(self, code: int) -> str:
        """What fills the cells of a span."""
        key = self._number_of(code)
        found = self._roles.get(key)
        if found is None:
            place, number = key
            found = self._roles[key] = self._role(self._sources[place], self._looks.name(number))
        return found

    def _role(self, source: RowData, name: str) -> str:
        looks = self._looks
        if looks.search and not looks.matches(name):
            return "held"  # what was not searched for is dull, so that the matches stand out
        gpu = stages.gpu_role(source.lane, name)
        own = known_role(gpu) if gpu is not None else looks.role(name)
        return "busy" if looks.search and own == "held" else own

    def texts(self, code: int) -> tuple[str, ...]:
        """What may stand on a span, the longest first."""
        key = self._number_of(code)
        found = self._texts.get(key)
        if found is None:
            place, number = key
            source, name = self._sources[place], self._looks.name(number)
            if self._looks.search and not self._looks.matches(name):
                found = ()
            elif source.lane.key.endswith(HELD_LANE):
                return self._partition(source, number, code & _INDEX)
            elif name == "prove":
                count = self._looks.proof_number(self._start(source, code & _INDEX))
                return (f"proof {count}", str(count), source.lane.letter.strip()[:1])
            else:
                found = self._named(source, name)
            self._texts[key] = found
        return found

    @staticmethod
    def _start(source: RowData, index: int) -> int:
        starts = source.columns.start_ns
        if index < len(starts) or source.open is None:
            return starts.item(index)
        return source.open.start_ns

    def _partition(self, source: RowData, number: int, index: int) -> tuple[str, ...]:
        """The partition that holds the GPU, where spans tell."""
        column = self._looks.partition_column(number)
        if not column:
            return ()
        if index < len(source.columns):
            return (str(getattr(source.columns, column).item(index)),)
        return (str(getattr(source.open, column)),)

    def _named(self, source: RowData, name: str) -> tuple[str, ...]:
        letter = source.lane.letter.strip()[:1]
        if stages.gpu_role(source.lane, name) is not None:
            kernel = stages.short_kernel(name)
            letter = "P" if name.endswith(".pageable") and letter == "H" else letter
            return (f"{letter} {kernel}", letter) if letter else (kernel,)
        short = self._looks.short(name)
        if "." not in name and letter:
            return (letter,)
        if name.count(".") == 1 and name.startswith("msm."):
            return (f"{letter} {short}", letter)
        return (short, short.split(".")[0], letter) if letter else (short, short.split(".")[0])


def fitting(texts: tuple[str, ...], width: int) -> str:
    """The longest label that leaves a blank after it, else a single letter."""
    for text in texts:
        if len(text) < width or len(text) == 1:
            return text
    return ""


def merged_text(count: int, width: int) -> str:
    """What stands over a stretch of cells with merged spans: how many, or ``+`` where it is too narrow."""
    text = f"+{count}"
    return text if len(text) <= width else "+"


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
