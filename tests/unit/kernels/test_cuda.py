"""The CUDA back end against the native one and plain integers: emulated, and on a GPU where there is one."""

import json
import random
from pathlib import Path

import pytest
from cuda_cases import BOTH, STEPS, backend_on, emulated, packed, require_gpu

from cuzk_kernels import circuits, curves, errors, groth16, keygen, verify
from cuzk_kernels.backend import gpu_build, gpu_device, gpu_msm, native
from cuzk_kernels.backend.cuda import SMALL, CudaBackend
from cuzk_kernels.backend.native import NativeBackend, NativeVec

CASES = Path(__file__).parents[2] / "data" / "cases"

pytestmark = pytest.mark.skipif(native.available() is not None, reason="the native library is the oracle")


@pytest.fixture(scope="module", params=BOTH)
def backend(request):
    return backend_on(request.param, request.config)


@pytest.fixture(params=curves.CURVES, ids=lambda curve: curve.name)
def curve(request):
    return request.param


def edge_scalars(r):
    return [0, 1, 2, r - 1, r - 2, (r - 1) // 2, (r + 1) // 2, (r + 3) // 2, 1 << 16, (1 << 17) - 1, 1 << 252]


def edge_elements(p, size):
    words = [0, 1, 2, p - 1, p - 2, (1 << (8 * size - 3)) % p, 0xFFFFFFFF, 0xFFFFFFFF << 32, (p - 1) // 2]
    return words + [int("ffffffff" + "00000000" * k, 16) % p for k in range(size // 4)]


@pytest.mark.parametrize("group", [1, 2])
def test_field_operations_equal_integers(backend, curve, group):
    """Products, sums, differences, squares and shared reductions of random and edge values."""
    rng = random.Random(11)
    q, size, n = curve.q, curve.n8q, 600
    edges = edge_elements(q, size)
    field = curve.group(group).field
    a, b = (
        [
            tuple(rng.choice(edges) if rng.random() < 0.4 else rng.randrange(q) for _ in range(group))
            for _ in range(n)
        ]
        for _ in "ab"
    )
    inverse = pow(1 << (8 * size), -1, q)

    def scaled(x):
        return tuple(v * inverse % q for v in x)

    def element(x):
        return field.from_ints(x)

    expected = {
        0: [field.mul(element(x), element(scaled(y))) for x, y in zip(a, b, strict=True)],
        1: [field.add(element(x), element(y)) for x, y in zip(a, b, strict=True)],
        2: [field.sub(element(x), element(y)) for x, y in zip(a, b, strict=True)],
        3: [field.mul(element(x), element(scaled(x))) for x in a],
        4: [
            field.add(v, v)
            for v in (field.mul(element(x), element(scaled(y))) for x, y in zip(a, b, strict=True))
        ],
    }
    device = backend.device
    raw = [b"".join(v.to_bytes(size, "little") for x in xs for v in x) for xs in (a, b)]
    blocks = [device.alloc(len(raw[0])) for _ in range(3)]
    for block, data in zip(blocks, raw, strict=False):
        device.upload_bytes(block.address, data)
    for operation, want in expected.items():
        device.launch(
            f"{curve.name}-g{group}", "field_operation", 4, 128, operation, *(x.address for x in blocks), n
        )
        got = device.read(blocks[2].address, len(raw[0]))
        assert got == b"".join(v.to_bytes(size, "little") for x in want for v in field.to_ints(x)), operation


@pytest.mark.parametrize("log", [0, 1, 2, 3, 4, 5, 8, 10, 11, 13])
def test_transforms_equal_the_native_ones(backend, curve, log):
    rng = random.Random(log)
    data = packed([rng.randrange(curve.r) for _ in range(1 << log)])
    v, h = backend.vector(curve, bytes(data)), NativeVec.of(curve, bytes(data))
    assert v.tobytes() == bytes(data)
    for name in ("intt", "coset", "ntt", "intt", "ntt"):
        getattr(backend, name)(v)
        getattr(backend.host, name)(h)
        if name != "coset":
            assert v.tobytes() == h.tobytes(), name


def test_quotient_rows(backend, curve):
    rng = random.Random(3)
    vectors = [
        [rng.choice([0, 1, curve.r - 1, rng.randrange(curve.r)]) for _ in range(128)] for _ in range(3)
    ]
    a, b, c = (backend.vector(curve, bytes(packed(v))) for v in vectors)
    assert backend.product(a, b).tobytes() == bytes(
        packed([x * y % curve.r for x, y in zip(*vectors[:2], strict=True)])
    )
    h = backend.pointwise(a, b, c)
    assert h.tobytes() == bytes(packed([(x * y - z) % curve.r for x, y, z in zip(*vectors, strict=True)]))


def bases_of(backend, curve, group, logs):
    """Known multiples of the generator as file points."""
    host = backend.host
    generator = curve.group(group).generator
    return memoryview(
        bytearray(
            host.fixed_base(curve, group, generator, host.scalars(curve, packed(logs), len(logs)), len(logs))
        )
    )


def check_msm(backend, curve, group, logs, scalars, bits=None):
    n = len(logs)
    points = bases_of(backend, curve, group, logs)
    values = backend.scalars(curve, packed(scalars), n)
    ops = curve.group(group)
    expected = ops.mul(ops.generator, sum(a * s for a, s in zip(logs, scalars, strict=True)) % curve.r)
    if bits is None:
        assert backend.msm(curve, group, points, values, 0, n, STEPS) == expected
    else:
        bases = backend.first.bases(curve, group, points, n)
        assert backend.sum_bases(curve, group, bases, values.address, bits, STEPS) == expected


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("n", [1, 2, 31, SMALL, 100, 777])
def test_msm_of_random_points(backend, curve, group, n):
    rng = random.Random(n)
    logs = [rng.randrange(curve.r) if i % 5 else 0 for i in range(n)]  # infinities among them
    scalars = [rng.choice(edge_scalars(curve.r)) if i % 3 == 0 else rng.randrange(curve.r) for i in range(n)]
    check_msm(backend, curve, group, logs, scalars)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("bits", [4, 8, 13, 17])
def test_msm_at_each_width(backend, curve, group, bits):
    rng = random.Random(bits)
    n = 300
    check_msm(
        backend, curve, group, [rng.randrange(1, curve.r) for _ in range(n)],
        [rng.choice(edge_scalars(curve.r)) if i % 2 else rng.randrange(curve.r) for i in range(n)], bits,
    )  # fmt: skip


@pytest.mark.parametrize("bits", range(4, 23))
def test_windows_cover_a_scalar_and_are_of_about_equal_width(curve, bits):
    """Counted one by one, against the closed forms."""
    scalar_bits = curve.r.bit_length()
    windows = gpu_msm.Windows.of(scalar_bits, bits)
    widths = [windows.bits if w < windows.wide else windows.bits - 1 for w in range(windows.number)]
    assert sum(widths) == scalar_bits
    assert max(widths) <= bits
    assert [windows.position(w) for w in range(windows.number)] == [
        sum(widths[:w]) for w in range(windows.number)
    ]
    buckets = [1 << (width - 1) for width in widths]
    assert [windows.first_bucket(w) for w in range(windows.number)] == [
        sum(buckets[:w]) for w in range(windows.number)
    ]
    assert windows.buckets == sum(buckets)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("logs", ["random", "meeting"])
def test_msm_of_scalars_that_come_in_rounds(backend, curve, group, logs, monkeypatch):
    """The first are summed before the others are there; sums so far may be infinite or meet a point."""
    monkeypatch.setattr(gpu_msm, "LARGE_FEED", 0)
    rng = random.Random(5)
    n, r = 1200, curve.r
    known = [rng.randrange(r) if logs == "random" else rng.choice([1, 2, r - 1]) for _ in range(n)]
    scalars = [rng.choice([*edge_scalars(r), 5, rng.randrange(r)]) for _ in range(n)]
    points = bases_of(backend, curve, group, known)
    bases = backend.first.bases(curve, group, points, n)
    pinned = backend.device.pinned(32 * n)
    pinned.view[: 32 * n] = packed(scalars)
    target = backend.device.alloc(32 * n)
    ops = curve.group(group)
    expected = ops.mul(ops.generator, sum(a * s for a, s in zip(known, scalars, strict=True)) % r)
    feed = gpu_msm.Feed(pinned.address)
    assert len(feed.rounds(n, cheap=False)) == 2
    assert backend.sum_bases(curve, group, bases, target.address, 6, STEPS, feed) == expected


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("logs", ["equal", "opposite", "small", "infinite"])
@pytest.mark.parametrize("scalars", ["equal", "ones", "small", "random"])
def test_msm_where_points_meet(backend, curve, group, logs, scalars):
    """Equal, opposite and few different points in a bucket; one bucket that holds every point."""
    rng = random.Random(7)
    n, r = 1500, curve.r
    points = {
        "equal": [1] * n,
        "opposite": [1 if i % 2 else r - 1 for i in range(n)],
        "small": [rng.randrange(1, 6) for _ in range(n)],
        "infinite": [0] * n,
    }[logs]
    values = {
        "equal": [0x123456789ABCDEF0123456789] * n,
        "ones": [1] * n,
        "small": [rng.randrange(4) for _ in range(n)],
        "random": [rng.randrange(r) for _ in range(n)],
    }[scalars]
    check_msm(backend, curve, group, points, values)
    check_msm(backend, curve, group, points, values, 8)


def test_part_of_the_scalars(backend, curve):
    rng = random.Random(1)
    n, offset = 200, 3
    scalars = [rng.randrange(curve.r) for _ in range(n)]
    logs = [rng.randrange(curve.r) for _ in range(n - offset)]
    points = bases_of(backend, curve, 1, logs)
    got = backend.msm(curve, 1, points, backend.scalars(curve, packed(scalars), n), offset, n - offset, STEPS)
    total = sum(a * s for a, s in zip(logs, scalars[offset:], strict=True)) % curve.r
    assert got == curve.g1.mul(curve.g1.generator, total)
    with pytest.raises(ValueError, match="scalars"):
        backend.msm(
            curve, 1, points, backend.scalars(curve, packed(scalars), n), offset + 1, n - offset, STEPS
        )


@pytest.mark.parametrize("group", [1, 2])
def test_multiples_of_a_point(backend, curve, group):
    rng = random.Random(9)
    scalars = [*edge_scalars(curve.r), *(rng.randrange(curve.r) for _ in range(100))]
    data = packed(scalars)
    base = curve.group(group).mul(curve.group(group).generator, 12345)
    host = backend.host
    got = backend.fixed_base(curve, group, base, backend.scalars(curve, data, len(scalars)), len(scalars))
    assert got == host.fixed_base(curve, group, base, host.scalars(curve, data, len(scalars)), len(scalars))


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("damage", ["none", "prime", "off curve"])
def test_bad_points_are_named(backend, curve, group, damage):
    n, at = 150, 97
    points = bases_of(backend, curve, group, list(range(n)))
    size = curve.point_bytes(group)
    if damage == "prime":
        points[at * size : at * size + curve.n8q] = curve.q.to_bytes(curve.n8q, "little")
    elif damage == "off curve":
        points[at * size] ^= 1
        points[(at + 5) * size] ^= 1
    for subgroup in (False, True):
        assert backend.point_check(curve, group, points, n, subgroup) == backend.host.point_check(
            curve, group, points, n, subgroup
        )


@pytest.mark.parametrize("group", [1, 2])
def test_points_outside_the_subgroup_are_named(backend, curve, group):
    """A point of the curve that r does not kill, by the definition."""
    ops = curve.group(group)
    if ops.cofactor_one:
        pytest.skip("every point of the curve is in the subgroup")
    stray = point_outside(curve, group)
    points = bases_of(backend, curve, group, [3] * 100)
    size = curve.point_bytes(group)
    points[70 * size : 71 * size] = curve.encode(group, stray)
    assert backend.point_check(curve, group, points, 100, False) is None
    assert backend.point_check(curve, group, points, 100, True) == (70, "not in the subgroup")


def point_outside(curve, group):
    ops, q = curve.group(group), curve.q
    field = ops.field
    for k in range(1, 1000):
        x = field.from_ints((k,) if group == 1 else (k, 1))
        y = square_root(field, field.add(field.mul(field.sqr(x), x), ops.b), q, group)
        if y is not None and not ops.in_subgroup((x, y)):
            return x, y
    raise AssertionError("no point found")


def square_root(field, a, q, group):
    """q = 3 mod 4 on both curves; in Fp2 by the norm."""
    if group == 1:
        root = pow(int(a), (q + 1) // 4, q)
        return root if root * root % q == a else None
    a0, a1 = a
    norm = pow((a0 * a0 + a1 * a1) % q, (q + 1) // 4, q)
    for sign in (norm, -norm):
        half = (a0 + sign) * pow(2, -1, q) % q
        c0 = pow(half, (q + 1) // 4, q)
        if c0 and c0 * c0 % q == half:
            root = (c0, a1 * pow(2 * c0, -1, q) % q)
            if field.sqr(root) == (a0 % q, a1 % q):
                return root
    return None


def test_a_value_not_below_r_is_found(backend, curve):
    values = [5] * 100
    assert backend.witness_check(curve, packed(values), 100) is None
    values[80] = curve.r
    values[90] = (1 << 256) - 1
    assert backend.witness_check(curve, packed(values), 100) == 80


@pytest.mark.parametrize("name", sorted(p.name for p in CASES.iterdir()))
def test_proofs_verify(backend, name):
    """The product of the whole: prove verifies every proof before it returns it."""
    folder = CASES / name
    for _ in range(2):  # the second finds the key on the device
        result = groth16.prove(
            folder / "circuit.zkey", folder / "witness.wtns", backend=backend, check_key=True
        )
    assert [str(v) for v in result.public] == json.loads((folder / "public.json").read_text())


@pytest.mark.parametrize("circuit", ["chain", "bits"])
def test_keys_and_proofs_of_our_own_circuits(backend, curve, circuit, tmp_path):
    """A key made by the device serves the host, a proof by the device verifies."""
    size = {"chain": 40, "bits": 1}[circuit]
    system = getattr(circuits, f"{circuit}_matrices")(curve, size)
    keygen.make_key(backend, system, tmp_path / "k.zkey", tmp_path / "v.json")
    getattr(circuits, f"{circuit}_witness")(tmp_path / "w.wtns", curve, size)
    for prover in (backend, backend.host):
        result = groth16.prove(tmp_path / "k.zkey", tmp_path / "w.wtns", backend=prover, check_key=True)
        assert verify(tmp_path / "v.json", result.public, result.proof)


@pytest.mark.parametrize("mode", ["pageable", "register"])
def test_other_copies(backend, mode):
    other = CudaBackend([backend.device], backend.host, h2d=mode)
    rng = random.Random(2)
    curve = curves.BN254
    check_msm(
        other,
        curve,
        1,
        [rng.randrange(curve.r) for _ in range(100)],
        [rng.randrange(curve.r) for _ in range(100)],
    )


def test_keys_leave_when_the_budget_is_spent(backend):
    """The least recently used bases go first; what is larger than the budget is never kept."""
    curve = curves.BN254
    small = CudaBackend([backend.device], backend.host, memory=20000)
    kept = [bases_of(backend, curve, 1, [i + 1] * 100) for i in range(4)]
    values = packed([2] * 100)
    for index in (0, 1, 0, 2, 3, 0):
        got = small.msm(curve, 1, kept[index], small.scalars(curve, values, 100), 0, 100, STEPS)
        assert got == curve.g1.mul(curve.g1.generator, 200 * (index + 1))
    assert small.first.kept_bytes() <= 20000
    assert small.first.keeps(kept[0])


@pytest.mark.gpu
def test_kernels_as_ptx_load(monkeypatch, tmp_path):
    """What a GPU newer than the compiler gets: the driver compiles it."""
    require_gpu()
    monkeypatch.setattr(gpu_build, "knows", lambda nvcc, target: False)
    monkeypatch.setenv("CUZK_KERNEL_CACHE", str(tmp_path))
    backend = CudaBackend([gpu_device.Device(0)], NativeBackend())
    rng = random.Random(4)
    r = curves.BN254.r
    check_msm(backend, curves.BN254, 1, list(range(1, 101)), [rng.randrange(r) for _ in range(100)])
    assert all(b".target" in path.read_bytes() for path in tmp_path.glob("*.cubin"))


def test_wrong_switches_are_refused(backend):
    with pytest.raises(errors.InputError, match="--h2d"):
        CudaBackend([backend.device], backend.host, h2d="warp")
    with pytest.raises(errors.InputError, match="--b-g2"):
        CudaBackend([backend.device], backend.host, b_g2="tpu")


@pytest.mark.parametrize("group", [1, 2])
def test_points_larger_than_the_budget_are_streamed(backend, curve, group):
    rng = random.Random(8)
    n = 1000
    small = CudaBackend([backend.device], backend.host, memory=600 * curve.point_bytes(group))
    logs = [rng.randrange(curve.r) if i % 4 else 0 for i in range(n)]
    check_msm(small, curve, group, logs, [rng.randrange(curve.r) for _ in range(n)])
    assert small.first.kept_bytes() == 0


def test_b_g2_on_the_host(backend, curve):
    rng = random.Random(4)
    other = CudaBackend([backend.device], backend.host, b_g2="cpu")
    check_msm(
        other,
        curve,
        2,
        [rng.randrange(curve.r) for _ in range(100)],
        [rng.randrange(curve.r) for _ in range(100)],
    )


def test_several_devices_share_the_sums(request):
    """Each query goes to the device with the least work, and back to it for the next proof."""
    devices = [emulated(request.config, f"emulated {k}") for k in range(3)]
    several = CudaBackend(devices, NativeBackend())
    curve, n = curves.BN254, 100
    values = several.scalars(curve, packed(range(n)), n)
    queries = [bases_of(several, curve, 1, [k + 1] * n) for k in range(4)]
    for _ in range(2):
        jobs = [several.msm_begin(curve, 1, points, values, 0, n, STEPS) for points in queries]
        for k, job in enumerate(jobs):
            assert job() == curve.g1.mul(curve.g1.generator, (k + 1) * n * (n - 1) // 2)
    assert [sum(site.keeps(points) for points in queries) for site in several.sites] == [2, 1, 1]
    for device in devices:
        assert any(name == "accumulate" for _, name in device.launches)


@pytest.mark.parametrize(
    ("widths", "limit"),
    [
        # 4,096 scalars, 30 digits of 8 bits and 2 of 7: 131,072 in 30 * 128 + 2 * 64 = 3,968 buckets.
        ((1.0, 0.0), 66),
        # Ones alone fill one bucket: its segments must be short, or one unit adds up a thousand of them.
        ((0.0, 1.0), 32),
    ],
)
def test_segments_suit_the_digits_there_are(backend, widths, limit):
    device, seen = backend.device, []
    launch = device.launch

    def watch(unit, name, grid, block, *arguments, **named):
        if name == "count_lengths":
            seen.append(arguments[2])
        launch(unit, name, grid, block, *arguments, **named)

    n, curve = 4096, curves.BN254
    data = memoryview(bytearray(curve.encode(1, curve.g1.generator) * n))
    bases = backend.first.bases(curve, 1, data, n)
    values = device.alloc(32 * n)
    device.upload_bytes(values.address, (1).to_bytes(32, "little") * n)
    msm = gpu_msm.Msm(device, curve, 1, bases, values.address, 8, widths=widths)
    try:
        device.launch = watch
        msm.digits()
    finally:
        del device.launch
        msm.release()
    assert seen == [max(limit, 4096 * 32 // (8 * msm._units)) if widths[0] else limit]
