"""numpy's linear algebra, which nothing here uses: kept from starting a thread a core when numpy is loaded.

That takes 30 ms of CPU with two cores, and a buffer a thread. A program of the user's is started with the
user's environment all the same.
"""

from __future__ import annotations

import os

from cuzk_top import environment

VARIABLE = "OPENBLAS_NUM_THREADS"
_ours = False


def keep_quiet() -> None:
    """To be called before anything imports numpy. A user's own wish stands."""
    global _ours  # noqa: PLW0603 (one environment a process)
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = "1"
        _ours = True


def users_environment() -> dict[str, str]:
    """The environment as the user has it."""
    given = environment.as_given()
    return {name: value for name, value in given.items() if not (_ours and name == VARIABLE)}
