"""The least number that a kernel came upon, such as the place of the first bad point."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_device import Device

_NOTHING = (1 << 64) - 1


class Least:
    """A word on the device into which a kernel's threads take the minimum; they are given its address."""

    def __init__(self, device: "Device") -> None:
        self._device, self._block = device, device.alloc(8)
        device.upload_bytes(self._block.address, _NOTHING.to_bytes(8, "little"))

    @property
    def address(self) -> int:
        return self._block.address

    def found(self) -> int | None:
        """Waits for the kernel; None where it came upon nothing."""
        least = int.from_bytes(self._device.read(self._block.address, 8), "little")
        return None if least == _NOTHING else least
