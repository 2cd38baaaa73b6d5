"""The numbers beside the rows: what is kept from moment to moment is what is found afresh."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from test_timeline import BASE_NS, SESSION, SIZES, STEP_NS, Prover, columns_of

from cuzk_top.model import ROW_BYTES, Batch, Columns, Snapshot
from cuzk_top.screens.analysis import NO_INSIGHT, Insight
from cuzk_top.screens.layout import Arranger, arrange
from cuzk_top.screens.numbers import NumbersColumn
from cuzk_top.stalls.finding import NOTHING
from cuzk_top.store import Store
from cuzk_top.viewport import ViewState, Window


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_kept_numbers_are_those_found_afresh(data: st.DataObject) -> None:
    """Through the real store: spans and samples that come, also late, or are dropped; and a moving head."""
    few = data.draw(st.sampled_from([0, 40]))
    prover = Prover(Store(few * ROW_BYTES) if few else Store())
    arranger, column = Arranger(), NumbersColumn()
    view = ViewState(BASE_NS, BASE_NS + data.draw(st.sampled_from([100, 1_000, 20_000])) * STEP_NS)
    size, insight = SIZES[0], NO_INSIGHT
    for _ in range(data.draw(st.integers(2, 12))):
        what = data.draw(st.sampled_from([*["poll"] * 8, "page", "size", "scrub", "insight"]))
        if what == "poll":
            prover.poll(data)
        elif what == "page":
            now = prover.now_ns
            view = view.looking_at(Window(now - view.window.width_ns // 10, now + view.window.width_ns))
        elif what == "size":
            size = data.draw(st.sampled_from(SIZES))
        elif what == "insight":
            insight = Insight(NOTHING)
        snapshot = prover.store.snapshot()
        if what == "scrub":
            back = data.draw(st.integers(0, 100))
            snapshot = replace(snapshot, now_ns=snapshot.now_ns - back * view.window.width_ns // 100)
        kept, fresh = (
            arranger.arrange(snapshot, view, *size, insight),
            arrange(snapshot, view, *size, insight),
        )
        assert kept is not None and fresh is not None
        assert column.at(snapshot, view, kept, insight) == NumbersColumn().at(snapshot, view, fresh, insight)


def test_what_has_nothing_new_is_the_same_object() -> None:
    """A frame goes by that: an equal row that is another object is drawn again."""
    prover = Prover(Store())

    def quotient(start: int, end: int) -> Snapshot:
        """After one more span."""
        at, now = BASE_NS + start * STEP_NS, BASE_NS + end * STEP_NS
        span = prover.record("quotient", at, now, 1)
        prover.store.append(Batch(SESSION, columns_of([span]), Columns.empty(), 0, now))
        return prover.store.snapshot()

    arranger, insight = Arranger(), Insight(NOTHING)
    view = ViewState(BASE_NS, BASE_NS + 1_000 * STEP_NS)
    snapshot = quotient(0, 400)
    first = arranger.arrange(snapshot, view, *SIZES[0], NO_INSIGHT)
    assert first is not None
    assert arranger.arrange(snapshot, view, *SIZES[0], NO_INSIGHT) is first
    newer = arranger.arrange(snapshot, view, *SIZES[0], insight)
    assert newer is not None and newer.shape is first.shape
    assert all(was is now for was, now in zip(first.rows, newer.rows, strict=True))
    grown = arranger.arrange(quotient(500, 600), view, *SIZES[0], insight)
    assert grown is not None and grown.shape is first.shape
    changed = [row.key for was, row in zip(first.rows, grown.rows, strict=True) if was is not row]
    assert changed == ["ntt"]
