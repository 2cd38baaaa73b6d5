"""Check the capture on a GPU machine, and exit with 1 where something differs from what it must be.

capture_check.py [--folder DIR] [--log 20] [--curve bn254] [--repeat 12] [--rounds 2] [--only proofs|processes]

proofs: the same key and witness are proved with CUPTI's records, with CUDA events, and untraced. Kernels, copies
and fills of both sources must be the same by name, count and bytes, have the span that launched them, and lie in
the time their proof holds the GPU; the kernels' time must agree to 3 %. DIR keeps the key between runs.

processes: work.cu (built here with nvcc) forks, replaces itself, starts another program and is killed; each of
its processes must have a session of its own with all of its kernels. Where four of its threads launch at once inside
of NVTX ranges, each kernel must have the range in which it was launched.
"""
# ruff: noqa: E501

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
from watch import launched

from cuzk_top import stages
from cuzk_top.errors import RingError
from cuzk_top.model import KIND_GPU_KERNEL, KIND_GPU_MEMCPY, Snapshot
from cuzk_top.sources.ring import RingSource
from cuzk_top.store import Store
from cuzk_tracer import gpu, reader

ROOT = Path(__file__).resolve().parents[2]
ALIKE = 0.03  # events add 2 to 3 µs a kernel, and two runs of the same kernels differ by themselves
PROVER = """
import sys
from cuzk_tracer import gpu
if sys.argv.pop(1) == "events":
    gpu.library = lambda: None
from cuzk_kernels import runner
sys.exit(runner.main(sys.argv[1:]))
"""

failed: list[str] = []


def check(good: bool, what: str) -> None:
    """One line, and a note for the end where it is not so."""
    print(f"{'ok  ' if good else 'BAD '} {what}", flush=True)
    if not good:
        failed.append(what)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Rings in a folder of their own; our sources, and nobody else's capture."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("CUZK_", "CUDA_INJECTION", "NVTX_"))}
    sources = [str(ROOT / part) for part in ("app", "tracer", "kernels")]
    path = ":".join([*sources, kept.get("PYTHONPATH", "")])
    return kept | {"XDG_RUNTIME_DIR": str(folder), "PYTHONPATH": path} | more


# --------------------------------------------------------------------------------------------- proofs


def prove(source: str, key: Path, repeat: int) -> tuple[Snapshot | None, list[float]]:
    """What was recorded (None of "off"), and how long each proof took by the prover's own account."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        folder = Path(place)
        command = [
            sys.executable, "-c", PROVER, source, "--backend", "cuda", "prove", str(key / "circuit.zkey"),
            str(key / "witness.wtns"), "--proof", str(folder / "proof.json"), "--public", str(folder / "public.json"),
            "--repeat", str(repeat),
        ]  # fmt: skip
        env = environment(folder, **({"CUZK_TRACE": "off"} if source == "off" else {}))
        with (folder / "said").open("w") as said:
            process = subprocess.Popen(command, env=env, stdout=said, stderr=subprocess.STDOUT)
            snapshot = None if source == "off" else follow(process, folder)
            process.wait()
        lines = (folder / "said").read_text().splitlines()
        told = [json.loads(line) for line in lines if line.startswith("{")]
        for event in told:
            if event["event"] in ("note", "error"):
                print(f"     {source}: {event['text']}")
        check(
            process.returncode == 0,
            f"{source}: the prover ends with 0 {lines[-1:] if process.returncode else ''}",
        )
        return snapshot, [event["seconds"] for event in told if event["event"] == "proof"]


def follow(process: "subprocess.Popen[bytes]", folder: Path) -> Snapshot:
    store, source = Store(), None
    while True:
        over = process.poll() is not None
        if source is None and (rings := list((folder / "cuzk").glob("*.ring"))):
            with suppress(RingError):  # it is only just being made
                source = RingSource(rings[0], time.monotonic_ns)
        if source is not None:
            batch = source.poll()
            store.append(batch)
            if batch.ended:
                return store.snapshot()
        if over and source is None:
            raise SystemExit("the prover left no ring")
        time.sleep(0.02)


class Steady:
    """The proofs after the first, and what their devices did."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        names = snapshot.session.names
        spans = [self._spans(name) for name in ("prove", "gpu.held")]
        self.proofs, self.held = spans[0][1:], spans[1][1:]
        works = [row.columns for row in snapshot.rows if stages.has_work(row.lane) and len(row.columns)]
        self.count: Counter[str] = Counter()
        self.moved: Counter[str] = Counter()
        self.length: Counter[str] = Counter()
        self.orphans = self.outside = self.kernel_ns = 0
        for columns in works:
            for low, high in self.proofs:
                mine = columns.take((columns.start_ns >= low) & (columns.end_ns <= high))
                self.orphans += int((mine.parent == 0).sum())
                within = np.zeros(len(mine), bool)
                for start, end in self.held:
                    within |= (mine.start_ns >= start) & (mine.end_ns <= end)
                self.outside += int((~within).sum())
                for name, kind, start, end, size in zip(
                    mine.name.tolist(), mine.kind.tolist(), mine.start_ns.tolist(), mine.end_ns.tolist(), mine.a0.tolist(), strict=True
                ):  # fmt: skip
                    self.count[names[name].text] += 1
                    self.length[names[name].text] += end - start
                    if kind == KIND_GPU_MEMCPY:
                        self.moved[names[name].text] += size
                    if kind == KIND_GPU_KERNEL:
                        self.kernel_ns += end - start

    def _spans(self, name: str) -> list[tuple[int, int]]:
        number = [entry.text for entry in self.snapshot.session.names].index(name)
        found = []
        for row in self.snapshot.rows:
            mine = row.columns.take(row.columns.name == number)
            found += zip(mine.start_ns.tolist(), mine.end_ns.tolist(), strict=True)
        return sorted(found)

    def share(self, spans: list[tuple[int, int]]) -> float:
        """Of the proofs' time, that of these spans."""
        return sum(end - start for start, end in spans) / sum(end - start for start, end in self.proofs)


