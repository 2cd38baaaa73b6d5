"""BN254 and BLS12-381: constants, roots of unity, and the encoding of points in files.

Sources. BN254: EIP-196 and EIP-197. BLS12-381: the zcash protocol specification, section 5.4.9.2, and
draft-irtf-cfrg-pairing-friendly-curves section 4.2.1.
"""

from collections.abc import Callable
from typing import Any

from cuzk_kernels.points import Fp, Fp2, Group, Point

__all__ = [
    "BLS12_381", "BN254", "CURVES", "SUPPORTED", "Curve", "Point",
    "by_base_prime", "by_scalar_prime", "by_snarkjs_name",
]  # fmt: skip

NON_RESIDUE = 5  # the least quadratic non-residue of both scalar fields; snarkjs derives its roots from it


class Curve:
    """One pairing-friendly curve with the sizes of its encodings in .zkey and .wtns files.

    name: as cuzk writes it; snarkjs_name: as "curve" in JSON; label: as people write it.
    q, r: base and scalar primes; n8q, n8r: bytes of an element of each in a file.
    """

    n8r = 32

    def __init__(
        self, name: str, snarkjs_name: str, label: str, *, q: int, r: int, n8q: int,
        b1: int, b2: tuple[int, int], g1: Point, g2: Point, g1_cofactor_one: bool,
    ) -> None:  # fmt: skip
        self.name, self.snarkjs_name, self.label = name, snarkjs_name, label
        self.q, self.r, self.n8q = q, r, n8q
        self._parameters = b1, b2, g1, g2, g1_cofactor_one
        self.g1, self.g2 = self.groups(int)
        self.two_adicity = ((r - 1) & (1 - r)).bit_length() - 1
        self._montgomery = (1 << (8 * n8q)) % q
        self._montgomery_inverse = pow(self._montgomery, -1, q)

    def __repr__(self) -> str:
        return f"<Curve {self.name}>"

    def groups(self, number: Callable[[int], Any]) -> tuple[Group, Group]:
        """G1 and G2 over another integer type, such as gmpy2.mpz."""
        b1, b2, g1, g2, g1_cofactor_one = self._parameters
        q = number(self.q)
        return (
            Group(Fp(q), b1, g1, self.r, g1_cofactor_one),
            Group(Fp2(q), b2, g2, self.r, False),
        )

    def group(self, number: int) -> Group:
        """G1 for 1, G2 for 2."""
        return self.g1 if number == 1 else self.g2

    def root_of_unity(self, n: int) -> int:
        """The primitive n-th root snarkjs uses, n a power of two: a power of 5^t, t the odd part of r - 1.

        bellperson, arkworks and sppark take 7^t on BLS12-381; a key made for one gives, silently, invalid
        proofs with the other.
        """
        log = n.bit_length() - 1
        if n < 1 or n != 1 << log or log > self.two_adicity:
            raise ValueError(f"no root of unity of order {n} in the scalar field of {self.label}")
        odd = (self.r - 1) >> self.two_adicity
        return pow(NON_RESIDUE, odd << (self.two_adicity - log), self.r)

    def point_bytes(self, group: int) -> int:
        """Bytes of one point in a file: 2 coordinates of 1 (G1) or 2 (G2) base field elements."""
        return 2 * group * self.n8q

    def raw_coordinates(self, group: int, data: memoryview, index: int) -> list[int]:
        """The stored (Montgomery) integers of point `index` of a packed array, unchecked."""
        size = self.n8q
        at = index * self.point_bytes(group)
        return [int.from_bytes(data[o : o + size], "little") for o in range(at, at + 2 * group * size, size)]

    def decode(self, group: int, data: memoryview, index: int = 0) -> Point:
        """Point `index` of a packed array of file points; all zeros is infinity."""
        raw = self.raw_coordinates(group, data, index)
        if not any(raw):
            return None
        values = [value * self._montgomery_inverse % self.q for value in raw]
        field = self.group(group).field
        return field.from_ints(values[:group]), field.from_ints(values[group:])

    def encode(self, group: int, point: Point) -> bytes:
        """A point as a .zkey stores it: affine, little-endian, Montgomery form with R = 2^(8 * n8q)."""
        if point is None:
            return bytes(self.point_bytes(group))
        field = self.group(group).field
        values = (*field.to_ints(point[0]), *field.to_ints(point[1]))
        return b"".join(
            int(value * self._montgomery % self.q).to_bytes(self.n8q, "little") for value in values
        )


BN254 = Curve(
    "bn254", "bn128", "BN254",
    q=21888242871839275222246405745257275088696311157297823662689037894645226208583,
    r=21888242871839275222246405745257275088548364400416034343698204186575808495617,
    n8q=32,
    b1=3,
    b2=(  # 3 / (9 + u)
        19485874751759354771024239261021720505790618469301721065564631296452457478373,
        266929791119991161246907387137283842545076965332900288569378510910307636690,
    ),
    g1=(1, 2),
    g2=(
        (
            10857046999023057135944570762232829481370756359578518086990519993285655852781,
            11559732032986387107991004021392285783925812861821192530917403151452391805634,
        ),
        (
            8495653923123431417604973247489272438418190587263600148770280649306958101930,
            4082367875863433681332203403145435568316851327593401208105741076214120093531,
        ),
    ),
    g1_cofactor_one=True,
)  # fmt: skip

BLS12_381 = Curve(
    "bls12381", "bls12381", "BLS12-381",
    q=0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB,
    r=0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001,
    n8q=48,
    b1=4,
    b2=(4, 4),
    g1=(
        0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB,
        0x08B3F481E3AAA0F1A09E30ED741D8AE4FCF5E095D5D00AF600DB18CB2C04B3EDD03CC744A2888AE40CAA232946C5E7E1,
    ),
    g2=(
        (
            0x024AA2B2F08F0A91260805272DC51051C6E47AD4FA403B02B4510B647AE3D1770BAC0326A805BBEFD48056C8C121BDB8,
            0x13E02B6052719F607DACD3A088274F65596BD0D09920B61AB5DA61BBDC7F5049334CF11213945D57E5AC7D055D042B7E,
        ),
        (
            0x0CE5D527727D6E118CC9CDC6DA2E351AADFD9BAA8CBDD3A76D429A695160D12C923AC9CC3BACA289E193548608B82801,
            0x0606C4A02EA734CC32ACD2B02BC28B99CB3E287E85A763AF267492AB572E99AB3F370D275CEC1DA1AAA9075FF05F79BE,
        ),
    ),
    g1_cofactor_one=False,
)  # fmt: skip

CURVES = (BN254, BLS12_381)
SUPPORTED = ", ".join(curve.label for curve in CURVES)


def by_scalar_prime(r: int) -> Curve | None:
    return next((curve for curve in CURVES if curve.r == r), None)


def by_base_prime(q: int) -> Curve | None:
    return next((curve for curve in CURVES if curve.q == q), None)


def by_snarkjs_name(name: str) -> Curve | None:
    """The curve a JSON file names; snarkjs itself also reads BN254 and BLS12-381 in other spellings."""
    plain = name.lower().replace("-", "").replace("_", "")
    return {"bn128": BN254, "bn254": BN254, "altbn128": BN254, "bls12381": BLS12_381}.get(plain)
