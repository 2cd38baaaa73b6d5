"""JSON of small files that anybody may have written: never more than a moment's work, whatever is in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MOST_BYTES = 4 << 20
"""Larger than any history or view: 50 proofs of 128 stages are 100 kB."""
MOST_BRACKETS = 2_000
"""A parser that recurses would run out of stack on a million; how deep they nest is not known before."""


def read(path: Path) -> Any:
    """The content of a file. Raises OSError when it cannot be read, ValueError when it is no small JSON."""
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES or data.count(b"[") + data.count(b"{") > MOST_BRACKETS:
        raise ValueError("too large")
    return json.loads(data)
