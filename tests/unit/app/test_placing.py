"""Which stretch of a session its windows show."""

import sys
from dataclasses import replace
from pathlib import Path

from cuzk_top.screens import placing
from cuzk_top.viewport import ViewState

sys.path.insert(0, str(Path(__file__).parents[2] / "ui"))
import sessions as build

MS, BASE, COLUMNS = build.MS, build.BASE_NS, 100


def test_a_minute_of_samples_after_the_proofs_does_not_fold_them_up():
    whole = build.snapshot_of(build.proofs(3, scale=10.0), 4_000, ended=True)
    ends = [row.columns.end_ns.item(-1) for row in whole.rows if len(row.columns)]
    starts = [row.columns.start_ns.item(0) for row in whole.rows if len(row.columns)]
    first, last = min(starts), max(ends)
    later = replace(whole, first_ns=first - 5_000 * MS, last_ns=last + 60_000 * MS, now_ns=last + 60_000 * MS)
    for live in (False, True):
        fitted = placing.moved_along(ViewState(mode="fit"), later, COLUMNS, live)
        assert first - fitted.t0_ns == (last - first) // placing.MARGIN
        assert last < fitted.t1_ns < last + (last - first) // 5
        all_of_it = placing.moved_along(ViewState(mode="all"), later, COLUMNS, live)
        assert all_of_it.t0_ns == later.first_ns and all_of_it.t1_ns >= later.last_ns


def test_a_span_that_runs_is_fitted_up_to_now():
    running = build.snapshot_of(build.proofs(1, scale=10.0, until_ms=400), 400)
    fitted = placing.moved_along(ViewState(mode="fit"), running, COLUMNS, True)
    assert fitted.t1_ns >= running.now_ns == BASE + 400 * MS


def test_samples_alone_are_fitted_as_they_are():
    nothing = replace(build.snapshot_of([], 400), first_ns=BASE, last_ns=BASE + 300 * MS)
    fitted = placing.moved_along(ViewState(mode="fit"), nothing, COLUMNS, False)
    assert (fitted.t0_ns, fitted.t1_ns) == (BASE, BASE + 300 * MS)
