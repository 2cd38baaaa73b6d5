"""A process's threads by name: faults and CPU of each group, from /proc/PID/task/TID/stat.

The files are kept open and re-read twice a second (3 µs a thread, against 18 µs when each is opened anew; the
kernel counts CPU time by the hundredth of a second). The list of threads is looked at once a second. Groups
are names without their numbers: a pool of workers is one group.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from cuzk_top.columns import samples
from cuzk_top.model import Batch, Columns, Name, Session, Track

PERIOD_NS = 500_000_000
LIST_PERIOD_NS = 1_000_000_000
MOST_OPEN = 512
"""Threads beyond this many are not looked at one by one, and counted as not seen."""
MOST_GROUPS = 6
"""Groups with counters of their own, those that use most; the rest is in the process's own counters alone."""
LEAST_CPU_NS = 50_000_000
LEAST_FAULTS = 1_000
"""A group has counters once it has used this much: most threads of a program never do anything."""

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# Places in /proc/PID/task/TID/stat counted from the state, which is field 3 of proc(5).
_MINFLT, _MAJFLT, _UTIME, _STIME = (place - 3 for place in (10, 12, 14, 15))
_NUMBER = re.compile(r"[-_ #:.]?\d+")


def group_of(name: str) -> str:
    """A thread's group: its name without numbers, ``rayon-12`` is ``rayon``."""
    return _NUMBER.sub("", name).strip() or name


@dataclass(slots=True)
class _Thread:
    fd: int
    group: str
    minflt: int
    majflt: int
    cpu_ns: int


@dataclass(slots=True)
class _Group:
    minflt: int = 0
    majflt: int = 0
    cpu_ns: int = 0
    threads: int = 0
    shown: bool = False
    before: tuple[int, int, int] = (0, 0, 0)


class ThreadProbe:
    """Counters thread.GROUP.cpu (% of one CPU), .minflt and .majflt (a second) of a process's thread groups.

    Nothing for a process with one group only: that is what the host probe shows. `clock` is CLOCK_MONOTONIC
    in ns.
    """

    def __init__(self, pid: int, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._folder = f"/proc/{pid}/task"
        self._session = Session(pid=pid, names=[])
        self._session.tracks[1] = Track(1, "probe", "threads")
        self._ids: dict[str, int] = {}
        self._threads: dict[int, _Thread] = {}
        self._groups: dict[str, _Group] = {}
        self._unseen = 0
        self._listed_ns: int | None = None
        self.due_ns = 0
        self._before_ns: int | None = None

    def poll(self) -> Batch:
        """A sample when one is due."""
        now = self._clock()
        columns = Columns.empty()
        if now >= self.due_ns:
            if self._listed_ns is None or now - self._listed_ns >= LIST_PERIOD_NS:
                self._list()
                self._listed_ns = now
            columns = self._sample(now)
            self.due_ns = now + PERIOD_NS
        return Batch(self._session, columns, Columns.empty(), 0, now)

    def close(self) -> None:
        """Close all files."""
        for thread in self._threads.values():
            os.close(thread.fd)
        self._threads.clear()

    def groups(self) -> dict[str, int]:
        """Threads there are now, by group."""
        return {name: group.threads for name, group in self._groups.items() if group.threads}

    def _list(self) -> None:
        try:
            tids = {int(entry) for entry in os.listdir(self._folder)}  # noqa: PTH208 (every second)
        except OSError:
            tids = set()
        for tid in set(self._threads) - tids:
            self._gone(tid)
        new = sorted(tids - set(self._threads))
        room = max(0, MOST_OPEN - len(self._threads))
        self._unseen = max(0, len(new) - room)
        for tid in new[:room]:
            try:
                fd = os.open(f"{self._folder}/{tid}/stat", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            read = _read(fd)
            if read is None:
                os.close(fd)
                continue
            name, minflt, majflt, cpu_ns = read
            self._threads[tid] = _Thread(fd, group_of(name), minflt, majflt, cpu_ns)
            self._groups.setdefault(group_of(name), _Group()).threads += 1

    def _gone(self, tid: int) -> None:
        thread = self._threads.pop(tid)
        os.close(thread.fd)
        self._groups[thread.group].threads -= 1

    def _sample(self, now: int) -> Columns:
        for tid, thread in list(self._threads.items()):
            read = _read(thread.fd)
            if read is None:
                self._gone(tid)
                continue
            name, minflt, majflt, cpu_ns = read
            if self._groups.get(group_of(name)) is not self._groups.get(thread.group):
                self._groups[thread.group].threads -= 1  # a thread named after it began
                thread.group = group_of(name)
                self._groups.setdefault(thread.group, _Group()).threads += 1
            group = self._groups[thread.group]
            group.minflt += max(0, minflt - thread.minflt)
            group.majflt += max(0, majflt - thread.majflt)
            group.cpu_ns += max(0, cpu_ns - thread.cpu_ns)
            thread.minflt, thread.majflt, thread.cpu_ns = minflt, majflt, cpu_ns
        start, self._before_ns = self._before_ns, now
        self._choose()
        rows: list[tuple[str, float]] = []
        for name, group in self._groups.items():
            minflt, majflt, cpu_ns = group.before
            group.before = (group.minflt, group.majflt, group.cpu_ns)
            if start is None or not group.shown or now <= start:
                continue
            took = now - start
            rows.append((f"thread.{name}.cpu", (group.cpu_ns - cpu_ns) * 100 / took))
            rows.append((f"thread.{name}.minflt", (group.minflt - minflt) * 1e9 / took))
            if group.majflt:
                rows.append((f"thread.{name}.majflt", (group.majflt - majflt) * 1e9 / took))
        names = [self._name(key) for key, _ in rows]
        return samples(1, names, start or now, now, [value for _, value in rows])

    def _choose(self) -> None:
        """Show the groups that use most; one that is shown stays."""
        shown = sum(group.shown for group in self._groups.values())
        if len(self._groups) < 2:
            return
        for group in sorted(self._groups.values(), key=lambda one: -(one.cpu_ns + one.minflt * 500)):
            if shown >= MOST_GROUPS:
                break
            if not group.shown and (group.cpu_ns >= LEAST_CPU_NS or group.minflt >= LEAST_FAULTS):
                group.shown = True
                shown += 1

    def _name(self, text: str) -> int:
        if text not in self._ids:
            self._ids[text] = len(self._session.names)
            self._session.names.append(Name(text))
        return self._ids[text]


def _read(fd: int) -> tuple[str, int, int, int] | None:
    """A thread's name, minor and major faults and CPU time; None when it is gone."""
    try:
        text = os.pread(fd, 1024, 0)
    except OSError:
        return None
    if not text:
        return None
    close = text.rindex(b")")
    fields = text[close + 2 :].split()
    name = text[text.index(b"(") + 1 : close].decode("utf-8", "replace")
    return (
        name,
        int(fields[_MINFLT]),
        int(fields[_MAJFLT]),
        (int(fields[_UTIME]) + int(fields[_STIME])) * _TICK_NS,
    )
