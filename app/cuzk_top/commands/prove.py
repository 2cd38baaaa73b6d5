"""``cuzk-top prove``: real circom files in, a verified proof out, watched live."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuzk_top.commands import proving

BACKENDS = {"auto": "auto", "cpu": "native", "python": "python"}


def run(args: argparse.Namespace) -> int:
    """Prove, and write the proof and its public values once the proof is verified."""
    arguments = ["--backend", BACKENDS[args.backend], "prove", args.zkey, args.wtns]
    arguments += ["--proof", args.output, "--public", args.public, "--repeat", str(args.repeat)]
    if args.r1cs:
        arguments += ["--r1cs", args.r1cs]
    if args.check_key:
        arguments.append("--check-key")
    return proving.run(arguments, args, Path(args.zkey).stem, quit_stops=False)
