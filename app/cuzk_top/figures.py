"""Figures as the screen writes them (palette: numbers). Formatting happens here and nowhere earlier."""

from __future__ import annotations

import math


def duration(ns: int) -> tuple[str, str]:
    """Value to three figures and its unit: ``("38.6", "s")``, ``("412", "ms")``."""
    for unit, size in (("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)):
        if abs(ns) >= size * 0.9995:
            return three(ns / size), unit
    return str(ns), "ns"


def spaced(ns: int) -> str:
    """``38.6 s``."""
    return " ".join(duration(ns))


def three(value: float) -> str:
    """Three significant digits, never an exponent below a million: ``0.12``, ``1.23``, ``45.6``, ``789``."""
    size = abs(value)
    if size >= 99.95:
        return f"{value:.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def plain(value: float) -> str:
    """Three digits, or all of them with thousands commas: ``9.31``, ``11,206``."""
    return f"{value:,.0f}" if abs(value) >= 999.5 else three(value)


def lane_time(ns: int) -> str:
    """Lanes in 0.1 s; below 0.1 s in ms, with the unit."""
    if ns >= 100_000_000 or ns == 0:
        return f"{ns / 1e9:.1f}" if ns else "0"
    if ns >= 10_000_000:
        return f"{ns / 1e6:.0f} ms"
    if ns >= 1_000_000:
        return f"{ns / 1e6:.1f}ms"
    return f"{ns / 1e3:.0f} us"


def clock(ns: int, decimals: int = 1) -> str:
    """``m:ss.t`` from the session's origin."""
    sign = "-" if ns < 0 else ""
    unit = 10 ** (9 - decimals)
    ticks = abs(ns) // unit if decimals else abs(ns) // 1_000_000_000
    per_second = 10**decimals
    minutes, rest = divmod(ticks, 60 * per_second)
    seconds, part = divmod(rest, per_second)
    return f"{sign}{minutes}:{seconds:02d}" + (f".{part:0{decimals}d}" if decimals else "")


def clock_decimals(column_ns: float) -> int:
    """Decimals that tell two columns apart: one at least, nine at most."""
    return max(1, min(9, math.ceil(9 - math.log10(max(column_ns, 1.0)))))


def count(value: int) -> str:
    """``18,204``."""
    return f"{value:,}"


def si(value: float) -> str:
    """Rates and counts in at most four characters and a letter: ``0``, ``8k``, ``744k``, ``1.2M``."""
    if not math.isfinite(value):
        return "?"
    for letter, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size * 0.9995:
            scaled = value / size
            return f"{scaled:.1f}{letter}" if abs(scaled) < 9.95 else f"{scaled:.0f}{letter}"
    if value == 0 or abs(value) >= 9.95 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 0.1 else f"{value:.2f}"


def percent(part: float, whole: float) -> str:
    """Without decimals; a dash of a percent is not zero."""
    if whole <= 0:
        return "-"
    share = 100 * part / whole
    return f"{share:.0f}%" if share >= 0.5 or part == 0 else "<1%"
