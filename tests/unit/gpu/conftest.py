"""The capture library, a stub libcupti and a stand-in for the CUDA driver, built once."""

import shutil
from pathlib import Path

import pytest
from gpu_cases import Bench, Runs


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    return Bench(tmp_path_factory.mktemp("capture"))


@pytest.fixture
def runs(bench: Bench, tmp_path: Path) -> Runs:
    return Runs(bench, tmp_path)
