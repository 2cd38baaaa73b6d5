"""A program that copies 256 MiB to the GPU and computes with them, from pageable memory or from pinned.

Run it under `cuzk-top run -o FILE.cuzk -- python tests/gpu/copies.py [--pinned]`, or with provoke.py. With
--pinned the same memory is page-locked once, before the first proof. Each of --rounds in a proof copies and
computes anew.
"""

import argparse
import ctypes
import time

from pin_untouched import BYTES, buffer

import cuzk_tracer
from cuzk_kernels.backend import gpu_device
from cuzk_tracer import gpu

KERNELS = 2
VALUES = BYTES // 32
PROVE = cuzk_tracer.span("prove", a0="number", stage=True)
COPY = cuzk_tracer.span("h2d.abc", a0="bytes", stage=True)
COMPUTE = cuzk_tracer.span("quotient.montgomery", a0="values", stage=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pinned", action="store_true")
    parser.add_argument("--proofs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    gpu.start()
    device = gpu_device.Device(0)
    target = device.alloc(BYTES)
    kept, address = buffer()
    ctypes.memset(address, 1, BYTES)
    if args.pinned and not device.register(address, BYTES):
        raise SystemExit("the driver refuses to page-lock this memory")

    def compute():
        for _ in range(KERNELS):
            place = target.address
            device.launch("bls12381-scalars", "montgomery", 1 << 15, 256, place, place, VALUES, 1)
        device.synchronize()

    compute()  # also loads the kernels
    took = []
    for number in range(1, args.proofs + 1):
        began = time.perf_counter()
        with PROVE(number), gpu.launches():
            for _ in range(args.rounds):
                with COPY(BYTES), gpu.launches():
                    device.upload(target.address, address, BYTES)
                with COMPUTE(VALUES), gpu.launches():
                    compute()
        took.append(time.perf_counter() - began)
    gpu.flush()
    print(f"{args.proofs} proofs, the median {sorted(took)[len(took) // 2] * 1e3:.2f} ms")
    if args.pinned:
        device.unregister(address)
    kept.flush()  # it was there to the end


if __name__ == "__main__":
    main()
