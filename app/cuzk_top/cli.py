"""The command line: one module in ``commands`` a verb; each is imported only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from cuzk_top.errors import CuzkTopError

EXIT_CODES = "exit codes: 0 done, 1 a negative answer, 2 bad input or usage, 3 lacking here, 130 Ctrl-C"


def add_screen_options(parser: argparse.ArgumentParser, theme: str, ascii_only: bool | str) -> None:
    """Options of every command that can open the screen, with their defaults."""
    parser.add_argument(
        "--theme",
        choices=["auto", "dark", "light", "mono"],
        default=theme,
        help="colours (NO_COLOR means mono)",
    )
    parser.add_argument(
        "--ascii", action="store_true", default=ascii_only, help="draw with ASCII characters only"
    )


def add_command_screen_options(parser: argparse.ArgumentParser) -> None:
    """The same behind a command's name, where they replace what stood before it only if they are given."""
    add_screen_options(parser, argparse.SUPPRESS, argparse.SUPPRESS)


def add_backend_option(parser: argparse.ArgumentParser) -> None:
    """The choice of back end for the commands that prove."""
    parser.add_argument(
        "--backend",
        choices=["auto", "cuda", "cpu", "python"],
        default="auto",
        help="cuda: an NVIDIA GPU; cpu: the compiled host library; python: slow, needs no compiler; "
        "auto: the best there is",
    )
    parser.add_argument("--device", metavar="LIST", default="0", help="GPUs to use, such as 0 or 0,1")
    parser.add_argument(
        "--h2d",
        choices=["pageable", "register", "pool"],
        default="pool",
        help="how host memory reaches the GPU: as it is, page-locked in place, or through a page-locked pool",
    )
    parser.add_argument(
        "--b-g2", choices=["gpu", "cpu"], default="gpu", help="where the sum over B in G2 is made"
    )
    parser.add_argument("--gpu-memory", type=positive, metavar="MIB", help="GPU memory to keep keys in")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line as argparse describes it."""
    parser = argparse.ArgumentParser(
        prog="cuzk-top",
        description="Watch zero-knowledge proofs being made: live timelines, page faults and stage times.",
        epilog=f"Without a command: lists the traced provers on this machine. {EXIT_CODES}",
    )
    add_screen_options(parser, "auto", False)
    verbs = parser.add_subparsers(dest="command", metavar="COMMAND")

    demo = verbs.add_parser("demo", help="prove a real circuit here and watch it", epilog=EXIT_CODES)
    add_backend_option(demo)
    add_command_screen_options(demo)
    demo.add_argument("--trace", metavar="FILE", help="save the trace here instead of the traces folder")

    prove = verbs.add_parser("prove", help="prove real circom files, live", epilog=EXIT_CODES)
    prove.add_argument("zkey", metavar="KEY.zkey")
    prove.add_argument("wtns", metavar="WITNESS.wtns")
    prove.add_argument("-o", "--output", metavar="PROOF.json", required=True)
    prove.add_argument("--public", metavar="PUBLIC.json", required=True)
    prove.add_argument(
        "--r1cs", metavar="FILE", help="check the witness first; names the constraint that fails"
    )
    prove.add_argument(
        "--check-key", action="store_true", help="also check that each point is in its subgroup"
    )
    prove.add_argument("--repeat", type=positive, default=1, metavar="N", help="make the proof N times")
    prove.add_argument("--trace", metavar="FILE", help="save the trace here instead of the traces folder")
    add_backend_option(prove)
    add_command_screen_options(prove)

    verify = verbs.add_parser("verify", help="check a proof", epilog=EXIT_CODES)
    verify.add_argument("vkey", metavar="VKEY.json")
    verify.add_argument("public", metavar="PUBLIC.json")
    verify.add_argument("proof", metavar="PROOF.json")

    attach = verbs.add_parser("attach", help="watch a traced process that runs", epilog=EXIT_CODES)
    attach.add_argument("pid", type=positive, metavar="PID")
    add_command_screen_options(attach)

    replay = verbs.add_parser("replay", help="watch a saved trace again", epilog=EXIT_CODES)
    replay.add_argument("file", metavar="FILE.cuzk")
    add_command_screen_options(replay)

    report = verbs.add_parser("report", help="the facts of a saved trace as text", epilog=EXIT_CODES)
    report.add_argument("file", metavar="FILE.cuzk")
    report.add_argument("--json", action="store_true", help="machine-readable; the schema is in the README")
    return parser


def positive(text: str) -> int:
    """An integer of at least one, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error a user can cause is one line on standard error."""
    args = build_parser().parse_args(argv)
    command = importlib.import_module(f"cuzk_top.commands.{args.command or 'top'}")
    try:
        code: int = command.run(args)
    except CuzkTopError as error:
        print(f"cuzk-top: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("cuzk-top: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of our output (head, a closed pager) went away: nothing more to say, and no traceback.
        sys.stderr.close()
        return 0
    return code


if __name__ == "__main__":
    sys.exit(main())
