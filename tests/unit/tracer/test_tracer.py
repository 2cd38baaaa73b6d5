"""What a traced program writes, seen from outside."""

import errno
import os
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from cuzk_tracer import layout, places, reader, sweep


def rows(ring: reader.Ring) -> list[tuple[str, np.void]]:
    """All records of all threads with their names."""
    return [(ring.names[int(row["name"])].text, row) for _, part in ring.poll().records for row in part]


def test_import_loads_the_standard_library_alone(runtime):
    loaded = runtime.run("""
        import sys
        before = set(sys.modules)
        import cuzk_tracer
        print(*sorted(set(sys.modules) - before))
    """).split()
    tops = {name.partition(".")[0] for name in loaded}
    assert tops - set(sys.stdlib_module_names) == {"cuzk_tracer"}
    # Each of these takes longer to import than all of the tracer.
    slow = {"typing", "dataclasses", "inspect", "logging", "threading", "uuid", "json", "pathlib", "ctypes"}
    assert not slow & set(loaded)
    assert not runtime.rings(), "the ring is made at the first span, not at import"


def test_spans_with_arguments_parents_and_depths(runtime):
    out = runtime.run("""
        import cuzk_tracer, time
        OUTER = cuzk_tracer.span("outer", a0="points", a1="share", stage=True, faults=True)
        INNER = cuzk_tracer.span("inner")
        assert cuzk_tracer.span("inner") is INNER
        t0 = time.monotonic_ns()
        with OUTER(7, 2.5):
            with INNER:
                pass
            with INNER(-3, 2**63 - 1):
                with INNER: pass
        print(t0, time.monotonic_ns())
    """)
    began, ended = map(int, out.split())
    ring = runtime.ring()
    records = rows(ring)
    shape = [(name, int(r["id"]), int(r["parent"]), int(r["depth"])) for name, r in records]
    assert shape == [("inner", 2, 1, 1), ("inner", 4, 3, 2), ("inner", 3, 1, 1), ("outer", 1, 0, 0)]
    outer, second = records[3][1], records[2][1]
    assert int(outer["a0"]) == 7
    assert struct.pack("<q", int(outer["a1"])) == struct.pack("<d", 2.5)
    assert int(outer["track"]) == layout.TRACK_FAULTS | layout.TRACK_F64_A1
    assert (int(second["a0"]), int(second["a1"])) == (-3, 2**63 - 1)
    assert began <= int(outer["t0"]) <= int(records[0][1]["t0"]) <= int(outer["t1"]) <= ended
    assert ring.names[2] == reader.Name("outer", "points", "share", True, True)
    assert all(int(r["kind"]) == layout.KIND_SPAN for _, r in records)


def test_arguments_that_fit_nowhere_are_clamped_or_zero(runtime):
    runtime.run("""
        import cuzk_tracer
        class Odd:
            def __index__(self): raise RuntimeError
        S = cuzk_tracer.span("s")
        for value in (2**80, -2**80, True, "text", None, Odd(), float("nan")):
            with S(value): pass
    """)
    a0 = [int(r["a0"]) for _, r in rows(runtime.ring())]
    nan = int(np.float64("nan").view(np.int64))
    assert a0 == [2**63 - 1, -(2**63), 1, 0, 0, 0, nan]


def test_decorators_counters_marks_and_metadata(runtime):
    runtime.run("""
        import cuzk_tracer, asyncio
        S = cuzk_tracer.span("call")
        @S
        def f(x, *, y):
            "doc"
            return x + y
        assert f(1, y=2) == 3 and f.__name__ == "f" and f.__doc__ == "doc"
        @S
        async def g():
            await asyncio.sleep(0)
            return 5
        assert asyncio.run(g()) == 5
        with S:
            cuzk_tracer.counter("queue", 3)
            cuzk_tracer.counter("load", 0.5)
            cuzk_tracer.mark("go", 1, 2.0)
        cuzk_tracer.meta(backend="cpu", job="one", threads=4)
        cuzk_tracer.meta(job="two")
    """)
    ring = runtime.ring()
    seen = [(name, int(r["kind"]), int(r["parent"])) for name, r in rows(ring)]
    assert seen == [
        ("call", layout.KIND_SPAN, 0),
        ("call", layout.KIND_ASYNC, 0),
        ("queue", layout.KIND_COUNTER, 3),
        ("load", layout.KIND_COUNTER, 3),
        ("go", layout.KIND_INSTANT, 3),
        ("call", layout.KIND_SPAN, 0),
    ]
    assert {k: v for k, v in ring.meta.items() if k != "command"} == {
        "backend": "cpu", "job": "two", "threads": "4",
    }  # fmt: skip


