"""Vectors over Fr and plain scalars that lie on a device."""

from typing import TYPE_CHECKING, Any

from cuzk_kernels.backend.gpu_site import Site

if TYPE_CHECKING:
    from cuzk_kernels.backend.cuda import CudaBackend
    from cuzk_kernels.backend.gpu_blocks import Block, Event
    from cuzk_kernels.curves import Curve

SCALAR_BYTES = 32
SAMPLE = 256


def grid(items: int) -> tuple[int, int]:
    return max(1, min(-(-items // 256), 1 << 16)), 256


class GpuVec:
    """A vector over Fr in Montgomery form on the device; `shifted`: a coset shift is still to be applied."""

    def __init__(self, owner: "CudaBackend", curve: "Curve", length: int) -> None:
        if length < 1 or length & (length - 1):
            raise ValueError(f"length {length} is not a power of two")
        self.owner, self.curve, self.length = owner, curve, length
        self.log = length.bit_length() - 1
        self.block: Block = owner.device.alloc(SCALAR_BYTES * length)
        self.reversed = self.shifted = False

    def __len__(self) -> int:
        return self.length

    @property
    def address(self) -> int:
        return self.block.address

    def tobytes(self) -> bytes:
        device = self.owner.device
        plain = device.alloc(SCALAR_BYTES * self.length)
        unit = f"{self.curve.name}-scalars"
        if self.shifted:
            raise ValueError("a coset shift is pending")
        device.launch(unit, "montgomery", *grid(self.length), self.address, plain.address, self.length, 0)
        if self.reversed:
            device.launch(unit, "reorder", *grid(self.length), plain.address, self.log)
        return device.read(plain.address, SCALAR_BYTES * self.length)


class GpuScalars:
    """Plain scalars on the device. sample: some of them on the host, to choose digit widths by."""

    def __init__(
        self, owner: "CudaBackend", block: "Block", count: int, host: memoryview | None = None
    ) -> None:
        self.owner, self.block, self.count, self.host = owner, block, count, host
        self._copies: dict[int, Block] = {}
        self._ready = {id(owner.first): owner.device.event()}

    def on(self, site: Site) -> int:
        """Their address on a device, copied there through the host where it is another one."""
        if site is self.owner.first:
            return self.address
        if id(site) not in self._copies:
            data = self.host if self.host is not None else self.tobytes()
            self._copies[id(site)] = site.upload(data, SCALAR_BYTES * self.count)
            self._ready[id(site)] = site.device.event()
        return self._copies[id(site)].address

    def ready(self, site: Site) -> "Event":
        """When they are on the device."""
        return self._ready[id(site)]

    def __len__(self) -> int:
        return self.count

    @property
    def address(self) -> int:
        return self.block.address

    def tobytes(self) -> bytes:
        return self.owner.device.read(self.address, SCALAR_BYTES * self.count)


def check_alike(a: GpuVec, b: GpuVec) -> None:
    if (a.curve, a.length) != (b.curve, b.length):
        raise ValueError("vectors of different lengths or curves")
    if a.reversed != b.reversed or a.shifted or b.shifted:
        raise ValueError("one vector holds values, the other coefficients")


def digit_widths(curve: "Curve", scalars: Any, offset: int, count: int) -> tuple[float, float]:
    """Shares of the scalars that are of full width and that are a single digit, from a sample.

    Of scalars that only the device has: all of full width.
    """
    data = scalars.host if isinstance(scalars, GpuScalars) else None
    if data is None:
        return 1.0, 0.0
    full = short = 0
    taken = min(count, SAMPLE)
    for k in range(taken):
        at = SCALAR_BYTES * (offset + count * k // taken)
        value = int.from_bytes(data[at : at + SCALAR_BYTES], "little")
        bits = min(value, curve.r - value).bit_length()
        if bits > 16:
            full += 1
        elif bits > 0:
            short += 1
    return full / taken, short / taken
