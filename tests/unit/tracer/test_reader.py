"""Reading rings: loss to the last record, damaged files, reading while it is written."""

import os
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cuzk_tracer import layout, reader
from cuzk_tracer.ring_input import Input


def stepper(runtime):
    """A program that makes as many spans as each line of its input says, numbered in a0."""
    process = runtime.start("""
        import cuzk_tracer, sys
        S = cuzk_tracer.span("s", a0="i")
        cuzk_tracer.open()
        print(cuzk_tracer.ring_path(), flush=True)
        i = 0
        for line in sys.stdin:
            for _ in range(int(line)):
                with S(i): pass
                i += 1
            print(i, flush=True)
    """)
    path = process.stdout.readline().strip()

    def step(count):
        process.stdin.write(f"{count}\n")
        process.stdin.flush()
        process.stdout.readline()

    return process, path, step


def test_loss_is_counted_to_the_last_record(runtime):
    process, path, step = stepper(runtime)
    full = 65_536 - 1  # the place behind the head may be half written
    with reader.Ring(path) as ring:
        assert ring.pid == process.pid and ring.alive()
        step(10)
        poll = ring.poll()
        assert (sum(len(p) for _, p in poll.records), poll.lost, poll.skipped) == (10, 0, 0)
        assert ring.poll().records == []
        step(full)
        poll = ring.poll()
        assert (len(poll.records[0][1]), poll.lost) == (full, 0)
        step(full + 1)
        poll = ring.poll()
        assert (len(poll.records[0][1]), poll.lost) == (full, 1)
        assert poll.records[0][1]["a0"].tolist() == list(range(10 + full + 1, 10 + 2 * full + 1))
        step(3 * 65_536 + 5)
        poll = ring.poll()
        assert (len(poll.records[0][1]), poll.lost) == (full, 1 + 3 * 65_536 + 5 - full)
        assert ring.written() == 10 + full + full + 1 + 3 * 65_536 + 5
    with reader.Ring(path) as late:
        poll = late.poll()
        assert (len(poll.records[0][1]), poll.lost) == (full, 0)
        assert poll.skipped + full == late.written(), "what it came too late for is told apart"


def test_a_thread_that_did_nothing_is_not_read_again(runtime, monkeypatch):
    process, path, step = stepper(runtime)
    reads = []
    plain = Input.read
    monkeypatch.setattr(Input, "read", lambda file, *place: reads.append(place) or plain(file, *place))
    with reader.Ring(path) as ring:
        step(3)
        assert [len(rows) for _, rows in ring.poll().records] == [3]
        for _ in range(2):
            reads.clear()
            poll = ring.poll()
            assert (poll.records, poll.open, poll.lost, poll.alive) == ([], [], 0, True)
            # The header before and after the slots' headers, and the metadata; an anchor may have come.
            assert len(reads) in (4, 6)
        step(2)
        assert [rows["a0"].tolist() for _, rows in ring.poll().records] == [[3, 4]]
        assert ring.position() == {0: 5} and process.poll() is None


def test_reading_while_it_is_written(runtime):
    """Whatever is read is whole and in order, and read + lost is what was written."""
    count = 3_000_000 if runtime.writer == "native" else 150_000
    process = runtime.start(f"""
        import cuzk_tracer, sys
        OUTER = cuzk_tracer.span("outer"); INNER = cuzk_tracer.span("inner", a0="i", a1="i3")
        WHOLE = cuzk_tracer.span("whole")
        cuzk_tracer.open()
        print(cuzk_tracer.ring_path(), flush=True)
        with WHOLE:
            for i in range({count}):
                with OUTER:
                    with INNER(i, 3 * i): pass
    """)
    path = process.stdout.readline().strip()
    read = 0
    last = -1
    opens = 0
    with reader.Ring(path) as ring:
        while True:
            poll = ring.poll()
            for _, part in poll.records:
                read += len(part)
                inner = part[part["name"] == 3]
                assert (inner["a1"] == 3 * inner["a0"]).all()
                assert len(inner) == 0 or int(inner["a0"][0]) > last
                assert (np.diff(inner["a0"]) > 0).all()
                last = int(inner["a0"][-1]) if len(inner) else last
                assert (part["t0"] <= part["t1"]).all()
            for thread, stack in poll.open:
                opens += 1
                assert thread.name == "main"
                names = [ring.names[int(entry["name"])].text for entry in stack]
                assert names in (["whole"], ["whole", "outer"], ["whole", "outer", "inner"])
            if not poll.alive:
                break
        assert read + poll.lost == 2 * count + 1
        assert ring.poll().open == []
    assert opens


