"""SIGKILL at a random moment: everything published and the stack of open spans come back."""

import random
import signal
import time

import numpy as np
import pytest

from cuzk_tracer import reader

PROVER = """
    import cuzk_tracer, mmap, os, sys
    OUTER = cuzk_tracer.span("outer", a0="round"); MIDDLE = cuzk_tracer.span("middle")
    INNER = cuzk_tracer.span("inner", a0="i", a1="i2")
    # What the program itself knows to have finished, in memory that outlives it.
    fd = os.open(sys.stdin.readline().strip(), os.O_RDWR)
    done = memoryview(mmap.mmap(fd, 4096)).cast("Q")
    cuzk_tracer.open()
    print("ready", flush=True)
    i = 0
    with OUTER(7):
        with MIDDLE:
            while True:
                with INNER(i, i * i): pass
                i += 1
                done[0] = i
"""
CAPACITY = 65_536


def kill_once(runtime, seed: int) -> None:
    for path in runtime.rings():
        path.unlink()
    shared = runtime.folder / "done"
    shared.write_bytes(bytes(4096))
    process = runtime.start(PROVER)
    process.stdin.write(f"{shared}\n")
    process.stdin.flush()
    assert process.stdout.readline() == "ready\n"
    time.sleep(random.Random(seed).uniform(0, 0.25))
    process.send_signal(signal.SIGKILL)
    process.wait()

    done = int(np.frombuffer(shared.read_bytes()[:8], np.uint64)[0])
    with runtime.ring() as ring:
        assert not ring.alive() and ring.ended_ns == 0
        poll = ring.poll()
    assert not poll.alive
    records = (
        np.concatenate([part for _, part in poll.records]) if poll.records else np.empty(0, reader.RECORD)
    )
    # Killed between the span's end and the program's own note of it, there is one more.
    total = len(records) + poll.skipped
    assert total in (done, done + 1)
    assert poll.skipped == max(0, total - (CAPACITY - 1)) and poll.lost == 0
    i = np.arange(poll.skipped, total)
    assert (records["a0"] == i).all() and (records["a1"] == i * i).all()
    assert (records["id"] == i + 3).all() and (records["parent"] == 2).all()
    assert (records["t0"] <= records["t1"]).all() and (records["t1"][:-1] <= records["t0"][1:]).all()
    ((_, stack),) = poll.open
    names = [ring.names[int(entry["name"])].text for entry in stack]
    assert names in (["outer", "middle"], ["outer", "middle", "inner"])
    assert (int(stack[0]["a0"]), int(stack[0]["id"]), int(stack[1]["id"])) == (7, 1, 2)
    if len(names) == 3:
        assert int(stack[2]["id"]) == total + 3, "the one that was running, not one that had ended"
        assert (int(stack[2]["a0"]), int(stack[2]["a1"])) == (total, total**2)


@pytest.mark.parametrize("seed", range(5))
def test_sigkill(runtime, seed):
    kill_once(runtime, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_sigkill_a_hundred_times(runtime, seed):
    kill_once(runtime, seed)
