"""A key's coefficients of A and B, sorted into rows on the device."""

from typing import TYPE_CHECKING

from cuzk_kernels.backend import gpu_msm
from cuzk_kernels.backend.gpu_least import Least
from cuzk_kernels.backend.gpu_site import H2D_KEY, Site
from cuzk_kernels.backend.gpu_vectors import SCALAR_BYTES, grid
from cuzk_kernels.backend.protocol import CoefError

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_blocks import Block
    from cuzk_kernels.curves import Curve

COEF_BYTES = 44


class Coefficients:
    """A key's A and B on the device, in the order of rows."""

    def __init__(self, offsets: "Block", wires: "Block", values: "Block") -> None:
        self.offsets, self.wires, self.values = offsets, wires, values

    @property
    def size(self) -> int:
        return self.offsets.size + self.wires.size + self.values.size


def load(site: Site, curve: "Curve", coefs: memoryview, n: int, wires: int, domain: int) -> Coefficients:
    """Copy a key's records and sort them. Raises CoefError of the first whose matrix, row or wire is none."""
    device, unit = site.device, f"{curve.name}-scalars"
    with H2D_KEY(COEF_BYTES * n):
        records = site.upload(coefs, COEF_BYTES * n)
    counts = device.alloc(4 * 2 * domain)
    device.clear(counts.address, 4 * 2 * domain)
    result = Least(device)
    device.launch(
        unit, "count_coefficients", *grid(n),
        records.address, n, wires, domain, counts.address, result.address,
    )  # fmt: skip
    bad = result.found()
    if bad is not None:
        head = memoryview(coefs)[COEF_BYTES * bad : COEF_BYTES * bad + 12]
        matrix, row, wire = (int.from_bytes(head[i : i + 4], "little") for i in (0, 4, 8))
        what = ("matrix", matrix) if matrix > 1 else ("row", row) if row >= domain else ("wire", wire)
        raise CoefError(bad, *what)
    offsets = device.alloc(4 * (2 * domain + 1))
    tiles = device.alloc(4 * -(-2 * domain // gpu_msm.SCAN_TILE))
    gpu_msm.scan(device, unit, counts.address, 2 * domain, tiles.address, offsets.address)
    device.clear(counts.address, 4 * 2 * domain)
    ordered, values = device.alloc(4 * n), device.alloc(SCALAR_BYTES * n)
    device.launch(
        unit, "place_coefficients", *grid(n),
        records.address, n, domain, offsets.address, counts.address, ordered.address, values.address,
    )  # fmt: skip
    device.synchronize()
    return Coefficients(offsets, ordered, values)
