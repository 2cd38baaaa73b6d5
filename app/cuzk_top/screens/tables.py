"""The figures of a screen: the right-hand numbers of lanes and counters, and the stage table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cuzk_top.model import Snapshot
from cuzk_top.screens.analysis import Insight
from cuzk_top.screens.layout import Layout
from cuzk_top.screens.numbers import NumbersColumn
from cuzk_top.stage_table import Stage, stage_table
from cuzk_top.viewport import ViewState
from cuzk_top.widgets.timeline import Numbers


class Figures(NamedTuple):
    """What is computed at most twice a second, and in the background for large traces."""

    numbers: dict[str, Numbers]
    table: Sequence[Stage]


NO_FIGURES = Figures({}, ())


class Tables:
    """Computes figures from moment to moment. One thread at a time."""

    def __init__(self) -> None:
        self._numbers = NumbersColumn()

    def at(
        self,
        snapshot: Snapshot,
        view: ViewState,
        layout: Layout,
        insight: Insight,
        table: Sequence[Stage] | None,
    ) -> Figures:
        """All figures of a moment; a stage table that still holds is passed in."""
        numbers = self._numbers.at(snapshot, view, layout, insight)
        return Figures(numbers, stage_table(snapshot) if table is None else table)
