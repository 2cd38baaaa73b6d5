"""What tracing costs: `python tests/benchmarks/tracer.py [--rounds N] [--readers]`.

Nanoseconds an iteration of every form of span, tracing on and off, by both writers and through the C header,
beside nvtx, viztracer and the OpenTelemetry SDK in the same run (those that are installed), and what the
import costs. Minimum (the machine) and median (the experience) of N rounds, in each of which every form has
its turn; nothing is taken off: the empty loop stands in the table. `--readers` measures instead whether ten
attached readers, one of them stopped and one killed, cost the writer anything. Exits 1 when a minimum is over
three times its goal: that is no noise.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SPANS = 5_000
GOALS = {
    ("native", "with SPAN:"): (60, 40),
    ("native", "with SPAN(a0, a1):"): (130, None),
    ("python", "with SPAN:"): (1000, 80),
    ("c", "record"): (35, 2),
}
Body = Callable[[int], None]
Timings = dict[str, list[float]]


def forms(tracer: Any) -> dict[str, Body]:
    """Every form of span that the tracer has; each takes the number of iterations."""
    plain, stage = tracer.span("plain"), tracer.span("faults", faults=True)
    arguments = tracer.span("arguments", a0="points", a1="bits")
    whole = tracer.async_span("async")
    counter, mark, flow = tracer.counter, tracer.mark, tracer.flow

    def function() -> None:
        pass

    decorated = plain(function)

    def empty(count: int) -> None:
        for _ in itertools.repeat(None, count):
            pass

    def span(count: int) -> None:
        for _ in itertools.repeat(None, count):
            with plain:
                pass

    def two_integers(count: int) -> None:
        for _ in itertools.repeat(None, count):
            with arguments(65_536, 13):
                pass

    def float_and_integer(count: int) -> None:
        for _ in itertools.repeat(None, count):
            with arguments(0.5, 13):
                pass

    def faults(count: int) -> None:
        for _ in itertools.repeat(None, count):
            with stage:
                pass

    def call(count: int) -> None:
        for _ in itertools.repeat(None, count):
            function()

    def decorator(count: int) -> None:
        for _ in itertools.repeat(None, count):
            decorated()

    def suspended(count: int) -> None:
        for _ in itertools.repeat(None, count):
            with whole:
                pass

    def counters(count: int) -> None:
        for _ in itertools.repeat(None, count):
            counter("queue", 3)

    def marks(count: int) -> None:
        for _ in itertools.repeat(None, count):
            mark("ready", 1, 2)

    def flows(count: int) -> None:
        for _ in itertools.repeat(None, count):
            flow("handover", 7)

    return {
        "(the empty loop)": empty,
        "with SPAN:": span,
        "with SPAN(a0, a1):": two_integers,
        "... one a float": float_and_integer,
        "... with page faults": faults,
        "(a plain call)": call,
        "@SPAN": decorator,
        "with ASYNC_SPAN:": suspended,
        "counter": counters,
        "mark": marks,
        "flow": flows,
    }


def peers() -> dict[str, Body]:
    """The usual span of each library that is installed."""
    found: dict[str, Body] = {}
    if importlib.util.find_spec("nvtx"):
        import nvtx

        reused = nvtx.annotate("plain")

        def annotate(count: int) -> None:
            for _ in itertools.repeat(None, count):
                with nvtx.annotate("plain"):
                    pass

        def annotate_reused(count: int) -> None:
            for _ in itertools.repeat(None, count):
                with reused:
                    pass

        found["nvtx annotate, no tool"] = annotate
        found["... one object, no tool"] = annotate_reused
    if importlib.util.find_spec("viztracer"):
        import viztracer

        tracer = viztracer.VizTracer(verbose=0, tracer_entries=200_000)

        def log_event(count: int) -> None:
            tracer.start()
            for _ in itertools.repeat(None, count):
                with tracer.log_event("plain"):
                    pass
            tracer.stop()
            tracer.clear()

        found["viztracer log_event"] = log_event
    if importlib.util.find_spec("opentelemetry") and importlib.util.find_spec("opentelemetry.sdk"):
        from opentelemetry.sdk import trace
        from opentelemetry.sdk.trace import export

        class Nowhere(export.SpanExporter):
            def export(self, spans: Any) -> Any:
                return export.SpanExportResult.SUCCESS

        provider = trace.TracerProvider()
        provider.add_span_processor(export.BatchSpanProcessor(Nowhere()))
        telemetry = provider.get_tracer("benchmark")

        def current_span(count: int) -> None:
            for _ in itertools.repeat(None, count // 5):  # five times the others' cost would take too long
                with telemetry.start_as_current_span("plain"):
                    pass

        found["opentelemetry batch"] = current_span
    return found


def measure(bodies: dict[str, Body], rounds: int) -> Timings:
    """ns an iteration of each, once a round."""
    taken: Timings = {name: [] for name in bodies}
    for round_ in range(rounds + 1):
        for name, body in bodies.items():
            count = SPANS if name != "opentelemetry batch" else SPANS // 5
            start = time.perf_counter_ns()
            body(SPANS)
            if round_:  # the first warms up
                taken[name].append((time.perf_counter_ns() - start) / count)
    return taken


def child(rounds: int) -> None:
    """In a process of one writer: print the timings of all forms, on and off, and of the peers."""
    import cuzk_tracer

    bodies = forms(cuzk_tracer)
    enabled = measure(bodies | (peers() if cuzk_tracer.writer() == "native" else {}), rounds)
    cuzk_tracer.disable()
    print(json.dumps([cuzk_tracer.writer(), enabled, measure(bodies, rounds)]))


C_SOURCE = """
#include "cuzk_trace.h"
static cuzk_trace_name SPAN = CUZK_TRACE_NAME("plain", "i", "seven", 0);
void run(int rounds, int spans)
{
    int level, round, i;
    cuzk_trace_span span;
    for (level = CUZK_TRACE_ALL; level >= 0; level -= CUZK_TRACE_ALL)
        for (round = 0, cuzk_trace_enable((uint32_t)level); round <= rounds; round++) {
            int64_t start = cuzk_trace__monotonic();
            for (i = 0; i < spans; i++) {
                cuzk_trace_begin(&span, &SPAN, i, 7);
                __asm__ volatile("" : : "r"(&span) : "memory"); /* something happens inside */
                cuzk_trace_end(&span);
            }
            if (round)
                printf("%d %f\\n", level, (double)(cuzk_trace__monotonic() - start) / spans);
        }
}
"""
C_MAIN = """
#include <dlfcn.h>
#include <stdlib.h>
void run(int, int);
int main(int count, char **args)
{
    void *library = count > 3 ? dlopen(args[3], RTLD_NOW) : NULL;
    void (*other)(int, int) = library ? (void (*)(int, int))dlsym(library, "run") : NULL;
    (other ? other : run)(atoi(args[1]), atoi(args[2]));
    return 0;
}
"""


def compiled(folder: Path) -> tuple[Path, Path] | None:
    """The loop in C as a program and as a shared library; None without a compiler."""
    import cuzk_tracer

    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source, main = folder / "run.c", folder / "main.c"
    source.write_text(C_SOURCE)
    main.write_text(C_MAIN)
    program, library = folder / "program", folder / "library.so"
    flags = [compiler, "-O2", f"-I{cuzk_tracer.header()}", "-pthread"]
    subprocess.run([*flags, "-o", program, source, main, "-ldl"], check=True)
    subprocess.run([*flags, "-shared", "-fPIC", "-o", library, source], check=True)
    return program, library


def in_c(command: list[str | Path], rounds: int) -> tuple[list[float], list[float]]:
    """ns a span with tracing on and off."""
    lines = subprocess.run(
        [command[0], str(rounds), "200000", *command[1:]], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    taken: dict[str, list[float]] = {"2": [], "0": []}
    for line in lines:
        level, value = line.split()
        taken[level].append(float(value))
    return taken["2"], taken["0"]


def fresh(code: str) -> float:
    """ms that `code` takes in a fresh interpreter, its start not counted."""
    timed = f"import time; t = time.perf_counter_ns(); {code}; print(time.perf_counter_ns() - t)"
    done = subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True)
    return int(done.stdout) / 1e6


def pair(values: list[float]) -> str:
    return f"{min(values):9,.1f} / {statistics.median(values):9,.1f}"


def costs(rounds: int, folder: Path) -> int:
    """Print all costs; 1 when one is far over its goal."""
    failed = False

    def line(writer: str, name: str, on: list[float], off: list[float] | None) -> None:
        nonlocal failed
        goals = GOALS.get((writer, name), (None, None))
        beside = ""
        for values, goal in zip((on, off), goals, strict=True):
            if goal is not None and values is not None:
                beside += f"  goal {goal}" + ("" if min(values) <= goal else " (over)")
                failed |= min(values) > 3 * goal
        print(f"  {name:24} {pair(on)}   {pair(off) if off else '':21}{beside}")

    for writer in ("native", "python"):
        command = [sys.executable, __file__, "--child", "--rounds", str(rounds)]
        done = subprocess.run(
            command, env=os.environ | {"CUZK_TRACER": writer}, capture_output=True, text=True, check=False
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return 1
        name, enabled, disabled = json.loads(done.stdout)
        if name != writer:
            print("the C extension was not built: no figures of it")
            continue
        print(f"\n{writer} writer, Python {sys.version.split()[0]}: ns, min / median on and off")
        for form in disabled:
            line(writer, form, enabled[form], disabled[form])
        ours = enabled["with SPAN:"]
        beside = {form: values for form, values in enabled.items() if form not in disabled}
        if writer == "native":
            print("\nbeside it, in the same run: ns, and how many times `with SPAN:`")
            for form, values in beside.items():
                least, middle = min(values) / min(ours), statistics.median(values) / statistics.median(ours)
                print(f"  {form:24} {pair(values)}   x {least:.1f} / {middle:.1f}")
            for missing, start in (("nvtx", "nvtx"), ("viztracer", "viz"), ("opentelemetry-sdk", "open")):
                if not any(form.startswith(start) for form in beside):
                    print(f"  {missing}: not installed")
    made = compiled(folder)
    print("\ncuzk_trace.h from C: ns, min / median on and off")
    if made is None:
        print("  no C compiler")
    else:
        line("c", "record", *in_c([made[0]], rounds))
        line("c", "... in a shared library", *in_c([made[0], made[1]], rounds))
    print("\nin a fresh interpreter: ms, min / median")
    starts: Timings = {}
    for round_ in range(rounds + 1):
        for writer in ("native", "python"):
            os.environ["CUZK_TRACER"] = writer
            for code in ("import cuzk_tracer", "import cuzk_tracer; cuzk_tracer.open()"):
                value = fresh(code)
                if round_:
                    starts.setdefault(f"{writer}:{code[6:]}", []).append(value)
    for name, taken in starts.items():
        goal = "  goal 5" if name.endswith(":cuzk_tracer") else ""
        failed |= bool(goal) and min(taken) > 15
        print(
            f"  {name.replace(':', ': ').replace('cuzk_tracer; cuzk_tracer.', 'and '):24} {pair(taken)}{goal}"
        )
    return int(failed)


WRITER = """
#include "cuzk_trace.h"
static cuzk_trace_name SPAN = CUZK_TRACE_NAME("plain", "i", "seven", 0);
static double now(void) /* of this thread's own time: what else runs on its core is not the readers' doing */
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}
int main(void)
{
    cuzk_trace_span span;
    puts(cuzk_trace_open());
    fflush(stdout);
    while (getchar() != EOF) { /* a window a byte */
        double start = now();
        for (int i = 0; i < 4000000; i++) {
            cuzk_trace_begin(&span, &SPAN, i, 7);
            cuzk_trace_end(&span);
        }
        printf("%f\\n", (now() - start) / 4000000);
        fflush(stdout);
    }
    return 0;
}
"""
READER = """
import sys, time
from cuzk_tracer import reader
ring = reader.Ring(sys.argv[1])
print(flush=True)
while ring.poll().alive:
    time.sleep(0.05)