def test_an_open_span_is_seen_while_it_runs(runtime):
    process = runtime.start("""
        import cuzk_tracer, sys
        S = cuzk_tracer.span("long", a0="half"); T = cuzk_tracer.span("inside")
        with S(0.5):
            with T:
                print(cuzk_tracer.ring_path(), flush=True)
                sys.stdin.readline()
        print("ended", flush=True)
        sys.stdin.readline()
    """)
    path = process.stdout.readline().strip()
    with reader.Ring(path) as ring:
        ((thread, stack),) = ring.poll().open
        assert [ring.names[int(n) & layout.OPEN_NAME_MASK].text for n in stack["name"]] == ["long", "inside"]
        assert int(stack[0]["name"]) & layout.OPEN_F64 and stack["a0"].view(np.float64)[0] == 0.5
        assert thread.tid == process.pid
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        poll = ring.poll()
        assert poll.open == [] and len(poll.records[0][1]) == 2


def test_what_is_open_is_what_a_fresh_reader_sees(runtime):
    """Step by step: digits open a span, a dash closes the innermost."""
    process = runtime.start("""
        import cuzk_tracer, sys
        SPANS = [cuzk_tracer.span(f"s{i}", a0="line") for i in range(3)]
        cuzk_tracer.open()
        print(cuzk_tracer.ring_path(), flush=True)
        stack = []
        for number, line in enumerate(sys.stdin):
            for step in line.strip():
                if step == "-":
                    stack.pop().__exit__(None, None, None)
                else:
                    stack.append(SPANS[int(step)](number))
                    stack[-1].__enter__()
            print("done", flush=True)
    """)

    def told(poll: reader.Poll) -> list[tuple[int, list[tuple[int, ...]]]]:
        return [(thread.slot, stack[["name", "id", "a0"]].tolist()) for thread, stack in poll.open]

    path = process.stdout.readline().strip()
    with reader.Ring(path) as ring:
        ring.poll()
        for line, depth in (
            ("", 0),
            ("0", 1),
            ("", 1),
            ("12", 3),
            ("", 3),
            ("-2", 3),
            ("-0-1", 3),
            ("---", 0),
        ):
            process.stdin.write(f"{line}\n")
            process.stdin.flush()
            process.stdout.readline()
            with reader.Ring(path) as fresh:
                expected = told(fresh.poll())
            poll = ring.poll()
            assert told(poll) == expected
            assert [len(stack) for _, stack in expected] == ([depth] if depth else [])
            # While nothing moves it is the same list; an anchor may come between, after which it is not.
            later = [ring.poll().open for _ in range(10)]
            assert any(one is other for one, other in pairwise(later))


def test_find_by_pid(runtime, monkeypatch, tmp_path):
    process, path, _ = stepper(runtime)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime.folder))
    assert reader.find(process.pid) == path
    # From where the folder cannot be seen, the process's own open file leads there.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    found = reader.find(process.pid)
    assert found.startswith(f"/proc/{process.pid}/fd/")
    with reader.Ring(found) as ring:
        assert ring.pid == process.pid
    with pytest.raises(reader.RingError, match=r"process \d+ has no trace ring"):
        reader.find(os.getppid() if os.getppid() != 1 else 1)
    with pytest.raises(reader.RingError, match="no process"):
        reader.find(2**22 + 1)


def test_the_owner_is_dead_when_the_pid_is_somebody_elses(runtime):
    runtime.run("import cuzk_tracer; cuzk_tracer.open()")
    (path,) = runtime.rings()
    with path.open("r+b") as file:
        file.seek(88)
        file.write(os.getpid().to_bytes(4, "little"))
    with reader.Ring(path) as ring:
        assert ring.pid == os.getpid() and not ring.alive()


def test_the_reader_never_makes_pages(runtime):
    process, path, step = stepper(runtime)
    step(5)
    before = Path(path).stat().st_blocks
    with reader.Ring(path) as ring:
        ring.poll()
    assert Path(path).stat().st_blocks == before
    assert process.poll() is None


