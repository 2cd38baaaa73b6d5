"""The headers that host and GPU share compile for the GPU."""

import shutil
import subprocess
from pathlib import Path

import pytest

import cuzk_kernels

PROBE = """
#include "groups.cuh"
#include "msm.cuh"
#include "ntt.cuh"

using namespace cuzk;

template <class F>
__device__ void point(F* f) {
  Xyzz<F> sum = Xyzz<F>::from_affine({f[0], f[1]});
  sum.add(Affine<F>{f[2], f[3]});
  sum.add(sum.doubled());
  f[0] = sum.to_affine().x;
}

__global__ void probe(Field<Bn254Q>* a, Field<Bls381Q>* b, Quadratic<Field<Bn254Q>>* c, Field<Bls381R>* d,
                      u64* scalar, uint16_t* codes) {
  a[4] = a[0] * a[1] + a[2] - a[3].inverted();
  point(a);
  point(b);
  point(c);
  to_natural<ElementOps<Field<Bls381R>>>(d, 3, d + 8, 1);
  recode<Bls381R>(scalar, 13, window_count(255, 13), codes, 1);
}
"""


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not here")
def test_fields_curves_and_steps_compile_for_sm_90(tmp_path: Path):
    source = tmp_path / "probe.cu"
    source.write_text(PROBE)
    headers = Path(cuzk_kernels.__file__).parent / "cuda"
    command = [
        "nvcc",
        "-arch=sm_90",
        "-std=c++17",
        f"-I{headers}",
        "-c",
        str(source),
        "-o",
        str(tmp_path / "o"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
