"""Runs the real command in a process of its own, as a user would, with its places in a scratch folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_cases import Command


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Every folder the program may use, under the test's own."""
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    places = {"XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "cache", "XDG_RUNTIME_DIR": "run"}
    return {**os.environ, **{name: str(tmp_path / folder) for name, folder in places.items()}}


@pytest.fixture
def cuzk_top(environment: dict[str, str]) -> Command:
    """``cuzk_top("verify", ...)``: the finished process with its output as text; never a terminal."""

    def run(*arguments: str | Path, **changes: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cuzk_top.cli", *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**environment, **changes},
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )

    return run
