"""``cuzk-top recover``: one whole trace from a recording that was cut off and the ring it was made of."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from cuzk_top import packing, recovery
from cuzk_top.errors import InputError


def run(args: argparse.Namespace) -> int:
    """Merge, and say what came from where."""
    found = recovery.recover([Path(path) for path in args.files], time.monotonic_ns)
    output = Path(args.output)
    try:
        packing.write(found.trace, output)
    except OSError as error:
        raise InputError(f"{output}: {error.strerror}") from error
    for problem in found.trace.problems:
        print(problem)
    print(
        f"{output}: {len(found.trace):,} records: {found.recorded:,} recorded, {found.added:,} from rings, "
        f"{found.lost:,} lost"
    )
    return 0
