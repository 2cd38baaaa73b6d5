"""Every intermediate of a proof on a GPU against plain Python that shares no code with the back end.

Transforms by their definition, digits and buckets by the textbook's method of Pippenger with affine additions
(native_cases.Plain). Bucket by bucket: which points, in which order of buckets, and what their sum is.
"""

import random
from itertools import accumulate, pairwise

import pytest
from cuda_cases import BOTH, backend_on, packed
from kernel_cases import PlainKey, case
from native_cases import Plain, plain_points, unpacked

from cuzk_kernels import curves
from cuzk_kernels.backend import gpu_msm, native
from cuzk_kernels.backend.gpu_points import combine
from cuzk_kernels.formats import wtns, zkey

pytestmark = pytest.mark.skipif(native.available() is not None, reason="the host's part is native")


@pytest.fixture(scope="module", params=BOTH)
def backend(request):
    return backend_on(request.param, request.config)


@pytest.fixture(params=curves.CURVES, ids=lambda curve: curve.name)
def curve(request):
    return request.param


def evaluations(coefficients, root, r):
    """The polynomial at root^0, root^1, ..., by the definition; as many as it has coefficients."""
    n = len(coefficients)
    powers = [1]
    for _ in range(n - 1):
        powers.append(powers[-1] * root % r)
    return [sum(c * powers[i * k % n] for i, c in enumerate(coefficients)) % r for k in range(n)]


def coefficients_of(values, root, r):
    inverse = pow(len(values), -1, r)
    return [v * inverse % r for v in evaluations(values, pow(root, -1, r), r)]


def on_the_odd_points(coefficients, doubled_root, r):
    shifted = [c * pow(doubled_root, i, r) % r for i, c in enumerate(coefficients)]
    return evaluations(shifted, doubled_root * doubled_root % r, r)