def test_exceptions_are_flagged_and_pass_through(runtime):
    runtime.run("""
        import cuzk_tracer
        A = cuzk_tracer.span("a"); B = cuzk_tracer.span("b")
        try:
            with A:
                with B(1):
                    raise KeyError("x")
        except KeyError as error:
            assert error.args == ("x",)
        with A: pass
    """)
    kinds = [(name, int(r["kind"])) for name, r in rows(runtime.ring())]
    failed = layout.KIND_SPAN | layout.KIND_ERR
    assert kinds == [("b", failed), ("a", failed), ("a", layout.KIND_SPAN)]


def test_a_leaked_span_is_closed_by_the_one_around_it_and_flagged(runtime):
    runtime.run("""
        import cuzk_tracer
        A = cuzk_tracer.span("a"); B = cuzk_tracer.span("b"); C = cuzk_tracer.span("c")
        C.__exit__(None, None, None)            # never entered: nothing happens
        with A:
            B.__enter__()
            C.__enter__()
        B.__exit__(None, None, None)            # already closed with A
        with A: pass
    """)
    seen = [(name, int(r["track"]), int(r["depth"]), int(r["parent"])) for name, r in rows(runtime.ring())]
    flagged = layout.TRACK_UNBALANCED
    assert seen == [("c", flagged, 2, 2), ("b", flagged, 1, 1), ("a", 0, 0, 0), ("a", 0, 0, 0)]


def test_nesting_deeper_than_the_visible_stack(runtime):
    runtime.run("""
        import cuzk_tracer
        S = cuzk_tracer.span("s")
        def down(n):
            with S:
                if n: down(n - 1)
        down(299)
    """)
    records = [r for _, r in rows(runtime.ring())]
    assert [int(r["depth"]) for r in records] == [min(d, 255) for d in range(299, -1, -1)]
    assert [int(r["parent"]) for r in records] == list(range(299, -1, -1))


def test_levels(runtime):
    code = """
        import cuzk_tracer
        STAGE = cuzk_tracer.span("stage", stage=True); FINE = cuzk_tracer.span("fine")
        def both():
            with STAGE(1):
                with FINE: pass
        both()
        cuzk_tracer.disable(); both(); cuzk_tracer.counter("c", 1); cuzk_tracer.mark("m")
        cuzk_tracer.enable("coarse"); both()
        cuzk_tracer.enable()
        with FINE:                      # entered while on, left while off: still one whole span
            cuzk_tracer.disable()
            with FINE: pass
        print(cuzk_tracer.ring_path(), cuzk_tracer.problem())
    """
    out = runtime.run(code)
    assert out.endswith(".ring None\n")
    assert [name for name, _ in rows(runtime.ring())] == ["fine", "stage", "stage", "fine"]


def test_off_by_the_environment_makes_no_file(runtime):
    out = runtime.run(
        """
        import cuzk_tracer
        S = cuzk_tracer.span("s")
        with S, S(5): pass
        with cuzk_tracer.async_span("a"): pass
        cuzk_tracer.mark("m"); cuzk_tracer.meta(a="b"); cuzk_tracer.add_faults(1, 1)
        print(cuzk_tracer.open(), cuzk_tracer.ring_path(), cuzk_tracer.problem())
        """,
        CUZK_TRACE="off",
    )
    assert out == "None None None\n"
    assert runtime.rings() == []


