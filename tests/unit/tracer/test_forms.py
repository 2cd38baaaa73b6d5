"""Every way to enter and leave a span, and what must not mix: reused arguments, levels, threads, contexts."""

import subprocess
import sys

import pytest

from cuzk_tracer import layout


def records(runtime) -> list[tuple[str, int, int, int, int]]:
    with runtime.ring() as ring:
        return [
            (ring.names[int(r["name"])].text, int(r["parent"]), int(r["a0"]), int(r["a1"]), int(r["kind"]))
            for _, part in ring.poll().records
            for r in part
        ]


SPAN = layout.KIND_SPAN


def test_which_writer():
    pytest.importorskip("cuzk_tracer._native", reason="the C extension was not built")
    code = "import cuzk_tracer, os; print(cuzk_tracer.writer(), os.path.exists(cuzk_tracer.header()))"
    for variable, writer in (("", "native"), ("python", "python"), ("native", "native")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"CUZK_TRACER": variable},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"{writer} True\n"


def test_with_and_exit_stack_and_by_hand(runtime):
    """All ways of entering that Python has; contextlib takes the functions from the class."""
    runtime.run("""
        import contextlib, cuzk_tracer
        S = cuzk_tracer.span("s", a0="i"); assert S.name == "s" and isinstance(S, cuzk_tracer.Span)
        with S as target: assert target is S
        with S(1) as target: assert target.name == "s" and isinstance(target, cuzk_tracer.Span)
        with contextlib.ExitStack() as stack:
            assert stack.enter_context(S) is S
            stack.enter_context(S(2))
        S.__enter__(); S.__exit__(None, None, None)
        held = S(3)
        for _ in range(2):
            held.__enter__(); held.__exit__(None, None, None)
        with held, held: pass
        with S(a0=4): pass
        with S(5, a1=6): pass
        with held(7): pass                       # other arguments
    """)
    seen = [(parent != 0, a0, a1) for _, parent, a0, a1, _ in records(runtime)]
    assert seen == [
        (False, 0, 0), (False, 1, 0), (True, 2, 0), (False, 0, 0), (False, 0, 0),
        (False, 3, 0), (False, 3, 0), (True, 3, 0), (False, 3, 0),
        (False, 4, 0), (False, 5, 6), (False, 7, 0),
    ]  # fmt: skip


def test_spans_with_arguments_are_used_again_and_never_mixed_up(runtime):
    runtime.run("""
        import cuzk_tracer, sys
        S = cuzk_tracer.span("s")
        def down(n):
            with S(n, -n):
                if n: down(n - 1)
        down(20)
        made = [S(i) for i in range(10)]          # all alive at once
        for i in (3, 9, 0):
            with made[i]: pass
        del made
        first = S(1); address = id(first); del first
        assert id(S(2)) == address, "kept for the next call"
        before = sys.getallocatedblocks()
        for i in range(10_000):
            with S(i): pass
        assert sys.getallocatedblocks() - before < 100
        def generator():
            with S(100):
                yield
        abandoned = generator(); next(abandoned)
        with S(101): pass
        abandoned.close()
        enter = S(102).__enter__                  # the function without its object
        other = S(103)
        enter()
        with other: pass
        leave = S(104).__exit__
        leave(None, None, None)
    """)
    seen = [(a0, a1) for _, _, a0, a1, _ in records(runtime)]
    down = [(n, -n) for n in range(21)]
    assert seen == down + [(3, 0), (9, 0), (0, 0)] + [(i, 0) for i in range(10_000)] + [
        (101, 0), (100, 0), (103, 0),
    ]  # fmt: skip


