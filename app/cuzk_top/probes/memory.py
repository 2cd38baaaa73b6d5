"""A process's pinned memory and disk traffic, and the machine's pressure: once or twice a second.

From /proc/PID/status and /proc/PID/io (a syscall each, no walk over the address space: smaps is never read,
it stalls a large prover for seconds) and /proc/pressure. What a file does not tell, or not to us, has no
counter.
"""

import os
from collections.abc import Callable

from cuzk_top.columns import samples
from cuzk_top.model import Batch, Columns, Name, Session, Track

PERIOD_NS = 500_000_000
KIB_IN_GIB = float(1 << 20)
RESOURCES = ("cpu", "memory", "io")

_GAUGES = {b"VmPin": "host.pinned", b"VmLck": "host.locked", b"VmSwap": "host.swap"}
"""Of /proc/PID/status, in KiB. What a driver pins for a device is in VmPin, mlock in VmLck."""
_RATES = {b"read_bytes": "host.disk_read", b"write_bytes": "host.disk_write"}
"""Of /proc/PID/io, in bytes that went to or came from storage."""


class MemoryProbe:
    """Counters host.pinned, .locked, .swap (GiB), .disk_read, .disk_write (GB/s), pressure.cpu, .memory, .io
    (%).

    A gauge that was never above 0 and a rate without traffic have no samples. Pressure is the share of time
    in which some task waited for that resource. `root` is /proc, elsewhere in tests.
    """

    def __init__(self, pid: int, clock: Callable[[], int], root: str = "/proc") -> None:
        self._clock = clock
        self._session = Session(pid=pid, names=[])
        self._session.tracks[1] = Track(1, "probe", "memory")
        self._ids: dict[str, int] = {}
        self._seen: set[str] = set()
        self._before: dict[str, tuple[int, float]] = {}
        self.due_ns = 0
        self._fds: dict[str, int] = {}
        for key, path in (
            ("status", f"{root}/{pid}/status"),
            ("io", f"{root}/{pid}/io"),
            *((f"pressure.{name}", f"{root}/pressure/{name}") for name in RESOURCES),
        ):
            try:
                self._fds[key] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue

    def poll(self) -> Batch:
        """A sample when one is due."""
        now = self._clock()
        rows: list[tuple[int, str, float]] = []
        if now >= self.due_ns:
            self.due_ns = now + PERIOD_NS
            for key in list(self._fds):
                rows += self._sample(key, now)
        names = [self._name(row[1]) for row in rows]
        columns = samples(1, names, [row[0] for row in rows], now, [row[2] for row in rows])
        return Batch(self._session, columns, Columns.empty(), 0, now)

    def close(self) -> None:
        """Close all files."""
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def _sample(self, key: str, now: int) -> list[tuple[int, str, float]]:
        try:
            text = os.pread(self._fds[key], 4096, 0)
        except OSError:  # gone, or not for us
            os.close(self._fds.pop(key))
            return []
        if key == "status":
            values = {name: kib / KIB_IN_GIB for name, kib in _fields(text, _GAUGES).items()}
            return [
                self._gauge(name, now, value) for name, value in values.items() if self._wanted(name, value)
            ]
        if key == "io":
            moved = {name: count / 1e9 for name, count in _fields(text, _RATES).items()}
            return [row for name, value in moved.items() if (row := self._rate(name, now, value)) is not None]
        waited = _pressure_us(text)
        row = self._rate(key, now, waited / 1e4) if waited is not None else None  # µs a second to percent
        return [row] if row is not None else []

    def _gauge(self, name: str, now: int, value: float) -> tuple[int, str, float]:
        start, _ = self._before.get(name, (now, value))
        self._before[name] = (now, value)
        return start, name, value

    def _rate(self, name: str, now: int, value: float) -> tuple[int, str, float] | None:
        before = self._before.get(name)
        self._before[name] = (now, value)
        if before is None or now <= before[0]:
            return None
        rate = max(0.0, value - before[1]) * 1e9 / (now - before[0])
        return (before[0], name, rate) if self._wanted(name, rate) else None

    def _wanted(self, name: str, value: float) -> bool:
        if value > 0:
            self._seen.add(name)
        return name in self._seen

    def _name(self, text: str) -> int:
        if text not in self._ids:
            self._ids[text] = len(self._session.names)
            self._session.names.append(Name(text))
        return self._ids[text]


def _fields(text: bytes, wanted: dict[bytes, str]) -> dict[str, int]:
    """The wanted ``Name: number`` lines."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(b":")
        if name in wanted and (words := rest.split()):
            found[wanted[name]] = int(words[0])
    return found


def _pressure_us(text: bytes) -> int | None:
    """`total` of the ``some`` line of a /proc/pressure file: microseconds."""
    for line in text.splitlines():
        if line.startswith(b"some"):
            return int(line.rpartition(b"total=")[2])
    return None
