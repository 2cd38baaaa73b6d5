"""public.json: a list of decimal strings, the values of wires 1 to nPublic."""

import os
from collections.abc import Sequence

from cuzk_kernels.formats import jsonfile


class Public(list[int]):
    """Public values and the file they came from."""

    path = "the public values"


def open(path: str | os.PathLike[str]) -> Public:
    """Read public values; the verifier checks their number and range against the key."""
    file = jsonfile.JsonFile(path, "a list of public values")
    if not isinstance(file.data, list):
        raise file.error(f"public.json should hold a list, it holds {jsonfile.describe(file.data)}")
    values = Public(file.number(value, f"public value {index}") for index, value in enumerate(file.data))
    values.path = file.path
    return values


def write(path: str | os.PathLike[str], values: Sequence[int]) -> None:
    """Write public values atomically."""
    jsonfile.write(path, [str(value) for value in values])
