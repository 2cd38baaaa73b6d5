"""The demo's circuit and keys in a cache folder: made once, checked and reused afterwards."""

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from cuzk_kernels import circuits, keygen
from cuzk_kernels.curves import BLS12_381, Curve
from cuzk_kernels.errors import InputError

if TYPE_CHECKING:
    from cuzk_kernels.backend.protocol import Backend

NATIVE_CONSTRAINTS = 1 << 14
PYTHON_CONSTRAINTS = 1 << 9  # what pure Python sets up and proves in a few seconds
_FORMAT = 1  # part of the folder's name: raise it when the circuit or the files change
_FILES = ("circuit.r1cs", "circuit.zkey", "verification_key.json")
_CHECKSUMS = "sha256.json"


class Demo:
    """The hash chain's files. reused: whether the cache had them; summary: one line for people."""

    def __init__(self, folder: Path, curve: Curve, rounds: int, reused: bool) -> None:
        self.folder, self.curve, self.rounds, self.reused = folder, curve, rounds, reused
        self.r1cs, self.zkey, self.vkey = (folder / name for name in _FILES)
        constraints = circuits.chain_constraint_count(rounds)
        origin = "key from the cache" if reused else "key made now"
        self.summary = (
            f"hash chain of {rounds} rounds, {constraints} constraints over {curve.label}; {origin}"
        )

    def fresh_witness(self) -> Path:
        """Compute a witness for a new random input and key; the path of its .wtns."""
        path = self.folder / "witness.wtns"
        circuits.chain_witness(path, self.curve, self.rounds)
        return path


def demo(
    backend: "Backend", directory: Path, *, constraints: int | None = None, curve: Curve = BLS12_381
) -> Demo:
    """The demo circuit of at least `constraints` rows, its keys made in `directory` unless they are there.

    Without a number the size suits the back end. A folder that was damaged, or half made by a run that was
    killed, is made again; two runs at once each end with a whole one.
    """
    if constraints is None:
        constraints = NATIVE_CONSTRAINTS if backend.name != "python" else PYTHON_CONSTRAINTS
    rounds = circuits.chain_rounds(constraints)
    folder = directory / f"chain-{curve.name}-{rounds}-v{_FORMAT}"
    if _sound(folder):
        return Demo(folder, curve, rounds, reused=True)
    try:
        _make(backend, folder, curve, rounds)
    except OSError as error:
        raise InputError(
            f"{directory}: the demo's files cannot be kept there: {error.strerror} "
            "(XDG_CACHE_HOME names another place)"
        ) from None
    return Demo(folder, curve, rounds, reused=False)


def _make(backend: "Backend", folder: Path, curve: Curve, rounds: int) -> None:
    import shutil  # noqa: PLC0415 (slow to import, needed the first time only)

    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        r1cs, zkey, vkey = (partial / name for name in _FILES)
        circuits.write_chain(r1cs, curve, rounds)
        keygen.make_key(backend, circuits.chain_matrices(curve, rounds), zkey, vkey)
        (partial / _CHECKSUMS).write_text(json.dumps(_checksums(partial)))
        if folder.exists() and not _sound(folder):
            shutil.rmtree(folder)
        try:
            partial.rename(folder)
        except OSError:
            if not _sound(folder):  # else another run was quicker, and its files serve as well
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _checksums(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in _FILES}


def _sound(folder: Path) -> bool:
    """Whether every file is there and as it was written."""
    try:
        return bool(json.loads((folder / _CHECKSUMS).read_text()) == _checksums(folder))
    except (OSError, ValueError):
        return False
