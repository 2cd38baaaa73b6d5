"""What goes wrong in a long life: churning threads, forks, full tables, signals, many readers.

The short form of each runs always, the long one with -m slow. No exception reaches the program, and every
record is accounted for.
"""

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from cuzk_tracer import layout, reader


def header(ring: reader.Ring, field: str) -> int:
    return ring.header(field)


def everything(ring: reader.Ring) -> tuple[int, int, int]:
    """Records read, overwritten before (or while) that, and of threads without a slot."""
    poll = ring.poll()
    read = sum(len(part) for _, part in poll.records)
    dropped = header(ring, "dropped") + header(ring, "dropped_plain")
    return read, poll.lost - dropped + poll.skipped, dropped


CHURN = """
    import cuzk_tracer, threading
    S = cuzk_tracer.span("s", a0="i"); T = cuzk_tracer.span("t")
    def work(i):
        with S(i):
            with T: pass
    with T: pass
    for i in range({threads}):
        thread = threading.Thread(target=work, args=(i,)); thread.start(); thread.join()
    print(cuzk_tracer.problem())
"""


@pytest.mark.parametrize("threads", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thread_churn(runtime, threads):
    assert runtime.run(CHURN.format(threads=threads)) == "None\n"
    with runtime.ring() as ring:
        read, overwritten, dropped = everything(ring)
        assert read + overwritten == ring.written() == 2 * threads + 1 and dropped == 0
        assert header(ring, "slots_used") <= 128 and header(ring, "problems") == 0
        if overwritten == 0:
            values = [int(r["a0"]) for _, part in ring.poll().records for r in part if r["name"] == 2]
            assert len(values) in (0, threads)


CHURN_C = """
#include "cuzk_trace.h"
static cuzk_trace_name S = CUZK_TRACE_NAME("s", "i", NULL, 0);
static void *work(void *number)
{
    cuzk_trace_span span;
    cuzk_trace_begin(&span, &S, (int64_t)number, 0);
    cuzk_trace_end(&span);
    return NULL;
}
int main(int count, char **args)
{
    pthread_t threads[8];
    int64_t i, k, n = count > 1 ? atoi(args[1]) : 0;
    for (i = 0; i < n; i += 8) {
        for (k = 0; k < 8; k++)
            pthread_create(threads + k, NULL, work, (void *)(i + k));
        for (k = 0; k < 8; k++)
            pthread_join(threads[k], NULL);
    }
    return cuzk_trace_problem() != NULL;
}
"""


@pytest.mark.parametrize("threads", [800, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thread_churn_in_c(bare_runtime, compiler, threads):
    """Eight at a time, and the slots of dead threads at rest for no time at all."""
    bare_runtime.execute(compiler(CHURN_C, "-DCUZK_TRACE__REST_NS=0"), str(threads))
    with bare_runtime.ring() as ring:
        poll = ring.poll()
        seen = sorted(int(r["a0"]) for _, part in poll.records for r in part)
        assert seen == list(range(threads)) and poll.lost == poll.skipped == 0
        # Slot 0 is for the main thread, which records nothing; eight at a time never need more than eight.
        assert 2 <= header(ring, "slots_used") <= 9


def test_sixty_four_threads_at_once(runtime):
    runtime.run("""
        import cuzk_tracer, threading
        S = cuzk_tracer.span("s", a0="thread", a1="i"); T = cuzk_tracer.span("t", a0="i")
        barrier = threading.Barrier(64)
        def work(n):
            barrier.wait()
            for i in range(200):
                with S(n, i):
                    with T(i): pass
        threads = [threading.Thread(target=work, args=(n,), name=f"w{n}") for n in range(64)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert cuzk_tracer.problem() is None
    """)
    with runtime.ring() as ring:
        poll = ring.poll()
    assert poll.lost == poll.skipped == 0 and len(poll.records) == 64
    for thread, part in poll.records:
        outer, inner = part[part["name"] == 2], part[part["name"] == 3]
        assert (outer["a0"] == int(thread.name[1:])).all()
        assert (outer["a1"] == np.arange(200)).all() and (inner["a0"] == np.arange(200)).all()
        assert (inner["parent"] == outer["id"]).all()


def test_more_threads_than_slots(runtime):
    """The program goes on, and what is not recorded is counted to the last record."""
    out = runtime.run("""
        import cuzk_tracer, threading
        S = cuzk_tracer.span("s", a0="thread")
        barrier = threading.Barrier(150)
        def work(n):
            for _ in range(10):
                with S(n): cuzk_tracer.counter("c", n)
            barrier.wait()
        threads = [threading.Thread(target=work, args=(n,)) for n in range(150)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        with S(-1): pass
        print(cuzk_tracer.problem())
    """)
    assert "slots" in out or "threads" in out
    with runtime.ring() as ring:
        read, overwritten, dropped = everything(ring)
        assert (read, overwritten, dropped) == (127 * 20 + 1, 0, 23 * 20)
        assert header(ring, "problems") & layout.PROBLEM_SLOTS


def test_fork_with_live_threads(runtime):
    out = runtime.run("""
        import cuzk_tracer, os, sys, threading, warnings
        warnings.simplefilter("ignore")      # forking a process with threads is what this is about
        S = cuzk_tracer.span("s", a0="i"); C = cuzk_tracer.span("child", a0="i")
        stop = False
        counts = [0] * 4
        def work(n):
            while not stop:
                with S(counts[n]):
                    with S(-1): pass
                counts[n] += 1
        threads = [threading.Thread(target=work, args=(n,), name=f"w{n}") for n in range(4)]
        for thread in threads: thread.start()
        while not all(counts): pass  # a fork before the first span has no session to come from
        children = []
        for k in range(8):
            pid = os.fork()
            if pid == 0:
                thread = threading.Thread(target=lambda: [C(i).__enter__().__exit__(None, None, None)
                                                          for i in range(50)])
                thread.start(); thread.join()
                with C(1000 + k): cuzk_tracer.mark("in the child")
                os._exit(0 if cuzk_tracer.problem() is None else 1)
            children.append(pid)
        codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        stop = True
        for thread in threads: thread.join()
        print(codes, 2 * sum(counts), children, sep=";")
    """)
    codes, count, children = map(eval, out.split(";"))
    assert codes == [0] * 8
    rings = {ring.pid: ring for ring in map(reader.Ring, runtime.rings())}
    assert set(children) < set(rings) and len(rings) == 9
    (parent,) = (ring for pid, ring in rings.items() if pid not in children)
    assert sum(everything(parent)[:2]) == count == parent.written(), "no child wrote into its parent's ring"
    for number, pid in enumerate(children):
        ring = rings[pid]
        assert ring.parent_pid == parent.pid and ring.parent_uuid == parent.uuid
        threads = ring.poll().records
        names = {
            t.name: [(ring.names[int(r["name"])].text, int(r["a0"])) for r in part] for t, part in threads
        }
        assert names.pop("main") == [("in the child", 0), ("child", 1000 + number)]
        assert list(names.values()) == [[("child", i) for i in range(50)]]


def test_names_beyond_the_table_are_counted(runtime):
    runtime.run("""
        import cuzk_tracer
        cuzk_tracer.open()
        for i in range(1500):
            with cuzk_tracer.span(f"name {i}"): pass
    """)
    with runtime.ring() as ring:
        part = ring.poll().records[0][1]
        texts = [ring.names[int(n)].text for n in part["name"]]
        room = 1024 - 2
        assert texts == [f"name {i}" for i in range(room)] + ["<overflow>"] * (1500 - room)
        assert header(ring, "names_lost") == 1500 - room
        assert header(ring, "problems") == layout.PROBLEM_NAMES


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system")
def test_a_small_file_system(runtime, compiler):
    """A real one that is full after the main thread's ring and one more."""
    mounted = runtime.folder / "cuzk"
    mounted.mkdir(mode=0o700)
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6000k,mode=700", "none", mounted], check=False
    ).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        out = runtime.run("""
            import cuzk_tracer, threading
            S = cuzk_tracer.span("s")
            barrier = threading.Barrier(3)
            def work():
                for _ in range(5):
                    with S(1): pass
                barrier.wait()
            with S: pass
            threads = [threading.Thread(target=work) for _ in range(3)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            print(cuzk_tracer.problem())
        """)
        assert "no room for another thread's ring in " in out
        with runtime.ring() as ring:
            assert everything(ring) == (6, 0, 10)
            assert header(ring, "problems") == layout.PROBLEM_SPACE
        runtime.execute(compiler(CHURN_C.replace("return cuzk_trace_problem() != NULL", "return 0")), "16")
    finally:
        subprocess.run(["umount", mounted], check=True)


@pytest.mark.parametrize("place", ["/proc/self", "/nonexistent/folder", "relative"])
def test_a_folder_that_cannot_be_written_in_c(bare_runtime, compiler, place):
    program = compiler("""
        #include "cuzk_trace.h"
        static cuzk_trace_name S = CUZK_TRACE_NAME("s", NULL, NULL, 0);
        int main(void)
        {
            cuzk_trace_span span;
            cuzk_trace_begin(&span, &S, 0, 0);
            cuzk_trace_end(&span);
            printf("%s", cuzk_trace_path());
            unlink(cuzk_trace_path());
            return 0;
        }
    """)
    path = Path(bare_runtime.execute(program, XDG_RUNTIME_DIR=place))
    assert path.parent == Path(f"/dev/shm/cuzk-{os.getuid()}"), "the second folder served"


def test_errno_is_left_alone(bare_runtime, compiler):
    """A span may end between a call that failed and the look at why: even where nothing can be written."""
    program = compiler("""
        #include "cuzk_trace.h"
        static cuzk_trace_name S = CUZK_TRACE_NAME("s", NULL, NULL, CUZK_TRACE_FAULTS);
        int main(void)
        {
            cuzk_trace_span span;
            errno = 12345;
            cuzk_trace_begin(&span, &S, 0, 0);
            cuzk_trace_counter(&S, 1);
            cuzk_trace_end(&span);
            printf("%d", errno);
            return 0;
        }
    """)
    assert bare_runtime.execute(program) == "12345"
    (bare_runtime.folder / "cuzk").rename(bare_runtime.folder / "other")
    (bare_runtime.folder / "cuzk").write_text("not a folder")
    assert bare_runtime.execute(program, CUZK_TRACE="coarse") == "12345"
    assert bare_runtime.execute(program, CUZK_TRACE="off") == "12345"


def test_a_limit_on_file_size_is_no_signal(bare_runtime, compiler):
    """Beyond RLIMIT_FSIZE, ftruncate would raise SIGXFSZ, which ends a C program."""
    program = compiler("""
        #include "cuzk_trace.h"
        static cuzk_trace_name S = CUZK_TRACE_NAME("s", NULL, NULL, 0);
        int main(void)
        {
            struct rlimit limit = {1 << 20, 1 << 20};
            cuzk_trace_span span;
            setrlimit(RLIMIT_FSIZE, &limit);
            cuzk_trace_begin(&span, &S, 0, 0);
            cuzk_trace_end(&span);
            puts(cuzk_trace_problem());
            return 0;
        }
    """)
    assert "File too large" in bare_runtime.execute(program)
    assert bare_runtime.rings() == []


SIGNALS = """
#include "cuzk_trace.h"
#include <sys/time.h>
static cuzk_trace_name OUTER = CUZK_TRACE_NAME("outer", "i", "j", 0);
static cuzk_trace_name INNER = CUZK_TRACE_NAME("inner", "i", "j", 0);
static cuzk_trace_name HANDLER = CUZK_TRACE_NAME("handler", "i", "j", 0);
static volatile int64_t handled;
static void handler(int signal)
{
    cuzk_trace_span span;
    cuzk_trace_begin(&span, &HANDLER, handled, 3 * handled);
    cuzk_trace_end(&span);
    handled += signal == SIGALRM;
}
int main(int count, char **args)
{
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    cuzk_trace_span outer, inner;
    int64_t i, n = count > 1 ? atoll(args[1]) : 0;
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &often, NULL); /* before the ring is made: it interrupts that too */
    for (i = 0; i < n; i++) {
        cuzk_trace_begin(&outer, &OUTER, i, 3 * i);
        cuzk_trace_begin(&inner, &INNER, i, 3 * i);
        cuzk_trace_end(&inner);
        cuzk_trace_end(&outer);
        if (i % 5000 == 0)
            usleep(100); /* the reader needs to see some of it */
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%lld", (long long)handled);
    return cuzk_trace_problem() != NULL;
}
"""


@pytest.mark.parametrize("spans", [1_000_000, pytest.param(30_000_000, marks=pytest.mark.slow)])
def test_signal_handlers_that_trace(bare_runtime, compiler, spans):
    """Interrupting a record, a handler's own is dropped and counted: none is torn and none is missing."""
    handled = int(bare_runtime.execute(compiler(SIGNALS), str(spans)))
    assert handled > 100
    with bare_runtime.ring() as ring:
        ((_, part),) = ring.poll().records
        assert (part["a1"] == 3 * part["a0"]).all() and (part["t0"] <= part["t1"]).all()
        names = np.array([name.text for name in ring.names])[part["name"]]
        assert set(names) <= {"outer", "inner", "handler"}
        outer = part[names == "outer"]
        assert (np.diff(outer["a0"]) == 1).all() and int(outer["a0"][-1]) == spans - 1
        assert len(np.unique(part["id"])) == len(part), "no id is given twice"
        assert ring.written() + header(ring, "dropped") == 2 * spans + handled


WRITER = """
#include "cuzk_trace.h"
static cuzk_trace_name S = CUZK_TRACE_NAME("s", "i", "check", 0);
static volatile sig_atomic_t stopped;
static void stop(int signal) { stopped = signal; }
int main(int count, char **args)
{
    cuzk_trace_span span;
    uint64_t i, pause = count > 1 ? strtoull(args[1], NULL, 10) : 0;
    signal(SIGTERM, stop);
    puts(cuzk_trace_open());
    fflush(stdout);
    for (i = 0; !stopped; i++) {
        cuzk_trace_begin(&span, &S, (int64_t)i, (int64_t)(i * 0x9E3779B97F4A7C15u));
        cuzk_trace_end(&span);
        if (pause && i % pause == 0)
            usleep(1000);
    }
    printf("%llu", (unsigned long long)i);
    return cuzk_trace_problem() != NULL;
}
"""

READER = """
    import os, sys, time
    import numpy as np
    from cuzk_tracer import reader
    ring = reader.Ring(sys.argv[1])
    torn = read = 0
    wanted = int(sys.argv[2])
    os.sched_setaffinity(0, {int(sys.argv[3])})
    print("attached", flush=True)
    poll = None
    while poll is None or (poll.alive and read < wanted):
        poll = ring.poll()
        for _, part in poll.records:
            i = part["a0"].astype(np.uint64)
            whole = part["a1"].astype(np.uint64) == i * np.uint64(0x9E3779B97F4A7C15)
            whole &= part["t0"] <= part["t1"]
            whole &= (part["id"] == (i + np.uint64(1)).astype(np.uint32)) & (part["name"] == 2)
            torn += len(part) - int(whole.sum()) + int((np.diff(i) < 1).sum())
            read += len(part)
        time.sleep(0.01)
    print(read, torn, poll.lost + poll.skipped, ring.written(), flush=True)
"""


@pytest.mark.parametrize(
    ("readers", "each", "pause"), [(3, 200_000, 5_000), pytest.param(8, 4_000_000, 0, marks=pytest.mark.slow)]
)
def test_many_readers_one_stopped_one_killed(bare_runtime, compiler, readers, each, pause):
    """The writer runs (flat out) on one core, the readers share the other. Nothing that is read is torn."""
    cores = sorted(os.sched_getaffinity(0))
    writer = subprocess.Popen(
        [compiler(WRITER), str(pause)],
        stdout=subprocess.PIPE,
        text=True,
        env=bare_runtime.env,
        preexec_fn=lambda: os.sched_setaffinity(0, {cores[0]}),  # noqa: PLW1509 (no threads here)
    )
    attached = []
    try:
        path = writer.stdout.readline().strip()
        command = [sys.executable, "-c", textwrap.dedent(READER), path, str(each), str(cores[-1])]
        attached = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(readers + 2)]
        for process in attached:
            assert process.stdout.readline() == "attached\n"
        attached[0].send_signal(signal.SIGSTOP)
        attached[1].kill()
        lines = [process.stdout.read() for process in attached[2:]]
        attached[0].send_signal(signal.SIGCONT)
        writer.terminate()
        lines.append(attached[0].stdout.read())
        written = int(writer.stdout.read())
    finally:
        for process in (writer, *attached):
            process.kill()
            process.wait()
    counts = [list(map(int, line.split())) for line in lines]
    assert [torn for _, torn, _, _ in counts] == [0] * (readers + 1)
    assert all(read >= each for read, _, _, _ in counts[:-1])
    assert sum(read for read, *_ in counts) >= readers * each
    with bare_runtime.ring() as ring:
        assert ring.written() == written
    for read, _, missed, seen in counts:
        assert read + missed <= seen


def test_a_viewer_switches_the_level(runtime):
    """From outside, by the word in the file: 0 off, 1 coarse, 2 all. Pure Python looks once a second."""
    process = runtime.start("""
        import cuzk_tracer, sys, time
        STAGE = cuzk_tracer.span("stage", a0="round", stage=True); FINE = cuzk_tracer.span("fine", a0="round")
        cuzk_tracer.open()
        print(cuzk_tracer.ring_path(), flush=True)
        for line in sys.stdin:
            until = time.monotonic() + (0.05 if cuzk_tracer.writer() == "native" else 1.1)
            while time.monotonic() < until:
                with STAGE(0):
                    with FINE(0): pass
                time.sleep(0.01)
            with STAGE(int(line)):
                with FINE(int(line)): pass
            print(flush=True)
    """)
    path = process.stdout.readline().strip()
    for number, level in enumerate((1, 0, 2, 0), start=1):
        with Path(path).open("r+b") as file:
            file.seek(116)
            file.write(level.to_bytes(4, "little"))
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        process.stdout.readline()
    with reader.Ring(path) as ring:
        poll = ring.poll()
        seen = [
            (ring.names[int(r["name"])].text, int(r["a0"]))
            for _, part in poll.records
            for r in part
            if r["a0"]
        ]
    assert seen == [("stage", 1), ("fine", 3), ("stage", 3)]


def test_import_is_quick_enough(runtime):
    """Not the figure (that is for the benchmark): that nothing heavy has crept in, counted in modules."""
    loaded = json.loads(
        runtime.run("""
            import sys, json
            before = set(sys.modules)
            import cuzk_tracer
            print(json.dumps(sorted(set(sys.modules) - before)))
        """)
    )
    if runtime.writer == "native":
        assert loaded == ["cuzk_tracer", "cuzk_tracer._native"]
    assert len(loaded) < 25
