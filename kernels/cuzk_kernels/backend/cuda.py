"""The CUDA back end: vectors and keys live on the GPU, the host launches and adds up what is left.

Bases of a key stay on the device while the memory budget lasts (the least recently used go first); arrays that
are larger than the budget are streamed through two buffers, the copy of one part hidden behind the work on the
other. MSMs of a few points, key generation and field checks of small things go to the host's back end.
"""

from collections import OrderedDict
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import cuzk_tracer
from cuzk_kernels.backend import gpu_msm
from cuzk_kernels.backend.gpu_memory import H2D_MODES, Stager
from cuzk_kernels.backend.gpu_msm import Bases, Feed, Msm
from cuzk_kernels.backend.gpu_ntt import Domain
from cuzk_kernels.backend.gpu_points import check_constants, combine, fixed_table
from cuzk_kernels.backend.protocol import NOT_REDUCED, OFF_CURVE, WRONG_SUBGROUP, CoefError, MsmSteps
from cuzk_kernels.errors import InputError

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_device import Block, Device
    from cuzk_kernels.backend.protocol import Backend
    from cuzk_kernels.curves import Curve, Point

SCALAR_BYTES, COEF_BYTES = 32, 44
SMALL = 64  # points that the host adds up faster than a GPU is asked
SAMPLE = 256
POINT_PROBLEMS = ("", NOT_REDUCED, OFF_CURVE, WRONG_SUBGROUP)
NOTHING = (1 << 64) - 1
UNTRACED = MsmSteps(*(nullcontext() for _ in MsmSteps._fields))

H2D_SCALARS = cuzk_tracer.span("h2d.scalars", a0="bytes", stage=True)
H2D_KEY = cuzk_tracer.span("h2d.key", a0="bytes", stage=True)


class GpuVec:
    """A vector over Fr in Montgomery form on the device; `shifted`: a coset shift is still to be applied."""

    def __init__(self, owner: "CudaBackend", curve: "Curve", length: int) -> None:
        if length < 1 or length & (length - 1):
            raise ValueError(f"length {length} is not a power of two")
        self.owner, self.curve, self.length = owner, curve, length
        self.log = length.bit_length() - 1
        self.block: Block = owner.device.alloc(SCALAR_BYTES * length)
        self.reversed = self.shifted = False

    def __len__(self) -> int:
        return self.length

    @property
    def address(self) -> int:
        return self.block.address

    def tobytes(self) -> bytes:
        device = self.owner.device
        plain = device.alloc(SCALAR_BYTES * self.length)
        unit = f"{self.curve.name}-scalars"
        if self.shifted:
            raise ValueError("a coset shift is pending")
        device.launch(unit, "montgomery", *_grid(self.length), self.address, plain.address, self.length, 0)
        if self.reversed:
            device.launch(unit, "reorder", *_grid(self.length), plain.address, self.log)
        return device.read(plain.address, SCALAR_BYTES * self.length)


class GpuScalars:
    """Plain scalars on the device. sample: some of them on the host, to choose digit widths by."""

    def __init__(self, owner: "CudaBackend", block: "Block", count: int, host: memoryview | None = None) -> None:
        self.owner, self.block, self.count, self.host = owner, block, count, host

    def __len__(self) -> int:
        return self.count

    @property
    def address(self) -> int:
        return self.block.address

    def tobytes(self) -> bytes:
        return self.owner.device.read(self.address, SCALAR_BYTES * self.count)


class _Coefficients:
    """A key's A and B on the device, in the order of rows."""

    def __init__(self, offsets: "Block", wires: "Block", values: "Block") -> None:
        self.offsets, self.wires, self.values = offsets, wires, values

    @property
    def size(self) -> int:
        return self.offsets.size + self.wires.size + self.values.size


