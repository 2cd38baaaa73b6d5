"""Make a key and a witness of 2^LOG rows with a circuit of ours, and say how long each part took.

dense.py --circuit chain --log 20 --curve bls12381 --folder DIR

The circuit is the largest whose domain is 2^LOG. In DIR: circuit.zkey, verification_key.json, witness.wtns,
and circuit.r1cs where it is asked for. The key is for measurements: its secrets were in this process.
"""

import argparse
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from cuzk_kernels import backend as backends
from cuzk_kernels import circuits, curves, keygen

CURVES = {curve.name: curve for curve in curves.CURVES}
CIRCUITS = {
    "chain": (
        circuits.chain_rounds_in,
        circuits.chain_matrices,
        circuits.chain_witness,
        circuits.write_chain,
    ),
    "bits": (circuits.bits_words_in, circuits.bits_matrices, circuits.bits_witness, circuits.write_bits),
}


@contextmanager
def timed(what):
    """One line with the seconds of the block."""
    start = time.perf_counter()
    yield
    print(f"  {what:22} {time.perf_counter() - start:8.2f} s", flush=True)


class Part:
    """Stands for a stage's span: its arguments are noted and its time printed."""

    def __init__(self, name):
        self.name = name

    def __call__(self, count):
        return timed(f"{self.name} ({count:,})")


def make(backend, circuit, log, curve, folder, r1cs=False):
    """Write the files of one circuit into a folder."""
    size_in, matrices, witness, write = CIRCUITS[circuit]
    size = size_in(1 << log)
    if size < 1:
        raise SystemExit(f"dense.py: no {circuit} fits a domain of 2^{log}")
    folder.mkdir(parents=True, exist_ok=True)
    with timed("circuit as arrays"):
        system = matrices(curve, size)
    print(f"{circuit} over {curve.label}: {system.n_constraints:,} constraints, {system.n_wires:,} wires")
    if r1cs:
        with timed("r1cs written"):
            write(folder / "circuit.r1cs", curve, size)
    with timed("key, all of it"):
        keygen.make_key(backend, system, folder / "circuit.zkey", folder / "verification_key.json")
    with timed("witness"):
        witness(folder / "witness.wtns", curve, size)
    print(f"  key of {(folder / 'circuit.zkey').stat().st_size:,} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--circuit", choices=sorted(CIRCUITS), default="chain")
    parser.add_argument("--log", type=int, default=20)
    parser.add_argument("--curve", choices=sorted(CURVES), default="bls12381")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--backend", choices=backends.NAMES, default="auto")
    parser.add_argument("--r1cs", action="store_true", help="the constraints as a file too")
    args = parser.parse_args()
    keygen.SCALARS, keygen.POINTS = Part("scalars"), Part("multiples")
    # Nothing of the setup is used twice: the device need not keep it.
    backend, why = backends.choose(args.backend, backends.CudaOptions(memory=0))
    print(f"{backend.name} back end{f' ({why})' if why else ''}, {backend.threads} threads")
    make(backend, args.circuit, args.log, CURVES[args.curve], args.folder, args.r1cs)


if __name__ == "__main__":
    sys.exit(main())
