"""``cuzk-top verify``: exit 0 valid, 1 invalid, 2 bad input."""

from __future__ import annotations

import argparse
import sys


def run(args: argparse.Namespace) -> int:
    """Check one proof and say so in one line."""
    from cuzk_kernels import errors, verify  # noqa: PLC0415 - the verifier libraries load only here

    try:
        valid = verify(args.vkey, args.public, args.proof)
    except errors.CuzkError as error:
        print(f"cuzk-top: {error}", file=sys.stderr)
        return error.exit_code
    if not valid:
        print(
            f"cuzk-top: {args.proof}: the proof is invalid (pairing check) for the public values of {args.public} "
            f"under {args.vkey}",
            file=sys.stderr,
        )
        return 1
    print(f"{args.proof}: valid")
    return 0
