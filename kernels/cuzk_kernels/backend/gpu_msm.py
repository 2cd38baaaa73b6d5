"""One multi-scalar multiplication on a GPU: launches, buffers, and what is left for the host.

Pippenger's method with signed digits, as in cuda/msm.cuh. The last launch leaves, for each window, the
weighted sum of its runs of buckets and the sums of the runs whose number has a given bit: a few hundred
points, each times a power of two, which the host adds up.

Widths and shares of rounds were chosen on an H200.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from cuzk_kernels.backend.gpu_kernels import CHUNK_LENGTH, COUNTERS, SEGMENT_BYTES, SMALL_MERGE

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_blocks import Block, Event
    from cuzk_kernels.backend.gpu_device import Device
    from cuzk_kernels.curves import Curve

WORD = 4
SCALAR_BYTES = 32
MIN_SEGMENT, MAX_SEGMENT = 32, 1024
MOST_SEGMENTS = 1 << 20  # beyond one a bucket: their sums take memory
SCAN_TILE = 4096
MIN_BITS, MAX_BITS = 4, 22
LARGE = 10_000
LARGE_FEED = 1 << 20  # scalars whose copy takes longer than a second round costs
BLOCK = 128
ACCUMULATE_BLOCKS = {1: 2, 2: 3}  # by group, blocks that a multiprocessor holds: cuda/points.cu
REDUCE_BLOCKS = 2
MAX_LOG_RUN = 7


class Bases(NamedTuple):
    """`total` points on the device, none infinity. map: the place of each among the key's points, or 0."""

    points: int
    map: int
    total: int
    blocks: tuple["Block", ...]

    @property
    def size(self) -> int:
        return sum(block.size for block in self.blocks)


