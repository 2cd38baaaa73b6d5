"""Opening and writing files with errors a user can act on."""

import contextlib
import os
from typing import BinaryIO

from cuzk_kernels.errors import InputError

BINARY_KINDS = {b"zkey": "a zkey", b"wtns": "a wtns file", b"r1cs": "an r1cs file"}

_FIRST_BYTES = (
    (b"\x1f\x8b", "this is a gzip file; unpack it first"),
    (b"PK\x03\x04", "this is a zip file; unpack it first"),
    (b"\xfd7zXZ", "this is an xz file; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "this is a zstd file; unpack it first"),
    (b"ptau", "this is a powers of tau file, not a circuit's own key"),
    (b"\0asm", "this is a WebAssembly program"),
)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open for reading; InputError says why not. Pipes and devices are refused: sizes must be known."""
    name = os.fspath(path)
    try:
        if os.path.exists(name) and not os.path.isfile(name):  # noqa: PTH110, PTH113 (pathlib is slow to load)
            kind = "a folder" if os.path.isdir(name) else "not a regular file"  # noqa: PTH112
            raise InputError(f"{name}: this is {kind}; a file is needed")
        return open(name, "rb")  # noqa: PTH123 (the caller closes it)
    except FileNotFoundError:
        raise InputError(f"{name}: no such file; check the path") from None
    except PermissionError:
        raise InputError(f"{name}: no permission to read it") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: cannot be opened: {getattr(error, 'strerror', None) or error}") from None


def write_atomically(path: str | os.PathLike[str], chunks: "list[bytes]") -> None:
    """Write beside the place and rename, so the name never shows a partial file."""
    name = os.fspath(path)
    partial = f"{name}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:  # noqa: PTH123
            file.writelines(chunks)
        os.replace(partial, name)  # noqa: PTH105
    except OSError as error:
        remove_quietly(partial)
        raise InputError(f"{name}: cannot be written: {error.strerror or error}") from None
    except BaseException:
        remove_quietly(partial)
        raise


def remove_quietly(name: str) -> None:
    with contextlib.suppress(OSError):  # it was never made, or is already gone
        os.unlink(name)  # noqa: PTH108


def recognise(head: bytes) -> str | None:
    """What a file that should be something else looks like, with the remedy, from its first bytes."""
    for first, text in _FIRST_BYTES:
        if head.startswith(first):
            return text
    kind = BINARY_KINDS.get(head[:4])
    if kind:
        return f"this is {kind}; the arguments may be swapped"
    text_start = head.lstrip()[:1]
    if text_start == b"<":
        return "it looks like an HTML page, perhaps a download's error message; download it again"
    if text_start in (b"{", b"["):
        return "this is JSON text; a binary file is needed"
    return None
