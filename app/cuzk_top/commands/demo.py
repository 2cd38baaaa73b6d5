"""``cuzk-top demo``: a real circuit proved here; on a terminal again and again until q, to be watched."""

from __future__ import annotations

import argparse

from cuzk_top import paths, terminal
from cuzk_top.commands import proving
from cuzk_top.commands.prove import backend_arguments


def run(args: argparse.Namespace) -> int:
    """Prove the demo circuit, its key kept in the cache folder."""
    proofs = "0" if terminal.interactive() else "1"
    directory = str(paths.cache_folder() / "demo")
    arguments = [*backend_arguments(args), "demo", "--directory", directory, "--proofs", proofs]
    return proving.run(arguments, args, "demo", quit_stops=True)
