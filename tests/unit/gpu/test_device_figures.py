"""The header's figures of GPUs: device time, claims and NVML, one GPU and several, wide and narrow."""

from dataclasses import replace

import numpy as np
import pytest

from cuzk_top.device_figures import DeviceFigures, device_figures
from cuzk_top.devicetime import Covered, Device, Split
from cuzk_top.model import CounterData, Session, Snapshot
from cuzk_top.widgets.header import Field, device_fields

S = 1_000_000_000


def covered(*spans: tuple[int, int]) -> Covered:
    start, end = zip(*spans, strict=True) if spans else ((), ())
    return Covered(np.array(start, np.int64), np.array(end, np.int64), None)


def util(index: int, *samples: tuple[int, int, float]) -> CounterData:
    start, end, value = (np.array(column) for column in zip(*samples, strict=True))
    return CounterData(f"gpu.{index}.util", "", "%", "gauge", "busy", end, start, value.astype(float))


def snapshot(*devices: Device, counters: tuple[CounterData, ...] = (), **meta: str) -> Snapshot:
    names = {f"gpu.{key[3:]}.name": value for key, value in meta.items()}
    return Snapshot(
        0, Session(meta=names), (), counters, (), 0, 100 * S, 100 * S, 1, 0, False, (), devices=devices
    )  # fmt: skip


def texts(fields: list[Field]) -> list[str]:
    return ["".join(text for text, _, _ in field.words) for field in fields]


ONE = Device(0, covered((0, 42 * S)), covered((0, 51 * S)), covered((0, 56 * S)))


def test_the_mock_ups_line() -> None:
    """design/mockups.md: 42 % kernels, 9 % only copies, held 56 %, NVML 43 %."""
    seen = snapshot(ONE, counters=(util(0, (0, 50 * S, 80), (50 * S, 100 * S, 6)),), gpu0="NVIDIA H200")
    assert texts(device_fields(device_figures(seen), 80)) == [
        "GPU0 H200  kernel 42  copy 9  idle 49 %",
        "(held 56, nvml 43)",
    ]
    assert texts(device_fields(device_figures(seen), 32))[0] == "GPU0 kernel 42 copy 9 idle 49 %"


@pytest.mark.parametrize(
    ("device", "counters", "beside"),
    [
        (ONE, (), ["(held 56)"]),
        (replace(ONE, held=None), (util(0, (0, 100 * S, 12.4)),), ["(nvml 12)"]),
        (replace(ONE, held=None), (), []),
        (replace(ONE, held=covered()), (), ["(held 0)"]),
    ],
)
def test_what_has_no_source_is_not_said(
    device: Device, counters: tuple[CounterData, ...], beside: list[str]
) -> None:
    seen = snapshot(device, counters=counters, gpu0="NVIDIA H200")
    assert texts(device_fields(device_figures(seen), 80))[1:] == beside


def test_without_records_nothing_is_known_of_any_gpu() -> None:
    assert device_figures(snapshot(gpu0="NVIDIA H200")) == []
    assert device_fields([], 80) == []


def test_nvml_samples_weigh_as_long_as_they_held_and_within_the_session_alone() -> None:
    samples = ((-100 * S, 10 * S, 50.0), (10 * S, 20 * S, float("nan")), (20 * S, 50 * S, 90.0))
    samples += ((90 * S, 300 * S, 10.0),)
    (figures,) = device_figures(snapshot(ONE, counters=(util(0, *samples),)))
    assert figures.nvml == pytest.approx((10 * 50 + 30 * 90 + 10 * 10) / 50)


def test_gpus_that_did_nothing_are_idle() -> None:
    two = Device(2, covered((0, 30 * S)), covered((0, 30 * S)))
    seen = snapshot(ONE, two, gpu0="NVIDIA H200", gpu1="NVIDIA H200", gpu2="NVIDIA H200")
    found = device_figures(seen)
    assert [(one.index, *one.split.percent()) for one in found] == [
        (0, 42, 9, 49),
        (1, 0, 0, 100),
        (2, 30, 0, 70),
    ]
    assert all(one.split.wall_ns == 100 * S for one in found)


def figures(*splits: tuple[int, int, int], held: int | None = None) -> list[DeviceFigures]:
    return [
        DeviceFigures(index, "H200", Split(*(part * S for part in split)), held and held * S, None)
        for index, split in enumerate(splits)
    ]


def test_several_gpus_are_split_one_by_one_as_long_as_there_is_room() -> None:
    pair = figures((42, 9, 49), (10, 0, 90), held=56)
    full = (
        "GPU0 H200  kernel 42  copy 9  idle 49 % (held 56)   "
        "GPU1 H200  kernel 10  copy 0  idle 90 % (held 56)"
    )
    plain = "GPU0 kernel 42 copy 9 idle 49 %   GPU1 kernel 10 copy 0 idle 90 %"
    short = "kernel/copy/idle %  0 42/9/49 1 10/0/90"
    whole = "2 GPUs kernel 26 copy 5 idle 69 %"
    for text, shorter in ((full, plain), (plain, short), (short, whole)):
        assert texts(device_fields(pair, len(text))) == [text]
        assert texts(device_fields(pair, len(text) - 1)) == [shorter]
    assert texts(device_fields(pair, 5)) == [whole]


def test_eight_gpus_fit_into_120_columns() -> None:
    (text,) = texts(device_fields(figures(*[(40 + k, 9, 51 - k) for k in range(8)]), 100))
    assert text.startswith("kernel/copy/idle %  0 40/9/51 1 41/9/50")
    assert text.endswith("7 47/9/44")