class Windows(NamedTuple):
    """How scalars are cut: `wide` windows of `bits` bits, the others of one bit less, `number` in all.

    Of nearly equal width, because a top window of what is left over would be a few long buckets. Digits are
    signed and scalars made at most r / 2, so that the bits of r are enough (cuda/msm.cuh).
    """

    bits: int
    wide: int
    number: int

    @classmethod
    def of(cls, scalar_bits: int, bits: int) -> "Windows":
        """No more than `bits` bits wide, and as few as that takes."""
        number = -(-scalar_bits // bits)
        bits = -(-scalar_bits // number)
        return cls(bits, number - (number * bits - scalar_bits), number)

    def first_bucket(self, window: int) -> int:
        full = min(window, self.wide)
        return (full << (self.bits - 1)) + ((window - full) << (self.bits - 2))

    @property
    def buckets(self) -> int:
        return self.first_bucket(self.number)

    def position(self, window: int) -> int:
        """The power of two that the window's digits count."""
        return window * self.bits - max(0, window - self.wide)


def window_bits(scalar_bits: int, full: float, short: float = 0.0) -> int:
    """The digit width with the least work, counted in mixed additions as timed on an H200.

    full: scalars of full width; short: scalars of one digit, such as ones. A digit costs an addition and its
    sorting, which grows with the number of counters; a bucket costs about four. Buckets of more than a
    segment are cut, and merging the parts takes a quarter of a millisecond or more.
    """
    best, least = MIN_BITS, float("inf")
    for bits in range(MIN_BITS, MAX_BITS + 1):
        windows = Windows.of(scalar_bits, bits)
        sorting = 0.11 + 0.04 * max(0, bits - 18)
        work = full * windows.number * (1 + sorting) + short * (1 + sorting * windows.number)
        work += 3.9 * windows.buckets
        if full > LARGE and full * windows.number > MAX_SEGMENT // 2 * windows.buckets:
            work += 1_500_000  # every bucket is cut and merged
        if work < least:
            best, least = bits, work
    return best


def _threads(items: int, block: int = 256) -> tuple[int, int]:
    return max(1, min(-(-items // block), 1 << 16)), block


class Feed:
    """Scalars in page-locked host memory, to be copied while earlier ones are worked on."""

    def __init__(self, address: int, parts: int = 8) -> None:
        self.address, self.parts = address, parts

    def rounds(self, n: int, cheap: bool) -> list[tuple[int, int]]:
        """The ranges of scalars to sum one after the other, two where that pays.

        Summing the first hides the copy of the others; where sums are cheap, more of them.
        """
        if n < LARGE_FEED:
            return [(0, n)]
        first = n // (4 if cheap else 8)
        return [(0, first), (first, n)]

    def pieces(self, device: "Device", target: int, first: int, end: int) -> Iterator[tuple[int, int]]:
        step = max(1 << 18, -(-(end - first) // self.parts))
        for begin in range(first, end, step):
            last = min(end, begin + step)
            device.upload(
                target + SCALAR_BYTES * begin, self.address + SCALAR_BYTES * begin,
                SCALAR_BYTES * (last - begin), device.copy,
            )  # fmt: skip
            device.wait_for(device.event(device.copy), device.sort)
            yield begin, last


class Round(NamedTuple):
    """Digits of some of the scalars sorted by bucket, and the buckets cut into segments, longest first."""

    entries: int
    counters: int
    segments: int
    small: int
    big: int
    chunks: int
    sorted: "Event"


class Msm:
    """The steps in order: digits, accumulate, reduce; then `points` gives what the host adds up.

    Sorting has a stream of its own, beside the sums of an earlier MSM or of earlier scalars. Its buffers come
    from a pool of that stream: a block serves again once the sums that read it are done.
    """

    def __init__(
        self, device: "Device", curve: "Curve", group: int, bases: Bases, scalars: int, bits: int,
        ready: "Event | None" = None, widths: tuple[float, float] = (1.0, 0.0),
    ) -> None:  # fmt: skip
        """ready: when the scalars are there; without it, after everything enqueued so far.

        widths: the shares of scalars that are of full width and of one digit.
        """
        self.device, self.curve, self.group = device, curve, group
        self.bases, self.scalars, self.ready, self._widths = bases, scalars, ready, widths
        self.lanes = group
        self.windows = Windows.of(curve.r.bit_length(), bits)
        self.buckets = self.windows.buckets
        self.sum_bytes = 4 * group * curve.n8q
        self.fr, self.unit = f"{curve.name}-scalars", f"{curve.name}-g{group}"
        self._blocks: list[Block] = []
        self._sort_blocks: list[Block] = []
        self._rounds: list[Round] = []
        self._extra = 0  # sums beyond the first of a bucket, at most
        self._out: Any = None
        self._grid = ACCUMULATE_BLOCKS[group] * device.processors
        self._units = self._grid * BLOCK // self.lanes  # that run at once

    def _take(self, size: int) -> int:
        block = self.device.alloc(size)
        self._blocks.append(block)
        return block.address

    def _take_sort(self, size: int) -> int:
        block = self.device.sort_pool.take(size)
        self._sort_blocks.append(block)
        return block.address

    def digits(self, feed: "Feed | None" = None) -> None:
        """Sort the digits. feed: the scalars are still on the host; the first of them are summed while the
        others are on their way."""
        device, n = self.device, self.bases.total
        device.reuse_sort_blocks()
        if feed is None:
            device.wait_for(self.ready or device.event(), device.sort)
            self._rounds.append(self._sort(0, n, ((0, n),)))
            return
        device.wait_for(device.event(), device.copy)  # what used the scalars' place before
        for first, last in feed.rounds(n, cheap=self.sum_bytes <= 128):
            self._rounds.append(self._sort(first, last, feed.pieces(device, self.scalars, first, last)))

    def _sort(self, first: int, last: int, pieces: Iterable[tuple[int, int]]) -> Round:
        device, windows, n, take = self.device, self.windows, last - first, self._take_sort
        total = n * windows.number
        # Segments long enough that an ordinary bucket is one, short enough that the last leave none waiting:
        # a bucket of half a million ones is one too, and a segment is added up by a single unit.
        spread, alike = (int(n * share) for share in self._widths)
        spread *= windows.number
        limit = max(2 * spread // self.buckets, (spread + alike) // (8 * self._units), total // MOST_SEGMENTS)
        limit = min(MAX_SEGMENT, max(MIN_SEGMENT, limit))
        extra = total // limit + 1  # segments beyond the first of a bucket
        self._extra = max(self._extra, extra)
        codes = take(8 * total)
        entries = take(WORD * total)
        zeroed = WORD * (self.buckets + COUNTERS + limit + 1)
        counts = take(zeroed)
        counters = counts + WORD * self.buckets
        lengths = counters + WORD * COUNTERS
        offsets = take(WORD * (self.buckets + 1))
        tile_sums = take(WORD * -(-self.buckets // SCAN_TILE))
        segments = take(SEGMENT_BYTES * (self.buckets + extra))
        small = take(SEGMENT_BYTES * extra)
        big = take(SEGMENT_BYTES * (extra // SMALL_MERGE + 1))
        chunks = take(SEGMENT_BYTES * (extra // CHUNK_LENGTH + extra // SMALL_MERGE + 2))
        device.clear(counts, zeroed, device.sort)

        def launch(
            name: str, grid: int | tuple[int, int], block: int, *arguments: int, shared: int = 0
        ) -> None:
            device.launch(self.fr, name, grid, block, *arguments, shared=shared, stream=device.sort)

        for begin, end in pieces:
            launch(
                "digits", *_threads(end - begin), self.scalars, self.bases.map, n, begin, end,
                windows.bits, windows.wide, windows.number, codes - 8 * first, counts,
            )  # fmt: skip
        scan(device, self.fr, counts, self.buckets, tile_sums, offsets, device.sort)
        x, block = _threads(n)
        launch(
            "scatter",
            (x, windows.number),
            block,
            codes,
            n,
            first,
            windows.bits,
            windows.wide,
            offsets,
            entries,
        )
        histogram = WORD * (limit + 1)
        grid = max(1, min(-(-self.buckets // 2048), 8 * device.processors))
        launch("count_lengths", grid, 256, counts, self.buckets, limit, lengths, shared=histogram)
        launch("order_lengths", 1, 256, lengths, limit, counters, shared=WORD * 256)
        launch(
            "place_segments", grid, 256, counts, offsets, self.buckets, limit, lengths,
            counters, segments, small, big, chunks, shared=2 * histogram,
        )  # fmt: skip
        return Round(entries, counters, segments, small, big, chunks, device.event(device.sort))

    def accumulate(self) -> None:
        """The sum of every bucket."""
        device, grid = self.device, self._grid
        self.sums = self._take(self.sum_bytes * (self.buckets + self._extra))
        device.clear(self.sums, self.sum_bytes * self.buckets)
        shared = BLOCK // 2 // self.lanes * self.sum_bytes
        for number, part in enumerate(self._rounds):
            device.wait_for(part.sorted)
            device.launch(
                self.unit, "accumulate", grid, BLOCK, self.bases.points, part.entries, part.segments,
                part.counters, self.buckets if number else 0, self.sums,
            )  # fmt: skip
            device.launch(self.unit, "merge_small", grid, BLOCK, part.small, part.counters, self.sums)
            for name, list_ in (("merge_chunks", part.chunks), ("merge_big", part.big)):
                device.launch(self.unit, name, grid, BLOCK, list_, part.counters, self.sums, shared=shared)

    def reduce(self) -> None:
        """Bucket sums to a few points a window, on their way to the host when this returns."""
        device, windows = self.device, self.windows
        most = windows.bits - 2  # a chunk lies in one window, narrow ones too
        log_length = min(1, most)  # short runs: what counts is the chain of dependent additions
        units = REDUCE_BLOCKS * device.processors * BLOCK // self.lanes
        while log_length < min(MAX_LOG_RUN, most) and self.buckets >> log_length > units:
            log_length += 1
        log_runs = min((BLOCK // self.lanes).bit_length() - 1, most - log_length)
        log_chunk = log_length + log_runs
        chunks = self.buckets >> log_chunk
        totals = self._take(self.sum_bytes * (log_runs + 2) * chunks)
        self.rows, self.log_length, self.log_runs = windows.bits - log_length, log_length, log_runs
        size = self.sum_bytes * self.rows * windows.number
        out = self._take(size)
        device.launch(
            self.unit, "reduce_runs", chunks, BLOCK, self.sums, log_length, log_runs, totals,
            shared=2 * self.sum_bytes << log_runs,
        )  # fmt: skip
        block = max(32, min(BLOCK, self.lanes << (windows.bits - 1 - log_chunk)))
        device.launch(
            self.unit, "reduce_bits", (self.rows, windows.number), block,
            totals, windows.bits, windows.wide, log_chunk, log_runs, out,
            shared=block // 2 // self.lanes * self.sum_bytes,
        )  # fmt: skip
        self._out = device.pinned_scratch(size)
        device.download(self._out.address, out, size)
        self._done = device.event()

    def points(self) -> tuple[memoryview, list[int]]:
        """XYZZ sums (Montgomery, packed) and for each the power of two it counts; waits for the device."""
        self.device.finish(self._done)
        powers = [
            self.windows.position(window) + (0 if row == 0 else self.log_length + row - 1)
            for window in range(self.windows.number)
            for row in range(self.rows)
        ]
        return self._out.view[: self.sum_bytes * len(powers)], powers

    def release(self) -> None:
        """Give the device's buffers back; later work on the same stream may use them at once."""
        for block in self._blocks:
            block.release()
        self._blocks.clear()
        self.device.retire_sort_blocks(self._sort_blocks)
        self._sort_blocks = []

    def done(self) -> None:
        """Give the host's buffer back, after `points` was used."""
        if self._out is not None:
            self.device.give_scratch(self._out)
            self._out = None


def scan(
    device: "Device", unit: str, values: int, count: int, tile_sums: int, out: int, stream: Any = None
) -> None:
    """out[k] = sum of values[:k], k <= count."""
    tiles = -(-count // SCAN_TILE)

    def launch(name: str, grid: int, *arguments: int) -> None:
        device.launch(unit, name, grid, 256, *arguments, shared=WORD * 256, stream=stream)

    launch("scan_tiles", tiles, values, count, SCAN_TILE, tile_sums)
    launch("scan_apply", tiles, values, count, SCAN_TILE, tile_sums, out)


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
