"""Transforms on a GPU: which passes, and the tables of factors between them.

Coefficients lie in bit-reversed order: values to coefficients is the way down (natural to reversed), back
is the way up. Tables take about 2 * n * 32 bytes for both ways together, and n * 32 for the coset; they are
made on the device once a length.
"""

from typing import TYPE_CHECKING, NamedTuple

from cuzk_kernels.backend.gpu_kernels import LOG_ROOTS

if TYPE_CHECKING:
    from cuzk_kernels.backend.gpu_blocks import Block
    from cuzk_kernels.backend.gpu_device import Device
    from cuzk_kernels.curves import Curve

VALUE_BYTES = 32
MAX_LOG_PASS = 10
LOG_BLOCK = 11  # values a block works on


class Step(NamedTuple):
    """A pass: log2 of its size and of the distance of its values, and its factors (0: none)."""

    log_size: int
    log_stride: int
    factors: int
    mask: int


def split(log: int) -> list[int]:
    """Sizes of the passes, about equal; the first is the one with the largest distance."""
    passes = max(1, -(-log // MAX_LOG_PASS))
    return [log // passes + (1 if k < log % passes else 0) for k in range(passes)]


class Domain:
    """The tables of one length 2^log on one device."""

    def __init__(self, device: "Device", curve: "Curve", log: int) -> None:
        self.device, self.curve, self.log = device, curve, log
        self.unit = f"{curve.name}-scalars"
        self._blocks: list[Block] = []
        r = curve.r
        n = 1 << log
        forward = curve.root_of_unity(n)
        inverse = pow(forward, -1, r)
        scale = pow(n, -1, r)
        short = curve.root_of_unity(1 << LOG_ROOTS)
        self.roots_up = self._powers(LOG_ROOTS, short, 1, 32)
        self.roots_down = self._powers(LOG_ROOTS, pow(short, -1, r), 1, 32)
        self.down: list[Step] = []
        self.up: list[Step] = []
        left = log  # log2 of the vectors the pass works on
        for number, size in enumerate(split(log)):
            stride = left - size
            up = down = mask = 0
            if stride:
                mask = (1 << left) - 1
                w, inverse_w = pow(forward, 1 << (log - left), r), pow(inverse, 1 << (log - left), r)
                down = self._powers(left, inverse_w, scale if number == 0 else 1, stride)
                up = self._powers(left, w, 1, stride)
            elif number == 0:
                down = self._powers(0, 1, scale, 32)
            self.down.append(Step(size, stride, down, mask))
            self.up.insert(0, Step(size, stride, up, mask))
            left = stride
        self._coset = 0

    @property
    def coset(self) -> int:
        """Powers of the coset's shift in bit-reversed order. At the longest length snarkjs shifts by 25."""
        if not self._coset:
            curve = self.curve
            shift = curve.root_of_unity(2 << self.log) if self.log < curve.two_adicity else 25
            self._coset = self._powers(self.log, shift, 1, 0)
        return self._coset

    def _powers(self, log: int, base: int, scale: int, log_low: int) -> int:
        r = self.curve.r
        squares = [base]
        for _ in range(31):
            squares.append(squares[-1] * squares[-1] % r)
        data = b"".join(
            (value * (1 << 256) % r).to_bytes(VALUE_BYTES, "little") for value in (*squares, scale)
        )
        table = self.device.alloc(VALUE_BYTES << log)
        small = self.device.alloc(len(data))
        self.device.upload_bytes(small.address, data)
        self.device.launch(
            self.unit, "powers", max(1, min((1 << log) // 256, 1 << 16)), 256,
            table.address, log, small.address, small.address + VALUE_BYTES * len(squares), log_low,
        )  # fmt: skip
        self._blocks.append(table)
        return table.address

    def run(self, data: int, *, up: bool, coset: bool = False) -> None:
        """Enqueue the transform of the vector at `data`, in place; the coset's shift first where asked."""
        for number, step in enumerate(self.up if up else self.down):
            factors, mask = step.factors, step.mask
            if coset and up and number == 0:
                if factors:
                    raise AssertionError("the first pass up has no factors of its own")
                factors, mask = self.coset, (1 << self.log) - 1
            log_columns = min(max(0, LOG_BLOCK - step.log_size), self.log - step.log_size)
            values = 1 << (step.log_size + log_columns)
            threads = max(32, min(256, values // 8))
            self.device.launch(
                self.unit, "transform_up" if up else "transform_down",
                1 << (self.log - step.log_size - log_columns), threads,
                data, factors, mask, self.roots_up if up else self.roots_down,
                self.log, step.log_size, step.log_stride, log_columns,
                shared=VALUE_BYTES * (values + values // 8 + 1),
            )  # fmt: skip
