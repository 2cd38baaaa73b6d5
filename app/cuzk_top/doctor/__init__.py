"""What this machine lacks, what that costs, and what to type: every line of it can be acted on.

Nothing here imports what it looks for, and no driver is asked in this process: see `asking`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

SCHEMA = "cuzk-top.doctor/1"
ASK_S = 15.0
"""How long a driver may take to answer. Eight GPUs without persistence mode need some 5 s to wake up."""

State = Literal["ok", "limited", "missing"]


@dataclass(frozen=True, slots=True)
class Check:
    """One line. `cost` and `remedy` are empty where all is well."""

    key: str
    title: str
    state: State
    found: str
    """What is there, or why not."""
    cost: str = ""
    """What one has to do without."""
    remedy: str = ""
    """What to type."""
    needed: bool = False
    """Without it nothing can be proved on the CPU."""


def examine(ask_s: float = ASK_S) -> list[Check]:
    """All checks, in the order in which they are shown; within `ask_s` and a moment, whatever hangs."""
    from cuzk_top.doctor import asking, gpu, host  # noqa: PLC0415 (they use Check)

    answers = asking.ask(ask_s)
    return [*gpu.checks(answers), *host.checks()]


def exit_code(checks: list[Check]) -> int:
    """0, or 3 where something is missing that is needed to prove on the CPU."""
    return 3 if any(check.needed and check.state == "missing" for check in checks) else 0


def facts(checks: list[Check]) -> dict[str, Any]:
    """The checks as JSON: schema, exit (the code), checks (one object each, the fields of `Check`)."""
    return {"schema": SCHEMA, "exit": exit_code(checks), "checks": [asdict(check) for check in checks]}


def text(checks: list[Check]) -> str:
    """The checks for people."""
    lines = []
    for check in checks:
        lines.append(f"{check.state:<8} {check.title:<20} {check.found}")
        if check.cost:
            lines.append(f"{'':<9}costs: {check.cost}")
        if check.remedy:
            lines.append(f"{'':<9}fix:   {check.remedy}")
    counts = {state: sum(check.state == state for check in checks) for state in ("ok", "limited", "missing")}
    lacking = ", ".join(check.title for check in checks if check.needed and check.state == "missing")
    lines.append("")
    lines.append(", ".join(f"{count} {state}" for state, count in counts.items() if count))
    lines.append(f"proofs cannot be made here: {lacking}" if lacking else "proofs can be made here")
    return "\n".join(lines)
