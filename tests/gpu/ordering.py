"""Check the times of `work launches N NS FILE` against its kernels in a raw dump of watch.py."""

import json
import sys

import numpy as np

raw, file = sys.argv[1:3]
data = np.load(raw)
rows, names = data["rows"], data["names"]
spin = rows[(rows["kind"] == 5)]
spin = spin[np.argsort(spin["t0"], kind="stable")][1:]  # the first loads the module
times = np.loadtxt(file, dtype=np.int64)
before, after = times[:-1, 0], times[:-1, 1]
synced = int(times[-1, 1])
start, end = spin["t0"].astype(np.int64), spin["t1"].astype(np.int64)
n = min(len(start), len(before))
lead = start[:n] - before[:n]
print(
    json.dumps(
        {
            "launches": len(before),
            "kernels": len(start),
            "starts_before_its_launch": int((lead < 0).sum()),
            "least_lead_ns": int(lead.min()),
            "ends_after_sync_ns": int(end.max() - synced),
            "over_20us": int((end - synced > 20_000).sum()),
            "corr_in_order": bool((np.diff(spin["corr"].astype(np.int64)) > 0).all()),
            "overlaps": int((start[1:] < end[:-1]).sum()),
        }
    )
)
