"""Work timed by events has them on the stream that it runs on; no GPU is needed to see which that is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cuzk_kernels.backend.gpu_device import Device

COMPUTE, SORT = SimpleNamespace(handle=11), SimpleNamespace(handle=22)


class Bare(Device):
    """A device whose driver takes everything, and which notes where the events and the work go."""

    def __init__(self) -> None:
        self.events: list[int] = []
        self.work: list[int] = []
        done = SimpleNamespace(kernel=lambda *_: None, copied=lambda *_: None, filled=lambda *_: None)
        self._times: Any = SimpleNamespace(begin=lambda handle: (self.events.append(handle), done)[1])
        self.compute, self._shared = COMPUTE, {}
        self._driver = SimpleNamespace(Error=RuntimeError)
        self._cuda: Any = SimpleNamespace(
            cuMemsetD32Async=lambda *call: self._took(call[-1].value),
            cuMemcpyHtoDAsync_v2=lambda *call: self._took(call[-1].value),
            cuMemcpyDtoHAsync_v2=lambda *call: self._took(call[-1].value),
        )

    def attach(self) -> None:
        """Nothing to attach."""

    def _took(self, handle: int) -> int:
        self.work.append(handle)
        return 0

    def _function(self, unit: str, name: str) -> Any:
        def call(_grid: Any, _block: Any, stream: Any, *_: Any, shared_size: int) -> None:
            self._took(stream.handle)

        return SimpleNamespace(prepared_async_call=call)


@pytest.mark.parametrize("stream", [None, COMPUTE, SORT], ids=["none named", "compute", "sort"])
def test_events_go_where_the_work_goes(stream: Any) -> None:
    device = Bare()
    device.launch("bn254-g1", "scan_apply", 1, 32, stream=stream)
    device.clear(0, 64, stream)
    device.upload(0, 0, 64, stream)
    device.download(0, 0, 64, stream)
    assert device.work == [SORT.handle if stream is SORT else COMPUTE.handle] * 4
    assert device.events == device.work
