"""From when on a row or a counter is another than in the picture before.

A session that runs only adds at the end: what was drawn stays, except for where the last picture ended. The
store hands out views of arrays that it never writes again, so two views of one array that begin at the same
place have what they share in common without a look at it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cuzk_top.model import RowData
from cuzk_top.rows import Spans
from cuzk_top.viewport import Int64s

ALL_NS = -(1 << 62)
"""Before every time: nothing is known to be the same."""
NOTHING_NS = 1 << 62
"""After every time: all is the same."""


@dataclass(slots=True, eq=False)
class Seen:
    """What a picture was drawn from: a row of spans, or (with no open one) a counter's samples."""

    start_ns: Int64s
    end_ns: Int64s
    open_ns: int | None
    now_ns: int
    _address: int | None = None

    @classmethod
    def of_row(cls, row: RowData, now_ns: int) -> Seen:
        """A row of spans at a moment."""
        opened = row.open.start_ns if row.open is not None else None
        return cls(row.columns.start_ns, row.columns.end_ns, opened, now_ns)

    def address(self) -> int:
        """Where the starts lie."""
        if self._address is None:
            self._address = int(self.start_ns.__array_interface__["data"][0])
        return self._address

    def spans(self) -> Spans:
        """The spans up to now."""
        return Spans.until(self.start_ns, self.end_ns, self.open_ns, self.now_ns)

    def last_ns(self) -> int | None:
        """Until when there is anything up to now; None where there is nothing."""
        if self.open_ns is not None and self.open_ns < self.now_ns:
            return self.now_ns
        count = len(self.start_ns)
        if count and self.start_ns.item(count - 1) >= self.now_ns:
            count = int(self.start_ns.searchsorted(self.now_ns, "left"))
        return min(self.end_ns.item(count - 1), self.now_ns) if count else None


def settled(seen: Iterable[Seen]) -> int:
    """The moment from which on these look as they do now as long as nothing comes, or `NOTHING_NS` where
    time itself still changes them.
    """
    last = ALL_NS
    for one in seen:
        if one.open_ns is not None:
            return NOTHING_NS
        if len(one.end_ns):
            last = max(last, one.end_ns.item(-1) + 1)
            if last > one.now_ns:
                return NOTHING_NS
    return last


def only_grew(before: Seen, after: Seen) -> bool:
    """Whether `after` has what `before` has and maybe more behind it, as far as that can be told at once."""
    old, new = before.start_ns, after.start_ns
    if old is new:
        after._address = before._address
        return True
    if len(old) > len(new) or old.base is None or old.base is not new.base:
        return False
    return before.address() == after.address()


def changed_from(before: Seen, after: Seen) -> int:
    """The moment before which both look the same at any scale, or `ALL_NS`, or `NOTHING_NS`."""
    if after.now_ns < before.now_ns or not only_grew(before, after):
        return ALL_NS
    count = len(before.start_ns)
    came = len(after.start_ns) > count
    moved = after.now_ns > before.now_ns
    first_new = after.start_ns.item(count) if came else NOTHING_NS
    from_ns = NOTHING_NS
    if moved and count and before.end_ns.item(count - 1) >= before.now_ns:
        from_ns = before.now_ns  # the play head crosses a span
    if before.open_ns is not None and before.open_ns == first_new:
        # The open span has ended; up to there, or to where it was seen, it stays.
        from_ns = min(from_ns, before.now_ns, after.end_ns.item(count))
    else:
        from_ns = min(from_ns, first_new)
        if before.open_ns is not None and (came or before.open_ns != after.open_ns):
            from_ns = min(from_ns, before.open_ns)
        elif before.open_ns is not None and moved:
            from_ns = min(from_ns, before.now_ns)
    # Its number is how many others there are: where any came the open one is another than before.
    if after.open_ns is not None and (came or before.open_ns != after.open_ns):
        from_ns = min(from_ns, after.open_ns)
    return from_ns
