"""Reading the JSON files around a proof: numbers and points with errors that name their place."""

import json
import os
from typing import Any

from cuzk_kernels import curves
from cuzk_kernels.curves import Curve, Point
from cuzk_kernels.errors import InputError
from cuzk_kernels.formats import files

MAX_BYTES = 1 << 28  # far above any key's JSON: a wrong file is refused before it is read
_MAX_DIGITS = 1000
_MAX_DEPTH = 32  # the files nest 4 deep
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class JsonFile:
    """A parsed file and its name for messages."""

    def __init__(self, path: str | os.PathLike[str], kind: str) -> None:
        self.path = os.fspath(path)
        with files.open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise self.error(f"the file is empty, not {kind}")
            if size > MAX_BYTES:
                raise self.error(f"{size} bytes are too many for {kind}")
            text = file.read()
        if text[:3] == b"\xef\xbb\xbf":  # a byte order mark some editors leave
            text = text[3:]
        if _depth(text) > _MAX_DEPTH:
            raise self.error(f"not valid JSON for {kind}: nested more than {_MAX_DEPTH} deep")
        try:
            self.data: Any = json.loads(text)
        except ValueError as error:
            known = files.recognise(text[:64])
            if known and not known.startswith("this is JSON"):
                raise self.error(f"not {kind}: {known}") from None
            place = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "a byte or number"
            raise self.error(f"not valid JSON ({place}); {kind} is needed") from None

    def error(self, text: str) -> InputError:
        return InputError(f"{self.path}: {text}")

    def require_object(self, kind: str) -> dict[str, Any]:
        if not isinstance(self.data, dict):
            raise self.error(f"{kind} should hold an object, it holds {describe(self.data)}")
        return self.data

    def number(self, value: Any, place: str) -> int:
        """A whole number that is not negative, as a decimal string (snarkjs's form) or a JSON integer."""
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS:
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        raise self.error(f"{place} is not a number: {describe(value)}")

    def point(self, data: dict[str, Any], key: str, group: int) -> Point:
        """The point under `key`: [x, y, z], for G2 with pairs for numbers; z is 1, or 0 for infinity."""
        if key not in data:
            raise self.error(f"{key} is missing")
        return self.point_value(data[key], key, group)

    def point_value(self, value: Any, place: str, group: int) -> Point:
        numbers = "numbers" if group == 1 else "pairs of numbers"
        if not isinstance(value, list) or len(value) not in (2, 3):
            raise self.error(f"{place} should be a list of 3 {numbers}, it is {describe(value)}")
        x, y, *rest = (self._coordinate(entry, place, group) for entry in value)
        zero, one = (0, 1) if group == 1 else ((0, 0), (1, 0))
        z = rest[0] if rest else one
        if z == zero:
            return None
        if z != one:
            raise self.error(
                f"{place} is not in affine form: its third entry should be 1 (or 0 for infinity)"
            )
        return x, y

    def _coordinate(self, value: Any, place: str, group: int) -> Any:
        if group == 1:
            return self.number(value, f"a coordinate of {place}")
        if not isinstance(value, list) or len(value) != 2:
            raise self.error(f"a coordinate of {place} should be a pair of numbers, it is {describe(value)}")
        return tuple(self.number(entry, f"a coordinate of {place}") for entry in value)

    def curve(self, data: dict[str, Any]) -> Curve | None:
        """The curve the file names, or None where it names none (old snarkjs, rapidsnark)."""
        name = data.get("curve")
        if name is None:
            return None
        curve = curves.by_snarkjs_name(name) if isinstance(name, str) else None
        if curve is None:
            raise self.error(f"unknown curve {describe(name)}; supported: {curves.SUPPORTED}")
        return curve

    def require_groth16(self, data: dict[str, Any], kind: str) -> None:
        protocol = data.get("protocol", "groth16")
        if protocol != "groth16":
            raise self.error(f"this is {kind} for {describe(protocol)}; one for Groth16 is needed")


def _depth(text: bytes) -> int:
    """How deep brackets nest. json recurses on the C stack, and py_ecc lifts the limit that would stop it."""
    depth = deepest = 0
    for bracket in text.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def describe(value: Any) -> str:
    """A JSON value in a few words."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    try:
        text = json.dumps(value)
    except ValueError:  # an integer too long for Python to print
        return "a very long number"
    return text if len(text) <= 40 else f"{text[:37]}..."


def write(path: str | os.PathLike[str], data: Any) -> None:
    """Write atomically, laid out as snarkjs does."""
    files.write_atomically(path, [json.dumps(data, indent=1).encode(), b"\n"])


def point_strings(group: int, point: Point) -> list[Any]:
    """A point as snarkjs writes it: decimal strings, third entry 1, or 0, 1, 0 for infinity."""
    if group == 1:
        return [str(v) for v in ((0, 1, 0) if point is None else (*point, 1))]
    triple = ((0, 0), (1, 0), (0, 0)) if point is None else (*point, (1, 0))
    return [[str(v) for v in pair] for pair in triple]