def test_spans_with_arguments_of_many_threads(runtime):
    runtime.run("""
        import cuzk_tracer, sys, threading
        sys.setswitchinterval(1e-5)
        S = cuzk_tracer.span("s")
        def work(n):
            for i in range(5000):
                with S(n, i):
                    with S(-n, i): pass
        threads = [threading.Thread(target=work, args=(n,), name=str(n)) for n in range(1, 5)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    """)
    with runtime.ring() as ring:
        parts = ring.poll().records
    assert len(parts) == 4
    for thread, part in parts:
        n = int(thread.name)
        assert part["a0"].tolist() == [-n, n] * 5000
        assert part["a1"].tolist() == [i for i in range(5000) for _ in range(2)]


def test_decorated_functions_look_like_themselves(runtime):
    runtime.run("""
        import cuzk_tracer, gc, inspect, pickle, weakref
        S = cuzk_tracer.span("s", a0="i"); A = cuzk_tracer.async_span("a")
        @S
        def f(x: int, *rest, y=2) -> int:
            "What f does."
            return x + y
        f.extra = 5
        assert (f(1), f(1, y=5), f.__name__, f.__qualname__, f.__doc__) == (3, 6, "f", "f", "What f does.")
        assert f.__module__ == "__main__" and f.extra == 5 and f.__wrapped__(1) == 3
        assert str(inspect.signature(f)) == "(x: int, *rest, y=2) -> int"
        assert pickle.loads(pickle.dumps(f)) is f
        class C:
            @S
            def method(self, v): return (self, v)
            @staticmethod
            @S
            def static(v): return v
            @classmethod
            @S(9)
            def cls(kind): return kind
            @property
            @S
            def prop(self): return 7
        c = C()
        assert c.method(1) == (c, 1) and C.method(c, 2) == (c, 2) and C.static(3) == 3 == c.static(3)
        assert C.cls() is C and c.prop == 7
        @A
        def g(n): return g(n - 1) if n else 0
        assert g(3) == 0
        @S
        def fails(): raise KeyError("x")
        try: fails()
        except KeyError as error: assert error.args == ("x",)
        def made():
            @S
            def inner(): return inner       # a cycle
            return inner
        gone = weakref.ref(made()); gc.collect()
        assert gone() is None
        c = cuzk_tracer
        for wrong in (lambda: S(1, 2, 3), lambda: S(b=1), lambda: S(1, a0=2), lambda: c.span(),
                      lambda: c.counter("x"), lambda: c.Span(), lambda: c.meta(1)):
            try: wrong()
            except TypeError: pass
            else: raise AssertionError(wrong)
    """)
    seen = [(name, a0, kind) for name, _, a0, _, kind in records(runtime)]
    calls = [("s", 0, SPAN)] * 8
    assert [s for s in seen if s[0] == "s"] == [
        *calls[:6], ("s", 9, SPAN), ("s", 0, SPAN), ("s", 0, SPAN | layout.KIND_ERR),
    ]  # fmt: skip
    assert [s for s in seen if s[0] == "a"] == [("a", 0, layout.KIND_ASYNC)] * 4


def test_flows_and_keywords(runtime):
    out = runtime.run("""
        import cuzk_tracer, queue, threading
        S = cuzk_tracer.span("make"); T = cuzk_tracer.span("take")
        jobs = queue.Queue()
        def work():
            with T: cuzk_tracer.flow("job", jobs.get())
        thread = threading.Thread(target=work); thread.start()
        with S:
            number = cuzk_tracer.flow(name="job")
            jobs.put(number)
        thread.join()
        cuzk_tracer.counter(name="c", value=1.5); cuzk_tracer.mark(text="m", a1=2)
        cuzk_tracer.add_faults(minor=1, major=2)
        cuzk_tracer.disable()
        assert cuzk_tracer.flow("job") == 0 == cuzk_tracer.flow("job", 0)
        cuzk_tracer.enable(level="all"); cuzk_tracer.flow("job", 0)
        print(number)
    """)
    with runtime.ring() as ring:
        flows = {
            (thread.name, int(r["a0"]), int(r["corr"]), int(r["parent"]) != 0)
            for thread, part in ring.poll().records
            for r in part
            if r["kind"] == layout.KIND_FLOW
        }
    number = int(out)
    names = {name for name, *_ in flows}
    assert len(flows) == 2 and number > 0 and "main" in names
    assert {(a0, corr, inside) for _, a0, corr, inside in flows} == {(0, number, True), (1, number, True)}


