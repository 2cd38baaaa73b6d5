"""A program that pins memory in place before each copy, once memory that nobody has touched yet.

Run it under `cuzk-top run -o FILE.cuzk -- python tests/gpu/pin_untouched.py`. Every proof of eight fills a, b
and c, page-locks them where they are (cuMemHostRegister), copies them and unlocks them. The buffers are kept
from proof to proof, as a prover's pool is; the sixth proof takes new ones and pins them before they are
filled, so that the pinning has to bring in every page.
"""

import ctypes
import mmap

import cuzk_tracer
from cuzk_kernels.backend import gpu_device
from cuzk_tracer import gpu

PROOFS, FRESH = 8, 6
BYTES = 256 << 20

PROVE = cuzk_tracer.span("prove", a0="number", stage=True, faults=True)
FILL = cuzk_tracer.span("synthesis.abc.fill", a0="bytes", stage=True, faults=True)
PIN = cuzk_tracer.span("pin.abc", a0="bytes", stage=True, faults=True)
COPY = cuzk_tracer.span("h2d.abc", a0="bytes", stage=True, faults=True)
UNPIN = cuzk_tracer.span("unpin.abc", a0="bytes", stage=True, faults=True)


def buffer():
    """New memory and its address; nothing of it is in a page yet."""
    memory = mmap.mmap(-1, BYTES)
    return memory, ctypes.addressof(ctypes.c_char.from_buffer(memory))


def main():
    gpu.start()
    device = gpu_device.Device(0)
    target = device.alloc(BYTES)
    kept, address = buffer()
    ctypes.memset(address, 1, BYTES)
    held = [kept]
    for number in range(1, PROOFS + 1):
        with PROVE(number), gpu.launches():
            if number == FRESH:
                memory, address = buffer()
                held.append(memory)
            else:
                with FILL(BYTES):
                    ctypes.memset(address, number, BYTES)
            with PIN(BYTES):
                if not device.register(address, BYTES):
                    raise SystemExit("the driver refuses to page-lock this memory")
            if number == FRESH:
                with FILL(BYTES):
                    ctypes.memset(address, number, BYTES)
            with COPY(BYTES):
                device.upload(target.address, address, BYTES)
                device.synchronize()
            with UNPIN(BYTES):
                device.unregister(address)
    gpu.flush()


if __name__ == "__main__":
    main()
