"""A trace as a trace: what is left of it after trimming."""

from pathlib import Path

from cuzk_top import packing
from cuzk_top.trace import Trace


def write(trace: Trace, path: Path) -> None:
    """The sorted file."""
    packing.write(trace, path)