def test_a_leaked_span_with_other_arguments_and_faults(runtime):
    runtime.run("""
        import cuzk_tracer
        S = cuzk_tracer.span("s"); F = cuzk_tracer.span("f", faults=True)
        with S(1):
            F(2.5).__enter__()
            S(3).__enter__()
        with S(4): pass
    """)
    with runtime.ring() as ring:
        rows = [(int(r["id"]), int(r["parent"]), int(r["track"])) for r in ring.poll().records[0][1]]
    flagged = layout.TRACK_UNBALANCED
    assert rows == [(3, 2, flagged), (2, 1, flagged | layout.TRACK_F64), (1, 0, 0), (4, 0, 0)]


def test_in_order_through_a_change_of_levels(runtime):
    """A span entered while off must not end one of the same name that was entered while on."""
    runtime.run("""
        import cuzk_tracer
        S = cuzk_tracer.span("s", a0="i")
        with S(1):
            cuzk_tracer.disable()
            with S(2), S: pass
            cuzk_tracer.enable()
            with S(3): pass
            cuzk_tracer.disable()
        with S(4):
            cuzk_tracer.enable()
            with S(5): pass
        A = cuzk_tracer.async_span("a", a0="i")
        with A(6):
            cuzk_tracer.disable()
            with A(7): pass
            cuzk_tracer.enable()
        cuzk_tracer.disable()
        with A(8):
            cuzk_tracer.enable()
            with A(9): pass
    """)
    assert [a0 for _, _, a0, _, _ in records(runtime)] == [3, 1, 5, 6, 9]


def test_async_spans_across_threads_and_contexts(runtime):
    runtime.run("""
        import asyncio, contextvars, cuzk_tracer, threading
        A = cuzk_tracer.async_span("a", a0="i"); S = cuzk_tracer.span("s")
        with S:
            with A(1):
                with A(2): pass
        A.__enter__()
        contextvars.Context().run(lambda: A.__exit__(None, None, None))   # entered elsewhere: nothing
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(lambda: A.__exit__(None, None, None)))
        thread.start(); thread.join()
        A.__exit__(None, None, None)
        async def job(i):
            async with A(i) as whole:
                assert whole is A
                try:
                    async with A:
                        await asyncio.sleep(0)
                        raise ValueError
                except ValueError: pass
        async def main(): await asyncio.gather(job(10), job(11))
        asyncio.run(main())
        for _ in range(100_000): A.__enter__()       # a long chain is let go without recursion
    """)
    with runtime.ring() as ring:
        found = {t.name.split(" ")[0]: part for t, part in ring.poll().records}
        names = ring.names
    main = [
        (names[int(r["name"])].text, int(r["parent"]), int(r["depth"]), int(r["a0"]), int(r["kind"]))
        for r in found["main"]
    ]
    kind = layout.KIND_ASYNC
    assert main[:3] == [("a", 2, 1, 2, kind), ("a", 1, 0, 1, kind), ("s", 0, 0, 0, SPAN)]
    assert main[3] == ("a", 0, 0, 0, kind)
    assert sorted(main[4:]) == sorted(
        [("a", main_parent, 1, 0, kind | layout.KIND_ERR) for main_parent in parents(found["main"], (10, 11))]
        + [("a", 0, 0, 10, kind), ("a", 0, 0, 11, kind)]
    )
    (other,) = (part for name, part in found.items() if name != "main")
    assert [(int(r["parent"]), int(r["kind"])) for r in other] == [(0, kind)], "an id of its own, no parent"


def parents(part, values):
    return [int(r["id"]) for r in part if int(r["a0"]) in values]
