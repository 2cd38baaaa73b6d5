"""Two workers that share a GPU through a lock whose holder waits for the CPU, as GPU workers of cuzk do.

Run it under `cuzk-top run -o FILE.cuzk -- python tests/gpu/lock_wait.py [--holder-works]`, or with
provoke.py, which keeps what it records. For each partition a worker takes the lock, gives the GPU one sum,
waits at a barrier for what another thread prepares on the CPU, gives the GPU the sums that need that, and
lets go. The other worker waits for the lock while the GPU idles. With --holder-works what the CPU prepares is
little and is there before the lock is taken: the GPU works for as long as it is held.
"""

import argparse
import threading
import time
from contextlib import nullcontext

from random_points import random_points

import cuzk_tracer
from cuzk_kernels import backend as backends
from cuzk_kernels.backend.protocol import MsmSteps
from cuzk_kernels.curves import BLS12_381
from cuzk_tracer import gpu

WORKERS, PARTITIONS, SUMS = 2, 3, 4  # partitions of each worker; sums of each partition
PROVE = cuzk_tracer.span("prove", a0="partition", stage=True)
WAIT = cuzk_tracer.span("gpu.wait", a0="device")
HELD = cuzk_tracer.span("gpu.held", a0="device", stage=True)
FIRST = cuzk_tracer.span("msm.h", a0="points", stage=True)
PREPARE = cuzk_tracer.span("prep.msm", a0="points", stage=True)
BARRIER = cuzk_tracer.span("barrier.wait")
TAIL = cuzk_tracer.span("msm.tail", a0="points", stage=True)
FINISH = cuzk_tracer.span("gpu.finish")
RESULTS = cuzk_tracer.span("finalize", stage=True)
BEGUN, DONE = "prep.handed_over", "prep.handed_back"
UNTRACED = MsmSteps(*(nullcontext() for _ in MsmSteps._fields))


class Sums:
    """Sums of the same points on the GPU or on the CPU; every result of a number of points is the same."""

    def __init__(self, backend, count):
        self.backend, self.count = backend, count
        data, self.on_gpu, self.points = random_points(backend, count)
        self.on_cpu = backend.host.scalars(BLS12_381, data, count)
        self.expected = self.begin()()  # which also takes the points to the device

    def begin(self):
        """Give the GPU a sum; the result is what the returned call gives."""
        return self.backend.msm_begin(BLS12_381, 1, self.points, self.on_gpu, 0, self.count, UNTRACED)

    def settle(self):
        """Wait until the GPU has done all that it was given."""
        with self.backend.device.entered(), gpu.launches():
            self.backend.device.synchronize()

    def prepare(self, count):
        """Work for the CPU: the sum of the first `count` points."""
        with PREPARE(count):
            self.backend.host.msm(BLS12_381, 1, self.points, self.on_cpu, 0, count, UNTRACED)


class Prepared:
    """What a thread of its own prepares; both ways of handing it over are traced."""

    def __init__(self, call):
        self._call, self._done = call, 0
        self._begun = cuzk_tracer.flow(BEGUN)
        self._thread = threading.Thread(target=self._run, name="prep")
        self._thread.start()

    def _run(self):
        cuzk_tracer.flow(BEGUN, self._begun)
        self._call()
        self._done = cuzk_tracer.flow(DONE)

    def wait(self):
        with BARRIER:
            self._thread.join()
            cuzk_tracer.flow(DONE, self._done)


def partition(number, sums, lock, holder_works):
    """One partition; how long it waited for the lock, in seconds."""
    with PROVE(number):
        if holder_works:
            Prepared(lambda: sums.prepare(sums.count // 32)).wait()
        began = time.perf_counter()
        with WAIT(0):
            lock.acquire()
        waited = time.perf_counter() - began
        with HELD(0):
            prepared = None if holder_works else Prepared(lambda: sums.prepare(sums.count))
            with FIRST(sums.count):
                jobs = [sums.begin()]
            if prepared is not None:
                with FINISH:
                    sums.settle()
                prepared.wait()
            with TAIL(sums.count):
                more = 3 * SUMS if holder_works else SUMS  # launching idles the GPU: little of a long hold
                jobs += [sums.begin() for _ in range(more - 1)]
            with FINISH:
                sums.settle()
        lock.release()
        with RESULTS:
            assert all(job() == sums.expected for job in jobs)
    return waited


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--holder-works", action="store_true")
    parser.add_argument("--log", type=int, default=22, help="log2 of the points of a sum")
    args = parser.parse_args()
    backend = backends.choose("cuda")[0]
    sums, lock = Sums(backend, 1 << args.log), threading.Lock()
    waits = [0.0] * WORKERS

    def work(worker):
        for k in range(PARTITIONS):
            waits[worker] += partition(PARTITIONS * worker + k, sums, lock, args.holder_works)

    began = time.perf_counter()
    threads = [threading.Thread(target=work, args=(w,), name=f"gpu worker {w}") for w in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gpu.flush()
    print(
        f"{WORKERS * PARTITIONS} partitions in {time.perf_counter() - began:.3f} s; the workers waited "
        f"{' and '.join(f'{seconds:.3f}' for seconds in waits)} s for the lock"
    )


if __name__ == "__main__":
    main()
