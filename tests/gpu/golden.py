"""Record the golden traces: proofs of known circuits on a GPU, each cut to a few proofs and without a path.

golden.py --out FOLDER [--work FOLDER] [--only CASE ...] [--backend cpu --shrink 10]

For every case a key and a witness are made (dense.py), `cuzk-top prove` runs on them, and `cuzk-top export`
cuts what is kept. FOLDER/golden.tar.gz then holds CASE.cuzk of at most 200 kB, and in a folder for each case
the proof with its public values and verification key, for another verifier. A case fails when its trace lost
records, has too few proofs or names a place on this machine.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from cuzk_top import cli, devicetime, exports, packing, trace
from cuzk_top.model import KIND_GPU_KERNEL, KIND_GPU_MEMCPY, KIND_GPU_MEMSET, KIND_SPAN

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 200_000
MARGIN_NS = 50_000  # kept before and after the proofs


class Case(NamedTuple):
    """circuit, log2 of its domain and curve; options of `prove`; proofs made; kept: the first or the last."""

    name: str
    circuit: str
    log: int
    options: tuple[str, ...] = ()
    repeat: int = 4
    kept: str = "last"
    curve: str = "bls12381"

    @property
    def files(self):
        return f"{self.circuit}-{self.log}-{self.curve}"


# A steady proof copies its witness, 32 MiB at 2^20. What `--h2d` changes most is the first, which also copies
# the key: these cases keep it.
CASES = (
    Case("small-14", "chain", 14, repeat=6),
    Case("dense-20", "chain", 20),
    Case("dense-20-bn254", "chain", 20, curve="bn254"),
    Case("dense-20-first-pool", "chain", 20, ("--h2d", "pool"), 2, "first"),
    Case("dense-20-first-pageable", "chain", 20, ("--h2d", "pageable"), 2, "first"),
    Case("dense-20-b-g2-cpu", "chain", 20, ("--b-g2", "cpu")),
    Case("bits-20", "bits", 20),
    Case("dense-22", "chain", 22, repeat=3),
)


def environment():
    """Our packages first, and every relative place of PYTHONPATH from where we are."""
    places = [str(ROOT / part) for part in ("app", "tracer", "kernels")]
    places += [str(Path(place).resolve()) for place in os.environ.get("PYTHONPATH", "").split(":") if place]
    return {**os.environ, "PYTHONPATH": ":".join(places)}


def run(command, folder):
    """Run a command; its output is shown when it fails."""
    done = subprocess.run(
        command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout


def files_of(case, work, backend):
    """The folder with the case's key and witness, made the first time."""
    folder = work / case.files
    if not (folder / f"{case.files}.zkey").exists():
        made = [
            sys.executable,
            str(ROOT / "tests/gpu/dense.py"),
            "--circuit",
            case.circuit,
            "--log",
            case.log,
        ]
        made += ["--curve", case.curve, "--folder", folder, "--backend", backend.replace("cpu", "native")]
        print(run([str(part) for part in made], work), end="", flush=True)
        (folder / "circuit.zkey").rename(folder / f"{case.files}.zkey")
    return folder


def prove(case, folder, backend):
    """Record the case's proofs; the path of the whole trace."""
    whole = folder / f"{case.name}.cuzk"
    run(
        [
            sys.executable, "-m", "cuzk_top.cli", "prove", f"{case.files}.zkey", "witness.wtns",
            "-o", "proof.json", "--public", "public.json", "--backend", backend,
            "--repeat", str(case.repeat), "--trace", whole.name, *case.options,
        ],
        folder,
    )  # fmt: skip
    return whole


def spans(opened, name):
    """Start and end of every span of a name, in order, as two arrays."""
    number = next(i for i, known in enumerate(opened.session.names) if known.text == name)
    columns = opened.columns
    chosen = np.flatnonzero((columns.name == number) & (columns.kind == KIND_SPAN))
    order = chosen[np.argsort(columns.start_ns[chosen], kind="stable")]
    return columns.start_ns[order], columns.end_ns[order]


