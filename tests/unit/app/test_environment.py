"""The environment without what Python put into it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cuzk_top import environment


@pytest.mark.parametrize(
    ("began", "now", "wanted"),
    [
        ("LANG=C", {"LANG": "C", "LC_CTYPE": "C.UTF-8"}, {"LANG": "C"}),
        ("HOME=/", {"LC_CTYPE": "C.UTF-8"}, {}),
        ("LC_CTYPE=C.UTF-8", {"LC_CTYPE": "C.UTF-8"}, {"LC_CTYPE": "C.UTF-8"}),
        ("HOME=/", {"LC_CTYPE": "de_DE.UTF-8"}, {"LC_CTYPE": "de_DE.UTF-8"}),
        ("HOME=/", {"LC_ALL": "C", "LC_CTYPE": "C.UTF-8"}, {"LC_ALL": "C", "LC_CTYPE": "C.UTF-8"}),
    ],
)
def test_only_what_python_added_is_left_out(
    began: str, now: dict[str, str], wanted: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "environ"
    file.write_text(f"PATH=/bin\0{began}\0")
    monkeypatch.setattr("os.environ", now)
    assert environment.as_given(file) == wanted


def test_without_proc_nothing_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.environ", {"LC_CTYPE": "C.UTF-8"})
    assert environment.as_given(tmp_path / "none") == {"LC_CTYPE": "C.UTF-8"}


def test_in_a_process_of_its_own() -> None:
    code = "import os; from cuzk_top.environment import as_given\n"
    code += "print(*('LC_CTYPE' in x for x in (os.environ, as_given())))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"LANG": "C"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True False\n", "Python adds it, and it is known to be Python's"