def primitive_root(n, r):
    """The n-th root of unity from the non-residue 5."""
    return pow(5, (r - 1) // n, r)


@pytest.mark.parametrize("log", [0, 1, 2, 5, 10])
def test_transforms_by_their_definition(backend, curve, log):
    n, r, rng = 1 << log, curve.r, random.Random(log)
    values = [0, r - 1, 1, *(rng.randrange(r) for _ in range(n))][:n]
    root, doubled = primitive_root(n, r), primitive_root(2 * n, r)
    v = backend.vector(curve, bytes(packed(values)))
    backend.intt(v)
    coefficients = coefficients_of(values, root, r)
    assert unpacked(v.tobytes()) == coefficients
    backend.coset(v)
    backend.ntt(v)
    assert unpacked(v.tobytes()) == on_the_odd_points(coefficients, doubled, r)
    v = backend.vector(curve, bytes(packed(values)))
    backend.ntt(v)
    assert unpacked(v.tobytes()) == evaluations(values, root, r)


@pytest.mark.parametrize("name", ["chain340-bn254", "chain340-bls12381", "chain5-bls12381", "linear3-bn254"])
def test_rows_and_quotient_of_a_circuit(backend, name):
    """A.w, B.w and a*b - c on the odd points, up to a domain of 2^10."""
    folder = case(name)
    key, witness, plain = (
        zkey.open(folder / "circuit.zkey"),
        wtns.open(folder / "witness.wtns"),
        PlainKey(folder),
    )
    r, n = plain.r, plain.domain
    a, b = backend.eval_ab(key.curve, key.coefs, key.n_coefs, witness.data, key.n_vars, key.domain)
    rows = plain.rows()
    assert (unpacked(a.tobytes()), unpacked(b.tobytes())) == rows
    c = backend.product(a, b)
    products = [x * y % r for x, y in zip(*rows, strict=True)]
    assert unpacked(c.tobytes()) == products
    for v in (a, b, c):
        backend.intt(v)
        backend.coset(v)
        backend.ntt(v)
    root, doubled = primitive_root(n, r), primitive_root(2 * n, r)
    odd = [on_the_odd_points(coefficients_of(v, root, r), doubled, r) for v in (*rows, products)]
    h = [(x * y - z) % r for x, y, z in zip(*odd, strict=True)]
    assert unpacked(backend.pointwise(a, b, c).tobytes()) == h


class Watched:
    """A device that keeps what the launches of an MSM leave in its buffers."""

    def __init__(self, device):
        self._device = device
        self._counts = 0, 0, 0

    def __getattr__(self, name):
        return getattr(self._device, name)

    def _words(self, address, number):
        return list(memoryview(self._device.read(address, 4 * number)).cast("I"))

    def launch(self, unit, name, grid, block, *arguments, **named):
        if name == "place_segments":
            self._counts = arguments[:3]
        if name == "accumulate":  # what was sorted is there now
            counts, offsets, buckets = self._counts
            self.counts, self.offsets = self._words(counts, buckets), self._words(offsets, buckets + 1)
            self.entries = self._words(arguments[1], self.offsets[-1])
            self.sums_at = arguments[-1]
        if name == "reduce_runs":
            self.sums = self._device.read(self.sums_at, sum_bytes(unit) * len(self.counts))
        self._device.launch(unit, name, grid, block, *arguments, **named)


def sum_bytes(unit):
    """Four coordinates of one or two parts."""
    name, part = unit.split("-g")
    return 4 * int(part) * {"bn254": 32, "bls12381": 48}[name]


def signed_digits(scalar, r, widths):
    """Lowest first, each of [-2^(b-1), 2^(b-1) - 1] but the last; of r - scalar, negated, above r / 2."""
    sign = 1
    if r - scalar < scalar:
        scalar, sign = r - scalar, -1
    digits = []
    for number, width in enumerate(widths):
        last = number + 1 == len(widths)
        digit = scalar if last else scalar & ((1 << width) - 1)
        if not last and digit >= 1 << (width - 1):
            digit -= 1 << width
        scalar = (scalar - digit) >> width
        digits.append(sign * digit)
    return digits


def affine(plain, group, size, raw):
    """The points of packed XYZZ sums (Montgomery form, zeros for infinity): x / zz, y / zzz."""
    inverse = pow(1 << (8 * size), -1, plain.q)
    values = [value * inverse % plain.q for value in unpacked(raw, size)]
    points = []
    for at in range(0, len(values), 4 * group):
        x, y, zz, zzz = (tuple(values[at + k : at + k + group]) for k in range(0, 4 * group, group))
        if not any(zz):
            points.append(None)
            continue
        assert plain.mul(zz, plain.mul(zz, zz)) == plain.mul(zzz, zzz)
        points.append((plain.mul(x, plain.inverse(zz)), plain.mul(y, plain.inverse(zzz))))
    return points


def negated(plain, point):
    return point and (point[0], plain.scale(-1, point[1]))


def times_power_of_two(plain, point, power):
    for _ in range(power):
        point = plain.add(point, point)
    return point


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize(("n", "bits"), [(100, 5), (150, 8), (1 << 10, 9)])
def test_every_step_of_a_sum(backend, curve, group, n, bits):
    plain, r, rng, host = Plain(curve.q, group), curve.r, random.Random(n), backend.host
    edges = [0, 1, 2, r - 1, r - 2, r // 2, r // 2 + 1, 1 << bits, (1 << bits) - 1, 1 << (bits - 1)]
    scalars = [rng.choice(edges) if i % 4 == 0 else rng.randrange(r) for i in range(n)]
    logs = [0 if i % 7 == 3 else rng.choice([1, r - 1, i + 1, rng.randrange(r)]) for i in range(n)]
    generator = curve.group(group).generator
    data = memoryview(
        bytearray(host.fixed_base(curve, group, generator, host.scalars(curve, packed(logs), n), n))
    )
    points = plain_points(curve, group, bytes(data))

    bases = backend.first.bases(curve, group, data, n)
    kept = [i for i in range(n) if points[i] is not None]
    assert bases.total == len(kept)
    watched = Watched(backend.device)
    values = backend.device.alloc(32 * n)
    backend.device.upload_bytes(values.address, bytes(packed(scalars)))
    msm = gpu_msm.Msm(watched, curve, group, bases, values.address, bits)
    msm.digits()
    msm.accumulate()
    msm.reduce()
    view, powers = msm.points()
    rows = affine(plain, group, curve.n8q, bytes(view))
    total = combine(curve, group, view, powers)
    msm.release()
    msm.done()

    # Windows as the result tells them: the power of two of each one's first row.
    positions = powers[:: msm.rows]
    widths = [high - low for low, high in pairwise(positions)] + [bits]
    first = [0, *accumulate(1 << (width - 1) for width in widths)][:-1]
    buckets = [[] for _ in watched.counts]
    for place, i in enumerate(kept):
        for window, digit in enumerate(signed_digits(scalars[i], r, widths)):
            if digit:
                buckets[first[window] + abs(digit) - 1].append(place << 1 | (digit < 0))
    assert watched.counts == [len(bucket) for bucket in buckets]
    assert watched.offsets == [0, *accumulate(watched.counts)]
    for bucket, (low, high) in zip(buckets, pairwise(watched.offsets), strict=True):
        assert sorted(watched.entries[low:high]) == sorted(bucket)

    sums = []
    for bucket in buckets:
        sums.append(None)
        for entry in bucket:
            point = points[kept[entry >> 1]]
            sums[-1] = plain.add(sums[-1], negated(plain, point) if entry & 1 else point)
    assert affine(plain, group, curve.n8q, watched.sums) == sums

    result = None
    for window in reversed(range(len(positions))):
        end = first[window + 1] if window + 1 < len(first) else len(sums)
        running = weighted = None
        for point in reversed(sums[first[window] : end]):
            running = plain.add(running, point)
            weighted = plain.add(weighted, running)
        told = None
        for row in range(window * msm.rows, (window + 1) * msm.rows):
            told = plain.add(told, times_power_of_two(plain, rows[row], powers[row] - positions[window]))
        assert told == weighted, window
        if window + 1 < len(positions):
            result = times_power_of_two(plain, result, positions[window + 1] - positions[window])
        result = plain.add(result, weighted)
    assert result == tuple(part if group == 2 else (part,) for part in total)
