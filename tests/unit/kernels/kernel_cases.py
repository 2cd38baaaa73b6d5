"""Where the prover's test cases are, and readers and writers of files that share no code with the package."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
DATA = REPOSITORY / "tests" / "data"
SHARED = REPOSITORY.parent / "shared"
OWN_CASES = DATA / "cases"
BROKEN = DATA / "broken"
BROKEN_ENTRIES = json.loads((BROKEN / "manifest.json").read_text())["cases"]


def case_folders() -> list[Path]:
    """Folders with a key, a witness and a sound proof: ours, and where they are at hand, everybody's."""
    own = sorted(OWN_CASES.iterdir())
    names = {folder.name for folder in own}
    shared = sorted((SHARED / "fixtures").glob("cases/*")) + sorted(
        (SHARED / "fixtures").glob("thirdparty/*")
    )
    found = own + [folder for folder in shared if folder.name not in names]
    return [folder for folder in found if (folder / "circuit.zkey").exists()]


def case(name: str) -> Path:
    """The folder of one case, wherever it is; skips the test where it is not."""
    for folder in case_folders():
        if folder.name == name:
            return folder
    pytest.skip(f"the fixture {name} is not here")


def native_backend() -> Any:
    """The native back end, or None where it is not built."""
    try:
        from cuzk_kernels.backend import native
    except ImportError:
        return None
    return native.NativeBackend() if native.available() is None else None


def mapped(data: bytes) -> memoryview:
    """Bytes as a back end gets them: a writable buffer with an address."""
    return memoryview(bytearray(data))


def le(value: int, size: int = 32) -> bytes:
    return value.to_bytes(size, "little")


def read_sections(path: Path) -> tuple[bytes, int, list[tuple[int, bytes]]]:
    """Magic, version and (id, bytes) in file order: a reader that shares no code with the package."""
    data = path.read_bytes()
    magic, version, count = struct.unpack_from("<4sII", data)
    at, sections = 12, []
    for _ in range(count):
        section, length = struct.unpack_from("<IQ", data, at)
        sections.append((section, data[at + 12 : at + 12 + length]))
        at += 12 + length
    return magic, version, sections


def write_sections(path: Path, magic: bytes, version: int, sections: list[tuple[int, bytes]]) -> Path:
    head = struct.pack("<4sII", magic, version, len(sections))
    path.write_bytes(head + b"".join(struct.pack("<IQ", i, len(data)) + data for i, data in sections))
    return path


class PlainKey:
    """A zkey and witness as plain integers, parsed here: what the intermediates are recomputed from."""

    def __init__(self, folder: Path) -> None:
        sections = dict(read_sections(folder / "circuit.zkey")[2])
        header = sections[2]
        n8q = struct.unpack_from("<I", header)[0]
        at = 4 + n8q
        n8r = struct.unpack_from("<I", header, at)[0]
        self.r = int.from_bytes(header[at + 4 : at + 4 + n8r], "little")
        at += 4 + n8r
        self.n_vars, self.n_public, self.domain = struct.unpack_from("<III", header, at)
        self.n8q = n8q
        self.coefs = []
        unscale = pow(2, -512, self.r)
        data = sections[4]
        for at in range(4, len(data), 44):
            matrix, row, wire = struct.unpack_from("<III", data, at)
            self.coefs.append(
                (matrix, row, wire, int.from_bytes(data[at + 12 : at + 44], "little") * unscale % self.r)
            )
        values = dict(read_sections(folder / "witness.wtns")[2])[2]
        self.w = [int.from_bytes(values[at : at + 32], "little") for at in range(0, len(values), 32)]
        self.coef_section = data
        self.witness_section = values

    def rows(self) -> tuple[list[int], list[int]]:
        a, b = [0] * self.domain, [0] * self.domain
        for matrix, row, wire, value in self.coefs:
            target = b if matrix else a
            target[row] = (target[row] + value * self.w[wire]) % self.r
        return a, b

    def root(self, n: int) -> int:
        """The primitive n-th root of unity from the non-residue 5, by the definition."""
        root = pow(5, (self.r - 1) // n, self.r)
        assert pow(root, n // 2, self.r) == self.r - 1
        return root

    def h(self) -> list[int]:
        """a*b - c at the odd 2n-th roots by barycentric interpolation: no transform is involved.

        L_j(x) = w^j (x^n - 1) / (n (x - w^j)), and x^n = -1 at the odd roots.
        """
        r, n = self.r, self.domain
        a, b = self.rows()
        c = [x * y % r for x, y in zip(a, b, strict=True)]
        w, w2 = self.root(n) if n > 1 else 1, self.root(2 * n)
        roots = [pow(w, j, r) for j in range(n)]
        scale = -2 * pow(n, -1, r) % r
        out = []
        for i in range(n):
            x = pow(w2, 2 * i + 1, r)
            weights = [root * pow(x - root, -1, r) * scale % r for root in roots]
            at = [sum(v * k for v, k in zip(values, weights, strict=True)) % r for values in (a, b, c)]
            out.append((at[0] * at[1] - at[2]) % r)
        return out
