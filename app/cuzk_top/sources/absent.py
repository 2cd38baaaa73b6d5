"""A process without a ring: no records, only whether it still runs. Proving goes on where tracing cannot."""

from __future__ import annotations

from collections.abc import Callable

from cuzk_top.model import Batch, Columns, Session


class AbsentRing:
    """Batches that say why there is nothing to see, until `running` says that the process is gone."""

    def __init__(self, pid: int, why: str, running: Callable[[], bool], clock: Callable[[], int]) -> None:
        self._session = Session(pid=pid, started_ns=clock())
        self._problems = (why,)
        self._running = running
        self._clock = clock

    def poll(self) -> Batch:
        """No records; `ended` once the process is gone."""
        return Batch(
            session=self._session,
            columns=Columns.empty(),
            open=Columns.empty(),
            lost=0,
            now_ns=self._clock(),
            ended=not self._running(),
            problems=self._problems,
        )

    def close(self) -> None:
        """Nothing to let go of."""
