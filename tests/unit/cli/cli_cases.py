"""Where the command line's test cases are, and what its fixture gives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

DATA = Path(__file__).resolve().parents[2] / "data"
CASES = DATA / "cases"
Command = Callable[..., subprocess.CompletedProcess[str]]
