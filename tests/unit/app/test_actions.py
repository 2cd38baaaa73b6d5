"""The action table feeds everything that names a key, so it must not contradict itself."""

from __future__ import annotations

import pytest

from cuzk_top import actions


@pytest.mark.parametrize("mode", ["live", "replay"])
def test_a_key_does_one_thing_in_each_mode(mode: actions.Mode) -> None:
    keys = [key for action in actions.for_mode(mode) for key in action.keys]
    assert len(keys) == len(set(keys))


def test_ids_are_unique_and_help_is_one_line() -> None:
    ids = [action.id for action in actions.ACTIONS]
    assert len(ids) == len(set(ids))
    for action in actions.ACTIONS:
        assert action.id.isidentifier() and action.label and action.help and "\n" not in action.help
        assert not action.footer_with or action.footer_with in ids


def test_footer_joins_pairs_and_keeps_importance() -> None:
    entries = actions.footer("live")
    assert entries[0] == ("space", "pause")
    assert ("w/s", "zoom") in entries and ("a/d", "pan") in entries and ("./,", "span") in entries
    assert ("</>", "speed") not in entries
    assert (">/<", "speed") in actions.footer("replay")
    assert ("n/N", "next") not in entries


def test_the_stalls_pane_puts_its_keys_first() -> None:
    entries = actions.footer("live", leads=True)
    assert entries[:5] == [
        ("Enter", "zoom"), ("n/N", "next"), ("O", "order"), ("i", "explain"), ("space", "pause"),
    ]  # fmt: skip
    assert len(entries) == len({keys for keys, _ in entries})


def test_readme_table_lists_every_action_once() -> None:
    table = actions.readme_table()
    for action in actions.ACTIONS:
        assert table.count(f"| {action.help}") == 1
    assert "| `w` `+` | zoom in" in table
    assert "(replay)" in table and "| wheel | pan |" in table
