"""Several libraries of one process write one file, and a thread has one slot."""

import re

import numpy as np
import pytest

from cuzk_tracer import layout, reader

# A library with a span of its own name round whatever it is told to call.
LIBRARY = """
#include "cuzk_trace.h"
#define FLAGS (CUZK_TRACE_STAGE | CUZK_TRACE_FAULTS)
static cuzk_trace_name OUTER = CUZK_TRACE_NAME(NAME ".outer", "n", NULL, FLAGS);
static cuzk_trace_name COMMON = CUZK_TRACE_NAME("common", "from", NULL, 0);
void nest(int n, void (*inside)(void))
{
    cuzk_trace_span outer, common;
    cuzk_trace_begin(&outer, &OUTER, n, 0);
    cuzk_trace_begin(&common, &COMMON, NAME[0], 0);
    cuzk_trace_end(&common);
    if (inside)
        inside();
    cuzk_trace_end(&outer);
}
void leave_open(void)
{
    cuzk_trace_span span;
    cuzk_trace_begin_as(&span, &COMMON, cuzk_trace_f64(1.5), 0, CUZK_TRACE_A0_F64);
}
void run(int n)
{
    cuzk_trace_span span;
    for (int i = 0; i < n; i++) {
        cuzk_trace_begin(&span, &COMMON, i, 0);
        cuzk_trace_end(&span);
    }
}
const char *path(void) { return cuzk_trace_open(); }
void level(unsigned l) { cuzk_trace_enable(l); }
"""

PROGRAM = """
#include "cuzk_trace.h"
#include <dlfcn.h>
#include <sys/wait.h>
static cuzk_trace_name MAIN = CUZK_TRACE_NAME("main", NULL, NULL, 0);
typedef void (*nest_t)(int, void (*)(void));
static nest_t nest[2];
static void (*run[2])(int);
static pthread_barrier_t barrier;
static void inner(void) { nest[1](2, NULL); }
static void *together(void *which)
{
    pthread_barrier_wait(&barrier);
    run[(size_t)which % 2](10);
    return NULL;
}
static void *both(void *unused)
{
    nest[0](1, inner);
    return unused;
}
int main(int count, char **args)
{
    cuzk_trace_span span;
    pthread_t threads[8];
    size_t i;
    void *library[2];
    for (i = 0; i < 2; i++) {
        library[i] = dlopen(args[1 + i], RTLD_NOW | RTLD_LOCAL);
        nest[i] = (nest_t)dlsym(library[i], "nest");
        run[i] = (void (*)(int))dlsym(library[i], "run");
    }
    switch (args[3][0]) {
    case 'n': /* nested */
        cuzk_trace_begin(&span, &MAIN, 0, 0);
        nest[0](1, inner);
        cuzk_trace_end(&span);
        pthread_create(threads, NULL, both, NULL);
        pthread_join(threads[0], NULL);
        break;
    case 't': /* all of a sudden together */
        pthread_barrier_init(&barrier, NULL, 8);
        for (i = 0; i < 8; i++)
            pthread_create(threads + i, NULL, together, (void *)i);
        for (i = 0; i < 8; i++)
            pthread_join(threads[i], NULL);
        break;
    case 'f': /* fork */
        nest[0](1, NULL);
        if (fork() == 0) {
            nest[1](2, NULL);
            nest[0](3, NULL);
            return 0;
        }
        wait(NULL);
        nest[1](4, NULL);
        break;
    case 'u': /* unload one of them, and load it again */
        nest[0](1, NULL);
        nest[1](2, NULL);
        dlclose(library[1]);
        nest[0](3, NULL);
        library[1] = dlopen(args[2], RTLD_NOW | RTLD_LOCAL);
        nest[1] = (nest_t)dlsym(library[1], "nest");
        nest[1](4, NULL);
        break;
    }
    return count == 0;
}
"""


@pytest.fixture
def libraries(compiler):
    return [compiler(LIBRARY, f'-DNAME="{name}"', shared=True) for name in "AB"]


@pytest.fixture
def program(compiler):
    return compiler(PROGRAM)


def shape(ring, part):
    return [(ring.names[int(r["name"])].text, int(r["id"]), int(r["parent"]), int(r["a0"])) for r in part]


def header(ring, field):
    return ring.header(field)


def test_spans_of_a_program_and_two_libraries_nest(bare_runtime, libraries, program):
    bare_runtime.execute(program, *libraries, "nest")
    with bare_runtime.ring() as ring:
        (main, rows), (thread, more) = ring.poll().records
        assert header(ring, "writers") == 0 and ring.ended_ns > 0
        assert [n.text for n in ring.names] == ["", "<overflow>", "main", "A.outer", "common", "B.outer"]
        assert (main.slot, thread.slot) == (0, 1)
        assert shape(ring, rows) == [
            ("common", 3, 2, ord("A")),
            ("common", 5, 4, ord("B")),
            ("B.outer", 4, 2, 2),
            ("A.outer", 2, 1, 1),
            ("main", 1, 0, 0),
        ]
        assert shape(ring, more) == [
            ("common", 2, 1, ord("A")),
            ("common", 4, 3, ord("B")),
            ("B.outer", 3, 1, 2),
            ("A.outer", 1, 0, 1),
        ]
        # Mapping its rings, the second library took faults while the first one's span was counting.
        for part in (rows, more):
            for row in part[part["track"] & layout.TRACK_FAULTS != 0]:
                assert int(row["minflt"]) < 64, "a ring has 256 pages or more"


