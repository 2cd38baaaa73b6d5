"""Times by CUDA events against a simulated driver that knows the truth."""

import ctypes
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from emulated_gpu import EmulatedDevice
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_driver import CALL_NS, FAILED, LATENCY_NS, LAUNCH_NS, STEP_NS, SimulatedDriver

import cuzk_tracer
from cuzk_kernels import backend as backends
from cuzk_kernels.backend import gpu_device, gpu_events
from cuzk_kernels.backend.gpu_blocks import Event
from cuzk_kernels.backend.gpu_events import EventTimes
from cuzk_kernels.errors import MissingError
from cuzk_tracer import gpu

COMPUTE, COPY = 0x10, 0x20


class Told:
    """What was recorded, in place of a ring."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.records: list[dict[str, Any]] = []
        self.marks: list[tuple[str, int]] = []
        self.level: int | None = 5 << 32 | 77
        monkeypatch.setattr(gpu_events.gpu, "launcher", lambda: self.level)
        monkeypatch.setattr(gpu_events.gpu, "record", self._record)
        monkeypatch.setattr(cuzk_tracer, "mark", lambda text, a0=0, a1=0: self.marks.append((text, a0)))

    def _record(self, name: Any, kind: int, start_ns: int, end_ns: int, **more: int) -> None:
        self.records.append({"name": name.name, "kind": kind, "start": start_ns, "end": end_ns, **more})


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    return Told(monkeypatch)


def times_of(driver: SimulatedDriver) -> EventTimes:
    return EventTimes(driver, 3, lambda: Event(driver), driver.clock)


def launch(times: EventTimes, driver: SimulatedDriver, stream: int, name: str, length_ns: int) -> None:
    timed = times.begin(stream)
    driver.launch(stream, name, length_ns)
    if timed is not None:
        timed.kernel(name, 264, 128)


def check_against_the_truth(told: Told, driver: SimulatedDriver, doubt_ns: int) -> None:
    """Each record is where its kernel was; lengths are right to the clock's steps, or what the host needed
    to record the second event where the kernel was shorter than that.
    """
    assert len(told.records) == len(driver.did)
    truth: dict[str, list[tuple[int, int, int]]] = {}
    for name, stream, start, end in driver.did:
        truth.setdefault(name, []).append((stream, start, end))
    seen: dict[str, int] = {}
    ends: dict[int, int] = {}
    for record in sorted(told.records, key=lambda record: record["corr"]):
        at = seen[record["name"]] = seen.get(record["name"], -1) + 1
        stream, start, end = truth[record["name"]][at]
        assert abs(record["start"] - start) <= doubt_ns + 2 * STEP_NS
        before_it = (
            LAUNCH_NS if record["name"].endswith(".pageable") else 0
        )  # the call copies: it cannot be left out
        longest = max(end - start, 2 * CALL_NS) + before_it + LATENCY_NS
        assert end - start - 2 * STEP_NS <= record["end"] - record["start"] <= longest + 2 * STEP_NS
        assert record["start"] >= ends.get(stream, 0)
        ends[stream] = record["end"]


lengths = st.one_of(st.integers(500, 5_000), st.integers(20_000, 400_000))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("kernel"), st.sampled_from([COMPUTE, COPY]), lengths),
        st.tuples(st.just("rest"), st.just(0), st.integers(0, 300_000)),
        st.tuples(st.just("wait"), st.just(0), st.just(0)),
    ),
    min_size=1,
    max_size=120,
)


@settings(deadline=None, max_examples=60)
@given(steps=steps, ppm=st.floats(-20, 20))
def test_records_are_where_the_kernels_were(steps: list[tuple[str, int, int]], ppm: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        told, driver = Told(patch), SimulatedDriver(ppm)
        times = times_of(driver)
        for number, (what, stream, length) in enumerate(steps):
            if what == "kernel":
                launch(times, driver, stream, f"k{number % 7}", length)
            elif what == "rest":
                driver.now += length
            else:
                driver.now = max([driver.now, *driver.free.values()])
                times.settle()
        driver.now = max([driver.now, *driver.free.values()]) + 1
        times.drain()
        check_against_the_truth(told, driver, times.doubt_ns + 2_000)


def test_a_queue_of_kernels_is_timed_to_two_percent(told: Told) -> None:
    """The host runs ahead, as in a large proof: then events enclose just the kernels."""
    driver = SimulatedDriver()
    times = times_of(driver)
    for number in range(200):
        launch(times, driver, COMPUTE, "k", 20_000 + 37 * number)
    driver.now = driver.free[COMPUTE]
    times.drain()
    total = sum(record["end"] - record["start"] for record in told.records)
    truth = sum(end - start for _, _, start, end in driver.did)
    assert abs(total - truth) < truth / 50


def test_what_is_recorded_of_each(told: Told) -> None:
    driver = SimulatedDriver()
    times = times_of(driver)
    driver.pinned.add(0x5000)
    for host in (0x5000, 0x6000):
        timed = times.begin(COPY)
        assert timed is not None
        driver.cuMemcpyHtoDAsync_v2(*map(ctypes.c_void_p, (1, host, 8 << 20, COPY)))
        timed.copied("h2d", host, 8 << 20)
    timed = times.begin(COMPUTE)
    assert timed is not None
    driver.launch(COMPUTE, "memset", 2_000_000)
    timed.filled(4096)
    told.level = 0
    launch(times, driver, COMPUTE, "accumulate", 50_000)
    driver.now = max(driver.free.values())
    times.drain()
    fields = ("name", "kind", "device", "stream", "launcher", "a0", "a1")
    assert [tuple(record[field] for field in fields) for record in told.records] == [
        ("memcpy.h2d.pinned", gpu.MEMCPY, 3, 1, 5 << 32 | 77, 8 << 20, 0),
        ("memcpy.h2d.pageable", gpu.MEMCPY, 3, 1, 5 << 32 | 77, 8 << 20, 0),
        ("memset", gpu.MEMSET, 3, 2, 5 << 32 | 77, 4096, 0),
        ("accumulate", gpu.KERNEL, 3, 2, 0, 264, 128),
    ]
    check_against_the_truth(told, driver, times.doubt_ns + 4_000)
    numbers = [record["corr"] for record in told.records]
    assert numbers == sorted(set(numbers))


def test_a_launch_never_waits_and_events_are_used_again(told: Told) -> None:
    driver = SimulatedDriver()
    times = times_of(driver)
    waits, made = driver.waits, driver.made
    for _ in range(50):
        for _ in range(40):
            launch(times, driver, COMPUTE, "k", 10_000)
        driver.now = driver.free[COMPUTE]
    assert driver.waits == waits
    assert driver.made - made <= 2 * 2 * gpu_events.DRAIN_EVERY + 80
    assert len(told.records) > 1900


def test_unfinished_work_is_left_until_it_has_happened(told: Told) -> None:
    driver = SimulatedDriver()
    times = times_of(driver)
    launch(times, driver, COMPUTE, "long", 1_000_000_000)
    launch(times, driver, COPY, "short", 1_000)
    driver.now += 100_000
    times.drain()
    assert [record["name"] for record in told.records] == ["short"]
    driver.now += 2_000_000_000
    times.drain()
    assert [record["name"] for record in told.records] == ["short", "long"]


def test_clocks_that_drift_apart_are_tied_anew(told: Told) -> None:
    """50 ppm are half a millisecond in ten seconds; told of a kernel a second it stays below a tenth."""
    driver = SimulatedDriver(ppm=50)
    times = times_of(driver)
    for _ in range(100):
        launch(times, driver, COMPUTE, "k", 5_000_000)
        driver.now = driver.free[COMPUTE] + 95_000_000
        times.settle()
    assert len(told.records) == 100
    offsets = [
        abs(record["start"] - start)
        for record, (_, _, start, _) in zip(told.records, driver.did, strict=True)
    ]
    assert max(offsets) < 80_000
    assert 40_000 < times.worst_drift_ns < 70_000
    assert told.marks == []


def test_a_clock_that_jumps_is_said(told: Told) -> None:
    driver = SimulatedDriver()
    times = times_of(driver)
    driver.now += 2_000_000_000
    driver.jump_ns = 5_000_000
    times.settle()
    ((text, by),) = told.marks
    assert text == "GPU3: its clock jumped against the host's (ns)"
    assert abs(by + 5_000_000) < 10_000


def test_an_anchor_that_took_long_is_not_taken_over(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimulatedDriver()
    times = times_of(driver)
    before = times.doubt_ns
    driver.now += 2_000_000_000
    monkeypatch.setattr(
        driver, "cuEventSynchronize", lambda event: setattr(driver, "now", driver.now + 900_000) or 0
    )
    times.settle()
    assert times.doubt_ns == before < 10_000


def test_nothing_is_recorded_while_the_level_is_not_all(told: Told) -> None:
    driver = SimulatedDriver()
    times = times_of(driver)
    made = driver.made
    told.level = None
    launch(times, driver, COMPUTE, "k", 1_000)
    driver.now += 1_000_000
    times.drain()
    assert (told.records, driver.made) == ([], made)


@pytest.mark.parametrize("call", ["cuEventRecord", "cuEventElapsedTime", "cuEventCreate"])
def test_a_call_that_fails_costs_records_and_no_launch(told: Told, call: str) -> None:
    driver = SimulatedDriver()
    times = times_of(driver)
    times._spare.clear()
    driver.failing[call] = FAILED
    launch(times, driver, COMPUTE, "k", 1_000)
    driver.now += 1_000_000
    times.drain()
    driver.failing.clear()
    launch(times, driver, COMPUTE, "again", 1_000)
    driver.now += 1_000_000
    times.drain()
    assert [record["name"] for record in told.records] == ["again"]
    assert len(driver.did) == 2


def test_a_device_that_is_lost_ends_it_and_says_how_many(told: Told) -> None:
    driver = SimulatedDriver()
    times = times_of(driver)
    launch(times, driver, COMPUTE, "k", 1_000)
    launch(times, driver, COPY, "k", 1_000)
    driver.failing["cuEventQuery"] = FAILED
    times.drain()
    times.drain()
    assert told.marks == [("GPU3: launches whose times were lost with the device", 2)]
    assert not times.works
    assert times.begin(COMPUTE) is None


@pytest.mark.parametrize("call", ["cuStreamCreate", "cuEventCreate", "cuEventRecord", "cuEventSynchronize"])
def test_a_device_without_events_is_known_at_once(told: Told, call: str) -> None:
    driver = SimulatedDriver()
    driver.failing[call] = FAILED
    assert not times_of(driver).works


# The device that uses them


class Function:
    def __init__(self, driver: SimulatedDriver, name: str) -> None:
        self.driver, self.name = driver, name

    def prepared_async_call(self, grid, block, stream, *arguments, shared_size=0):
        self.driver.launch(stream.handle, self.name, 30_000)


class PyCuda:
    """As much of pycuda.driver as a device needs that computes nothing."""

    Error = RuntimeError
    device_attribute = type("device_attribute", (), {"MULTIPROCESSOR_COUNT": 16})

    def __init__(self) -> None:
        self.streams = 0

    def Device(self, index):
        return self

    def name(self):
        return "simulated"

    def compute_capability(self):
        return 9, 0

    def retain_primary_context(self):
        return self

    def push(self):
        pass

    def pop(self):
        pass

    def get_attribute(self, number):
        return 132

    def Stream(self):
        self.streams += 1
        return type("Stream", (), {"handle": 0x10 * self.streams})()


PyCuda.Device.count = lambda: 1


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> gpu_device.Device:
    driver = SimulatedDriver()
    monkeypatch.setattr(gpu_device, "_driver", PyCuda)
    monkeypatch.setattr(gpu_device.ctypes, "CDLL", lambda name: driver)
    monkeypatch.setattr(gpu_events, "EventTimes", partial(EventTimes, clock=driver.clock))
    made = gpu_device.Device(0)
    monkeypatch.setattr(made, "_function", lambda unit, name: Function(driver, name))
    return made


def work(device: gpu_device.Device) -> None:
    driver = device._cuda
    driver.pinned.add(0x7000)
    device.launch("unit", "digits", (7, 2), 256)
    device.upload(0x1, 0x6000, 1 << 20)
    device.upload(0x1, 0x7000, 1 << 20, device.copy)
    device.clear(0x1, 4096)
    device.download(0x7000, 0x1, 1 << 16)
    driver.now = max(driver.free.values())
    device.synchronize()


def test_a_device_times_what_it_is_given(told: Told, device: gpu_device.Device) -> None:
    assert device.time_by_events()
    work(device)
    assert [
        (r["name"], r["device"], r["a0"], r["a1"]) for r in sorted(told.records, key=lambda r: r["corr"])
    ] == [
        ("digits", 0, 14, 256),
        ("memcpy.h2d.pageable", 0, 1 << 20, 0),
        ("memcpy.h2d.pinned", 0, 1 << 20, 0),
        ("memset", 0, 4096, 0),
        ("memcpy.d2h.pinned", 0, 1 << 16, 0),
    ]
    check_against_the_truth(told, device._cuda, 6_000)


def test_with_cupti_nothing_of_it_runs(told: Told, device: gpu_device.Device) -> None:
    work(device)
    assert told.records == []
    assert device._cuda.made == 1  # synchronize's own
    device._cuda.failing["cuMemcpy"] = 1
    with pytest.raises(MissingError, match="copying to the device"):
        device.upload(0x1, 0x6000, 1 << 20)


# Which source it is, and who says so


@pytest.fixture
def chosen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[Any, str | None, dict[str, str]]]:
    """Choose the CUDA back end where CUPTI says `why` and each device can be timed, or not."""

    def choose(why: str | None, *timed: bool) -> tuple[Any, str | None, dict[str, str]]:
        metas: dict[str, str] = {}
        asked: list[int] = []

        def device(index: int) -> Any:
            made = EmulatedDevice(tmp_path)
            made.time_by_events = lambda: asked.append(index) or timed[index]
            return made

        monkeypatch.setattr(gpu_device, "Device", device)
        monkeypatch.setattr(gpu, "start", lambda: why)
        monkeypatch.setattr(cuzk_tracer, "open", lambda: "/a/ring")
        monkeypatch.setattr(cuzk_tracer, "meta", lambda **said: metas.update(said))
        backend, note = backends.choose("cuda", backends.CudaOptions(tuple(range(len(timed)))))
        assert backend.name == "cuda"
        assert asked == ([] if why is None else list(range(len(timed))))
        return asked, note, metas

    return choose


def test_with_cupti_no_device_is_asked_for_events(chosen: Any) -> None:
    _, note, metas = chosen(None, True)
    assert note is None
    assert "gpu.times" not in metas and "gpu.problem" not in metas


def test_the_source_of_times_is_said_with_its_reason(chosen: Any) -> None:
    why = "no kernels and copies: libcupti.so was not found: install the toolkit"
    _, note, metas = chosen(why, True, True)
    said = (
        "CUDA events (libcupti.so was not found: install the toolkit): kernels and copies of this prover only"
    )
    assert note == f"GPU times: {said}"
    assert metas["gpu.times"] == said
    assert "gpu.problem" not in metas


def test_without_events_there_is_a_problem_and_still_a_prover(chosen: Any) -> None:
    _, note, metas = chosen("another profiler is attached", True, False)
    assert note == "no GPU times: another profiler is attached; nor does the GPU give events"
    assert metas["gpu.problem"] == (
        "kernels and copies are not recorded: another profiler is attached; nor does the GPU give events"
    )
    assert "gpu.times" not in metas


def test_while_off_cupti_is_not_even_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "start", lambda: pytest.fail("was asked"))
    monkeypatch.setattr(cuzk_tracer, "open", lambda: None)
    assert backends._trace_device() is None


def test_kernels_are_recorded_before_anything_else_was() -> None:
    """A program may choose its back end before its first span."""
    asked = (
        "from cuzk_tracer import gpu; gpu.start = lambda: 'asked'; from cuzk_kernels import backend; "
        "print(backend._trace_device())"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "asked\n"