def test_odd_names_and_values_do_not_raise(runtime):
    runtime.run("""
        import cuzk_tracer
        class Odd:
            def __str__(self): raise RuntimeError
        cuzk_tracer.meta(a=Odd(), b=5)
        cuzk_tracer.counter(["list"], "three"); cuzk_tracer.mark(7)
        with cuzk_tracer.span(5, a0=None, a1=6): pass
        with cuzk_tracer.span("\\udc80 half a character"): pass
        cuzk_tracer.mark("x" * 10_000)
        for i in range(100): cuzk_tracer.meta(**{f"k{i}": str(i) + "v" * 4000})
        assert "string area is full" in cuzk_tracer.problem()
    """)
    ring = runtime.ring()
    names = [name for name, _ in rows(ring)]
    assert names == ["['list']", "7", "5", "? half a character", "x" * 4096]
    assert ring.meta["b"] == "5" and "a" not in ring.meta


def test_an_off_span_swallows_no_exception(runtime):
    runtime.run(
        """
        import cuzk_tracer
        try:
            with cuzk_tracer.span("s"): raise ValueError
        except ValueError: pass
        else: raise SystemExit(1)
        """,
        CUZK_TRACE="off",
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's folder")
def test_nothing_raises_where_no_ring_can_be_written(runtime):
    """Every folder is refused: one is a file, the other belongs to somebody else."""
    blocked = runtime.folder / "cuzk"
    blocked.write_text("")
    uid = 1_000_000 + os.getpid()
    theirs = Path(f"/dev/shm/cuzk-{uid}")
    theirs.mkdir(mode=0o700)
    runtime.folder.chmod(0o755)
    try:
        out = runtime.run(f"""
            import os
            import cuzk_tracer
            S = cuzk_tracer.span("s", faults=True)
            @S
            def f(): return 1
            os.setuid({uid})
            with S, S(1): cuzk_tracer.counter("c", 1)
            with cuzk_tracer.async_span("a"): cuzk_tracer.flow("f", cuzk_tracer.flow("f"))
            assert f() == 1
            cuzk_tracer.meta(key="value"); cuzk_tracer.mark("m"); cuzk_tracer.add_faults(1, 2)
            print(cuzk_tracer.open(), cuzk_tracer.problem())
        """)
    finally:
        theirs.rmdir()
    assert out.startswith("None cannot write a trace ring in ")
    assert (
        f"{blocked}: {os.strerror(errno.EEXIST)}" in out
        or f"{blocked}: not a private folder" in out
        or (f"{blocked} is not a private folder" in out)
    )
    assert str(theirs) in out


def test_a_read_only_folder(runtime, tmp_path):
    """As on a file system that is mounted read-only: /proc/self is one for everybody."""
    out = runtime.run(
        """
        import cuzk_tracer
        with cuzk_tracer.span("s"): pass
        print(cuzk_tracer.ring_path())
        """,
        XDG_RUNTIME_DIR="/proc/self",
    )
    path = Path(out.strip())
    assert path.parent == Path(f"/dev/shm/cuzk-{os.getuid()}"), "the second folder served"
    path.unlink()


def test_a_full_file_system_is_a_problem_and_no_crash(runtime, full_disk):
    """Allocation fails as it does on a full disk: at the start, and for a later thread's ring alone."""
    code = """
        import cuzk_tracer, threading
        S = cuzk_tracer.span("s")
        def work():
            for _ in range(10):
                with S(1):
                    with S: pass
        work()
        thread = threading.Thread(target=work); thread.start(); thread.join()
        print(cuzk_tracer.problem())
    """
    out = runtime.run(code, **full_disk(0))
    assert out.count(os.strerror(errno.ENOSPC)) == 2, "it tried both folders"
    assert runtime.rings() == []
    out = runtime.run(code, **full_disk(2))
    assert "no room for another thread's ring" in out
    poll = runtime.ring().poll()
    assert sum(len(part) for _, part in poll.records) == 20
    assert poll.lost == 20, "the thread without a ring is counted to the last record"


def test_threads_have_slots_of_their_own(runtime):
    out = runtime.run("""
        import cuzk_tracer, threading
        S = cuzk_tracer.span("s", a0="i"); T = cuzk_tracer.span("t")
        tids = {}
        def work(i):
            tids[i] = threading.get_native_id()
            for _ in range(1000):
                with S(i):
                    with T: pass
        threads = [threading.Thread(target=work, args=(i,), name=f"worker-{i}") for i in range(4)]
        work(9)
        for t in threads: t.start()
        for t in threads: t.join()
        print(tids)
    """)
    tids = eval(out)
    ring = runtime.ring()
    poll = ring.poll()
    assert poll.lost == 0
    by_name = {thread.name: (thread, part) for thread, part in poll.records}
    assert set(by_name) == {"main", "worker-0", "worker-1", "worker-2", "worker-3"}
    for i, name in ((9, "main"), *((i, f"worker-{i}") for i in range(4))):
        thread, part = by_name[name]
        assert thread.tid == tids[i]
        outer = part[part["name"] == 2]
        assert len(part) == 2000 and (outer["a0"] == i).all()
        parent = dict(zip(outer["id"].tolist(), outer, strict=True))
        for inner in part[part["name"] == 3]:
            around = parent[int(inner["parent"])]
            assert around["t0"] <= inner["t0"] <= inner["t1"] <= around["t1"]


def test_a_dead_threads_slot_is_used_again_and_its_records_stay(runtime):
    runtime.run("""
        import cuzk_tracer, threading, time
        S = cuzk_tracer.span("s", a0="i")
        def work(i):
            with S(i): pass
        for i in range(3):
            thread = threading.Thread(target=work, args=(i,), name=f"t{i}"); thread.start(); thread.join()
            time.sleep(1.05)     # a slot rests for a second
    """)
    ring = runtime.ring()
    poll = ring.poll()
    slots = {thread.slot for thread, _ in poll.records}
    assert slots == {1}, "one slot was enough"
    assert [int(r["a0"]) for _, part in poll.records for r in part] == [0, 1, 2]
    assert [(thread.name, len(part)) for thread, part in poll.records] == [("ended thread", 2), ("t2", 1)]
    assert poll.lost == 0 and poll.open == []


def test_fork_begins_a_session_that_names_its_parent(runtime):
    out = runtime.run("""
        import cuzk_tracer, os
        S = cuzk_tracer.span("s", a0="who"); T = cuzk_tracer.span("t")
        with S(1):
            pid = os.fork()
            with T: pass
            if pid: os.waitpid(pid, 0)
        if pid == 0:
            with S(2): pass
            print(os.getpid(), os.getppid(), flush=True)
            os._exit(0)
    """)
    child, parent = map(int, out.split())
    rings = {ring.pid: ring for ring in map(reader.Ring, runtime.rings())}
    assert set(rings) == {child, parent}
    assert rings[child].parent_pid == parent
    assert rings[child].parent_uuid == rings[parent].uuid != rings[child].uuid
    assert rings[parent].parent_pid == 0
    assert [(name, int(r["a0"])) for name, r in rows(rings[parent])] == [("t", 0), ("s", 1)]
    # The span that was open across the fork is the parent's alone.
    assert [(name, int(r["a0"]), int(r["depth"])) for name, r in rows(rings[child])] == [
        ("t", 0, 0), ("s", 2, 0),
    ]  # fmt: skip


def test_an_executed_child_learns_the_session_from_the_environment(runtime):
    out = runtime.run("""
        import cuzk_tracer, subprocess, sys, os
        cuzk_tracer.open()
        code = "import cuzk_tracer, os; cuzk_tracer.open(); print(os.getpid())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        print(os.getpid(), done.stdout)
    """)
    parent, child = map(int, out.split())
    rings = {ring.pid: ring for ring in map(reader.Ring, runtime.rings())}
    assert rings[child].parent_pid == parent
    assert rings[child].parent_uuid == rings[parent].uuid


def test_async_spans_overlap_and_know_their_parent(runtime):
    runtime.run("""
        import cuzk_tracer, asyncio
        JOB = cuzk_tracer.async_span("job", a0="job"); STEP = cuzk_tracer.async_span("step")
        async def job(i):
            async with JOB(i):
                await asyncio.sleep(0.001 * (3 - i))
                async with STEP:
                    await asyncio.sleep(0)
        async def main():
            await asyncio.gather(*(job(i) for i in range(3)))
        asyncio.run(main())
    """)
    records = rows(runtime.ring())
    assert {int(r["kind"]) for _, r in records} == {layout.KIND_ASYNC}
    jobs = {int(r["id"]): r for name, r in records if name == "job"}
    assert sorted(int(r["a0"]) for r in jobs.values()) == [0, 1, 2]
    latest, first = max(int(r["t0"]) for r in jobs.values()), min(int(r["t1"]) for r in jobs.values())
    assert latest < first, "all three ran at once"
    steps = [r for name, r in records if name == "step"]
    assert {int(r["parent"]) for r in steps} == set(jobs)
    for step in steps:
        around = jobs[int(step["parent"])]
        assert around["t0"] <= step["t0"] <= step["t1"] <= around["t1"]


def test_the_folder_and_the_file_are_private(runtime):
    runtime.run("import cuzk_tracer; cuzk_tracer.open()")
    (path,) = runtime.rings()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert re.fullmatch(r"\d+\.\d+\.ring", path.name)
    assert path.stat().st_blocks * 512 < 6 << 20, "sparse: only what is used takes room"


def test_finished_rings_do_not_pile_up(runtime):
    for _ in range(sweep.FINISHED_KEPT + 3):
        runtime.run("import cuzk_tracer; cuzk_tracer.open()")
    assert len(runtime.rings()) == sweep.FINISHED_KEPT + 1
    for _ in range(sweep.CRASHED_KEPT + 3):
        runtime.run("import cuzk_tracer, os; cuzk_tracer.open(); os._exit(0)")
    assert len(runtime.rings()) == sweep.FINISHED_KEPT + sweep.CRASHED_KEPT + 1
    runtime.run("import cuzk_tracer; cuzk_tracer.open()")
    kept = max(runtime.rings(), key=lambda path: path.stat().st_mtime_ns)
    ring = reader.Ring(kept)
    assert ring.ended_ns > 0 and not ring.alive()


def test_names_beyond_the_table_share_one(runtime):
    runtime.run("""
        import cuzk_tracer
        spans = [cuzk_tracer.span(f"n{i}") for i in range(1100)]
        with spans[5]: pass
        with spans[1099]: pass
        for i in range(600): cuzk_tracer.mark(f"m{i}")
        assert "names" in cuzk_tracer.problem()
    """)
    names = [name for name, _ in rows(runtime.ring())]
    assert names[:2] == ["n5", "<overflow>"]
    assert set(names[2:]) == {"<overflow>"}


def test_the_layout_leaves_no_gap_for_a_compiler_to_differ():
    tables = {
        "HEADER": (layout.HEADER, layout.HEADER_BYTES),
        "ANCHOR": (layout.ANCHOR, layout.ANCHOR_BYTES),
        "NAME": (layout.NAME, layout.NAME_BYTES),
        "SLOT": (layout.SLOT, layout.SLOT_BYTES),
        "OPEN": (layout.OPEN, layout.OPEN_BYTES),
        "RECORD": (layout.RECORD, layout.RECORD_BYTES),
        "META_ENTRY": (layout.META_ENTRY, layout.META_BYTES),
    }
    for fields, size in tables.values():
        end = 0
        for _, offset, code in fields:
            width = struct.calcsize("<" + code)
            assert offset >= end and offset % min(width, 8) == 0
            end = offset + width
        assert end <= size
    # reference/tracing.md 1.1: the table of the record, and a record's and a header's size.
    record = {name: offset for name, offset, _ in layout.RECORD}
    assert record == {
        "t0": 0, "t1": 8, "name": 16, "id": 20, "parent": 24, "kind": 28, "depth": 29, "track": 30,
        "a0": 32, "a1": 40, "minflt": 48, "majflt": 52, "corr": 56, "index": 60,
    }  # fmt: skip


def test_who_is_alive():
    pid = os.getpid()
    assert places.alive(pid, places.start_time(pid))
    assert not places.alive(pid, places.start_time(pid) + 1), "a reused pid is somebody else"
    assert not places.alive(2**22 + 1, 5)


@pytest.mark.parametrize("variable", ["/run/user/7", "relative", ""])
def test_folders(monkeypatch, variable):
    monkeypatch.setenv("XDG_RUNTIME_DIR", variable)
    shm = f"/dev/shm/cuzk-{os.getuid()}"
    assert places.folders() == (["/run/user/7/cuzk", shm] if variable.startswith("/") else [shm])
    assert Path(shm).is_absolute()
