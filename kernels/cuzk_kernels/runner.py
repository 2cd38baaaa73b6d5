"""The prover as a process of its own: ``python -m cuzk_kernels.runner prove|demo ...``.

The viewer starts this module so that it never shares an interpreter lock with the work it watches. What
happens is told twice: as spans in the tracer's ring, and as one JSON object a line on standard output:

``{"event": "ring", "path": str | null, "problem": str | null}``   first, before any work
``{"event": "note", "text": str}``                                 something the user should know
``{"event": "proof", "number": int, "seconds": float, ...}``       made, verified and (if asked) written
``{"event": "error", "exit": int, "text": str}``                   one line; the process ends with that code

Nothing is written to the output files before the proof in them was verified.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cuzk_tracer
from cuzk_kernels import errors

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend
    from cuzk_kernels.groth16 import Proved

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def emit(event: str, **fields: object) -> None:
    """Write one event line and flush it: the viewer reads them as they come."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def die_with_parent() -> None:
    """Ask the kernel to end this process when the viewer that started it dies, so no proof runs on unseen."""
    import ctypes  # noqa: PLC0415 - only this process needs it

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def run_prove(args: argparse.Namespace, backend: Backend) -> None:
    """Prove real files ``args.repeat`` times; every proof is verified before it is written."""
    from cuzk_kernels import formats, groth16  # noqa: PLC0415 - after the ring is open, so start-up is visible
    from cuzk_kernels.formats import zkey  # noqa: PLC0415

    cuzk_tracer.meta(job=Path(args.zkey).name, switches=switches(args))
    key = zkey.open(args.zkey)  # once: it is checked once, and a GPU keeps the points of an open key
    told: set[str] = set()
    for number in range(1, args.repeat + 1):
        started = time.monotonic()
        result = groth16.prove(key, args.wtns, backend=backend, check_key=args.check_key, r1cs=args.r1cs)
        formats.write_result(args.proof, args.public, result)
        report_proof(number, started, result, told, proof=args.proof, public=args.public)


def switches(args: argparse.Namespace) -> str:
    """The switches that change how long a proof takes and that the back end does not tell itself."""
    said = ["check-key"] if args.check_key else []
    said += ["r1cs"] if args.r1cs else []
    return " ".join([*said, *([] if args.gpu_memory is None else [f"gpu-memory={args.gpu_memory}"])])


def run_demo(args: argparse.Namespace, backend: Backend) -> None:
    """Prove the hash-chain circuit with a fresh witness each time; 0 proofs: until stopped."""
    from cuzk_kernels import groth16, setup  # noqa: PLC0415
    from cuzk_kernels.formats import zkey  # noqa: PLC0415

    cuzk_tracer.meta(job="demo")
    demo = setup.demo(backend, Path(args.directory))
    emit("note", text=demo.summary)
    key = zkey.open(demo.zkey)
    number = 0
    told: set[str] = set()
    while args.proofs == 0 or number < args.proofs:
        number += 1
        started = time.monotonic()
        wtns = demo.fresh_witness()
        result = groth16.prove(key, wtns, backend=backend)
        report_proof(number, started, result, told)


def report_proof(number: int, started: float, result: Proved, told: set[str], **paths: str) -> None:
    """Tell the viewer about a verified proof, and what the user should know that was not `told` yet."""
    for text in result.notes:
        if text not in told:
            told.add(text)
            emit("note", text=text)
    emit("proof", number=number, seconds=time.monotonic() - started, verifier=result.verifier, **paths)


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The command line of the prover process; people use ``cuzk-top prove`` and ``cuzk-top demo`` instead."""
    parser = argparse.ArgumentParser(prog="python -m cuzk_kernels.runner")
    parser.add_argument("--backend", default="auto", choices=["auto", "cuda", "native", "python"])
    parser.add_argument("--device", default="0")
    parser.add_argument("--h2d", default="pool", choices=["pageable", "register", "pool"])
    parser.add_argument("--b-g2", default="gpu", choices=["gpu", "cpu"])
    parser.add_argument("--gpu-memory", type=int, metavar="MIB")
    parser.add_argument("--die-with-parent", action="store_true")
    verbs = parser.add_subparsers(dest="verb", required=True)
    prove = verbs.add_parser("prove")
    prove.add_argument("zkey")
    prove.add_argument("wtns")
    prove.add_argument("--proof", required=True)
    prove.add_argument("--public", required=True)
    prove.add_argument("--r1cs")
    prove.add_argument("--repeat", type=int, default=1)
    prove.add_argument("--check-key", action="store_true")
    prove.set_defaults(run=run_prove)
    demo = verbs.add_parser("demo")
    demo.add_argument("--directory", required=True)
    demo.add_argument("--proofs", type=int, default=1)
    demo.set_defaults(run=run_demo)
    return parser.parse_args(argv)


def cuda_options(args: argparse.Namespace) -> Any:
    """The switches of the CUDA back end. Raises InputError for a bad list of devices."""
    from cuzk_kernels.backend import CudaOptions  # noqa: PLC0415

    try:
        devices = tuple(int(part) for part in args.device.split(","))
    except ValueError:
        raise errors.InputError(f"--device {args.device}: give numbers such as 0 or 0,1") from None
    if len(set(devices)) != len(devices):
        raise errors.InputError(f"--device {args.device}: each device once")
    memory = None if args.gpu_memory is None else args.gpu_memory << 20
    return CudaOptions(devices, args.h2d, args.b_g2, memory)


def main(argv: list[str] | None = None) -> int:
    """Run one verb; errors a user can cause become one event and their exit code, never a traceback."""
    args = parse(argv)
    if args.die_with_parent:
        die_with_parent()
    cuzk_tracer.open()
    emit("ring", path=cuzk_tracer.ring_path(), problem=cuzk_tracer.problem())
    try:
        from cuzk_kernels import backend as backends  # noqa: PLC0415

        backend, why = backends.choose(args.backend, cuda_options(args))
        place = "gpu" if backend.name == "cuda" else "cpu"
        cuzk_tracer.meta(backend=f"{place}-{backend.name}", threads=str(backend.threads))
        if why:
            emit("note", text=why)
        args.run(args, backend)
    except errors.CuzkError as error:
        emit("error", exit=error.exit_code, text=str(error))
        return error.exit_code
    except MemoryError:
        emit("error", exit=3, text="not enough memory for this key: free some, or use a machine with more")
        return 3
    except OSError as error:
        emit("error", exit=2, text=f"{error.filename or 'input/output'}: {error.strerror or error}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