def cut(case, whole, target):
    """Export two proofs, or one where two are too large, and scrub them; how many there are now."""
    opened = trace.open(whole)
    if opened.lost:
        raise RuntimeError(f"{case.name}: {opened.lost} records were lost")
    starts, ends = spans(opened, "prove")
    if len(starts) != case.repeat:
        raise RuntimeError(f"{case.name}: {len(starts)} proofs in the trace, {case.repeat} were made")
    origin = exports.first_ns(opened)
    for count in (2, 1):
        first = 0 if case.kept == "first" else case.repeat - count
        begin, end = int(starts[first]) - MARGIN_NS, int(ends[first + count - 1]) + MARGIN_NS
        moments = [f"{(moment - origin) / 1e6:.6f}ms" for moment in (max(begin, origin), end)]
        code = cli.main(["export", str(whole), str(target), "--from", moments[0], "--to", moments[1]])
        if code:
            raise RuntimeError(f"{case.name}: export said {code}")
        scrub(target)
        if target.stat().st_size <= MOST_BYTES:
            return count
    raise RuntimeError(f"{case.name}: one proof takes {target.stat().st_size:,} bytes")


def scrub(path, host="gpu"):
    """Leave nothing in the file that tells of this machine's folders: last parts of paths, a neutral host."""
    opened = trace.open(path)
    session = opened.session
    for key, value in session.meta.items():
        session.meta[key] = re.sub(r"(?<![^\s=:,('\"])/(?:[^\s/:,'\"]+/)*([^\s/:,'\"]+)", r"\1", value)
    session.meta["machine.host"] = host
    packing.write(opened, path)
    data = path.read_bytes()
    known = [str(ROOT), str(Path.home()), tempfile.gettempdir(), "/usr/", "/opt/", "/root", "/home/", "/work"]
    told = [place for place in known if len(place) > 1 and place.encode() in data]
    if told:
        raise RuntimeError(f"{path.name} names {', '.join(told)}")


def describe(path):
    """Wall, device time and copies of the proofs in a trace, one line each."""
    opened = trace.open(path)
    columns = opened.columns
    names = np.array([name.text for name in opened.session.names])[columns.name]
    kernels = columns.kind == KIND_GPU_KERNEL
    copies = columns.kind == KIND_GPU_MEMCPY
    work = kernels | copies | (columns.kind == KIND_GPU_MEMSET)
    upward = copies & np.char.startswith(names.astype(str), "memcpy.h2d")

    def covered(chosen, low, high):
        return devicetime.covered(
            *devicetime.union(columns.start_ns[chosen], columns.end_ns[chosen]), low, high
        )

    for low, high in zip(*(side.tolist() for side in spans(opened, "prove")), strict=True):
        wall = high - low
        kernel, busy, h2d = (covered(chosen, low, high) for chosen in (kernels, work, upward))
        inside = upward & (columns.start_ns < high) & (columns.end_ns > low)
        sizes = {
            name.removeprefix("memcpy.h2d."): int(columns.a0[inside & (names == name)].sum())
            for name in np.unique(names[inside])
        }
        told = ", ".join(f"{size / (1 << 20):.1f} MiB {kind}" for kind, size in sizes.items()) or "none"
        parts = (("kernel", kernel), ("copy only", busy - kernel), ("idle", wall - busy), ("H2D", h2d))
        shares = "  ".join(f"{name} {part / wall:6.1%}" for name, part in parts)
        print(f"    wall {wall / 1e6:9.2f} ms  {shares}: {told}", flush=True)


def record(case, work, out, backend):
    """One case: its trace and the files for another verifier in `out`."""
    folder = files_of(case, work, backend)
    whole = prove(case, folder, backend)
    print(f"  every proof of {case.name}:")
    describe(whole)
    target = out / f"{case.name}.cuzk"
    count = cut(case, whole, target)
    print(f"  kept: the {case.kept} {count}, {target.stat().st_size:,} bytes")
    check = out / case.name
    check.mkdir()
    for name in ("verification_key.json", "public.json", "proof.json"):
        shutil.copy(folder / name, check)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "golden")
    parser.add_argument("--only", nargs="*", choices=[case.name for case in CASES])
    parser.add_argument("--backend", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--shrink", type=int, default=0, help="so much smaller domains, to try the script")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(dir=args.work)) / "golden"
    staged.mkdir()
    failed = []
    for case in CASES:
        if args.only and case.name not in args.only:
            continue
        began = time.perf_counter()
        print(f"{case.name}", flush=True)
        try:
            record(case._replace(log=case.log - args.shrink), args.work, staged, args.backend)
        except RuntimeError as error:
            print(f"  FAILED: {error}")
            failed.append(case.name)
        print(f"  took {time.perf_counter() - began:.0f} s", flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    with tarfile.open(args.out / "golden.tar.gz", "w:gz") as tar:
        tar.add(staged, arcname="golden")
    print(f"{args.out / 'golden.tar.gz'}: {(args.out / 'golden.tar.gz').stat().st_size:,} bytes")
    print(f"failed: {', '.join(failed)}" if failed else "all cases recorded")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
