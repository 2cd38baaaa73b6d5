"""NVTX ranges, marks and names through the table that NVTX lends a tool; layouts against the installed headers."""
# ruff: noqa: E501

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_cases import DATA, SOURCES, Bench, Runs

from cuzk_tracer import layout, reader

INCLUDES = [Path("/usr/local/cuda/include"), *Path("/usr/local").glob("cuda-1[23]*/include")]


@pytest.fixture(scope="module")
def host(bench: Bench) -> Path:
    return bench.compile((DATA / "nvtx_host.c").read_text())


def spans(runs: Runs) -> tuple[reader.Ring, list[tuple[reader.Thread, Any]], reader.Poll]:
    (ring,) = runs.rings()
    poll = ring.poll()
    return ring, [(thread, row) for thread, rows in poll.records for row in rows], poll


def text(ring: reader.Ring, row: Any) -> str:
    return ring.names[int(row["name"])].text


def test_ranges_nest_and_carry_payloads(runs: Runs, host: Path) -> None:
    assert runs.run(host).returncode == 0
    ring, rows, poll = spans(runs)
    found = {text(ring, row): row for _, row in rows}
    names = Counter(text(ring, row) for _, row in rows)
    assert names == {
        "outer": 1, "round": 3, "ratio": 3, "wïde € 😀": 1, "registered": 1, "of the default domain": 1,
        "half way": 1, "job": 1, "on a worker": 1,
    }  # fmt: skip
    rounds = [row for _, row in rows if text(ring, row) == "round"]
    assert [int(row["a0"]) for row in rounds] == [100, 101, 102]
    assert {int(row["parent"]) for row in rounds} == {int(found["outer"]["id"])}
    ratio = found["ratio"]
    assert ratio["track"] & layout.TRACK_F64
    assert float(np.int64(ratio["a0"]).view(np.float64)) == 0.25
    assert ring.names[int(ratio["name"])].a0 == "payload"
    assert ring.names[int(found["outer"]["name"])].a0 == ""
    assert (int(ratio["depth"]), int(found["outer"]["depth"])) == (2, 0)
    assert found["half way"]["kind"] == layout.KIND_INSTANT
    assert found["job"]["kind"] == layout.KIND_ASYNC
    threads = {text(ring, row): thread.name for thread, row in rows}
    assert threads["on a worker"] == "gpu worker"
    assert [(thread.name, text(ring, row)) for thread, opened in poll.open for row in opened] == [
        ("main", "left open")
    ]


def test_ranges_deeper_than_64_and_pops_too_many(runs: Runs, host: Path) -> None:
    assert runs.run(host, "deep").returncode == 0
    ring, rows, poll = spans(runs)
    assert Counter(text(ring, row) for _, row in rows) == {"deep": 64, "after": 1}
    after = next(row for _, row in rows if text(ring, row) == "after")
    assert (int(after["depth"]), int(after["parent"]), poll.lost, poll.open) == (0, 0, 0, [])


def test_names_beyond_the_table_are_kept_as_one(runs: Runs, host: Path) -> None:
    assert runs.run(host, "names").returncode == 0
    ring, rows, _ = spans(runs)
    assert len(rows) == 6000
    assert len(ring.names) <= 1024
    assert ring.header("names_lost") > 0


def test_nothing_is_recorded_while_off(runs: Runs, host: Path) -> None:
    assert runs.run(host, CUZK_TRACE="off").returncode == 0
    assert all(len(ring.poll().records) == 0 for ring in runs.rings())
    assert runs.run(host, CUZK_TRACE="coarse").returncode == 0
    assert all(len(ring.poll().records) == 0 for ring in runs.rings())