def _grid(items: int) -> tuple[int, int]:
    return max(1, min(-(-items // 256), 1 << 16)), 256


class CudaBackend:
    """The Backend protocol on one or more GPUs. h2d: how host memory is copied (gpu_memory.H2D_MODES).

    b_g2: "gpu", or "cpu" for the MSM in G2 on the host beside the GPU's work. memory: bytes a device may keep
    of keys; by default three quarters of what is free.
    """

    name = "cuda"

    def __init__(
        self, devices: "list[Device]", host: "Backend", *, h2d: str = "pool", b_g2: str = "gpu",
        memory: int | None = None,
    ) -> None:  # fmt: skip
        if h2d not in H2D_MODES:
            raise InputError(f"--h2d {h2d}: choose one of {', '.join(H2D_MODES)}")
        if b_g2 not in ("gpu", "cpu"):
            raise InputError(f"--b-g2 {b_g2}: choose gpu or cpu")
        self.devices, self.device, self.host = devices, devices[0], host
        self.h2d, self.b_g2 = h2d, b_g2
        self.threads = host.threads
        self.budget = memory if memory is not None else devices[0].memory()[0] * 3 // 4
        self.stager = Stager(devices[0], h2d)
        self._resident: OrderedDict[Any, tuple[Any, Any]] = OrderedDict()
        self._domains: dict[tuple[str, int], Domain] = {}
        self._witness: tuple[memoryview, Block] | None = None
        cuzk_tracer.meta(
            gpu=", ".join(device.name for device in devices), h2d=h2d, b_g2=b_g2, gpu_budget=str(self.budget)
        )

    # Checks

    def point_check(
        self, curve: "Curve", group: int, points: memoryview, count: int, subgroup: bool
    ) -> tuple[int, str] | None:
        if count < SMALL:
            return self.host.point_check(curve, group, points, count, subgroup)
        device = self.device
        size = curve.point_bytes(group)
        constants = check_constants(curve, group)
        table = device.alloc(len(constants))
        device.upload_bytes(table.address, constants)
        result = self._least()
        data = self._upload(points, size * count)
        subgroup = subgroup and not curve.group(group).cofactor_one
        device.launch(
            f"{curve.name}-g{group}", "check_points", max(1, min(-(-count * group // 128), 4 * device.processors)), 128,
            data.address, count, int(subgroup), table.address, result.address,
        )  # fmt: skip
        found = self._u64(result)
        return None if found == NOTHING else (found >> 2, POINT_PROBLEMS[found & 3])

    def witness_check(self, curve: "Curve", witness: memoryview, count: int) -> int | None:
        if count == 0:
            return None
        block = self._witness_block(witness, count)
        result = self._least()
        self.device.launch(
            f"{curve.name}-scalars", "check_scalars", *_grid(count), block.address, count, result.address
        )
        found = self._u64(result)
        return None if found == NOTHING else found

    # Vectors

    def eval_ab(
        self, curve: "Curve", coefs: memoryview, n_coefs: int, witness: memoryview, n_vars: int, domain: int
    ) -> tuple[GpuVec, GpuVec]:
        matrix = self._coefficients(curve, coefs, n_coefs, n_vars, domain)
        values = self._witness_block(witness, n_vars)
        a, b = GpuVec(self, curve, domain), GpuVec(self, curve, domain)
        self.device.launch(
            f"{curve.name}-scalars", "evaluate", *_grid(2 * domain), matrix.offsets.address, matrix.wires.address,
            matrix.values.address, values.address, domain, a.address, b.address,
        )  # fmt: skip
        return a, b

    def product(self, a: GpuVec, b: GpuVec) -> GpuVec:
        _check_alike(a, b)
        c = GpuVec(self, a.curve, a.length)
        c.reversed = a.reversed
        self._launch(a.curve, "product", a.length, a.address, b.address, c.address, a.length)
        return c

    def vector(self, curve: "Curve", data: bytes | memoryview) -> GpuVec:
        """From plain little-endian integers of 32 bytes, in natural order."""
        vec = GpuVec(self, curve, len(data) // SCALAR_BYTES)
        self.device.upload_bytes(vec.address, bytes(data))
        self._launch(curve, "montgomery", vec.length, vec.address, vec.address, vec.length, 1)
        return vec

    def intt(self, v: GpuVec) -> None:
        """Leaves the coefficients in bit-reversed order, where `coset` and `ntt` want them."""
        self._order(v, False)
        self.domain(v.curve, v.log).run(v.address, up=False)
        v.reversed = True

    def coset(self, v: GpuVec) -> None:
        """Only noted: the first pass of `ntt` multiplies by the shift's powers as it reads."""
        if v.shifted:
            raise ValueError("shifted already")
        v.shifted = True

    def ntt(self, v: GpuVec) -> None:
        self._order(v, True)
        self.domain(v.curve, v.log).run(v.address, up=True, coset=v.shifted)
        v.reversed = v.shifted = False

    def pointwise(self, a: GpuVec, b: GpuVec, c: GpuVec) -> GpuScalars:
        _check_alike(a, b)
        _check_alike(a, c)
        for v in (a, b, c):
            self._order(v, False)
        out = self.device.alloc(SCALAR_BYTES * a.length)
        self._launch(a.curve, "pointwise", a.length, a.address, b.address, c.address, out.address, a.length)
        return GpuScalars(self, out, a.length)

    def domain(self, curve: "Curve", log: int) -> Domain:
        key = curve.name, log
        if key not in self._domains:
            self._domains[key] = Domain(self.device, curve, log)
        return self._domains[key]

    # Sums of points

    def scalars(self, curve: "Curve", data: memoryview, count: int) -> Any:  # noqa: ARG002 (plain)
        if count < SMALL:
            return self.host.scalars(curve, data, count)
        block = self._witness_block(data, count)
        self._witness = None
        return GpuScalars(self, block, count, data)

    def window_bits(
        self, curve: "Curve", group: int, count: int, scalars: Any = None, offset: int = 0
    ) -> int:
        if count < SMALL:
            known = None if isinstance(scalars, GpuScalars) else scalars
            return self.host.window_bits(curve, group, count, known, offset)
        full, short = float(count), 0.0
        if isinstance(scalars, GpuScalars) and scalars.host is not None:
            full, short = _widths(curve, scalars.host, offset, count)
        return gpu_msm.window_bits(curve.r.bit_length(), group, full, short)

    def msm(
        self, curve: "Curve", group: int, points: memoryview, scalars: Any, offset: int, count: int, steps: MsmSteps
    ) -> "Point":
        if offset < 0 or count < 0 or offset + count > len(scalars):
            raise ValueError(f"scalars {offset} to {offset + count} of {len(scalars)}")
        if not isinstance(scalars, GpuScalars):
            return self.host.msm(curve, group, points, scalars, offset, count, steps)
        if count < SMALL or (group == 2 and self.b_g2 == "cpu"):
            first, last = SCALAR_BYTES * offset, SCALAR_BYTES * (offset + count)
            data = memoryview(bytearray(scalars.tobytes()[first:last]))
            return self.host.msm(curve, group, points, self.host.scalars(curve, data, count), 0, count, steps)
        bits = self.window_bits(curve, group, count, scalars, offset)
        first = scalars.address + SCALAR_BYTES * offset
        return self.sum_bases(curve, group, self.bases(curve, group, points, count), first, bits, steps)

    def sum_bases(
        self, curve: "Curve", group: int, bases: Bases, scalars: int, bits: int, steps: MsmSteps,
        feed: Feed | None = None,
    ) -> "Point":  # fmt: skip
        """The MSM of resident bases and the plain scalars at a device address, or still on their way there."""
        if bases.count == 0:
            return None
        msm = self._start(Msm(self.device, curve, group, bases, scalars, bits), steps, feed)
        return self._finish(msm, steps)

    def sum_many(self, jobs: "list[tuple[Curve, int, Bases, int, int]]") -> "list[Point]":
        """MSMs one behind the other on the device, the host adding up what one left while the next runs.

        A job is (curve, group, bases, address of the scalars, window bits).
        """
        started = [
            self._start(Msm(self.device, *job), UNTRACED) if job[2].count else None for job in jobs
        ]
        return [None if msm is None else self._finish(msm, UNTRACED) for msm in started]

    def _start(self, msm: Msm, steps: MsmSteps, feed: Feed | None = None) -> Msm:
        try:
            with steps.digits:
                msm.digits(feed)
            with steps.accumulate:
                msm.accumulate()
            with steps.reduce:
                msm.reduce()
        finally:
            msm.release()  # what is enqueued next may use the buffers: it runs later
        return msm

    def _finish(self, msm: Msm, steps: MsmSteps) -> "Point":
        with steps.horner:
            points, powers = msm.points()
            result = combine(msm.curve, msm.group, points, powers)
        msm.done()
        return result

    def bases(self, curve: "Curve", group: int, points: memoryview, count: int) -> Bases:
        """A key's points on the device, kept for the next proof."""
        size = curve.point_bytes(group) * count
        return self._keep(points, size, lambda: self._load_bases(curve, group, points, count))

    def _load_bases(self, curve: "Curve", group: int, points: memoryview, count: int) -> Bases:
        with H2D_KEY(count * curve.point_bytes(group)):
            block = self._upload(points, count * curve.point_bytes(group))
            return gpu_msm.load_bases(self.device, curve, group, block.address, count)

    def fixed_base(self, curve: "Curve", group: int, base: "Point", scalars: Any, count: int) -> bytes:
        if base is None:
            return bytes(count * curve.point_bytes(group))
        if not isinstance(scalars, GpuScalars):
            return self.host.fixed_base(curve, group, base, scalars, count)
        out = self.multiples(curve, group, base, scalars.address, count)
        return self.device.read(out.address, count * curve.point_bytes(group))

    def multiples(self, curve: "Curve", group: int, base: "Point", scalars: int, count: int) -> "Block":
        """scalars[i] * base as file points on the device; base is not infinity."""
        device = self.device
        table_bytes = fixed_table(self.host, curve, group, base)
        table = device.alloc(len(table_bytes))
        device.upload_bytes(table.address, table_bytes)
        out = device.alloc(count * curve.point_bytes(group))
        grid = max(1, min(-(-count * group // (8 * 128)), 2 * device.processors))
        device.launch(
            f"{curve.name}-g{group}", "fixed_base", grid, 128, table.address, scalars, count, out.address
        )
        device.synchronize()
        return out

    def take_faults(self) -> tuple[int, int]:
        return self.host.take_faults()

    # What lies on the device

    def _upload(self, data: memoryview | bytes, size: int) -> "Block":
        block = self.device.alloc(size)
        self.stager.copy(block.address, data, size)
        return block

    def _witness_block(self, witness: memoryview, count: int) -> "Block":
        """The witness on the device: copied once for its check, A.w and the MSMs of one proof."""
        if self._witness is not None and self._witness[0] is witness:
            return self._witness[1]
        with H2D_SCALARS(SCALAR_BYTES * count):
            block = self._upload(witness, SCALAR_BYTES * count)
        self._witness = witness, block
        return block

    def _coefficients(
        self, curve: "Curve", coefs: memoryview, n: int, wires: int, domain: int
    ) -> _Coefficients:
        return self._keep(
            coefs, COEF_BYTES * n + 8 * domain, lambda: self._load_coefficients(curve, coefs, n, wires, domain)
        )

    def _load_coefficients(
        self, curve: "Curve", coefs: memoryview, n: int, wires: int, domain: int
    ) -> _Coefficients:
        device, unit = self.device, f"{curve.name}-scalars"
        with H2D_KEY(COEF_BYTES * n):
            records = self._upload(coefs, COEF_BYTES * n)
        counts = device.alloc(4 * 2 * domain)
        device.clear(counts.address, 4 * 2 * domain)
        result = self._least()
        device.launch(
            unit, "count_coefficients", *_grid(n), records.address, n, wires, domain, counts.address, result.address
        )
        bad = self._u64(result)
        if bad != NOTHING:
            head = memoryview(coefs)[COEF_BYTES * bad : COEF_BYTES * bad + 12]
            matrix, row, wire = (int.from_bytes(head[i : i + 4], "little") for i in (0, 4, 8))
            what = ("matrix", matrix) if matrix > 1 else ("row", row) if row >= domain else ("wire", wire)
            raise CoefError(bad, *what)
        offsets = device.alloc(4 * (2 * domain + 1))
        tiles = device.alloc(4 * -(-2 * domain // gpu_msm.SCAN_TILE))
        gpu_msm.scan(device, unit, counts.address, 2 * domain, tiles.address, offsets.address)
        device.clear(counts.address, 4 * 2 * domain)
        ordered, values = device.alloc(4 * n), device.alloc(SCALAR_BYTES * n)
        device.launch(
            unit, "place_coefficients", *_grid(n), records.address, n, domain, offsets.address, counts.address,
            ordered.address, values.address,
        )  # fmt: skip
        device.synchronize()
        return _Coefficients(offsets, ordered, values)

    def _keep(self, source: memoryview, size: int, load: Any) -> Any:
        """What `load` made of a key's bytes, kept while the budget lasts; the least recently used goes first.

        The entry holds the memoryview, so that its identity is not reused while the entry lives.
        """
        key = id(source)
        entry = self._resident.get(key)
        if entry is not None and entry[0] is source:
            self._resident.move_to_end(key)
            return entry[1]
        while self._resident and self._kept_bytes() + size > self.budget:
            self._resident.popitem(last=False)
            self.device.pool.trim()
        value = load()
        if size <= self.budget:
            self._resident[key] = source, value
        return value

    def _kept_bytes(self) -> int:
        return sum(value.size for _, value in self._resident.values())

    def _order(self, v: GpuVec, want_reversed: bool) -> None:
        if v.reversed != want_reversed:
            self._launch(v.curve, "reorder", v.length, v.address, v.log)
            v.reversed = want_reversed

    def _launch(self, curve: "Curve", name: str, items: int, *arguments: int) -> None:
        self.device.launch(f"{curve.name}-scalars", name, *_grid(items), *arguments)

    def _least(self) -> "Block":
        block = self.device.alloc(8)
        self.device.upload_bytes(block.address, b"\xff" * 8)
        return block

    def _u64(self, block: "Block") -> int:
        return int.from_bytes(self.device.read(block.address, 8), "little")


def _check_alike(a: GpuVec, b: GpuVec) -> None:
    if (a.curve, a.length) != (b.curve, b.length):
        raise ValueError("vectors of different lengths or curves")
    if a.reversed != b.reversed or a.shifted or b.shifted:
        raise ValueError("one vector holds values, the other coefficients")


def _widths(curve: "Curve", data: memoryview, offset: int, count: int) -> tuple[float, float]:
    """How many of the scalars are of full width and how many of a single digit, from a sample."""
    full = short = 0
    taken = min(count, SAMPLE)
    for k in range(taken):
        at = SCALAR_BYTES * (offset + count * k // taken)
        value = int.from_bytes(data[at : at + SCALAR_BYTES], "little")
        bits = min(value, curve.r - value).bit_length()
        if bits > 16:
            full += 1
        elif bits > 0:
            short += 1
    return count * full / taken, count * short / taken
