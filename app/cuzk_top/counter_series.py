"""The store's counters: samples that grow, and what is drawn of them."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cuzk_top import stages
from cuzk_top.columns import Packed
from cuzk_top.growing import Growing
from cuzk_top.model import FLAG_F64, CounterData, Name, Session

FEW = 32
"""Samples that are not sorted by counter before they are taken in."""
_NOTHING = Growing(3)


class CounterSeries:
    """Samples by counter."""

    def __init__(self) -> None:
        self._series: dict[str, Growing] = {}
        """Start, end and the bits of the float64 that is the value."""
        self._order: list[str] = []
        self._meta: Mapping[str, str] | None = None
        self._views: dict[str, tuple[int, CounterData]] = {}
        self._shown: tuple[CounterData, ...] | None = None

    def take_in(self, records: Packed, names: Sequence[Name]) -> None:
        """Samples of any counters as records, in order of their ends; those of a name nobody has included."""
        floating = records.flags & FLAG_F64 != 0
        samples, numbers = records.block[Packed.TIMES_AND_VALUE], records.name
        if not floating.all():
            samples = samples.copy()
            samples[2] = np.where(floating, samples[2], samples[2].astype(np.float64).view(np.int64))
        if len(numbers) > FEW:
            order = numbers.argsort(kind="stable")
            numbers, samples = numbers[order], samples[:, order]
        edges = [0, *((numbers[1:] != numbers[:-1]).nonzero()[0] + 1).tolist(), len(numbers)]
        for low, high in pairwise(edges):
            number = int(numbers[low])
            key = names[number].text if number < len(names) else f"<name {number}>"
            self.add(key, samples[:, low:high])

    def add(self, key: str, samples: NDArray[np.int64]) -> None:
        """More samples of a counter behind those it has: starts, ends and values (the bits of float64)."""
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Growing(3)
            self._meta = None
        series.append(samples)
        self._shown = None

    def take_back(self, key: str, count: int) -> None:
        """Forget the newest samples of a counter: others are to come in their place."""
        series = self._series.get(key)
        if series is not None and count:
            self._shown = None
            series.cut(max(0, len(series) - count))

    def drop_before(self, moment_ns: int) -> None:
        """Forget samples that ended by then."""
        self._shown = None
        for series in self._series.values():
            series.drop(int(np.searchsorted(series.block[1], moment_ns, side="right")))

    def size_bytes(self) -> int:
        """Memory that the samples take."""
        return sum(series.block.nbytes for series in self._series.values())

    def first_ns(self) -> int:
        """Start of the first sample of any; 0 without one."""
        return min((int(series.block[0, 0]) for series in self._series.values() if len(series)), default=0)

    def shown(self, session: Session) -> tuple[CounterData, ...]:
        """All counters in their order, those too of which the session's metadata say why they have none."""
        meta = session.meta
        if self._meta is not meta:
            if self._meta != meta:
                self._arrange(meta)
            self._meta = meta
        if self._shown is None:
            self._shown = tuple(self._view(key, meta) for key in self._order)
        return self._shown

    def _arrange(self, meta: Mapping[str, str]) -> None:
        self._shown = None
        self._views.clear()  # the metadata say what is missing, and the limits
        last = len(stages.COUNTERS)
        named = {key.removeprefix("missing.") for key in meta if key.startswith("missing.")}
        self._order = sorted(
            named | set(self._series), key=lambda key: (stages.COUNTER_ORDER.get(key, last), key)
        )

    def _view(self, key: str, meta: Mapping[str, str]) -> CounterData:
        series = self._series.get(key, _NOTHING)
        known = self._views.get(key)
        if known is not None and known[0] == series.changes:
            return known[1]
        about = stages.counter(key)
        start, end, value = series.block
        view = CounterData(
            key=key,
            label=about.label,
            unit=about.unit,
            kind=about.kind,
            role=about.role,
            t_ns=end,
            start_ns=start,
            value=value.view(np.float64),
            top=_number(meta.get(f"top.{key}")) or about.top,
            missing=None if len(series) else meta.get(f"missing.{key}", "no samples yet"),
        )
        self._views[key] = (series.changes, view)
        return view


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
