"""Which rows stand on the screen: worker threads of the host library only where their lane is unfolded."""

from __future__ import annotations

from dataclasses import replace

from cuzk_top.model import KIND_SPAN, Batch, Columns, Name, Session, Track
from cuzk_top.screens.analysis import NO_INSIGHT
from cuzk_top.screens.lanes import Fold, display_rows
from cuzk_top.store import Store
from cuzk_top.viewport import ViewState

NAMES = ["", "msm.h", "msm.h.accumulate", "msm.h.accumulate.worker", "synthesis"]


def snapshot(*spans: tuple[str, int, int, int, int]):  # type: ignore[no-untyped-def]
    """Of (name, start, end, depth, track)."""
    session = Session(
        pid=1,
        names=[Name(text) for text in NAMES],
        tracks={t: Track(t, "thread", f"t{t}") for t in {span[4] for span in spans}},
    )
    columns = Columns.make(
        len(spans),
        start_ns=[s[1] for s in spans],
        end_ns=[s[2] for s in spans],
        kind=KIND_SPAN,
        depth=[s[3] for s in spans],
        track=[s[4] for s in spans],
        name=[NAMES.index(s[0]) for s in spans],
        id=range(1, len(spans) + 1),
    )
    store = Store()
    store.append(Batch(session, columns, Columns.empty(), 0, 1000))
    return store.snapshot()


PROOF = snapshot(
    ("msm.h.accumulate", 110, 190, 1, 1),
    ("msm.h.accumulate.worker", 112, 188, 0, 2),
    ("msm.h", 100, 200, 0, 1),
)


def labels(view: ViewState, of: object = PROOF) -> list[str]:
    return [row.label for row in display_rows(of, view, NO_INSIGHT, Fold()) if not row.empty]  # type: ignore[arg-type]


def test_workers_are_folded_into_their_lane() -> None:
    assert labels(ViewState()) == ["msm h"]


def test_an_unfolded_lane_shows_its_levels_and_workers() -> None:
    assert labels(replace(ViewState(), unfolded=frozenset({"msm.h"}))) == ["msm h", "level 1", "worker 1"]


def test_threads_with_stages_of_their_own_keep_a_row_each() -> None:
    two = snapshot(("synthesis", 100, 200, 0, 1), ("synthesis", 150, 260, 0, 2))
    assert labels(ViewState(), two) == ["synth 0", "synth 1"]
