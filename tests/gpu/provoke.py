"""Provoke stalls on a GPU and the same work without them, and check that the analysis tells the two apart.

provoke.py --out FOLDER [--only CASE ...]

Every case is a program of this folder under `cuzk-top run`; FOLDER/CASE.cuzk is its trace without what tells
of this machine. A case fails when the program does, when a rule is silent that must fire or fires that must
be silent, when records are lost, or when the trace is larger than what is kept. Then the copies' pair: what
the analysis says pinned memory would save, and what it does.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from golden import environment, scrub
from switches import durations_ms, findings

from cuzk_top import packing, trace

HERE = Path(__file__).resolve().parent
MOST_BYTES = 100_000
STOP_AFTER_S, STOPPED_S = 6.0, 4.0


class Case(NamedTuple):
    """command: a program beside this one and its arguments. stop: the recorder stands still for a while."""

    name: str
    command: tuple[str, ...]
    fires: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    stop: bool = False


CASES = (
    Case("locked", ("lock_wait.py",), fires=("lock.wait", "idle.host", "host.claim")),
    Case("lock-worked", ("lock_wait.py", "--holder-works"), silent=("lock.wait", "host.claim")),
    Case("pageable", ("copies.py",), fires=("copy.slow", "copy.exposed")),
    Case("pinned-before", ("copies.py", "--pinned"), fires=("copy.exposed",), silent=("copy.slow", "alloc")),
    # Nobody reads the driver's figures meanwhile: that is not the driver's silence.
    Case(
        "suspended", ("copies.py", "--proofs", "1", "--rounds", "300"), silent=("gpu.lost", "hung"), stop=True
    ),
)


def record(case, out):
    """Run the program; the path of its trace, and whether it went well."""
    path = out / f"{case.name}.cuzk"
    program, *arguments = case.command
    command = [sys.executable, "-m", "cuzk_top.cli", "run", "-o", str(path), "--no-screen", "--"]
    command += [sys.executable, str(HERE / program), *arguments]
    process = subprocess.Popen(
        command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if case.stop:
        time.sleep(STOP_AFTER_S)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(process.pid, signal.SIGCONT)
    said, errors = process.communicate()
    if process.returncode:
        print(f"  exit {process.returncode}\n{said}{errors[-2000:]}")
        return path, False
    print(f"  {said.strip()}")
    scrub(path)
    packing.write(trace.open(path), path, zstd=True)
    return path, True


def judge(case, path):
    """Say what the analysis finds; what is not as it must be."""
    said = findings(path)
    told = [entry for top in said["findings"] for entry in (top, *top["causes"])]
    rules = {entry["rule"] for entry in told if entry.get("rank", 0) is not None}
    for entry in told:
        if entry.get("rank", 0) is not None:
            saved = "-" if entry["saved_ns"] is None else f"{entry['saved_ns'] / 1e6:.2f} ms"
            print(
                f"    {entry['rule']:<14}{entry['cost_ns'] / 1e6:10.2f} ms  {saved:>12}  {entry['sentence']}"
            )
    wrong = [f"{rule} does not fire" for rule in case.fires if rule not in rules]
    wrong += [f"{rule} fires" for rule in case.silent if rule in rules]
    size = path.stat().st_size
    wrong += [f"{said['lost']} records lost"] if said["lost"] else []
    wrong += [f"{size:,} bytes, more than {MOST_BYTES:,}"] if size > MOST_BYTES else []
    print(f"  {size:,} bytes: {'; '.join(wrong) or 'as it must be'}", flush=True)
    return not wrong


def compare(out):
    """What the analysis says of the pageable copies, against the same program with pinned memory."""
    before, after = (out / f"{name}.cuzk" for name in ("pageable", "pinned-before"))
    if not (before.exists() and after.exists()):
        return
    said = findings(before)
    told = [entry for top in said["findings"] for entry in (top, *top["causes"])]
    saved = sum(entry["saved_ns"] for entry in told if entry["rule"] == "copy.slow") / said["proofs"]["count"]
    old, new = (statistics.median(durations_ms(path)) for path in (before, after))
    print(
        f"copy.slow says {saved / 1e6:.2f} ms a proof: {old:.2f} -> {new:.2f} ms came, {old - new:.2f} less"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=[case.name for case in CASES])
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for case in CASES:
        if args.only and case.name not in args.only:
            continue
        began = time.perf_counter()
        print(case.name, flush=True)
        path, good = record(case, args.out)
        if not (good and judge(case, path)):
            failed.append(case.name)
        print(f"  took {time.perf_counter() - began:.0f} s", flush=True)
    compare(args.out)
    print(json.dumps({"failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
