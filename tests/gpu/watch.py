"""Follow the rings of a command's processes and say in one JSON line what was recorded (used on the GPU machine).

watch.py [--raw FILE.npz] [--env K=V]... -- CMD ...
"""
# ruff: noqa: E501

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from cuzk_tracer import layout, places, reader

KINDS = {5: "kernel", 6: "memcpy", 7: "memset", 9: "overhead", 13: "sync", 1: "span", 2: "async", 3: "mark"}


def launched(ring: reader.Ring, parts: list[tuple[int, np.ndarray]]) -> dict[str, int]:
    """How many kernels each span launched, by its name; "" has those of no span."""
    spans = {
        (slot, row_id): name
        for slot, rows in parts
        for kind, row_id, name in zip(
            rows["kind"].tolist(), rows["id"].tolist(), rows["name"].tolist(), strict=True
        )
        if kind & layout.KIND_MASK == layout.KIND_SPAN
    }
    found: Counter[str] = Counter()
    for _, rows in parts:
        kernels = rows[rows["kind"] == layout.KIND_GPU_KERNEL]
        for track, parent in zip(kernels["track"].tolist(), kernels["parent"].tolist(), strict=True):
            name = spans.get(((track & 0x7FF) - 1, parent)) if parent else None
            found["" if name is None else ring.names[name].text] += 1
    return dict(found)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--raw")
    parser.add_argument("--period", type=float, default=0.02)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    folder = Path(places.folders()[0])
    before = set(folder.glob("*.ring")) if folder.exists() else set()
    child = subprocess.Popen(args.command, stdout=subprocess.PIPE, text=True)
    rings: dict[Path, reader.Ring] = {}
    parts: dict[Path, list[tuple[int, np.ndarray]]] = {}
    lags: list[np.ndarray] = []
    lost: dict[Path, int] = {}
    over = False
    while True:
        last = over
        over = child.poll() is not None
        for path in set(folder.glob("*.ring")) - before - set(rings):
            try:
                rings[path] = reader.Ring(path)
            except reader.RingError:
                continue
        for path, ring in rings.items():
            poll = ring.poll()
            now = time.monotonic_ns()
            lost[path] = poll.lost
            for thread, rows in poll.records:
                parts.setdefault(path, []).append((thread.slot, rows))
                kernels = rows[rows["kind"] == layout.KIND_GPU_KERNEL]
                if len(kernels) and not over:
                    lags.append(now - kernels["t1"].astype(np.int64))
        if last:
            break
        time.sleep(args.period)
    out = (child.stdout.read() if child.stdout else "").strip().splitlines()
    summary = {"code": child.returncode, "said": out[-1] if out else "", "sessions": []}
    for path, ring in rings.items():
        rows = np.concatenate([np.empty(0, reader.RECORD), *(rows for _, rows in parts.get(path, []))])
        kinds = Counter(KINDS.get(int(k), str(k)) for k in rows["kind"] & layout.KIND_MASK)
        names = Counter(ring.names[n].text[:60] for n in rows["name"].tolist() if n < len(ring.names))
        copies = rows[rows["kind"] == layout.KIND_GPU_MEMCPY]
        copied = Counter()
        for row in copies:
            copied[ring.names[int(row["name"])].text] += int(row["a0"])
        summary["sessions"].append(
            {
                "pid": ring.pid,
                "parent": ring.parent_pid,
                "kinds": dict(kinds),
                "names": dict(names.most_common(12)),
                "bytes": dict(copied),
                "lost": lost[path],
                "meta": {k: v for k, v in ring.meta.items() if k.startswith("gpu")},
                "ended": bool(ring.ended_ns),
                "parents": int((rows["parent"] != 0).sum()),
                "launched": launched(ring, parts.get(path, [])),
            }
        )
        if args.raw:
            np.savez_compressed(
                f"{args.raw}.{ring.pid}.npz", rows=rows, names=np.array([n.text for n in ring.names])
            )
    if lags:
        lag = np.concatenate(lags) / 1e6
        summary["lag_ms"] = {
            "n": len(lag),
            "p50": float(np.median(lag)),
            "p95": float(np.percentile(lag, 95)),
            "max": float(lag.max()),
        }
    print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
