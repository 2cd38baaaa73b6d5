"""What waited for what, who was at fault, what it cost and what closing it would save.

`analyse` is all that a screen or a report needs; it is imported when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuzk_top.model import Snapshot
    from cuzk_top.stalls.finding import Analysis
    from cuzk_top.stalls.limits import Limits


def analyse(
    snapshot: Snapshot, window: tuple[int, int] | None = None, limits: Limits | None = None
) -> Analysis:
    """The findings of one window of a snapshot (None: all of it), up to its play head.

    A pure function: equal snapshots give equal analyses. It takes milliseconds, so a screen calls it from a
    thread.
    """
    from cuzk_top.stalls import analysis  # noqa: PLC0415 (numpy work that a start without a screen spares)
    from cuzk_top.stalls.limits import DEFAULTS  # noqa: PLC0415

    return analysis.analyse(snapshot, window, limits or DEFAULTS)


__all__ = ["analyse"]
