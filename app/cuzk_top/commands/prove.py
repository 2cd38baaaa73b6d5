"""``cuzk-top prove``: real circom files in, a verified proof out, watched live."""

from __future__ import annotations

import argparse
from pathlib import Path

from cuzk_top.commands import proving

BACKENDS = {"auto": "auto", "cuda": "cuda", "cpu": "native", "python": "python"}


def backend_arguments(args: argparse.Namespace) -> list[str]:
    """The choice of back end and its switches, for the prover process."""
    arguments = ["--backend", BACKENDS[args.backend], "--device", args.device, "--h2d", args.h2d]
    arguments += ["--b-g2", args.b_g2]
    return arguments if args.gpu_memory is None else [*arguments, "--gpu-memory", str(args.gpu_memory)]


def run(args: argparse.Namespace) -> int:
    """Prove, and write the proof and its public values once the proof is verified."""
    arguments = [*backend_arguments(args), "prove", args.zkey, args.wtns]
    arguments += ["--proof", args.output, "--public", args.public, "--repeat", str(args.repeat)]
    if args.r1cs:
        arguments += ["--r1cs", args.r1cs]
    if args.check_key:
        arguments.append("--check-key")
    return proving.run(arguments, args, Path(args.zkey).stem, quit_stops=False)
