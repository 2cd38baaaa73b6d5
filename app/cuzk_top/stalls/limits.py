"""Every threshold of the stall rules, by name, with where it comes from. Flags of the command line change
them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in ns, shares of 1, rates as said. *The proof* is the time within the window in which a job was
    open; where no span says what a job is, the time from the first to the last work of a device.

    The values without another source are those of the rule table of this project, which was tuned against the
    rules of `nsys analyze`, Holistic Trace Analysis, TraceLens and the logs of the cuzk daemon.
    """

    group_share: float = 0.005
    """A group of gaps is a finding from this share of the proof on: many small gaps count as one long."""
    cover: float = 0.6
    """A host span explains a gap of which it covers this share; above a half, so at most one a depth does."""
    drained: float = 0.1
    """A gap opens at a synchronise that returns within this first share of it (or within `launch_ns`)."""
    launch_ns: int = 50_000
    """Gaps below this are a matter of launching: an enqueued kernel follows after 1 to 3 us on an H200, a
    launch from Python or C++ takes 3 to 30."""
    launch_share: float = 0.02
    """Launch gaps are a finding from this share of the window on."""
    queued_ns: int = 5_000
    """Work that begins this soon after what ran before it on its stream was held up by that alone. 0.9 to
    3 us between enqueued kernels in traces of H200s."""
    clock_ns: int = 5_000
    """How far the driver's clock of devices and the host's may be apart. CUPTI converts with the host clock
    that it was given; the same moment seen from both differs by up to 2 us in traces of H200s."""
    delivery_ns: int = 150_000_000
    """While a program runs, what its devices did last is not known yet: the driver hands records over within
    this time (worst of 300 kernels on an H200: 144 ms)."""
    exposed_share: float = 0.01
    """Copies that no kernel hides are a finding from this share of the proof on."""
    slow_rate: float = 0.5
    """A copy below this share of the link's best rate is slow. Pageable memory reaches 0.14 to 0.17 of it."""
    copy_bytes: int = 16_000_000
    """Copies from this size on tell a link's rate."""
    claim: float = 0.7
    """A host's claim on a GPU of which device work covers less than this."""
    fault_rate: float = 5.0
    """Minor faults a second, as a multiple of the session's median, that make a burst."""
    fault_least: int = 1_000
    """Fewer faults (4 MB in small pages, about 0.5 ms at 0.5 us each) cost nothing worth a line."""
    minor_fault_ns: int = 300_000
    """The most that one takes: a page of 2 MiB is found and zeroed in 0.25 to 0.35 ms (4 GiB touched on the
    host of an H200: 2,049 faults in 0.52 to 0.72 s), one of 4 KiB in some 1.5 us."""
    major_fault_ns: int = 10_000_000
    """The most that one takes: the seek of a spinning disk."""
    explains: float = 0.5
    """Faults that could not make this share of a span's excess did not make it slow."""
    slower: float = 0.1
    """A span is slower than its siblings when it exceeds their median by this share."""
    siblings: int = 2
    """Other spans of the same name and size that a median is taken of, at least."""
    fall: float = 0.25
    """Resident memory that falls by this share of its peak, and by `fall_bytes`, was given back at once."""
    fall_bytes: int = 256 << 20
    """... so that the buffers of small circuits, which come and go with each proof, are left alone."""
    call_share: float = 0.01
    """Calls that allocate, register or free are a finding from this share of the proof on."""
    wait_share: float = 0.005
    """Waits for a lock whose holder leaves the device idle, from this share of the proof on."""
    clock_drop: float = 0.85
    """The SM clock of a busy device, as a share of the session's highest, below which it is throttled."""
    clock_drop_ns: int = 200_000_000
    """... for this long: NVML is asked five times a second."""
    tail_share: float = 0.05
    """What runs last and alone, from this share of the proof on."""
    tail_others: float = 0.1
    """... of a device's streams: where the others had this share of its kernel time. Beside a stream that
    only prepares the work of the one, that one is not left alone by anybody."""
    silent_ns: int = 2_000_000_000
    """NVML without an answer for this long while a job is open: it is asked five times a second."""
    hung: float = 5.0
    """An open span is suspicious at this multiple of its median ..."""
    still_ns: int = 2_000_000_000
    """... when nothing was recorded for this long and the process used no CPU."""
    still_cpu: float = 2.0
    """Per cent of the machine that an idle process may use."""
    early_ns: int = 1_000_000_000
    """Before its first proof has ended or run this long, a session cannot be judged."""
    most_records: int = 500_000
    """Records looked at: a window that holds more is cut at its beginning. About two seconds of work."""
    most_steps: int = 1_500_000
    """Events recomputed for what closing a finding saves, over all findings: about half a second. Proofs
    beyond that, oldest first, are not measured."""


DEFAULTS = Limits()