def compare(one: Steady, two: Steady) -> None:
    """CUPTI's records against the events'."""
    n = len(two.proofs)
    for name in sorted(one.length, key=lambda name: -one.length[name]):
        a, b = one.length[name] / n / 1e3, two.length[name] / n / 1e3
        each = (b - a) / max(1, one.count[name] / n)
        print(
            f"       {name:24} {one.count[name] / n:7.1f}  {a:11.1f} {b:11.1f} us a proof  {each:+7.2f} us each"
        )
    check(one.count == two.count, f"the same launches by name ({sum(one.count.values()) // n} a proof)")
    check(one.moved == two.moved, f"the same bytes copied ({sum(one.moved.values()) // n:,} a proof)")
    off = two.kernel_ns / one.kernel_ns - 1
    check(
        abs(off) <= ALIKE,
        f"kernel time {one.kernel_ns / n / 1e6:.3f} ms by CUPTI, {two.kernel_ns / n / 1e6:.3f} by events: {off:+.2%}",
    )


def check_steady(source: str, steady: Steady) -> None:
    """What is so of either source."""
    check(steady.orphans == 0, f"{source}: every launch has the span that launched it")
    check(steady.outside == 0, f"{source}: every launch lies in a time that a proof holds the GPU")
    check(
        len(steady.held) == len(steady.proofs),
        f"{source}: each proof holds the GPU once, {steady.share(steady.held):.1%} of its time",
    )
    snapshot = steady.snapshot
    check(
        snapshot.lost == 0 and not any("impossible" in p for p in snapshot.problems),
        f"{source}: nothing lost",
    )


