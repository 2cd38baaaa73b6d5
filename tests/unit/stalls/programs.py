"""Programs of a prover in miniature: run once they leave a trace, run again with less work they end earlier.

This is the reference for the critical path and for what closing a finding saves: it knows when everything was
launched and what waited for what, and works forwards. Times are in microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from made import Trace

Instruction = tuple[str, int, int]
"""("work", length, 0), ("launch", stream, length), ("copy", 0, length) of pageable memory, whose call returns
when it is done, ("sync", 0, 0), ("receive", which, 0); of the second thread ("work", length, 0) and ("send",
which, 0)."""

LAUNCH = 10
COPIES = 9  # the stream of all copies


@dataclass
class Run:
    """When what happened. `shorter` maps the number of an instruction of a thread to what is taken off it."""

    first: list[Instruction]
    second: list[Instruction]
    shorter: dict[tuple[int, int], int] = field(default_factory=dict)
    trace: Trace | None = None
    ids: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """Start and end of each instruction that lasts: of a launch, of the device's work."""

    def run(self) -> int:
        """The end of the first thread's program."""
        sent = self._second()
        now = 0
        streams: dict[int, int] = {}
        trace = self.trace
        for number, (what, a, b) in enumerate(self.first):
            less = self.shorter.get((1, number), 0)
            if what == "work":
                self._work("work", now, now + a - less, 1, number)
                now += a - less
            elif what == "launch":
                stage = trace.span(f"launch {number}", now, now + LAUNCH) if trace else 0
                now += LAUNCH
                start = max(now, streams.get(a, 0))
                streams[a] = start + b - less
                self.ids[1, number] = (start, streams[a])
                if trace:
                    trace.work("kernel", start, streams[a], stage, stream=a)
            elif what == "copy":
                start = now + LAUNCH  # the one before it has returned
                streams[COPIES] = start + b - less
                self.ids[1, number] = (start, streams[COPIES])
                if trace:
                    stage = trace.span(f"copy {number}", now, streams[COPIES])
                    trace.work(
                        "memcpy.h2d.pageable", start, streams[COPIES], stage, stream=COPIES, size=1 << 20
                    )
                now = streams[COPIES]
            elif what == "sync":
                until = max([now, *streams.values()])
                if trace:
                    trace.sync(now, until, "context")
                now = until
            else:
                until = max(now, sent[a])
                if trace:
                    trace.span("wait", now, until)
                    trace.flow(a + 1, until, 1, arrives=True)
                now = until
        return now

    def _second(self) -> dict[int, int]:
        now, sent = 0, {}
        for number, (what, a, _) in enumerate(self.second):
            if what == "work":
                less = self.shorter.get((2, number), 0)
                self._work("synthesis", now, now + a - less, 2, number)
                now += a - less
            else:
                sent[a] = now
                if self.trace:
                    self.trace.flow(a + 1, now, 2, arrives=False)
        return sent

    def _work(self, name: str, start: int, end: int, thread: int, number: int) -> None:
        self.ids[thread, number] = (start, end)
        if self.trace:
            self.trace.span(name, start, end, thread)


TENS = st.integers(1, 30).map(lambda n: 10 * n)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Instruction], list[Instruction]]:
    """A first thread that works, launches and waits, and a second that hands it up to three parts."""
    parts = draw(st.integers(0, 3))
    second: list[Instruction] = []
    for part in range(parts):
        second += [("work", draw(TENS), 0), ("send", part, 0)]
    first: list[Instruction] = [("work", draw(TENS), 0)]
    waiting = list(range(parts))
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["work", "launch", "launch", "launch", "sync", "receive", "copy"]))
        if kind == "launch":
            first.append(("launch", draw(st.integers(0, 2)), draw(TENS)))
        elif kind == "copy":
            first.append(("copy", 0, draw(TENS)))
        elif kind == "work":
            first.append(("work", draw(TENS), 0))
        elif kind == "sync":
            first.append(("sync", 0, 0))
        elif waiting:
            first += [("receive", waiting.pop(0), 0), ("work", draw(TENS), 0)]
    return [*first, ("sync", 0, 0), ("work", draw(TENS), 0)], second


def traced(first: list[Instruction], second: list[Instruction]) -> tuple[Trace, int, Run]:
    """The trace of a run, with a proof around it, and its end."""
    run = Run(first, second, trace=Trace())
    end = run.run()
    assert run.trace is not None
    run.trace.span("prove", 0, end)
    return run.trace, end, run
