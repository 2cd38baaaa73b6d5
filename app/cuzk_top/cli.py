"""The command line: one module in ``commands`` a verb; each is imported only when it is asked for."""

from __future__ import annotations

import argparse
import contextlib
import errno
import gc
import importlib
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cuzk_top import blas, terminal
from cuzk_top.errors import CuzkTopError, EndedError

if TYPE_CHECKING:
    from types import FrameType

LEAST_SIZE = 1 << 20
GC_OBJECTS = 100_000
"""New objects until the collector looks for cycles among them. Loading libraries makes some 200,000 that
stay; with Python's own 700 a tenth of the start's CPU time goes into walking them."""
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
    parser.add_argument(
        "--deadline",
        metavar="KIND=TIME",
        action="append",
        type=deadline,
        default=argparse.SUPPRESS if theme == argparse.SUPPRESS else [],
        help="jobs of this kind are due so long after they begin: circuit=1:30, porep-32g=90s; repeatable",
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


def add_recording_options(parser: argparse.ArgumentParser) -> None:
    """Options of the commands that watch and may record."""
    parser.add_argument("-o", "--output", metavar="FILE.cuzk", help="record into this file")
    parser.add_argument(
        "--max-size",
        type=size,
        metavar="SIZE",
        help="keep the newest part of a recording, such as 500M or 2G",
    )
    parser.add_argument("--no-screen", action="store_true", help="lines instead of the screen")


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

    attach = verbs.add_parser("attach", help="watch traced processes that run", epilog=EXIT_CODES)
    attach.add_argument("pid", type=positive, metavar="PID", nargs="+")
    add_recording_options(attach)
    attach.add_argument(
        "--detail",
        choices=["off", "coarse", "all"],
        help="first switch what they trace: nothing, stages only, all; it stays so",
    )
    add_command_screen_options(attach)

    run = verbs.add_parser(
        "run",
        usage="cuzk-top run [options] -- CMD ...",
        help="start any program with tracing on, watch it and record it",
        epilog="exit codes: those of CMD (128 + N when signal N ended it), 127 no such command, "
        "126 not executable, 2 bad usage",
    )
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="-- CMD ...")
    add_recording_options(run)
    run.add_argument("--detail", choices=["coarse", "all"], default="all", help="trace stages only, or all")
    add_command_screen_options(run)

    replay = verbs.add_parser("replay", help="watch a saved trace again", epilog=EXIT_CODES)
    replay.add_argument("file", metavar="FILE.cuzk", help="or a view that S wrote, NAME.view.json")
    replay.add_argument("--view", metavar="NAME.json", help="begin as this view shows it")
    add_command_screen_options(replay)

    pack = verbs.add_parser("pack", help="sort and compress a trace where it lies", epilog=EXIT_CODES)
    pack.add_argument("file", metavar="FILE.cuzk")
    pack.add_argument("--zstd", action="store_true", help="a quarter of the size, slower to open")

    recover = verbs.add_parser("recover", help="a whole trace from what a crash left", epilog=EXIT_CODES)
    recover.add_argument("files", metavar="RING_OR_STREAM", nargs="+")
    recover.add_argument("-o", "--output", metavar="OUT.cuzk", required=True)

    export = verbs.add_parser(
        "export", help="a trace in another program's format, or a part of it", epilog=EXIT_CODES
    )
    export.add_argument("file", metavar="IN.cuzk")
    export.add_argument("output", metavar="OUT", help="by suffix: .pftrace .json .parquet .csv .cuzk")
    when = "as on the screen: 12.5, 250ms, 1:02.5 from the first span, or a wall clock 14:03:05"
    export.add_argument("--from", dest="begin", metavar="T", help=f"leave out what ends before; {when}")
    export.add_argument("--to", dest="end", metavar="T", help="leave out what begins after")

    report = verbs.add_parser("report", help="the facts of a saved trace as text", epilog=EXIT_CODES)
    report.add_argument("file", metavar="FILE.cuzk")
    report.add_argument("--json", action="store_true", help="machine-readable; the schema is in the README")

    doctor = verbs.add_parser(
        "doctor",
        help="what this machine lacks, what that costs and what to type",
        epilog="exit codes: 0 proofs can be made here, 3 something they need on the CPU is missing",
    )
    doctor.add_argument("--json", action="store_true", help="machine-readable, schema cuzk-top.doctor/1")
    stalls = verbs.add_parser(
        "stalls", help="what a saved trace waited for, ranked by what closing it saves", epilog=EXIT_CODES
    )
    stalls.add_argument("file", metavar="FILE.cuzk")
    stalls.add_argument("--json", action="store_true", help="machine-readable; the schema is in the README")
    stalls.add_argument(
        "--fail-over",
        type=share,
        metavar="SHARE",
        help="exit with 1 when closing the findings saves more of the proof, such as 5%% or 0.05",
    )
    stalls.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a threshold of the rules; --json lists them",
    )
    return parser


def share(text: str) -> float:
    """A share of 1 from ``5%`` or ``0.05``, for argparse."""
    number, unit = (text[:-1], 100) if text.endswith("%") else (text, 1)
    value = float(number) / unit
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError("must be from 0 to 1, or 0% to 100%")
    return value


def positive(text: str) -> int:
    """An integer of at least one, for argparse."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def deadline(text: str) -> tuple[str, int]:
    """Kind and nanoseconds of ``KIND=TIME``, for argparse."""
    from cuzk_top.viewport import parse_time  # noqa: PLC0415 (numpy, only if this is asked for)

    kind, _, time = text.rpartition("=")
    duration_ns = parse_time(time, 0, None)
    if not kind or duration_ns is None or not 0 < duration_ns < 1 << 62:
        raise argparse.ArgumentTypeError(f"{text!r} is not KIND=TIME such as porep-32g=90s or circuit=1:30")
    return kind.removesuffix(".zkey"), duration_ns


def size(text: str) -> int:
    """Bytes of a size such as ``500M``, at least 1M, for argparse."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
    number, unit = (text[:-1], units[text[-1].upper()]) if text[-1:].upper() in units else (text, 1)
    if not number.replace(".", "", 1).isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 500M or 2G")
    value = int(float(number) * unit)
    if value < LEAST_SIZE:
        raise argparse.ArgumentTypeError("must be at least 1M")
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; an error a user can cause is one line on standard error."""
    terminal.open_streams()
    args = build_parser().parse_args(argv)
    blas.keep_quiet()
    gc.set_threshold(GC_OBJECTS)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    command = importlib.import_module(f"cuzk_top.commands.{args.command or 'top'}")
    try:
        code: int = command.run(args)
    except CuzkTopError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _say("stopped")
        return 130
    except OSError as error:
        return _output_lost(error, 0)
    try:
        sys.stdout.flush()
    except OSError as error:
        return _output_lost(error, code)
    return code


def _output_lost(error: OSError, code: int) -> int:
    """The exit code where standard output takes nothing any more; raises the error if it is another one."""
    if error.errno not in (errno.EPIPE, errno.EIO, errno.ENOSPC) or error.filename is not None:
        raise error
    terminal.close_output()
    if error.errno == errno.ENOSPC:
        _say(f"standard output: {error.strerror}")
        return 3
    return code  # its reader (head, a closed pager, a terminal) went away: there is nothing to say


def _end(number: int, _: FrameType | None) -> None:
    """As Ctrl-C does: what is open is closed on the way out, a recording too. Once; that may take a while."""
    signal.signal(number, signal.SIG_IGN)
    raise EndedError(number)


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it any more
        print(f"cuzk-top: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
