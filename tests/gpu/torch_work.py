"""A PyTorch program; with `profile`, PyTorch's own profiler says what ran."""

import collections
import json
import sys
from pathlib import Path

import torch


def work():
    a = torch.randn(2048, 2048, device="cuda")
    b = torch.randn(2048, 2048)
    for _ in range(20):
        with torch.cuda.nvtx.range("step"):
            c = a @ b.cuda()
            c = torch.relu(c).sum()
    x = torch.zeros(1 << 20).pin_memory().cuda(non_blocking=True)
    x.add_(1)
    x.cpu()
    torch.cuda.synchronize()
    return float(c)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else ""
    torch.cuda.init()
    if mode == "profile":
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as p:
            work()
        p.export_chrome_trace("/tmp/torch.json")
        e = [
            x
            for x in json.loads(Path("/tmp/torch.json").read_text())["traceEvents"]
            if x.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
        ]
        by = collections.Counter(x["cat"] for x in e)
        n = collections.Counter(x["name"][:50] for x in e if x["cat"] == "kernel")
        byt = sum(x["args"].get("bytes", 0) for x in e if x["cat"] == "gpu_memcpy")
        dur = sum(x["dur"] for x in e if x["cat"] == "kernel")
        print(json.dumps({"by": by, "names": dict(n), "copy_bytes": byt, "kernel_us": dur}))
    else:
        work()
        print(json.dumps({"done": 1}))


main()
