"""The recorded edges: what each piece of device work and each waiting thread depended on. Numpy only.

- *Launch*: device work begins after the span that launched it (its parent) began. When in that span is not
  recorded, but correlation ids count a process's calls: so not after the next synchronise of that thread
  began.
- *Stream*: work of one stream runs in order.
- *Synchronise*: returns after work that was launched before it (a smaller correlation id): a device's after
  the last of each stream. Which stream or event another waited for is not recorded; it is taken to be the
  work that ended last before it returned.
- *Hand-over*: a flow's arrival on a thread, and a wait for a GPU that another thread's claim holds.
- *Order of a thread*, and parents and children: the rest.

Nothing else is an edge: that one thing began when another ended proves nothing. Which of several recorded
edges held something up is the one whose other end came last.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cuzk_top.stalls.hosts import Hosts
from cuzk_top.stalls.intervals import Int64s
from cuzk_top.stalls.records import Bools, Records
from cuzk_top.stalls.scene import Scene

BOUND_BY_NOTHING, BOUND_BY_STREAM, BOUND_BY_LAUNCH = 0, 1, 2
_WAIT = re.compile(r"(^|[._ /:])(wait\w*|\w+_wait|\w*lock|acquire|barrier\w*)($|[._ /:])", re.IGNORECASE)
_FAR = np.iinfo(np.int64).max


def is_wait(name: str) -> bool:
    """Whether a host span of this name waits: ``gpu.wait``, ``mutex_wait``, ``lock``, ``barrier_wait``."""
    return _WAIT.search(name) is not None


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Moments at which a thread goes on because of something elsewhere, sorted by (track, end).

    The thread waited from `start` to `end`. What it waited for was over at `reached`: device work `op`, or
    (op -1) what thread `source` did until then.
    """

    track: Int64s
    start: Int64s
    end: Int64s
    reached: Int64s
    op: Int64s
    source: Int64s

    def __len__(self) -> int:
        return len(self.track)

    @property
    def binding(self) -> Bools:
        """Where the thread did wait: what it waited for was not over when it began to."""
        return self.reached > self.start

    def take(self, which: Int64s | Bools) -> Arrivals:
        """Some of them."""
        return Arrivals(*(getattr(self, name)[which] for name in self.__slots__))


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
        alone = np.array([only.get(process, -1) for process in self.process(waits.track)], np.int64)
        return np.where(parents >= 0, known, alone)

    def _launchers_by_process(self) -> dict[int, Int64s]:
        ops, tracks = self.records.ops, self.launch_track
        process = np.array(self.process(ops.track), np.int64)
        found = {}
        for number in np.unique(process).tolist():
            found[number] = np.unique(tracks[(process == number) & (tracks >= 0)])
        return found

    def process(self, tracks: Int64s) -> list[int]:
        """The process of each track."""
        known, inverse = np.unique(tracks, return_inverse=True)
        of = np.array([self.records.process(int(track)) for track in known], np.int64)
        return of[inverse].tolist() if len(known) else []

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
    def awaited(self) -> Int64s:
        """The work that each synchronise waited for; -1 where none is known."""
        ops, waits = self.records.ops, self.records.waits
        if not len(ops):
            return np.full(len(waits), -1, np.int64)
        order = np.argsort(ops.end, kind="stable")
        corr = ops.corr[order]
        process = np.array(self.process(ops.track), np.int64)[order]
        mine = np.array(self.process(waits.track), np.int64)
        latest = waits.end + self.scene.limits.clock_ns
        place = np.searchsorted(ops.end[order], latest, side="right") - 1
        for _ in range(64):  # work launched later, or by another process, is passed over
            at = np.maximum(place, 0)
            wrong = (place >= 0) & ((corr[at] >= waits.corr) | (corr[at] == 0) | (process[at] != mine))
            if not wrong.any():
                return np.where(place >= 0, order[at], -1)
            place = np.where(wrong, place - 1, place)
        return np.where((place >= 0) & ~wrong, order[np.maximum(place, 0)], -1)

    @cached_property
    def arrivals(self) -> Arrivals:
        """All synchronises whose thread is known, and all hand-overs."""
        handed = np.array([*self._flows(), *self._locks()], np.int64).reshape(-1, 5)
        none = np.full(len(handed), -1, np.int64)
        parts = (self._synchronised(), Arrivals(*handed[:, :4].T, none, handed[:, 4]))
        found = Arrivals(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in Arrivals.__slots__)
        )
        return found.take(np.lexsort((found.start, found.end, found.track)))

    def _synchronised(self) -> Arrivals:
        """Synchronises, those of several streams in as many pieces: one goes on where another ends."""
        waits, ops = self.records.waits, self.records.ops
        wait, op = self._awaited_pairs()
        known = self.wait_track[wait] >= 0
        wait, op = wait[known], op[known]
        ended = np.append(ops.end, 0)[op]
        reached = np.where(op >= 0, np.minimum(ended, waits.end[wait]), waits.start[wait])
        order = np.lexsort((reached, wait))
        wait, op, reached = wait[order], op[order], reached[order]
        first = np.concatenate([[True], wait[1:] != wait[:-1]])[: len(wait)]
        last = np.concatenate([wait[1:] != wait[:-1], [True]])[: len(wait)]
        over = np.maximum(reached, waits.start[wait])
        start = np.where(first, waits.start[wait], np.concatenate([over[:1], over[:-1]])[: len(wait)])
        end = np.where(last, waits.end[wait], over)
        return Arrivals(self.wait_track[wait], start, end, reached, op, np.full(len(wait), -1, np.int64))

    def _awaited_pairs(self) -> tuple[Int64s, Int64s]:
        """(synchronise, work it waited for), -1 for none known: of a device's, the last work of each
        stream.
        """
        waits, ops = self.records.waits, self.records.ops
        names = {int(name) for name in np.unique(waits.name)}
        whole = np.isin(waits.name, [name for name in names if self.records.text(name) == "sync.context"])
        single, every = np.flatnonzero(~whole), np.flatnonzero(whole & (waits.corr > 0))
        pairs = [(single, self.awaited[single])]
        process = np.array(self.process(waits.track), np.int64)
        for stream in np.unique(ops.track).tolist():
            mine = np.flatnonzero((ops.track == stream) & (ops.corr > 0))
            mine = mine[np.argsort(ops.corr[mine], kind="stable")]
            of = every[process[every] == self.records.process(stream)]
            place = np.searchsorted(ops.corr[mine], waits.corr[of], side="left") - 1
            of, op = of[place >= 0], mine[place[place >= 0]]
            fits = ops.end[op] <= waits.end[of] + self.scene.limits.clock_ns
            pairs.append((of[fits], op[fits]))
        alone = np.setdiff1d(np.arange(len(waits)), np.concatenate([wait for wait, _ in pairs]))
        pairs.append((alone, np.full(len(alone), -1, np.int64)))
        return np.concatenate([wait for wait, _ in pairs]), np.concatenate([op for _, op in pairs])

    def _flows(self) -> list[tuple[int, int, int, int, int]]:
        """(track, start, end, reached, source) of each flow that arrives on a thread that waited for it."""
        flows = self.scene.snapshot.flows
        inside = (flows.start_ns >= self.records.low) & (flows.start_ns < self.records.high)
        flows = flows.take(np.flatnonzero(inside))
        first: dict[tuple[int, int], int] = {}
        found = []
        for i in np.argsort(flows.start_ns, kind="stable").tolist():
            track, t = int(flows.track[i]), int(flows.start_ns[i])
            key = (self.records.process(track), int(flows.corr[i]))
            if not int(flows.a0[i]):
                first[key] = i
                continue
            begun = first.get(key)
            if begun is None or int(flows.track[begun]) == track:
                continue
            sent = int(flows.start_ns[begun])
            since, until = self._waited(track, sent, t)
            found.append((track, since, until, sent, int(flows.track[begun])))
        return found

    def _waited(self, track: int, sent: int, arrived: int) -> tuple[int, int]:
        """The wait that a flow ended: the wait span in which it arrived, or the time before the thread began
        the outermost span in which it arrived, if it was sent before then; else none.
        """
        host, waits = self.records.host, self.wait_spans
        waits = waits[
            (host.track[waits] == track) & (host.start[waits] <= arrived) & (host.end[waits] >= arrived)
        ]
        if len(waits):
            return int(host.start[waits[-1]]), int(host.end[waits[-1]])
        inner = self.hosts.innermost(track)
        place = int(np.searchsorted(inner.at, arrived, side="right"))
        idle = np.flatnonzero(inner.span[: max(0, place - 1)] < 0)
        begun = int(inner.at[idle[-1] + 1]) if len(idle) else arrived
        return (int(inner.at[idle[-1]]), begun) if sent <= begun < arrived else (arrived, arrived)

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

    def _locks(self) -> list[tuple[int, int, int, int, int]]:
        host = self.records.host
        if not self.records.in_lane["claim"].any():
            return []
        found = []
        for wait in self.wait_spans.tolist():
            holder = self.holder(wait)
            since, until = int(host.start[wait]), int(host.end[wait])
            if holder is not None and since < int(host.end[holder[0]]) <= until + self.scene.limits.clock_ns:
                reached = min(int(host.end[holder[0]]), until)
                found.append((int(host.track[wait]), since, until, reached, int(host.track[holder[0]])))
        return found
