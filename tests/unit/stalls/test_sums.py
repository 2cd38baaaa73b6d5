"""On random traces of devices the parts add up, moment for moment."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from made import US, ZERO, Trace, ns

from cuzk_top.stalls.finding import Analysis

LENGTH = 400
Piece = tuple[int, int]
PIECES = st.lists(st.tuples(st.integers(0, LENGTH - 1), st.integers(1, 60)), max_size=12)


@st.composite
def traces(draw: st.DrawFn) -> tuple[Trace, dict[str, set[tuple[int, int]]]]:
    """Up to two devices with kernels and copies on two streams, jobs, host spans and synchronises.

    Beside it: for each kind the (device, microsecond) in which it ran, and ("job", microsecond).
    """
    trace = Trace()
    truth: dict[str, set[tuple[int, int]]] = {"kernel": set(), "copy": set(), "job": set()}
    at = draw(st.integers(0, 40))
    for _ in range(draw(st.integers(0, 3))):
        length = draw(st.integers(1, 150))
        trace.span("prove", at, at + length)
        truth["job"] |= {(0, t) for t in range(at, at + length)}
        inner = at
        while inner < at + length - 2 and draw(st.booleans()):
            end = draw(st.integers(inner + 1, at + length))
            trace.span(draw(st.sampled_from(["synthesis", "msm.h", "quotient"])), inner, end)
            inner = end
        at += length + draw(st.integers(1, 60))
    calls = 0
    for device in range(draw(st.integers(1, 2))):
        for stream in range(2):
            free = 0
            for gap, length in draw(PIECES):
                start = free + gap % 40
                name = draw(st.sampled_from(["kernel", "memcpy.h2d.pinned", "memset"]))
                calls += 1
                trace.work(name, start, start + length, stream=stream, device=device)
                if draw(st.booleans()):
                    trace.sync(start, start + length + draw(st.integers(0, 30)))
                kind = "kernel" if name == "kernel" else "copy"
                truth[kind] |= {(device, t) for t in range(start, start + length)}
                free = start + length
    return trace, truth


def covered(of: Analysis, *rules: str) -> dict[int, set[tuple[int, int]]]:
    found: dict[int, set[tuple[int, int]]] = {}
    for number, finding in enumerate(of.findings):
        if finding.rule in rules:
            assert finding.device is not None
            found[number] = {
                (finding.device, t)
                for start, end in finding.intervals
                for t in range((start - ZERO) // US, (end - ZERO) // US)
            }
    return found


@settings(deadline=None, max_examples=200)
@given(traces())
def test_every_moment_is_in_one_part(made: tuple[Trace, dict[str, set[tuple[int, int]]]]) -> None:
    trace, truth = made
    of = trace.analyse(LENGTH * 3, (0, LENGTH * 3))
    snapshot = trace.snapshot(LENGTH * 3)
    devices = [device.index for device in snapshot.devices]
    low, high = ((t - ZERO) // US for t in of.window)
    wall = {(device, t) for device in devices for t in range(low, high)}
    kernel, copy = truth["kernel"] & wall, truth["copy"] - truth["kernel"] & wall
    copy &= wall
    idle = wall - kernel - copy
    assert (of.kernel_ns, of.copy_only_ns, of.idle_ns) == tuple(len(s) * US for s in (kernel, copy, idle))
    assert of.explained_ns + of.unknown_ns + of.nowork_ns == of.idle_ns

    keys = [(finding.rule, finding.key) for finding in of.findings]
    assert len(keys) == len(set(keys))
    parts = covered(of, "idle.host", "idle.sync", "idle.launch", "idle.unknown", "idle.nowork")
    seen: set[tuple[int, int]] = set()
    for number, part in parts.items():
        assert not part & seen, "no idle moment is told of twice"
        assert of.findings[number].cost_ns == len(part) * US
        seen |= part
    assert seen == idle

    if truth["job"]:
        jobs = {t for _, t in truth["job"]}
        nowork = {moment for moment in idle if moment[1] not in jobs}
        told = covered(of, "idle.nowork").values()
        assert set().union(*told) == nowork
        assert of.nowork_ns == len(nowork) * US
        bare = {moment for moment in copy if moment[1] in jobs}
    else:
        works = [moment[1] for moment in truth["kernel"] | truth["copy"]]
        bare = {m for m in copy if works and min(works) <= m[1] <= max(works)}
    exposed = covered(of, "copy.exposed")
    assert all(of.findings[number].cost_ns == len(part) * US for number, part in exposed.items())
    assert set().union(*exposed.values()) <= bare
    told = sum(len(part) for part in exposed.values())
    assert told == len(set().union(*exposed.values())), "no copied moment is told of twice"


@settings(deadline=None)
@given(traces())
def test_equal_traces_give_equal_analyses(made: tuple[Trace, dict[str, set[tuple[int, int]]]]) -> None:
    trace, _ = made
    assert trace.analyse(LENGTH * 3) == trace.analyse(LENGTH * 3)
    assert ns(0) == ZERO