def proofs(folder: Path, log: int, curve: str, repeat: int, rounds: int) -> None:
    """The whole of it, each way in turns."""
    if not (folder / "witness.wtns").exists():
        command = [sys.executable, str(ROOT / "tests/gpu/dense.py"), "--log", str(log), "--curve", curve]
        env = environment(folder.parent, CUZK_TRACE="off")
        subprocess.run([*command, "--backend", "cuda", "--folder", str(folder)], env=env, check=True)
    seconds: dict[str, list[float]] = {"off": [], "cupti": [], "events": []}
    last: dict[str, Steady] = {}
    for _ in range(rounds):
        for source in seconds:
            snapshot, told = prove(source, folder, repeat)
            seconds[source] += told[1:]
            if snapshot is not None:
                last[source] = Steady(snapshot)
    for source, steady in last.items():
        check_steady(source, steady)
    meta = last["events"].snapshot.session.meta
    check("gpu.times" in meta and "gpu.capture" not in meta, f"events say so: {meta.get('gpu.times')}")
    check(
        "gpu.capture" in last["cupti"].snapshot.session.meta,
        f"CUPTI says so: {last['cupti'].snapshot.session.meta.get('gpu.capture')}",
    )
    compare(last["cupti"], last["events"])
    medians = {source: 1e3 * statistics.median(took) for source, took in seconds.items()}
    print("     a proof: " + ", ".join(f"{source} {ms:.2f} ms" for source, ms in medians.items()))


# ------------------------------------------------------------------------------------------ processes


def sessions(command: list[str]) -> tuple[int, list[dict[str, object]]]:
    """The exit code, and what each session of a command's processes holds: its kernels by the span that launched
    them, too."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        folder = Path(place)
        env = environment(folder)
        env |= gpu.environment(env)[0]
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
        rings: dict[int, reader.Ring] = {}  # by inode: a program that replaces itself takes the name over
        parts: dict[int, list[tuple[int, np.ndarray]]] = {}
        while True:
            over = process.poll() is not None
            for path in (folder / "cuzk").glob("*.ring"):
                if path.stat().st_ino not in rings:
                    try:
                        ring = reader.Ring(path)
                    except reader.RingError:  # just being made
                        continue
                    rings[os.fstat(ring._file.fd).st_ino] = ring
            for inode, ring in rings.items():
                for thread, rows in ring.poll().records:
                    parts.setdefault(inode, []).append((thread.slot, rows))
            if over:
                break
            time.sleep(0.005)
        found = []
        for inode, ring in rings.items():
            by_span = launched(ring, parts.get(inode, []))
            ended = bool(ring.ended_ns)
            session = {"pid": ring.pid, "parent": ring.parent_pid, "ended": ended}
            found.append({**session, "kernels": sum(by_span.values()), "launched": by_span})
        return process.returncode, found


def processes() -> None:
    """Programs that fork, exec and die."""
    with tempfile.TemporaryDirectory() as place:
        work = f"{place}/work"
        nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        subprocess.run(
            [nvcc, "-arch=native", "-o", work, str(ROOT / "tests/gpu/work.cu"), "-ldl"], check=True
        )
        for mode, code, expected, ends in (
            ("fork", 0, [100, 100], True),
            ("spawn", 0, [75, 101], True),
            ("exec", 0, [101], True),
            ("kill", -9, [100], False),
        ):
            got, found = sessions([work, mode])
            counts = sorted(int(str(one["kernels"])) for one in found)
            if mode == "exec":  # of the program before it what had been handed over by then
                counts = counts[-1:]
            right = (got, counts) == (code, sorted(expected))
            check(right, f"{mode}: exit code {got}, kernels by session {found}")
            last = [one["ended"] for one in found if one["kernels"] == max(expected)]
            check(last == [ends] * expected.count(max(expected)), f"{mode}: ended in good order: {last}")
            if mode == "spawn" and right:
                parent, child = sorted(found, key=lambda one: int(str(one["kernels"])))
                check(child["parent"] == parent["pid"], "spawn: the child's session names its parent's")
        _, (found_one,) = sessions([work, "parents"])  # the first kernel, and one behind each of 200 ranges
        ranges = {f"{which} {thread}": 500 for which in ("even", "odd") for thread in range(4)}
        check(found_one["launched"] == {**ranges, "": 201}, f"parents: {found_one['launched']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/capture-check"))
    parser.add_argument("--log", type=int, default=20)
    parser.add_argument("--curve", default="bn254")
    parser.add_argument("--repeat", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=["proofs", "processes"])
    args = parser.parse_args()
    if args.only != "proofs":
        processes()
    if args.only != "processes":
        proofs(args.folder, args.log, args.curve, args.repeat, args.rounds)
    print(f"{len(failed)} of the checks failed" if failed else "all as it must be")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
