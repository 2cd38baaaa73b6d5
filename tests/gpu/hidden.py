"""A stall that the analysis calls hidden, removed, and its twin that is worth something, removed as well.

hidden.py --folder FOLDER [--on gpu] [--pairs 12]

hidden_work.py under `cuzk-top run`: its second thread's stall beside a longer sum, then before it, and on the
GPU also where it holds up the sum's launches. In each every other proof goes without the stall, so that a
pair is made under the same conditions. The table has what `cuzk-top stalls` says that closing the stall would
save a proof, the medians with and without it, and the median of the pairs' differences, with an interval that
holds it with 95 % whatever their distribution and with the noise: the standard deviation of the difference of
two proofs, from their MADs. Ends with 1 when what was said lies outside of both, when the stall beside the
sum is not called hidden or another is, or when removing that one brought nothing that can be told from
nothing. Where it holds up launches, more may come than was said: what is said is of a copy at full speed, and
one of page-locked memory holds nobody up.
"""

import argparse
import statistics
import subprocess
import sys
from math import comb, hypot
from pathlib import Path
from typing import NamedTuple

from golden import environment, scrub
from switches import findings, spread

from cuzk_top import packing, trace
from cuzk_top.model import KIND_SPAN

HERE = Path(__file__).resolve().parent
RULES = {"cpu": ("alloc", "dealloc"), "gpu": ("copy.slow",)}
"""Of the stall that the switch removes."""
SIGMA = 1.4826  # times the MAD, of what is distributed normally
PLACES = {"cpu": ("beside", "before"), "gpu": ("beside", "before", "launching")}


class Pair(NamedTuple):
    """Lengths of two proofs, in ms."""

    stalled: float
    flipped: float


def record(on, place, pairs, folder):
    """The program's trace."""
    path = folder / f"{on}-{place}.cuzk"
    command = [sys.executable, "-m", "cuzk_top.cli", "run", "-o", str(path), "--no-screen", "--"]
    command += [sys.executable, str(HERE / "hidden_work.py"), on, place, "--pairs", str(pairs)]
    done = subprocess.run(
        command, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"exit {done.returncode}\n{done.stdout}{done.stderr[-2000:]}")
    print(f"{place}: {done.stdout.strip()}", flush=True)
    scrub(path, on)
    packing.write(trace.open(path), path, zstd=True)
    return path


def lengths(path):
    """Pairs of the trace's proofs, by their first argument; the second says which of the two it is."""
    opened = trace.open(path)
    names, columns = opened.session.names, opened.columns
    proofs = {}
    for i in range(len(columns)):
        if columns.kind[i] == KIND_SPAN and names[columns.name[i]].text == "prove":
            ns = int(columns.end_ns[i] - columns.start_ns[i])
            proofs[int(columns.a0[i]), int(columns.a1[i])] = ns / 1e6
    return [Pair(proofs[number, 0], proofs[number, 1]) for number in sorted({one for one, _ in proofs})]


def interval(values):
    """Two of the values, equally far from both ends, between which the median is with 95 % at least: how many
    lie above it is how often heads come of a coin.
    """
    ordered, count = sorted(values), len(values)
    outside, place = 0.0, 0
    while place < count // 2:
        outside += 2 * comb(count, place) / 2**count
        if outside > 0.05:
            break
        place += 1
    if not place:
        raise SystemExit(f"{count} pairs tell nothing with 95 %: six do")
    return ordered[place - 1], ordered[count - place]


def judge(on, place, path):
    """One row of the table, and whether it is as it must be."""
    said = findings(path)
    pairs = lengths(path)
    told = [one for top in said["findings"] for one in (top, *top["causes"]) if one["rule"] in RULES[on]]
    lasted = sum(end - start for one in told for start, end in one["intervals"]) / 1e6
    saved = sum(one["saved_ns"] for one in told) / 1e6 / len(pairs)
    gains = [pair.stalled - pair.flipped for pair in pairs]
    came, (low, high) = statistics.median(gains), interval(gains)
    both = [spread([pair[i] for pair in pairs]) for i in range(2)]
    noise = SIGMA * hypot(*(mad for _, mad in both))
    columns = [
        f"{place:<9}",
        f"{saved:7.2f}" if saved else " hidden",
        *(f"{middle:7.2f} ({mad:5.2f})" for middle, mad in both),
        f"{came:7.2f}",
        f"{low:7.2f} to {high:6.2f}",
        f"{noise:5.2f}",
    ]
    wrong = []
    if not told or not lasted:
        wrong.append("no such stall is found")
    if (place == "beside") != (saved == 0):
        wrong.append("not hidden" if saved else "hidden")
    # What is said is what a copy at full speed saves; page-locked memory also lets others launch meanwhile.
    more = place == "launching"
    near = min(low, came - noise) <= saved and (more or saved <= max(high, came + noise))
    if not near:
        wrong.append("not what came")
    if saved and low <= 0:
        wrong.append("nothing came for sure")
    if said["lost"]:
        wrong.append(f"{said['lost']} records lost")
    print("  ".join([*columns, "; ".join(wrong) or ("at least" if more else "as said")]), flush=True)
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--on", choices=["gpu", "cpu"], default="gpu")
    parser.add_argument("--pairs", type=int, default=12)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    paths = [record(args.on, place, args.pairs, args.folder) for place in PLACES[args.on]]
    print("stall      said ms   with it (mad)  flipped (mad)  came ms       95 % interval  noise")
    good = [judge(args.on, place, path) for place, path in zip(PLACES[args.on], paths, strict=True)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
