"""The prover's goals on a GPU, every result checked: python tests/benchmarks/gpu.py [--quick] [--only msm]

Bases are (i + 1) * generator, made on the device and resident; scalars are random, of full width, in
page-locked memory, and their copy is inside the timed call, as is the way of the result back. Medians. Each
sum is compared with (sum of s_i (i + 1)) * generator, each transform with the host's and with its own way
back. The columns of sppark and ICICLE are recorded figures of an H200 (sppark 17278d7; the CUDA back end of
ICICLE v3), not measured here.
"""

import argparse
import json
import statistics
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from cuzk_kernels import curves
from cuzk_kernels.backend import gpu_device, gpu_msm
from cuzk_kernels.backend.cuda import CudaBackend
from cuzk_kernels.backend.gpu_points import combine
from cuzk_kernels.backend.native import NativeBackend, NativeVec
from cuzk_kernels.backend.native_library import Borrowed
from cuzk_kernels.backend.protocol import MsmSteps

BLS, BN = curves.BLS12_381, curves.BN254
# (curve, group, log): floor, sppark, ICICLE, first goal, then; ms
MSM_GOALS = {
    (BLS, 1, 16): (0.56, 7.1, 10.8, 2.0, 1.2),
    (BLS, 1, 20): (6.6, 21.9, 20.4, 11, 9),
    (BLS, 1, 22): (23.8, 53, 46.5, 36, 29),
    (BLS, 1, 24): (86, 156, 137, 130, 105),
    (BLS, 2, 20): (16.3, 49.3, None, 32, 22),
    (BLS, 2, 22): (58.5, 138, None, 110, 80),
    (BN, 1, 22): (11.1, 27.5, None, 17, 14),
}
NTT_GOALS = {(BLS, 20): (0.18, 0.28, 0.37, 0.35, 0.26), (BLS, 24): (3.5, 4.7, 6.1, 5.5, 4.4)}
DENSE_GOALS = (45, 138, None, 85, 60)
COPY_GOAL = 53.0  # GB/s
# What an H200 does at best, measured, a second: multiply-adds of 32 x 32 bits, bytes copied within it (read
# and written), additions to counters with the old value back, writes of 4 bytes to random places.
MULTIPLY_RATE, BYTE_RATE, ATOMIC_RATE, SCATTER_RATE = 8.36e12, 4.277e12, 75e9, 24e9


class Alone:
    """While entered, each kernel runs alone and is timed: ms by name, with the launches."""

    def __init__(self, device):
        self.device, self.times = device, {}

    def __enter__(self):
        launch = self.device.launch

        def timed(unit, name, *arguments, stream=None, **named):
            for other in (self.device.copy, self.device.sort, self.device.compute):
                self.device.finish(self.device.event(other))
            start = self.device.event(stream)
            launch(unit, name, *arguments, stream=stream, **named)
            end = self.device.event(stream)
            self.device.finish(end)
            self.times.setdefault(name, []).append(self.device.elapsed_ms(start, end))

        self.device.launch = timed
        return self.times

    def __exit__(self, *_):
        del self.device.launch


def product_slots(words, products, squares=0, reductions=0):
    """32 x 32 bit multiplications: a reduction's factors need only their low half, at half the price."""
    wide = products * words**2 + squares * words * (words + 1) // 2 + reductions * (words**2 + words / 2)
    return wide / MULTIPLY_RATE * 1e3


def addition_ms(curve, group, mixed):
    """Least time of an XYZZ addition with all multipliers busy: 8 products and 2 squares, or 12 and 2, one
    reduction shared in G1; Fp2 by Karatsuba's method, squares as two products."""
    products, words = 8 if mixed else 12, curve.n8q // 4
    if group == 1:
        return product_slots(words, products, 2, products + 1)
    return product_slots(words, 3 * products + 4, 0, 2 * products + 4)


