"""Page faults of a span equal getrusage's, to the last one."""

import json
import os
import resource

import numpy as np
import pytest

PAGES = 1500  # 6 MB: under the 8 MiB that RLIMIT_MEMLOCK commonly allows


def deltas(runtime, work: str, before: str = "") -> dict:
    """Run `work` in a span alone, and say what the span and the kernel's process totals counted."""
    out = runtime.run(f"""
        import cuzk_tracer, ctypes, gc, json, mmap, os, resource
        S = cuzk_tracer.span("stage", faults=True)
        WARM = cuzk_tracer.span("warm", faults=True)
        libc = ctypes.CDLL(None, use_errno=True)
        PAGES, BYTES = {PAGES}, {PAGES} * 4096
        region = mmap.mmap(-1, BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        region.madvise(mmap.MADV_NOHUGEPAGE)
        address = ctypes.addressof(ctypes.c_char.from_buffer(region))
        libc.mlock.argtypes = libc.munlock.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
        spare = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        for _ in range(50):       # everything the measurement itself touches is there already
            with WARM:
                libc.memset(ctypes.addressof(ctypes.c_char.from_buffer(spare)), 1, 4096)
            resource.getrusage(resource.RUSAGE_SELF)
        {before}
        gc.collect(); gc.disable()
        before = resource.getrusage(resource.RUSAGE_SELF)
        with S:
            {work}
        after = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps([after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt]))
    """)
    with runtime.ring() as ring:
        (record,) = [
            r for _, part in ring.poll().records for r in part if ring.names[int(r["name"])].text == "stage"
        ]
    minor, major = json.loads(out)
    return {"span": (int(record["minflt"]), int(record["majflt"])), "process": (minor, major)}


def test_touching_pages(runtime):
    seen = deltas(runtime, "libc.memset(address, 1, BYTES)")
    assert seen["span"] == seen["process"] == (PAGES, 0)


def test_pinning_pages(runtime):
    """Pinning (as registering memory for DMA does) faults in the kernel, where perf events do not look."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY and soft < PAGES * 4096:
        pytest.skip(f"RLIMIT_MEMLOCK is {soft} bytes, {PAGES * 4096} are needed")
    seen = deltas(runtime, "assert libc.mlock(address, BYTES) == 0")
    assert seen["span"] == seen["process"] == (PAGES, 0)


def test_direct_io(runtime, tmp_path):
    """A read past the page cache into memory that nobody has touched: the kernel faults the pages in."""
    file = tmp_path / "16MiB"
    file.write_bytes(b"x" * (PAGES * 4096))
    try:
        os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip(f"no direct I/O on {tmp_path}")
    seen = deltas(
        runtime,
        "assert os.preadv(direct, [region], 0) == BYTES",
        f"direct = os.open({str(file)!r}, os.O_DIRECT)",
    )
    assert seen["span"] == seen["process"]
    assert seen["span"][0] in range(PAGES, PAGES + 5) and seen["span"][1] == 0


FAULTS_C = """
#include "cuzk_trace.h"
static cuzk_trace_name STAGE = CUZK_TRACE_NAME("stage", NULL, NULL, CUZK_TRACE_FAULTS);
int main(int count, char **args)
{
    size_t bytes = 1500 * 4096;
    char *region = (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct rusage before, after;
    cuzk_trace_span span;
    int i, direct = open(args[2], O_RDONLY | O_DIRECT), failed = 0;
    madvise(region, bytes, MADV_NOHUGEPAGE);
    for (i = 0; i < 100; i++) { /* everything that the measurement touches is there */
        getrusage(RUSAGE_SELF, &before);
        getrusage(RUSAGE_SELF, &after);
        cuzk_trace_begin(&span, &STAGE, 0, 0);
        cuzk_trace_end(&span);
    }
    getrusage(RUSAGE_SELF, &before);
    cuzk_trace_begin(&span, &STAGE, 0, 0);
    switch (args[1][0]) {
    case 't':
        memset(region, 1, bytes);
        break;
    case 'm':
        failed = mlock(region, bytes);
        break;
    case 'd':
        failed = read(direct, region, bytes) != (ssize_t)bytes;
        break;
    }
    cuzk_trace_end(&span);
    getrusage(RUSAGE_SELF, &after);
    printf("%ld %ld", after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt);
    return failed || count != 3;
}
"""


@pytest.mark.parametrize("how", ["touch", "mlock", "direct"])
def test_in_c(bare_runtime, compiler, tmp_path, how):
    file = tmp_path / "file"
    file.write_bytes(b"x" * (PAGES * 4096))
    program = compiler(FAULTS_C)
    if how == "mlock" and 0 <= resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] < PAGES * 4096:
        pytest.skip("RLIMIT_MEMLOCK is too low")
    if how == "direct":
        try:
            os.close(os.open(file, os.O_RDONLY | os.O_DIRECT))
        except OSError:
            pytest.skip(f"no direct I/O on {tmp_path}")
    bare_runtime.execute(program, how, file)  # once before, so that the program's own pages are in memory
    for path in bare_runtime.rings():
        path.unlink()
    process = tuple(map(int, bare_runtime.execute(program, how, file).split()))
    with bare_runtime.ring() as ring:
        last = ring.poll().records[0][1][-1]
    assert (int(last["minflt"]), int(last["majflt"])) == process
    assert process[0] in range(PAGES, PAGES + 5) and process[1] == 0


def test_faults_are_inclusive_and_other_threads_can_be_added(runtime):
    runtime.run("""
        import cuzk_tracer
        OUTER = cuzk_tracer.span("outer", faults=True); INNER = cuzk_tracer.span("inner", faults=True)
        PLAIN = cuzk_tracer.span("plain")
        for _ in range(20):
            with OUTER, INNER, PLAIN: pass
        with OUTER:
            with INNER:
                with PLAIN:
                    cuzk_tracer.add_faults(1000, 7)
            cuzk_tracer.add_faults(1, 0)
    """)
    with runtime.ring() as ring:
        poll = ring.poll()
        rows = poll.records[0][1][-3:]
    assert [ring.names[int(r["name"])].text for r in rows] == ["plain", "inner", "outer"]
    plain, inner, outer = ((int(r["minflt"]), int(r["majflt"])) for r in rows)
    assert plain == (0, 0), "not measured, and not flagged as measured"
    # The interpreter may fault for itself now and then; the added ones are exact.
    assert inner[0] in range(1000, 1010) and inner[1] == 7
    assert outer[0] - inner[0] in range(1, 10) and outer[1] == 7
    assert np.array_equal(rows["track"] & 0x2000, [0, 0x2000, 0x2000])


def test_the_ring_itself_costs_a_span_no_faults(runtime):
    """Writing all of a ring for the first time: its pages were there before."""
    runtime.run("""
        import cuzk_tracer, gc
        FILL = cuzk_tracer.span("fill", faults=True); S = cuzk_tracer.span("s")
        def work(n):
            for _ in range(n):
                with S: pass
        work(100); gc.collect(); gc.disable()
        with FILL: work(60_000)
    """)
    with runtime.ring() as ring:
        row = ring.poll().records[0][1][-1]
    assert ring.names[int(row["name"])].text == "fill"
    assert int(row["minflt"]) < 60_000 * 64 // 4096 // 10, "a tenth of the pages written would be too many"
