"""The CUDA back end: vectors and keys live on the GPU, the host launches and adds up what is left.

Bases of a key stay on the device while the memory budget lasts (the least recently used go first); arrays
larger than the budget are streamed through two buffers, the copy of one part hidden behind the work on the
other. MSMs and checks of a few points go to the host's back end.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import wraps
from typing import TYPE_CHECKING, Any

import cuzk_tracer
from cuzk_kernels.backend import gpu_msm
from cuzk_kernels.backend.gpu_coefficients import COEF_BYTES, Coefficients, load
from cuzk_kernels.backend.gpu_least import Least
from cuzk_kernels.backend.gpu_memory import H2D_MODES
from cuzk_kernels.backend.gpu_msm import Bases, Feed, Msm
from cuzk_kernels.backend.gpu_ntt import Domain
from cuzk_kernels.backend.gpu_points import check_constants, combine, fixed_table
from cuzk_kernels.backend.gpu_site import Site
from cuzk_kernels.backend.gpu_vectors import SCALAR_BYTES, GpuScalars, GpuVec, check_alike, digit_widths, grid
from cuzk_kernels.backend.later import Later
from cuzk_kernels.backend.protocol import NOT_REDUCED, OFF_CURVE, WRONG_SUBGROUP, MsmSteps
from cuzk_kernels.errors import InputError
from cuzk_tracer import gpu

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_blocks import Block
    from cuzk_kernels.backend.gpu_device import Device
    from cuzk_kernels.backend.protocol import Backend
    from cuzk_kernels.curves import Curve, Point

SMALL = 64  # points that the host adds up faster than a GPU is asked
POINT_PROBLEMS = ("", NOT_REDUCED, OFF_CURVE, WRONG_SUBGROUP)
UNTRACED = MsmSteps(*(nullcontext() for _ in MsmSteps._fields))

HELD = cuzk_tracer.span("gpu.held", a0="device", stage=True)
H2D_SCALARS = cuzk_tracer.span("h2d.scalars", a0="bytes", stage=True)


def _exclusive(method: Callable[..., Any]) -> Callable[..., Any]:
    """One thread at a time, with the device usable from it."""

    @wraps(method)
    def call(self: "CudaBackend", *arguments: Any, **named: Any) -> Any:
        with self._lock, self.device.entered(), gpu.launches():
            return method(self, *arguments, **named)

    return call


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
        self.sites = [Site(device, h2d, memory) for device in devices]
        self.first = self.sites[0]
        self.device, self.stager = self.first.device, self.first.stager
        self._lock = threading.RLock()
        self.host, self.b_g2, self.threads = host, b_g2, host.threads
        self._domains: dict[tuple[str, int], Domain] = {}
        self._witness: tuple[memoryview, Block] | None = None
        names = ", ".join(site.device.name for site in self.sites)
        cuzk_tracer.meta(gpu=names, h2d=h2d, b_g2=b_g2, gpu_budget=str(self.first.budget))

    @contextmanager
    def held(self) -> Iterator[None]:
        """A proof has the devices from here to the end: a span of each says so."""
        with ExitStack() as spans:
            for site in self.sites:
                spans.enter_context(HELD(site.device.index))
            yield
        self.device.tell_kernels()

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines the user should see, so far."""
        return tuple(dict.fromkeys(site.stager.note for site in self.sites if site.stager.note is not None))

    # Checks

    @_exclusive
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
        result = Least(self.device)
        data = self.first.upload(points, size * count)
        subgroup = subgroup and not curve.group(group).cofactor_one
        device.launch(
            f"{curve.name}-g{group}", "check_points",
            max(1, min(-(-count * group // 128), 4 * device.processors)), 128,
            data.address, count, int(subgroup), table.address, result.address,
        )  # fmt: skip
        found = result.found()
        return None if found is None else (found >> 2, POINT_PROBLEMS[found & 3])

    @_exclusive
    def witness_check(self, curve: "Curve", witness: memoryview, count: int) -> int | None:
        if count == 0:
            return None
        block = self._witness_block(witness, count)
        result = Least(self.device)
        self.device.launch(
            f"{curve.name}-scalars", "check_scalars", *grid(count), block.address, count, result.address
        )
        return result.found()

    # Vectors

    @_exclusive
    def eval_ab(
        self, curve: "Curve", coefs: memoryview, n_coefs: int, witness: memoryview, n_vars: int, domain: int
    ) -> tuple[GpuVec, GpuVec]:
        matrix = self._coefficients(curve, coefs, n_coefs, n_vars, domain)
        values = self._witness_block(witness, n_vars)
        a, b = GpuVec(self, curve, domain), GpuVec(self, curve, domain)
        self.device.launch(
            f"{curve.name}-scalars", "evaluate", *grid(2 * domain),
            matrix.offsets.address, matrix.wires.address, matrix.values.address,
            values.address, domain, a.address, b.address,
        )  # fmt: skip
        return a, b

    @_exclusive
    def product(self, a: GpuVec, b: GpuVec) -> GpuVec:
        check_alike(a, b)
        c = GpuVec(self, a.curve, a.length)
        c.reversed = a.reversed
        self._launch(a.curve, "product", a.length, a.address, b.address, c.address, a.length)
        return c

    @_exclusive
    def vector(self, curve: "Curve", data: bytes | memoryview) -> GpuVec:
        """From plain little-endian integers of 32 bytes, in natural order."""
        vec = GpuVec(self, curve, len(data) // SCALAR_BYTES)
        self.device.upload_bytes(vec.address, bytes(data))
        self._launch(curve, "montgomery", vec.length, vec.address, vec.address, vec.length, 1)
        return vec

    @_exclusive
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

    @_exclusive
    def ntt(self, v: GpuVec) -> None:
        self._order(v, True)
        self.domain(v.curve, v.log).run(v.address, up=True, coset=v.shifted)
        v.reversed = v.shifted = False

    @_exclusive
    def pointwise(self, a: GpuVec, b: GpuVec, c: GpuVec) -> GpuScalars:
        check_alike(a, b)
        check_alike(a, c)
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

    @_exclusive
    def scalars(self, curve: "Curve", data: memoryview, count: int) -> Any:
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
        full, short = digit_widths(curve, scalars, offset, count)
        return gpu_msm.window_bits(curve.r.bit_length(), count * full, count * short)

    def msm(
        self, curve: "Curve", group: int, points: memoryview, scalars: Any, offset: int, count: int,
        steps: MsmSteps,
    ) -> "Point":  # fmt: skip
        return self.msm_begin(curve, group, points, scalars, offset, count, steps)()

    @_exclusive
    def msm_begin(
        self, curve: "Curve", group: int, points: memoryview, scalars: Any, offset: int, count: int,
        steps: MsmSteps,
    ) -> "Callable[[], Point]":  # fmt: skip
        """Start an MSM; the result is what the returned call gives. Several may be under way.

        They run one after the other on a device; of several devices each goes to the one with the least
        work so far, or where its points are.
        """
        if offset < 0 or count < 0 or offset + count > len(scalars):
            raise ValueError(f"scalars {offset} to {offset + count} of {len(scalars)}")
        if not isinstance(scalars, GpuScalars):
            result = self.host.msm(curve, group, points, scalars, offset, count, steps)
            return lambda: result
        if count < SMALL or (group == 2 and self.b_g2 == "cpu"):
            return self._on_host(curve, group, points, scalars, offset, count, steps)
        site = self._site(points, count * group)
        bits = self.window_bits(curve, group, count, scalars, offset)
        first = scalars.on(site) + SCALAR_BYTES * offset
        if count * curve.point_bytes(group) > site.budget:
            result = self._streamed(site, curve, group, points, first, count, bits, steps)
            return lambda: result
        bases = site.bases(curve, group, points, count)
        if bases.total == 0:
            return lambda: None
        widths = digit_widths(curve, scalars, offset, count)
        msm = Msm(site.device, curve, group, bases, first, bits, scalars.ready(site), widths)
        self._start(msm, steps)
        return lambda: self._finish(msm, steps)

    def _site(self, points: memoryview, work: float) -> Site:
        site = next((s for s in self.sites if s.keeps(points)), None) or min(self.sites, key=lambda s: s.load)
        site.load += work
        return site

    def _on_host(
        self, curve: "Curve", group: int, points: memoryview, scalars: "GpuScalars", offset: int, count: int,
        steps: MsmSteps,
    ) -> "Callable[[], Point]":  # fmt: skip
        """An MSM on the host's threads, beside what the GPU does."""
        data = scalars.host if scalars.host is not None else memoryview(bytearray(scalars.tobytes()))
        values = self.host.scalars(curve, data, len(scalars))
        job = Later(lambda: self.host.msm(curve, group, points, values, offset, count, steps))
        return job.result

    def _streamed(
        self, site: Site, curve: "Curve", group: int, points: memoryview, scalars: int, count: int, bits: int,
        steps: MsmSteps,
    ) -> "Point":  # fmt: skip
        """Points that do not fit: in parts through two buffers, one filled while the other is worked on."""
        size, device = curve.point_bytes(group), site.device
        part = max(SMALL, site.budget // (8 * size))
        buffers = [device.alloc(size * part) for _ in range(2)]
        total: Point = None
        running: Msm | None = None
        for number, at in enumerate(range(0, count, part)):
            n = min(part, count - at)
            buffer = buffers[number % 2]
            site.stager.copy(buffer.address, points[size * at : size * (at + n)], size * n, device.copy)
            device.wait_for(device.event(device.copy))
            bases = gpu_msm.load_bases(device, curve, group, buffer.address, n)
            if running is not None:
                total = curve.group(group).add(total, self._finish(running, UNTRACED))
                running = None
            if bases.total:
                first = scalars + SCALAR_BYTES * at
                running = self._start(Msm(device, curve, group, bases, first, bits), steps)
        if running is not None:
            total = curve.group(group).add(total, self._finish(running, steps))
        return total

    @_exclusive
    def sum_bases(
        self, curve: "Curve", group: int, bases: Bases, scalars: int, bits: int, steps: MsmSteps,
        feed: Feed | None = None,
    ) -> "Point":  # fmt: skip
        """The MSM of bases on the first device and scalars at an address there, or on their way to it."""
        if bases.total == 0:
            return None
        msm = self._start(Msm(self.device, curve, group, bases, scalars, bits), steps, feed)
        return self._finish(msm, steps)

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

    @_exclusive
    def _finish(self, msm: Msm, steps: MsmSteps) -> "Point":
        with steps.horner:
            points, powers = msm.points()
            result = combine(msm.curve, msm.group, points, powers)
        msm.done()
        return result

    @_exclusive
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

    def name_workers(self, span: object) -> None:
        self.host.name_workers(span)

    def take_faults(self) -> tuple[int, int]:
        return self.host.take_faults()

    # What lies on the device

    def _witness_block(self, witness: memoryview, count: int) -> "Block":
        """The witness on the device: copied once for its check, A.w and the MSMs of one proof."""
        if self._witness is not None and self._witness[0] is witness:
            return self._witness[1]
        with H2D_SCALARS(SCALAR_BYTES * count):
            block = self.first.upload(witness, SCALAR_BYTES * count)
        self._witness = witness, block
        return block

    def _coefficients(
        self, curve: "Curve", coefs: memoryview, n: int, wires: int, domain: int
    ) -> Coefficients:
        return self.first.keep(  # type: ignore[no-any-return]
            coefs, COEF_BYTES * n + 8 * domain, lambda: load(self.first, curve, coefs, n, wires, domain)
        )

    def _order(self, v: GpuVec, want_reversed: bool) -> None:
        if v.reversed != want_reversed:
            self._launch(v.curve, "reorder", v.length, v.address, v.log)
            v.reversed = want_reversed

    def _launch(self, curve: "Curve", name: str, items: int, *arguments: int) -> None:
        self.device.launch(f"{curve.name}-scalars", name, *grid(items), *arguments)
