"""What one device keeps: keys while the memory budget lasts, and the way host data takes to it."""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import cuzk_tracer
from cuzk_kernels.backend import gpu_msm
from cuzk_kernels.backend.gpu_memory import Stager
from cuzk_kernels.backend.gpu_msm import Bases

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_blocks import Block
    from cuzk_kernels.backend.gpu_device import Device
    from cuzk_kernels.curves import Curve

H2D_KEY = cuzk_tracer.span("h2d.key", a0="bytes", stage=True)


class Site:
    """A device with its resident keys. budget: bytes it may keep. load: work handed out so far."""

    def __init__(self, device: "Device", h2d: str, budget: int | None) -> None:
        self.device, self.stager = device, Stager(device, h2d)
        self.budget = budget if budget is not None else device.memory()[0] * 3 // 4
        self.load = 0.0
        self._resident: OrderedDict[int, tuple[Any, Any]] = OrderedDict()

    def upload(self, data: memoryview | bytes, size: int) -> "Block":
        block = self.device.alloc(size)
        self.stager.copy(block.address, data, size)
        return block

    def keeps(self, source: memoryview) -> bool:
        entry = self._resident.get(id(source))
        return entry is not None and entry[0] is source

    def kept_bytes(self) -> int:
        return sum(value.size for _, value in self._resident.values())

    def keep(self, source: memoryview, size: int, load: Callable[[], Any]) -> Any:
        """What `load` makes of a key's bytes, kept while the budget lasts; the least recently used go first.

        An entry holds its memoryview, so that no other takes its identity while the entry lives.
        """
        if self.keeps(source):
            self._resident.move_to_end(id(source))
            return self._resident[id(source)][1]
        while self._resident and self.kept_bytes() + size > self.budget:
            self._resident.popitem(last=False)
            self.device.pool.trim()
        value = load()
        if size <= self.budget:
            self._resident[id(source)] = source, value
        return value

    def bases(self, curve: "Curve", group: int, points: memoryview, count: int) -> Bases:
        """A key's points on the device."""
        size = count * curve.point_bytes(group)

        def load() -> Bases:
            with H2D_KEY(size):
                block = self.upload(points, size)
                return gpu_msm.load_bases(self.device, curve, group, block.address, count)

        return self.keep(points, size, load)  # type: ignore[no-any-return]