def change(path, offset, value):
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(value)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, b"CZRING02", "not a trace ring"),
        (8, b"\x02\x00", "ring version 2.1; this reader knows version 1"),
        (32, b"\xff\xff\xff\xff", "damaged: the anchors area lies outside the file"),
        (40, b"\xff" * 8, "damaged: the names area lies outside the file"),
        (60, b"\xff\xff\xff\x7f", "damaged: the slots area lies outside the file"),
        (72, b"\xff" * 7 + b"\x00", "damaged: the strings area lies outside the file"),
        (16, b"\x00" * 6 + b"\x01\x00", "cut off at"),
        (112, b"\x09", "unknown clock kind 9"),
    ],
)
def test_damaged_headers(runtime, offset, value, message):
    runtime.run("import cuzk_tracer; cuzk_tracer.open()")
    (path,) = runtime.rings()
    change(path, offset, value)
    with pytest.raises(reader.RingError, match=message) as caught:
        reader.Ring(path)
    assert str(path) in str(caught.value)


def test_a_newer_minor_version_opens(runtime):
    runtime.run("import cuzk_tracer\nwith cuzk_tracer.span('s'): pass")
    (path,) = runtime.rings()
    change(path, 10, b"\x07\x00")
    with reader.Ring(path) as ring:
        assert len(ring.poll().records[0][1]) == 1


@pytest.mark.parametrize("content", [b"", b"CZRING01", b"CZRING01" + bytes(4087), b"\x7fELF" * 2000])
def test_files_that_are_no_rings(tmp_path, content):
    path = tmp_path / "x.ring"
    path.write_bytes(content)
    with pytest.raises(reader.RingError, match="not a trace ring"):
        reader.Ring(path)


def test_things_that_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "missing", tmp_path / "fifo"):
        with pytest.raises(reader.RingError):
            reader.Ring(path)


def test_a_ring_that_shrinks_while_open(runtime):
    runtime.run("import cuzk_tracer\nwith cuzk_tracer.span('s'): pass")
    (path,) = runtime.rings()
    for size in (600_000, 10_000, 100, 0):
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        with reader.Ring(copy) as ring:
            os.truncate(copy, size)
            try:
                ring.poll()
            except reader.RingError as error:
                assert "cut off" in str(error)


# Offsets where something stands: header, anchors, metadata, slots, names, strings, stacks, first records.
PLACES = st.one_of(
    st.integers(0, 280),
    st.integers(4096, 4160),
    st.integers(6144, 6180),
    st.integers(8192, 8320),
    st.integers(16384, 16384 + 200),
    st.integers(49152, 49152 + 200),
    st.integers(311296, 311296 + 200),
    st.integers(573440, 573440 + 64 * 12),
)


@pytest.fixture
def small(runtime):
    """A ring of two threads with spans, arguments, metadata and an open span, cut to what is used."""
    process = runtime.start("""
        import cuzk_tracer, threading, sys
        S = cuzk_tracer.span("outer", a0="n", a1="m", stage=True, faults=True); T = cuzk_tracer.span("inner")
        cuzk_tracer.meta(backend="cpu", job="demo")
        def work():
            with S(5, 2.5):
                for _ in range(3):
                    with T: pass
        work()
        thread = threading.Thread(target=work, name="worker"); thread.start(); thread.join()
        S(1).__enter__()
        print("ready", flush=True)
        sys.stdin.readline()
    """)
    process.stdout.readline()
    process.kill()
    process.wait()
    (path,) = runtime.rings()
    return path


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(PLACES, st.binary(min_size=1, max_size=8)), min_size=1, max_size=6))
def test_damage_gives_an_error_or_a_result_never_a_crash(small, changes):
    saved = []
    with small.open("r+b") as file:
        for offset, value in changes:
            file.seek(offset)
            saved.append((offset, file.read(len(value))))
            file.seek(offset)
            file.write(value)
    try:
        with reader.Ring(small) as ring:
            for _ in range(2):
                poll = ring.poll()
                assert all(len(part) <= 65_536 for _, part in poll.records)
                assert all(len(stack) <= layout.STACK_ENTRIES for _, stack in poll.open)
    except reader.RingError as error:
        assert str(small) in str(error)
    finally:
        with small.open("r+b") as file:
            for offset, value in reversed(saved):
                file.seek(offset)
                file.write(value)


def test_the_undamaged_small_ring(small):
    with reader.Ring(small) as ring:
        poll = ring.poll()
        assert {t.name: len(part) for t, part in poll.records} == {"main": 4, "worker": 4}
        ((thread, stack),) = poll.open
        assert (thread.name, stack["a0"].tolist()) == ("main", [1])
