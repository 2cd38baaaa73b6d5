"""``cuzk-top doctor``: what this machine lacks, what that costs and what to type."""

from __future__ import annotations

import argparse
import json

from cuzk_top import doctor


def run(args: argparse.Namespace) -> int:
    """Look, and print one screen; exit 3 when something is missing that proving on the CPU needs."""
    checks = doctor.examine()
    print(json.dumps(doctor.facts(checks), indent=2) if args.json else doctor.text(checks))
    return doctor.exit_code(checks)
