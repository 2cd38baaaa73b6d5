"""Progress lines where there is no screen: one a stage that ended, from the store the screen reads too."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cuzk_top import figures, stages

if TYPE_CHECKING:
    from cuzk_top.model import Snapshot, SpanRecord

STAGE_DEPTH = 1
"""Stages lie directly inside a proof; what is deeper is detail for the report."""
MOST_LINES = 50
"""Of one update: a program that has spans by the thousand is not followed line by line."""


class Progress:
    """Prints each stage once, in order of its end. `write` takes one line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._next: dict[tuple[str, int, int], int] = {}
        self._left_out = 0

    def skip(self, snapshot: Snapshot) -> None:
        """Count what ended so far as printed: it was seen on the screen."""
        self._new(snapshot)

    def update(self, snapshot: Snapshot) -> None:
        """Print what ended since the last call."""
        found = sorted(self._new(snapshot), key=lambda span: (span.end_ns, -span.depth))
        more = self._left_out + max(0, len(found) - MOST_LINES)
        for record in found[:MOST_LINES]:
            self._write(line(record))
        if more:
            self._write(f"  and {more:,} more")

    def _new(self, snapshot: Snapshot) -> list[SpanRecord]:
        found: list[SpanRecord] = []
        self._left_out = 0
        for row in snapshot.rows:
            count = len(row.columns)
            if row.depth > STAGE_DEPTH or not count or stages.gpu_role(row.lane, "") is not None:
                continue
            # Arrival numbers grow along a row, so the first new one is found without looking at the old ones.
            first = int(row.columns.seq.searchsorted(self._next.get(row.key, 0)))
            last = min(count, first + MOST_LINES)
            self._left_out += count - last
            found += [snapshot.record(row, i) for i in range(first, last)]
            self._next[row.key] = int(row.columns.seq[-1]) + 1
        return found


def line(record: SpanRecord) -> str:
    """``  msm.h               12.3 ms   points 65,536   window_bits 13   minflt 1,024``."""
    words = [f"{'  ' * record.depth}{record.name}"]
    words[0] = f"{words[0]:<24}{figures.spaced(record.duration_ns):>9}"
    words += [f"{name} {value:,}" for name, value in record.arguments() if value]
    if record.has_faults and (record.minflt or record.majflt):
        words.append(f"minflt {record.minflt:,}" + (f" majflt {record.majflt:,}" if record.majflt else ""))
    if record.failed:
        words.append("failed")
    return "   ".join(words)
