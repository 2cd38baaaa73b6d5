"""Where records come from: each module yields the same batches."""

from typing import Protocol

from cuzk_top.model import Batch


class Source(Protocol):
    """What the collector asks for news. After a batch with `ended` there is nothing more to come."""

    def poll(self) -> Batch:
        """Everything new since the last call."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...
