"""``cuzk-top verify``: exit 0 valid, 1 invalid, 2 bad input."""

from __future__ import annotations

import argparse
import sys


def run(args: argparse.Namespace) -> int:
    """Check one proof and say so in one line."""
    from cuzk_kernels import errors, verifier  # noqa: PLC0415
    from cuzk_kernels.formats import vkey as vkey_format  # noqa: PLC0415

    try:
        vkey = vkey_format.open(args.vkey)
        valid = verifier.verify(vkey, args.public, args.proof)
    except errors.CuzkError as error:
        print(f"cuzk-top: {error}", file=sys.stderr)
        return error.exit_code
    if not valid:
        print(f"cuzk-top: {args.proof}: {verifier.INVALID}", file=sys.stderr)
        return 1
    for note in vkey.notes:
        print(note)
    print(f"{args.proof}: valid")
    return 0
