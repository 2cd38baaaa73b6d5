"""Where records come from: each module yields the same batches."""

from typing import Protocol, runtime_checkable

from cuzk_top.model import Batch


class Source(Protocol):
    """What the collector asks for news. After a batch with `ended` there is nothing more to come."""

    def poll(self) -> Batch:
        """Everything new since the last call."""
        ...

    def close(self) -> None:
        """Let go of files."""
        ...


class Probe(Source, Protocol):
    """A source of the viewer's own, which has news at times of its own."""

    @property
    def due_ns(self) -> int:
        """Before this moment of CLOCK_MONOTONIC a poll brings nothing."""
        ...


@runtime_checkable
class Recoverable(Protocol):
    """A source that leaves something behind which a finished recording makes superfluous."""

    def discard(self) -> None:
        """Remove what was read, if nobody writes it any more."""
        ...
