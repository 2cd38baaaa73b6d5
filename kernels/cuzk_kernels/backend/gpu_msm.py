"""One multi-scalar multiplication on a GPU: launches, buffers, and what is left for the host.

Pippenger's method with signed digits, as in cuda/msm.cuh. The last launch leaves, for each window, the
weighted sum of its runs of buckets and the sums of the runs whose number has a given bit: a few hundred
points, each times a power of two, which the host adds up.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from cuzk_kernels.backend.gpu_kernels import CHUNK_LENGTH, COUNTERS, SEGMENT_BYTES, SMALL_MERGE

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_device import Block, Device
    from cuzk_kernels.curves import Curve

WORD = 4
SCALAR_BYTES = 32
MIN_SEGMENT, MAX_SEGMENT = 32, 1024
SCAN_TILE = 4096
MIN_BITS, MAX_BITS = 4, 22
LARGE = 10_000


class Bases(NamedTuple):
    """`total` points on the device, none infinity. map: the place of each among the key's points, or 0."""

    points: int
    map: int
    total: int
    blocks: tuple["Block", ...]

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)


def window_bits(scalar_bits: int, full: float, short: float = 0.0) -> int:
    """The digit width with the least work, counted in mixed additions as timed on an H200.

    full: scalars of full width; short: scalars of one digit, such as ones. A digit costs an addition and its
    sorting, which grows with the number of counters; a bucket costs about four. Long buckets, as a top
    window of few bits has, are cut, and merging the parts takes a quarter of a millisecond or more.
    """
    best, least = MIN_BITS, float("inf")
    for bits in range(MIN_BITS, MAX_BITS + 1):
        windows = -(-scalar_bits // bits)
        buckets = windows << (bits - 1)
        sorting = 0.09 + 0.04 * max(0, bits - 17)
        top = scalar_bits - 1 - (windows - 1) * bits
        work = full * windows * (1 + sorting) + short * (1 + sorting * windows) + 4.1 * buckets
        if full + short > LARGE and top < bits - 4:
            work += 700_000
        if full > LARGE and full * windows > 100 * buckets:
            work += 1_500_000  # every bucket is cut and merged
        if work < least:
            best, least = bits, work
    return best


def _threads(items: int, block: int = 256) -> tuple[int, int]:
    return max(1, min(-(-items // block), 1 << 16)), block


class Feed:
    """Scalars in page-locked host memory, to be copied while digits are made of earlier ones."""

    def __init__(self, address: int, parts: int = 8) -> None:
        self.address, self.parts = address, parts

    def pieces(self, device: "Device", target: int, n: int) -> Iterator[tuple[int, int]]:
        device.wait_for(device.event(), device.copy)  # what used the target before
        step = max(1 << 18, -(-n // self.parts))
        for first in range(0, n, step):
            last = min(n, first + step)
            device.upload(
                target + SCALAR_BYTES * first, self.address + SCALAR_BYTES * first,
                SCALAR_BYTES * (last - first), device.copy,
            )  # fmt: skip
            device.wait_for(device.event(device.copy))
            yield first, last


class Msm:
    """The steps in order: digits, accumulate, reduce; then `points` gives what the host adds up."""

    def __init__(
        self, device: "Device", curve: "Curve", group: int, bases: Bases, scalars: int, bits: int
    ) -> None:
        self.device, self.curve, self.group = device, curve, group
        self.bases, self.scalars, self.bits = bases, scalars, bits
        self.lanes = group
        self.windows = -(-curve.r.bit_length() // bits)
        self.buckets = self.windows << (bits - 1)
        self.sum_bytes = 4 * group * curve.n8q
        self.fr, self.unit = f"{curve.name}-scalars", f"{curve.name}-g{group}"
        self._blocks: list[Block] = []
        self._out: Any = None
        # Segments long enough that an ordinary bucket is one, short enough that the last leave none waiting.
        digits = bases.total * self.windows
        units = 2 * device.processors * 128 // self.lanes  # that run at once
        self.limit = min(MAX_SEGMENT, max(MIN_SEGMENT, 2 * digits // self.buckets, digits // (8 * units)))
        self._units = units

    def _take(self, size: int) -> int:
        block = self.device.alloc(size)
        self._blocks.append(block)
        return block.address

    def digits(self, feed: "Feed | None" = None) -> None:
        """Signed digits sorted by bucket, and buckets cut into segments, longest first.

        feed: the scalars are still on the host and come in pieces, each cut into digits while the next is
        on its way.
        """
        device, n, total = self.device, self.bases.total, self.bases.total * self.windows
        extra = total // self.limit + 1  # segments beyond the first of a bucket
        codes = self._take(8 * total)
        self.entries = self._take(WORD * total)
        zeroed = WORD * (self.buckets + COUNTERS + self.limit + 1)
        counts = self._take(zeroed)
        self.counters = counts + WORD * self.buckets
        lengths = self.counters + WORD * COUNTERS
        offsets = self._take(WORD * (self.buckets + 1))
        tiles = -(-self.buckets // SCAN_TILE)
        tile_sums = self._take(WORD * tiles)
        self.segments = self._take(SEGMENT_BYTES * (self.buckets + extra))
        self.small = self._take(SEGMENT_BYTES * extra)
        self.big = self._take(SEGMENT_BYTES * (extra // SMALL_MERGE + 1))
        self.chunks = self._take(SEGMENT_BYTES * (extra // CHUNK_LENGTH + extra // SMALL_MERGE + 2))
        self.sums = self._take(self.sum_bytes * (self.buckets + extra))
        device.clear(counts, zeroed)
        device.clear(self.sums, self.sum_bytes * self.buckets)
        for first, last in feed.pieces(device, self.scalars, n) if feed else ((0, n),):
            device.launch(
                self.fr, "digits", *_threads(last - first), self.scalars, self.bases.map, n, first, last,
                self.bits, self.windows, codes, counts,
            )  # fmt: skip
        scan(device, self.fr, counts, self.buckets, tile_sums, offsets)
        x, block = _threads(n)
        device.launch(
            self.fr, "scatter", (x, self.windows), block, codes, n, self.bits, offsets, self.entries
        )
        histogram = WORD * (self.limit + 1)
        grid = max(1, min(-(-self.buckets // 2048), 8 * device.processors))
        device.launch(
            self.fr, "count_lengths", grid, 256, counts, self.buckets, self.limit, lengths, shared=histogram
        )
        device.launch(self.fr, "order_lengths", 1, 256, lengths, self.limit, self.counters, shared=WORD * 256)
        device.launch(
            self.fr, "place_segments", grid, 256, counts, offsets, self.buckets, self.limit, lengths,
            self.counters, self.segments, self.small, self.big, self.chunks, shared=2 * histogram,
        )  # fmt: skip

    def accumulate(self) -> None:
        """The sum of every bucket."""
        device, grid = self.device, 2 * self.device.processors
        device.launch(
            self.unit, "accumulate", grid, 128,
            self.bases.points, self.entries, self.segments, self.counters, self.sums,
        )  # fmt: skip
        shared = 64 // self.lanes * self.sum_bytes
        device.launch(self.unit, "merge_small", grid, 128, self.small, self.counters, self.sums)
        device.launch(
            self.unit, "merge_chunks", grid, 128, self.chunks, self.counters, self.sums, shared=shared
        )
        device.launch(self.unit, "merge_big", grid, 128, self.big, self.counters, self.sums, shared=shared)

    def reduce(self) -> None:
        """Bucket sums to a few points a window, on their way to the host when this returns."""
        device = self.device
        units = self._units
        log_length = 0  # short runs: what counts is the chain of dependent additions
        while log_length < self.bits - 1 and self.buckets >> log_length > units and log_length < 6:
            log_length += 1
        log_length = max(log_length, min(3, self.bits - 1))
        log_runs = self.bits - 1 - log_length
        runs = self.windows << log_runs
        totals = self._take(2 * self.sum_bytes * runs)
        self.rows, self.log_length = log_runs + 1, log_length
        size = self.sum_bytes * self.rows * self.windows
        out = self._take(size)
        device.launch(
            self.unit, "reduce_runs", -(-runs * self.lanes // 128), 128, self.sums, runs, log_length, totals
        )
        device.launch(
            self.unit, "reduce_bits", (self.rows, self.windows), 128, totals, log_runs, out,
            shared=64 // self.lanes * self.sum_bytes,
        )  # fmt: skip
        self._out = device.pinned_scratch(size)
        device.download(self._out.address, out, size)
        self._done = device.event()

    def points(self) -> tuple[memoryview, list[int]]:
        """XYZZ sums (Montgomery, packed) and for each the power of two it counts; waits for the device."""
        self.device.finish(self._done)
        powers = [
            window * self.bits + (0 if row == 0 else self.log_length + row - 1)
            for window in range(self.windows)
            for row in range(self.rows)
        ]
        return self._out.view[: self.sum_bytes * len(powers)], powers

    def release(self) -> None:
        """Give the device's buffers back; later work on the stream may use them at once."""
        for block in self._blocks:
            block.release()
        self._blocks.clear()

    def done(self) -> None:
        """Give the host's buffer back, after `points` was used."""
        if self._out is not None:
            self.device.give_scratch(self._out)
            self._out = None


def scan(device: "Device", unit: str, values: int, count: int, tile_sums: int, out: int) -> None:
    """out[k] = sum of values[:k], k <= count."""
    tiles = -(-count // SCAN_TILE)
    shared = WORD * 256
    device.launch(unit, "scan_tiles", tiles, 256, values, count, SCAN_TILE, tile_sums, shared=shared)
    device.launch(unit, "scan_sums", 1, 256, tile_sums, tiles, shared=shared)
    device.launch(unit, "scan_apply", tiles, 256, values, count, SCAN_TILE, tile_sums, out, shared=shared)


def load_bases(device: "Device", curve: "Curve", group: int, points: int, count: int) -> Bases:
    """Bases from `count` file points on the device, infinities left out. Waits for the device."""
    unit, size = f"{curve.name}-scalars", curve.point_bytes(group)
    words = size // WORD
    flags, offsets = device.alloc(WORD * count), device.alloc(WORD * (count + 1))
    tile_sums = device.alloc(WORD * -(-count // SCAN_TILE))
    device.launch(unit, "mark_points", *_threads(count), points, count, words, flags.address)
    scan(device, unit, flags.address, count, tile_sums.address, offsets.address)
    kept = device.words(offsets.address + WORD * count, 1)[0]
    target = device.alloc(size * kept)
    places = device.alloc(WORD * kept)
    device.launch(
        unit,
        "compact_points",
        *_threads(count),
        points,
        count,
        words,
        offsets.address,
        target.address,
        places.address,
    )
    device.synchronize()
    if kept == count:
        places.release()
        return Bases(target.address, 0, kept, (target,))
    return Bases(target.address, places.address, kept, (target, places))
