"""The recorded edges: what each piece of device work and each waiting thread depended on. Numpy only.

- *Launch*: device work begins after the span that launched it (its parent) began. When in that span is not
  recorded, but correlation ids count a process's calls: so not after the next synchronise of that thread
  began.
- *Stream*: work of one stream runs in order.
- *Synchronise*: returns after work that was launched before it (a smaller correlation id): a device's after
  the last of each stream, a stream's after the last of that one where it is recorded which. Which event
  another waited for is not; it is taken to be the work that ended last before it returned.
- *A driver call that stood still* (`sync.cu...`): as a synchronise of an event. Work that ended while it did
  is what it waited for; where none did, it held nothing up.
- *Pageable copy*: its call returns when the copy is done; see `arrivals.copied` for what proves that it did.
- *Hand-over*: a flow's arrival on a thread, and a wait for a GPU that another thread's claim holds.
- *Order of a thread*, and parents and children: the rest.

Nothing else is an edge: that one thing began when another ended proves nothing. Which of several recorded
edges held something up is the one whose other end came last.
"""

from __future__ import annotations

import re
from functools import cached_property

import numpy as np

from cuzk_top.stalls import arrivals, handovers
from cuzk_top.stalls.arrivals import Arrivals
from cuzk_top.stalls.hosts import Hosts
from cuzk_top.stalls.intervals import Int64s
from cuzk_top.stalls.records import Records
from cuzk_top.stalls.scene import Scene

BOUND_BY_NOTHING, BOUND_BY_STREAM, BOUND_BY_LAUNCH = 0, 1, 2
_WAIT = re.compile(
    r"(^|[._ /:])"
    r"((?i:(\w+_)?(wait|lock|mutex)(ing|_\w+)?|acquire|barrier(_\w+)?)|\w+(Wait|Lock|Mutex))"
    r"($|[._ /:])"
)
_FAR = np.iinfo(np.int64).max


def is_wait(name: str) -> bool:
    """Whether a host span of this name waits: ``gpu.wait``, ``mutex_wait``, ``lock``, ``barrier_wait``."""
    return _WAIT.search(name) is not None


