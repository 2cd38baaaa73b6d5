"""One process's faults, CPU and resident memory from /proc/PID/stat, sampled by the viewer.

The file is kept open and re-read (3 to 10 µs a sample, paid here, not by the prover). smaps is never read: it
stalls a large prover for seconds. /proc counts the faults of all threads and those that pinning takes.
"""

import os
from collections.abc import Callable

from cuzk_top.columns import samples
from cuzk_top.model import Batch, Columns, Name, Session, Track

PERIOD_NS = 200_000_000
SLOW_PERIOD_NS = 500_000_000
MANY_THREADS = 64
"""Above this many threads a sample costs the kernel a walk over all of them: 2 Hz instead of 5."""

GIB = float(1 << 30)
COUNTERS = ("host.minflt", "host.majflt", "host.cpu", "host.rss")

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Places in /proc/PID/stat counted from the state, which is field 3 of proc(5).
_MINFLT, _MAJFLT, _UTIME, _STIME, _THREADS, _RSS = (field - 3 for field in (10, 12, 14, 15, 20, 24))


class HostProbe:
    """Counters of one process: faults a second, CPU % of the whole machine, resident GiB.

    `clock` is CLOCK_MONOTONIC in ns, `cpus` the number of CPUs that make 100 %. A process that is gone yields
    nothing more; one that may not be read gives its counters a reason instead of samples.
    """

    def __init__(self, pid: int, clock: Callable[[], int], cpus: int | None = None) -> None:
        self._clock = clock
        self._cpus = cpus or os.cpu_count() or 1
        self._session = Session(pid=pid, names=[Name(key) for key in COUNTERS])
        self._session.tracks[1] = Track(1, "probe", "host")
        self._before: tuple[int, int, int, int] | None = None
        self.due_ns = 0
        self._fd: int | None = None
        try:
            self._fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            for key in COUNTERS:
                self._session.meta[f"missing.{key}"] = f"/proc/{pid}/stat: {error.strerror}"

    def poll(self) -> Batch:
        """A sample when one is due; the first gives resident memory alone, rates need two."""
        now = self._clock()
        columns = Columns.empty()
        if self._fd is not None and now >= self.due_ns:
            sample = self._read()
            if sample is not None:
                columns = self._sample(now, sample)
        return Batch(self._session, columns, Columns.empty(), 0, now)

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self) -> list[int] | None:
        assert self._fd is not None
        try:
            text = os.pread(self._fd, 4096, 0)
        except OSError:  # ESRCH: the process is gone
            self.close()
            return None
        fields = text[text.rindex(b")") + 2 :].split()
        places = (_MINFLT, _MAJFLT, _UTIME, _STIME, _THREADS, _RSS)
        return [int(fields[place]) for place in places]

    def _sample(self, now: int, sample: list[int]) -> Columns:
        minflt, majflt, utime, stime, threads, rss = sample
        cpu_ns = (utime + stime) * _TICK_NS
        before, self._before = self._before, (now, minflt, majflt, cpu_ns)
        self.due_ns = now + (PERIOD_NS if threads <= MANY_THREADS else SLOW_PERIOD_NS)
        memory = rss * _PAGE_BYTES / GIB
        if before is None:
            return samples(1, [3], now, now, [memory])
        start = before[0]
        took = max(1, now - start)
        values = [
            (minflt - before[1]) * 1e9 / took,
            (majflt - before[2]) * 1e9 / took,
            (cpu_ns - before[3]) * 100 / took / self._cpus,
            memory,
        ]
        return samples(1, [0, 1, 2, 3], start, now, values)
