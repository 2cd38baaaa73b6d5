"""The one thread that reads sources into the store, and into a recording."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from cuzk_top.errors import CuzkTopError
from cuzk_top.merge import Merger
from cuzk_top.model import Batch, Columns, Session
from cuzk_top.sources import Probe, Recoverable, Source
from cuzk_top.store import Store

INTERVAL_S = 0.1
"""A poll a frame: more often the screen could not show it."""
EARLIER = ((4096, 0.0125), (512, 0.05))
"""A poll that brings so many records is followed by the next after so many seconds: 4096 are a quarter of a
thread's ring."""
HURRIED_S = 0.005
"""The first pause after `hurry`; each further one is twice as long, up to INTERVAL_S."""


class Recorder(Protocol):
    """What keeps a recording (see `recording.Recorder`)."""

    path: Path

    def append(self, batch: Batch) -> None: ...

    def close(self) -> None: ...


class Collector:
    """Polls a source and probes 10 times a second (more often where much comes) until the source ends or
    `stop` is called.

    `clock` is CLOCK_MONOTONIC in ns. An error of the source ends the collection, one of the recorder only the
    recording; both appear among the snapshot's problems. `facts` of the machine are added to the session's
    metadata; `finished` is called on the thread once all is done.
    """

    def __init__(
        self,
        source: Source,
        probes: Sequence[Probe],
        store: Store,
        recorder: Recorder | None,
        clock: Callable[[], int],
        facts: Mapping[str, str] | None = None,
        finished: Callable[[], None] | None = None,
    ) -> None:
        self._source = source
        self._probes = list(probes)
        self._store = store
        self._recorder = recorder
        self._clock = clock
        self._finished = finished
        self._merger = Merger(facts=facts)
        self._wake = threading.Event()
        self._stopping = False
        self._hurried_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self._cpu_s = 0.0
        self._cpu_mark: tuple[int, float] | None = None
        self._problems: tuple[str, ...] = ()
        self._last: Batch | None = None

    def start(self) -> None:
        """Begin collecting."""
        self._thread.start()

    def stop(self) -> None:
        """Collect once more, finish the recording and return when all is done. May be called again."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def hurry(self) -> None:
        """The source is about to end: see that at once and not a frame later."""
        self._hurried_s = HURRIED_S
        self._wake.set()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the source's end; True when it has come and the recording is complete."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def cpu_seconds(self) -> float:
        """CPU time the collector's thread has used."""
        return self._cpu_s

    def _run(self) -> None:
        _tell_name()
        try:
            while self.step():
                rows = len(self._last.columns) if self._last is not None else 0
                pause = next((pause for many, pause in EARLIER if rows >= many), INTERVAL_S)
                if self._hurried_s is not None:
                    pause = min(pause, self._hurried_s)
                    self._hurried_s *= 2
                if self._wake.wait(pause):
                    self._wake.clear()
                if self._stopping:
                    self.step()
                    break
        finally:
            self._finish()

    def step(self) -> bool:
        """Poll everything once; False when the source has ended. Public for use without the thread."""
        try:
            main = self._source.poll()
            now, asked = self._clock(), self._probes if not main.ended else []
            probed = [probe.poll() if now >= probe.due_ns else None for probe in asked]
            batch = self._merger.merge(main, probed)
        except CuzkTopError as error:
            batch = self._failed(str(error))
        if self._recorder is not None:
            try:
                self._recorder.append(batch)
            except (OSError, CuzkTopError) as error:
                self._problems += (f"recording stopped: {error}",)
                self._recorder = None
        if self._problems:
            batch = replace(batch, problems=batch.problems + self._problems)
        self._measure()
        self._last = batch
        self._store.append(batch)
        return not batch.ended

    def _failed(self, why: str) -> Batch:
        """The end of a source that can no longer be read: what is known stays on screen."""
        if self._last is not None:
            return replace(self._last, columns=Columns.empty(), ended=True, problems=(why,))
        return Batch(Session(), Columns.empty(), Columns.empty(), 0, self._clock(), True, problems=(why,))

    def _measure(self) -> None:
        """The viewer's own CPU share, over a second at least; and this thread's CPU time."""
        self._cpu_s = time.thread_time()
        now = self._clock()
        if self._cpu_mark is None:
            self._cpu_mark = (now, time.process_time())
        elif now - self._cpu_mark[0] >= 1_000_000_000:
            used = time.process_time()
            self._store.viewer_cpu = (used - self._cpu_mark[1]) / (now - self._cpu_mark[0]) * 1e11
            self._cpu_mark = (now, used)

    def _finish(self) -> None:
        self._store.settle()
        if self._recorder is not None:
            try:
                self._recorder.close()
                if self._last is not None and self._last.ended and isinstance(self._source, Recoverable):
                    self._source.discard()
            except (OSError, CuzkTopError) as error:
                last = self._last or self._failed("nothing was collected")
                why = f"the recording could not be finished: {error}"
                self._store.append(replace(last, columns=Columns.empty(), problems=(*last.problems, why)))
        for source in (self._source, *self._probes):
            source.close()
        if self._finished is not None:
            self._finished()


def _tell_name() -> None:
    """Have the system's tools call this thread by its name, as newer Pythons do by themselves."""
    with suppress(OSError):
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(threading.current_thread().name)