class Graph:
    """The edges of a scene's records."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.records: Records = scene.records
        self.hosts = Hosts(self.records, self.records.in_lane["claim"])

    @cached_property
    def launch_track(self) -> Int64s:
        """Thread that launched each of the device's work; -1 where it is not known."""
        host, launcher = self.records.host, self.records.launcher
        if not len(host):
            return np.full(len(launcher), -1, np.int64)
        return np.where(launcher >= 0, host.track[launcher], -1)

    @cached_property
    def wait_track(self) -> Int64s:
        """Thread of each synchronise: its parent's, else the only thread of its process that launches."""
        records, waits = self.records, self.records.waits
        parents = records.find(waits.parent)
        known = records.host.track[parents] if len(records.host) else np.full(len(waits), -1, np.int64)
        only = {
            process: int(tracks[0])
            for process, tracks in self._launchers_by_process().items()
            if len(tracks) == 1
        }
        alone = np.array([only.get(process, -1) for process in self.wait_process.tolist()], np.int64)
        return np.where(parents >= 0, known, alone)

    def _launchers_by_process(self) -> dict[int, Int64s]:
        tracks, process = self.launch_track, self.op_process
        found = {}
        for number in np.unique(process).tolist():
            found[number] = np.unique(tracks[(process == number) & (tracks >= 0)])
        return found

    @cached_property
    def op_process(self) -> Int64s:
        """Process of each of the device's work."""
        return self._process(self.records.ops.track)

    @cached_property
    def wait_process(self) -> Int64s:
        """Process of each synchronise."""
        return self._process(self.records.waits.track)

    def _process(self, tracks: Int64s) -> Int64s:
        known, inverse = np.unique(tracks, return_inverse=True)
        of = np.array([self.records.process(int(track)) for track in known], np.int64)
        return of[inverse] if len(known) else np.empty(0, np.int64)

    @cached_property
    def before(self) -> Int64s:
        """The work before each on its stream; -1 where it is the first."""
        ops = self.records.ops
        order = np.lexsort((ops.end, ops.start, ops.track))
        found = np.full(len(ops), -1, np.int64)
        same = ops.track[order[1:]] == ops.track[order[:-1]]
        found[order[1:][same]] = order[:-1][same]
        return found

    @cached_property
    def launched(self) -> Int64s:
        """The latest moment at which each was launched; its own start where no more is known."""
        records, ops = self.records, self.records.ops
        latest = ops.start.copy()
        known = self.launch_track >= 0
        latest[known] = np.minimum(latest[known], records.host.end[records.launcher[known]])
        for track in np.unique(self.launch_track[known]).tolist():
            waits = np.flatnonzero((self.wait_track == track) & (records.waits.corr > 0))
            waits = waits[np.argsort(records.waits.corr[waits], kind="stable")]
            mine = np.flatnonzero((self.launch_track == track) & (ops.corr > 0))
            following = np.searchsorted(records.waits.corr[waits], ops.corr[mine], side="right")
            begins = np.append(records.waits.start[waits], _FAR)[following]
            latest[mine] = np.minimum(latest[mine], begins)
        return latest

    @cached_property
    def bound_by(self) -> Int64s:
        """Which edge held up the start of each: BOUND_BY_STREAM, BOUND_BY_LAUNCH or nothing recorded."""
        ops = self.records.ops
        first = self.before < 0
        ended = np.where(first, np.iinfo(np.int64).min, ops.end[self.before] if len(ops) else 0)
        soon = ~first & (ops.start - np.where(first, 0, ended) <= self.scene.limits.queued_ns)
        queued = soon | (~first & (self.launched <= ended))
        launched = self.launch_track >= 0
        streamed = queued | (~launched & ~first)
        return np.where(streamed, BOUND_BY_STREAM, np.where(launched, BOUND_BY_LAUNCH, BOUND_BY_NOTHING))

    @cached_property
    def arrivals(self) -> Arrivals:
        """All synchronises whose thread is known, all copies that held theirs up, and all hand-overs."""
        handed = np.array([*handovers.flows(self), *handovers.locks(self)], np.int64).reshape(-1, 5)
        track, start, end, reached, source = (handed[:, i] for i in range(5))
        none = np.full(len(handed), -1, np.int64)
        parts = (
            arrivals.synchronised(self),
            arrivals.copied(self),
            Arrivals(track, start, end, reached, none, source),
        )
        found = Arrivals(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Arrivals.__slots__)
        )
        return found.take(np.lexsort((found.start, found.end, found.track)))

    @cached_property
    def wait_spans(self) -> Int64s:
        """Places of the host spans that wait, by their name."""
        names = self.records.host.name
        numbers = np.unique(names)
        waits = [int(number) for number in numbers if is_wait(self.records.text(int(number)))]
        return np.flatnonzero(np.isin(names, waits) & self.records.on_thread)

    def claimed(self, claim: int) -> int:
        """Device of a claim, by its lane."""
        lane = self.records.lane(self.records.host, claim)
        return int(lane.removeprefix("gpu").partition(".")[0])

    def holder(self, wait: int) -> tuple[int, int] | None:
        """Whose claim a wait span waited for: (place of the claim, device); None where that is not recorded.

        The thread takes a GPU right after its wait; the claim on that GPU that another thread held last
        before then is what it waited for.
        """
        records, host = self.records, self.records.host
        claims = np.flatnonzero(records.in_lane["claim"])
        since, until = int(host.start[wait]), int(host.end[wait])
        own = claims[(host.track[claims] == host.track[wait]) & (host.end[claims] > until)]
        own = own[host.start[own] >= since]
        device = self.claimed(int(own[np.argmin(host.start[own])])) if len(own) else None
        others = [
            int(i)
            for i in claims[(host.track[claims] != host.track[wait]) & (host.start[claims] < until)]
            if host.end[i] > since and (device is None or self.claimed(int(i)) == device)
        ]
        if not others or (device is None and len({self.claimed(i) for i in others}) > 1):
            return None
        last = max(others, key=lambda i: (int(host.end[i]), i))
        return last, self.claimed(last)
