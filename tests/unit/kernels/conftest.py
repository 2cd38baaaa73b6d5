"""The back ends and curves the prover's tests run over."""

from typing import Any

import pytest
from kernel_cases import native_backend

from cuzk_kernels import curves
from cuzk_kernels.backend import choose


@pytest.fixture(params=["python", "native"])
def backend(request: pytest.FixtureRequest) -> Any:
    if request.param == "python":
        return choose("python")[0]
    found = native_backend()
    return found or pytest.skip("the native back end is not built")


@pytest.fixture(params=curves.CURVES, ids=lambda curve: curve.name)
def curve(request: pytest.FixtureRequest) -> curves.Curve:
    return request.param


@pytest.fixture(scope="session")
def quickest() -> Any:
    """The native back end where it is built, else pure Python."""
    return native_backend() or choose("python")[0]
