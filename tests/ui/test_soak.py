"""The random walk of soak.py in the suite: twenty seconds, and ten minutes for who asks."""

from __future__ import annotations

import pytest
import soak


def test_twenty_seconds_of_random_keys() -> None:
    told: list[str] = []
    soak.run(20.0, told.append)
    assert [line.split(":")[0] for line in told] == ["live", "replay"]


@pytest.mark.slow
def test_ten_minutes_of_random_keys() -> None:
    soak.run(600.0)