def test_many_open_it_at_once(bare_runtime, libraries, program):
    for _ in range(10):
        for path in bare_runtime.rings():
            path.unlink()
        bare_runtime.execute(program, *libraries, "together")
        with bare_runtime.ring() as ring:
            poll = ring.poll()
            assert poll.lost == 0 and [len(part) for _, part in poll.records] == [10] * 8
            assert [n.text for n in ring.names] == ["", "<overflow>", "common"]


def test_a_forked_child_with_libraries(bare_runtime, libraries, program):
    bare_runtime.execute(program, *libraries, "fork")
    rings = sorted(map(reader.Ring, bare_runtime.rings()), key=lambda ring: ring.parent_pid)
    assert len(rings) == 2
    (_, parent), (_, child) = (ring.poll().records[0] for ring in rings)
    assert rings[1].parent_pid == rings[0].pid and rings[1].parent_uuid == rings[0].uuid
    assert shape(rings[0], parent) == [
        ("common", 2, 1, ord("A")), ("A.outer", 1, 0, 1), ("common", 4, 3, ord("B")), ("B.outer", 3, 0, 4),
    ]  # fmt: skip
    assert shape(rings[1], child) == [
        ("common", 2, 1, ord("B")), ("B.outer", 1, 0, 2), ("common", 4, 3, ord("A")), ("A.outer", 3, 0, 3),
    ]  # fmt: skip


def test_a_library_that_is_unloaded_and_loaded_again(bare_runtime, libraries, program):
    bare_runtime.execute(program, *libraries, "unload")
    with bare_runtime.ring() as ring:
        ((_, rows),) = ring.poll().records
        assert [s[3] for s in shape(ring, rows) if s[0] != "common"] == [1, 2, 3, 4]
        assert header(ring, "writers") == 0 and ring.ended_ns > 0


# Python and a C library together. ctypes loads with RTLD_LOCAL, as the prover's host library is.
WITH_LIBRARY = """
    import ctypes, cuzk_tracer, os, sys, threading, time
    library = ctypes.CDLL({library!r})
    library.path.restype = ctypes.c_char_p
    callback = ctypes.CFUNCTYPE(None)
    S = cuzk_tracer.span("python", a0="i")
"""


@pytest.mark.parametrize("first", ["python", "library"])
def test_python_and_a_library_nest(bare_runtime, libraries, first):
    pytest.importorskip("cuzk_tracer._native")
    out = bare_runtime.run(
        WITH_LIBRARY.format(library=str(libraries[0]))
        + """
    def inside():
        with S(2): pass
    {first}
    with S(1):
        library.nest(7, callback(inside))
    def work():
        with S(3): library.run(2)
    thread = threading.Thread(target=work, name="worker"); thread.start(); thread.join()
    print(cuzk_tracer.ring_path() == os.fsdecode(library.path()), cuzk_tracer.problem())
    """.format(first="cuzk_tracer.open()" if first == "python" else "library.path()")
    )
    assert out == "True None\n"
    with bare_runtime.ring() as ring:
        (main, rows), (worker, more) = ring.poll().records
        assert (main.name, worker.name, worker.slot) == ("main", "worker", 1)
        assert shape(ring, rows) == [
            ("common", 3, 2, ord("A")), ("python", 4, 2, 2), ("A.outer", 2, 1, 7), ("python", 1, 0, 1),
        ]  # fmt: skip
        assert shape(ring, more) == [("common", 2, 1, 0), ("common", 3, 1, 1), ("python", 1, 0, 3)]
        assert header(ring, "clock_kind") in (layout.CLOCK_TSC, layout.CLOCK_MONOTONIC)


def test_what_a_library_leaves_open_is_closed_by_python(bare_runtime, libraries):
    pytest.importorskip("cuzk_tracer._native")
    bare_runtime.run(
        WITH_LIBRARY.format(library=str(libraries[0]))
        + """
    with S(1):
        library.leave_open()
        with S(2): pass
    """
    )
    with bare_runtime.ring() as ring:
        ((_, rows),) = ring.poll().records
        assert shape(ring, rows) == [
            ("python", 3, 2, 2), ("common", 2, 1, int(np.float64(1.5).view(np.int64))), ("python", 1, 0, 1),
        ]  # fmt: skip
        flags = [int(r["track"]) for r in rows]
        assert flags == [0, layout.TRACK_UNBALANCED | layout.TRACK_F64, 0]


