"""A saved trace behind the screen's controls. Only the play head differs from a live session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from cuzk_top import saving
from cuzk_top.facts import Facts, Playback, describe
from cuzk_top.model import Snapshot
from cuzk_top.sources.trace_file import Replay, TraceSource
from cuzk_top.store import Store


class ReplaySession:
    """The whole trace in a store, seen up to a play head, which stands at the end until it is played.

    Raises TraceError when the file cannot be read.
    """

    mode: Literal["live", "replay"] = "replay"

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        self.store = Store()
        self.deadlines: Mapping[str, int] = {}
        self._path = path
        source = TraceSource(path)
        self.store.append(source.poll())
        source.close()
        whole = self.store.snapshot()
        self._replay = Replay(clock, whole.first_ns, whole.last_ns)
        self._replay.seek(whole.last_ns)
        self._lines = [f"replay of {path}", *whole.problems]

    def snapshot(self) -> Snapshot:
        """The trace as of the play head."""
        return self._replay.view(self.store.snapshot())

    def facts(self) -> Facts:
        """What to show in the header beside the trace."""
        return replace(describe(self.store.snapshot()), deadlines=self.deadlines)

    def playback(self) -> Playback | None:
        """Where the replay stands."""
        return Playback(self._replay.playing, self._replay.speed, self._replay.at_end)

    def play(self) -> None:
        """Go on playing."""
        self._replay.play()

    def pause(self) -> None:
        """Hold the play head."""
        self._replay.pause()

    def set_speed(self, speed: float) -> None:
        """Seconds of trace a second."""
        self._replay.set_speed(speed)

    def seek(self, t_ns: int) -> None:
        """Move the play head."""
        self._replay.seek(t_ns)

    def save_buffer(self) -> Path:
        """Write the whole trace again, as a file of its own (see `saving.buffer`)."""
        return saving.buffer(self.store.snapshot())

    def trace_path(self) -> Path | None:
        """The file that is replayed."""
        return self._path

    def lines(self) -> Sequence[str]:
        """Where the trace came from and what is wrong with it."""
        return self._lines

    def stop(self) -> None:
        """Nothing runs."""
