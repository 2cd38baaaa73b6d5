"""Whole proofs against snarkjs: ``python tests/benchmarks/prove.py [FOLDER ...] [--runs N]``.

Each FOLDER holds circuit.zkey and witness.wtns (and verification_key.json, to check the result); without any,
every case of ../shared/fixtures. Both provers are timed as whole processes, in turn, in the same run:
start, reading the key, the proof, writing it. cuzk-top also verifies it and saves its trace in that time.
Every proof of both is checked with snarkjs outside the timed part. Prints the median of N runs and the ratio.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FIXTURES = REPOSITORY.parent / "shared" / "fixtures"
# rapidsnark 81eddf1 as recorded on 2 cores of an AMD EPYC (Zen 4): printed as the recorded figures they are.
RECORDED_RAPIDSNARK_S = {
    "multiplier-bn254": 0.006,
    "chain340-bn254": 0.046,
    "merkle10-bn254": 0.091,
    "sha256x1-bn254": 0.184,
    "sha256-2-bn254": 0.320,
    "chain21844-bn254": 1.309,
}


def find_snarkjs() -> list[str]:
    """The command line of snarkjs: on the PATH, or the copy that verify-with-snarkjs keeps."""
    on_path = shutil.which("snarkjs")
    if on_path:
        return [on_path]
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    for cli in sorted(cache.glob("cuzk-top-tools/snarkjs-*/node_modules/snarkjs/build/cli.cjs")):
        return ["node", str(cli)]
    sys.exit(
        "prove.py: snarkjs not found: npm install -g snarkjs, or run ../shared/bin/verify-with-snarkjs once"
    )


def cases(folders: list[str]) -> list[Path]:
    """The folders to prove: those named, else every fixture with a key and a witness."""
    if folders:
        return [Path(folder) for folder in folders]
    found = [zkey.parent for zkey in sorted(FIXTURES.glob("*/*/circuit.zkey"))]
    return [folder for folder in found if (folder / "witness.wtns").exists()]


def timed(command: list[str], environment: dict[str, str]) -> float:
    """Seconds from starting the process to its end; a failed run ends the benchmark with what it printed."""
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    elapsed = time.perf_counter() - started
    if done.returncode != 0:
        sys.exit(f"prove.py: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return elapsed


def main() -> None:
    """Run the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    snarkjs = find_snarkjs()
    ours = [str(Path(sys.executable).with_name("cuzk-top")), "prove"]
    print(f"{'case':<28} {'cuzk-top':>9} {'snarkjs':>9} {'faster':>7}  {'rapidsnark (recorded)':>22}")
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = Path(scratch_name)
        environment = {**os.environ, "XDG_STATE_HOME": str(scratch / "state")}
        for folder in cases(args.folders):
            key, witness = str(folder / "circuit.zkey"), str(folder / "witness.wtns")
            times: dict[str, list[float]] = {"cuzk-top": [], "snarkjs": []}
            for _ in range(args.runs):
                for who, spent in times.items():
                    proof, public = scratch / f"{who}.proof.json", scratch / f"{who}.public.json"
                    if who == "cuzk-top":
                        command = [*ours, key, witness, "-o", str(proof), "--public", str(public)]
                    else:
                        command = [*snarkjs, "groth16", "prove", key, witness, str(proof), str(public)]
                    spent.append(timed(command, environment))
                    vkey = str(folder / "verification_key.json")
                    timed([*snarkjs, "groth16", "verify", vkey, str(public), str(proof)], environment)
            ours_s, theirs_s = (statistics.median(times[who]) for who in ("cuzk-top", "snarkjs"))
            recorded = RECORDED_RAPIDSNARK_S.get(folder.name)
            peer = f"{recorded:.3f} s  {ours_s / recorded:5.2f}x" if recorded else ""
            ratio = theirs_s / ours_s
            print(
                f"{folder.name:<28} {ours_s:>7.3f} s {theirs_s:>7.3f} s {ratio:>6.2f}x  {peer:>22}",
                flush=True,
            )


if __name__ == "__main__":
    main()