@pytest.mark.parametrize("first", ["python", "library"])
def test_the_pure_python_writer_and_a_library_share_a_file(bare_runtime, libraries, first):
    """Not the slots: two of one thread. A library that was first writes ticks, and so does Python then."""
    out = bare_runtime.run(
        WITH_LIBRARY.format(library=str(libraries[0]))
        + """
    T = cuzk_tracer.span("early")
    copy = T(5)                      # made before there is a file, entered after
    {first}
    for i in range(3):
        time.sleep(0.01)
        before = time.monotonic_ns()
        with S(i): library.run(1)
        print(before, time.monotonic_ns())
    with copy: cuzk_tracer.counter("c", 1)
    print(cuzk_tracer.ring_path() == os.fsdecode(library.path()), cuzk_tracer.problem())
    """.format(first="cuzk_tracer.open()" if first == "python" else "library.path()"),
        CUZK_TRACER="python",
    ).splitlines()
    assert out.pop() == "True None"
    with bare_runtime.ring() as ring:
        poll = ring.poll()
        by_name: dict[str, list[np.void]] = {}
        slots = set()
        for thread, part in poll.records:
            slots.add((thread.slot, thread.tid))
            for row in part:
                by_name.setdefault(ring.names[int(row["name"])].text, []).append(row)
        assert {tid for _, tid in slots} == {ring.pid} and len(slots) == 2
        assert header(ring, "writers") == 0 and ring.ended_ns > 0
        assert {name: len(rows) for name, rows in by_name.items()} == {
            "python": 3, "common": 3, "early": 1, "c": 1,
        }  # fmt: skip
        assert int(by_name["early"][0]["a0"]) == 5
        near = 20_000  # ns: what the early rate of the ticks may be off by, and more
        for line, outer, inner in zip(out, by_name["python"], by_name["common"], strict=True):
            before, after = map(int, line.split())
            assert before - near <= outer["t0"] <= inner["t0"] + near
            assert inner["t1"] - near <= outer["t1"] <= after + near


@pytest.mark.parametrize("writer", ["native", "python"])
def test_the_level_is_one_for_all(bare_runtime, libraries, writer):
    if writer == "native":
        pytest.importorskip("cuzk_tracer._native")
    bare_runtime.run(
        WITH_LIBRARY.format(library=str(libraries[0]))
        + """
    STAGE = cuzk_tracer.span("stage", stage=True)
    cuzk_tracer.open(); library.path()
    cuzk_tracer.disable(); library.run(1)
    cuzk_tracer.enable("coarse"); library.nest(1, callback(lambda: None))
    library.level(0)
    with STAGE: pass                 # the pure-Python writer looks at the level once a second
    library.level(2)
    with STAGE: pass                 # ... or here, when it is off
    with STAGE(1), S(2): pass
    """,
        CUZK_TRACER=writer,
    )
    with bare_runtime.ring() as ring:
        seen = {
            (ring.names[int(r["name"])].text, int(r["a0"])) for _, part in ring.poll().records for r in part
        }
    assert {("A.outer", 1), ("stage", 1), ("python", 2)} <= seen
    assert "common" not in {name for name, _ in seen}


def test_off_by_the_environment_until_python_says_otherwise(bare_runtime, libraries):
    pytest.importorskip("cuzk_tracer._native")
    out = bare_runtime.run(
        WITH_LIBRARY.format(library=str(libraries[0]))
        + """
    with S: pass
    print(library.path(), cuzk_tracer.open())
    cuzk_tracer.enable()
    with S(1): library.run(1)
    print(cuzk_tracer.ring_path())
    """,
        CUZK_TRACE="off",
    ).splitlines()
    assert out[0] == "None None" and re.search(r"\.ring$", out[1])


def test_an_executed_program_replaces_the_ring(bare_runtime, program, libraries):
    """exec keeps the pid and the start time, and so the file's name: one that is not mapped is replaced."""
    bare_runtime.run(
        f"""
        import cuzk_tracer, os
        cuzk_tracer.open()
        os.execv({str(program)!r}, [{str(program)!r}, {str(libraries[0])!r}, {str(libraries[1])!r}, "nest"])
        """
    )
    with bare_runtime.ring() as ring:
        ring.poll()
        assert ring.names[2].text == "main" and ring.ended_ns > 0
        assert ring.parent_pid == ring.pid, "it comes from the program it was before"


def test_several_files_of_one_program(bare_runtime, compiler, tmp_path):
    """Each includes the header; the linker keeps one copy of its state."""
    other = tmp_path / "other.c"
    other.write_text(LIBRARY)
    program = compiler(
        """
        #include "cuzk_trace.h"
        static cuzk_trace_name MAIN = CUZK_TRACE_NAME("main", NULL, NULL, 0);
        void nest(int, void (*)(void));
        int main(void)
        {
            cuzk_trace_span span;
            cuzk_trace_begin(&span, &MAIN, 0, 0);
            nest(5, NULL);
            printf("%u", cuzk_trace__lib.head->writers);
            cuzk_trace_end(&span);
            return 0;
        }
        """,
        '-DNAME="A"',
        str(other),
    )
    assert bare_runtime.execute(program) == "1"
    with bare_runtime.ring() as ring:
        ((_, rows),) = ring.poll().records
        assert shape(ring, rows) == [("common", 3, 2, ord("A")), ("A.outer", 2, 1, 5), ("main", 1, 0, 0)]
