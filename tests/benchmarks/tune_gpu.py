"""Temporary: variants of the kernels and their settings, one line each. See main() for the list."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
ROOT = Path(os.environ.get("TUNE_CACHE", "/tmp/tune"))

# name: (flags, units to build, accumulate blocks a multiprocessor)
VARIANTS = {
    "base": ((), ("bls12381-g1", "bls12381-g2", "bn254-g1", "bls12381-scalars", "bn254-scalars"), {}),
    "bn3p": (("-DCUZK_ACCUMULATE_BLOCKS=3", "-DCUZK_PREFETCH=1"), ("bn254-g1",), {"bn254-g1": 3}),
    "bn4": (("-DCUZK_ACCUMULATE_BLOCKS=4",), ("bn254-g1",), {"bn254-g1": 4}),
    "bn4p": (("-DCUZK_ACCUMULATE_BLOCKS=4", "-DCUZK_PREFETCH=1"), ("bn254-g1",), {"bn254-g1": 4}),
    "bn4ep": (
        ("-DCUZK_ACCUMULATE_BLOCKS=4", "-DCUZK_EARLY=1", "-DCUZK_PREFETCH=1"),
        ("bn254-g1",),
        {"bn254-g1": 4},
    ),
    "bn5ep": (
        ("-DCUZK_ACCUMULATE_BLOCKS=5", "-DCUZK_EARLY=1", "-DCUZK_PREFETCH=1"),
        ("bn254-g1",),
        {"bn254-g1": 5},
    ),
    "bn_warm": (("-DCUZK_WARM=1",), ("bn254-g1",), {}),
    "bls_warm": (("-DCUZK_WARM=1",), ("bls12381-g1",), {}),
    "bls_p": (("-DCUZK_PREFETCH=1",), ("bls12381-g1",), {}),
    "bls_ep": (("-DCUZK_PREFETCH=1", "-DCUZK_EARLY=1"), ("bls12381-g1",), {}),
    "g2_3": (("-DCUZK_ACCUMULATE_BLOCKS=3",), ("bls12381-g2",), {"bls12381-g2": 3}),
    "g2_k": (("-DCUZK_KARATSUBA=1",), ("bls12381-g2",), {}),
    "g2_k3": (
        ("-DCUZK_KARATSUBA=1", "-DCUZK_ACCUMULATE_BLOCKS=3"),
        ("bls12381-g2",),
        {"bls12381-g2": 3},
    ),
    "g2_hot": (("-DCUZK_HOT=1",), ("bls12381-g2",), {}),
}


def build(job):
    name, unit = job
    start = time.time()
    script = (
        "from cuzk_kernels.backend import gpu_build as b; import sys;"
        f"b.FLAGS = (*b.FLAGS, *{VARIANTS[name][0]!r}); b.build({unit!r}, (9, 0))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "CUZK_KERNEL_CACHE": str(ROOT / name)},
        capture_output=True, text=True, check=False, timeout=float(os.environ.get("TUNE_BUILD_S", "150")),
    )  # fmt: skip
    return name, unit, time.time() - start, run.stderr.strip().splitlines()[-1:]


def guarded(job):
    try:
        return build(job)
    except subprocess.TimeoutExpired:
        return (*job, -1.0, ["too slow to compile"])


def one(name):
    """The cases of a variant, in this process."""
    os.environ["CUZK_KERNEL_CACHE"] = str(ROOT / name)
    import argparse

    import gpu
    from cuzk_kernels.backend import gpu_build, gpu_msm

    flags, units, blocks = VARIANTS[name]
    gpu_build.FLAGS = (*gpu_build.FLAGS, *flags)
    gpu_msm.ACCUMULATE_BLOCKS.update(blocks)
    if name != "base":  # the scalars' kernels are those of base
        for f in (ROOT / "base").glob("*-scalars-*"):
            target = ROOT / name / f.name
            if not target.exists():
                target.write_bytes(f.read_bytes())
    args = argparse.Namespace(device=0, quick=False, bits=None, sizes=None, only="", json=None)
    bench = gpu.Bench(args)

    def case(curve, group, log, bits=None, note="", repeats=None, table=False):
        ms, good, used, kernels = bench.msm(curve, group, log, bits, repeats)
        print(
            f"{name:8} {curve.name} g{group} 2^{log} c={used:<2} {note:14} {ms:8.3f} ms {'' if good else 'WRONG'}"
            + (f"\n         {gpu.beside_limits(kernels)}" if table else ""),
            flush=True,
        )

    bls, bn = gpu.BLS, gpu.BN
    if name != "base":
        unit = units[0]
        curve, group = (bn if unit.startswith("bn") else bls), int(unit[-1])
        case(curve, group, 16, 13, table=name.endswith("warm"))
        case(curve, group, 20 if group == 2 else 22, None, table=True)
        return None
    for run in (1, 2, 3):
        gpu_msm.MIN_LOG_RUN = run
        for bits in (11, 12, 13, 14):
            case(bls, 1, 16, bits, f"run 2^{run}", repeats=15)
    gpu_msm.MIN_LOG_RUN = 2
    case(bls, 1, 16, 12, "run 2^2", 15, True)
    case(bn, 1, 16, 12, "run 2^2", 15, True)
    for bits in (14, 15, 16):
        case(bls, 1, 20, bits, table=bits == 16)
        case(bls, 2, 20, bits, table=bits == 16)
    for feed, share in ((1 << 30, 8), (0, 4), (0, 8), (0, 16)):
        gpu_msm.LARGE_FEED = feed
        gpu_msm.FIRST_SHARE = dict.fromkeys(("bls12381-g1", "bls12381-g2", "bn254-g1"), share)
        note = f"first 1/{share}" if not feed else "one round"
        case(bls, 1, 20, 16, note)
        case(bls, 2, 20, 16, note)
        case(bls, 1, 22, 17, note, table=feed > 0)
        case(bn, 1, 22, 17, note, table=feed > 0)
        case(bls, 2, 22, 17, note, 4)
    gpu_msm.LARGE_FEED, gpu_msm.FIRST_SHARE = 1 << 20, {"bn254-g1": 4}
    bench.run_dense()
    bench._bases.clear()
    bench.device.pool.trim()
    for bits in (17, 19, 20):
        case(bls, 1, 24, bits, repeats=5, table=bits == 19)
    bench.run_ntt()


def under_ncu():
    """One accumulate each of G1, G2 and BN254."""
    os.environ["CUZK_KERNEL_CACHE"] = str(ROOT / "base")
    import argparse

    import gpu
    from cuzk_kernels.backend import gpu_msm

    gpu_msm.LARGE_FEED = 1 << 30
    bench = gpu.Bench(argparse.Namespace(device=0, quick=False, bits=None, sizes=None, only="", json=None))
    bench.kernels = lambda *_: []
    for curve, group, log in ((gpu.BLS, 1, 20), (gpu.BLS, 2, 18), (gpu.BN, 1, 20)):
        bench.msm(curve, group, log, None, 3)


def main():
    if sys.argv[1:2] == ["--ncu"]:
        return under_ncu()
    if sys.argv[1:2] == ["--one"]:
        return one(sys.argv[2])
    names = sys.argv[1:] or list(VARIANTS)
    jobs = [(name, unit) for name in names for unit in VARIANTS[name][1]]
    start = time.time()
    with ThreadPoolExecutor(16) as pool:
        for name, unit, seconds, error in pool.map(guarded, jobs):
            print(f"built {name} {unit} {seconds:.0f} s {' '.join(error)}", flush=True)
    print(f"builds {time.time() - start:.0f} s", flush=True)
    for name in names:
        start = time.time()
        subprocess.run([sys.executable, __file__, "--one", name], check=False)
        print(f"-- {name} {time.time() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
