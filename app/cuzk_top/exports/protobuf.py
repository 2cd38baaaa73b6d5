"""Protocol buffers for millions of messages of one shape: numpy writes the bytes of all of them at once.

A varint may be longer than it has to be, so every field of a shape gets one width and every message of the
shape one length. Wire format: https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def varint(value: int) -> bytes:
    """One number, as short as it can be; negative ones as 64-bit two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def number(field: int, value: int) -> bytes:
    """A varint field."""
    return varint(field << 3) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    """A string, bytes or message field."""
    data = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


@dataclass(frozen=True, slots=True)
class Numbers:
    """A varint field of many messages: uint64 (negative numbers as two's complement)."""

    field: int
    values: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fixed64 or double field of many messages: their 64 bits."""

    field: int
    values: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Nested:
    """A message field of many messages."""

    field: int
    parts: Sequence[Part]


Part = Numbers | Fixed | Nested | bytes
"""Part of a message: bytes are the same in all of them."""


def messages(count: int, parts: Sequence[Part]) -> Bytes:
    """All messages, uint8[count, length]."""
    made = [_part(count, part) for part in parts]
    return np.concatenate(made, axis=1) if made else np.empty((count, 0), np.uint8)


def _part(count: int, part: Part) -> Bytes:
    if isinstance(part, bytes):
        return np.broadcast_to(np.frombuffer(part, np.uint8), (count, len(part)))
    if isinstance(part, Nested):
        content = messages(count, part.parts)
        head = varint(part.field << 3 | 2) + varint(content.shape[1])
        return np.concatenate([_part(count, head), content], axis=1)
    if isinstance(part, Fixed):
        data = np.ascontiguousarray(part.values, dtype="<u8").view(np.uint8).reshape(count, 8)
        return np.concatenate([_part(count, varint(part.field << 3 | 1)), data], axis=1)
    return np.concatenate([_part(count, varint(part.field << 3)), _varints(part.values)], axis=1)


def _varints(values: NDArray[np.uint64]) -> Bytes:
    """Varints of one width, that of the largest."""
    width = len(varint(int(values.max()))) if len(values) else 1
    made = np.empty((len(values), width), np.uint8)
    for place in range(width):
        made[:, place] = (values >> np.uint64(7 * place)).astype(np.uint8)
    made &= 0x7F
    made[:, :-1] |= 0x80
    return made


def interleaved(shapes: Sequence[tuple[NDArray[np.intp], Bytes]], count: int) -> Bytes:
    """Messages of several shapes in one row of bytes: each shape with the places of its messages in it."""
    lengths = np.zeros(count, np.int64)
    for places, made in shapes:
        lengths[places] = made.shape[1]
    starts = np.cumsum(lengths) - lengths
    out = np.empty(int(lengths.sum()), np.uint8)
    for places, made in shapes:
        length = made.shape[1]
        if length and len(places):
            np.put(out, (starts[places][:, None] + np.arange(length)).ravel(), made)
    return out