"""


def readers(rounds: int, folder: Path) -> int:
    """The writer with ten readers that poll 20 times a second, and with all of them stopped, in turn."""
    import cuzk_tracer

    source, program = folder / "writer.c", folder / "writer"
    source.write_text(WRITER)
    flags = ["cc", "-O2", f"-I{cuzk_tracer.header()}", "-pthread", "-o", program, source]
    subprocess.run(flags, check=True)
    cores = sorted(os.sched_getaffinity(0))
    writer = subprocess.Popen(
        ["taskset", "-c", str(cores[0]), program], stdin=-1, stdout=-1, text=True, bufsize=0
    )
    assert writer.stdin and writer.stdout
    path = writer.stdout.readline().strip()
    command = ["taskset", "-c", str(cores[-1]), sys.executable, "-c", READER, path]
    attached = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(11)]
    for process in attached:
        assert process.stdout
        process.stdout.readline()
    attached.pop().kill()
    taken: dict[bool, list[float]] = {False: [], True: []}
    for round_ in range(2 * rounds + 2):
        reading = round_ % 2 == 1
        for process in attached[1:]:  # the first stays stopped for good
            process.send_signal(signal.SIGCONT if reading else signal.SIGSTOP)
        attached[0].send_signal(signal.SIGSTOP)
        writer.stdin.write(".")
        value = float(writer.stdout.readline())
        if round_ > 1:
            taken[reading].append(value)
    writer.stdin.close()
    for process in (writer, *attached):
        process.kill()
        process.wait()
    without, with_ = taken[False], taken[True]
    ratios = [b / a for a, b in zip(without, with_, strict=True)]
    print(f"ns of processor time a record, min / median of {rounds} windows of 4 million, in turn")
    print(f"  all readers stopped      {pair(without)}")
    print(f"  9 reading, 1 stopped     {pair(with_)}   (another was killed)")
    least = min(with_) / min(without)
    print(f"  ratio                    median {statistics.median(ratios):.3f}, of the minima {least:.3f}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--readers", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.rounds)
        return 0
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder, tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_RUNTIME_DIR"] = folder
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled files are part of an installation
        os.environ["PYTHONPYCACHEPREFIX"] = cache
        if args.readers:
            return readers(args.rounds, Path(folder))
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        return costs(args.rounds, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
