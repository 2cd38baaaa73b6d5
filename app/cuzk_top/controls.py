"""What the session screen asks of whoever owns the session: the seam between the interface and the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from cuzk_top.model import Snapshot


@dataclass(frozen=True, slots=True)
class Facts:
    """What the owner of a session knows beyond the trace. Short phrases, shown as they are."""

    job: str
    backend: str = ""
    """Such as ``CPU native, 2 threads``."""
    gpu: str = ""
    """Such as ``no device data (NVML not found)``."""
    measured: tuple[str, ...] = ()
    """Sources that measure: ``tracer``, ``proc``, ``nvml``."""
    tracing: str | None = None
    """Cost of tracing, such as ``+0.4%`` or ``250 ns a span``; None where it is not known."""
    deadlines: Mapping[str, int] = field(default_factory=dict)
    """Kind of job -> nanoseconds from its start within which it is due (see `jobs.jobs`)."""


@dataclass(frozen=True, slots=True)
class Playback:
    """State of a replay."""

    playing: bool
    speed: float
    at_end: bool = False


class SessionControls(Protocol):
    """What the screen asks of whoever owns the session. All of it must return at once."""

    deadlines: Mapping[str, int]
    """What the command line says is due when; told on as part of `facts`."""

    @property
    def mode(self) -> Literal["live", "replay"]: ...

    def snapshot(self) -> Snapshot:
        """The newest snapshot; the same object while nothing changed. In a replay `now_ns` is the play
        head.
        """

    def facts(self) -> Facts: ...

    def playback(self) -> Playback | None:
        """None when live."""

    def play(self) -> None: ...

    def pause(self) -> None: ...

    def set_speed(self, speed: float) -> None: ...

    def seek(self, t_ns: int) -> None: ...

    def lines(self) -> Sequence[str]:
        """Recent lines of the prover or the session, oldest first."""

    def save_buffer(self) -> Path:
        """Write everything that is kept in memory as a trace into the traces folder, and say where.

        The one call that may take long (about a second for 10 million spans): any thread may make it, and
        collecting goes on meanwhile. Raises CuzkTopError when the file cannot be written.
        """

    def trace_path(self) -> Path | None:
        """The file that holds this session, or will when it ends; None where there is none."""

    def stop(self) -> None:
        """Ctrl-C: ask the session to stop."""
