"""Make a bare checkout on a GPU machine ready: the extensions in place, and the kernels in nvcc's cache.

prepare.py [--no-kernels]

Sources and flags of the extensions are those of pyproject.toml; kernels are compiled for GPU 0, all units at
a time, and reused where the cache has them.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUFFIX, INCLUDE = sysconfig.get_config_var("EXT_SUFFIX"), sysconfig.get_paths()["include"]


def build_extension(extension):
    """One extension beside its package's sources; a line that says how it went."""
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    package = Path(*extension["name"].split("."))
    roots = [ROOT / where for where in setuptools["packages"]["find"]["where"]]
    root = next(path for path in roots if (path / package.parent).is_dir())
    target = root / package.with_name(package.name + SUFFIX)
    compiler = "g++" if extension.get("language") == "c++" else "gcc"
    include = [f"-I{ROOT / folder}" for folder in extension.get("include-dirs", [])]
    partial = target.with_suffix(".partial")
    done = subprocess.run(
        [
            compiler, "-shared", "-fPIC", *extension.get("extra-compile-args", []),
            f"-I{INCLUDE}", *include,
            *(str(ROOT / source) for source in extension["sources"]),
            *extension.get("extra-link-args", []), "-o", str(partial),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return f"{extension['name']}: not built: {done.stderr.splitlines()[0] if done.stderr else compiler}"
    partial.replace(target)
    return f"{extension['name']}: built"


def build_kernels():
    """All units for GPU 0, each compiled by a process of its own."""
    from cuzk_kernels.backend import gpu_build, gpu_device, gpu_kernels

    capability = gpu_device.Device(0).capability
    with ThreadPoolExecutor(len(gpu_kernels.UNITS)) as pool:
        built = pool.map(lambda unit: gpu_build.build(unit, capability), gpu_kernels.UNITS)
        for unit, kernels in zip(gpu_kernels.UNITS, built, strict=True):
            print(f"{unit}: {'reused' if kernels.reused else f'built ({kernels.why})'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--no-kernels", action="store_true")
    args = parser.parse_args()
    start = time.perf_counter()
    extensions = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["ext-modules"]
    with ThreadPoolExecutor() as pool:
        lines = list(pool.map(build_extension, extensions))
    print("\n".join(lines), flush=True)
    if not args.no_kernels:
        sys.path[:0] = [str(ROOT / part) for part in ("app", "tracer", "kernels")]
        build_kernels()
    print(f"ready after {time.perf_counter() - start:.0f} s on {os.cpu_count()} processors")
    return 1 if any("not built" in line for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