def test_kernels_have_the_range_as_parent_in_which_their_thread_launched_them(runs: Runs, host: Path) -> None:
    assert runs.run(host, "launches", STUB_CUPTI_EACH="50").returncode == 0
    ring, rows, _ = spans(runs)
    ranges = {
        (thread.slot, int(row["id"])): text(ring, row)
        for thread, row in rows
        if row["kind"] == layout.KIND_SPAN
    }
    launched = {
        text(ring, row): ranges.get(((int(row["track"]) & 0x7FF) - 1, int(row["parent"])))
        for _, row in rows
        if row["kind"] == layout.KIND_GPU_KERNEL
    }
    assert launched == {
        "launched before": None,
        "launched in a round": "round",
        "launched in its part": "part",
        "launched elsewhere": "elsewhere",
        "launched behind": None,
    }


def checked(source: str, include: Path, tmp_path: Path) -> None:
    path = tmp_path / "check.c"
    path.write_text(source)
    made = subprocess.run(
        ["cc", "-fsyntax-only", "-w", f"-I{include}", f"-I{SOURCES / 'gpu_capture'}", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr


NVTX_CHECK = """
#include <stddef.h>
#include <nvtx3/nvToolsExt.h>
#define AT(f, o) _Static_assert(offsetof(nvtxEventAttributes_t, f) == o, #f)
AT(version, 0); AT(size, 2); AT(category, 4); AT(payloadType, 16); AT(payload, 24); AT(messageType, 32); AT(message, 40);
_Static_assert(sizeof(nvtxEventAttributes_t) == 48, "size");
_Static_assert(NVTX_MESSAGE_TYPE_ASCII == 1 && NVTX_MESSAGE_TYPE_UNICODE == 2 && NVTX_MESSAGE_TYPE_REGISTERED == 3, "");
_Static_assert(NVTX_PAYLOAD_TYPE_INT64 == 2 && NVTX_PAYLOAD_TYPE_DOUBLE == 3 && NVTX_PAYLOAD_TYPE_FLOAT == 6, "");
_Static_assert(NVTX_CB_MODULE_CORE == 1 && NVTX_CB_MODULE_CORE2 == 5 && NVTX_ETID_CALLBACKS == 1, "");
_Static_assert(NVTX_CBID_CORE_MarkEx == 1 && NVTX_CBID_CORE_MarkA == 2 && NVTX_CBID_CORE_MarkW == 3, "");
_Static_assert(NVTX_CBID_CORE_RangeStartEx == 4 && NVTX_CBID_CORE_RangeEnd == 7 && NVTX_CBID_CORE_RangePushEx == 8, "");
_Static_assert(NVTX_CBID_CORE_RangePop == 11 && NVTX_CBID_CORE_NameOsThreadA == 14, "");
_Static_assert(NVTX_CBID_CORE2_DomainMarkEx == 1 && NVTX_CBID_CORE2_DomainRangeEnd == 3, "");
_Static_assert(NVTX_CBID_CORE2_DomainRangePushEx == 4 && NVTX_CBID_CORE2_DomainRangePop == 5, "");
_Static_assert(NVTX_CBID_CORE2_DomainRegisterStringA == 10 && NVTX_CBID_CORE2_DomainCreateA == 12, "");
"""

CUPTI_CHECK = """
#include <stddef.h>
#include <cupti_version.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include "cupti_abi.h"
#if CUPTI_API_VERSION >= 130400
typedef CUpti_ActivityKernel13 Kernel; typedef CUpti_ActivityMemcpy7 Memcpy; typedef CUpti_ActivityMemset5 Memset;
#elif CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 Kernel; typedef CUpti_ActivityMemcpy6 Memcpy; typedef CUpti_ActivityMemset4 Memset;
#else
typedef CUpti_ActivityKernel9 Kernel; typedef CUpti_ActivityMemcpy5 Memcpy; typedef CUpti_ActivityMemset4 Memset;
#endif
#define SAME(T, f, S, g) _Static_assert(offsetof(T, f) == offsetof(struct S, g) && \\
    sizeof(((T *)0)->f) == sizeof(((struct S *)0)->g), #T "." #f)
SAME(Kernel, start, cupti__kernel, start); SAME(Kernel, end, cupti__kernel, end);
SAME(Kernel, deviceId, cupti__kernel, device); SAME(Kernel, contextId, cupti__kernel, context);
SAME(Kernel, streamId, cupti__kernel, stream); SAME(Kernel, gridX, cupti__kernel, grid[0]);
SAME(Kernel, blockZ, cupti__kernel, block[2]); SAME(Kernel, correlationId, cupti__kernel, corr);
SAME(Kernel, name, cupti__kernel, name);
SAME(Memcpy, copyKind, cupti__memcpy, copy); SAME(Memcpy, srcKind, cupti__memcpy, source);
SAME(Memcpy, dstKind, cupti__memcpy, target); SAME(Memcpy, bytes, cupti__memcpy, bytes);
SAME(Memcpy, start, cupti__memcpy, start); SAME(Memcpy, end, cupti__memcpy, end);
SAME(Memcpy, deviceId, cupti__memcpy, device); SAME(Memcpy, streamId, cupti__memcpy, stream);
SAME(Memcpy, correlationId, cupti__memcpy, corr);
SAME(CUpti_ActivityMemcpyPtoP4, dstDeviceId, cupti__memcpy2, target_device);
SAME(CUpti_ActivityMemcpyPtoP4, correlationId, cupti__memcpy2, corr);
SAME(Memset, value, cupti__memset, value); SAME(Memset, bytes, cupti__memset, bytes);
SAME(Memset, start, cupti__memset, start); SAME(Memset, streamId, cupti__memset, stream);
SAME(Memset, correlationId, cupti__memset, corr);
SAME(CUpti_ActivityOverhead3, overheadKind, cupti__overhead, what); SAME(CUpti_ActivityOverhead3, end, cupti__overhead, end);
SAME(CUpti_ActivitySynchronization, type, cupti__synchronization, type);
SAME(CUpti_ActivitySynchronization, streamId, cupti__synchronization, stream);
SAME(CUpti_CallbackData, callbackSite, cupti__call, site); SAME(CUpti_CallbackData, correlationId, cupti__call, corr);
_Static_assert(CUPTI_ACTIVITY_KIND_MEMCPY == CUPTI__KIND_MEMCPY && CUPTI_ACTIVITY_KIND_MEMSET == CUPTI__KIND_MEMSET, "");
_Static_assert(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL == CUPTI__KIND_CONCURRENT_KERNEL, "");
_Static_assert(CUPTI_CB_DOMAIN_DRIVER_API == CUPTI__DRIVER_CALLS && CUPTI_API_ENTER == CUPTI__ENTER, "");
_Static_assert(CUPTI_ACTIVITY_KIND_OVERHEAD == CUPTI__KIND_OVERHEAD, "");
_Static_assert(CUPTI_ACTIVITY_KIND_MEMCPY2 == CUPTI__KIND_MEMCPY2, "");
_Static_assert(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION == CUPTI__KIND_SYNCHRONIZATION, "");
_Static_assert(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED == CUPTI__MULTIPLE_SUBSCRIBERS, "");
_Static_assert(CUPTI_ERROR_MAX_LIMIT_REACHED == CUPTI__MAX_LIMIT_REACHED, "");
"""


def test_layouts_are_those_of_the_installed_nvtx(tmp_path: Path) -> None:
    include = next((i for i in INCLUDES if (i / "nvtx3/nvToolsExt.h").exists()), None)
    if include is None:
        pytest.skip("no NVTX headers here")
    checked(NVTX_CHECK, include, tmp_path)


def test_layouts_are_those_of_the_installed_cupti(tmp_path: Path) -> None:
    include = next((i for i in INCLUDES if (i / "cupti_activity.h").exists()), None)
    if include is None:
        pytest.skip("no CUPTI headers here")
    checked(CUPTI_CHECK, include, tmp_path)
