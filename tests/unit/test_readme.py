"""What the README says is what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from cuzk_top import actions
from cuzk_top.cli import build_parser

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def between(name: str) -> str:
    return README.split(f"<!-- {name}:begin -->\n")[1].split(f"<!-- {name}:end -->")[0]


def test_the_key_table_is_the_action_table() -> None:
    assert between("keys").strip() == actions.readme_table().strip(), (
        "README.md's key table is stale: put the output of "
        "python -c 'from cuzk_top import actions; print(actions.readme_table())' between its markers"
    )


COMMANDS = re.findall(r"^\| `(cuzk-top[^`]*)` \|", README, re.MULTILINE)


def test_the_command_table_was_found() -> None:
    assert len(COMMANDS) >= 7


@pytest.mark.parametrize("command", COMMANDS)
def test_every_documented_command_parses(command: str) -> None:
    words = shlex.split(command.replace("[", "").replace("]", "").replace("PID", "1"))
    parsed = build_parser().parse_args(words[1:])
    assert parsed.command == (words[1] if len(words) > 1 else None)


def test_ci_runs_the_documented_test_command() -> None:
    assert "pytest" in between("ci")
    assert "ci:begin" in (ROOT / ".ci" / "run").read_text()


def test_pictures_are_there() -> None:
    for picture in re.findall(r"\]\((screenshots/[^)]+)\)", README):
        assert (ROOT / picture).stat().st_size > 10_000
