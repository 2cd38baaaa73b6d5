"""How often the picture moves: ten times a second while that is cheap, else five."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

FRAME_S = 0.1
DEAR_S, CHEAP_S = 0.005, 0.004
"""CPU time of a frame above which every other one is left out, and below which none is any more. 5 ms ten
times a second are the 5 % of a core that the viewer may cost."""
MEMORY = 0.1
"""Weight of the newest frame in the mean."""
MOST_S = 0.02
"""A frame counts as no more than this: a first frame, or a page that is opened, says nothing of the next."""


class Pace:
    """Asked at every tick of the frame timer, with the CPU time used so far (seconds of this thread)."""

    def __init__(self) -> None:
        self.halved = False
        self._mean_s = 0.0
        self._began_s: float | None = None
        """CPU time when the last frame began; None after a tick that was left out."""

    def due(self, cpu_s: float) -> bool:
        """Whether to draw now. A frame's cost is all that is used until the next tick, layout included."""
        if self._began_s is not None:
            cost = min(cpu_s - self._began_s, MOST_S)
            self._mean_s += (cost - self._mean_s) * MEMORY
            self.halved = self._mean_s > (CHEAP_S if self.halved else DEAR_S)
            if self.halved:
                self._began_s = None
                return False
        self._began_s = cpu_s
        return True


class Beat:
    """Calls `tick` every `FRAME_S` on the running loop, until `stop`; what comes late is left out.

    A timer of Textual's, a task that wakes up and asks around before it calls, costs twice as much.
    """

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick = tick
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time()
        self._handle = self._again()

    def stop(self) -> None:
        """No more."""
        self._handle.cancel()

    def _again(self) -> asyncio.TimerHandle:
        missed = max(0.0, self._loop.time() - self._at) // FRAME_S
        self._at += (missed + 1) * FRAME_S
        return self._loop.call_at(self._at, self._beat)

    def _beat(self) -> None:
        self._handle = self._again()
        self._tick()