def msm_limits(msm, n):
    """Least ms of the kernels of an MSM of n scalars of full width: multiplications, bytes or atomics."""
    windows, buckets = msm.windows, msm.buckets
    total = n * windows.number
    full, mixed = (addition_ms(msm.curve, msm.group, which) for which in (False, True))
    runs = 1 << msm.log_runs  # of a chunk; folding them takes 2 (runs - 1) + (runs - log_runs - 1) additions
    log_chunk = msm.log_length + msm.log_runs
    folds = (3 * runs - msm.log_runs - 3) * (buckets >> log_chunk)
    joins = 0  # of the chunks of each window: their rows, and a row for each bit of their number
    for w in range(windows.number):
        log_chunks = windows.bits - (1 if w < windows.wide else 2) - log_chunk
        joins += (msm.log_runs + 1) * ((1 << log_chunks) - 1)
        joins += log_chunks * ((1 << log_chunks) // 2 - 1)
    byte = 1e3 / BYTE_RATE
    return {
        "digits": max((32 * n + 8 * total) * byte, total / ATOMIC_RATE * 1e3),
        "scan": 12 * buckets * byte,
        "scatter": max(12 * total * byte, total / SCATTER_RATE * 1e3),
        "order": (4 + 8 + 16) * buckets * byte,
        "accumulate": (total - buckets) * mixed,
        "merge": 0.0,
        "reduce_runs": (2 * (buckets - (buckets >> msm.log_length)) + folds) * full,
        "reduce_bits": joins * full,
    }


def beside_limits(kernels):
    """name 1.23 ms (limit 1.00), ... of kernels that ran alone."""
    return ", ".join(
        f"{name} {ms:.3f}" + (f" (limit {least:.3f})" if least else "") for name, ms, least in kernels
    )


def pass_limit(n, step):
    """Least ms of a pass of a transform: its products, or moving n values and reading its factors."""
    products = n // 2 * step.log_size * product_slots(8, 1, 0, 1)
    return max(products, (96 if step.factors else 64) * n / BYTE_RATE * 1e3)


GROUPED = {
    "scan_tiles": "scan", "scan_apply": "scan", "count_lengths": "order",
    "order_lengths": "order", "place_segments": "order", "merge_small": "merge", "merge_chunks": "merge",
    "merge_big": "merge",
}  # fmt: skip


def random_scalars(curve, n, seed):
    """n x 8 words, uniform but for the top word, which stays below that of r: full width, below r."""
    words = np.random.default_rng(seed).integers(0, 1 << 32, (n, 8), dtype=np.uint32)
    words[:, 7] %= curve.r >> 224
    return words


def weighted_sum(words, r):
    """sum of s_i (i + 1) mod r, exactly."""
    total = 0
    step = 1 << 20
    for at in range(0, len(words), step):
        part = words[at : at + step]
        weights = np.arange(at + 1, at + 1 + len(part), dtype=np.uint64)
        for word in range(8):
            for half in range(2):
                digits = (part[:, word] >> (16 * half)) & 0xFFFF
                total += int((digits.astype(np.uint64) * weights).sum()) << (32 * word + 16 * half)
    return total % r


class Bench:
    def __init__(self, args):
        self.args = args
        self.device = gpu_device.Device(args.device)
        self.host = NativeBackend()
        self.backend = CudaBackend([self.device], self.host)
        self.steps = MsmSteps(*(nullcontext() for _ in range(4)))
        self.rows, self.detail, self.failures = [], {}, 0
        self._bases, self._scalars = {}, {}

    def row(self, what, ms, goals, checked, unit="ms"):
        floor, sppark, icicle, first, then = goals
        good = ms <= first if unit == "ms" else ms >= first
        self.failures += not checked
        self.rows.append((what, ms, floor, sppark, icicle, first, then, "met" if good else "MISSED", checked))
        print(f"{what:26} {ms:9.3f} {unit}  floor {floor}  first {first}  then {then}  "
              f"{'met' if good else 'MISSED'}  "
              f"{'checked' if checked else 'WRONG RESULT'}", flush=True)  # fmt: skip

    def pinned(self, words):
        view = self.backend.stager.pinned(words.nbytes)
        np.frombuffer(view, np.uint32)[:] = words.reshape(-1)
        return view

    def bases(self, curve, group, log):
        if (curve, group) not in self._bases or self._bases[curve, group].total < 1 << log:
            self._bases.pop((curve, group), None)
            n = 1 << log
            words = np.zeros((n, 8), np.uint32)
            words[:, 0] = np.arange(1, n + 1)
            scalars = self.device.alloc(words.nbytes)
            self.device.upload_bytes(scalars.address, words.tobytes())
            points = self.backend.multiples(curve, group, curve.group(group).generator, scalars.address, n)
            self._bases[curve, group] = gpu_msm.Bases(points.address, 0, n, (points,))
        whole = self._bases[curve, group]
        return gpu_msm.Bases(whole.points, 0, 1 << log, whole.blocks)

    def scalars(self, curve, log):
        """Scalars in pinned memory, and the logarithm of the sum to base the generator."""
        if (curve, log) not in self._scalars:
            words = random_scalars(curve, 1 << log, log)
            self._scalars = {(curve, log): (self.pinned(words), weighted_sum(words, curve.r))}
        return self._scalars[curve, log]

    def msm(self, curve, group, log, bits=None, repeats=None):
        n = 1 << log
        bases = self.bases(curve, group, log)
        view, expected_log = self.scalars(curve, log)
        ops = curve.group(group)
        expected = ops.mul(ops.generator, expected_log)
        bits = bits or gpu_msm.window_bits(curve.r.bit_length(), float(n))
        scalars = self.device.alloc(32 * n)
        feed = gpu_msm.Feed(Borrowed(view, 32 * n).address)
        times, good = [], True
        for k in range(repeats or (6 if log >= 24 else 9)):
            start = time.perf_counter()
            result = self.backend.sum_bases(curve, group, bases, scalars.address, bits, self.steps, feed)
            if k > 1:
                times.append(1e3 * (time.perf_counter() - start))
            good = good and result == expected
        kernels = self.kernels(curve, group, bases, scalars.address, bits)
        self.device.reuse_sort_blocks(0)
        self.device.synchronize()
        self.device.pool.trim()
        self.device.sort_pool.trim()
        return statistics.median(times), good, bits, kernels

    def kernels(self, curve, group, bases, scalars, bits):
        """(name, ms, least ms) of each kernel, alone, the scalars on the device."""
        msm = gpu_msm.Msm(self.device, curve, group, bases, scalars, bits)
        with Alone(self.device) as log:
            self.backend._start(msm, self.steps)
        points, powers = msm.points()
        sums = {}
        for name, parts in log.items():
            sums[GROUPED.get(name, name)] = sums.get(GROUPED.get(name, name), 0.0) + sum(parts)
        least = msm_limits(msm, bases.total)
        start = time.perf_counter()
        combine(curve, group, points, powers)
        sums["horner"], least["horner"] = 1e3 * (time.perf_counter() - start), 0.0  # on the host
        msm.done()
        return [(name, round(ms, 4), round(least[name], 4)) for name, ms in sums.items()]

    def run_msm(self):
        for (curve, group, log), goals in MSM_GOALS.items():
            if (self.args.quick and log > 22) or (
                self.args.sizes and f"{curve.name}-g{group}-{log}" not in self.args.sizes
            ):
                continue
            widths = self.args.bits or [None]
            for bits in widths:
                ms, good, used, kernels = self.msm(curve, group, log, bits)
                what = f"{curve.label} G{group} MSM 2^{log}"
                self.row(what, ms, goals, good)
                print(f"    c={used}  {beside_limits(kernels)}", flush=True)
                self.detail[f"{what} c={used}"] = {"ms": ms, "kernels_ms_and_least": kernels}
        self._bases.clear()
        self.device.pool.trim()

    def run_ntt(self):
        for (curve, log), goals in NTT_GOALS.items():
            n = 1 << log
            words = random_scalars(curve, n, log)
            v = self.backend.vector(curve, words.tobytes())
            domain = self.backend.domain(curve, log)
            h = NativeVec.of(curve, words.tobytes())
            self.backend.intt(v)
            self.host.intt(h)
            good = v.tobytes() == h.tobytes()
            self.backend.ntt(v)
            good = good and v.tobytes() == words.tobytes()
            for up in (False, True):
                times = []
                for _ in range(12):
                    start = self.device.event()
                    domain.run(v.address, up=up, coset=False)
                    end = self.device.event()
                    self.device.finish(end)
                    times.append(self.device.elapsed_ms(start, end))
                self.row(
                    f"{curve.label} {'NTT' if up else 'iNTT'} 2^{log}",
                    statistics.median(times[2:]),
                    goals,
                    good,
                )
                with Alone(self.device) as log_of_passes:
                    domain.run(v.address, up=up, coset=False)
                passes = next(iter(log_of_passes.values()))
                kernels = [
                    (f"pass of 2^{step.log_size}", ms, pass_limit(n, step))
                    for step, ms in zip(domain.up if up else domain.down, passes, strict=True)
                ]
                print(f"    {beside_limits(kernels)}", flush=True)

    def run_copy(self):
        size = 256 << 20
        view = self.backend.stager.pinned(size)
        np.frombuffer(view, np.uint8)[:] = 7
        block = self.device.alloc(size)
        times = []
        for _ in range(7):
            start = self.device.event()
            self.backend.stager.copy(block.address, view, size)
            end = self.device.event()
            self.device.finish(end)
            times.append(self.device.elapsed_ms(start, end))
        good = self.device.read(block.address + size - 16, 16) == b"\7" * 16
        self.row(
            "H2D pinned",
            size / statistics.median(times[1:]) / 1e6,
            (None, None, None, COPY_GOAL, 55.5),
            good,
            "GB/s",
        )

    def run_dense(self, log=20):
        """The work of a proof with 2^log constraints and wires of full width: a, b, c and the witness from
        pinned memory, quotient, four MSMs in G1 and one in G2."""
        curve, n = BLS, 1 << log
        g1, g2 = self.bases(curve, 1, log), self.bases(curve, 2, log)
        vectors = [random_scalars(curve, n, k) for k in range(4)]
        views = [self.pinned(words) for words in vectors]
        hosts = [NativeVec.of(curve, words.tobytes()) for words in vectors[:3]]
        for h in hosts:
            self.host.intt(h)
            self.host.coset(h)
            self.host.ntt(h)
        h_words = np.frombuffer(self.host.pointwise(*hosts).tobytes(), np.uint32).reshape(n, 8)
        want_h = curve.g1.mul(curve.g1.generator, weighted_sum(h_words, curve.r))
        log_w = weighted_sum(vectors[3], curve.r)
        want_w, want_w2 = curve.g1.mul(curve.g1.generator, log_w), curve.g2.mul(curve.g2.generator, log_w)
        bits = [gpu_msm.window_bits(curve.r.bit_length(), float(n))] * 2
        backend, times, good = self.backend, [], True
        for k in range(6):
            start = time.perf_counter()
            vecs = []
            for view in views[:3]:
                v = type(backend.vector(curve, bytes(32)))(backend, curve, n)
                backend.stager.copy(v.address, view, 32 * n)
                backend._launch(curve, "montgomery", n, v.address, v.address, n, 1)
                vecs.append(v)
            scalars = self.device.alloc(32 * n)
            backend.stager.copy(scalars.address, views[3], 32 * n)
            for v in vecs:
                backend.intt(v)
                backend.coset(v)
                backend.ntt(v)
            h = backend.pointwise(*vecs)
            jobs = [(1, g1, h.address)] + [(1, g1, scalars.address)] * 3 + [(2, g2, scalars.address)]
            started = [
                backend._start(gpu_msm.Msm(self.device, curve, group, bases, at, bits[group - 1]), self.steps)
                for group, bases, at in jobs
            ]
            results = [backend._finish(msm, self.steps) for msm in started]
            if k:
                times.append(1e3 * (time.perf_counter() - start))
            good = good and results == [want_h, want_w, want_w, want_w, want_w2]
        self.row(f"dense proof 2^{log}", statistics.median(times), DENSE_GOALS, good)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="nothing above 2^22")
    parser.add_argument("--only", default="copy,ntt,msm,dense")
    parser.add_argument("--bits", type=int, nargs="*", help="digit widths to try")
    parser.add_argument("--sizes", nargs="*", help="only these MSMs: bls12381-g1-20 ...")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    bench = Bench(args)
    print(f"{bench.device.name}, {bench.device.processors} multiprocessors")
    for name in args.only.split(","):
        getattr(bench, f"run_{name}")()
    print(f"\n{'':26} {'here':>9} {'floor':>7} {'sppark':>7} {'ICICLE':>7} {'first':>6} {'then':>6}")
    for what, value, *recorded, verdict, checked in bench.rows:
        cells = " ".join(f"{'-' if x is None else x:>7}" for x in recorded)
        print(f"{what:26} {value:9.3f} {cells} {verdict}{'' if checked else '  WRONG RESULT'}")
    if args.json:
        args.json.write_text(json.dumps({"rows": bench.rows, "detail": bench.detail}, indent=1))
    raise SystemExit(1 if bench.failures else 0)


if __name__ == "__main__":
    main()
