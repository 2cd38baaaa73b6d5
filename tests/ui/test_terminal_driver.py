"""The driver's parts: what is left out of the keys, when the terminal is behind, and what a write may do."""

from __future__ import annotations

import io
import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from cuzk_top.screens.terminal_driver import (
    CHECK_EVERY,
    FORGET_S,
    UNREAD_MOST,
    Flow,
    Outlet,
    TerminalDriver,
)


@dataclass
class Told:
    """A driver without its terminal, and what it tells."""

    colours: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.driver = TerminalDriver.__new__(TerminalDriver)
        self.driver._flow = Flow()
        self.driver._app = SimpleNamespace(call_later=lambda call, *a: call(*a))  # type: ignore[assignment]
        self.driver._host = SimpleNamespace(background_told=self.colours.append)  # type: ignore[assignment]

    def keys(self, *parts: str) -> str:
        """What of these reads comes through as keys; None of a read: it timed out."""
        kept, through = "", ""
        for part in parts:
            kept, text = self.driver._heard(kept + part)
            through += text
        return through + kept


ANSWERS = "\x1b]11;rgb:ffff/ffff/ffff\x1b\\\x1b[0n\x1b]11;#000000\x07"


def test_answers_are_no_keys_wherever_they_are_cut() -> None:
    for at in range(len(ANSWERS) + 1):
        if ANSWERS[:at].endswith("\x1b"):
            continue  # a read that ends with Esc is the key: it must not wait
        told = Told()
        told.driver._flow.ask()
        assert told.keys("ab" + ANSWERS[:at], ANSWERS[at:] + "cd") == "abcd", at
        assert told.colours == ["light", "dark"]
        assert told.driver._flow.idle.is_set()


@pytest.mark.parametrize(
    "keys", ["\x1b", "\x1b[A", "\x1b[<0;3;4M", "\x1bOP", "\x1b[1;5C", "q", "\x1b[200~x\x1b[201~"]
)
def test_keys_are_not_touched(keys: str) -> None:
    kept, through = Told().driver._heard(keys)
    assert (kept, through) == ("", keys)


def flow(now: list[float]) -> Flow:
    return Flow(lambda: now[0])


def test_a_terminal_that_answers_gets_so_much_ahead() -> None:
    now = [0.0]
    made = flow(now)
    made.ask()
    made.answered()
    asked = 0
    for _ in range(UNREAD_MOST // 1_000):
        assert not made.full
        if made.wrote(1_000):
            made.ask()
            asked += 1
    assert asked == UNREAD_MOST // CHECK_EVERY
    assert not made.full
    made.wrote(1)
    assert made.full
    made.answered()  # the first CHECK_EVERY have been read
    assert not made.full


def test_one_that_never_answered_is_not_waited_for() -> None:
    made = flow([0.0])
    made.ask()
    made.wrote(10 * UNREAD_MOST)
    assert not made.full


def test_an_answer_that_is_lost_stops_nothing_for_long() -> None:
    now = [0.0]
    made = flow(now)
    made.ask()
    made.answered()
    made.wrote(2 * UNREAD_MOST)
    made.ask()
    assert made.full
    now[0] = FORGET_S + 0.1
    assert not made.full
    assert made.idle.is_set()
    assert not made.wrote(2 * UNREAD_MOST), "it is not asked again: on its end nobody waits for an answer"
    assert not made.full
    made.answered()  # late, after a line that stood still
    assert made.wrote(2 * UNREAD_MOST)
    made.ask()
    assert made.full


class Blocked(io.StringIO):
    """A file whose writes wait."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        assert self.go.wait(30)
        return super().write(text)


def test_a_write_that_waits_is_seen() -> None:
    file = Blocked()
    outlet = Outlet(file, lambda: None)
    assert not outlet.stuck
    thread = threading.Thread(target=lambda: (outlet.write("x"), outlet.flush()))
    thread.start()
    ends = time.monotonic() + 30
    while not outlet.stuck:
        assert time.monotonic() < ends
        time.sleep(0.01)
    file.go.set()
    thread.join()
    assert not outlet.stuck
    assert file.getvalue() == "x"


@pytest.mark.parametrize("error", [OSError(5, "EIO"), BrokenPipeError(), ValueError("closed file")])
def test_a_terminal_that_is_gone_is_told_of_once(error: Exception) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> Any:
            raise error

    told: list[int] = []
    outlet = Outlet(Gone(), lambda: told.append(1))
    for _ in range(3):
        outlet.write("x")
        outlet.flush()
    assert told == [1]
    assert not outlet.stuck
