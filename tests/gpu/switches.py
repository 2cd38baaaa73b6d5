"""What the analysis says a switch is worth, against what flipping it gives: on a GPU, with real proofs.

switches.py KEY.zkey WITNESS.wtns --out FOLDER [--proofs 12] [--backend cuda]

Each comparison records proofs with a switch one way, asks `cuzk-top stalls --json` what closing the stall
that it makes would save, flips it, and records again. A stall that is called worth something must come off
the next proofs' time within their noise; one that is called hidden must not.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from cuzk_top.proofs import proofs
from cuzk_top.sources.trace_file import TraceSource
from cuzk_top.store import Store

ROOT = Path(__file__).resolve().parents[2]


class Setting(NamedTuple):
    """How proofs are made: options of `prove`."""

    name: str
    options: tuple[str, ...] = ()


class Comparison(NamedTuple):
    """before -> after removes the stalls of `rules` whose key names one of `about`."""

    before: Setting
    after: Setting
    rules: tuple[str, ...]
    about: tuple[str, ...]


B_G2_CPU = Setting("b-g2-cpu", ("--b-g2", "cpu"))
B_G2_GPU = Setting("b-g2-gpu", ("--b-g2", "gpu"))
STREAMED = Setting("b-g2-cpu-streamed", ("--b-g2", "cpu", "--gpu-memory", "300"))
COMPARISONS = (
    # The GPU waits for the host's threads: worth nearly all of the difference.
    Comparison(B_G2_CPU, B_G2_GPU, ("idle.host", "tail.cpu"), ("b_g2",)),
    # Points of the key are copied for every proof, beside a longer sum on the CPU: a stall, and hidden.
    Comparison(STREAMED, B_G2_CPU, ("idle.host", "idle.sync", "copy.exposed"), ("h2d.key", "memcpy.h2d")),
)


def record(setting, args):
    """Proofs with one setting: the trace's path."""
    trace = args.out / f"{setting.name}.cuzk"
    if trace.exists():
        return trace
    places = [str(ROOT / part) for part in ("app", "tracer", "kernels")]
    path = os.pathsep.join([*places, os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [
            sys.executable, "-m", "cuzk_top.cli", "prove", str(args.key), str(args.witness),
            "-o", str(args.out / "proof.json"), "--public", str(args.out / "public.json"),
            "--backend", args.backend, "--repeat", str(args.proofs), "--trace", str(trace), *setting.options,
        ],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return trace


def durations_ms(trace):
    """Milliseconds of every proof but the first, which also copies the key."""
    store, source = Store(), TraceSource(trace)
    store.append(source.poll())
    source.close()
    told = [proof for proof in proofs(store.snapshot()) if proof.end_ns is not None]
    return [(proof.end_ns - proof.start_ns) / 1e6 for proof in told[1:]]


def findings(trace):
    """What `cuzk-top stalls` says."""
    done = subprocess.run(
        [sys.executable, "-m", "cuzk_top.cli", "stalls", str(trace), "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def spread(values):
    """Median and median absolute deviation."""
    middle = statistics.median(values)
    return middle, statistics.median([abs(value - middle) for value in values])


def compare(comparison, args):
    """One line of prediction, one of what came."""
    before, after = (record(setting, args) for setting in comparison[:2])
    said = findings(before)
    chosen = [
        found
        for found in said["findings"]
        if found["rule"] in comparison.rules and any(name in found["key"] for name in comparison.about)
    ]
    cost = sum(found["cost_ns"] for found in chosen) / 1e6 / said["proofs"]["count"]
    saved = sum(found["saved_ns"] or 0 for found in chosen) / 1e6 / said["proofs"]["count"]
    (old, old_noise), (new, new_noise) = (spread(durations_ms(trace)) for trace in (before, after))
    print(f"{comparison.before.name} -> {comparison.after.name}, medians of {args.proofs - 1} proofs")
    print(
        f"  said   {cost:8.2f} ms of GPU time lost a proof, {saved:8.2f} ms of wall time saved by closing it"
    )
    for found in chosen:
        print(f"           {found['rule']}: {found['sentence']}")
    came = f"{old:8.2f} (mad {old_noise:.2f}) -> {new:.2f} ms (mad {new_noise:.2f})"
    print(f"  came   {came}: {old - new:.2f} ms less", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("key", type=Path)
    parser.add_argument("witness", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--proofs", type=int, default=12)
    parser.add_argument("--backend", default="cuda")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for comparison in COMPARISONS:
        compare(comparison, args)


if __name__ == "__main__":
    main()
